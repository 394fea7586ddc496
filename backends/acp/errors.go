package acp

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/polyhost/polyhost/backends/internal/failure"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// codeResume says that the conversation could not be resumed.
const codeResume = "resume_failed"

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
	// Some put the model server's status there, and 500 for whatever else.
	status := refused.Code
	if status < 400 || status >= 500 {
		status = 0
	}
	e.Code = failure.Code(status, e.Message+" "+string(refused.Data))
	if e.Code == event.CodeAgentError && refused.Code >= 500 && refused.Code < 600 {
		e.Code = event.CodeOverloaded
	}
	e.Retryable = failure.Retryable(e.Code)
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
