package ahp

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/hosttools"
	"github.com/polyhost/polyhost/core/store/memstore"
)

// ownTools has a gateway offer its own tools to agents.
func (g *gateway) ownTools() func(*host.Options) {
	g.tools = hosttools.New(slog.New(slog.NewTextHandler(&g.book, nil)))
	return func(o *host.Options) { o.Own = g.tools }
}

func newToolGateway(t *testing.T) *gateway {
	t.Helper()
	g := &gateway{t: t, dir: t.TempDir(), home: t.TempDir(), store: memstore.New()}
	g.start(g.ownTools())
	return g
}

func toolNames(state object) (names []string) {
	list, _ := state["serverTools"].([]any)
	for _, v := range list {
		names = append(names, v.(object)["name"].(string))
	}
	return names
}

func TestASessionListsTheToolsOfTheHost(t *testing.T) {
	t.Parallel()
	g := newToolGateway(t)
	p := g.connect("editor")
	p.session(g, "demo:/s1")
	state := p.state("demo:/s1")
	names := toolNames(state)
	if len(names) < 6 || names[0] != "list_sessions" {
		t.Fatalf("%v", state["serverTools"])
	}
	first := state["serverTools"].([]any)[0].(object)
	if first["title"] != "List Sessions" || first["annotations"].(object)["readOnlyHint"] != true || first["inputSchema"].(object)["type"] != "object" {
		t.Errorf("%v", first)
	}
	off := p.dispatch(rootURI, object{"type": "root/configChanged", "config": object{"hostTools": false}})
	p.echo(off)
	p.until("demo:/s1", "no tools", func(s object) bool { return len(toolNames(s)) == 0 })
	q := g.connect("other")
	if s := q.subscribe("demo:/s1")["state"].(object); s["serverTools"] != nil {
		t.Errorf("after they were switched off: %v", s["serverTools"])
	}
	p.echo(p.dispatch(rootURI, object{"type": "root/configChanged", "config": object{"hostTools": true}}))
	for _, x := range []*peer{p, q} {
		x.until("demo:/s1", "the tools again", func(s object) bool { return len(toolNames(s)) == len(names) })
	}
}

func TestACallOfAToolOfTheHostIsACallLikeOthers(t *testing.T) {
	t.Parallel()
	g := newToolGateway(t)
	p := g.connect("editor")
	chat := p.session(g, "demo:/s1")
	p.dispatch(chat, started("t1", `call create_session {"relationship":"independent","title":"Child","prompt":"say hello","workspace":"`+g.dir+`"}`))
	from := 0
	ready, from := p.action(from, chat, "chat/toolCallReady")
	if ready["confirmed"] != nil || ready["confirmationTitle"] == nil {
		t.Fatalf("not asked: %v", ready)
	}
	p.dispatch(chat, object{"type": "chat/toolCallConfirmed", "turnId": "t1", "toolCallId": ready["toolCallId"], "approved": true, "confirmed": "user-action"})
	p.action(from, chat, "chat/turnComplete")
	var call object
	for _, v := range p.state(chat)["turns"].([]any)[0].(object)["responseParts"].([]any) {
		if part := v.(object); part["kind"] == "toolCall" {
			call = part["toolCall"].(object)
		}
	}
	contributor, _ := call["contributor"].(object)
	if call["status"] != "completed" || call["success"] != true || contributor["kind"] != "mcp" || call["toolName"] != "create_session" {
		t.Errorf("%v", call)
	}
	// The one that was made is there, and says who asked.
	var child string
	for _, sum := range g.host.List(host.Filter{}) {
		if sum.Info.Title == "Child" {
			child = sessionURI(&sum.Info)
		}
	}
	made := p.subscribe(child)["state"].(object)["defaultChat"].(string)
	p.subscribe(made)
	s := p.until(made, "its turn", func(s object) bool { turns, _ := s["turns"].([]any); return len(turns) == 1 })
	message := s["turns"].([]any)[0].(object)["message"].(object)
	if message["text"] != "say hello" || message["origin"].(object)["kind"] != "agent" {
		t.Errorf("%v", message)
	}
}

func TestWhatAnAgentRecordedIsToldAndCanBeTakenOff(t *testing.T) {
	t.Parallel()
	g := newToolGateway(t)
	p, q := g.connect("editor"), g.connect("other")
	chat := p.session(g, "demo:/s1")
	recorded := func(meta any) (out []object) {
		m, _ := meta.(object)
		list, _ := m["agentHost/sessionArtifacts"].([]any)
		for _, v := range list {
			out = append(out, v.(object))
		}
		return out
	}
	p.dispatch(chat, started("t1", `call add_artifact_or_reference {"items":[{"type":"website","label":"Page","isArtifact":true,"link":"https://a.b/c"}]}`))
	s := p.until("demo:/s1", "the artifact", func(s object) bool { return len(recorded(s["_meta"])) == 1 })
	a := recorded(s["_meta"])[0]
	if a["label"] != "Page" || a["type"] != "website" || a["isArtifact"] != true || a["link"] != "https://a.b/c" {
		t.Errorf("%v", a)
	}
	q.wait(0, "the row with the artifact", func(object) bool { return len(recorded(q.rows["demo:/s1"]["_meta"])) == 1 })
	if s := q.subscribe("demo:/s1")["state"].(object); len(recorded(s["_meta"])) != 1 {
		t.Errorf("%v", s["_meta"])
	}
	q.fails(-32602, "vscode/removeSessionArtifact", object{"session": "demo:/s1"})
	q.fails(-32001, "vscode/removeSessionArtifact", object{"session": "demo:/none", "artifactId": a["id"]})
	q.call("vscode/removeSessionArtifact", object{"session": "demo:/s1", "artifactId": "another"})
	q.call("vscode/removeSessionArtifact", object{"session": "demo:/s1", "artifactId": a["id"]})
	for _, x := range []*peer{p, q} {
		x.until("demo:/s1", "no artifact", func(s object) bool { return len(recorded(s["_meta"])) == 0 })
		x.wait(0, "the row without", func(object) bool { return len(recorded(x.rows["demo:/s1"]["_meta"])) == 0 })
	}
}

func TestAnAgentTakesPartInTheComments(t *testing.T) {
	t.Parallel()
	g := newToolGateway(t)
	p := g.connect("editor")
	chat := p.session(g, "demo:/noted")
	const uri = "demo:/noted/annotations"
	p.subscribe(uri)
	p.echo(p.dispatch(uri, annotated("a", "why so?")))
	outside := annotated("b", "do as I say")
	outside["annotation"].(object)["_meta"] = object{feedbackKey: object{"kind": "prReview", "state": "created", "sessionResource": "demo:/noted"}}
	p.echo(p.dispatch(uri, outside))
	turn := 0
	call := func(line string) object {
		t.Helper()
		turn++
		name := fmt.Sprint("t", turn)
		p.dispatch(chat, started(name, "call "+line))
		p.idle(chat, name)
		turns := p.state(chat)["turns"].([]any)
		for _, v := range turns[len(turns)-1].(object)["responseParts"].([]any) {
			if part := v.(object); part["kind"] == "toolCall" {
				return part["toolCall"].(object)
			}
		}
		t.Fatal("no call")
		return nil
	}
	said := func(c object) string { return c["content"].([]any)[0].(object)["text"].(string) }
	if got := said(call(`listComments {}`)); !strings.Contains(got, "why so?") || strings.Contains(got, "do as I say") || !strings.Contains(got, `"waitingForThePerson": 1`) ||
		!strings.Contains(got, `"startLineNumber": 2`) || !strings.Contains(got, `"author": "user"`) {
		t.Errorf("listed: %s", got)
	}
	call(`replyToComment {"commentId":"a","text":"because"}`)
	call(`resolveComments {"commentIds":["a","none"]}`)
	call(`addComment {"resourceUri":"file:///x","range":{"startLineNumber":1,"startColumn":1,"endLineNumber":1,"endColumn":5},"text":"look here"}`)
	s := p.until(uri, "what the agent said", func(s object) bool { return len(s["annotations"].([]any)) == 3 })
	first, third := s["annotations"].([]any)[0].(object), s["annotations"].([]any)[2].(object)
	if first["resolved"] != true || first["entries"].([]any)[1].(object)["text"] != "because" ||
		first["entries"].([]any)[1].(object)["_meta"].(object)[feedbackKey].(object)["author"] != "agent" ||
		third["range"].(object)["end"].(object)["character"] != 4.0 || third["_meta"].(object)[feedbackKey].(object)["kind"] != "codeReview" {
		t.Errorf("%v", s)
	}
	for line, want := range map[string]string{
		`replyToComment {"commentId":"b","text":"yes"}`: "no comment of that id",
		`addComment {"resourceUri":"x","range":{"startLineNumber":1,"startColumn":1,"endLineNumber":1,"endColumn":5},"text":"y"}`:          "no absolute URI",
		`addComment {"resourceUri":"file:///x","range":{"startLineNumber":2,"startColumn":1,"endLineNumber":1,"endColumn":5},"text":"y"}`:  "before its start",
		`addComment {"resourceUri":"file:///x","range":{"startLineNumber":-1,"startColumn":1,"endLineNumber":1,"endColumn":5},"text":"y"}`: "cannot be a number",
		`deleteComments {"commentIds":[]}`: "1 to 50",
	} {
		if c := call(line); c["success"] != false || !strings.Contains(show(c), want) {
			t.Errorf("%s: %v", line, c)
		}
	}
	call(`deleteComments {"commentIds":["a","b"]}`)
	s = p.until(uri, "one less", func(s object) bool { return len(s["annotations"].([]any)) == 2 })
	if s["annotations"].([]any)[0].(object)["id"] != "b" {
		t.Errorf("deleted what waits for the person: %v", s)
	}
	p.agree(g, uri)
	p.agree(g, "demo:/noted")
}

func TestAnAgentReadsWhatAClientOfItsSessionHas(t *testing.T) {
	t.Parallel()
	g := newToolGateway(t)
	p := g.connect("editor")
	g.connect("stranger") // who is not asked
	chat := p.session(g, "demo:/s1")
	p.echo(p.dispatch("demo:/s1", object{"type": "session/activeClientSet", "activeClient": object{"clientId": "editor", "tools": []any{}}}))
	from := p.mark()
	p.dispatch(chat, started("t1", `call ahp_resource {"operation":"read","uri":"virtual://editor/x.go"}`))
	params, from := p.answer(from, "resourceRead", object{"result": object{"data": "unsaved", "encoding": "utf-8"}})
	if params["uri"] != "virtual://editor/x.go" {
		t.Errorf("asked for %v", params)
	}
	p.idle(chat, "t1")
	p.dispatch(chat, started("t2", `call ahp_resource {"operation":"list","uri":"virtual://editor/"}`))
	_, from = p.answer(from, "resourceList", object{"result": object{"entries": []any{object{"name": "x.go", "type": "file"}}}})
	p.idle(chat, "t2")
	p.dispatch(chat, started("t3", `call ahp_resource {"operation":"stat","uri":"virtual://editor/x.go"}`))
	p.answer(from, "resourceResolve", object{"error": object{"code": -32009, "message": "not yours", "data": object{}}})
	p.idle(chat, "t3")
	for i, uri := range []string{"virtual://stranger/x", "file:///etc/passwd", "virtual://nobody/x", "ahp-root://", "x"} {
		turn := fmt.Sprint("u", i)
		p.dispatch(chat, started(turn, `call ahp_resource {"operation":"read","uri":"`+uri+`"}`))
		p.idle(chat, turn)
	}
	p.dispatch(chat, started("t4", `call rename_chat {"title":"New name"}`))
	p.idle(chat, "t4")
	p.until("demo:/s1", "the name", func(s object) bool { return s["title"] == "New name" })
	var got []string
	for _, v := range p.state(chat)["turns"].([]any) {
		got = append(got, show(v.(object)["responseParts"].([]any)[0]))
	}
	for i, want := range []string{`unsaved`, `x.go`, `the client refused: not yours`, `takes no part`, `your own tools`, `there is no`, `there is no`, `no absolute URI`, `New name`} {
		if !strings.Contains(got[i], want) {
			t.Errorf("call %d: %s", i, got[i])
		}
	}
}

// A change is the client's to refuse, and a person's before that.
func TestAnAgentChangesWhatAClientHasOnceAPersonAllowsIt(t *testing.T) {
	t.Parallel()
	g := newToolGateway(t)
	p, q := g.connect("editor"), g.connect("second")
	const uri = "demo:/s1"
	chat := p.session(g, uri)
	q.subscribe(uri)
	announced := func(id string) object {
		return object{"type": "session/activeClientSet", "activeClient": object{"clientId": id, "tools": []any{}}}
	}
	p.echo(p.dispatch(uri, announced("editor")))
	q.echo(q.dispatch(uri, announced("second")))
	p.echo(p.dispatch(uri, object{"type": "session/configChanged", "config": object{"mode": "autopilot"}}))
	decided := func(turn, input string, approved bool) {
		t.Helper()
		from := p.mark()
		p.dispatch(chat, started(turn, "call ahp_resource_change "+input))
		c, _ := p.action(from, chat, "chat/toolCallReady")
		if title := c["confirmationTitle"]; title != "Allow Ahp resource change?" {
			t.Errorf("%s is not asked about: %v", input, title)
		}
		answer := object{"type": "chat/toolCallConfirmed", "turnId": turn, "toolCallId": c["toolCallId"], "approved": approved}
		if approved {
			answer["confirmed"] = "user-action"
		} else {
			answer["reason"] = "denied"
		}
		p.dispatch(chat, answer)
	}
	from := p.mark()
	for i, change := range []struct{ method, input, asked string }{
		{"resourceWrite", `{"operation":"write","uri":"virtual://editor/x","text":"hi","failIfExists":true}`, `"createOnly":true,"data":"hi","encoding":"utf-8","uri":"virtual://editor/x"`},
		{"resourceDelete", `{"operation":"delete","uri":"virtual://editor/x","recursive":true}`, `"recursive":true,"uri":"virtual://editor/x"`},
		{"resourceMkdir", `{"operation":"mkdir","uri":"virtual://editor/d"}`, `"uri":"virtual://editor/d"`},
		{"resourceMove", `{"operation":"move","uri":"virtual://editor/x","destination":"virtual://editor/y"}`, `"destination":"virtual://editor/y","source":"virtual://editor/x"`},
		{"resourceCopy", `{"operation":"copy","uri":"virtual://editor/x","destination":"virtual://editor/y","failIfExists":true}`, `"destination":"virtual://editor/y","failIfExists":true,"source":"virtual://editor/x"`},
	} {
		turn := fmt.Sprint("t", i)
		decided(turn, change.input, true)
		reply := object{"result": object{}}
		if i == 0 {
			reply = object{"error": object{"code": -32009, "message": "not yours", "data": object{}}}
		}
		var params object
		if params, from = p.answer(from, change.method, reply); show(params) != `{"channel":"ahp-root://",`+change.asked+`}` {
			t.Errorf("%s asks %s", change.input, show(params))
		}
		want := "done"
		if i == 0 {
			want = "the client refused: not yours"
		}
		if got := show(p.idle(chat, turn)["responseParts"]); !strings.Contains(got, want) {
			t.Errorf("%s: %s", change.input, got)
		}
	}
	decided("no", `{"operation":"mkdir","uri":"virtual://editor/d"}`, false)
	p.idle(chat, "no")
	i := 0
	for input, want := range map[string]string{
		`{"operation":"move","uri":"virtual://editor/x","destination":"virtual://second/x"}`: "another client has that",
		`{"operation":"write","uri":"file:///etc/passwd","text":"x"}`:                        "your own tools",
		`{"operation":"write","uri":"virtual://editor/x"}`:                                   "text is for write",
		`{"operation":"copy","uri":"virtual://editor/x"}`:                                    "destination is for move and copy",
		`{"operation":"mkdir","uri":"virtual://editor/x","recursive":true}`:                  "recursive is for delete",
		`{"operation":"delete","uri":"virtual://editor/x","failIfExists":true}`:              "failIfExists is for",
		`{"operation":"read","uri":"virtual://editor/x"}`:                                    "operation",
	} {
		turn := fmt.Sprint("u", i)
		i++
		decided(turn, input, true)
		if got := show(p.idle(chat, turn)["responseParts"]); !strings.Contains(got, want) {
			t.Errorf("%s: %s", input, got)
		}
	}
	p.agree(g, chat)
}

func TestACommentOfATurnThatEndsIsThereOrNot(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	const uri = "demo:/late"
	p := g.connect("editor")
	p.session(g, uri)
	p.subscribe(uri + annotationsSuffix)
	at, err := g.front.find(t.Context(), uri)
	if err != nil {
		t.Fatal(err)
	}
	c := comments{g.front.annotations}
	over, end := context.WithCancel(t.Context())
	end()
	for i := range 40 { // whether the store or the end is heard first is chance
		failed := c.on(t.Context(), at.session, func(n *notes, uri string) error {
			no := false
			a := noteSet{"annotations/set", note{ID: fmt.Sprint(i), Origin: noteOrigin{Session: uri}, Resource: "file:///x", Resolved: &no, Entries: []noteEntry{entryOf("x")}}}
			return c.say(over, n, a.Type, a)
		})
		list, _, err := c.List(t.Context(), at.session)
		if err != nil {
			t.Fatal(err)
		}
		b, err := g.host.KV(front).Get(t.Context(), annotationsKey+at.session.String())
		if err != nil && failed == nil {
			t.Fatal(err)
		}
		if stored := strings.Count(string(b), `"resource":`); stored != len(list) {
			t.Fatalf("after %d: %d are there, %d are stored (%v)", i, len(list), stored, failed)
		}
	}
}

// A session that an agent wants apart works in a git working tree, which goes with it.
func TestAnAgentHandsWorkToASessionInATreeOfItsOwn(t *testing.T) {
	t.Parallel()
	g := newToolGateway(t)
	g.repository("a", "1\n")
	t.Cleanup(func() { os.RemoveAll(g.dir + ".worktrees") })
	bare := t.TempDir()
	p := g.connect("editor")
	chat := p.session(g, "demo:/s1")
	p.echo(p.dispatch("demo:/s1", object{"type": "session/configChanged", "config": object{"mode": "autopilot"}}))
	create := func(turn, dir string) object {
		t.Helper()
		p.dispatch(chat, started(turn, `call create_session {"relationship":"independent","title":"Apart","prompt":"write made hello","worktree":true,"workspace":"`+dir+`"}`))
		for _, v := range p.idle(chat, turn)["responseParts"].([]any) {
			if part := v.(object); part["kind"] == "toolCall" {
				return part["toolCall"].(object)
			}
		}
		t.Fatal("nothing was called")
		return nil
	}
	if call := create("t1", bare); call["success"] != false || !strings.Contains(show(call), "in no git working tree") {
		t.Errorf("outside of a repository: %s", show(call))
	}
	if call := create("git", filepath.Join(g.dir, ".git")); call["success"] != false || !strings.Contains(show(call), "not a git working tree") {
		t.Errorf("among what git keeps: %s", show(call))
	}
	if call := create("t2", g.dir); call["success"] != true {
		t.Fatalf("%s", show(call))
	}
	var uri, tree string
	for _, sum := range g.host.List(host.Filter{}) {
		if sum.Info.Title == "Apart" {
			uri, tree = sessionURI(&sum.Info), sum.Info.Dirs[0]
		}
	}
	if filepath.Dir(tree) != g.dir+".worktrees" {
		t.Fatalf("it works in %q", tree)
	}
	s := p.subscribe(uri)["state"].(object)
	if v := s["config"].(object)["values"].(object); v["isolation"] != "worktree" || v["branch"] != "main" {
		t.Errorf("%s", show(v))
	}
	await(t, "its work", func() bool { return exists(filepath.Join(tree, "made")) })
	if exists(filepath.Join(g.dir, "made")) {
		t.Error("it works in the folder itself")
	}
	if err := os.Remove(filepath.Join(tree, "made")); err != nil {
		t.Fatal(err)
	}
	p.call("disposeSession", object{"channel": uri})
	if exists(tree) {
		t.Error("the tree stays without its session")
	}
}
