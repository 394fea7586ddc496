package snowpea

import (
	"strings"
	"testing"
)

// An answer waits for the interrupts before it; one that was refused because too
// much was going on must not hold it up.
func TestAnswersPassBehindAnInterruptRefusedAsBusy(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.hello()
	s := c.session(g.dir)
	turn := c.prompt(s, "run echo hi")
	_, p := c.asked("approval.request", 1)
	refused := false
	for range 50 { // until the flood outruns what is served
		var last []int
		for range maxInFlight * 4 {
			last = append(last, c.request("session.interrupt", object("sessionId", "nope")))
		}
		for _, id := range last {
			if e := c.answer(id).Error; e != nil && strings.Contains(e.Message, "in flight") {
				refused = true
			}
		}
		if refused {
			break
		}
	}
	if !refused {
		t.Fatal("no interrupt was refused as busy")
	}
	if r := c.call("approval.respond", object("requestId", p["requestId"], "decision", "allow")); r["ok"] != true {
		t.Errorf("approval.respond answers %v", r)
	}
	c.done(turn)
}

// A client that opens everything at once is served.
func TestAHundredRequestsAtOnceAreAnswered(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.hello()
	var ids []int
	for range 100 {
		ids = append(ids, c.request("session.create", object("workdir", g.dir)))
	}
	for _, id := range ids {
		if e := c.answer(id).Error; e != nil {
			t.Fatalf("refused: %+v", e)
		}
	}
}
