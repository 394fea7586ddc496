package zidane

import (
	"fmt"
	"slices"
	"testing"
)

func TestRunComesAsSignalsInOrder(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c, watcher := g.connect(), g.connect()
	session := c.newSession()
	run := c.ok("chat.send", fmt.Sprintf(`{"sessionId":%q,"prompt":"say Hello there\nusage 10 33"}`, session))["runId"]

	got := c.until(session, "run:end")
	if text(got) != "Hello there" {
		t.Errorf("the pieces make %q", text(got))
	}
	want := []string{"run:start", "plans:snapshot", "prompt-turns", "event", "stream:progress", "turn:end", "run:end"}
	have := kinds(got)
	for _, kind := range want {
		i := slices.Index(have, kind)
		if i < 0 {
			t.Fatalf("no %s where it should be in %v", kind, kinds(got))
		}
		have = have[i+1:]
	}
	for i, s := range got {
		if s.seq() != i+1 {
			t.Errorf("signal %d has number %d: %v", i+1, s.seq(), s)
		}
		switch s.kind() {
		case "run:start":
			if s["runId"] != run {
				t.Errorf("run:start of %v, want %v", s["runId"], run)
			}
		case "turn:end":
			usage := s["usage"].(map[string]any)
			if usage["input"] != 10.0 || usage["output"] != 33.0 || usage["modelId"] == "" {
				t.Errorf("usage %v", usage)
			}
		case "run:end":
			if s["ok"] != true || s["runId"] != run {
				t.Errorf("end %v", s)
			}
		}
	}
	if seen := watcher.until(session, "run:end"); fmt.Sprint(seen) != fmt.Sprint(got) {
		t.Errorf("another connection saw\n%v, not\n%v", seen, got)
	}
}
