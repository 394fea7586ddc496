package ahp

import (
	"strings"
	"testing"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
)

// callOf is the one call of a turn.
func callOf(t *testing.T, turn object) object {
	t.Helper()
	parts := turn["responseParts"].([]any)
	if len(parts) != 1 || parts[0].(object)["kind"] != "toolCall" {
		t.Fatalf("parts %s", show(parts))
	}
	return parts[0].(object)["toolCall"].(object)
}

func said(turn object) string {
	var b strings.Builder
	for _, p := range turn["responseParts"].([]any) {
		if text, ok := p.(object)["content"].(string); ok {
			b.WriteString(text + "\n")
		}
	}
	return b.String()
}

func TestAMessageThatBeginsWithABangIsACommand(t *testing.T) {
	withSh(t)
	g := newGateway(t)
	p := g.dial("p")
	res := p.call("initialize", object{"protocolVersions": []string{"0.9.0"}, "clientId": "p", "initialSubscriptions": []string{rootURI}})
	if res["terminalCommandPrefix"] != "!" {
		t.Errorf("initialize: %s", show(res))
	}
	chat := p.session(g, "demo:/commands")
	p.dispatch(chat, started("t1", "! echo out; pwd; exit 3"))
	turn := p.idle(chat, "t1")
	call := callOf(t, turn)
	content := call["content"].([]any)
	term := content[0].(object)
	if term["type"] != "terminal" || show(term["result"]) != show(object{"exitCode": 3, "preview": "out\n" + g.dir + "\n"}) ||
		show(content[1:]) != show([]any{object{"type": "text", "text": "out\n" + g.dir + "\n"}}) {
		t.Errorf("content %s", show(content))
	}
	if call["toolName"] != "bash" || call["success"] != false || show(call["_meta"]) != `{"toolKind":"terminal"}` || turn["state"] != "complete" {
		t.Errorf("turn %s", show(turn))
	}
	st := p.subscribe(term["resource"].(string))["state"].(object)
	claim := object{"kind": "session", "session": "demo:/commands", "chat": chat, "turnId": "t1", "toolCallId": call["toolCallId"]}
	if show(st["claim"]) != show(claim) || !strings.Contains(screenOf(st), "out\r\n") || show(st["lifecycle"]) != `{"exitCode":3,"status":"exited"}` {
		t.Errorf("terminal %s", show(st))
	}
	p.agree(g, chat)
	p.agree(g, rootURI)

	// The agent hears of it with its next prompt, once.
	p.dispatch(chat, started("t2", "say hello"))
	if text := said(p.idle(chat, "t2")); !strings.Contains(text, "$ echo out; pwd; exit 3") || !strings.Contains(text, "[exit code 3]") || !strings.Contains(text, "hello") {
		t.Errorf("the agent was told %q", text)
	}
	p.dispatch(chat, started("t3", "say again"))
	if text := said(p.idle(chat, "t3")); strings.Contains(text, "$ echo") {
		t.Errorf("the agent was told twice: %q", text)
	}
}

func TestARunningCommandIsSeenStoppedAndFollowed(t *testing.T) {
	withSh(t)
	g := newGateway(t)
	a, b := g.connect("a"), g.connect("b")
	chat := a.session(g, "demo:/long")
	b.subscribe(chat)
	a.dispatch(chat, started("t0", "say the agent runs")) // its process is there from now on
	a.idle(chat, "t0")
	from := b.mark()
	a.dispatch(chat, started("t1", "!trap '' HUP TERM; echo begun; while :; do sleep 1; done"))
	changed, _ := b.action(from, chat, "chat/toolCallContentChanged")
	term := changed["content"].([]any)[0].(object)["resource"].(string)
	b.until(chat, "the output", func(s object) bool {
		return s["activeTurn"] != nil && strings.Contains(show(s["activeTurn"]), `"text":"begun\n"`)
	})
	b.subscribe(term)
	b.shows(term, "begun")
	b.agree(g, chat)
	b.echo(b.dispatch(chat, pending(kindSteering, "m1", "!echo steered")))
	b.echo(b.dispatch(chat, object{"type": "chat/turnCancelled", "turnId": "t1", "duration": 1}))
	b.until(term, "its end", func(s object) bool { return s["lifecycle"].(object)["status"] == "exited" })
	a.until(chat, "the command that waited", func(s object) bool {
		turns := s["turns"].([]any)
		return s["activeTurn"] == nil && len(turns) == 3 && strings.Contains(show(turns[2]), `"text":"steered\n"`)
	})
	a.dispatch(chat, started("t2", "say still there"))
	if text := said(a.idle(chat, "t2")); !strings.Contains(text, "[stopped]") || !strings.Contains(text, "still there") {
		t.Errorf("the agent was told %q", text)
	}
	a.agree(g, chat)
	g.stop()
	noProcess(t, g)
}

func TestACommandIsRefusedWhereTheSessionRunsNone(t *testing.T) {
	withSh(t)
	g := newGateway(t)
	p := g.connect("p")
	s, err := g.host.CreateSession(t.Context(), host.CreateSession{Backend: "demo", By: event.Actor{Front: "test"},
		Settings: event.Settings{DenyExec: true}})
	if err != nil {
		t.Fatal(err)
	}
	uri := s.ID().AHP("demo")
	chat := p.subscribe(uri)["state"].(object)["defaultChat"].(string)
	p.subscribe(chat)
	if env := p.echo(p.dispatch(chat, started("t1", "!touch never"))); !strings.Contains(show(env["rejectionReason"]), "runs no commands") {
		t.Errorf("answer %s", show(env))
	}
	p.dispatch(chat, started("t2", "!")) // no command: the agent's
	if text := said(p.idle(chat, "t2")); !strings.Contains(text, "!") {
		t.Errorf("said %q", text)
	}
}
