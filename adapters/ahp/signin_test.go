package ahp

import (
	"context"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/backends/demo"
	"github.com/polyhost/polyhost/core/agent"
)

// server is how an MCP server of a session is, as a peer has it.
func (p *peer) server(uri, id, kind string) object {
	p.t.Helper()
	return custom(p.until(uri, id+" to be "+kind, func(s object) bool {
		c := custom(s, id)
		return c != nil && c["state"].(object)["kind"] == kind
	}), id)
}

// runningCall is the first call of a chat's running turn.
func runningCall(s object) object {
	turn, _ := s["activeTurn"].(object)
	if turn == nil {
		return nil
	}
	for _, v := range turn["responseParts"].([]any) {
		if c, ok := v.(object)["toolCall"].(object); ok {
			return c
		}
	}
	return nil
}

func (p *peer) callIs(chat, status string) object {
	p.t.Helper()
	return runningCall(p.until(chat, "the call to be "+status, func(s object) bool {
		c := runningCall(s)
		return c != nil && c["status"] == status
	}))
}

const docsAt = "https://example.com/docs"

func TestACallWaitsUntilAClientSignedIn(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	a, b := g.connect("a"), g.connect("b")
	const uri = "demo:/signin"
	chat := a.session(g, uri)
	b.subscribe(uri)
	from, fromB := a.mark(), b.mark()
	a.dispatch(chat, started("t", "server docs locked "+docsAt+"\nuse docs search found\nsay after"))

	call := a.callIs(chat, "auth-required")
	want := object{"reason": "required", "resource": object{"resource": docsAt, "resource_name": "docs", "required": true}}
	if show(call["auth"]) != show(want) || show(call["contributor"]) != show(object{"kind": "mcp", "customizationId": "mcp:docs"}) {
		t.Errorf("the call: %s", show(call))
	}
	if c := a.server(uri, "mcp:docs", "authRequired"); show(c["state"].(object)["resource"]) != show(want["resource"]) {
		t.Errorf("the server: %s", show(c))
	}
	// Both who watch are asked for a token, and see that the session waits.
	for p, mark := range map[*peer]int{a: from, b: fromB} {
		n := p.notified(mark, "auth/required")
		if show(n["resource"]) != show(want["resource"]) || n["reason"] != "required" || n["channel"] != uri {
			t.Errorf("asked: %s", show(n))
		}
		s := p.until(uri, "the session to wait", func(s object) bool { return s["inputNeeded"] != nil })
		need := s["inputNeeded"].([]any)[0].(object)
		if need["kind"] != "toolAuthentication" || need["chat"] != chat || need["toolCall"].(object)["status"] != "auth-required" {
			t.Errorf("what is needed: %s", show(need))
		}
	}
	a.agree(g, uri, chat)

	// What does not fit is refused, and a token that the server does not take
	// leaves everything as it is.
	token := func(resource, token string) object {
		return object{"channel": rootURI, "resource": resource, "token": token}
	}
	stranger := g.connect("stranger")
	stranger.fails(-32602, "authenticate", token(docsAt, "good")) // watches nothing
	a.fails(-32602, "authenticate", token(docsAt+"/other", "good"))
	a.fails(-32602, "authenticate", token(docsAt, "not printable"))
	again := a.mark()
	a.call("authenticate", token(docsAt, "wrong"))
	a.notified(again, "auth/required")
	a.callIs(chat, "auth-required")

	done := a.mark()
	b.call("authenticate", token(docsAt, "good"))
	a.action(done, chat, "chat/toolCallAuthResolved")
	a.action(done, uri, "session/inputNeededRemoved")
	a.idle(chat, "t")
	a.server(uri, "mcp:docs", "ready")
	turn := a.until(chat, "the turn", func(s object) bool { return len(s["turns"].([]any)) == 1 })["turns"].([]any)[0].(object)
	if c := turn["responseParts"].([]any)[0].(object)["toolCall"].(object); c["success"] != true || c["auth"] != nil {
		t.Errorf("the call in the end: %s", show(c))
	}
	a.agree(g, uri, chat)
	b.agree(g, uri)

	// Who brought a token may renew it or take it back; others may not.
	b.call("authenticate", token(docsAt, "newer"))
	b.call("authenticate", token(docsAt, ""))
	b.fails(-32602, "authenticate", token(docsAt, "newer"))
}

func TestACallGoesOnWhenItsServerIsStartedByHand(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	a := g.connect("a")
	const uri = "demo:/byhand"
	chat := a.session(g, uri)
	a.dispatch(chat, started("t", "server docs locked "+docsAt+"\nuse docs search found"))
	a.callIs(chat, "auth-required")
	from := a.mark()
	a.dispatch(uri, object{"type": "session/mcpServerStartRequested", "id": "mcp:docs"})
	a.action(from, chat, "chat/toolCallAuthResolved")
	a.idle(chat, "t")

	// A turn that is cancelled meanwhile leaves nothing open.
	a.dispatch(chat, started("u", "server wiki locked "+docsAt+"\nuse wiki search found"))
	a.callIs(chat, "auth-required")
	a.dispatch(chat, object{"type": "chat/turnCancelled", "turnId": "u", "duration": 1})
	a.idle(chat, "u")
	a.until(uri, "nothing to be needed", func(s object) bool { return s["inputNeeded"] == nil })
	a.agree(g, uri, chat)
}

// notified is what a notification that came after a mark says.
func (p *peer) notified(from int, method string) object {
	p.t.Helper()
	f, _ := p.wait(from, method, func(f object) bool { return f["method"] == method })
	return f["params"].(object)
}

// modest is the demo agent as one that can only connect to its servers anew.
type modest struct{ *demo.Backend }

func (b modest) Info(ctx context.Context) (agent.Info, error) {
	info, err := b.Backend.Info(ctx)
	info.Capabilities.SwitchServers, info.Capabilities.ServerTokens = false, false
	return info, err
}

func TestWhatAnAgentCannotDoWithAServerIsRefusedInWords(t *testing.T) {
	t.Parallel()
	g := newGateway(t, withAgent(t, modest{demo.New()}))
	a := g.connect("a")
	const uri = "demo:/modest"
	chat := a.session(g, uri)
	a.dispatch(chat, started("t", "server docs sign_in "+docsAt))
	a.idle(chat, "t")
	a.server(uri, "mcp:docs", "authRequired")
	e := a.fails(-32602, "authenticate", object{"channel": rootURI, "resource": docsAt, "token": "good"})
	if text, _ := e["message"].(string); !strings.Contains(text, "sign in with the agent's own program") {
		t.Errorf("a token: %s", show(e))
	}
	for _, action := range []object{{"type": "session/mcpServerStopRequested", "id": "mcp:docs"}, toggle("mcp:docs", object{"kind": "session", "enabled": false})} {
		env := a.echo(a.dispatch(uri, action))
		if reason, _ := env["rejectionReason"].(string); reason == "" {
			t.Errorf("taken: %s", show(env))
		}
	}
	if env := a.echo(a.dispatch(uri, object{"type": "session/mcpServerStartRequested", "id": "mcp:docs"})); env["rejectionReason"] != nil {
		t.Errorf("started: %s", show(env))
	}
	a.server(uri, "mcp:docs", "ready")
	a.agree(g, uri)
}
