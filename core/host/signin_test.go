package host_test

import (
	"context"
	"testing"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

func TestACallOfAServerThatWantsASignInWaitsForIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	servers := func(state agent.ServerState, url string) agent.Frame {
		return agent.Frame{Kind: agent.Servers, Servers: []agent.ServerStatus{{Name: "docs", State: state, URL: url}}}
	}
	r := &rogue{say: func(c *rogueTalk, _ string) {
		c.frames <- servers(agent.ServerReady, "https://x/docs")
		for call, server := range map[string]string{"mine": "docs", "other": "wiki"} {
			tool := &agent.Tool{Name: "search", Server: server}
			c.frames <- agent.Frame{Kind: agent.ToolStart, Call: call, Tool: tool}
			c.frames <- agent.Frame{Kind: agent.ToolRun, Call: call, Tool: tool}
		}
		c.frames <- servers(agent.ServerSignIn, "https://x/docs")
	}}
	f.openOver(r)
	t.Cleanup(func() {
		if err := f.host.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	s := f.session()
	p := f.prompt(s, "go")
	i := f.opened(s, event.SignIn)
	if i.Server != "docs" || i.Resource != "https://x/docs" || i.Turn != p.Turn {
		t.Errorf("asked: %+v", i)
	}
	if open := s.State().Open; len(open) != 1 {
		t.Errorf("%d calls wait", len(open))
	}
	talk := r.talks()[0]
	talk.frames <- servers(agent.ServerStarting, "https://x/docs") // it goes on waiting
	talk.frames <- servers(agent.ServerSignIn, "https://x/docs")
	talk.frames <- servers(agent.ServerReady, "https://x/docs")
	f.until(s, "the end of the sign-in", func(e *event.Event) bool {
		b, ok := e.Body.(*event.InteractionResolved)
		return ok && b.ID == i.ID && b.Resolution.Outcome == event.Answered
	})
	// The end of a turn ends the wait.
	talk.frames <- servers(agent.ServerSignIn, "https://x/docs")
	again := f.opened(s, event.SignIn)
	if again.ID == i.ID {
		t.Error("the same sign-in was opened again")
	}
	talk.frames <- agent.Frame{Kind: agent.TurnEnd, Turn: talk.turn, Status: event.TurnComplete}
	f.wait(s, p.Turn)
	if open := s.State().Open; len(open) != 0 {
		t.Errorf("left open: %+v", open)
	}
}
