package acp

import (
	"encoding/json"
	"testing"

	"github.com/polyhost/polyhost/core/event"
)

func TestErrorsAreToldAsWhatTheyAre(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code       int
		text, data string
		want       string
	}{
		{400, "The input token count exceeds the maximum number of tokens allowed.", "", event.CodeOverflow},
		{400, "some field is wrong", "", event.CodeBadRequest},
		{401, "no", "", event.CodeAuth},
		{429, "later", "", event.CodeRateLimited},
		{503, "not now", "", event.CodeOverloaded},
		{-32603, "Internal error", `{"message":"unexpected status 429: later"}`, event.CodeRateLimited},
		{-32603, "Internal error", `{"message":"x","codex_error_info":"context_window_exceeded"}`, event.CodeOverflow},
		{-32603, "Internal error: stream disconnected before completion", "", event.CodeCutStream},
		{-32603, "Internal error: something else", "", event.CodeAgentError},
		{codeSignIn, "Authentication required", "", event.CodeAuth},
	} {
		e := &rpcError{Code: c.code, Message: c.text}
		if c.data != "" {
			e.Data = json.RawMessage(c.data)
		}
		if got := Claude.turnError(e); got.Code != c.want || got.Message == "" {
			t.Errorf("%d %s %s is told as %+v", c.code, c.text, c.data, got)
		}
	}
}
