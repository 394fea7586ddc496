package failure

import (
	"testing"

	"github.com/polyhost/polyhost/core/event"
)

func TestWordsAndStatusesHaveCodes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		status int
		text   string
		want   string
	}{
		{0, "something else", event.CodeAgentError},
		{0, "", event.CodeAgentError},
		{400, "no", event.CodeBadRequest},
		{400, "prompt is too long: 300", event.CodeOverflow},
		{0, "Your input exceeds the context window of this model.", event.CodeOverflow},
		{400, "blocked by the content filter", event.CodeRefusal},
		{401, "no", event.CodeAuth},
		{0, "Missing environment variable: `KEY`.", event.CodeAuth},
		{0, "API key not valid", event.CodeAuth},
		{429, "terminated", event.CodeRateLimited},
		{0, "stream disconnected before completion: rate limit reached", event.CodeRateLimited},
		{0, "stream disconnected before completion", event.CodeCutStream},
		{0, "connect ECONNREFUSED: connection refused", event.CodeCutStream},
		{0, "terminated", event.CodeCutStream},
		{0, "unexpected status 503 Service Unavailable", event.CodeOverloaded},
		{529, "context", event.CodeOverloaded},
		{0, "Incomplete response returned, reason: max_output_tokens", event.CodeMaxTokens},
		{0, "took 4290 ms", event.CodeAgentError},
	} {
		if got := Code(test.status, test.text); got != test.want {
			t.Errorf("%d %q: %s, want %s", test.status, test.text, got, test.want)
		}
	}
	if !Retryable(event.CodeOverloaded) || Retryable(event.CodeBadRequest) {
		t.Error("what may be tried again")
	}
}
