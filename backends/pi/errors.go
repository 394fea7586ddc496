package pi

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/polyhost/polyhost/core/event"
)

var (
	leadingStatus = regexp.MustCompile(`^(?:HTTP )?([1-5]\d\d)\b`)
	tooLong       = regexp.MustCompile(`(?i)prompt is too long|context (window|length)|maximum context|too many tokens|token count exceeds`)
	cutOff        = regexp.MustCompile(`(?i)terminated|connection|socket|network|fetch failed|premature|stream ended`)
	refused       = regexp.MustCompile(`(?i)content.?filter|refus|safety`)
	signedOut     = regexp.MustCompile(`(?i)no api key|api key not|unauthorized|authentication`)
	limited       = regexp.MustCompile(`(?i)rate.?limit|quota|too many requests`)
	overloaded    = regexp.MustCompile(`(?i)overloaded|unavailable`)
)

// failure makes an error of pi's text, which begins with the status of HTTP
// when there was one.
func failure(text string) *event.Error {
	if text == "" {
		text = "pi failed without saying why"
	}
	if len(text) > maxError {
		text = strings.ToValidUTF8(text[:maxError], "")
	}
	e := &event.Error{Code: event.CodeAgentError, Message: text}
	status := 0
	if m := leadingStatus.FindStringSubmatch(text); m != nil {
		status, _ = strconv.Atoi(m[1])
	}
	switch {
	case tooLong.MatchString(text):
		e.Code = event.CodeOverflow
	case status == 401 || status == 403 || status == 0 && signedOut.MatchString(text):
		e.Code = event.CodeAuth
	case status == 429 || status == 0 && limited.MatchString(text):
		e.Code, e.Retryable = event.CodeRateLimited, true
	case status >= 500 || status == 0 && overloaded.MatchString(text):
		e.Code, e.Retryable = event.CodeOverloaded, true
	case refused.MatchString(text):
		e.Code = event.CodeRefusal
	case status >= 400:
		e.Code = event.CodeBadRequest
	case cutOff.MatchString(text):
		e.Code, e.Retryable = event.CodeCutStream, true
	}
	return e
}
