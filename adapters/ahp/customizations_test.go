package ahp

import (
	"context"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/backends/demo"
	"github.com/polyhost/polyhost/core/agent"
)

// gifted is the demo agent with commands that it has everywhere.
type gifted struct{ *demo.Backend }

func (b gifted) Info(ctx context.Context) (agent.Info, error) {
	info, err := b.Backend.Info(ctx)
	info.Folders = agent.Folders{Commands: ".demo/commands", Skills: ".demo/skills"}
	info.Commands = []agent.Command{{Name: "compact", Description: "Shorten", Hint: "[what]"}, {Name: "review", Skill: true, Hint: "[file]"}, {Name: "inner", Skill: true, Kept: true}}
	info.Subagents = []agent.Persona{{Name: "Explore", Description: "Looks around"}}
	return info, err
}

// child finds one in the containers of a session's or an agent's state.
func child(s object, container, name string) object {
	for _, v := range s["customizations"].([]any) {
		c := v.(object)
		if c["id"] != container {
			continue
		}
		for _, k := range c["children"].([]any) {
			if k.(object)["name"] == name {
				return k.(object)
			}
		}
	}
	return nil
}

// custom finds a customization at the top.
func custom(s object, name string) object {
	for _, v := range s["customizations"].([]any) {
		if c := v.(object); c["id"] == name {
			return c
		}
	}
	return nil
}

func (p *peer) slash(uri, text string) (found []object) {
	p.t.Helper()
	for _, v := range p.call("completions", object{"kind": "userMessage", "channel": uri, "text": text, "offset": len(text)})["items"].([]any) {
		found = append(found, v.(object)["attachment"].(object)["_meta"].(object))
	}
	return found
}

func TestCommandsAndSkillsAreInContainersAndBehindTheSlash(t *testing.T) {
	t.Parallel()
	g := newGateway(t, withAgent(t, gifted{demo.New()}))
	a := g.connect("a")
	root := a.until(rootURI, "the agent's commands", func(s object) bool { return s["agents"].([]any)[0].(object)["customizations"] != nil })
	if c := child(root["agents"].([]any)[0].(object), "agents", "Explore"); c == nil || c["type"] != "agent" || c["description"] != "Looks around" {
		t.Errorf("the root: %s", show(root))
	}
	const uri = "demo:/custom"
	chat := a.session(g, uri)
	s := a.state(uri)
	prompts := custom(s, "prompts")
	if prompts == nil || prompts["type"] != "directory" || prompts["contents"] != "prompt" || prompts["uri"] != fileURI(g.dir)+"/.demo/commands" || prompts["writable"] != true {
		t.Errorf("the commands: %s", show(s))
	}
	if c := child(s, "skills", "review"); c == nil || c["_meta"].(object)["ahpd.argumentHint"] != "[file]" || c["disableUserInvocation"] != nil {
		t.Errorf("a skill: %s", show(s))
	}
	if c := child(s, "skills", "inner"); c == nil || c["disableUserInvocation"] != true {
		t.Errorf("a skill that the agent keeps: %s", show(s))
	}
	items := a.slash(uri, "/")
	if len(items) != 2 || show(items[0]) != `{"argumentHint":"[what]","command":"compact","description":"Shorten"}` || items[1]["isSkill"] != true {
		t.Errorf("behind the slash: %s", show(items))
	}
	// What the agent says in the session counts there.
	from := a.mark()
	a.dispatch(chat, started("t1", "skill dance Dances\ncommand sing Sings"))
	a.action(from, uri, "session/customizationsChanged")
	a.until(uri, "the command", func(s object) bool { return child(s, "prompts", "sing") != nil && child(s, "skills", "dance") != nil })
	a.idle(chat, "t1")
	if items := a.slash(chat, "/s"); len(items) != 1 || items[0]["command"] != "sing" {
		t.Errorf("behind the slash, later: %s", show(items))
	}
	env := a.echo(a.dispatch(uri, object{"type": "session/customizationToggled", "id": "skill:dance", "enablement": []any{object{"kind": "session", "enabled": false}}}))
	if reason, _ := env["rejectionReason"].(string); !strings.Contains(reason, "no switch for a skill") {
		t.Errorf("a skill was switched off: %s", show(env))
	}
	a.agree(g, uri, rootURI)
}

func toggle(id string, enablement ...any) object {
	if enablement == nil {
		enablement = []any{}
	}
	return object{"type": "session/customizationToggled", "id": id, "enablement": enablement}
}

func TestMCPServersAreShownSwitchedAndKeptOff(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	a, b := g.connect("a"), g.connect("b")
	const uri = "demo:/servers"
	chat := a.session(g, uri)
	b.subscribe(uri)
	turn := 0
	script := func(text string) {
		t.Helper()
		turn++
		name := string(rune('a' + turn))
		a.dispatch(chat, started(name, text))
		a.idle(chat, name)
	}
	kind := func(id, want string) {
		t.Helper()
		for _, p := range []*peer{a, b} {
			p.until(uri, id+" to be "+want, func(s object) bool {
				c := custom(s, id)
				return c != nil && c["state"].(object)["kind"] == want || c == nil && want == "gone"
			})
		}
	}
	script("server docs starting\nserver docs ready https://example.com/docs\nserver wiki failed nobody is there\nserver shut sign_in https://example.com/mcp\nserver lost ready")
	kind("mcp:docs", "ready")
	kind("mcp:shut", "authRequired")
	kind("mcp:wiki", "error")
	if c := custom(a.state(uri), "mcp:wiki"); c["state"].(object)["error"].(object)["message"] != "nobody is there" {
		t.Errorf("a server that failed: %s", show(c))
	}
	script("server lost gone")
	kind("mcp:lost", "gone")
	a.agree(g, uri)

	// On and off by hand.
	for _, step := range []struct{ action, want string }{{"session/mcpServerStopRequested", "stopped"}, {"session/mcpServerStartRequested", "ready"}} {
		if env := a.echo(a.dispatch(uri, object{"type": step.action, "id": "mcp:docs"})); env["rejectionReason"] != nil {
			t.Errorf("%s: %s", step.action, show(env))
		}
		kind("mcp:docs", step.want)
	}
	if env := a.echo(a.dispatch(uri, object{"type": "session/mcpServerBackgroundRequested", "id": "mcp:docs"})); env["rejectionReason"] != nil {
		t.Errorf("what no turn waits for: %s", show(env))
	}

	// A decision for the folder reaches the other session there, also one that
	// begins later.
	const other = "demo:/other"
	side := b.session(g, other)
	b.dispatch(side, started("o", "server docs ready"))
	b.idle(side, "o")
	folder := object{"kind": "workspace", "uri": fileURI(g.dir), "enabled": false}
	env := a.echo(a.dispatch(uri, toggle("mcp:docs", folder)))
	if env["rejectionReason"] != nil || show(env["action"].(object)["enablement"]) != show([]any{folder}) {
		t.Fatalf("the decision: %s", show(env))
	}
	kind("mcp:docs", "stopped")
	b.until(other, "the other session's server to be off", func(s object) bool {
		c := custom(s, "mcp:docs")
		return c["state"].(object)["kind"] == "stopped" && c["enablement"] != nil
	})
	if env := a.echo(a.dispatch(uri, toggle("mcp:docs", folder))); env["rejectionReason"] != nil {
		t.Errorf("the same decision again: %s", show(env))
	}
	b.dispatch(side, started("p", "server docs ready"))
	b.idle(side, "p")
	b.until(other, "a server that is kept off", func(s object) bool { return custom(s, "mcp:docs")["state"].(object)["kind"] == "stopped" })
	if env := a.echo(a.dispatch(uri, toggle("mcp:docs"))); env["rejectionReason"] != nil {
		t.Errorf("no decision any more: %s", show(env))
	}
	kind("mcp:docs", "ready")
	a.agree(g, uri)
	b.agree(g, other)

	for _, c := range []struct {
		action object
		why    string
	}{
		{object{"type": "session/mcpServerStartRequested", "id": "mcp:none"}, "no such customization"},
		{object{"type": "session/mcpServerStartRequested", "id": 7}, "action.id"},
		{object{"type": "session/mcpServerBackgroundRequested", "id": "mcp:none"}, "no such customization"},
		{object{"type": "session/customizationToggled", "id": "mcp:docs"}, "enablement"},
		{object{"type": "session/mcpServerStateChanged", "id": "mcp:docs"}, "only the host"},
	} {
		env := a.echo(a.dispatch(uri, c.action))
		if reason, _ := env["rejectionReason"].(string); !strings.Contains(reason, c.why) {
			t.Errorf("%v: %s", c.action, show(env))
		}
	}
	for _, bad := range []object{{"kind": "planet", "enabled": true}, {"kind": "workspace", "uri": "file:///elsewhere", "enabled": true}} {
		if env := a.echo(a.dispatch(uri, toggle("mcp:docs", bad))); env["rejectionReason"] == nil {
			t.Errorf("taken: %s", show(bad))
		}
	}
	session := object{"kind": "session", "enabled": true}
	if env := a.echo(a.dispatch(uri, toggle("mcp:docs", session, session))); env["rejectionReason"] == nil {
		t.Error("a scope was taken twice")
	}
}
