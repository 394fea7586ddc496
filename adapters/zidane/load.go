package zidane

import (
	"context"
	"sync"

	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
)

// turnCounts keeps how many events each finished turn of a transcript has, so
// that a page knows how many come before it.
type turnCounts struct {
	mu    sync.Mutex
	chats map[id.ID]counted // by wire id
}

// counted are the sums of the events up to and with each turn, as long as no
// turns are taken away or resumed.
type counted struct {
	cuts int // state.Chat.Cuts
	sums []uint32
}

func newTurnCounts() *turnCounts { return &turnCounts{chats: map[id.ID]counted{}} }

func (t *turnCounts) forget(wire id.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.chats, wire)
}

// of are the sums that are known of a chat.
func (t *turnCounts) of(wire id.ID, cuts int) []uint32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.chats[wire]; c.cuts == cuts {
		return c.sums
	}
	return nil
}

func (t *turnCounts) keep(wire id.ID, c counted) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := t.chats[wire]; old.cuts > c.cuts || old.cuts == c.cuts && len(old.sums) >= len(c.sums) {
		return
	}
	if len(t.chats) >= countedChats {
		clear(t.chats)
	}
	t.chats[wire] = c
}

// cuts is how often turns of a chat were taken away or resumed.
func cuts(s *host.Session, chat id.ID) int {
	if c := s.State().Chat(chat); c != nil {
		return c.Cuts
	}
	return 0
}

// before counts the events of the finished turns before number n.
func (f *Front) before(ctx context.Context, s *host.Session, wire, chat id.ID, n int) (int, error) {
	now := cuts(s, chat)
	sums := f.counts.of(wire, now)
	info := &s.State().Info
	for len(sums) < n {
		upto := min(n, len(sums)+readTurns)
		turns, err := s.Turns(ctx, chat, upto, upto-len(sums))
		if err != nil {
			return 0, err
		}
		if len(turns) != upto-len(sums) {
			return 0, failed("The transcript has %d turns fewer than it should.", upto-len(sums)-len(turns))
		}
		next := make([]uint32, len(sums), upto)
		copy(next, sums)
		sum := uint32(0)
		if len(next) > 0 {
			sum = next[len(next)-1]
		}
		for _, t := range turns {
			sum += uint32(len(f.eventsOf(info, t)))
			next = append(next, sum)
		}
		sums = next
	}
	if cuts(s, chat) == now { // else some may be of turns from before
		f.counts.keep(wire, counted{now, sums})
	}
	if n == 0 {
		return 0, nil
	}
	return int(sums[n-1]), nil
}

type loadParams struct {
	ref
	Before *int `json:"before"`
	Limit  *int `json:"limit"`
}

// pageObject is a part of a transcript.
type pageObject struct {
	Events []any `json:"events"`
	// Exact: start was counted, not estimated.
	Exact bool `json:"exact"`
	// Start is how many events of the transcript come before the page.
	Start int `json:"start"`
	// Cursor is the next before; none on the page with the first turn.
	Cursor *int `json:"cursor,omitempty"`
	// Seq is the $seq of the newest signal that the page covers, on the page
	// with the newest turn.
	Seq uint64 `json:"seq,omitempty"`
}

// pageSize checks a limit.
func pageSize(limit *int) (int, error) {
	if limit == nil {
		return pageTurns, nil
	}
	if *limit < 1 {
		return 0, badField("limit", "want 1 or more")
	}
	return min(*limit, maxPageTurns), nil
}

// sessionsLoadEvents gives the whole transcript as an array, or a page of it.
// A turn has all its events on one page, so a call comes with its result.
func sessionsLoadEvents(ctx context.Context, c *call, p loadParams) (any, error) {
	limit, err := pageSize(p.Limit)
	if err != nil {
		return nil, err
	}
	if p.Before != nil && *p.Before < 0 {
		return nil, badField("before", "want 0 or more")
	}
	s, st, chat, err := c.chatOf(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	end := chat.Count // the running turn is number Count
	if chat.Active != nil {
		end++
	}
	if p.Before == nil && p.Limit == nil {
		return c.events(ctx, s, st, chat, 0, end)
	}
	before := end
	if p.Before != nil && *p.Before < end {
		before = *p.Before
	}
	from := max(0, before-limit)
	page := pageObject{Exact: true}
	if page.Events, err = c.events(ctx, s, st, chat, from, before); err != nil {
		return nil, err
	}
	wire := wireID(s.ID(), st.Default, chat.ID)
	if page.Start, err = c.before(ctx, s, wire, chat.ID, from); err != nil {
		return nil, err
	}
	if from > 0 {
		page.Cursor = &from
	}
	if before == end {
		page.Seq = c.signals.covered(wire, st.Seq)
	}
	return page, nil
}

// events are those of the turns from up to before; the number after the last
// finished turn is the running one.
func (f *Front) events(ctx context.Context, s *host.Session, st *state.State, chat *state.Chat, from, before int) ([]any, error) {
	out := []any{}
	size := 0
	err := eachTurn(ctx, s, chat, from, before, func(t *state.Turn) error {
		for _, e := range f.eventsOf(&st.Info, t) {
			if size += roughSize(e); size > maxAnswer {
				return responseTooLarge
			}
			out = append(out, e)
		}
		return nil
	})
	return out, err
}

// eachTurn visits the turns of a range in order.
func eachTurn(ctx context.Context, s *host.Session, chat *state.Chat, from, before int, visit func(*state.Turn) error) error {
	for n := from; n < min(before, chat.Count); {
		upto := min(n+readTurns, before, chat.Count)
		turns, err := s.Turns(ctx, chat.ID, upto, upto-n)
		if err != nil {
			return err
		}
		for _, t := range turns {
			if err := visit(t); err != nil {
				return err
			}
		}
		n = upto
	}
	if before > chat.Count && from <= chat.Count && chat.Active != nil {
		return visit(chat.Active)
	}
	return nil
}

// roughSize is about what an event takes in an answer, so that a transcript
// too large for one is not built.
func roughSize(e any) int {
	switch e := e.(type) {
	case promptEvent:
		return len(e.Text)
	case textEvent:
		return len(e.Text)
	case toolCall:
		return len(e.Input)
	case toolResult:
		return len(e.Output)
	case imageEvent:
		return len(e.Data)
	}
	return 0
}
