package host_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
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

// Nobody signs in: the call fails after a while, as a question goes unanswered then.
func TestASignInThatNobodyMakesExpires(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *host.Options) { o.QuestionTimeout = 100 * time.Millisecond })
	s := f.session()
	p := f.prompt(s, "server docs locked https://x/docs\nuse docs search found\nsay after")
	opened := f.until(s, "the sign-in", func(e *event.Event) bool {
		b, ok := e.Body.(*event.InteractionOpened)
		return ok && b.Interaction.Kind == event.SignIn
	})
	expires := opened.Body.(*event.InteractionOpened).Interaction.ExpiresAt
	turn := f.wait(s, p.Turn)
	if expires.IsZero() || turn.Status != event.TurnComplete || turn.Text() != "after" {
		t.Errorf("expires %v: %s, %q", expires, turn.Status, turn.Text())
	}
	if call := turn.Parts[0].Tool; call.Status != event.CallFailed || call.Error+call.Output.String() == "" {
		t.Errorf("the call: %+v", call)
	}
	f.until(s, "the end of the sign-in", func(e *event.Event) bool {
		b, ok := e.Body.(*event.InteractionResolved)
		return ok && b.Of == event.SignIn && b.Resolution.Outcome == event.Expired
	})
}

func TestWhatACallDoesIsToldOnceForEachLine(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := &rogue{say: func(c *rogueTalk, _ string) {
		tool := &agent.Tool{Name: "Task", Tag: event.TagDelegate}
		say := func(text string) { c.frames <- agent.Frame{Kind: agent.Progress, Call: "one", Text: text} }
		say("too early")
		c.frames <- agent.Frame{Kind: agent.ToolStart, Call: "one", Tool: tool}
		say("too early")
		c.frames <- agent.Frame{Kind: agent.ToolRun, Call: "one", Tool: tool}
		say("looks\nand more")
		say("looks")
		say("")
		say(strings.Repeat("x", host.MaxProgress+1))
		c.frames <- agent.Frame{Kind: agent.ToolEnd, Call: "one", Result: &agent.Result{}}
		say("too late")
		c.frames <- agent.Frame{Kind: agent.TurnEnd, Turn: c.turn, Status: event.TurnComplete}
	}}
	f.openOver(r)
	t.Cleanup(func() {
		if err := f.host.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	s := f.session()
	turn := f.wait(s, f.prompt(s, "go").Turn)
	events, err := s.Events(f.ctx(), 0, 0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, e := range events {
		if b, ok := e.Body.(*event.ToolProgress); ok {
			said = append(said, b.Text)
		}
	}
	if len(said) != 2 || said[0] != "looks" || said[1] != strings.Repeat("x", host.MaxProgress) {
		t.Errorf("said %q", said)
	}
	if p := turn.Parts[0].Tool.Progress; p != "" {
		t.Errorf("a call that is over does %q", p)
	}
}
