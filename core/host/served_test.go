package host_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
)

func TestOfTwoEqualCallsTheClientGetsTheOneThatTheAgentNames(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := &rogue{say: func(c *rogueTalk, _ string) {
		for _, call := range []string{"c1", "c2", "c3"} {
			c.frames <- agent.Frame{Kind: agent.ToolStart, Call: call,
				Tool: &agent.Tool{Name: "lookup", Server: host.ToolServerName, Input: json.RawMessage(`{}`)}}
		}
	}}
	f.openOver(r)
	t.Cleanup(func() {
		if err := f.host.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	s := f.session()
	if err := s.SetTools(f.ctx(), &event.ClientToolsSet{Client: tester, Tools: []event.ClientTool{{Name: "lookup"}}}); err != nil {
		t.Fatal(err)
	}
	p := f.prompt(s, "go")
	done := make(chan host.ToolOutput, 1)
	go func() {
		out, err := s.CallTool(f.ctx(), s.State().Default, "c2", "lookup", json.RawMessage(`{}`))
		if err != nil {
			t.Error(err)
		}
		done <- out
	}()
	i := f.opened(s, event.ClientCall)
	if tool := s.State().DefaultChat().Active.Part(i.Part).Tool; !strings.HasPrefix(tool.Call, "c2-") {
		t.Errorf("the client runs %s", tool.Call)
	}
	if err := s.Resolve(f.ctx(), i.ID, event.Resolution{Outcome: event.Completed, By: tester, Output: "salt"}); err != nil {
		t.Fatal(err)
	}
	if out := <-done; out.Text != "salt" {
		t.Errorf("%+v", out)
	}
	talk := r.talks()[0]
	talk.frames <- agent.Frame{Kind: agent.TurnEnd, Turn: talk.turn, Status: event.TurnComplete}
	f.wait(s, p.Turn)
}
