package ahp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/core/host"
)

func withPlugins(list ...object) func(object) {
	return func(d object) { d["session"] = object{"customizations": list} }
}

func (p *peer) patches(session object) object {
	p.t.Helper()
	return p.echo(p.dispatch(automationsURI, object{"type": "automation/updateRequested", "resource": one, "changes": object{"session": session}}))
}

// A run has the plugins of its template, with nobody connected to read them from.
func TestAnAutomationBringsItsPluginsToItsRuns(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	a, b := g.connect("a"), g.connect("b")
	a.subscribe(automationsURI)
	b.subscribe(automationsURI)
	dir := filepath.Join(t.TempDir(), "mine")
	writeFile(t, filepath.Join(dir, "commands", "hello.md"), "---\ndescription: Says hello\n---\nHello")
	from := a.mark()
	answer := a.dispatch(automationsURI, object{"type": "automation/createRequested", "resource": one,
		"definition": definition("plugins", withPlugins(plugin("t", toolsURI, "1"), plugin("m", fileURI(dir), "1", "name", "mine")))})
	a.readsAll(from, toolsURI, tools)
	entry := a.echo(answer)["action"].(object)["automation"].(object)
	list, _ := entry["customizations"].([]any)
	if len(list) != 2 || list[0].(object)["version"] != "1.2.0" || list[1].(object)["load"].(object)["kind"] != "loaded" || len(list[1].(object)["children"].([]any)) != 1 {
		t.Fatalf("the entry: %s", show(entry))
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	a.hangUp()
	run := b.start(one, "r1")
	b.subscribe(run)
	session := b.over(run)["primarySession"].(string)
	s := b.subscribe(session)["state"].(object)
	clients := s["activeClients"].([]any)
	if len(clients) != 1 || clients[0].(object)["clientId"] != "Automation" || len(clients[0].(object)["customizations"].([]any)) != 2 {
		t.Errorf("the clients of the run's session: %s", show(clients))
	}
	if c := custom(s, "t"); c == nil || c["clientId"] != "Automation" || c["load"].(object)["kind"] != "loaded" {
		t.Errorf("the session: %s", show(s["customizations"]))
	}
	chat := s["defaultChat"].(string)
	turn := b.subscribe(chat)["state"].(object)["turns"].([]any)[0].(object)
	if got := strings.TrimSpace(said(turn)); got != "plugins: tools, mine" {
		t.Errorf("the agent of the run says %q", got)
	}
	if items := b.slash(session, "/mine:"); len(items) != 1 {
		t.Errorf("behind the slash: %s", show(items))
	}
	b.echo(b.dispatch(session, toggle("t", object{"kind": "session", "enabled": false})))
	if got := b.hears(chat, "t2", "plugins"); got != "plugins: mine" {
		t.Errorf("with one switched off, the agent says %q", got)
	}
	b.agree(g, session, automationsURI)

	// What says nothing of plugins leaves them; an empty list takes them away, and
	// the session keeps its own.
	for _, session := range []object{{"model": object{"id": "demo-large"}}, {"customizations": nil}} {
		if env := b.patches(session); env["rejectionReason"] != nil {
			t.Error(show(env))
		}
		if e := b.state(automationsURI)["entries"].([]any)[0].(object); len(e["customizations"].([]any)) != 2 {
			t.Errorf("the entry: %s", show(e))
		}
	}
	b.patches(object{"customizations": []any{}})
	e := b.until(automationsURI, "the entry without plugins", func(s object) bool { return s["entries"].([]any)[0].(object)["customizations"] == nil })
	if show(e["entries"].([]any)[0].(object)["definition"].(object)["session"]) != "{}" || g.copies() != 2 {
		t.Errorf("the entry: %s; %d copies", show(e), g.copies())
	}
	b.call("disposeSession", object{"channel": session})
	await(t, "the end of the copies", func() bool { return g.copies() == 0 })
	b.agree(g, automationsURI)
}

func TestAnAutomationsPluginsOutliveTheGateway(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	a := g.connect("a")
	a.subscribe(automationsURI)
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "commands", "hello.md"), "Hello")
	a.make(one, definition("plugins", withPlugins(plugin("m", fileURI(dir), "1", "name", "mine"))))
	run := a.start(one, "r1")
	a.subscribe(run)
	session := a.over(run)["primarySession"].(string)
	g.stop()
	g.start()
	if err := g.host.Addons().Sweep(); err != nil {
		t.Fatal(err)
	}
	b := g.connect("b")
	s := b.subscribe(session)["state"].(object)
	chat := s["defaultChat"].(string)
	b.subscribe(chat)
	if c := custom(s, "m"); c == nil || c["load"].(object)["kind"] != "loaded" {
		t.Errorf("the session: %s", show(s["customizations"]))
	}
	if got := b.hears(chat, "t2", "plugins"); got != "plugins: mine" {
		t.Errorf("the agent says %q", got)
	}
	b.call("disposeSession", object{"channel": session})
	b.subscribe(automationsURI)
	again := b.start(one, "r2")
	b.subscribe(again)
	b.subscribe(b.over(again)["primarySession"].(string))
	b.echo(b.dispatch(automationsURI, object{"type": "automation/removed", "resource": one}))
	if g.copies() != 1 {
		t.Errorf("%d copies while a session has one", g.copies())
	}
}

func TestATemplateWhosePluginsCannotBeCopiedIsRefused(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	a := g.connect("a")
	a.subscribe(automationsURI)
	create := func(list ...object) object {
		return object{"type": "automation/createRequested", "resource": one, "definition": definition("x", withPlugins(list...))}
	}
	from := a.mark()
	answer := a.dispatch(automationsURI, create(plugin("f", fileURI(g.dir), "1"), plugin("t", toolsURI, "1")))
	a.answer(from, "resourceList", object{"error": object{"code": -32601, "message": "no such method"}})
	env := a.echo(answer)
	if why, _ := env["rejectionReason"].(string); !strings.Contains(why, "the plugin t could not be copied: the client refused") {
		t.Errorf("refused with %s", show(env))
	}
	a.refused(automationsURI, create(plugin("t", fileURI(g.home), "1")), "closed to clients")
	a.refused(automationsURI, create(plugin("", toolsURI, "1")), "no id")
	a.make(one, definition("x"))
	if env := a.patches(object{"customizations": []any{plugin("t", "no uri", "1")}}); !strings.Contains(show(env["rejectionReason"]), "absolute") {
		t.Errorf("a patch: %s", show(env))
	}
	if g.copies() != 0 {
		t.Errorf("%d copies are left", g.copies())
	}
	a.agree(g, automationsURI)

	without := newGateway(t, func(o *host.Options) { o.Addons = nil })
	b := without.dial("b")
	res := b.call("initialize", object{"protocolVersions": []string{"0.9.0"}, "clientId": "b", "initialSubscriptions": []string{automationsURI}})
	if o := res["automations"].(object); o["customizations"] != nil {
		t.Errorf("offered: %s", show(o))
	}
	b.refused(automationsURI, create(plugin("t", toolsURI, "1")), "operator")
}
