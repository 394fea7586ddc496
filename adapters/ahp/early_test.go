package ahp

import (
	"context"
	"testing"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
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
