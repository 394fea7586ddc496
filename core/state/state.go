// Package state folds the events of a session into what the session is.
//
// Apply is the one reducer: pure, without clock and without I/O. A State that
// was frozen never changes again, so readers share it without a lock; the next
// Apply copies only the nodes on its path. The newest turns of a chat are kept
// in the state (limits.go says how many); older ones are in the store, by
// number. A snapshot at sequence N with the events after N folded onto it is
// the same state as the whole fold.
//
// A delta costs the same however long the conversation is: it appends to the
// buffer of its part and touches nothing else.
package state

import (
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
)

// State is a session at sequence Seq. Treat it as read-only: only Apply writes.
type State struct {
	Seq  uint64            `json:"seq"`
	Info event.SessionInfo `json:"info"`
	// ModifiedAt is the time of the last event people care about: not of
	// drafts and read marks.
	ModifiedAt time.Time `json:"modified_at"`
	// Default is the chat that single-chat fronts show.
	Default id.ID   `json:"default"`
	Chats   []*Chat `json:"chats"`
	// Open are the interactions nobody has settled, oldest first.
	Open []*event.Interaction `json:"open,omitempty"`
	// Tools are the tools of clients, by client.
	Tools []event.ClientToolsSet `json:"tools,omitempty"`
	Usage event.Usage            `json:"usage,omitzero"`
	// LastPrompt is the text of the newest message a person sent.
	LastPrompt string `json:"last_prompt,omitempty"`
	edit       uint64
	limit      Limits
}

// Chat is one conversation.
type Chat struct {
	event.ChatInfo
	ModifiedAt time.Time `json:"modified_at"`
	// Turns are the newest finished turns, oldest first.
	Turns []*Turn `json:"turns,omitempty"`
	// Count is how many turns have finished in all; the first of Turns has
	// number Count-len(Turns), counted from 0.
	Count int `json:"count"`
	// Cuts is how often turns were taken away, or resumed: Count alone does not
	// tell.
	Cuts int `json:"cuts,omitempty"`
	// Rest is there until a turn begins or one that was resumed ends, in a chat that
	// lost its newest turns or came with copies: when it was last changed, as a turn
	// without parts.
	Rest *Turn `json:"rest,omitempty"`
	// Active is the running turn.
	Active *Turn `json:"active,omitempty"`
	// Queue waits for the running turn's end, Steering for the agent to
	// take it into the running turn; oldest first.
	Queue    []event.Message       `json:"queue,omitempty"`
	Steering []event.Message       `json:"steering,omitempty"`
	Plan     []event.PlanItem      `json:"plan,omitempty"`
	Draft    *event.DraftChanged   `json:"draft,omitempty"`
	Usage    event.Usage           `json:"usage,omitzero"`
	Context  event.ContextReported `json:"context,omitzero"`
	// Work is what the agent goes on with beside its turns.
	Work []event.Work `json:"work,omitempty"`
	edit uint64
}

// Turn is one exchange.
type Turn struct {
	ID id.ID `json:"id"`
	// Number is the turn's position in its chat, from 0.
	Number    int           `json:"number"`
	Message   event.Message `json:"message"`
	StartedAt time.Time     `json:"started_at"`
	Parts     []*event.Part `json:"parts,omitempty"`
	// Asked are the turn's questions, in order.
	Asked     []*Asked         `json:"asked,omitempty"`
	Status    event.TurnStatus `json:"status"`
	Duration  time.Duration    `json:"duration,omitempty"`
	Error     *event.Error     `json:"error,omitempty"`
	Synthetic bool             `json:"synthetic,omitempty"`
	// Resumable: it failed, and its agent can go on with it while it is the
	// newest.
	Resumable bool        `json:"resumable,omitempty"`
	Usage     event.Usage `json:"usage,omitzero"`
	// Point is where the agent can go back to, see event.TurnEnded.
	Point *event.Point `json:"point,omitempty"`
	// Context is how full the agent's context was when it last said so.
	Context event.ContextReported `json:"context,omitzero"`
	edit    uint64
	// owned are the edits of Parts, by index.
	owned []uint64
}

// Chat returns the chat of that id, or nil.
func (s *State) Chat(c id.ID) *Chat {
	for i := len(s.Chats) - 1; i >= 0; i-- {
		if s.Chats[i].ID == c {
			return s.Chats[i]
		}
	}
	return nil
}

// DefaultChat is the chat that single-chat fronts show.
func (s *State) DefaultChat() *Chat { return s.Chat(s.Default) }

// Interaction returns the open interaction of that id, or nil.
func (s *State) Interaction(i id.ID) *event.Interaction {
	for _, o := range s.Open {
		if o.ID == i {
			return o
		}
	}
	return nil
}

// Running reports whether any chat has a running turn.
func (s *State) Running() bool {
	for _, c := range s.Chats {
		if c.Active != nil {
			return true
		}
	}
	return false
}

// Turn returns a running turn or one in the window, or nil.
func (c *Chat) Turn(t id.ID) *Turn {
	if c.Active != nil && c.Active.ID == t {
		return c.Active
	}
	for i := len(c.Turns) - 1; i >= 0; i-- {
		if c.Turns[i].ID == t {
			return c.Turns[i]
		}
	}
	return nil
}

// Part returns the part of that id, or nil.
func (t *Turn) Part(p id.ID) *event.Part {
	for i := len(t.Parts) - 1; i >= 0; i-- {
		if t.Parts[i].ID == p {
			return t.Parts[i]
		}
	}
	return nil
}

// Call returns the tool part with the agent's call id, or nil.
func (t *Turn) Call(call string) *event.Part {
	for i := len(t.Parts) - 1; i >= 0; i-- {
		if p := t.Parts[i]; p.Tool != nil && p.Tool.Call == call {
			return p
		}
	}
	return nil
}

// Text is the text of the turn's last text part: its final answer.
func (t *Turn) Text() string {
	for i := len(t.Parts) - 1; i >= 0; i-- {
		if t.Parts[i].Kind == event.PartText {
			return t.Parts[i].Text.String()
		}
	}
	return ""
}
