// Package httpstream writes the frames of an outbox as the body of one HTTP
// response, for the transports that differ only in headers and framing.
//
// Ordering, loss and bounds are those of the outbox. Only the handler's own
// goroutine waits for the peer, and it gives up when the peer does not take a
// flush within the write timeout.
package httpstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/polyhost/polyhost/transports/outbox"
)

// Stream says how one response is written.
type Stream struct {
	Header       map[string]string
	Opening      []byte // the first bytes of the body; none if empty
	Heartbeat    []byte // written when Every passed since the stream began or the last heartbeat
	Every        time.Duration
	WriteTimeout time.Duration
}

// Run sends the headers at once and then what comes out of out, until that is
// closed and drained (the error is the one given to Close), the request's
// context ends (its cause), or a write fails. Afterwards out is closed.
func (s Stream) Run(w http.ResponseWriter, r *http.Request, out *outbox.Outbox) (err error) {
	defer func() { out.Discard(err) }()
	rc := http.NewResponseController(w)
	flush := func() error {
		if err := rc.Flush(); err != nil {
			return fmt.Errorf("flush: %w", err)
		}
		return nil
	}
	renew := func() error {
		// Not every server below has deadlines; all have the write error.
		err := rc.SetWriteDeadline(time.Now().Add(s.WriteTimeout))
		if err != nil && !errors.Is(err, http.ErrNotSupported) {
			return fmt.Errorf("write deadline: %w", err)
		}
		return nil
	}
	write := func(b []byte) error {
		if _, err := w.Write(b); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		return nil
	}

	for k, v := range s.Header {
		w.Header().Set(k, v)
	}
	if err := renew(); err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	if len(s.Opening) > 0 {
		if err := write(s.Opening); err != nil {
			return err
		}
	}
	if err := flush(); err != nil {
		return err
	}
	var beat <-chan time.Time
	if len(s.Heartbeat) > 0 {
		ticker := time.NewTicker(s.Every)
		defer ticker.Stop()
		beat = ticker.C
	}
	for {
		batch, ended := out.Take()
		if len(batch) > 0 {
			if err := renew(); err != nil {
				return err
			}
			if err := s.write(w, batch); err != nil {
				return err
			}
			if err := flush(); err != nil {
				return err
			}
			continue
		}
		if ended != nil {
			return ended
		}
		select {
		case <-out.Ready():
		case <-beat:
			if err := errors.Join(renew(), write(s.Heartbeat), flush()); err != nil {
				return err
			}
		case <-r.Context().Done():
			return context.Cause(r.Context())
		}
	}
}

// buffers gather a batch, because net/http itself writes every 4 KiB.
var buffers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, outbox.MaxBatch) }}

func (s Stream) write(w http.ResponseWriter, batch []outbox.Run) error {
	buf := buffers.Get().(*bufio.Writer)
	buf.Reset(w)
	defer func() {
		buf.Reset(nil)
		buffers.Put(buf)
	}()
	for _, run := range batch {
		_, _ = buf.Write(run) // the error stays until Flush
	}
	if err := buf.Flush(); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}
