package ahp

import (
	"strings"
	"testing"
)

// lastError is the error part at the end of a chat's last turn.
func lastError(chat object) object {
	turns := chat["turns"].([]any)
	parts := turns[len(turns)-1].(object)["responseParts"].([]any)
	return parts[len(parts)-1].(object)
}

func (p *peer) failed(chat, turn string) object {
	return p.until(chat, turn+" to fail", func(s object) bool {
		turns := s["turns"].([]any)
		if len(turns) == 0 || s["activeTurn"] != nil {
			return false
		}
		last := turns[len(turns)-1].(object)
		return last["id"] == turn && last["state"] == "error"
	})
}

func resume(turn string) object { return object{"type": "chat/turnResume", "turnId": turn} }

func TestAFailedTurnIsResumed(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	a, b := g.connect("a"), g.connect("b")
	chat := a.session(g, "demo:/again")
	b.subscribe(chat)
	a.echo(a.dispatch(chat, started("t1", "read none\nask Sure?\nfail no luck\nask Which?\nfail again\nsay three")))
	answer(a, chat)
	s := a.failed(chat, "t1")
	if e := lastError(s); e["resumable"] != true || e["error"].(object)["message"] != "no luck" {
		t.Fatalf("%s", show(e))
	}
	modified := s["modifiedAt"]

	// Two clients resume it; it runs once.
	from := a.mark()
	first, second := a.dispatch(chat, resume("t1")), b.dispatch(chat, resume("t1"))
	a.echo(first)
	b.echo(second)
	a.until(chat, "the next question", func(s object) bool { return asks(s) })
	s = a.state(chat)
	if s["modifiedAt"] != modified || len(s["turns"].([]any)) != 0 {
		t.Errorf("%s", show(s))
	}
	if _, n := a.action(from, chat, "chat/turnResume"); n == 0 {
		t.Error("nobody was told")
	}
	late := g.connect("late")
	late.subscribe(chat)
	for _, p := range []*peer{a, b, late} {
		p.agree(g, chat)
	}
	a.agree(g, "demo:/again")
	e := late.echo(late.dispatch(chat, started("t2", "say no")))
	if e["rejectionReason"] == nil {
		t.Errorf("a turn started beside it: %s", show(e))
	}
	answer(b, chat)
	if e := lastError(a.failed(chat, "t1")); e["error"].(object)["message"] != "again" {
		t.Errorf("%s", show(e))
	}

	// After a restart too, by a client that asked for no turns.
	g.stop()
	g.start()
	p := g.connect("p")
	p.subscribe("demo:/again")
	res := p.call("subscribe", object{"channel": chat, "view": object{"turns": 0}})
	if turns := res["snapshot"].(object)["state"].(object)["turns"].([]any); len(turns) != 1 {
		t.Errorf("the turn that can be resumed is not there: %s", show(turns))
	}
	p.echo(p.dispatch(chat, resume("t1")))
	turn := p.idle(chat, "t1")
	s = p.state(chat)
	var kinds []string
	for _, part := range turn["responseParts"].([]any) {
		kinds = append(kinds, part.(object)["kind"].(string))
	}
	if got := strings.Join(kinds, " "); turn["state"] != "complete" || len(s["turns"].([]any)) != 1 ||
		got != "toolCall inputRequest markdown error inputRequest markdown error markdown" {
		t.Errorf("%s: %s", got, show(turn))
	}
	p.agree(g, "demo:/again", chat)
}

// asks reports whether the running turn of a chat waits for an answer.
func asks(chat object) bool {
	active, _ := chat["activeTurn"].(object)
	if active == nil {
		return false
	}
	parts := active["responseParts"].([]any)
	if len(parts) == 0 {
		return false
	}
	last := parts[len(parts)-1].(object)
	return last["kind"] == "inputRequest" && last["response"] == nil
}

// answer answers the question at the end of the running turn.
func answer(p *peer, chat string) {
	s := p.until(chat, "a question", asks)
	parts := s["activeTurn"].(object)["responseParts"].([]any)
	req := parts[len(parts)-1].(object)["request"].(object)
	q := req["questions"].([]any)[0].(object)
	p.echo(p.dispatch(chat, object{"type": "chat/inputCompleted", "requestId": req["id"], "response": "accept",
		"answers": object{q["id"].(string): object{"state": "submitted", "value": object{"kind": "text", "value": "yes"}}}}))
}

func TestTurnsThatAreNotResumed(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := g.connect("p")
	chat := p.session(g, "demo:/not-again")
	refused := func(action object, why string) {
		t.Helper()
		if reason, _ := p.echo(p.dispatch(chat, action))["rejectionReason"].(string); !strings.Contains(reason, why) {
			t.Errorf("%s: %q", show(action), reason)
		}
	}
	refused(resume("t1"), "only the last turn")
	p.echo(p.dispatch(chat, started("t1", "fail no luck")))
	p.failed(chat, "t1")
	p.echo(p.dispatch(chat, started("t2", "say fine")))
	p.idle(chat, "t2")
	refused(resume("t1"), "only the last turn")
	refused(resume("t2"), "did not fail")
	refused(object{"type": "chat/turnResume"}, "turnId")
	refused(object{"type": "chat/turnResume", "turnId": 7}, "turnId")
	p.echo(p.dispatch(chat, started("t3", "ask Wait?")))
	p.until(chat, "a question", asks)
	refused(resume("t3"), "a turn is running")
	refused(resume("t2"), "a turn is running")
	p.echo(p.dispatch(chat, object{"type": "chat/turnCancelled", "turnId": "t3", "duration": 1}))
	refused(resume("t3"), "did not fail")
}

// A turn that failed is resumed when those behind it were taken away, and when its
// chat was moved: clients that see it run have all of it.
func TestATurnIsResumedAfterATruncationAndAfterAMove(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	a, b := g.connect("a"), g.connect("b")
	const from, to, side = "demo:/from", "demo:/to", "ahp-chat:/wanders"
	a.session(g, from)
	a.session(g, to)
	a.echo(a.dispatch(a.state(from)["defaultChat"].(string), started("t0", "say hello")))
	a.call("createChat", object{"channel": from, "chat": side})
	for _, p := range []*peer{a, b} {
		p.subscribe(side)
	}
	a.echo(a.dispatch(side, started("t1", "say one\nfail no luck\nask Which?\nfail again\nask Which?\nsay three")))
	a.failed(side, "t1")
	a.echo(a.dispatch(side, started("t2", "say gone")))
	a.idle(side, "t2")
	e := a.echo(a.dispatch(side, object{"type": "chat/truncated", "turnId": "t1"}))
	if e["rejectionReason"] != nil {
		t.Fatalf("%s", show(e))
	}
	shown := a.until(side, "one turn", func(s object) bool { return len(s["turns"].([]any)) == 1 })
	modified := shown["modifiedAt"]
	running := func(chat string, peers ...*peer) {
		t.Helper()
		for _, p := range peers {
			s := p.until(chat, "the next question", asks)
			if parts := s["activeTurn"].(object)["responseParts"].([]any); parts[0].(object)["content"] != "one" || s["modifiedAt"] != modified {
				t.Errorf("%s", show(s))
			}
			p.agree(g, chat)
		}
	}
	resumed := func(p *peer, chat string) {
		t.Helper()
		if e := p.echo(p.dispatch(chat, resume("t1"))); e["rejectionReason"] != nil {
			t.Fatalf("%s", show(e))
		}
	}
	resumed(a, side)
	late := g.connect("late")
	late.subscribe(side)
	running(side, a, b, late)
	answer(b, side)
	shown = a.failed(side, "t1")
	modified = shown["modifiedAt"]

	a.call("moveChat", object{"channel": side, "destination": object{"kind": "session", "session": to}})
	bare := g.connect("bare")
	bare.call("subscribe", object{"channel": side, "view": object{"turns": 0}})
	a.subscribe(side)
	resumed(a, side)
	running(side, a, b, bare)
	answer(a, side)
	if turn := a.idle(side, "t1"); turn["state"] != "complete" {
		t.Errorf("%s", show(turn))
	}
	a.agree(g, to, side)
}
