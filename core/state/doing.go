package state

import (
	"cmp"

	"github.com/polyhost/polyhost/core/event"
)

// Doing is what the chat does in one line: the newest call that runs, or else the
// step of the plan that is being done; "" without a turn.
func (c *Chat) Doing() string {
	if c.Active == nil {
		return ""
	}
	for i := len(c.Active.Parts) - 1; i >= 0; i-- {
		if t := c.Active.Parts[i].Tool; t != nil && t.Status == event.CallRunning {
			return cmp.Or(t.Title, t.Name)
		}
	}
	for _, step := range c.Plan {
		if step.Status == event.PlanActive {
			return step.Text
		}
	}
	return ""
}

// Doing is what the session does in one line: what its default chat does, or else
// the first of the others that does something.
func (s *State) Doing() string {
	if c := s.DefaultChat(); c != nil {
		if doing := c.Doing(); doing != "" {
			return doing
		}
	}
	for _, c := range s.Chats {
		if doing := c.Doing(); doing != "" {
			return doing
		}
	}
	return ""
}
