package ahp

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/backends/demo"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/host"
)

// folder are the files of a plugin that a client has, by path.
type folder map[string]string

var tools = folder{
	".plugin/plugin.json":   `{"name":"tools","version":"1.2.0"}`,
	"commands/hello.md":     "---\ndescription: Says hello\nargument-hint: \"[name]\"\n---\nHello",
	"skills/dance/SKILL.md": "---\nname: dance\ndescription: Dances\n---\n",
	"agents/helper.md":      "---\ndescription: Helps\nmodel: small\n---\n",
	"rules/style.mdc":       "---\nglobs: \"*.go\"\nalwaysApply: true\n---\n",
}

const toolsURI = "virtual:/plugins/tools"

// brings is the announcement of a client with plugins.
func brings(p *peer, plugins ...object) object {
	list := []any{}
	for _, x := range plugins {
		list = append(list, x)
	}
	return object{"clientId": p.id, "tools": []any{}, "customizations": list}
}

func plugin(id, uri, nonce string, more ...any) object {
	out := object{"type": "plugin", "id": id, "uri": uri, "name": "My tools", "nonce": nonce}
	for i := 0; i < len(more); i += 2 {
		out[more[i].(string)] = more[i+1]
	}
	return out
}

func announces(a object) object { return object{"type": "session/activeClientSet", "activeClient": a} }

// reads answers one request of the host for a plugin at base, the next one behind
// a position.
func (p *peer) reads(from int, base string, files folder) (uri string, at int) {
	p.t.Helper()
	f, at := p.wait(from, "a request for the plugin", func(f object) bool {
		return (f["method"] == "resourceList" || f["method"] == "resourceRead") && f["id"] != nil
	})
	uri = f["params"].(object)["uri"].(string)
	rel := strings.TrimPrefix(strings.TrimPrefix(uri, base), "/")
	reply := object{"jsonrpc": "2.0", "id": f["id"]}
	if f["method"] == "resourceRead" {
		reply["result"] = object{"data": base64.StdEncoding.EncodeToString([]byte(files[rel])), "encoding": "base64"}
	} else {
		seen, entries := map[string]bool{}, []any{}
		for path := range files {
			rest, in := strings.CutPrefix(path, strings.TrimPrefix(rel+"/", "/"))
			name, _, dir := strings.Cut(rest, "/")
			if !in || seen[name] {
				continue
			}
			seen[name] = true
			entries = append(entries, object{"name": name, "type": map[bool]string{true: "directory", false: "file"}[dir]})
		}
		reply["result"] = object{"entries": entries}
	}
	p.send(reply)
	return uri, at
}

// readsAll answers all requests for the files of a plugin.
func (p *peer) readsAll(from int, base string, files folder) (at int) {
	p.t.Helper()
	requests := len(files) + 1
	dirs := map[string]bool{}
	for path := range files {
		for d := filepath.Dir(path); d != "."; d = filepath.Dir(d) {
			dirs[d] = true
		}
	}
	for range requests + len(dirs) {
		_, from = p.reads(from, base, files)
	}
	return from
}

// load waits for a plugin to be so on every peer, and returns it.
func load(uri, id, want string, peers ...*peer) (found object) {
	for _, p := range peers {
		p.t.Helper()
		p.until(uri, id+" to be "+want, func(s object) bool {
			found = custom(s, id)
			if found == nil {
				return want == "gone"
			}
			return found["load"].(object)["kind"] == want
		})
	}
	return found
}

// hears runs a turn and returns its text.
func (p *peer) hears(chat, turn, text string) string {
	p.t.Helper()
	p.dispatch(chat, started(turn, text))
	return strings.TrimSpace(said(p.idle(chat, turn)))
}

func (g *gateway) copies() int {
	g.t.Helper()
	entries, err := os.ReadDir(filepath.Join(g.home, "addons"))
	if err != nil {
		g.t.Fatal(err)
	}
	return len(entries)
}

func TestAClientsPluginIsCopiedShownAndGivenToTheAgent(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	a, b := g.connect("a"), g.connect("b")
	const uri = "demo:/plugs"
	chat := a.session(g, uri)
	b.subscribe(uri)

	from := a.mark()
	me := brings(a, plugin("t", toolsURI, "1"))
	if env := a.echo(a.dispatch(uri, announces(me))); env["rejectionReason"] != nil {
		t.Fatal(show(env))
	}
	load(uri, "t", "loading", a, b)
	a.readsAll(from, toolsURI, tools)
	c := load(uri, "t", "loaded", a, b)
	if c["clientId"] != "a" || c["version"] != "1.2.0" || c["name"] != "My tools" || c["enablement"] != nil {
		t.Errorf("the plugin: %s", show(c))
	}
	want := `[{"_meta":{"ahpd.argumentHint":"[name]"},"description":"Says hello","id":"t/commands/hello.md","name":"hello","type":"prompt","uri":"virtual:/plugins/tools/commands/hello.md"},` +
		`{"description":"Dances","id":"t/skills/dance/SKILL.md","name":"dance","type":"skill","uri":"virtual:/plugins/tools/skills/dance/SKILL.md"},` +
		`{"description":"Helps","id":"t/agents/helper.md","model":"small","name":"helper","type":"agent","uri":"virtual:/plugins/tools/agents/helper.md"},` +
		`{"alwaysApply":true,"globs":["*.go"],"id":"t/rules/style.mdc","name":"style","type":"rule","uri":"virtual:/plugins/tools/rules/style.mdc"}]`
	if got := show(c["children"]); got != want {
		t.Errorf("its children:\n%s\nwant\n%s", got, want)
	}
	if got := a.hears(chat, "t1", "plugins"); got != "plugins: tools" {
		t.Errorf("the agent says %q", got)
	}
	if items := a.slash(uri, "/tools:"); len(items) != 2 || items[0]["command"] != "tools:hello" || items[0]["argumentHint"] != "[name]" || items[1]["isSkill"] != true {
		t.Errorf("behind the slash: %s", show(items))
	}

	// The same again is no change, and nothing is read again.
	at := b.mark()
	if env := a.echo(a.dispatch(uri, announces(me))); env["rejectionReason"] != nil {
		t.Error(show(env))
	}
	a.agree(g, uri)
	a.dispatch(uri, object{"type": "session/titleChanged", "title": "a mark"})
	f, _ := b.wait(at, "what follows", func(f object) bool {
		env, _ := f["params"].(object)
		action, _ := env["action"].(object)
		return action["type"] == "session/activeClientSet" || action["type"] == "session/titleChanged"
	})
	if typ := f["params"].(object)["action"].(object)["type"]; typ != "session/titleChanged" {
		t.Errorf("the same announcement was told: %s", show(f))
	}

	// What the agent says that it has from a plugin is not shown twice.
	a.hears(chat, "t2", "command tools:hello Says hello\ncommand own Its own")
	s := a.until(uri, "the agent's own command", func(s object) bool { return custom(s, "prompts") != nil && child(s, "prompts", "own") != nil })
	if child(s, "prompts", "tools:hello") != nil {
		t.Errorf("shown twice: %s", show(s))
	}
	if list := s["customizations"].([]any); list[len(list)-1].(object)["id"] != "t" {
		t.Errorf("the plugins are not the last: %s", show(list))
	}

	// Another content: another copy, and the agent starts again with it.
	less := folder{"commands/bye.md": "Bye"}
	from = a.mark()
	a.echo(a.dispatch(uri, announces(brings(a, plugin("t", toolsURI, "2")))))
	a.readsAll(from, toolsURI, less)
	b.until(uri, "the other content", func(s object) bool {
		c := custom(s, "t")
		return c["load"].(object)["kind"] == "loaded" && len(c["children"].([]any)) == 1
	})
	if got := a.hears(chat, "t3", "plugins"); got != "plugins: My-tools" || g.copies() != 1 {
		t.Errorf("the agent says %q, %d copies", got, g.copies())
	}

	// Its client leaves, and takes it along.
	a.echo(a.dispatch(uri, object{"type": "session/activeClientRemoved", "clientId": "a"}))
	load(uri, "t", "gone", a, b)
	if got := a.hears(chat, "t4", "plugins"); got != "plugins: none" {
		t.Errorf("the agent says %q", got)
	}
	if g.copies() != 0 {
		t.Errorf("%d copies are left", g.copies())
	}
	a.agree(g, uri)
}

func TestAPluginOfAClientIsSwitchedByScope(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	a, b := g.connect("a"), g.connect("b")
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "commands", "hello.md"), "Hello")
	const uri = "demo:/switch"
	me := brings(a, plugin("t", fileURI(dir), "1", "name", "mine"))
	a.call("createSession", object{"channel": uri, "provider": "demo", "workingDirectories": []string{fileURI(g.dir)}, "activeClient": me})
	chat := a.subscribe(uri)["state"].(object)["defaultChat"].(string)
	a.subscribe(chat)
	b.subscribe(uri)
	load(uri, "t", "loaded", a, b)
	if got := a.hears(chat, "t1", "plugins"); got != "plugins: mine" {
		t.Errorf("the agent says %q", got)
	}
	off := object{"kind": "workspace", "uri": fileURI(g.dir), "enabled": false}
	env := a.echo(a.dispatch(uri, toggle("t", off)))
	if env["rejectionReason"] != nil || show(env["action"].(object)["enablement"]) != show([]any{off}) {
		t.Fatal(show(env))
	}
	b.until(uri, "the decision", func(s object) bool { return custom(s, "t")["enablement"] != nil })
	if got := a.hears(chat, "t2", "plugins"); got != "plugins: none" {
		t.Errorf("switched off, the agent says %q", got)
	}
	if items := a.slash(uri, "/mine"); len(items) != 0 {
		t.Errorf("behind the slash: %s", show(items))
	}
	if env := a.echo(a.dispatch(uri, toggle("t", off))); env["rejectionReason"] != nil {
		t.Errorf("the same decision again: %s", show(env))
	}

	// The decision is for the folder: another session there has it too, and one
	// for that session alone is nearer.
	const other = "demo:/switch-other"
	b.call("createSession", object{"channel": other, "provider": "demo", "workingDirectories": []string{fileURI(g.dir)},
		"activeClient": brings(b, plugin("u", fileURI(dir), "1", "name", "mine"))})
	side := b.subscribe(other)["state"].(object)["defaultChat"].(string)
	b.subscribe(side)
	load(other, "u", "loaded", b)
	if got := b.hears(side, "o1", "plugins"); got != "plugins: none" {
		t.Errorf("the other agent says %q", got)
	}
	b.echo(b.dispatch(other, toggle("u", object{"kind": "session", "enabled": true}, off)))
	if got := b.hears(side, "o2", "plugins"); got != "plugins: mine" {
		t.Errorf("switched on for the session, the other agent says %q", got)
	}
	if env := a.echo(a.dispatch(uri, toggle("t/commands/hello.md"))); env["rejectionReason"] == nil {
		t.Error("one thing of a plugin was switched")
	}
	a.echo(a.dispatch(uri, toggle("t")))
	if got := a.hears(chat, "t3", "plugins"); got != "plugins: mine" {
		t.Errorf("without a decision the agent says %q", got)
	}
	a.agree(g, uri)
	b.agree(g, other)
}

// A client may say that its plugin is off; a decision here counts more.
func TestAPluginComesAsItsClientHasIt(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	a := g.connect("a")
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "commands", "hello.md"), "Hello")
	const uri = "demo:/asis"
	chat := a.session(g, uri)
	off := object{"kind": "session", "enabled": false}
	a.echo(a.dispatch(uri, announces(brings(a, plugin("t", fileURI(dir), "1", "name", "mine", "enablement", []any{off})))))
	c := load(uri, "t", "loaded", a)
	if show(c["enablement"]) != show([]any{off}) {
		t.Errorf("the plugin: %s", show(c))
	}
	if got := a.hears(chat, "t1", "plugins"); got != "plugins: none" {
		t.Errorf("the agent says %q", got)
	}
	a.echo(a.dispatch(uri, toggle("t", object{"kind": "session", "enabled": true})))
	if got := a.hears(chat, "t2", "plugins"); got != "plugins: mine" {
		t.Errorf("switched on, the agent says %q", got)
	}
	a.agree(g, uri)
}

func TestAPluginThatCannotBeCopiedSaysWhy(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	a := g.connect("a")
	const uri = "demo:/bad"
	a.session(g, uri)
	from := a.mark()
	a.echo(a.dispatch(uri, announces(brings(a,
		plugin("home", fileURI(g.home), "1"), plugin("none", fileURI(g.dir)+"/none", "1"), plugin("chat", "ahp-chat://x", "1"),
		plugin("word", "no uri", "1"), plugin("own", "virtual:/x", "1")))))
	_, from = a.answer(from, "resourceList", object{"error": object{"code": -32008, "message": "it is not there any more"}})
	for id, why := range map[string]string{"home": "closed to clients", "none": "not found", "chat": "no channel", "word": "absolute", "own": "not there any more"} {
		c := load(uri, id, "error", a)
		if got := c["load"].(object)["message"].(string); !strings.Contains(got, why) || strings.Contains(got, g.home+"/addons") || c["children"] != nil {
			t.Errorf("%s: %s", id, show(c))
		}
	}
	// Names that lead out of the copy, and answers that make no sense.
	for i, result := range []object{{"entries": []any{object{"name": "..", "type": "directory"}}}, {"entries": []any{object{"name": "a/b", "type": "file"}}},
		{"entries": []any{object{"name": "x", "type": "symlink"}}}, {"entries": 7}} {
		id := fmt.Sprint("own", i)
		a.echo(a.dispatch(uri, announces(brings(a, plugin(id, "virtual:/x", show(result))))))
		_, from = a.answer(from, "resourceList", object{"result": result})
		load(uri, id, "error", a)
	}
	if g.copies() != 0 {
		t.Errorf("%d copies are left", g.copies())
	}
	for _, c := range []struct {
		list []object
		why  string
	}{
		{[]object{plugin("", toolsURI, "1")}, "no id"},
		{[]object{plugin("t", toolsURI, "1"), plugin("t", toolsURI, "2")}, "two plugins"},
		{[]object{plugin("t", "", "1")}, "no URI"},
		{[]object{{"type": "plugin", "id": 7}}, "activeClient"},
	} {
		env := a.echo(a.dispatch(uri, announces(brings(a, c.list...))))
		if reason, _ := env["rejectionReason"].(string); !strings.Contains(reason, c.why) {
			t.Errorf("%s: %s", show(c.list), show(env))
		}
	}
	a.agree(g, uri)
}

func TestAClientThatGoesInTheMiddleEndsTheCopy(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	a, b := g.connect("a"), g.connect("b")
	const uri = "demo:/gone"
	a.session(g, uri)
	b.subscribe(uri)
	from := a.mark()
	me := announces(brings(a, plugin("t", toolsURI, "1")))
	a.echo(a.dispatch(uri, me))
	a.reads(from, toolsURI, tools)
	a.hangUp()
	if c := load(uri, "t", "error", b); !strings.Contains(show(c), "left") {
		t.Errorf("the plugin: %s", show(c))
	}
	// It comes back, says the same, and is read again.
	a = g.connect("a")
	a.subscribe(uri)
	from = a.mark()
	a.echo(a.dispatch(uri, me))
	a.readsAll(from, toolsURI, tools)
	load(uri, "t", "loaded", a, b)
	b.agree(g, uri)
}

func TestAClientThatDoesNotAnswerKeepsNobodysPluginsWaiting(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	a, b := g.connect("a"), g.connect("b")
	const uri = "demo:/silent"
	a.session(g, uri)
	b.subscribe(uri)
	var silent []object
	for i := range 8 {
		silent = append(silent, plugin(fmt.Sprint("s", i), fmt.Sprintf("virtual:/silent/%d", i), "1"))
	}
	from := a.mark()
	a.echo(a.dispatch(uri, announces(brings(a, silent...))))
	asked := func(f object) bool { return f["method"] == "resourceList" && f["id"] != nil }
	for range copiesOfOne {
		_, from = a.wait(from, "a request for a plugin", asked)
	}
	mine := b.mark()
	b.echo(b.dispatch(uri, announces(brings(b, plugin("t", toolsURI, "1")))))
	b.readsAll(mine, toolsURI, tools)
	load(uri, "t", "loaded", a, b)
	a.mu.Lock()
	defer a.mu.Unlock()
	if slices.ContainsFunc(a.frames[from:], asked) {
		t.Error("more plugins of the one that does not answer were copied at once")
	}
}

func TestACopyForAProjectionThatIsGoneTakesNothingFromTheNextOne(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	a := g.connect("a")
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "commands", "hello.md"), "Hello")
	const uri = "demo:/again"
	a.session(g, uri)
	a.echo(a.dispatch(uri, announces(brings(a, plugin("t", fileURI(dir), "1")))))
	load(uri, "t", "loaded", a)
	at, err := g.front.find(t.Context(), uri)
	if err != nil {
		t.Fatal(err)
	}
	now := g.front.projected(at.session)
	now.mu.Lock()
	old := &live{front: g.front, id: now.id, sess: now.sess, st: now.st, gone: true}
	now.mu.Unlock()
	copied := &pluginCopy{cancel: func() {}, users: map[*live]int{old: 1}}
	said := announcedPlugin{Type: typePlugin, ID: "t", URI: fileURI(dir), Name: "t"}
	src, err := g.front.plugins.source(g.front.connected("a"), said.URI)
	if err != nil {
		t.Fatal(err)
	}
	g.front.plugins.copy(t.Context(), g.front.connected("a"), copied, said, src)
	if n := len(g.host.Extensions().Plugins(at.session)); n != 1 {
		t.Errorf("the session has %d plugins", n)
	}
	copied.copied.Release()
}

// Two windows of one editor bring the same plugin; others may call theirs alike.
func TestOnePluginOfTwoClientsIsShownOnce(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	a, b := g.connect("a"), g.connect("b")
	one, two := t.TempDir(), t.TempDir()
	writeFile(t, filepath.Join(one, "commands", "hello.md"), "Hello")
	writeFile(t, filepath.Join(two, "commands", "bye.md"), "Bye")
	const uri = "demo:/twice"
	chat := a.session(g, uri)
	b.subscribe(uri)
	a.echo(a.dispatch(uri, announces(brings(a, plugin("t", fileURI(one), "1", "name", "one")))))
	b.echo(b.dispatch(uri, announces(brings(b, plugin("t", fileURI(one), "1", "name", "one"), plugin("prompts", fileURI(two), "1", "name", "two")))))
	load(uri, "t", "loaded", a, b)
	load(uri, "b/prompts", "loaded", a, b)
	if got := a.hears(chat, "t1", "plugins"); got != "plugins: one, two" {
		t.Errorf("the agent says %q", got)
	}
	a.echo(a.dispatch(uri, object{"type": "session/activeClientRemoved", "clientId": "a"}))
	b.until(uri, "the plugin to be the other's", func(s object) bool { return custom(s, "t")["clientId"] == "b" })
	if got := a.hears(chat, "t2", "plugins"); got != "plugins: one, two" || g.copies() != 2 {
		t.Errorf("the agent says %q, %d copies", got, g.copies())
	}
	b.agree(g, uri)
	b.call("disposeSession", object{"channel": uri})
	await(t, "the end of the copies", func() bool { return g.copies() == 0 })
}

func TestAnOperatorOrAnAgentMayTakeNoPlugins(t *testing.T) {
	t.Parallel()
	for why, change := range map[string]func(*host.Options){
		"the operator": func(o *host.Options) { o.Addons = nil },
		"no effect":    withAgent(t, pluginless{demo.New()}),
	} {
		g := newGateway(t, change)
		a := g.connect("a")
		const uri = "demo:/refuse"
		chat := a.session(g, uri)
		a.echo(a.dispatch(uri, announces(brings(a, plugin("t", fileURI(g.dir), "1")))))
		if c := load(uri, "t", "error", a); !strings.Contains(show(c), why) {
			t.Errorf("%s: %s", why, show(c))
		}
		if got := a.hears(chat, "t1", "plugins"); got != "plugins: none" {
			t.Errorf("the agent says %q", got)
		}
		a.agree(g, uri)
	}
}

// pluginless is the demo agent without plugins.
type pluginless struct{ *demo.Backend }

func (b pluginless) Info(ctx context.Context) (agent.Info, error) {
	info, err := b.Backend.Info(ctx)
	info.Capabilities.Plugins = false
	return info, err
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
