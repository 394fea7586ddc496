package stub

import (
	"context"
	"net/http"
	"strings"
	"time"
)

// stream is a response of server-sent events; without a writer it swallows them.
type stream struct {
	ctx   context.Context
	w     http.ResponseWriter
	flush *http.ResponseController
	pause time.Duration
	begun bool
}

// event sends one event; an empty name leaves the name out.
func (s *stream) event(name string, data any) {
	if s.w == nil || s.ctx.Err() != nil {
		return
	}
	b := []byte(nil)
	if name != "" {
		b = append(append(append(b, "event: "...), name...), '\n')
	}
	b = append(b, "data: "...)
	if text, ok := data.(string); ok {
		b = append(b, text...)
	} else {
		b = append(b, mustJSON(data)...)
	}
	s.raw(append(b, "\n\n"...))
	sleep(s.ctx, s.pause)
}

// comment sends what clients skip.
func (s *stream) comment() {
	if s.w != nil {
		s.raw([]byte(": nothing follows\n\n"))
	}
}

func (s *stream) raw(b []byte) {
	if !s.begun {
		s.begun = true
		h := s.w.Header()
		h.Set("Content-Type", "text/event-stream; charset=utf-8")
		h.Set("Cache-Control", "no-cache")
	}
	if _, err := s.w.Write(b); err == nil {
		_ = s.flush.Flush() // a client that is gone ends the context
	}
}

// sleep waits, at most until the client is gone.
func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// halves cuts a text in two, as models stream arguments in pieces: after the
// name of the first member, so that no value is torn, or else in the middle.
func halves(s string) []string {
	if len(s) < 2 {
		return []string{s}
	}
	at := strings.IndexByte(s, ':') + 1
	if at == 0 {
		at = len(s) / 2
	}
	for at < len(s) && s[at]&0xc0 == 0x80 {
		at++
	}
	return []string{s[:at], s[at:]}
}
