package zidane

import (
	"fmt"
	"testing"
)

// A client that is quicker than the front itself misses nothing of a session.
func TestSignalsOfAnEarlyClientAreWhole(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.stop()
	var c *client
	var session string
	g.early = func() {
		c = g.connect()
		session = c.newSession()
		c.ok("chat.send", fmt.Sprintf(`{"sessionId":%q,"prompt":"say a\nsleep 600000"}`, session))
		c.ok("queue.add", fmt.Sprintf(`{"sessionId":%q,"prompt":"say queued"}`, session))
	}
	g.start()
	if items := c.nextKind("queue:changed")["items"].([]any); len(items) != 1 {
		t.Errorf("%d prompts wait", len(items))
	}
	if r := c.ok("chat.stop", fmt.Sprintf(`{"sessionId":%q}`, session)); r["stopped"] != true {
		t.Errorf("stop: %v", r)
	}
}
