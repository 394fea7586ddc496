package state

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
)

// newChat is a chat as its first event makes it.
func newChat(b *event.ChatAdded, at time.Time, edit uint64) *Chat {
	c := &Chat{ChatInfo: b.Info, ModifiedAt: at, Count: b.Turns, Usage: b.Usage, edit: edit}
	if b.Turns > 0 {
		c.Rest = &Turn{StartedAt: b.Info.CreatedAt}
	}
	if t := b.Last; t != nil {
		c.Rest = &Turn{Message: t.Message, StartedAt: t.StartedAt, Duration: t.Duration, Status: t.Status}
	}
	c.takeFailed(b.Failed)
	return c
}

// takeFailed takes the newest turn from its stored form, if there is none in memory.
func (c *Chat) takeFailed(stored []byte) {
	t := new(Turn)
	if len(c.Turns) == 0 && len(stored) > 0 && json.Unmarshal(stored, t) == nil && t.Number == c.Count-1 {
		c.Turns = []*Turn{t}
	}
}

// Failed reports whether the chat shows that its last turn ended in an error.
func (c *Chat) Failed() bool {
	switch n := len(c.Turns); {
	case c.Active != nil:
		return false
	case c.Rest != nil:
		return c.Rest.Status == event.TurnFailed
	default:
		return n > 0 && c.Turns[n-1].Status == event.TurnFailed
	}
}

// reorderChats puts the chats into an order. Those that it does not name stay
// behind the others.
func (s *State) reorderChats(order []id.ID) {
	place := func(c *Chat) int {
		if i := slices.Index(order, c.ID); i >= 0 {
			return i
		}
		return len(order)
	}
	s.Chats = slices.Clone(s.Chats)
	slices.SortStableFunc(s.Chats, func(a, b *Chat) int { return place(a) - place(b) })
}

// truncate takes the newest turns away. The window may be empty afterwards, or have
// one turn: see Refill.
func (c *Chat) truncate(b *event.ChatTruncated) {
	if n := len(c.Turns); n > 0 && c.Rest == nil {
		last := c.Turns[n-1]
		c.Rest = &Turn{ID: last.ID, Number: last.Number, Message: last.Message, StartedAt: last.StartedAt, Duration: last.Duration}
	}
	c.Turns = slices.DeleteFunc(slices.Clone(c.Turns), func(t *Turn) bool { return t.Number >= b.Turns })
	c.Count = b.Turns
	c.takeFailed(b.Failed)
	c.Cuts++
	c.Conversation, c.ForkOf, c.ForkAt, c.ForkEnd = "", b.ForkOf, b.ForkAt, nil
	c.Plan, c.Context = nil, event.ContextReported{}
}

// point notes where a finished turn ends in the agent's conversation.
func (c *Chat) point(b *event.TurnPointed) {
	for i, t := range c.Turns {
		if t.ID == b.Turn {
			own := *t
			own.Point = &b.Point
			c.Turns = slices.Clone(c.Turns)
			c.Turns[i] = &own
		}
	}
}

// Refill gives a chat that has no turns in memory, or not all of these, its newest
// ones, oldest first, as they are stored: the turns that a chat was given with its first
// event, or that are left of it, are not in the events that follow.
func (s *State) Refill(chat id.ID, turns []*Turn) {
	if c := s.chat(chat); c != nil && len(c.Turns) < len(turns) && len(turns) <= c.Count {
		c.Turns = turns
		c.Trim(s.limit)
	}
}
