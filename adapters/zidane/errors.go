package zidane

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/transports/jsonrpc"
)

// The protocol's own error codes beside those of JSON-RPC.
const (
	codeVersionMismatch   = -32010
	codeHandshakeRequired = -32011
	codeForbidden         = -32012 // the token's scope does not reach
	codeResponseTooLarge  = -32013
	codeHandlerFailed     = -32014
	codeMachineConnection = -32040
)

// coreErrors is what a client reads for an error of the core. The protocol has
// one code for whatever a handler could not do.
var coreErrors = []struct {
	is   error
	text string
	// told: the error's own text is written for people and goes along.
	told bool
}{
	{is: host.ErrResolved, text: "It was already answered."},
	{is: host.ErrNotFound, text: "Not found."},
	{is: host.ErrExists, text: "That id is taken."},
	{is: host.ErrBadDir, told: true},
	{is: host.ErrBusy, text: "A run is going."},
	{is: host.ErrInvalid, told: true},
	{is: host.ErrTooLarge, told: true},
	{is: host.ErrUnsupported, told: true},
	{is: host.ErrNoBackend, told: true},
	{is: host.ErrClosed, text: "The server is stopping."},
	{is: context.Canceled, text: "The request was cancelled."}, // its connection is gone: no fault of ours
}

// mapError turns an error of a handler into the protocol's; nil means that it
// must not be shown.
func mapError(_ string, err error) *jsonrpc.Error {
	for _, row := range coreErrors {
		if !errors.Is(err, row.is) {
			continue
		}
		if row.told {
			return failed("%s", sentence(err.Error()))
		}
		return failed("%s", row.text)
	}
	return nil
}

// failed is the error of a handler that could not do what it was asked.
func failed(format string, args ...any) *jsonrpc.Error {
	return jsonrpc.Errorf(codeHandlerFailed, format, args...)
}

// badField is the error of a field whose type fits and whose value does not.
func badField(field, format string, args ...any) *jsonrpc.Error {
	return jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "invalid params: %s: %s", field, fmt.Sprintf(format, args...))
}

func noSession(id string) *jsonrpc.Error {
	return failed("Session \"%s\" not found. Create the session before sending a prompt.", shown(id))
}

// shown cuts what a client sent to what an error may repeat.
func shown(s string) string {
	if len(s) > maxShownID {
		return strings.ToValidUTF8(s[:maxShownID], "") + "…"
	}
	return s
}

// sentence begins a text with a capital and ends it with a full stop.
func sentence(s string) string {
	if s == "" {
		return s
	}
	s = strings.ToUpper(s[:1]) + s[1:]
	if !strings.HasSuffix(s, ".") {
		s += "."
	}
	return s
}

// responseTooLarge is the error of an answer that was not built to its end.
var responseTooLarge = &jsonrpc.Error{Code: codeResponseTooLarge,
	Message: fmt.Sprintf("The answer would be larger than the %d bytes that one message may carry. Ask for less.", maxAnswer)}
