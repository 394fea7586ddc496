// Package sse serves a stream of server-sent events to one subscriber.
//
// Each subscriber has an outbox and a goroutine of its own, so that one that
// stalls holds up nobody; ordering, loss and bounds are those of the outbox.
// All that gathered goes out with one flush. A heartbeat is body bytes, because
// proxies cut streams that are silent, and the first byte goes out at once,
// because some hold back the headers until then.
//
// It must not know what an event means.
package sse

import (
	"net/http"
	"strings"
	"time"

	"github.com/polyhost/polyhost/transports/internal/httpstream"
	"github.com/polyhost/polyhost/transports/outbox"
)

// Options configure one stream; a zero field means the default of limits.go.
type Options struct {
	HeartbeatEvery time.Duration
	// Heartbeat is an encoded event; without it a comment is sent, which
	// clients do not see.
	Heartbeat outbox.Frame
	// Opening is an encoded event that goes out at once, before all others;
	// without it a comment is sent.
	Opening      outbox.Frame
	WriteTimeout time.Duration
}

var comment = outbox.Frame(": keep-alive\n\n")

// Serve answers r with the events in out, made by Data or DataID, until out is
// closed and drained, the peer is gone or stops to take bytes. Then it closes out
// and calls done with the reason. The handler returns after Serve, whose stream
// may go on behind it: the request's context says nothing of it.
func Serve(w http.ResponseWriter, r *http.Request, o Options, out *outbox.Outbox, done func(error)) {
	if o.HeartbeatEvery <= 0 {
		o.HeartbeatEvery = DefaultHeartbeatEvery
	}
	if o.WriteTimeout <= 0 {
		o.WriteTimeout = DefaultWriteTimeout
	}
	if o.Heartbeat == nil {
		o.Heartbeat = comment
	}
	if o.Opening == nil {
		o.Opening = comment
	}
	httpstream.Stream{
		Header: map[string]string{
			"Content-Type":           "text/event-stream",
			"Cache-Control":          "no-cache, no-transform",
			"X-Accel-Buffering":      "no",
			"X-Content-Type-Options": "nosniff",
		},
		Opening:      o.Opening,
		Heartbeat:    o.Heartbeat,
		Every:        o.HeartbeatEvery,
		WriteTimeout: o.WriteTimeout,
	}.Run(w, r, out, done)
}

// Data encodes one event without an id.
func Data(payload []byte) outbox.Frame { return DataID(payload, "") }

// DataID encodes one event. Every LF, CR or CRLF of payload begins a new data
// line, so that a payload cannot forge fields. An id with a line break or NUL,
// which the format cannot carry, is left out, as is an empty one.
func DataID(payload []byte, id string) outbox.Frame {
	f := make(outbox.Frame, 0, len(payload)+len(id)+16)
	if id != "" && !strings.ContainsAny(id, "\r\n\x00") {
		f = append(f, "id: "...)
		f = append(f, id...)
		f = append(f, '\n')
	}
	f = append(f, "data: "...)
	for i := 0; i < len(payload); i++ {
		switch c := payload[i]; c {
		case '\r':
			if i+1 < len(payload) && payload[i+1] == '\n' {
				i++
			}
			f = append(f, "\ndata: "...)
		case '\n':
			f = append(f, "\ndata: "...)
		default:
			f = append(f, c)
		}
	}
	return append(f, "\n\n"...)
}
