package snowpea

import (
	"strings"
	"testing"
)

func TestOneTurn(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c, watcher := g.hello(), g.hello()
	s := c.session(g.dir)
	turn := c.prompt(s, "say one two three")
	events := c.turnOf(s, turn)
	if got, want := kinds(events), "turn.started message.user message.delta message.done context turn.done"; got != want {
		t.Errorf("the turn was\n%s, want\n%s", got, want)
	}
	started := events[0]
	if started.text("turnId") != turn || started.Payload["queued"] != false || started.text("initiator") != "user" {
		t.Errorf("turn.started is %v", started.Payload)
	}
	if u := events[1]; u.text("text") != "say one two three" || u.Payload["steered"] != false {
		t.Errorf("message.user is %v", u.Payload)
	}
	text := ""
	for i, e := range events {
		if e.Seq != uint64(i+1) {
			t.Errorf("event %d has number %d", i+1, e.Seq)
		}
		if !strings.HasSuffix(e.TS, "Z") {
			t.Errorf("ts is %q", e.TS)
		}
		if e.Kind == "message.delta" {
			text += e.text("text")
		}
	}
	end := find(t, events, "message.done")
	if end.text("text") != text || text == "" || end.text("role") != "assistant" {
		t.Errorf("deltas give %q, message.done is %v", text, end.Payload)
	}
	if e := events[len(events)-1]; e.text("reason") != "complete" || e.Payload["synthetic"] != false {
		t.Errorf("turn.done is %v", e.Payload)
	}

	row := c.row(s)
	if row["status"] != "idle" || row["running"] != false || row["seq"] != float64(events[len(events)-1].Seq) ||
		row["title"] != "say one two three" || row["lastPrompt"] != "say one two three" {
		t.Errorf("the row is %v", row)
	}
	watcher.note("sessions.changed", func(p map[string]any) bool {
		return p["sessionId"] == s && p["reason"] == "turn" && p["status"] == "idle"
	})
	if n := len(watcher.of(s)); n != 0 {
		t.Errorf("who did not subscribe got %d events", n)
	}
}
