package pi

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/polyhost/polyhost/backends/internal/failure"
	"github.com/polyhost/polyhost/core/event"
)

var leadingStatus = regexp.MustCompile(`^(?:HTTP )?([1-5]\d\d)\b`)

// wentWrong makes an error of pi's text, which begins with the status of HTTP
// when there was one.
func wentWrong(text string) *event.Error {
	if text == "" {
		text = "pi failed without saying why"
	}
	if len(text) > maxError {
		text = strings.ToValidUTF8(text[:maxError], "")
	}
	status := 0
	if m := leadingStatus.FindStringSubmatch(text); m != nil {
		status, _ = strconv.Atoi(m[1])
	}
	code := failure.Code(status, text)
	return &event.Error{Code: code, Message: text, Retryable: failure.Retryable(code)}
}
