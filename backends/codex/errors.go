package codex

import (
	"encoding/json"
	"strings"

	"github.com/polyhost/polyhost/backends/internal/failure"
	"github.com/polyhost/polyhost/core/event"
)

// wentWrong is a turn's error with its code and the program's own words.
func wentWrong(e *turnError) *event.Error {
	if e == nil {
		return &event.Error{Code: event.CodeAgentError, Message: "codex failed without saying why"}
	}
	word, status := e.kind()
	text := e.Message
	if e.Details != "" && !strings.Contains(text, e.Details) {
		text += ": " + e.Details
	}
	out := &event.Error{Code: codeOf(word, status, text), Message: inner(text)}
	out.Retryable = failure.Retryable(out.Code)
	return out
}

// inner is the message in the body of an HTTP error, which the program gives as
// it is; other texts stay.
func inner(text string) string {
	var body struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal([]byte(text), &body) == nil && body.Error.Message != "" {
		return body.Error.Message
	}
	return text
}

func codeOf(word string, status int, text string) string {
	switch {
	case status >= 400:
		return failure.Code(status, text)
	case strings.Contains(text, "content_filter"):
		return event.CodeRefusal
	case strings.Contains(text, "max_output_tokens"):
		return event.CodeMaxTokens
	}
	switch word {
	case "contextWindowExceeded":
		return event.CodeOverflow
	case "usageLimitExceeded", "rateLimitExceeded", "sessionBudgetExceeded":
		return event.CodeRateLimited
	case "serverOverloaded", "internalServerError", "flexUnavailable", "policyCapacityUnavailable":
		return event.CodeOverloaded
	case "unauthorized":
		return event.CodeAuth
	case "badRequest", "modelNotFound":
		return event.CodeBadRequest
	case "cyberPolicy", "bioPolicy", "misalignmentPolicyViolation":
		return event.CodeRefusal
	case "responseStreamDisconnected", "responseStreamConnectionFailed":
		return event.CodeCutStream
	}
	// Some failures are told in words alone.
	if strings.HasPrefix(text, `{"error"`) { // the body of an HTTP 400
		return failure.Code(400, text)
	}
	return failure.Code(0, text)
}
