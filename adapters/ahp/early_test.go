package ahp

import (
	"context"
	"testing"

	"github.com/polyhost/polyhost/backends/demo"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/store/memstore"
)

// A client that is quicker than the front itself knows how many sessions there
// are, and hears of those that are made meanwhile.
func TestRootOfAnEarlyClientIsWhole(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	use := func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		s, err := g.host.CreateSession(ctx, host.CreateSession{By: event.Actor{Front: "test"}})
		if err != nil {
			t.Fatal(err)
		}
		p, err := s.Prompt(ctx, host.Prompt{Text: "say hi", By: event.Actor{Front: "test"}})
		if err == nil {
			_, err = s.WaitTurn(ctx, s.State().Default, p.Turn)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	use()
	g.stop()
	var c *peer
	g.early = func() {
		c = g.connect("early")
		if n := c.state(rootURI)["activeSessions"]; n != 1.0 {
			t.Errorf("%v sessions at first", n)
		}
		use()
	}
	g.start()
	c.wait(0, "root/sessionAdded", func(f object) bool { return f["method"] == "root/sessionAdded" })
	c.until(rootURI, "the number of sessions", func(s object) bool { return s["activeSessions"] == 2.0 })
}

// late is the demo agent, which takes its time to say what it is.
type late struct {
	*demo.Backend
	said chan struct{}
}

func (b late) Info(ctx context.Context) (agent.Info, error) {
	select {
	case <-b.said:
		return b.Backend.Info(ctx)
	case <-ctx.Done():
		return agent.Info{}, ctx.Err()
	}
}

// A chat that was opened before its agent said that it can take up conversations
// may be moved once it has.
func TestChatsMayMoveOnceTheirAgentIsKnown(t *testing.T) {
	t.Parallel()
	b := late{demo.New(), make(chan struct{})}
	g := &gateway{t: t, dir: t.TempDir(), home: t.TempDir(), store: memstore.New(), unasked: true}
	g.start(withAgent(t, b))
	p := g.connect("p")
	const uri, chat = "demo:/late", "ahp-chat:/second"
	p.session(g, uri)
	p.call("createChat", object{"channel": uri, "chat": chat})
	p.subscribe(chat)
	if p.state(chat)["movable"] != false {
		t.Errorf("%s", show(p.state(chat)))
	}
	close(b.said)
	p.until(chat, "that it may move", func(s object) bool { return s["movable"] == true })
	p.until(uri, "the same of its row", func(s object) bool {
		for _, c := range s["chats"].([]any) {
			if c := c.(object); c["resource"] == chat {
				return c["movable"] == true
			}
		}
		return false
	})
	p.agree(g, chat)
}
