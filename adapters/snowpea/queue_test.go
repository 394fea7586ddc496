package snowpea

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestQueuedPromptsRunInOrder(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.hello()
	s := c.session(g.dir)
	one := c.prompt(s, "ask Go on? | yes\nsay one")
	ask, _ := c.asked("question.request", 1)
	two := c.prompt(s, "say two", "whenBusy", "queue")
	three := c.prompt(s, "say three", "whenBusy", "queue")
	c.reply(ask, object("answers", []any{object("selected", []string{"yes"})}))
	c.done(three)
	queued := map[string]sessionEvent{}
	var order []string
	for _, e := range c.of(s) {
		switch e.Kind {
		case "turn.queued":
			queued[e.text("turnId")] = e
		case "turn.dequeued":
			order = append(order, "dequeued "+e.text("reason"))
		case "turn.started":
			order = append(order, "started")
		case "turn.done":
			order = append(order, "done")
		}
	}
	if q := queued[two].Payload; q["position"] != 1.0 || q["queued"] != 1.0 {
		t.Errorf("the second was queued as %v", q)
	}
	if q := queued[three].Payload; q["position"] != 2.0 || q["queued"] != 2.0 {
		t.Errorf("the third was queued as %v", q)
	}
	if got, want := strings.Join(order, ", "), "started, done, dequeued started, started, done, dequeued started, started, done"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if e := c.turnOf(s, two)[0]; e.Payload["queued"] != true {
		t.Errorf("the second starts as %v", e.Payload)
	}
	c.done(one)
}

func TestSteering(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.hello()
	s := c.session(g.dir)
	turn := c.prompt(s, "ask Go on? | yes\nsay b")
	ask, _ := c.asked("question.request", 1) // the turn stands here until it is answered
	steered := c.prompt(s, "say steered")    // the default is to steer
	if r := c.call("session.steer", object("sessionId", s, "text", "say quietly")); r["started"] != false {
		t.Errorf("session.steer answers %v", r)
	}
	c.reply(ask, object("answers", []any{object("selected", []string{"yes"})}))
	c.done(turn)
	c.event("the steered message", func(e sessionEvent) bool {
		return e.Kind == "turn.dequeued" && e.text("turnId") == steered && e.text("reason") == "steered"
	})
	var user []string
	for _, e := range c.of(s) {
		if e.Kind == "message.user" && e.Payload["steered"] == true {
			user = append(user, e.text("text"))
		}
		if e.Kind == "turn.queued" && e.text("turnId") != steered {
			t.Errorf("session.steer was announced: %v", e.Payload)
		}
	}
	if want := []string{"say steered", "say quietly"}; !slices.Equal(user, want) {
		t.Errorf("the running turn took %q, want %q", user, want)
	}
	c.refused("session.steer", object("sessionId", s, "text", " "), "invalid_params")
}

func TestInterruptDropsTheQueueAndEndsTheTurn(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.hello()
	s := c.session(g.dir, "mode", "auto")
	turn := c.prompt(s, "run sleep 60")
	c.event("the call", func(e sessionEvent) bool { return e.Kind == "tool.call" })
	waiting := c.prompt(s, "say never", "whenBusy", "queue")
	c.call("session.interrupt", object("sessionId", s))
	c.event("the note", func(e sessionEvent) bool { return e.text("messageKind") == "interrupted" })
	var tail []sessionEvent
	for _, e := range c.of(s) {
		if len(tail) > 0 || e.Kind == "turn.dequeued" {
			tail = append(tail, e)
		}
	}
	if got, want := kinds(tail), "turn.dequeued turn.done tool.result context turn.done message.done"; got != want {
		t.Errorf("the end is\n%s, want\n%s", got, want)
	}
	if tail[0].text("reason") != "dropped" || tail[1].text("turnId") != waiting || tail[1].text("reason") != "interrupted" {
		t.Errorf("the queue ends as %v %v", tail[0].Payload, tail[1].Payload)
	}
	if tail[2].Payload["ok"] != false || tail[2].text("error") != "interrupted" || tail[4].text("turnId") != turn {
		t.Errorf("the turn ends as %v %v", tail[2].Payload, tail[4].Payload)
	}
	c.call("session.interrupt", object("sessionId", s)) // nothing runs: fine
	c.done(c.prompt(s, "say on"))
}

// A cancel that is followed at once by an approval of the pending call runs
// nothing.
func TestCancelThenApproveRunsNothing(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.hello()
	s := c.session(g.dir)
	turn := c.prompt(s, "run touch ran")
	ask, _ := c.asked("approval.request", 1)
	c.request("session.interrupt", object("sessionId", s))
	c.reply(ask, object("decision", "allow"))
	events := c.turnOf(s, turn)
	if k := kinds(events); strings.Contains(k, "tool.") || events[len(events)-1].text("reason") != "interrupted" {
		t.Errorf("the turn: %s", k)
	}
	if r := c.note("approval.resolved", nil); r["decision"] != "deny" || r["by"] != "interrupted" {
		t.Errorf("approval.resolved is %v", r)
	}
	if _, err := os.Stat(filepath.Join(g.dir, "ran")); !os.IsNotExist(err) {
		t.Errorf("the command ran: %v", err)
	}
}

func TestContinueAndNotice(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.hello()
	s := c.session(g.dir)
	c.done(c.prompt(s, "say hi"))
	r := c.call("session.continue", object("sessionId", s, "note", "the tab is back", "reason", "handback", "idempotencyKey", "k"))
	if r["started"] != true {
		t.Fatalf("session.continue answers %v", r)
	}
	events := c.turnOf(s, r["turnId"].(string))
	if e := events[0]; e.Payload["prompt"] != nil || e.text("initiator") != "system" || e.text("reason") != "handback" {
		t.Errorf("turn.started is %v", e.Payload)
	}
	if strings.Contains(kinds(events), "message.user") {
		t.Errorf("a system turn has a user message: %s", kinds(events))
	}
	if r := c.call("session.continue", object("sessionId", s, "note", "x", "idempotencyKey", "k")); r["duplicate"] != true || r["started"] != false {
		t.Errorf("the same key answers %v", r)
	}
	if r := c.call("session.continue", object("sessionId", s, "note", "x")); r["queued"] != true || r["started"] != false {
		t.Errorf("within the pause it answers %v", r)
	}
	c.call("session.notice", object("sessionId", s, "text", "a  popup\nopened"))
	c.refused("session.notice", object("sessionId", s, "text", " "), "invalid_params")
	events = c.turnOf(s, c.prompt(s, "say hello"))
	if u := find(t, events, "message.user"); u.text("text") != "say hello" || len(u.Payload["attachments"].([]any)) != 0 {
		t.Errorf("the notices show: %v", u.Payload)
	}
}

func TestSubagentIsASessionOfItsOwn(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.hello()
	s := c.session(g.dir)
	events := c.turnOf(s, c.prompt(s, "spawn scout say found it"))
	spawn, end := find(t, events, "subagent.spawn"), find(t, events, "subagent.done")
	child := spawn.text("sessionId")
	if child == "" || spawn.text("task") != "say found it" || end.text("agentId") != spawn.text("agentId") || end.Payload["ok"] != true ||
		!strings.Contains(end.text("result"), "found it") {
		t.Errorf("spawn %v, done %v", spawn.Payload, end.Payload)
	}
	row := c.row(child)
	if row["kind"] != "subagent" || row["parentSessionId"] != s {
		t.Errorf("the child's row is %v", row)
	}
	got := c.resume(child, nil)
	gapless(t, got, 1)
	if k := kinds(got); k != "turn.started message.user message.delta message.done context turn.done" {
		t.Errorf("the child's turn: %s", k)
	}
	if c.row(child, "kinds", []string{"chat"}) != nil {
		t.Error("a subagent is listed among chats")
	}
	c.refused("session.continue", object("sessionId", child, "note", "x"), "invalid_params")
}

func TestTurnEvents(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.hello()
	s := c.session(g.dir, "mode", "auto")
	events := c.turnOf(s, c.prompt(s, "think hmm well\nsay before\nrun printf 'a\\nb\\n'\nplan one; two\nusage 12 34\nsay after"))
	if u := find(t, events, "usage"); u.Payload["inputTokens"] != 12.0 || u.Payload["outputTokens"] != 34.0 || u.text("provider") != "demo" {
		t.Errorf("usage is %v", u.Payload)
	}
	if r := find(t, events, "message.reasoning"); r.Payload["chars"] == 0.0 || r.text("text") == "" {
		t.Errorf("reasoning is %v", r.Payload)
	}
	if text := find(t, events, "message.done").text("text"); strings.Contains(text, "before") || !strings.Contains(text, "after") {
		t.Errorf("message.done is %q: it is what was said after the last call", text)
	}
	if p := find(t, events, "tool.progress"); p.Payload["seq"] != 0.0 || p.text("stream") != "stdout" {
		t.Errorf("tool.progress is %v", p.Payload)
	}
	todos := 0
	for _, e := range events {
		if e.Kind == "todos.updated" {
			todos++
			if len(e.Payload["todos"].([]any)) != 2 {
				t.Errorf("todos are %v", e.Payload)
			}
		}
	}
	if todos < 2 {
		t.Errorf("%d todo lists", todos)
	}
	rows := c.call("usage.summary", object("groupBy", "session"))["rows"].([]any)
	if r := rows[0].(map[string]any); r["key"] != s || r["inputTokens"] != 12.0 || r["outputTokens"] != 34.0 || r["calls"] != 1.0 {
		t.Errorf("usage.summary has %v", rows)
	}
	if got := c.call("usage.summary", object("groupBy", "day", "until", "2001-01-01"))["rows"].([]any); len(got) != 0 {
		t.Errorf("there was no usage then: %v", got)
	}

	events = c.turnOf(s, c.prompt(s, "say x\nfail it broke"))
	if e := find(t, events, "error"); !strings.Contains(e.text("message"), "it broke") || e.text("code") != "internal" ||
		events[len(events)-1].text("reason") != "error" || strings.Contains(kinds(events), "message.done") {
		t.Errorf("a failed turn: %s, %v", kinds(events), e.Payload)
	}
	if row := c.row(s); row["status"] != "error" {
		t.Errorf("the row is %v", row)
	}
	c.note("sessions.changed", func(p map[string]any) bool { return p["sessionId"] == s && p["status"] == "error" })
}
