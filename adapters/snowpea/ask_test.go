package snowpea

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
)

func (g *gateway) session(name string) *host.Session {
	g.t.Helper()
	s, err := g.host.Session(context.Background(), id.MustParse(name))
	if err != nil {
		g.t.Fatal(err)
	}
	return s
}

func TestApprovalComesBeforeTheCall(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c, other := g.hello(), g.hello()
	s := c.session(g.dir, "mode", "accept")
	turn := c.prompt(s, "run echo hi")
	ask, p := c.asked("approval.request", 1)
	if p["sessionId"] != s || p["tool"] != "bash" || p["timeoutSec"] != 300.0 || p["scopeHint"] != "once" || p["risk"] != "high" {
		t.Errorf("approval.request is %v", p)
	}
	if args, _ := p["args"].(map[string]any); args["command"] != "echo hi" {
		t.Errorf("args are %v", p["args"])
	}
	if row := other.row(s); row["status"] != "awaiting_approval" || row["pendingApprovals"] != 1.0 {
		t.Errorf("the row is %v", row)
	}
	if strings.Contains(kinds(c.of(s)), "tool.") {
		t.Errorf("the call was announced before it was allowed: %s", kinds(c.of(s)))
	}
	c.reply(ask, object("decision", "allow", "scope", "once"))
	events := c.turnOf(s, turn)
	call, result := find(t, events, "tool.call"), find(t, events, "tool.result")
	if call.text("callId") != result.text("callId") || result.Payload["ok"] != true || !strings.Contains(result.text("output"), "hi") {
		t.Errorf("call %v, result %v", call.Payload, result.Payload)
	}
	if find(t, events, "turn.done").text("reason") != "complete" {
		t.Errorf("the turn: %s", kinds(events))
	}
	if r := other.note("approval.resolved", nil); r["by"] != "origin" || r["decision"] != "allow" {
		t.Errorf("approval.resolved is %v", r)
	}

	// The same again asks again, and a denial is one failed call.
	turn = c.prompt(s, "run echo hi")
	ask, _ = c.asked("approval.request", 2)
	c.reply(ask, object("decision", "deny", "reason", "not now"))
	events = c.turnOf(s, turn)
	result = find(t, events, "tool.result")
	if find(t, events, "error").text("code") != "approval_denied" || result.Payload["ok"] != false || strings.Contains(kinds(events), "tool.call") {
		t.Errorf("the denied turn: %s", kinds(events))
	}
	if !strings.Contains(result.text("error"), "not now") || events[len(events)-1].text("reason") != "complete" {
		t.Errorf("result %v, end %v", result.Payload, events[len(events)-1].Payload)
	}

	// Allowed for the session: the same program does not ask, another does.
	turn = c.prompt(s, "run echo hi")
	ask, _ = c.asked("approval.request", 3)
	c.reply(ask, object("decision", "allow", "scope", "session"))
	c.done(turn)
	c.done(c.prompt(s, "run echo again"))
	turn = c.prompt(s, "run ls")
	ask, p = c.asked("approval.request", 4)
	if args := p["args"].(map[string]any); args["command"] != "ls" {
		t.Errorf("the fourth request is about %v", args)
	}
	// A client that cannot ask denies.
	c.sendRaw(`{"jsonrpc":"2.0","id":` + string(ask) + `,"error":{"code":-32601,"message":"no handler"}}`)
	if events = c.turnOf(s, turn); find(t, events, "error").text("code") != "approval_denied" {
		t.Errorf("the turn: %s", kinds(events))
	}
	c.refused("approval.respond", object("requestId", "nope", "decision", "allow"), "not_found")
	c.refused("approval.respond", object("requestId", p["requestId"], "decision", "allow"), "not_found")
}

func TestFirstAnswerWinsOnWhicheverFront(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c, other := g.hello(), g.hello()
	s := c.session(g.dir)

	// Another connection is quicker: the origin is told, its late answer is dropped.
	turn := c.prompt(s, "run echo one")
	ask, p := c.asked("approval.request", 1)
	if l := other.call("approval.list", object())["requests"].([]any); len(l) != 1 || l[0].(map[string]any)["requestId"] != p["requestId"] {
		t.Errorf("approval.list is %v", l)
	}
	other.call("approval.respond", object("requestId", p["requestId"], "decision", "allow"))
	c.note("approval.resolved", func(r map[string]any) bool { return r["requestId"] == p["requestId"] && r["by"] != "origin" })
	c.done(turn)
	c.reply(ask, object("decision", "deny"))

	// Another front answers.
	turn = c.prompt(s, "run echo two")
	ask, p = c.asked("approval.request", 2)
	if err := g.session(s).Resolve(context.Background(), id.MustParse(p["requestId"].(string)),
		event.Resolution{Outcome: event.Allowed, By: tester}); err != nil {
		t.Fatal(err)
	}
	for _, who := range []*client{c, other} {
		who.note("approval.resolved", func(r map[string]any) bool { return r["requestId"] == p["requestId"] && r["by"] == "test:tester" })
	}
	c.done(turn)
	c.reply(ask, object("decision", "deny"))
	c.refused("approval.respond", object("requestId", p["requestId"], "decision", "deny"), "not_found")

	// A turn that another front started on a session without an origin is asked to everybody.
	lone, err := g.host.CreateSession(context.Background(), host.CreateSession{By: tester})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lone.Prompt(context.Background(), host.Prompt{Text: "run echo three", By: tester}); err != nil {
		t.Fatal(err)
	}
	pendingFor := func(p map[string]any) bool {
		return p["request"].(map[string]any)["sessionId"] == lone.ID().String()
	}
	request := other.note("approval.pending", pendingFor)["request"].(map[string]any)
	c.note("approval.pending", pendingFor)
	events := other.call("session.resume", object("sessionId", lone.ID().String()))["events"].([]any)
	if len(events) < 2 || events[0].(map[string]any)["seq"] != 1.0 {
		t.Errorf("the session of another front is replayed as %v", events)
	}
	other.asked("approval.request", 1) // resuming made it the origin
	c.call("approval.respond", object("requestId", request["requestId"], "decision", "allow"))
	other.event("the end", func(e sessionEvent) bool { return e.Kind == "turn.done" && e.SessionID == lone.ID().String() })
}

func TestApprovalOutlivesItsConnection(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c, other := g.hello("clientId", "laptop"), g.hello()
	s := c.session(g.dir)
	turn := c.prompt(s, "run echo hi")
	_, p := c.asked("approval.request", 1)
	c.ws.NetConn().Close() // cut, without a close frame
	other.note("approval.pending", func(n map[string]any) bool {
		return n["request"].(map[string]any)["requestId"] == p["requestId"]
	})
	back := g.hello("clientId", "laptop") // hello alone makes it the origin again
	ask, again := back.asked("approval.request", 1)
	if again["requestId"] != p["requestId"] {
		t.Errorf("asked again: %v", again)
	}
	back.reply(ask, object("decision", "allow"))
	back.done(turn)
}

func TestApprovalTimesOutAsTheSettingsSay(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.hello()
	c.call("settings.set", object("scope", "global", "patch", object("approvals", object("timeoutSec", 1))))
	s := c.session(g.dir)
	turn := c.prompt(s, "run echo hi")
	_, p := c.asked("approval.request", 1)
	if p["timeoutSec"] != 1.0 {
		t.Errorf("timeoutSec is %v", p["timeoutSec"])
	}
	events := c.turnOf(s, turn)
	if find(t, events, "error").text("code") != "approval_timeout" || events[len(events)-1].text("reason") != "complete" {
		t.Errorf("the turn: %s", kinds(events))
	}
	if r := c.note("approval.resolved", nil); r["by"] != "timeout" || r["decision"] != "deny" {
		t.Errorf("approval.resolved is %v", r)
	}
}

func TestThirdRefusalEndsTheTurn(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.hello()
	s := c.session(g.dir, "mode", "plan")
	events := c.turnOf(s, c.prompt(s, "write a.go x\nwrite b.go x\nwrite c.go x\nsay never"))
	if end := events[len(events)-1]; end.text("reason") != "denied" || strings.Contains(kinds(events), "message.done") {
		t.Errorf("the turn: %s, end %v", kinds(events), end.Payload)
	}
}

func TestModes(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.hello()
	s := c.session(g.dir, "mode", "plan")
	if events := c.turnOf(s, c.prompt(s, "write notes.md x")); find(t, events, "tool.result").Payload["ok"] != true ||
		find(t, events, "diff").text("path") != "notes.md" {
		t.Errorf("a plan may write documents: %s", kinds(events))
	}
	events := c.turnOf(s, c.prompt(s, "write main.go x"))
	if find(t, events, "error").text("code") != "mode_denied" || find(t, events, "tool.result").Payload["ok"] != false {
		t.Errorf("a plan writes code: %s", kinds(events))
	}
	if _, err := os.Stat(filepath.Join(g.dir, "main.go")); !os.IsNotExist(err) {
		t.Errorf("main.go: %v", err)
	}
	c.turnOf(s, c.prompt(s, "run git status"))
	turn := c.prompt(s, "run touch a")
	ask, _ := c.asked("approval.request", 1)
	c.reply(ask, object("decision", "deny"))
	c.done(turn)
	for range 2 { // the same mode again is told again
		if r := c.call("session.setMode", object("sessionId", s, "mode", "auto")); r["mode"] != "auto" {
			t.Errorf("setMode answers %v", r)
		}
	}
	c.wait("mode.changed twice", func() bool {
		n := 0
		for _, e := range c.events {
			if e.Kind == "mode.changed" && e.text("mode") == "auto" {
				n++
			}
		}
		return n == 2
	})
	c.turnOf(s, c.prompt(s, "run touch a"))
	if _, err := os.Stat(filepath.Join(g.dir, "a")); err != nil {
		t.Error(err)
	}

	deny := c.session(g.dir, "mode", "auto", "denyExec", true)
	events = c.turnOf(deny, c.prompt(deny, "run touch b\nrun touch b\nrun touch b\nsay done"))
	if strings.Contains(kinds(events), "error") || events[len(events)-1].text("reason") != "complete" {
		t.Errorf("a session without commands: %s", kinds(events))
	}
	if _, err := os.Stat(filepath.Join(g.dir, "b")); !os.IsNotExist(err) {
		t.Errorf("b: %v", err)
	}
}

func TestQuestions(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c, other := g.hello(), g.hello()
	s := c.session(g.dir)
	turn := c.prompt(s, "ask Which way? | left | right")
	ask, p := c.asked("question.request", 1)
	q := p["questions"].([]any)[0].(map[string]any)
	if q["question"] != "Which way?" || len(q["options"].([]any)) != 2 || p["timeoutSec"] != 600.0 {
		t.Errorf("question.request is %v", p)
	}
	other.note("question.pending", nil)
	if row := other.row(s); row["status"] != "awaiting_question" || row["pendingQuestions"] != 1.0 {
		t.Errorf("the row is %v", row)
	}
	c.reply(ask, object("answers", []any{object("selected", []string{"left"})}))
	events := c.turnOf(s, turn)
	if text := find(t, events, "message.done").text("text"); !strings.Contains(text, "left") {
		t.Errorf("the agent says %q", text)
	}
	for _, who := range []*client{c, other} {
		if r := who.note("question.resolved", nil); r["by"] != "origin" {
			t.Errorf("question.resolved is %v", r)
		}
	}

	turn = c.prompt(s, "ask Again? | yes | no")
	_, p = c.asked("question.request", 2)
	request := p["requestId"]
	if l := other.call("question.list", object("sessionId", s))["requests"].([]any); len(l) != 1 {
		t.Errorf("question.list is %v", l)
	}
	other.refused("question.respond", object("requestId", request, "answers", []any{object("selected", []string{"maybe"})}), "invalid_params")
	other.call("question.respond", object("requestId", request, "answers", []any{}))
	if events = c.turnOf(s, turn); events[len(events)-1].text("reason") != "complete" {
		t.Errorf("a declined question: %s", kinds(events))
	}
	other.refused("question.respond", object("requestId", request, "answers", []any{}), "not_found")
}
