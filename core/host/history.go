package host

import (
	"context"
	"fmt"
	"slices"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/hub"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
)

// Events returns events after `after` and up to `upto`, in order, until about
// maxBytes are gathered; upto 0 is the newest.
func (s *Session) Events(ctx context.Context, after, upto uint64, maxBytes int) ([]*event.Event, error) {
	if last := s.hub.Last(); upto == 0 || upto > last {
		upto = last
	}
	sub := s.hub.Subscribe(after)
	defer sub.Close()
	var out []*event.Event
	for size := 0; after < upto && size < maxBytes; {
		batch, err := sub.Next(ctx)
		if err != nil {
			return out, err
		}
		for _, e := range batch {
			if e.Seq > upto || size >= maxBytes {
				break
			}
			out, after = append(out, e), e.Seq
			size += hub.Weight(e)
		}
	}
	return out, nil
}

// sessionLog reads a session's stored events for its hub.
type sessionLog struct{ s *Session }

func (l sessionLog) Events(ctx context.Context, after, upto uint64, maxBytes int) ([]*event.Event, error) {
	records, err := l.s.host.store.Read(ctx, logName(l.s.id), after+1, maxBytes)
	if err != nil {
		return nil, err
	}
	var out []*event.Event
	for _, r := range records {
		events, err := decodeRecord(r, after, upto)
		if err != nil {
			return nil, err
		}
		out = append(out, events...)
		if r.Last >= upto {
			break
		}
	}
	return out, nil
}

// Turns returns finished turns of a chat, oldest first: at most limit of them
// before number before; a negative one is the end.
func (s *Session) Turns(ctx context.Context, chat id.ID, before, limit int) ([]*state.Turn, error) {
	c := s.State().Chat(chat)
	if c == nil {
		return nil, fmt.Errorf("chat %s: %w", chat, ErrNotFound)
	}
	if before < 0 || before > c.Count {
		before = c.Count
	}
	from := max(0, before-limit)
	if first := c.Count - len(c.Turns); from >= first {
		return c.Turns[from-first : before-first : before-first], nil
	} else if before > first { // part is in memory; the records of the rest are stored
		older, err := s.host.turns(ctx, s.id, chat, first, first-from)
		return append(older, c.Turns[:before-first]...), err
	}
	return s.host.turns(ctx, s.id, chat, before, before-from)
}

// FindTurn finds a running or finished turn of a chat by its id.
func (s *Session) FindTurn(ctx context.Context, chat, turn id.ID) (*state.Turn, error) {
	c := s.State().Chat(chat)
	if c == nil {
		return nil, fmt.Errorf("chat %s: %w", chat, ErrNotFound)
	}
	if t := c.Turn(turn); t != nil {
		return t, nil
	}
	for before := c.Count - len(c.Turns); before > 0; {
		page, err := s.Turns(ctx, chat, before, 200)
		if err != nil {
			return nil, err
		}
		for _, t := range page {
			if t.ID == turn {
				return t, nil
			}
		}
		if len(page) == 0 {
			break
		}
		before -= len(page)
	}
	return nil, fmt.Errorf("turn %s: %w", turn, ErrNotFound)
}

// WaitTurn waits for the end of a turn that was started or queued, on disk.
// ErrNotFound: it was dropped from the queue or is not of this chat.
func (s *Session) WaitTurn(ctx context.Context, chat, turn id.ID) (*state.Turn, error) {
	sub := s.hub.Subscribe(s.hub.Last())
	defer sub.Close()
	for {
		st := s.State()
		c := st.Chat(chat)
		if c == nil {
			return nil, fmt.Errorf("chat %s: %w", chat, ErrNotFound)
		}
		waits := c.Active != nil && c.Active.ID == turn ||
			slices.ContainsFunc(append(slices.Clone(c.Queue), c.Steering...), func(m event.Message) bool { return m.Turn == turn })
		if !waits {
			if err := s.Durable(ctx, st.Seq); err != nil {
				return nil, err
			}
			t, err := s.FindTurn(ctx, chat, turn)
			switch {
			case err == nil && t.Status != event.TurnRunning:
				return t, nil
			case err != nil && s.State().Seq == st.Seq:
				return nil, err
			}
			continue // it was on its way from the queue
		}
		if _, err := sub.Next(ctx); err != nil {
			return nil, err
		}
	}
}
