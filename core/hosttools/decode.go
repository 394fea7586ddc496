package hosttools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/polyhost/polyhost/core/host"
)

// decode reads the arguments of a call strictly: an object, no key that the tool
// has not, all that have to be there. Fields that have to are marked so:
// `need:"yes"`.
func decode(raw json.RawMessage, into any) error {
	if len(raw) > maxInput {
		return sayf("the arguments have %d bytes, at most %d", len(raw), maxInput)
	}
	if err := shallow(raw); err != nil {
		return err
	}
	var there map[string]json.RawMessage
	if err := json.Unmarshal(raw, &there); err != nil || there == nil {
		return sentence("the arguments are no JSON object")
	}
	known := map[string]bool{}
	t := reflect.TypeOf(into).Elem()
	for i := range t.NumField() {
		name := t.Field(i).Tag.Get("json")
		known[name] = true
		value, ok := there[name]
		if ok && bytes.Equal(bytes.TrimSpace(value), []byte("null")) {
			return sayf("%s is null: leave it out or give a value", name)
		}
		if !ok && t.Field(i).Tag.Get("need") != "" {
			return sayf("%s is missing", name)
		}
	}
	for name := range there { // not by the decoder, which takes other cases too
		if !known[name] {
			return sayf("there is no argument %.80q", name)
		}
	}
	var kind *json.UnmarshalTypeError
	if err := json.Unmarshal(raw, into); errors.As(err, &kind) {
		return sayf("%s cannot be a %s", kind.Field, kind.Value)
	} else if err != nil {
		return sentence("the arguments are not what the tool's schema says")
	}
	return nil
}

// shallow refuses what nests too deep.
func shallow(raw json.RawMessage) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	for depth := 0; ; {
		t, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return sentence("the arguments are no JSON")
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			if depth++; depth > maxDepth {
				return sayf("the arguments nest more than %d deep", maxDepth)
			}
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
}

// one checks a word against those that there are; "" is none.
func one(what, word string, of ...string) error {
	for _, w := range of {
		if w == word {
			return nil
		}
	}
	return sayf("%s is none of %s", what, strings.Join(of, ", "))
}

// sentence is an error that is meant for the agent.
type sentence string

func (s sentence) Error() string { return string(s) }

// Refused is an error that an agent reads as it stands.
func Refused(words string) error { return sentence(words) }

func sayf(format string, args ...any) error { return sentence(fmt.Sprintf(format, args...)) }

// said is an error as the agent may read it: what the tool or the host refuses,
// in words. Anything else is the gateway's own affair.
func said(err error) (error, bool) {
	var words sentence
	if errors.As(err, &words) {
		return words, true
	}
	for _, known := range []error{host.ErrNotFound, host.ErrExists, host.ErrBadDir, host.ErrBusy, host.ErrInvalid, host.ErrTooLarge,
		host.ErrClosed, host.ErrNoBackend, host.ErrUnsupported} {
		if errors.Is(err, known) {
			return err, true
		}
	}
	return sentence("the gateway could not do that"), false
}
