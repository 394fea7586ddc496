package cognitio

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/transports/jsonx"
)

// apiError is an answer that says why a request was not done. Its body carries
// the fields of both servers of this family: name and data, and for refused
// bodies errors and success.
type apiError struct {
	status  int
	name    string
	message string
	// kind is which part of a request was refused: Payload, Params, Query.
	kind  string
	field string
	// tag and request name a permission or question that is not pending.
	tag, request string
}

func (e *apiError) Error() string { return e.message }

// body is the JSON of the error.
func (e *apiError) body() any {
	data := map[string]any{"message": e.message}
	out := map[string]any{"name": e.name, "data": data}
	if e.status == http.StatusBadRequest {
		if e.kind != "" {
			data["kind"] = e.kind
		}
		first := map[string]any{"message": e.message}
		if e.field != "" {
			first["path"] = []string{e.field}
		}
		out["errors"], out["success"] = []any{first}, false
	}
	if e.tag != "" {
		out["_tag"], out["requestID"], out["message"] = e.tag, e.request, e.message
	}
	return out
}

func badPayload(field, format string, args ...any) *apiError {
	return &apiError{status: http.StatusBadRequest, name: "BadRequest", kind: "Payload", field: field, message: fmt.Sprintf(format, args...)}
}

func badParam(field, format string, args ...any) *apiError {
	e := badPayload(field, format, args...)
	e.kind = "Params"
	return e
}

func badQuery(field, format string, args ...any) *apiError {
	e := badPayload(field, format, args...)
	e.kind = "Query"
	return e
}

func notFound(format string, args ...any) *apiError {
	return &apiError{status: http.StatusNotFound, name: "NotFoundError", message: fmt.Sprintf(format, args...)}
}

func notServed(format string, args ...any) *apiError {
	return &apiError{status: http.StatusNotImplemented, name: "NotImplementedError", message: fmt.Sprintf(format, args...)}
}

// coreErrors is the one table from the core's errors to answers. Only errors
// whose text is made for clients show it.
var coreErrors = []struct {
	err    error
	status int
	name   string
	text   string // "" shows the error's own
}{
	{host.ErrNotFound, http.StatusNotFound, "NotFoundError", "Not found"},
	{host.ErrResolved, http.StatusNotFound, "NotFoundError", "Already answered"},
	{host.ErrBadDir, http.StatusBadRequest, "BadRequest", ""},
	{host.ErrNoBackend, http.StatusBadRequest, "BadRequest", ""},
	{host.ErrInvalid, http.StatusBadRequest, "BadRequest", ""},
	{host.ErrExists, http.StatusConflict, "ConflictError", "Already exists"},
	{host.ErrBusy, http.StatusConflict, "ConflictError", "A turn is running"},
	{host.ErrTooLarge, http.StatusRequestEntityTooLarge, "TooLargeError", ""},
	{host.ErrUnsupported, http.StatusNotImplemented, "NotImplementedError", ""},
	{host.ErrClosed, http.StatusServiceUnavailable, "UnavailableError", "The server is stopping"},
	{context.DeadlineExceeded, http.StatusGatewayTimeout, "TimeoutError", "The request took too long"},
	{context.Canceled, http.StatusServiceUnavailable, "UnavailableError", "The request was cancelled"},
	{jsonx.ErrTooLong, http.StatusRequestEntityTooLarge, "TooLargeError", "The body is too long"},
	{jsonx.ErrTooDeep, http.StatusBadRequest, "BadRequest", "The body nests too deeply"},
	{jsonx.ErrNotUTF8, http.StatusBadRequest, "BadRequest", "The body is not UTF-8"},
	{jsonx.ErrMalformed, http.StatusBadRequest, "BadRequest", "The body is not JSON"},
}

// answerFor makes an answer of any error.
func answerFor(err error, log *slog.Logger, op string) *apiError {
	var own *apiError
	if errors.As(err, &own) {
		return own
	}
	var field *jsonx.FieldError
	if errors.As(err, &field) {
		return badPayload(field.Path, "%s", field.Error())
	}
	for _, row := range coreErrors {
		if errors.Is(err, row.err) {
			text := row.text
			if text == "" {
				text = err.Error()
			}
			return &apiError{status: row.status, name: row.name, message: text, kind: "Payload"}
		}
	}
	log.Error("request failed", "operation", op, "err", err)
	return &apiError{status: http.StatusInternalServerError, name: "UnknownError", message: "Unexpected server error. See the server's log."}
}

// turnError is the error that a turn's last message carries.
func turnError(s event.TurnStatus, e *event.Error) *wireError {
	if s == event.TurnCancelled {
		return &wireError{Name: "MessageAbortedError", Data: errorData{Message: "Aborted"}}
	}
	if e == nil {
		return &wireError{Name: "UnknownError", Data: errorData{Message: "The turn failed"}}
	}
	if e.Retryable {
		yes := true
		return &wireError{Name: "APIError", Data: errorData{Message: e.Message, IsRetryable: &yes}}
	}
	return &wireError{Name: "UnknownError", Data: errorData{Message: e.Message}}
}
