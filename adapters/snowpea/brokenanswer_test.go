package snowpea

import (
	"fmt"
	"testing"
)

// A client whose handler gave nothing, or failed in a way of its own, has
// answered: the turn does not stand until the time-out.
func TestBrokenAnswersDenyAnApproval(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.hello()
	s := c.session(g.dir)
	for i, answer := range []string{`{"jsonrpc":"2.0","id":%s}`, `{"jsonrpc":"2.0","id":%s,"error":null}`,
		`{"jsonrpc":"2.0","id":%s,"error":"no"}`} {
		turn := c.prompt(s, "run echo hi")
		ask, _ := c.asked("approval.request", i+1)
		c.sendRaw(fmt.Sprintf(answer, ask))
		if e := find(t, c.turnOf(s, turn), "error"); e.text("code") != "approval_denied" {
			t.Errorf("%s gives %v", answer, e.Payload)
		}
	}
}
