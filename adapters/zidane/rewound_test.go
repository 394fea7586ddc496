package zidane

import (
	"context"
	"fmt"
	"testing"

	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
)

// core is the core's session of that name.
func (g *gateway) core(name string) *host.Session {
	g.t.Helper()
	s, err := g.host.Session(context.Background(), id.MustParse(name))
	if err != nil {
		g.t.Fatal(err)
	}
	return s
}

// newest is the newest page of a transcript and where it begins.
func (c *client) newest(session string) (start int, events int) {
	c.t.Helper()
	page := c.ok("sessions.loadEvents", fmt.Sprintf(`{"sessionId":%q,"limit":1}`, session))
	return int(page["start"].(float64)), len(page["events"].([]any))
}

// A page says how much comes before it, also after turns were taken back that
// it had counted, and after one was resumed.
func TestATranscriptIsCountedAnewWhenItsTurnsChange(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.connect()
	session := c.newSession()
	whole := func(what string) {
		t.Helper()
		start, n := c.newest(session)
		if all := c.events(session); start+n != len(all) {
			t.Errorf("%s: %d and %d events, of %d in all", what, start, n, len(all))
		}
	}
	c.send(session, "say one")
	c.send(session, "think hm\nsay two")
	c.send(session, "say three")
	whole("as it was")
	s := g.core(session)
	chat := s.State().DefaultChat()
	if _, err := s.Truncate(t.Context(), chat.ID, chat.Turns[0].ID, elsewhere); err != nil {
		t.Fatal(err)
	}
	told := c.until(session, "session:updated")
	if cut := told[len(told)-2]; cut.kind() != "transcript:truncated" || cut["turnId"] != chat.Turns[0].ID.String() {
		t.Errorf("told was %v", cut)
	}
	whole("after a truncation")
	c.send(session, "say other")
	c.send(session, "say one\nusage 1 2\nfail no luck\nsay two\nusage 4 8")
	whole("with other turns")
	chat = s.State().DefaultChat()
	failed := chat.Turns[len(chat.Turns)-1]
	if err := s.ResumeTurn(t.Context(), chat.ID, failed.ID, elsewhere); err != nil {
		t.Fatal(err)
	}
	run := c.until(session, "run:end")
	if begin := run[0]; begin.kind() != "run:start" || begin["runId"] != failed.ID.String() {
		t.Errorf("the run begins with %v", begin)
	}
	for _, s := range run {
		if s.kind() == "turn:end" {
			if u := s["usage"].(map[string]any); u["input"] != 4.0 || u["output"] != 8.0 {
				t.Errorf("the run used %v", u)
			}
		}
	}
	c.send(session, "say last")
	whole("after a turn was resumed")
	var kinds []any
	for _, e := range c.events(session) {
		if e["turnId"] == failed.ID.String() {
			kinds = append(kinds, e["kind"])
		}
	}
	if fmt.Sprint(kinds) != "[markdown error markdown run-summary]" {
		t.Errorf("the turn is %v", kinds)
	}
}
