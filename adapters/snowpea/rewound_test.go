package snowpea

import (
	"strings"
	"testing"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
)

var elsewhere = event.Actor{Front: "elsewhere", Client: "1"}

// Who is there and who comes later hear that turns were taken back, that a chat
// began elsewhere, and that a turn was resumed.
func TestWhatOtherFrontsDoToTurnsIsTold(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.hello()
	name := c.session(t.TempDir())
	c.done(c.prompt(name, "say one"))
	c.done(c.prompt(name, "say two"))
	s := g.session(name)
	chat := s.State().DefaultChat()
	if _, err := s.Truncate(t.Context(), chat.ID, chat.Turns[0].ID, elsewhere); err != nil {
		t.Fatal(err)
	}
	remark := func(e sessionEvent, words string) bool {
		return e.Kind == "message.done" && e.text("role") == "system" && strings.Contains(e.text("text"), words)
	}
	c.event("word of the truncation", func(e sessionEvent) bool { return remark(e, "taken back") })
	turn := c.prompt(name, "say three\nfail no luck\nsay four")
	c.done(turn)
	chat = s.State().DefaultChat()
	if err := s.ResumeTurn(t.Context(), chat.ID, chat.Turns[len(chat.Turns)-1].ID, elsewhere); err != nil {
		t.Fatal(err)
	}
	c.event("the resumed turn's end", func(e sessionEvent) bool {
		return e.Kind == "turn.done" && e.text("turnId") == turn && e.text("reason") == "complete"
	})
	fork, err := s.ForkChat(t.Context(), host.ForkChat{Chat: chat.ID, Turn: chat.Turns[0].ID, By: elsewhere})
	if err != nil {
		t.Fatal(err)
	}

	later := g.hello()
	var kinds []string
	cut := false
	for _, e := range later.resume(name, 0) {
		cut = cut || remark(e, "taken back")
		if e.text("turnId") == turn && strings.HasPrefix(e.Kind, "turn.") {
			kinds = append(kinds, e.Kind+" "+e.text("reason"))
		}
	}
	if got := strings.Join(kinds, ", "); !cut || got != "turn.started , turn.done error, turn.started resumed, turn.done complete" {
		t.Errorf("told later of the truncation: %v; of the turn: %s", cut, got)
	}
	if events := later.resume(fork.String(), 0); len(events) == 0 || !remark(events[0], "began elsewhere") {
		t.Errorf("the fork begins with %+v", events)
	}
}
