package zidane

import (
	"fmt"
	"slices"
	"testing"

	"github.com/polyhost/polyhost/adapters/front"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
)

// play gives events to a projection of their own session and returns the kinds
// of the transcript's events in its signals.
func play(t *testing.T, g *gateway, bodies ...event.Body) (got []string) {
	t.Helper()
	c := g.connect()
	session, chat, turn := id.New(), id.New(), id.New()
	st := state.New(state.ActiveOnly)
	var p front.Projection
	all := append([]event.Body{&event.SessionCreated{Info: event.SessionInfo{ID: session, CreatedAt: g.front.startedAt, Backend: "demo"}, Default: chat},
		&event.TurnStarted{Message: event.Message{ID: id.New(), Text: "x"}}}, bodies...)
	for i, b := range append(all, &event.TurnEnded{Status: event.TurnCancelled}) {
		e := &event.Event{Seq: uint64(i + 1), Chat: chat, Turn: turn, Body: b}
		if err := st.Apply(e); err != nil {
			t.Fatal(err)
		}
		if p == nil {
			p = g.front.open(session, st)
			continue
		}
		if _, delta := b.(*event.PartDelta); delta {
			p.Deltas([]*event.Event{e}, st)
		} else {
			p.Project(e, st)
		}
	}
	for _, s := range c.until(session.String(), "run:end") {
		if ev, ok := s["event"].(map[string]any); ok {
			got = append(got, fmt.Sprint(ev["kind"]))
		}
	}
	return got
}

func TestCallThatEndsWhileItsInputStreamsIsWhole(t *testing.T) {
	t.Parallel()
	call := event.Part{ID: id.New(), Kind: event.PartTool, Tool: &event.Tool{Call: "c1", Name: "bash", Status: event.CallStreaming}}
	got := play(t, newGateway(t), &event.PartStarted{Part: call},
		&event.PartDelta{Part: call.ID, Field: event.FieldInput, Text: `{"comm`},
		&event.ToolEnded{Part: call.ID, Status: event.CallCancelled})
	if !slices.Equal(got, []string{"tool-call", "tool-result"}) {
		t.Errorf("events %v", got)
	}
}

func TestTextThatDeltasLeftOutIsMadeGood(t *testing.T) {
	t.Parallel()
	part := event.Part{ID: id.New(), Kind: event.PartText, Text: event.TextOf("one ")}
	g := newGateway(t)
	got := play(t, g, &event.PartStarted{Part: part}, &event.PartDelta{Part: part.ID, Text: "two "},
		&event.PartEnded{Part: part.ID, Text: "one two three"})
	if !slices.Equal(got, []string{"markdown", "markdown", "markdown"}) {
		t.Errorf("events %v", got)
	}
}
