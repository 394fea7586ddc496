package bae

import (
	"slices"
	"strings"
	"testing"
)

func TestPlainTurnIsFourEventsOnTheStreamAndInTheLog(t *testing.T) {
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
	want(t, "log and result", string(mustJSON(log[2:])), string(mustJSON(events(r))))
	want(t, "opening", log[0]["payload"], obj{"client_version": "9", "sandbox_tools": []any{}, "subagent_tools": []any{}, "tools": []any{}})
	for _, l := range lines[:len(lines)-1] {
		if _, has := l["id"]; has || l["method"] != "session.event" {
			t.Errorf("a notification with an id: %v", l)
		}
	}
}

func TestClientToolPausesAndResumesTheTurn(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	c := g.open(obj{"tools": tool("now")}).register()
	r := c.send("say first\ncall now {\"tz\":\"utc\"}")
	u := uses(r["message"])
	if len(u) != 1 || u[0]["name"] != "now" || u[0]["dispatch"] != "client" || text(r["message"]) != "first" {
		t.Fatalf("paused message: %v", r["message"])
	}
	want(t, "input", u[0]["input"], obj{"tz": "utc"})
	want(t, "leg 1", types(events(r)), "[client.message.send provider.request provider.response tool.call server.message.send]")
	lines := c.call("session.sendMessage", msg([]obj{toolResultBlock(u[0]["id"].(string), "noon")}))
	r = lines[len(lines)-1]["result"].(obj)
	want(t, "answer", text(r["message"]), "noon")
	want(t, "leg 2", types(events(r)), "[client.message.send tool.result provider.request provider.response server.message.send]")
	want(t, "leg 2 stream", types(lines), "[provider.request provider.response server.message.send]")
	request := events(r)[2]["payload"].(obj)
	var roles []any
	for _, m := range request["messages"].([]any) {
		roles = append(roles, m.(obj)["role"])
	}
	want(t, "roles", roles, "[user assistant user]")
	if strings.Contains(string(mustJSON(request["messages"])), "dispatch") {
		t.Errorf("a dispatch reached the agent: %v", request["messages"])
	}
}

func TestTwoClientCallsOneAfterTheOtherPauseTwice(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	c := g.open(obj{"tools": tool("a", "b")}).register()
	r := c.send("call a {}\ncall b {}\nsay end")
	want(t, "first", uses(r["message"])[0]["name"], "a")
	r = c.send([]obj{toolResultBlock(uses(r["message"])[0]["id"].(string), "one")})
	want(t, "second", uses(r["message"])[0]["name"], "b")
	want(t, "said between", text(r["message"]), "one")
	r = c.send([]obj{toolResultBlock(uses(r["message"])[0]["id"].(string), "two")})
	want(t, "end", text(r["message"]), "two|end")
}

func TestParallelClientCallsComeInOneMessage(t *testing.T) {
	t.Parallel()
	g := start(t, options{agent: twoCalls{}})
	c := g.open(obj{"tools": tool("t")}).register()
	r := c.send("go")
	u := uses(r["message"])
	if len(u) != 2 {
		t.Fatalf("want two calls, got %v", r["message"])
	}
	first, second := u[0]["id"].(string), u[1]["id"].(string)
	// The results come in the wrong order, with a text behind.
	r = c.send([]obj{toolResultBlock(second, "2"), {"type": "text", "text": "hm"}, toolResultBlock(first, "1")})
	sent := events(r)[0]["payload"].(obj)["content"].([]any)
	want(t, "merged", []any{sent[0].(obj)["tool_use_id"], sent[1].(obj)["tool_use_id"], sent[2].(obj)["text"]}, []any{first, second, "hm"})
	want(t, "leg 2", types(events(r)), "[client.message.send tool.result tool.result provider.request provider.response server.message.send]")
	want(t, "answer", text(r["message"]), "1 2\n\nhm")
}

func TestServerRunToolsAreMCPCallsAndNotInTheMessage(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	c := g.open(nil).register()
	r := c.send("write note.txt hello\nread note.txt\nsay done")
	want(t, "message", text(r["message"]), "done")
	want(t, "uses", len(uses(r["message"])), 0)
	got := types(events(r))
	if strings.Join(got[:7], " ") != "client.message.send provider.request provider.response tool.call mcp.request mcp.response tool.result" ||
		strings.Join(got[len(got)-3:], " ") != "provider.request provider.response server.message.send" {
		t.Errorf("events: %v", got)
	}
	for _, e := range events(r) {
		if e["event_type"] == "tool.call" {
			p := e["payload"].(obj)
			want(t, "dispatch and server", []any{p["dispatch"], p["server_name"]}, "[mcp demo]")
		}
	}
}

func TestAToolNobodyDeclaredIsAnErrorResultAndTheTurnGoesOn(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	a := g.open(obj{"tools": tool("private")}).register()
	b := g.join(a.ses, nil).register()
	r := b.send("call private {}\nsay on")
	want(t, "uses", len(uses(r["message"])), 0)
	if !strings.Contains(text(r["message"]), "on") {
		t.Errorf("message: %v", r["message"])
	}
	for _, e := range events(r) {
		p := e["payload"].(obj)
		switch e["event_type"] {
		case "tool.result":
			want(t, "result", []any{p["dispatch"], p["is_error"]}, "[mcp true]")
		case "provider.request":
			want(t, "tools offered", p["tools"], []any{})
		}
	}
}

func TestSandboxAndSubagentToolsAnswerInBand(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	c := g.open(obj{"sandbox_tools": tool("sh"), "subagent_tools": []obj{{"name": "launch", "image": "i", "subagents": []obj{
		{"harness": "claude", "command_template": "claude --model {model}"}}}}}).register()
	r := c.send("call sh {\"command\":\"ls\"}\ncall launch {}")
	want(t, "uses", len(uses(r["message"])), 0)
	got := strings.Join(types(events(r)), " ")
	if !strings.Contains(got, "tool.call sandbox.request sandbox.response tool.result") {
		t.Errorf("events: %s", got)
	}
	var dispatches []any
	for _, e := range events(r) {
		if p := e["payload"].(obj); e["event_type"] == "tool.result" {
			dispatches = append(dispatches, p["dispatch"], p["is_error"])
		}
	}
	want(t, "results", dispatches, "[sandbox true subagent true]")
}

func TestAFailedTurnPutsTheSessionIntoError(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	a := g.open(nil).register()
	b := g.join(a.ses, nil).register()
	r := a.send("fail boom")
	got := types(events(r))
	want(t, "trail", got[len(got)-3:], "[provider.response session.error session.error]")
	want(t, "reasons", []any{events(r)[len(got)-2]["payload"].(obj)["reason"], events(r)[len(got)-1]["payload"]},
		[]any{"provider_call_failed", obj{"reason": "all_providers_failed", "attempts": 1}})
	want(t, "send", b.code("session.sendMessage", msg("x")), codeState)
	want(t, "register", b.code("session.registerDriver", obj{}), codeState)
	_, key := g.clientKey("late")
	want(t, "join", g.do("POST", a.path("/join"), key, nil).status, 409)
	closed := g.do("DELETE", a.path(""), a.key, nil)
	want(t, "close", []any{closed.status, closed.json(t)["type"]}, "[409 session_closed]")
	if slices.Contains(types(a.log()), "session.close") {
		t.Error("a session.close after an error")
	}
	want(t, "send after the drivers were cleared", b.code("session.sendMessage", msg("x")), codeDriver)
	want(t, "register after that", b.code("session.registerDriver", obj{}), codeState)
}
