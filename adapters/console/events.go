package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"

	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/transports/listen"
	"github.com/polyhost/polyhost/transports/outbox"
	"github.com/polyhost/polyhost/transports/sse"
)

// errStreamEnd is why a stream that did not fail is over.
var errStreamEnd = errors.New("the stream is over")

// events streams a session's events after the one the reader has: the query's
// "after", or the header Last-Event-ID of a reader that comes back. With
// follow=false the stream ends where the session stands now.
func (c *Console) events(w http.ResponseWriter, r *http.Request) {
	sid, err := id.Parse(r.PathValue("id"))
	if err != nil {
		fail(w, http.StatusBadRequest, "not a session id")
		return
	}
	from := r.URL.Query().Get("after")
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		from = last
	}
	var after uint64
	if from != "" {
		if after, err = strconv.ParseUint(from, 10, 64); err != nil {
			fail(w, http.StatusBadRequest, "not a sequence number")
			return
		}
	}
	s, err := c.deps.Host.Session(r.Context(), sid)
	if err != nil {
		c.failWith(w, err)
		return
	}
	upto := s.State().Seq
	if after > upto {
		fail(w, http.StatusBadRequest, fmt.Sprintf("the session has no event %d yet", after))
		return
	}
	if r.URL.Query().Get("follow") != "false" {
		upto = 0
	} else if after == upto {
		w.Header().Set("Content-Type", "text/event-stream")
		return
	}
	out := outbox.New(0)
	ctx, cancel := listen.StreamContext(r)
	var wg sync.WaitGroup
	wg.Go(func() { out.Close(pump(ctx, s, after, upto, out)) })
	sse.Serve(w, r, sse.Options{}, out, func(err error) {
		cancel()
		wg.Wait()
		c.deps.Log.Debug("A stream of the console ended", "session", sid.String(), "reason", err)
	})
}

// pump encodes events into the outbox until event upto, 0 being without end,
// and says why it stopped.
func pump(ctx context.Context, s *host.Session, after, upto uint64, out *outbox.Outbox) error {
	sub := s.Subscribe(after)
	defer sub.Close()
	for {
		events, err := sub.Next(ctx)
		if err != nil {
			return err
		}
		for _, e := range events {
			b, err := json.Marshal(e)
			if err != nil {
				return fmt.Errorf("encode event %d: %w", e.Seq, err)
			}
			if err := push(ctx, out, sse.DataID(b, strconv.FormatUint(e.Seq, 10))); err != nil {
				return err
			}
			if e.Seq == upto {
				return errStreamEnd
			}
		}
	}
}

// push waits for room: the log keeps what the reader cannot take yet.
func push(ctx context.Context, out *outbox.Outbox, f outbox.Frame) error {
	for {
		err := out.Push(f)
		if !errors.Is(err, outbox.ErrFull) {
			return err
		}
		if err := out.WaitBelow(ctx, 1); err != nil {
			return err
		}
	}
}
