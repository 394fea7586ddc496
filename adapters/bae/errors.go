package bae

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/transports/jsonx"
)

// problem is the answer of a route that refuses, in the form of RFC 7807.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

func (p *problem) Error() string { return p.Type + ": " + p.Detail }

// statuses are the problem types of the protocol, and those that HTTP needs.
var statuses = map[string]int{
	"unauthorized":                 http.StatusUnauthorized,
	"forbidden":                    http.StatusForbidden,
	"not_found":                    http.StatusNotFound,
	"method_not_allowed":           http.StatusMethodNotAllowed,
	"bad_request":                  http.StatusBadRequest,
	"payload_too_large":            http.StatusRequestEntityTooLarge,
	"tool_not_allowed":             http.StatusForbidden,
	"profile_mismatch":             http.StatusForbidden,
	"session_closed":               http.StatusConflict,
	"duplicate_name":               http.StatusConflict,
	"profile_in_use":               http.StatusConflict,
	"profile_unavailable":          http.StatusUnprocessableEntity,
	"primary_provider_unavailable": http.StatusUnprocessableEntity,
	"invalid_subagent_tools":       http.StatusUnprocessableEntity,
	"reserved_tool_name":           http.StatusUnprocessableEntity,
	"internal":                     http.StatusInternalServerError,
	"unavailable":                  http.StatusServiceUnavailable,
}

func refuse(kind, format string, args ...any) *problem {
	status := statuses[kind]
	return &problem{Type: kind, Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, args...)}
}

// The codes of JSON-RPC errors.
const (
	codeParse          = -32700
	codeRequest        = -32600
	codeMethod         = -32601
	codeParams         = -32602
	codeInternal       = -32603
	codeState          = -32000
	codeDriver         = -32001
	codeImage          = -32011
	codeSandboxStart   = -32012
	codeSandboxStopped = -32013
	codeSubagent       = -32014
	codeTool           = -32015
)

// rpcError is a JSON-RPC error.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string { return e.Message }

func fail(code int, format string, args ...any) *rpcError {
	return &rpcError{code, fmt.Sprintf(format, args...)}
}

// slugs lead the message of the codes that have one.
func slug(code int, name, format string, args ...any) *rpcError {
	return &rpcError{code, name + ": " + fmt.Sprintf(format, args...)}
}

// public says what a client is told of an error: the problem type and the code
// it becomes, and words without internals. The rest is for the log.
func public(err error) (kind string, code int, text string, known bool) {
	switch {
	case errors.Is(err, host.ErrNotFound):
		return "not_found", codeState, "the session is gone", true
	case errors.Is(err, host.ErrClosed), errors.Is(err, errOver):
		return "unavailable", codeState, "the gateway is stopping or the session is gone", true
	case errors.Is(err, host.ErrTooLarge):
		return "bad_request", codeParams, "the request is over a limit of the gateway", true
	case errors.Is(err, host.ErrUnsupported):
		return "bad_request", codeState, "the agent cannot do that", true
	case errors.Is(err, host.ErrNoBackend):
		return "primary_provider_unavailable", codeState, "the profile's agent is not there", true
	case errors.Is(err, host.ErrBusy):
		return "unavailable", codeState, "a turn is running", true
	case errors.Is(err, host.ErrInvalid):
		return "bad_request", codeParams, "the request does not fit the session", true
	case errors.Is(err, host.ErrBadDir):
		return "internal", codeState, "the working directory is not there", true
	case errors.Is(err, errQueueFull):
		return "bad_request", codeState, err.Error(), true
	case errors.Is(err, errTooMany):
		return "bad_request", codeState, "too many entries", true
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "unavailable", codeInternal, "the request took too long", true
	}
	return "internal", codeInternal, "internal error", false
}

// problemOf is what a REST client is told of an error.
func (f *Front) problemOf(err error) *problem {
	var p *problem
	if errors.As(err, &p) {
		return p
	}
	kind, _, text, known := public(err)
	if !known {
		f.log.Error("A BAE request failed", "err", err)
	}
	return refuse(kind, "%s", text)
}

// rpcErrorOf is what a JSON-RPC client is told of an error.
func (f *Front) rpcErrorOf(err error) *rpcError {
	var e *rpcError
	if errors.As(err, &e) {
		return e
	}
	_, code, text, known := public(err)
	if !known {
		f.log.Error("A BAE call failed", "err", err)
	}
	return fail(code, "%s", text)
}

// decode reads a JSON object from a client; the error names the wrong field.
func decode(data []byte, v any) error {
	return jsonx.DecodeChecked(data, v)
}

// check judges a document before anything is read from it.
func check(data []byte) error { return jsonx.Check(data, maxBody, maxDepth) }

// isObject reports whether a checked document is an object.
func isObject(data json.RawMessage) bool { return jsonx.Kind(data) == "object" }
