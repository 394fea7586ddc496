package bae

import (
	"testing"
)

func TestPlainTurn(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	c := g.open(obj{"client_version": "9"}).register()
	lines := c.call("session.sendMessage", msg("say hello world"))
	r := lines[len(lines)-1]["result"].(obj)
	want(t, "text", text(r["message"]), "hello world")
	want(t, "stream", types(lines), "[provider.request provider.response server.message.send]")
	want(t, "result.events", types(events(r)), "[client.message.send provider.request provider.response server.message.send]")
	log := c.log()
	want(t, "log", types(log), "[session.open session.driver.register client.message.send provider.request provider.response server.message.send]")
	want(t, "log and result agree", mustJSON(log[2:]), mustJSON(events(r)))
}

func TestClientTool(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	c := g.open(obj{"tools": tool("now")}).register()
	r := c.send("call now {\"tz\":\"utc\"}")
	u := uses(r["message"])
	if len(u) != 1 || u[0]["name"] != "now" || u[0]["dispatch"] != "client" {
		t.Fatalf("paused message: %v", r["message"])
	}
	want(t, "leg 1", types(events(r)), "[client.message.send provider.request provider.response tool.call server.message.send]")
	lines := c.call("session.sendMessage", msg([]obj{toolResultBlock(u[0]["id"].(string), "noon")}))
	r = lines[len(lines)-1]["result"].(obj)
	want(t, "answer", text(r["message"]), "noon")
	want(t, "leg 2", types(events(r)), "[client.message.send tool.result provider.request provider.response server.message.send]")
	want(t, "leg 2 stream", types(lines), "[provider.request provider.response server.message.send]")
}
