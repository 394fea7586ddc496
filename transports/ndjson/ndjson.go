// Package ndjson serves a response of one JSON object a line.
//
// The headers go out at once and no byte of the body before the first object:
// in this form silence has a meaning, so there is no heartbeat. Ordering, loss
// and bounds are those of the outbox; all that gathered goes out with one
// flush.
//
// It must not know what an object means.
package ndjson

import (
	"net/http"
	"time"

	"github.com/polyhost/polyhost/transports/internal/httpstream"
	"github.com/polyhost/polyhost/transports/outbox"
)

// DefaultWriteTimeout is how long a peer may take for one flush.
const DefaultWriteTimeout = 10 * time.Second

// Options configure one stream.
type Options struct {
	WriteTimeout time.Duration // zero means DefaultWriteTimeout
}

// Line is the frame of an object: JSON without a raw line break, as
// encoding/json writes it.
func Line(object []byte) outbox.Frame {
	return append(append(make(outbox.Frame, 0, len(object)+1), object...), '\n')
}

// Serve answers r with the frames in out, made by Line, until out
// is closed and drained, the peer is gone or stops to take bytes. Then it closes
// out and calls done with the reason. The handler returns after Serve, whose stream
// may go on behind it: the request's context says nothing of it.
func Serve(w http.ResponseWriter, r *http.Request, o Options, out *outbox.Outbox, done func(error)) {
	if o.WriteTimeout <= 0 {
		o.WriteTimeout = DefaultWriteTimeout
	}
	httpstream.Stream{
		Header: map[string]string{
			"Content-Type":           "application/x-ndjson",
			"Cache-Control":          "no-cache, no-transform",
			"X-Accel-Buffering":      "no",
			"X-Content-Type-Options": "nosniff",
		},
		WriteTimeout: o.WriteTimeout,
	}.Run(w, r, out, done)
}
