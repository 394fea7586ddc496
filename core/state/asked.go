package state

import (
	"slices"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
)

// Asked is a question of a turn, with its answer once there is one. Questions
// stay with their turn, so that whoever reads it later sees what was asked and
// what was said.
type Asked struct {
	Interaction event.Interaction `json:"interaction"`
	// After is how many parts the turn had when it was asked.
	After int `json:"after"`
	// Resolution is nil while the question is open. Secret answers are not
	// in it.
	Resolution *event.Resolution `json:"resolution,omitempty"`
}

// ask notes a question in its running turn.
func (s *State) ask(i *event.Interaction) {
	if i.Kind != event.Question {
		return
	}
	if t := s.activeOf(i.Chat, i.Turn); t != nil {
		t.Asked = append(slices.Clone(t.Asked), &Asked{Interaction: *i, After: len(t.Parts)})
	}
}

// answer notes how a question was settled.
func (s *State) answer(chat, turn id.ID, b *event.InteractionResolved) {
	if b.Of != event.Question {
		return
	}
	t := s.activeOf(chat, turn)
	if t == nil {
		return
	}
	for n, a := range t.Asked {
		if a.Interaction.ID == b.ID {
			settled := *a
			settled.Resolution = &b.Resolution
			t.Asked = slices.Clone(t.Asked)
			t.Asked[n] = &settled
		}
	}
}

func (s *State) activeOf(chat, turn id.ID) *Turn {
	if c := s.chat(chat); c != nil {
		return s.active(c, turn)
	}
	return nil
}
