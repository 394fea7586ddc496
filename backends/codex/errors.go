package codex

import (
	"encoding/json"
	"strings"

	"github.com/polyhost/polyhost/core/event"
)

// The codes of failed turns.
const (
	codeBadRequest  = "bad_request"
	codeAuth        = "auth"
	codeRateLimited = "rate_limited"
	codeOverloaded  = "overloaded"
	codeCutStream   = "cut_stream"
	codeRefusal     = "refusal"
	codeOverflow    = "context_overflow"
	codeTokens      = "max_tokens"
	codeAgentDied   = "agent_died"
	codeAgentError  = "agent_error"
	codeInterrupted = "interrupted"
)

// failure is a turn's error with its code and the program's own words.
func failure(e *turnError) *event.Error {
	if e == nil {
		return &event.Error{Code: codeAgentError, Message: "codex failed without saying why"}
	}
	word, status := e.kind()
	text := e.Message
	if e.Details != "" && !strings.Contains(text, e.Details) {
		text += ": " + e.Details
	}
	out := &event.Error{Code: codeOf(word, status, text), Message: inner(text)}
	switch out.Code {
	case codeRateLimited, codeOverloaded, codeCutStream:
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
		return codeAuth
	case status == 429:
		return codeRateLimited
	case status >= 500:
		return codeOverloaded
	case status >= 400:
		return codeBadRequest
	}
	switch {
	case strings.Contains(text, "content_filter"):
		return codeRefusal
	case strings.Contains(text, "max_output_tokens"):
		return codeTokens
	}
	switch word {
	case "contextWindowExceeded":
		return codeOverflow
	case "usageLimitExceeded", "rateLimitExceeded", "sessionBudgetExceeded":
		return codeRateLimited
	case "serverOverloaded", "internalServerError", "flexUnavailable", "policyCapacityUnavailable":
		return codeOverloaded
	case "unauthorized":
		return codeAuth
	case "badRequest", "modelNotFound":
		return codeBadRequest
	case "cyberPolicy", "bioPolicy", "misalignmentPolicyViolation":
		return codeRefusal
	case "responseStreamDisconnected", "responseStreamConnectionFailed":
		return codeCutStream
	}
	// Some failures are told in words alone.
	switch {
	case strings.Contains(text, "stream disconnected"):
		return codeCutStream
	case strings.Contains(text, "Missing environment variable"):
		return codeAuth
	case strings.HasPrefix(text, `{"error"`): // the body of an HTTP 400
		return codeBadRequest
	}
	return codeAgentError
}
