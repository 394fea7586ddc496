package wiretest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// pattern is a JSON value in which some strings are wildcards.
type pattern struct {
	value any
	exact bool // no object may have members that the pattern lacks
}

// decode reads the first JSON value of s and returns what follows it.
func decode(s string) (value any, rest string, err error) {
	dec := json.NewDecoder(strings.NewReader(s))
	dec.UseNumber()
	if err := dec.Decode(&value); err != nil {
		return nil, "", fmt.Errorf("want JSON: %w", err)
	}
	return value, strings.TrimSpace(s[dec.InputOffset():]), nil
}

// newPattern reads a pattern that is all of s.
func newPattern(s string, exact bool) (pattern, error) {
	v, rest, err := decode(s)
	if err == nil && rest != "" {
		err = fmt.Errorf("text after the pattern: %q", rest)
	}
	if err == nil {
		err = checkWildcards(v)
	}
	return pattern{v, exact}, err
}

var wildcardForm = regexp.MustCompile(`^\$(\$.*|\.\.\.|has|absent|([A-Za-z]\w*=)?(any|str|num|int|bool|obj|arr|uuid|time|re:.*)?)$`)

// checkWildcards refuses what could never match, so that a slip is told at once.
func checkWildcards(v any) error {
	switch v := v.(type) {
	case string:
		if !strings.HasPrefix(v, "$") {
			return nil
		}
		if v == "$" || !wildcardForm.MatchString(strings.ReplaceAll(v, "\n", " ")) {
			return fmt.Errorf("%q is not a wildcard", v)
		}
		if _, re, ok := strings.Cut(v, "re:"); ok {
			_, err := regexp.Compile(re)
			return err
		}
	case []any:
		for _, e := range v {
			if err := checkWildcards(e); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, e := range v {
			if err := checkWildcards(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// match compares data, which need not be JSON, with the pattern. On success it
// returns the captured variables.
func (p pattern) match(data []byte) (map[string]any, error) {
	var got any
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(&got); err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("more than one JSON value")
	}
	caps := map[string]any{}
	return caps, p.compare(p.value, got, "", caps)
}

func differ(path, format string, args ...any) error {
	if path == "" {
		path = "the frame"
	}
	return fmt.Errorf("%s: %s", strings.TrimPrefix(path, "."), fmt.Sprintf(format, args...))
}

func text(v any) string {
	b, _ := json.Marshal(v)
	return cut(string(b))
}

func (p pattern) compare(want, got any, path string, caps map[string]any) error {
	switch want := want.(type) {
	case map[string]any:
		return p.compareObject(want, got, path, caps)
	case []any:
		return p.compareArray(want, got, path, caps)
	case string:
		if strings.HasPrefix(want, "$") {
			return wildcard(want[1:], got, path, caps)
		}
		if got != want {
			return differ(path, "want %s, got %s", text(want), text(got))
		}
	case json.Number:
		n, ok := got.(json.Number)
		if !ok || n != want && !equalNumbers(n, want) {
			return differ(path, "want %s, got %s", want, text(got))
		}
	default: // true, false, null
		if got != want {
			return differ(path, "want %s, got %s", text(want), text(got))
		}
	}
	return nil
}

func equalNumbers(a, b json.Number) bool {
	x, err1 := a.Float64()
	y, err2 := b.Float64()
	return err1 == nil && err2 == nil && x == y
}

func (p pattern) compareObject(want map[string]any, got any, path string, caps map[string]any) error {
	obj, ok := got.(map[string]any)
	if !ok {
		return differ(path, "want an object, got %s", text(got))
	}
	exact := p.exact || want["$exact"] == true
	for k, w := range want {
		if k == "$exact" {
			continue
		}
		g, there := obj[k]
		switch {
		case w == "$absent" && there:
			return differ(path+"."+k, "must be absent, got %s", text(g))
		case w == "$absent":
		case !there:
			return differ(path+"."+k, "is missing")
		default:
			if err := p.compare(w, g, path+"."+k, caps); err != nil {
				return err
			}
		}
	}
	if exact {
		for k := range obj {
			if _, there := want[k]; !there {
				return differ(path+"."+k, "is not expected")
			}
		}
	}
	return nil
}

// compareArray compares element by element. ["$has", x, y] wants x and y
// somewhere, in this order; a last "$..." allows any more elements.
func (p pattern) compareArray(want []any, got any, path string, caps map[string]any) error {
	arr, ok := got.([]any)
	if !ok {
		return differ(path, "want an array, got %s", text(got))
	}
	if len(want) > 0 && want[0] == "$has" {
		from := 0
		for _, w := range want[1:] {
			found := false
			for !found && from < len(arr) {
				trial := map[string]any{}
				found = p.compare(w, arr[from], path, trial) == nil
				if found {
					for k, v := range trial {
						caps[k] = v
					}
				}
				from++
			}
			if !found {
				return differ(path, "has no element (left) like %s", text(w))
			}
		}
		return nil
	}
	open := len(want) > 0 && want[len(want)-1] == "$..."
	if open {
		want = want[:len(want)-1]
	}
	if len(arr) < len(want) || !open && len(arr) > len(want) {
		return differ(path, "want %d elements, got %d", len(want), len(arr))
	}
	for i, w := range want {
		if err := p.compare(w, arr[i], path+"["+strconv.Itoa(i)+"]", caps); err != nil {
			return err
		}
	}
	return nil
}

var (
	captureForm = regexp.MustCompile(`(?s)^([A-Za-z][A-Za-z0-9_]*)=(.*)$`)
	uuidForm    = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
)

// wildcard compares with what stands behind the dollar sign.
func wildcard(w string, got any, path string, caps map[string]any) error {
	if strings.HasPrefix(w, "$") { // a literal that begins with a dollar sign
		if got != w {
			return differ(path, "want %s, got %s", text(w), text(got))
		}
		return nil
	}
	re, isRegexp := strings.CutPrefix(w, "re:")
	if m := captureForm.FindStringSubmatch(w); m != nil && !isRegexp {
		kind := m[2]
		if kind == "" {
			kind = "any"
		}
		if err := wildcard(kind, got, path, caps); err != nil {
			return err
		}
		caps[m[1]] = got
		return nil
	}
	str, isStr := got.(string)
	num, isNum := got.(json.Number)
	ok := false
	switch {
	case isRegexp:
		form, err := regexp.Compile(re)
		if err != nil {
			return err
		}
		if !isStr {
			b, _ := json.Marshal(got)
			str = string(b)
		}
		ok = form.MatchString(str)
	case w == "any":
		ok = true
	case w == "str":
		ok = isStr
	case w == "num":
		ok = isNum
	case w == "int":
		_, err := num.Int64()
		ok = isNum && err == nil
	case w == "bool":
		_, ok = got.(bool)
	case w == "obj":
		_, ok = got.(map[string]any)
	case w == "arr":
		_, ok = got.([]any)
	case w == "uuid":
		ok = isStr && uuidForm.MatchString(str)
	case w == "time":
		_, err := time.Parse(time.RFC3339Nano, str)
		ok = isStr && err == nil
	default:
		return fmt.Errorf("%q is not a wildcard", "$"+w)
	}
	if !ok {
		return differ(path, "want $%s, got %s", w, text(got))
	}
	return nil
}

// lookup finds a value by a path like .params.items[0].text; nil when it is
// not there.
func lookup(v any, path string) any {
	for _, part := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		switch x := v.(type) {
		case map[string]any:
			v = x[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(x) {
				return nil
			}
			v = x[i]
		default:
			return nil
		}
	}
	return v
}

func cut(s string) string {
	if len(s) > shownBytes {
		return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(s[:shownBytes], ""), len(s))
	}
	return s
}
