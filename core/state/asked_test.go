package state_test

import (
	"testing"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
)

// A finished turn still tells what was asked in it, where, and what the answer
// was; a frozen state does not see the answer that came after it.
func TestTurnKeepsItsQuestions(t *testing.T) {
	t.Parallel()
	st := state.New(state.DefaultLimits)
	session, chat, turn, ask := id.New(), id.New(), id.New(), id.New()
	apply := func(c, tn id.ID, b event.Body) {
		t.Helper()
		if err := st.Apply(&event.Event{Seq: st.Seq + 1, At: time.UnixMilli(1), Chat: c, Turn: tn, Body: b}); err != nil {
			t.Fatal(err)
		}
	}
	apply(id.Nil, id.Nil, &event.SessionCreated{Info: event.SessionInfo{ID: session}, Default: chat})
	apply(chat, turn, &event.TurnStarted{})
	apply(chat, turn, &event.PartStarted{Part: event.Part{ID: id.New(), Kind: event.PartText}})
	apply(chat, turn, &event.InteractionOpened{Interaction: event.Interaction{ID: ask, Kind: event.Question, Chat: chat, Turn: turn,
		Questions: []event.QuestionItem{{ID: "q", Text: "Which?"}}}})
	open := st.Freeze()
	apply(chat, turn, &event.InteractionResolved{ID: ask, Of: event.Question,
		Resolution: event.Resolution{Outcome: event.Answered, Answers: []event.Answer{{ID: "q", Text: "this"}}}})
	apply(chat, turn, &event.TurnEnded{Status: event.TurnComplete})

	if a := open.Chat(chat).Active.Asked; len(a) != 1 || a[0].Resolution != nil || a[0].After != 1 {
		t.Fatalf("the frozen state has %+v", a)
	}
	done := st.Chat(chat).Turns[0].Asked
	if len(done) != 1 || done[0].Resolution == nil || done[0].Resolution.Answers[0].Text != "this" {
		t.Fatalf("the finished turn has %+v", done)
	}
}
