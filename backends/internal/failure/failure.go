// Package failure tells why a model call failed from what an agent says of it:
// a status of HTTP, or only words. The drivers use it for what their agents
// have no code of their own for. It must not know an agent.
package failure

import (
	"regexp"

	"github.com/polyhost/polyhost/core/event"
)

// words are what errors of models say; the first that fits counts. Those that
// are sure count whatever the status is: makers use 400 for several of them.
var words = []struct {
	code string
	sure bool
	text *regexp.Regexp
}{
	{event.CodeOverflow, true, regexp.MustCompile(`(?i)context.?(window|length)|maximum context|prompt is too long|too many tokens|token count exceeds`)},
	{event.CodeRefusal, true, regexp.MustCompile(`(?i)\brefusal\b|refused (to|the request|the prompt)|content.?filter|usage policy|safeguards`)},
	{event.CodeMaxTokens, true, regexp.MustCompile(`max_output_tokens`)},
	{event.CodeRateLimited, false, regexp.MustCompile(`(?i)\b429\b|rate.?limit|too many requests|usage.?limit|quota`)},
	{event.CodeOverloaded, false, regexp.MustCompile(`(?i)\b(503|529)\b|overloaded|high demand|unavailable|internal_server_error`)},
	{event.CodeAuth, false, regexp.MustCompile(`(?i)\b(401|403)\b|unauthori[sz]ed|authenticat|api.?key|not (signed|logged) in|missing environment variable`)},
	{event.CodeCutStream, false, regexp.MustCompile(`(?i)connection|socket|network|fetch failed|stream (disconnected|closed|ended)|terminated|mid-response|premature`)},
	{event.CodeBadRequest, false, regexp.MustCompile(`(?i)\b400\b|bad.?request|invalid.?request`)},
	{event.CodeOverloaded, false, regexp.MustCompile(`\b50[024]\b`)},
}

// Code is the event.Code of an error with that text; status is that of HTTP,
// 0 if it is not known.
func Code(status int, text string) string {
	known := status >= 400
	for _, w := range words {
		if (w.sure || !known) && w.text.MatchString(text) {
			return w.code
		}
	}
	switch {
	case status == 401 || status == 403:
		return event.CodeAuth
	case status == 429:
		return event.CodeRateLimited
	case status >= 500:
		return event.CodeOverloaded
	case known:
		return event.CodeBadRequest
	}
	return event.CodeAgentError
}

// Retryable tells whether the same prompt may do better later.
func Retryable(code string) bool {
	return code == event.CodeRateLimited || code == event.CodeOverloaded || code == event.CodeCutStream
}
