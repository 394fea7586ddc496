package acp

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// codeResume says that the conversation could not be resumed.
const codeResume = "resume_failed"

// reasons find the code of an error by its words; the first that fits counts.
// The protocol has one code for all errors of models.
var reasons = []struct {
	code  string
	again bool
	words *regexp.Regexp
}{
	{event.CodeOverflow, false, regexp.MustCompile(`(?i)context.?(window|length)|prompt is too long|too many tokens|context_window`)},
	{event.CodeRefusal, false, regexp.MustCompile(`(?i)refus|content.?filter|usage policy`)},
	{event.CodeCutStream, true, regexp.MustCompile(`(?i)connection (reset|lost|closed)|stream (disconnected|closed|ended)|terminated|mid-response|premature`)},
	{event.CodeRateLimited, true, regexp.MustCompile(`(?i)\b429\b|rate.?limit|too many requests|usage.?limit|quota`)},
	{event.CodeOverloaded, true, regexp.MustCompile(`(?i)\b(503|529)\b|overloaded|high demand|unavailable|internal_server_error`)},
	{event.CodeAuth, false, regexp.MustCompile(`(?i)\b(401|403)\b|unauthori[sz]ed|authenticat|api.?key|not (signed|logged) in`)},
	{event.CodeBadRequest, false, regexp.MustCompile(`(?i)\b400\b|bad.?request|invalid.?request`)},
	{event.CodeOverloaded, true, regexp.MustCompile(`\b50[024]\b`)},
}

// turnError words why a turn failed.
func (a *Agent) turnError(err error) *event.Error {
	var problem *agent.Problem
	if errors.As(err, &problem) {
		code := event.CodeAgentStart
		if problem.Code == agent.ProblemSignedOut {
			code = event.CodeAuth
		}
		return &event.Error{Code: code, Message: problem.Error()}
	}
	var refused *rpcError
	if !errors.As(err, &refused) {
		return &event.Error{Code: event.CodeAgentError, Message: err.Error(), Retryable: true}
	}
	if refused.Code == codeSignIn {
		return &event.Error{Code: event.CodeAuth, Message: refused.text() + ": " + a.SignIn}
	}
	e := &event.Error{Code: event.CodeAgentError, Message: refused.text()}
	where := e.Message + " " + string(refused.Data)
	switch { // some put the model server's status there
	case refused.Code == 400 || refused.Code == 404:
		e.Code = event.CodeBadRequest
		return e
	case refused.Code == 401 || refused.Code == 403:
		e.Code = event.CodeAuth
		return e
	case refused.Code == 429:
		e.Code, e.Retryable = event.CodeRateLimited, true
		return e
	}
	for _, r := range reasons {
		if r.words.MatchString(where) {
			e.Code, e.Retryable = r.code, r.again
			return e
		}
	}
	if refused.Code >= 500 && refused.Code < 600 {
		e.Code, e.Retryable = event.CodeOverloaded, true
	}
	return e
}

// text is what an error says to people: the innermost message that it has.
func (e *rpcError) text() string {
	text := strings.TrimPrefix(e.Message, "Internal error: ")
	var data struct {
		Message string `json:"message"`
		Details string `json:"details"`
	}
	if decode(e.Data, &data) == nil {
		text = first(data.Message, data.Details, text)
	}
	var inner struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal([]byte(text), &inner) == nil && inner.Error.Message != "" {
		text = inner.Error.Message
	}
	return text
}
