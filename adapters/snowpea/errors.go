package snowpea

import (
	"context"
	"errors"
	"fmt"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/policy"
	"github.com/polyhost/polyhost/transports/jsonrpc"
)

// The words of the protocol's errors that this front gives.
const (
	codeUnauthorized   = "unauthorized"
	codeIncompatible   = "protocol_incompatible"
	codeNoMethod       = "method_not_found"
	codeNotImplemented = "not_implemented"
	codeInvalid        = "invalid_params"
	codeNotFound       = "not_found"
	codeUnavailable    = "unavailable"
	codeInternal       = "internal"
	codeBusy           = "session_busy"
	codeLogin          = "login_unsupported"
	codeMCPNotFound    = "mcp_not_found"
	codeInactive       = "tool_inactive"
)

// errorData is the data member of every error but parse and batch errors.
type errorData struct {
	Code    string `json:"code"`
	Details any    `json:"details,omitempty"`
}

// fail makes an error of the protocol.
func fail(code, format string, args ...any) *jsonrpc.Error {
	return failWith(code, nil, format, args...)
}

func failWith(code string, details any, format string, args ...any) *jsonrpc.Error {
	number, ok := surface.Errors[code]
	if !ok {
		panic("snowpea: no error " + code)
	}
	return &jsonrpc.Error{Code: number, Message: fmt.Sprintf(format, args...), Data: errorData{code, details}}
}

// invalid is invalid_params about one field.
func invalid(field, format string, args ...any) *jsonrpc.Error {
	msg := fmt.Sprintf(format, args...)
	return failWith(codeInvalid, []violation{{Loc: []any{field}, Msg: msg, Type: "value_error"}}, "%s: %s", field, msg)
}

// unavailable says why a thing of the protocol cannot be had here.
func unavailable(reason string) *jsonrpc.Error {
	return failWith(codeUnavailable, map[string]string{"reason": reason}, "%s", reason)
}

// coreErrors is the one table from the core's errors to the protocol's words.
// The texts of these errors are written for clients.
var coreErrors = []struct {
	err  error
	code string
}{
	{host.ErrNotFound, codeNotFound},
	{host.ErrResolved, codeNotFound},
	{host.ErrBadDir, codeInvalid},
	{host.ErrInvalid, codeInvalid},
	{host.ErrExists, codeInvalid},
	{host.ErrTooLarge, codeInvalid},
	{host.ErrNoBackend, codeInvalid},
	{policy.ErrPattern, codeInvalid},
	{host.ErrBusy, codeBusy},
	{host.ErrUnsupported, codeUnavailable},
	{host.ErrClosed, codeUnavailable},
}

// public turns an error of the core into what a client may know of it; nil for
// what it may not.
func public(err error) *jsonrpc.Error {
	for _, row := range coreErrors {
		if errors.Is(err, row.err) {
			var details any
			if row.code == codeUnavailable {
				details = map[string]string{"reason": err.Error()}
			}
			return failWith(row.code, details, "%s", err.Error())
		}
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return fail(codeUnavailable, "the request was given up")
	}
	return nil
}

// eventCode is the word of an error event for an error of a turn.
func eventCode(code string) string {
	switch code {
	case event.CodeAgentStart:
		return codeUnavailable
	case event.CodeBadAttachment:
		return codeInvalid
	}
	if _, ok := surface.Errors[code]; ok {
		return code
	}
	return codeInternal
}
