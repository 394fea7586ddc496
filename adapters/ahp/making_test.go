package ahp

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/polyhost/polyhost/backends/demo"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/host"
)

// lame is the demo agent, which cannot be started while it is lame.
type lame struct {
	*demo.Backend
	lame   atomic.Bool
	opened atomic.Int32
}

func (b *lame) Open(ctx context.Context, o agent.Open) (agent.Conversation, error) {
	b.opened.Add(1)
	if b.lame.Load() {
		return nil, errors.New("it has no legs")
	}
	return b.Backend.Open(ctx, o)
}

func withAgent(t *testing.T, b agent.Backend) func(*host.Options) {
	t.Cleanup(func() { _ = b.Close() })
	return func(o *host.Options) { o.Backends = []host.NamedBackend{{Name: "demo", Backend: b}} }
}

// A session is cheap until its first turn; then it is ready, and only after that
// it is announced.
func TestASessionIsReadyBeforeItIsAnnounced(t *testing.T) {
	t.Parallel()
	b := &lame{Backend: demo.New()}
	g := newGateway(t, withAgent(t, b))
	a := g.connect("a")
	const uri = "demo:/new"
	chat := a.session(g, uri)
	if s := a.state(uri); s["lifecycle"] != "creating" || b.opened.Load() != 0 {
		t.Fatalf("before the first turn: %d agents, %s", b.opened.Load(), show(s))
	}
	from := a.mark()
	a.dispatch(chat, started("t1", "say x"))
	_, from = a.action(from, uri, "session/ready")
	a.wait(from, "the announcement after it is ready", func(f object) bool { return f["method"] == "root/sessionAdded" })
	a.idle(chat, "t1")
	a.agree(g, uri)
	if s := a.state(uri); s["lifecycle"] != "ready" {
		t.Errorf("after the turn: %s", show(s))
	}
}

// A session whose agent cannot be started stays to be made: the turn says why,
// and the next one may find the agent.
func TestATurnSaysThatItsAgentCannotBeStarted(t *testing.T) {
	t.Parallel()
	b := &lame{Backend: demo.New()}
	b.lame.Store(true)
	g := newGateway(t, withAgent(t, b))
	a := g.connect("a")
	const uri = "demo:/lame"
	chat := a.session(g, uri)
	from := a.mark()
	a.dispatch(chat, started("t1", "say x"))
	failed, _ := a.action(from, chat, "chat/error")
	if e := failed["part"].(object)["error"].(object); e["errorType"] != "agent_start" || !strings.Contains(e["message"].(string), "no legs") {
		t.Errorf("the turn: %s", show(failed))
	}
	a.wait(0, "the announcement of a session with a failed turn", func(f object) bool { return f["method"] == "root/sessionAdded" })
	a.agree(g, uri)
	if s := a.state(uri); s["lifecycle"] != "creating" || s["creationError"] != nil {
		t.Errorf("after the failure: %s", show(s))
	}
	b.lame.Store(false)
	a.dispatch(chat, started("t2", "say y"))
	a.action(from, uri, "session/ready")
	a.idle(chat, "t2")
	a.agree(g, uri)
}

// Nobody waits for the answer to a request of an automation: its session says
// that it could not be made.
func TestAnAutomationsSessionSaysThatItCouldNotBeMade(t *testing.T) {
	t.Parallel()
	b := &lame{Backend: demo.New()}
	b.lame.Store(true)
	g := newGateway(t, withAgent(t, b))
	a := g.connect("a")
	a.subscribe(automationsURI)
	a.make(one, definition("say x"))
	run := a.start(one, "r")
	a.subscribe(run)
	st := a.over(run)
	uri, _ := st["primarySession"].(string)
	a.subscribe(uri)
	a.until(uri, "the failed making", func(s object) bool {
		e, _ := s["creationError"].(object)
		return s["lifecycle"] == "failed" && e["errorType"] == "agent_start" && strings.Contains(e["message"].(string), "no legs")
	})
	b.lame.Store(false)
	chat := a.state(uri)["defaultChat"].(string)
	a.subscribe(chat)
	from := a.mark()
	a.dispatch(chat, started("again", "say y"))
	a.action(from, uri, "session/ready")
	a.idle(chat, "again")
	a.agree(g, uri)
}
