package snowpea

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/hub"
	"github.com/polyhost/polyhost/core/id"
)

// numbered is one encoded event.
type numbered struct {
	seq     uint64
	message []byte
}

// replay reads the events of one chat again, by folding the log from a mark.
type replay struct {
	fold    *fold
	events  *hub.Subscription
	pending []numbered
	size    int // bytes pending
}

// newReplay begins after an event of a chat. base is a mark that lies before it.
func newReplay(s *host.Session, base *fold, chat id.ID, after uint64) *replay {
	r := &replay{fold: base, events: s.Subscribe(base.Seq)}
	base.publish = func(c id.ID, seq uint64, message []byte) {
		if c == chat && seq > after {
			r.pending = append(r.pending, numbered{seq, message})
			r.size += len(message)
		}
	}
	return r
}

func (r *replay) close() { r.events.Close() }

// next folds on until about max bytes of events are there or the core event
// upto is reached; more says that it is not.
func (r *replay) next(ctx context.Context, upto uint64, max int) (out []numbered, more bool, err error) {
	for r.fold.Seq < upto && r.size < max {
		batch, err := r.events.Next(ctx)
		if err != nil {
			return nil, false, fmt.Errorf("read events of session %s: %w", r.fold.Session, err)
		}
		for _, e := range batch {
			r.fold.apply(e)
		}
	}
	out, r.pending, r.size = r.pending, nil, 0
	return out, r.fold.Seq < upto, nil
}

// foldTo gives the numbering at a core event: the newest mark before it and
// the events from there.
func (f *Front) foldTo(ctx context.Context, s *host.Session, upto uint64) (*fold, error) {
	x, err := f.keeper.mark(ctx, s.ID(), func(m *fold) bool { return m.Seq <= upto })
	if err != nil {
		return nil, err
	}
	x.spent = f.spent(s.ID())
	if x.Seq >= upto {
		return x, nil
	}
	events := s.Subscribe(x.Seq)
	defer events.Close()
	for x.Seq < upto {
		batch, err := events.Next(ctx)
		if err != nil {
			return nil, fmt.Errorf("read events of session %s: %w", s.ID(), err)
		}
		for _, e := range batch {
			if e.Seq <= upto {
				x.apply(e)
			}
		}
	}
	return x, nil
}

// encodeMark and decodeMark are the stored form of a fold.
func encodeMark(x *fold) []byte {
	b, err := json.Marshal(x)
	if err != nil {
		panic(fmt.Sprintf("snowpea: mark: %v", err)) // plain data
	}
	return b
}

func decodeMark(b []byte) (*fold, error) {
	x := newFold(id.Nil)
	if err := json.Unmarshal(b, x); err != nil {
		return nil, fmt.Errorf("decode mark: %w", err)
	}
	return x, nil
}

// listing joins events as session.resume lists them.
func listing(events []numbered) json.RawMessage {
	n := 2
	for _, e := range events {
		n += len(e.message)
	}
	b := slices.Grow([]byte{'['}, n)
	for i, e := range events {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '{')
		b = append(append(b, listed(e.message)...), '}')
	}
	return append(b, ']')
}
