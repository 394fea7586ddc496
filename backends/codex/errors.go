package codex

import (
	"encoding/json"
	"strings"

	"github.com/polyhost/polyhost/core/event"
)

// failure is a turn's error with its code and the program's own words.
func failure(e *turnError) *event.Error {
	if e == nil {
		return &event.Error{Code: event.CodeAgentError, Message: "codex failed without saying why"}
	}
	word, status := e.kind()
	text := e.Message
	if e.Details != "" && !strings.Contains(text, e.Details) {
		text += ": " + e.Details
	}
	out := &event.Error{Code: codeOf(word, status, text), Message: inner(text)}
	switch out.Code {
	case event.CodeRateLimited, event.CodeOverloaded, event.CodeCutStream:
		out.Retryable = true
	}
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
	case status == 401 || status == 403:
		return event.CodeAuth
	case status == 429:
		return event.CodeRateLimited
	case status >= 500:
		return event.CodeOverloaded
	case status >= 400:
		return event.CodeBadRequest
	}
	switch {
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
	switch {
	case strings.Contains(text, "stream disconnected"):
		return event.CodeCutStream
	case strings.Contains(text, "Missing environment variable"):
		return event.CodeAuth
	case strings.HasPrefix(text, `{"error"`): // the body of an HTTP 400
		return event.CodeBadRequest
	}
	return event.CodeAgentError
}
