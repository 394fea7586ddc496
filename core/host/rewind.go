package host

import (
	"context"
	"fmt"
	"slices"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
	"github.com/polyhost/polyhost/core/store"
)

// Truncate takes all turns after one out of a chat and its agent's memory: the
// next prompt goes on from where the agent was at the end of that turn. The
// chats of subagents that those turns started go too. It reports whether there
// were any.
//
// ErrUnsupported says that the agent cannot go back there, ErrBusy that a turn
// runs.
func (s *Session) Truncate(ctx context.Context, chat, last id.ID, by event.Actor) (changed bool, err error) {
	st := s.State()
	c := st.Chat(chat)
	if c == nil {
		return false, fmt.Errorf("chat %s: %w", chat, ErrNotFound)
	}
	if c.Active != nil {
		return false, fmt.Errorf("turns cannot be taken away now: %w", ErrBusy)
	}
	t, err := s.FindTurn(ctx, chat, last)
	if err != nil {
		return false, err
	}
	if t.Number == c.Count-1 {
		return false, nil
	}
	if !s.host.can(st.Info.Backend).ForkAt {
		return false, fmt.Errorf("%w: %s cannot forget turns", ErrUnsupported, st.Info.Backend)
	}
	cut, err := s.placeOf(ctx, st, chat, last)
	if err != nil {
		return false, err
	}
	window, err := s.Turns(ctx, chat, cut.turns, state.DefaultLimits.Turns)
	if err != nil {
		return false, err
	}
	gone := map[id.ID]bool{}
	var names []event.GoneTurn
	parts := 0
	for upto := c.Count; upto > cut.turns; {
		page, err := s.Turns(ctx, chat, upto, min(importPage, upto-cut.turns))
		if err != nil {
			return false, err
		}
		if len(page) == 0 {
			break
		}
		var bare []event.GoneTurn
		for _, t := range page {
			gone[t.ID] = true
			if parts += 1 + len(t.Parts); parts <= maxGone {
				bare = append(bare, goneTurn(t))
			}
		}
		names = append(bare, names...)
		upto -= len(page)
	}
	if parts > maxGone {
		names = nil
	}
	failed, err := storedFailed(cut.last)
	if err != nil {
		return false, err
	}
	err = s.do(ctx, false, func(s *Session) error {
		now := s.work.Chat(chat)
		switch {
		case now == nil:
			return fmt.Errorf("chat %s: %w", chat, ErrNotFound)
		case now.Active != nil || len(now.Queue)+len(now.Steering) > 0 || now.Count != c.Count || now.Cuts != c.Cuts:
			return fmt.Errorf("turns cannot be taken away now: %w", ErrBusy)
		}
		r := s.chatRun(chat)
		if r.parent != nil {
			return fmt.Errorf("%w: a subagent's turns stay", ErrUnsupported)
		}
		r.drop()
		for _, w := range s.workers(chat) {
			if gone[w.Origin.Turn] {
				s.removeChat(w.ID, &event.ChatRemoved{By: by})
			}
		}
		if now.Conversation != "" {
			s.bury(now.Conversation)
		}
		s.emit(chat, id.Nil, &event.ChatTruncated{By: by, Turn: last, Turns: cut.turns, ForkOf: cut.of, ForkAt: cut.at,
			TurnAliases: turnNames(cut.last), Gone: names, Failed: failed})
		s.refill(chat, window)
		s.eraseTurns(chat, cut.turns, c.Count)
		return s.keepState()
	})
	return err == nil, err
}

// storedFailed is a turn as it is stored, if it can be resumed.
func storedFailed(t *state.Turn) ([]byte, error) {
	if t == nil || !t.Resumable {
		return nil, nil
	}
	return encodeTurn(t)
}

// goneTurn is a turn without what was said in it.
func goneTurn(t *state.Turn) event.GoneTurn {
	name := func(m *event.Message) event.Message {
		return event.Message{ID: m.ID, Turn: m.Turn, Alias: m.Alias, By: m.By}
	}
	out := event.GoneTurn{ID: t.ID, StartedAt: t.StartedAt, Message: name(&t.Message), Parts: make([]event.Part, len(t.Parts))}
	for i, p := range t.Parts {
		q := event.Part{ID: p.ID, Kind: p.Kind, StartedAt: p.StartedAt, EndedAt: p.EndedAt}
		if p.Message != nil {
			m := name(p.Message)
			q.Message = &m
		}
		if p.Notice != nil && p.Notice.Ended != nil {
			q.Notice = &event.Notice{Ended: &event.Ended{}}
		}
		out.Parts[i] = q
	}
	return out
}

// keepState has the session loaded as it is now, with the events that follow:
// those from before cannot be folded over the records of turns that are left.
func (s *Session) keepState() error {
	b, err := snapshot(s.State())
	if err != nil {
		return err
	}
	s.w.put = append(s.w.put, store.KV{Key: snapshotKey(s.id), Value: b})
	s.w.since = 0
	return nil
}

// eraseTurns removes the records of a chat's turns from one number up to, and
// without, another.
func (s *Session) eraseTurns(chat id.ID, from, upto int) {
	for n := from; n < upto; n++ {
		key := turnKey(s.id, chat, n)
		s.w.put = slices.DeleteFunc(s.w.put, func(kv store.KV) bool { return kv.Key == key })
		s.w.del = append(s.w.del, key)
	}
}

// workers are the chats of a chat's subagents, and of theirs.
func (s *Session) workers(chat id.ID) (out []*state.Chat) {
	for _, c := range s.work.Chats {
		if c.Origin.Kind == event.OriginSubagent && c.Origin.Chat == chat {
			out = append(append(out, c), s.workers(c.ID)...)
		}
	}
	return out
}

// removeChat ends a chat and takes it out, as its event says.
func (s *Session) removeChat(chat id.ID, e *event.ChatRemoved) {
	r := s.chatRun(chat)
	s.dropQueue(chat, e.By)
	if !r.turn.IsNil() {
		if r.parent != nil {
			s.end(r, event.TurnCancelled, nil, e.By)
		} else {
			s.interrupt(r, e.By)
		}
	}
	r.drop()
	if r.parent != nil {
		delete(r.parent.children, r.child)
	}
	delete(s.chats, chat)
	c := s.work.Chat(chat)
	if e.To.IsNil() { // who moves it does the rest
		s.bury(c.Conversation)
		s.eraseTurns(chat, 0, c.Count)
	}
	s.emit(chat, id.Nil, e)
}

// RemoveChat ends a chat and removes it. The last one that people can talk to
// stays; where the default chat goes, the next one that they can talk to takes
// its place.
func (s *Session) RemoveChat(ctx context.Context, chat id.ID, by event.Actor) error {
	return s.do(ctx, false, func(s *Session) error {
		if s.work.Chat(chat) == nil {
			return fmt.Errorf("chat %s: %w", chat, ErrNotFound)
		}
		e := &event.ChatRemoved{By: by}
		if chat == s.work.Default {
			if e.Default = s.successor(); e.Default.IsNil() {
				return fmt.Errorf("%w: the last chat of a session stays", ErrInvalid)
			}
		}
		s.removeChat(chat, e)
		return nil
	})
}

// successor is the chat that follows the default one; Nil for none.
func (s *Session) successor() id.ID {
	for _, c := range s.work.Chats {
		if c.ID != s.work.Default && c.Origin.Kind != event.OriginSubagent {
			return c.ID
		}
	}
	return id.Nil
}
