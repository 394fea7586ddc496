package cognitio

import (
	"reflect"
	"slices"
	"testing"
)

// messages are the ids of a session's messages, as they are read.
func (g *gateway) messages(ses string) (out []string) {
	g.t.Helper()
	for _, m := range g.must("GET", "/session/"+ses+"/message", nil).([]any) {
		out = append(out, m.(map[string]any)["info"].(map[string]any)["id"].(string))
	}
	return out
}

func TestMessagesThatWereTakenBackAreRemoved(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	ses := g.session()
	g.must("POST", "/session/"+ses+"/message", say("say one"))
	stay := g.messages(ses)
	g.must("POST", "/session/"+ses+"/message", say("read none\nsay two"))
	g.must("POST", "/session/"+ses+"/message", say("say three"))
	gone := g.messages(ses)[len(stay):]
	events := g.listen("/global/event")
	s := g.core(ses)
	chat := s.State().DefaultChat()
	if _, err := s.Truncate(g.ctx(), chat.ID, chat.Turns[0].ID, other); err != nil {
		t.Fatal(err)
	}
	var removed []string
	for _, e := range events.until("session.updated") {
		if e.Type == "message.removed" && e.str("sessionID") == ses {
			removed = append(removed, e.str("messageID"))
		}
	}
	if !slices.Equal(removed, gone) || len(gone) < 5 {
		t.Errorf("removed %v, want %v", removed, gone)
	}
	if got := g.messages(ses); !slices.Equal(got, stay) {
		t.Errorf("left are %v, want %v", got, stay)
	}
}

func TestAResumedTurnHasAnotherAnswer(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	ses := g.session()
	events := g.listen("/global/event")
	g.must("POST", "/session/"+ses+"/message", say("say one\nusage 1 2\nfail no luck\nsay two\nusage 4 8"))
	events.until("session.idle") // it may be told after the answer
	failed := g.messages(ses)
	s := g.core(ses)
	chat := s.State().DefaultChat()
	if err := s.ResumeTurn(g.ctx(), chat.ID, chat.Turns[0].ID, other); err != nil {
		t.Fatal(err)
	}
	seen := events.until("session.idle")
	list := g.must("GET", "/session/"+ses+"/message", nil).([]any)
	if now := g.messages(ses); len(now) != 3 || !slices.Equal(now[:2], failed) {
		t.Fatalf("the messages were %v and are %v", failed, now)
	}
	first, second := list[1].(map[string]any)["info"].(map[string]any), list[2].(map[string]any)["info"].(map[string]any)
	if first["error"] == nil || second["error"] != nil || first["parentID"] != second["parentID"] {
		t.Errorf("%v and %v", first, second)
	}
	for _, m := range []map[string]any{first, second} {
		want := map[string]float64{first["id"].(string): 1, second["id"].(string): 4}[m["id"].(string)]
		if got := m["tokens"].(map[string]any)["input"]; got != want {
			t.Errorf("%v tokens, want %v", got, want)
		}
	}
	var told map[string]any
	for _, e := range seen {
		if e.Type == "message.updated" {
			told = e.Properties["info"].(map[string]any)
		}
	}
	if !reflect.DeepEqual(told, second) {
		t.Errorf("told was %v, read is %v", told, second)
	}
}
