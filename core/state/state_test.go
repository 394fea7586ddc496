package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
)

// history draws a session's life: valid events, in order, with everything a
// session can go through.
func history(t *rapid.T) []*event.Event {
	w := &world{t: t, s: New(DefaultLimits)}
	def := id.New()
	w.add(id.Nil, id.Nil, &event.SessionCreated{Info: event.SessionInfo{ID: id.New(), Dirs: []string{"/w"}, Provisional: true}, Default: def})
	for range rapid.IntRange(0, 120).Draw(t, "length") {
		w.step(rapid.IntRange(0, 19).Draw(t, "step"))
	}
	return w.events
}

type world struct {
	t      *rapid.T
	s      *State
	events []*event.Event
}

func (w *world) add(chat, turn id.ID, b event.Body) {
	e := &event.Event{Seq: w.s.Seq + 1, At: time.UnixMilli(int64(1000 * w.s.Seq)).UTC(), Chat: chat, Turn: turn, Body: b}
	if err := w.s.Apply(e); err != nil {
		w.t.Fatal(err)
	}
	w.events = append(w.events, e)
}

func (w *world) text() string { return rapid.StringN(0, 12, -1).Draw(w.t, "text") }

func (w *world) step(kind int) {
	c := w.s.Chats[rapid.IntRange(0, len(w.s.Chats)-1).Draw(w.t, "chat")]
	text := w.text()
	if c.Active == nil {
		if t := c.Resumable(); t != nil && kind > 9 {
			w.add(c.ID, t.ID, &event.TurnResumed{Message: t.Message, Part: event.Part{ID: id.New(), Kind: event.PartNotice,
				EndedAt: time.UnixMilli(int64(1000 * w.s.Seq)).UTC(), Notice: &event.Notice{Text: text, Ended: &event.Ended{}}}})
			return
		}
		if n := len(c.Turns); n > 0 && kind == 9 {
			w.add(c.ID, id.Nil, &event.TurnPointed{Turn: c.Turns[n-1].ID, Point: event.Point{Conversation: "c", At: text}})
			return
		}
		switch kind {
		case 0:
			w.add(id.Nil, id.Nil, &event.SessionUpdated{Title: &text, Aliases: map[string]string{"f": text}})
		case 1:
			w.add(id.New(), id.Nil, &event.ChatAdded{Info: event.ChatInfo{ID: id.New()}})
		case 2:
			w.add(c.ID, id.Nil, &event.DraftChanged{Text: text})
		case 3:
			w.add(c.ID, id.Nil, &event.MessageQueued{Message: event.Message{ID: id.New(), Text: text}, Steer: text > "m"})
		case 4:
			for _, m := range c.Queue {
				w.add(c.ID, id.Nil, &event.MessageRemoved{ID: m.ID, Why: event.RemovedByUser})
				break
			}
		case 5:
			if c.ID != w.s.Default {
				w.add(c.ID, id.Nil, &event.ChatRemoved{})
			}
		case 6:
			w.add(id.Nil, id.Nil, &event.ClientToolsSet{Client: event.Actor{Client: text}, Tools: []event.ClientTool{{Name: "t"}}})
		default:
			w.add(c.ID, id.New(), &event.TurnStarted{Message: event.Message{ID: id.New(), Text: text}})
		}
		return
	}
	turn := c.Active
	var open *event.Part
	for _, p := range turn.Parts {
		if !p.Ended() {
			open = p
		}
	}
	switch {
	case kind < 2:
		for _, i := range w.s.Open {
			if i.Turn == turn.ID {
				w.add(c.ID, turn.ID, &event.InteractionResolved{ID: i.ID, Of: i.Kind})
			}
		}
		end := &event.TurnEnded{Status: event.TurnComplete, Duration: time.Second}
		if kind == 1 {
			end.Status, end.Error, end.Resumable = event.TurnFailed, &event.Error{Code: text}, true
		}
		w.add(c.ID, turn.ID, end)
	case kind < 4:
		w.add(c.ID, turn.ID, &event.PartStarted{Part: event.Part{ID: id.New(), Kind: event.PartText}})
	case kind < 6:
		w.add(c.ID, turn.ID, &event.PartStarted{Part: event.Part{ID: id.New(), Kind: event.PartTool, Tool: &event.Tool{Call: text, Status: event.CallStreaming}}})
	case kind == 6:
		w.add(c.ID, turn.ID, &event.UsageReported{Usage: event.Usage{Input: 1}})
	case kind == 7:
		w.add(c.ID, id.Nil, &event.PlanUpdated{Items: []event.PlanItem{{ID: text}}})
	case kind == 8:
		w.add(c.ID, turn.ID, &event.InteractionOpened{Interaction: event.Interaction{ID: id.New(), Kind: event.Approval, Chat: c.ID, Turn: turn.ID}})
	case open == nil:
		w.add(c.ID, turn.ID, &event.PartDelta{Part: id.New(), Text: text}) // of an unknown part
	case open.Tool == nil && kind < 17:
		w.add(c.ID, turn.ID, &event.PartDelta{Part: open.ID, Text: text})
	case open.Tool == nil:
		w.add(c.ID, turn.ID, &event.PartEnded{Part: open.ID, Text: open.Text.String()})
	case kind < 11:
		w.add(c.ID, turn.ID, &event.ToolReady{Part: open.ID, Input: json.RawMessage(`{}`)})
	case kind < 13:
		w.add(c.ID, turn.ID, &event.ToolRunning{Part: open.ID, Allowed: "mode"})
	case kind < 17:
		w.add(c.ID, turn.ID, &event.PartDelta{Part: open.ID, Field: event.FieldOutput, Text: text})
	default:
		w.add(c.ID, turn.ID, &event.ToolEnded{Part: open.ID, Status: event.CallDone, Output: open.Tool.Output.String()})
	}
}

func encode(t *rapid.T, s *State) string {
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func fold(t *rapid.T, s *State, events []*event.Event) *State {
	for _, e := range events {
		if err := s.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// small makes the window slide within the length of a drawn history.
var small = Limits{Turns: 2, Bytes: 4000}

// A snapshot at any number with the events after it is the whole fold.
func TestSnapshotAndTailIsTheWholeFold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := history(t)
		whole := encode(t, fold(t, New(small), events))
		at := rapid.IntRange(0, len(events)).Draw(t, "snapshot at")
		snapshot := encode(t, fold(t, New(small), events[:at]))
		restored, err := Decode([]byte(snapshot), small)
		if err != nil {
			t.Fatal(err)
		}
		if got := encode(t, fold(t, restored, events[at:])); got != whole {
			t.Fatalf("snapshot at %d of %d gives\n%s\nthe whole fold\n%s", at, len(events), got, whole)
		}
	})
}

// A frozen state never changes, however the fold goes on and whoever else
// continues from it.
func TestFrozenStatesNeverChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := history(t)
		s := New(small)
		type kept struct {
			state *State
			want  string
			from  int
		}
		var all []kept
		for i, e := range events {
			if rapid.IntRange(0, 3).Draw(t, "freeze") == 0 {
				all = append(all, kept{s.Freeze(), "", i})
				all[len(all)-1].want = encode(t, all[len(all)-1].state)
			}
			if err := s.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
		whole := encode(t, s)
		for _, k := range all {
			if got := encode(t, fold(t, k.state.Thaw(small), events[k.from:])); got != whole {
				t.Fatalf("continued from %d:\n%s\nthe whole fold\n%s", k.from, got, whole)
			}
		}
		for _, k := range all {
			if got := encode(t, k.state); got != k.want {
				t.Fatalf("the state frozen at %d was\n%s\nand is\n%s", k.from, k.want, got)
			}
		}
	})
}

func TestApplyRefusesAGap(t *testing.T) {
	s := New(DefaultLimits)
	if err := s.Apply(&event.Event{Seq: 2, Body: &event.PartDelta{}}); !errors.Is(err, ErrGap) {
		t.Errorf("got %v", err)
	}
}

func TestTheNewestTurnsStayWithinTheirBounds(t *testing.T) {
	s := New(Limits{Turns: 3, Bytes: 1 << 20})
	chat := id.New()
	seq := uint64(0)
	add := func(turn id.ID, b event.Body) {
		seq++
		if err := s.Apply(&event.Event{Seq: seq, Chat: chat, Turn: turn, Body: b}); err != nil {
			t.Fatal(err)
		}
	}
	add(id.Nil, &event.SessionCreated{Default: chat})
	for i := range 10 {
		turn := id.New()
		add(turn, &event.TurnStarted{Message: event.Message{Text: fmt.Sprint(i)}})
		add(turn, &event.TurnEnded{Status: event.TurnComplete})
	}
	c := s.DefaultChat()
	if c.Count != 10 || len(c.Turns) != 3 || c.Turns[0].Message.Text != "7" || c.Turns[0].Number != 7 {
		t.Errorf("count %d, window %d from %q", c.Count, len(c.Turns), c.Turns[0].Message.Text)
	}
}

func TestAResumedTurnGoesOnAsOneTurn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{t: rt, s: New(ActiveOnly)} // what fronts fold with
		chat := id.New()
		w.add(id.Nil, id.Nil, &event.SessionCreated{Info: event.SessionInfo{ID: id.New()}, Default: chat})
		turn := id.New()
		w.add(chat, turn, &event.TurnStarted{Message: event.Message{ID: id.New(), Text: "do it"}})
		times := rapid.IntRange(1, 4).Draw(rt, "times")
		for n := range times {
			w.add(chat, turn, &event.PartStarted{Part: event.Part{ID: id.New(), Kind: event.PartText, EndedAt: time.UnixMilli(1)}})
			w.add(chat, turn, &event.UsageReported{Usage: event.Usage{Input: 2}})
			w.add(chat, turn, &event.TurnEnded{Status: event.TurnFailed, Error: &event.Error{Code: "bad"}, Resumable: true})
			frozen := w.s.Freeze()
			before := encode(rt, frozen)
			w.add(chat, turn, &event.TurnResumed{Part: event.Part{ID: id.New(), Kind: event.PartNotice, EndedAt: time.UnixMilli(1), Notice: &event.Notice{Code: "bad", Ended: &event.Ended{}}}})
			c := w.s.Chat(chat)
			if c.Count != 0 || len(c.Turns) != 0 || c.Active == nil || c.Active.Failures() != n+1 || len(c.Active.Parts) != 2*n+2 || c.Active.Error != nil {
				rt.Fatalf("resumed: %s", encode(rt, w.s))
			}
			if after := encode(rt, frozen); after != before {
				rt.Fatalf("a frozen state changed:\n%s\n%s", before, after)
			}
		}
		w.add(chat, turn, &event.TurnEnded{Status: event.TurnComplete})
		c := w.s.Chat(chat)
		if c.Active != nil || c.Count != 1 || len(c.Turns) != 1 || c.Turns[0].Usage.Input != int64(2*times) || c.Resumable() != nil {
			rt.Fatalf("%s", encode(rt, w.s))
		}
	})
}

func TestTitleOf(t *testing.T) {
	for prompt, want := range map[string]string{
		"":                    "",
		"\n  \n fix it \nnow": "fix it",
		"exactly one":         "exactly one",
		"a very long first line that goes on and on until nobody wants to read it": "a very long first line that goes on and on until nobody…",
	} {
		if got := TitleOf(prompt); got != want {
			t.Errorf("TitleOf(%q) = %q, want %q", prompt, got, want)
		}
	}
}
