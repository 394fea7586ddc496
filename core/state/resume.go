package state

import (
	"slices"

	"github.com/polyhost/polyhost/core/event"
)

// Resumable is the chat's newest turn if it failed, its agent can go on with it, and
// nothing runs.
func (c *Chat) Resumable() *Turn {
	n := len(c.Turns)
	if c.Active != nil || n == 0 || !c.Turns[n-1].Resumable {
		return nil
	}
	return c.Turns[n-1]
}

// Failures are how often the turn failed and was resumed.
func (t *Turn) Failures() (n int) {
	for _, p := range t.Parts {
		if p.Notice != nil && p.Notice.Ended != nil {
			n++
		}
	}
	return n
}

// Again is how many parts the turn had when it was last resumed, with the error
// among them, which is the last of these; 0 and nil if it never was.
func (t *Turn) Again() (parts int, failed *event.Part) {
	for i := len(t.Parts) - 1; i >= 0; i-- {
		if n := t.Parts[i].Notice; n != nil && n.Ended != nil {
			return i + 1, t.Parts[i]
		}
	}
	return 0, nil
}

// resumeTurn makes the newest turn the running one again.
func (s *State) resumeTurn(c *Chat, e *event.Event, b *event.TurnResumed) {
	n := len(c.Turns)
	if c.Active != nil || n == 0 || c.Turns[n-1].ID != e.Turn {
		return
	}
	t := *c.Turns[n-1]
	part := b.Part
	t.Parts = append(slices.Clone(t.Parts), &part)
	t.Status, t.Error, t.Duration, t.Synthetic, t.Point, t.Resumable = event.TurnRunning, nil, 0, false, nil, false
	t.owned, t.edit = nil, s.edit
	c.Active, c.Turns = &t, c.Turns[:n-1:n-1]
	c.Count--
	c.Cuts++
	s.Info.Closed = false
}
