package snowpea

import (
	"strings"
	"testing"
)

func lookupTool() map[string]any {
	return object("name", "lookup", "description", "looks things up", "permission", "read",
		"inputSchema", object("type", "object"))
}

// A tool that a client registered is offered to its sessions, runs at the
// client, and its answer is the call's result.
func TestHostToolRunsAtItsClient(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.hello()
	s := c.session(g.dir)
	if r := c.call("tool.register", object("tools", []any{lookupTool()})); len(r["registered"].([]any)) != 1 {
		t.Fatalf("tool.register answers %v", r)
	}
	turn := c.prompt(s, `call lookup {"q":1}`)
	ask, p := c.asked("tool.invoke", 1)
	if p["name"] != "lookup" && p["tool"] != "lookup" || p["sessionId"] != s {
		t.Errorf("tool.invoke is %v", p)
	}
	if r := c.call("tool.progress", object("callId", p["callId"])); r["ok"] != true {
		t.Errorf("tool.progress answers %v", r)
	}
	if r := c.call("tool.progress", object("callId", "nobody's")); r["ok"] != false {
		t.Errorf("tool.progress of no call answers %v", r)
	}
	c.reply(ask, object("ok", true, "output", "forty-two"))
	events := c.turnOf(s, turn)
	if r := find(t, events, "tool.result"); r.Payload["ok"] != true || !strings.Contains(r.text("output"), "forty-two") {
		t.Errorf("the result is %v", r.Payload)
	}
	if r := c.call("tool.unregister", object("names", []string{"lookup", "none"})); len(r["removed"].([]any)) != 1 {
		t.Errorf("tool.unregister answers %v", r)
	}
	events = c.turnOf(s, c.prompt(s, `call lookup {}`))
	if r := find(t, events, "tool.result"); r.Payload["ok"] != false {
		t.Errorf("a tool that was taken back gives %v", r.Payload)
	}
}

// A Stop tells the host; a host that leaves fails the call and not the turn.
func TestHostToolEndsWithItsTurnAndItsHost(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c, watcher := g.hello(), g.hello()
	s := c.session(g.dir)
	c.call("tool.register", object("tools", []any{lookupTool()}))
	c.prompt(s, `call lookup {}`)
	_, p := c.asked("tool.invoke", 1)
	c.call("session.interrupt", object("sessionId", s))
	c.note("tool.cancel", func(n map[string]any) bool { return n["callId"] == p["callId"] })

	turn := c.prompt(s, "call lookup {}\nsay on")
	c.asked("tool.invoke", 2)
	watcher.resume(s, 0)
	c.ws.Close()
	events := watcher.turnOf(s, turn)
	if r := find(t, events, "tool.result"); r.Payload["ok"] != false {
		t.Errorf("a call whose host left gives %v", r.Payload)
	}
	if d := find(t, events, "turn.done"); d.text("reason") != "complete" {
		t.Errorf("the turn ends as %v", d.Payload)
	}
}

func TestHostToolNamesAreChecked(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.hello()
	for _, name := range []string{"", "9x", "a b", strings.Repeat("a", 65), "bash"} {
		tool := lookupTool()
		tool["name"] = name
		c.refused("tool.register", object("tools", []any{lookupTool(), tool}), "invalid_params")
	}
	c.refused("tool.register", object("tools", []any{lookupTool(), lookupTool()}), "invalid_params")
	if r := c.call("tool.unregister", object("names", []string{"lookup"})); len(r["removed"].([]any)) != 0 {
		t.Errorf("a refused call registered %v", r)
	}
}
