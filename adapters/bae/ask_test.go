package bae

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
)

var snowpea = event.Actor{Front: "snowpea", Client: "x", Name: "Ann"}

// standIns are the tools that a harness declares to be asked.
var standIns = obj{"tools": tool(toolPermission, toolQuestion)}

func TestAnApprovalGoesToTheDeclaredPermissionTool(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	c := g.open(standIns).register()
	r := c.send("run echo it-ran")
	u := uses(r["message"])
	if len(u) != 1 || u[0]["name"] != toolPermission {
		t.Fatalf("message: %v", r["message"])
	}
	in := u[0]["input"].(obj)
	want(t, "asked about", []any{in["tool"], in["kind"], in["input"].(obj)["command"]}, "[bash exec echo it-ran]")
	r = c.send([]obj{toolResultBlock(u[0]["id"].(string), `{"decision":"allow"}`)})
	got := strings.Join(types(events(r)), " ")
	if !strings.HasPrefix(got, "client.message.send tool.result mcp.request mcp.response tool.result provider.request") {
		t.Errorf("events: %s", got)
	}
	if !strings.Contains(string(mustJSON(events(r))), "it-ran") {
		t.Errorf("no output in %s", mustJSON(events(r)))
	}
}

func TestADeniedApprovalRunsNothing(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	c := g.open(standIns).register()
	file := filepath.Join(t.TempDir(), "made")
	for _, answer := range []any{"deny", "maybe?", `{"decision":"deny","reason":"no"}`, "", []obj{{"type": "text", "text": "no"}}} {
		u := uses(c.send("run touch " + file)["message"])[0]
		r := c.send([]obj{{"type": "tool_result", "tool_use_id": u["id"], "content": answer}})
		if got := strings.Join(types(events(r)), " "); strings.Contains(got, "mcp.request") {
			t.Errorf("%v: a denied call was requested: %s", answer, got)
		}
	}
	u := uses(c.send("run touch " + file)["message"])[0]
	c.send([]obj{{"type": "tool_result", "tool_use_id": u["id"], "content": "allow", "is_error": true}})
	if _, err := os.Stat(file); err == nil {
		t.Error("a denied command ran")
	}
}

func TestAnApprovalOfAnotherFrontsTurnCanBeAnsweredHere(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	c := g.open(standIns).register()
	watch := c.begin("session.subscribe", obj{})
	defer watch.close()
	hs := g.session(c)
	turn := prompt(t, hs, host.Prompt{Text: "run echo it-ran\nsay done", By: snowpea})
	paused := watch.until("server.message.send")
	u := uses(paused["payload"])
	if len(u) != 1 || u[0]["name"] != toolPermission {
		t.Fatalf("paused: %v", paused)
	}
	want(t, "whose", paused["client_key_id"], c.id)
	// A plain message waits: the turn is not this client's to give up.
	plain := c.begin("session.sendMessage", msg("say mine"))
	defer plain.close()
	plain.quiet()
	want(t, "nonsense", c.code("session.sendMessage", msg([]obj{toolResultBlock("x", "y")})), codeState)
	r := c.send([]obj{toolResultBlock(u[0]["id"].(string), "allow")})
	want(t, "rest of the turn", text(r["message"]), "done")
	done, err := hs.WaitTurn(t.Context(), hs.State().Default, turn)
	if err != nil || done.Status != event.TurnComplete {
		t.Fatalf("turn: %v %v", done, err)
	}
	lines := plain.rest()
	want(t, "then the queued one", text(lines[len(lines)-1]["result"].(obj)["message"]), "mine")
}

func TestAnApprovalAnsweredElsewhereGoesOnWithoutTheClient(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	c := g.open(standIns).register()
	hs := g.session(c)
	u := uses(c.send("run echo it-ran\nsay done")["message"])[0]
	open := hs.State().Open
	if len(open) != 1 {
		t.Fatalf("open: %v", open)
	}
	if err := hs.Resolve(t.Context(), open[0].ID, event.Resolution{Outcome: event.Allowed, By: snowpea}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "end", func() bool { return !hs.State().Running() })
	// The client answers late: it gets the rest of the turn, and nothing runs twice.
	r := c.send([]obj{toolResultBlock(u["id"].(string), "deny")})
	want(t, "message", text(r["message"]), "done")
	got := strings.Join(types(events(r)), " ")
	if !strings.HasPrefix(got, "tool.result mcp.request mcp.response tool.result provider.request") {
		t.Errorf("events: %s", got)
	}
	if !strings.Contains(string(mustJSON(events(r)[0])), "allowed by snowpea") {
		t.Errorf("who answered: %s", mustJSON(events(r)[0]))
	}
	want(t, "next", text(c.send("say next")["message"]), "next")
}

func TestWithoutTheToolAnotherFrontAnswers(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	c := g.open(nil).register()
	hs := g.session(c)
	s := c.begin("session.sendMessage", msg("run echo it-ran\nsay done"))
	defer s.close()
	s.until("tool.call")
	eventually(t, "asked", func() bool { return len(hs.State().Open) == 1 })
	if err := hs.Resolve(t.Context(), hs.State().Open[0].ID, event.Resolution{Outcome: event.Allowed, By: snowpea}); err != nil {
		t.Fatal(err)
	}
	lines := s.rest()
	want(t, "message", text(lines[len(lines)-1]["result"].(obj)["message"]), "done")
}

func TestWithoutAnybodyTheProfileDecides(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	for decision, ran := range map[string]bool{"deny": false, "allow": true} {
		p := g.do("POST", g.admin+"/admin/v1/profiles", g.f.defaults.Admin, obj{"name": decision, "primary_provider": "demo",
			"permission_timeout": 1, "permission_default": decision}).json(t)["id"]
		k := g.do("POST", g.admin+"/admin/v1/keys", g.f.defaults.Admin, obj{"name": "k", "profile_id": p}).json(t)
		c := g.opened(g.do("POST", g.url+"/api/v1/sessions", k["key"].(string), nil), k["id"].(string)).register()
		r := c.send("run echo it-ran\nsay done")
		if got := strings.Contains(string(mustJSON(events(r))), `"mcp.request"`); got != ran {
			t.Errorf("%s: ran %v", decision, got)
		}
	}
}

func TestAQuestionGoesToTheDeclaredTool(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	c := g.open(standIns).register()
	for content, answer := range map[string]string{
		"blue": "blue", `"RED"`: "red", `{"answer":"blue"}`: "blue",
	} {
		r := c.send("ask Which? | red | blue")
		u := uses(r["message"])
		if len(u) != 1 || u[0]["name"] != toolQuestion {
			t.Fatalf("message: %v", r["message"])
		}
		in := u[0]["input"].(obj)
		want(t, "input", []any{in["question"], in["options"]}, "[Which? [red blue]]")
		r = c.send([]obj{toolResultBlock(u[0]["id"].(string), content)})
		if !strings.Contains(text(r["message"]), answer) {
			t.Errorf("%s: %v", content, r["message"])
		}
	}
}

func TestACancelFollowedByAnApprovalRunsNothing(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	c := g.open(standIns).register()
	file := filepath.Join(t.TempDir(), "made")
	u := uses(c.send("run touch " + file)["message"])[0]
	hs := g.session(c)
	if _, err := hs.Interrupt(t.Context(), host.Interrupt{By: snowpea}); err != nil {
		t.Fatal(err)
	}
	want(t, "answer", c.code("session.sendMessage", msg([]obj{toolResultBlock(u["id"].(string), "allow")})), codeState)
	want(t, "still open", text(c.send("say hi")["message"]), "hi")
	if _, err := os.Stat(file); err == nil {
		t.Error("a cancelled command ran")
	}
	// By disconnecting: the approval is gone with the turn.
	s := c.begin("session.sendMessage", msg("sleep 20\nrun touch "+file))
	s.until("provider.request")
	s.close()
	eventually(t, "idle", func() bool { return !hs.State().Running() })
	want(t, "open interactions", len(hs.State().Open), 0)
	if _, err := os.Stat(file); err == nil {
		t.Error("a cancelled command ran")
	}
}

func TestAnotherFrontsTurnIsSeenHere(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	hs, err := g.host.CreateSession(t.Context(), host.CreateSession{By: snowpea})
	if err != nil {
		t.Fatal(err)
	}
	turn := prompt(t, hs, host.Prompt{Text: "think hm\nsay hello", By: snowpea})
	if _, err := hs.WaitTurn(t.Context(), hs.State().Default, turn); err != nil {
		t.Fatal(err)
	}
	c := g.join(hs.ID().BAE("ses"), obj{"tools": []obj{}})
	log := c.log()
	want(t, "log", types(log), "[session.open client.message.send provider.request provider.response server.message.send session.join]")
	want(t, "key", log[1]["client_key_id"], keyOf(snowpea))
	want(t, "answer", log[4]["payload"], obj{"role": "assistant", "content": []any{obj{"type": "text", "text": "hello"}}})
	want(t, "drive", text(c.register().send("say mine")["message"]), "mine")
}

func TestASubagentIsSeenAndItsApprovalAsked(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	c := g.open(standIns).register()
	r := c.send("spawn helper run echo deep")
	u := uses(r["message"])
	if len(u) != 1 || u[0]["name"] != toolPermission {
		t.Fatalf("message: %v", r["message"])
	}
	before := strings.Join(types(events(r)), " ")
	r = c.send([]obj{toolResultBlock(u[0]["id"].(string), "allow")})
	all := before + " " + strings.Join(types(events(r)), " ")
	for _, k := range []string{"session.subagent.start session.subagent.running", "session.subagent.completed tool.result"} {
		if !strings.Contains(all, k) {
			t.Errorf("no %q in %s", k, all)
		}
	}
	var sub string
	for _, e := range c.log() {
		if e["event_type"] == "session.subagent.start" {
			sub = e["payload"].(obj)["subagent_id"].(string)
		}
	}
	want(t, "cancel", c.result("session.cancelSubagent", obj{"subagent_id": sub}), obj{"cancelled": true, "subagent_id": sub, "was_running": false})
	want(t, "unknown", c.code("session.cancelSubagent", obj{"subagent_id": "sba_x"}), codeSubagent)
	child := g.join("ses_"+strings.TrimPrefix(sub, "sba_"), nil)
	want(t, "the child's own log", types(child.log())[:2], "[session.open provider.request]")
	want(t, "closing it", g.do("DELETE", child.path(""), child.key, nil).status, 409)
}

func TestSecretAnswersAreNotStored(t *testing.T) {
	t.Parallel()
	i := &event.Interaction{Kind: event.Question, Questions: []event.QuestionItem{{ID: "q", Secret: true}}}
	p := &pause{calls: []*event.Interaction{i}}
	got := recorded(p, []toolResult{{ID: "x", Content: json.RawMessage(`"hunter2"`)}})
	want(t, "stored", string(got[0].Content), `"[not stored]"`)
}
