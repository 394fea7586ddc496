package ahp

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/terminal"
)

const tt = "ahp-terminal:/tt"

func own(p *peer) object { return object{"kind": "client", "clientId": p.id} }

// withBash makes bash the user's shell, with an empty home of its own, and
// lets the host tell it to mark its commands.
func withBash(t *testing.T) func(*host.Options) {
	t.Helper()
	t.Setenv("SHELL", "/bin/bash")
	t.Setenv("HOME", t.TempDir())
	if err := os.WriteFile(filepath.Join(os.Getenv("HOME"), ".bashrc"), []byte("PS1='ready> '\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "shell")
	return func(o *host.Options) { o.Terminals = terminal.Options{Files: dir} }
}

func withSh(t *testing.T) {
	t.Helper()
	t.Setenv("SHELL", "/bin/sh")
	t.Setenv("ENV", "")
}

// screenOf is what a terminal's state shows, commands in brackets.
func screenOf(s object) string {
	var b strings.Builder
	for _, v := range s["content"].([]any) {
		part := v.(object)
		if part["type"] == "unclassified" {
			b.WriteString(part["value"].(string))
			continue
		}
		fmt.Fprintf(&b, "<%s|%s|%v>", part["commandLine"], part["output"], part["exitCode"])
	}
	return b.String()
}

func (p *peer) shows(uri, text string) object {
	p.t.Helper()
	return p.until(uri, fmt.Sprintf("%q on %s", text, uri), func(s object) bool { return strings.Contains(screenOf(s), text) })
}

func TestTwoClientsOnOneTerminal(t *testing.T) {
	g := newGateway(t, withBash(t))
	a, b := g.connect("a"), g.connect("b")
	from := b.mark()
	a.call("createTerminal", object{"channel": tt, "claim": own(a), "cwd": fileURI(g.dir), "cols": 100, "rows": 30, "name": "build"})
	changed, _ := b.action(from, rootURI, "root/terminalsChanged")
	want := object{"resource": tt, "title": "build", "claim": own(a), "lifecycle": object{"status": "running"}}
	if show(changed["terminals"]) != show([]any{want}) {
		t.Errorf("list %s", show(changed["terminals"]))
	}
	st := a.subscribe(tt)["state"].(object)
	if st["isPty"] != true || st["cols"] != 100.0 || st["rows"] != 30.0 || st["cwd"] != fileURI(g.dir) {
		t.Errorf("snapshot %s", show(st))
	}
	b.subscribe(tt)
	b.until(tt, "command detection", func(s object) bool { return s["supportsCommandDetection"] == true })
	b.shows(tt, "ready> ")
	echo := b.echo(b.dispatch(tt, object{"type": "terminal/input", "data": "echo one; stty size; (exit 7)\r"}))
	if echo["rejectionReason"] != nil || echo["action"].(object)["data"] != "echo one; stty size; (exit 7)\r" {
		t.Errorf("echo %s", show(echo))
	}
	a.shows(tt, "<echo one; stty size; (exit 7)|one\r\n30 100\r\n|7>")
	b.shows(tt, "|7>")
	a.dispatch(tt, object{"type": "terminal/input", "data": "cd /tmp\r"})
	b.until(tt, "the directory", func(s object) bool { return s["cwd"] == "file:///tmp" })

	a.echo(a.dispatch(tt, object{"type": "terminal/resized", "cols": 90, "rows": 20}))
	a.echo(a.dispatch(tt, object{"type": "terminal/titleChanged", "title": "tests"}))
	b.echo(b.dispatch(tt, object{"type": "terminal/claimed", "claim": own(b)}))
	a.until(rootURI, "the new title and claim in the list", func(s object) bool {
		l := s["terminals"].([]any)
		return len(l) == 1 && l[0].(object)["title"] == "tests" && show(l[0].(object)["claim"]) == show(own(b))
	})
	b.until(tt, "the prompt after cd", func(s object) bool {
		return strings.Contains(screenOf(s), "<cd /tmp||0>") && strings.HasSuffix(screenOf(s), "ready> ")
	})
	a.agree(g, tt)
	b.agree(g, tt)
	a.agree(g, rootURI)
	a.echo(a.dispatch(tt, object{"type": "terminal/cleared"}))
	b.until(tt, "a clear screen", func(s object) bool { return screenOf(s) == "" && s["title"] == "tests" && s["cols"] == 90.0 })

	b.dispatch(tt, object{"type": "terminal/input", "data": "exit 3\r"})
	a.until(tt, "the exit", func(s object) bool { return show(s["lifecycle"]) == `{"exitCode":3,"status":"exited"}` })
	a.until(rootURI, "the exit in the list", func(s object) bool {
		return show(s["terminals"].([]any)[0].(object)["lifecycle"]) == `{"exitCode":3,"status":"exited"}`
	})
	late := a.echo(a.dispatch(tt, object{"type": "terminal/input", "data": "x"}))
	if late["rejectionReason"] == nil {
		t.Error("input after the exit was taken")
	}
	a.agree(g, tt)
	a.call("disposeTerminal", object{"channel": tt})
	b.until(rootURI, "an empty list", func(s object) bool { return len(s["terminals"].([]any)) == 0 })
	a.fails(codeNotFound, "disposeTerminal", object{"channel": tt})
	a.fails(codeNotFound, "subscribe", object{"channel": tt})
}

func TestTerminalsOfASessionEndWithIt(t *testing.T) {
	withSh(t)
	g := newGateway(t)
	p := g.connect("p")
	const session = "demo:/with-terminals"
	chat := p.session(g, session)
	claim := object{"kind": "session", "session": session, "chat": chat, "turnId": "t1"}
	p.call("createTerminal", object{"channel": tt, "claim": claim})
	p.call("createTerminal", object{"channel": tt + "-own", "claim": own(p), "cwd": g.dir})
	p.subscribe(tt)
	p.dispatch(tt, object{"type": "terminal/input", "data": "trap '' HUP TERM; setsid sleep 1000 & echo o''k; sleep 1000\r"})
	p.shows(tt, "ok")
	if st := p.state(tt); show(st["claim"]) != show(claim) {
		t.Errorf("claim %s", show(st["claim"]))
	}
	p.call("disposeSession", object{"channel": session})
	p.until(rootURI, "one terminal", func(s object) bool {
		l := s["terminals"].([]any)
		return len(l) == 1 && l[0].(object)["resource"] == tt+"-own"
	})
	g.stop()
	noProcess(t, g)
}

// noProcess looks for processes in the gateway's directory.
func noProcess(t *testing.T, g *gateway) {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		if to, err := os.Readlink(d); err == nil && strings.HasPrefix(to, g.dir) {
			t.Errorf("%s is in %s", d, to)
		}
	}
}

func TestBadTerminals(t *testing.T) {
	withSh(t)
	g := newGateway(t)
	p, other := g.connect("p"), g.connect("other")
	chat := p.session(g, "demo:/s1")
	p.session(g, "demo:/s2")
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(g.dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(g.dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		code  int
		field string
		p     object
	}{
		"no channel":      {-32602, "channel", object{"claim": own(p)}},
		"no claim":        {-32602, "claim", object{"channel": tt}},
		"another scheme":  {-32602, "channel", object{"channel": "demo:/x", "claim": own(p)}},
		"no name":         {-32602, "channel", object{"channel": "ahp-terminal:/", "claim": own(p)}},
		"a long name":     {-32602, "channel", object{"channel": tt + strings.Repeat("x", maxChannelURI), "claim": own(p)}},
		"a strange claim": {-32602, "claim.kind", object{"channel": tt, "claim": object{"kind": "nobody"}}},
		"nobody's claim":  {-32602, "claim.clientId", object{"channel": tt, "claim": object{"kind": "client"}}},
		"no such session": {-32001, "", object{"channel": tt, "claim": object{"kind": "session", "session": "demo:/none", "chat": chat}}},
		"no chat":         {-32008, "", object{"channel": tt, "claim": object{"kind": "session", "session": "demo:/s1"}}},
		"another's chat":  {-32008, "", object{"channel": tt, "claim": object{"kind": "session", "session": "demo:/s2", "chat": chat}}},
		"no size":         {-32602, "cols", object{"channel": tt, "claim": own(p), "cols": 0, "rows": 5}},
		"a large size":    {-32602, "rows", object{"channel": tt, "claim": own(p), "cols": 5, "rows": 100000}},
		"half a column":   {-32602, "cols", object{"channel": tt, "claim": own(p), "cols": 1.5, "rows": 5}},
		"outside":         {-32009, "cwd", object{"channel": tt, "claim": own(p), "cwd": fileURI(outside)}},
		"out by a link":   {-32009, "cwd", object{"channel": tt, "claim": own(p), "cwd": fileURI(g.dir + "/link")}},
		"upwards":         {-32009, "cwd", object{"channel": tt, "claim": own(p), "cwd": g.dir + "/.."}},
		"missing":         {-32008, "cwd", object{"channel": tt, "claim": own(p), "cwd": fileURI(g.dir + "/none")}},
		"a file":          {-32602, "cwd", object{"channel": tt, "claim": own(p), "cwd": fileURI(g.dir + "/file")}},
		"elsewhere":       {-32602, "", object{"channel": tt, "claim": own(p), "cwd": "vscode-remote://x/y"}},
	} {
		t.Run(name, func(t *testing.T) {
			if e := p.fails(c.code, "createTerminal", c.p); !strings.Contains(e["message"].(string), c.field) {
				t.Errorf("message %q does not name %s", e["message"], c.field)
			}
		})
	}
	p.call("createTerminal", object{"channel": tt, "claim": own(p)})
	other.fails(codeAlreadyExists, "createTerminal", object{"channel": tt, "claim": own(other)})
	p.subscribe(tt)
	for name, a := range map[string]object{
		"host's own":      {"type": "terminal/data", "data": "forged"},
		"unknown":         {"type": "terminal/exploded"},
		"of a chat":       {"type": "chat/draftChanged"},
		"no data":         {"type": "terminal/input"},
		"much data":       {"type": "terminal/input", "data": strings.Repeat("x", terminal.MaxInput+1)},
		"no size":         {"type": "terminal/resized", "cols": 0, "rows": 0},
		"half a size":     {"type": "terminal/resized", "cols": 10},
		"a blank title":   {"type": "terminal/titleChanged", "title": " "},
		"no claim":        {"type": "terminal/claimed"},
		"a wrong claim":   {"type": "terminal/claimed", "claim": object{"kind": "session", "session": "demo:/none", "chat": "x"}},
		"a strange claim": {"type": "terminal/claimed", "claim": object{"kind": "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			if env := p.echo(p.dispatch(tt, a)); env["rejectionReason"] == nil {
				t.Errorf("taken: %s", show(env))
			}
		})
	}
	from := other.mark()
	other.subscribe(tt)
	for _, a := range []object{{"type": "terminal/resized", "cols": 80, "rows": 24}, {"type": "terminal/titleChanged", "title": "sh"},
		{"type": "terminal/claimed", "claim": own(p)}} {
		if env := p.echo(p.dispatch(tt, a)); env["rejectionReason"] != nil {
			t.Errorf("no change was refused: %s", show(env))
		}
	}
	other.call("ping", object{})
	other.mu.Lock()
	defer other.mu.Unlock()
	for _, f := range other.frames[from:] {
		if env, ok := f["params"].(object); ok && env["origin"] != nil {
			t.Errorf("others were told of no change: %s", show(f))
		}
	}
}

func TestAFloodingTerminalBlocksNobody(t *testing.T) {
	withSh(t)
	g := newGateway(t)
	p, stalled := g.connect("p"), g.dial("stalled")
	p.call("createTerminal", object{"channel": tt, "claim": own(p)})
	stalled.call("initialize", object{"protocolVersions": []string{"1.0.0"}, "clientId": "stalled", "initialSubscriptions": []string{tt}})
	stalled.mu.Lock() // reads one frame and no more
	defer stalled.mu.Unlock()
	p.dispatch(tt, object{"type": "terminal/input", "data": "yes 'a flood'\r"})
	chat := p.session(g, "demo:/beside")
	p.dispatch(chat, started("t1", "say hello"))
	p.idle(chat, "t1")
	p.subscribe(tt)
	p.shows(tt, "a flood")
	p.call("ping", object{})
	p.call("disposeTerminal", object{"channel": tt})
	p.until(rootURI, "an empty list", func(s object) bool { return len(s["terminals"].([]any)) == 0 })
	noProcess(t, g)
}

func TestATerminalIsTakenUpAgain(t *testing.T) {
	withSh(t)
	g := newGateway(t)
	p := g.connect("p")
	p.call("createTerminal", object{"channel": tt, "claim": own(p)})
	p.subscribe(tt)
	p.dispatch(tt, object{"type": "terminal/input", "data": "echo fir''st\r"})
	p.shows(tt, "first")
	last, _ := p.hangUp()
	q := g.connect("q")
	q.subscribe(tt)
	q.dispatch(tt, object{"type": "terminal/input", "data": "echo sec''ond\r"})
	q.shows(tt, "second")
	back := g.dial("p")
	res := back.call("reconnect", object{"clientId": "p", "lastSeenServerSeq": last, "subscriptions": []string{tt, "ahp-terminal:/none"}})
	if res["type"] != "replay" || !strings.Contains(show(res["actions"]), "second") || show(res["missing"]) != `["ahp-terminal:/none"]` {
		t.Errorf("reconnect: %s", show(res))
	}
	from := back.mark()
	q.dispatch(tt, object{"type": "terminal/input", "data": "exit\r"})
	back.action(from, tt, "terminal/exited")
}

// The root's snapshot lists the terminals that were told by then, even while a
// change of the list waits to be told.
func TestRootSnapshotListsWhatWasTold(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p, late := g.connect("p"), g.connect("late")
	x := &term{front: g.front, uri: tt, info: terminalInfo{Resource: tt, Title: "x",
		Claim: terminalClaim{Kind: "client", ClientID: "p"}, Lifecycle: lifecycleOf(false, nil)}}
	g.front.terminals.mu.Lock()
	g.front.terminals.list = append(g.front.terminals.list, x)
	g.front.terminals.mu.Unlock()
	p.agreeWith(late, rootURI)
	from := p.mark()
	g.front.root.terminalsChanged()
	p.action(from, rootURI, "root/terminalsChanged")
	p.agreeWith(late, rootURI)
	if l := p.state(rootURI)["terminals"].([]any); len(l) != 1 {
		t.Errorf("the list is %s", show(l))
	}
}

// A session's claim is whole when its chat has gone before the terminal came.
func TestClaimOfAChatThatIsGone(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := g.connect("p")
	const session = "demo:/claims"
	p.session(g, session)
	sid, ok := g.front.findSession(session)
	if !ok {
		t.Fatal("no session")
	}
	gone := terminal.Owner{Session: sid, Chat: id.New(), Turn: "t1"}
	if c := g.front.claimOf(gone); c.Session != session || !strings.HasPrefix(c.Chat, "ahp-chat://") {
		t.Errorf("claim of a chat that is gone: %+v", c)
	}
	gone.Session = id.New()
	if c := g.front.claimOf(gone); !strings.HasPrefix(c.Session, "ahp-session:/") || !strings.HasPrefix(c.Chat, "ahp-chat://") {
		t.Errorf("claim of a session that is gone: %+v", c)
	}
}

// The shell of a client that left and is not known any more ends.
func TestATerminalEndsWithTheMemoryOfItsClient(t *testing.T) {
	withSh(t)
	g := newGateway(t)
	p, q := g.connect("p"), g.connect("q")
	p.call("createTerminal", object{"channel": tt, "claim": own(p)})
	p.call("createTerminal", object{"channel": tt + "-2", "claim": own(q)})
	p.hangUp()
	await(t, "the end of the connection", func() bool {
		g.front.mu.Lock()
		defer g.front.mu.Unlock()
		return g.front.clients["p"].conns == 0
	})
	g.front.sweepAt(time.Now().Add(clientGrace + time.Second))
	if n := len(g.host.Terminals().All()); n != 2 {
		t.Fatalf("%d terminals while the client may come back", n)
	}
	g.front.sweepAt(time.Now().Add(clientMemory + time.Second))
	q.until(rootURI, "the terminal to go", func(s object) bool { return len(s["terminals"].([]any)) == 1 })
	q.subscribe(tt + "-2")
}

// A terminal that is given to a client which nobody has heard of waits for it as
// long as for one that left.
func TestATerminalWaitsForAClientThatIsYetToCome(t *testing.T) {
	withSh(t)
	g := newGateway(t)
	p := g.connect("p")
	p.call("createTerminal", object{"channel": tt, "claim": own(p)})
	p.call("createTerminal", object{"channel": tt + "-2", "claim": object{"kind": "client", "clientId": "later"}})
	p.subscribe(tt)
	p.echo(p.dispatch(tt, object{"type": "terminal/claimed", "claim": object{"kind": "client", "clientId": "later"}}))
	g.front.sweepAt(time.Now().Add(clientMemory - time.Minute))
	if n := len(g.host.Terminals().All()); n != 2 {
		t.Fatalf("%d terminals while the client may still come", n)
	}
	g.front.sweepAt(time.Now().Add(clientMemory + time.Second))
	p.until(rootURI, "the terminals to go", func(s object) bool { return len(s["terminals"].([]any)) == 0 })
}
