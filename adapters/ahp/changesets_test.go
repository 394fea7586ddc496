package ahp

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// repository makes the directory of the gateway's sessions a git working tree.
func repository(t testing.TB, files ...string) (*gateway, func(args ...string) string, func(name, text string)) {
	t.Helper()
	g := newGateway(t)
	run, write := g.repository(files...)
	return g, run, write
}

func (g *gateway) repository(files ...string) (func(args ...string) string, func(name, text string)) {
	t := g.t
	t.Helper()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(g.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir = g.dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	run("init", "-q", "-b", "main")
	run("config", "user.name", "A Person")
	run("config", "user.email", "person@example.com")
	for i := 0; i < len(files); i += 2 {
		write(files[i], files[i+1])
	}
	if len(files) > 0 {
		run("add", "-A")
		run("commit", "-q", "-m", "first")
	}
	return run, write
}

// rows are the files of a changeset, by their path in the gateway's directory.
func (p *peer) changed(g *gateway, uri string, ok func(map[string]object) bool) map[string]object {
	p.t.Helper()
	var rows map[string]object
	p.until(uri, "such files", func(s object) bool {
		if s["status"] != "ready" {
			return false
		}
		rows = map[string]object{}
		for _, f := range s["files"].([]any) {
			row := f.(object)
			rows[strings.TrimPrefix(row["id"].(string), fileURI(g.dir)+"/")] = row
		}
		return ok(rows)
	})
	return rows
}

func only(names ...string) func(map[string]object) bool {
	return func(rows map[string]object) bool {
		for _, n := range names {
			if rows[n] == nil {
				return false
			}
		}
		return len(rows) == len(names)
	}
}

func side(row object, name string) string {
	s, _ := row["edit"].(object)[name].(object)
	if s == nil {
		return ""
	}
	return s["content"].(object)["uri"].(string)
}

func (p *peer) text(uri string) string {
	p.t.Helper()
	return p.call("resourceRead", object{"channel": rootURI, "uri": uri})["data"].(string)
}

func (p *peer) verb(uri, verb string, more object) object {
	o := object{"channel": uri, "operationId": verb}
	for k, v := range more {
		o[k] = v
	}
	return o
}

func at(g *gateway, name string) object {
	return object{"target": object{"kind": "resource", "resource": fileURI(filepath.Join(g.dir, name))}}
}

func TestUncommittedChangesAreFollowed(t *testing.T) {
	t.Parallel()
	g, git, write := repository(t, "a", "1\n", "b", "1\n", "old", "1\n2\n3\n")
	write("a", "2\n")
	p := g.connect("c")
	p.session(g, "demo:/s")
	uri := "demo:/s/changeset/uncommitted"
	catalogue := p.state("demo:/s")["changesets"].([]any)
	if len(catalogue) != 4 || catalogue[1].(object)["uriTemplate"] != uri {
		t.Errorf("the catalogue: %v", catalogue)
	}
	p.subscribe(uri)
	rows := p.changed(g, uri, only("a"))
	if d := rows["a"]["edit"].(object)["diff"].(object); d["added"] != 1.0 || d["removed"] != 1.0 {
		t.Errorf("lines: %v", d)
	}
	if was := p.text(side(rows["a"], "before")); was != "1\n" {
		t.Errorf("before: %q", was)
	}
	if is := p.text(side(rows["a"], "after")); is != "2\n" {
		t.Errorf("after: %q", is)
	}
	p.fails(codePermissionDenied, "resourceWrite", object{"channel": rootURI, "uri": side(rows["a"], "before"), "data": "x", "encoding": "utf-8"})

	// A client writes a file through the host.
	p.call("resourceWrite", object{"channel": rootURI, "uri": fileURI(filepath.Join(g.dir, "new")), "data": "x\n", "encoding": "utf-8"})
	p.changed(g, uri, only("a", "new"))
	// A person uses git.
	git("mv", "old", "moved")
	rows = p.changed(g, uri, only("a", "new", "moved"))
	e := rows["moved"]["edit"].(object)
	if e["before"].(object)["uri"] != fileURI(filepath.Join(g.dir, "old")) || e["after"].(object)["uri"] != fileURI(filepath.Join(g.dir, "moved")) || p.text(side(rows["moved"], "before")) != "1\n2\n3\n" {
		t.Errorf("a rename: %v", e)
	}
	meta := rows["moved"]["_meta"].(object)
	if meta["ahpd.staged"] != true || meta["ahpd.unstaged"] != false {
		t.Errorf("staged: %v", meta)
	}
	// The agent writes a file.
	chat := p.state("demo:/s")["defaultChat"].(string)
	p.dispatch("demo:/s", object{"type": "session/configChanged", "config": object{"autoApprove": "autoApprove"}})
	p.dispatch(chat, started("t1", "write made.txt hello"))
	p.idle(chat, "t1")
	p.changed(g, uri, only("a", "new", "moved", "made.txt"))
	session := "demo:/s/changeset/session"
	p.subscribe(session)
	p.changed(g, session, only("made.txt"))
	p.agree(g, uri, session)

	git("stash", "-u", "-q")
	p.changed(g, uri, only())
	p.agree(g, uri)
}

func TestOperationsOfUncommittedChanges(t *testing.T) {
	t.Parallel()
	g, git, write := repository(t, "a", "1\n", "b", "1\n", "c", "1\n")
	for _, n := range []string{"a", "b", "c", "new"} {
		write(n, "2\n")
	}
	p := g.connect("c")
	p.session(g, "demo:/s")
	uri := "demo:/s/changeset/uncommitted"
	p.subscribe(uri)
	p.changed(g, uri, only("a", "b", "c", "new"))
	confirm := func() string {
		return p.state(uri)["operations"].([]any)[0].(object)["confirmation"].(string)
	}
	if got := confirm(); !strings.Contains(got, "takes 4 files, 1 of them untracked") {
		t.Errorf("confirmation: %s", got)
	}
	staged := func(name string, want bool) {
		t.Helper()
		p.changed(g, uri, func(rows map[string]object) bool {
			return rows[name] != nil && rows[name]["_meta"].(object)["ahpd.staged"] == want
		})
	}
	p.call("invokeChangesetOperation", p.verb(uri, "stage", at(g, "a")))
	staged("a", true)
	if got := confirm(); !strings.Contains(got, "takes 1 staged file.") {
		t.Errorf("confirmation: %s", got)
	}
	p.call("invokeChangesetOperation", p.verb(uri, "unstage", nil))
	staged("a", false)
	p.call("invokeChangesetOperation", p.verb(uri, "discard", at(g, "b")))
	p.changed(g, uri, only("a", "c", "new"))
	more := at(g, "new")
	more["_meta"] = object{"ahpd.commit": object{"message": "One file"}}
	p.call("invokeChangesetOperation", p.verb(uri, "commit", more))
	p.changed(g, uri, only("a", "c"))
	if got := git("log", "-1", "--format=%s", "--name-only"); got != "One file\n\nnew" {
		t.Errorf("the commit: %q", got)
	}
	p.call("invokeChangesetOperation", p.verb(uri, "commit", nil))
	p.changed(g, uri, only())
	for _, o := range p.until(uri, "nothing to do", func(s object) bool {
		return s["operations"].([]any)[0].(object)["status"] == "disabled"
	})["operations"].([]any) {
		if o.(object)["status"] != "disabled" && o.(object)["id"] != "checkout" {
			t.Errorf("%v", o)
		}
	}
	p.agree(g, uri)

	p.fails(-32602, "invokeChangesetOperation", p.verb(uri, "commit", nil)) // nothing changed
	p.fails(-32602, "invokeChangesetOperation", p.verb(uri, "push", nil))
	p.fails(-32602, "invokeChangesetOperation", p.verb(uri, "stage", object{"target": object{"kind": "resource", "resource": "file:///etc/passwd"}}))
	p.fails(-32602, "invokeChangesetOperation", p.verb(uri, "stage", object{"target": object{"kind": "resource", "resource": "https://example.com"}}))
	p.fails(-32602, "invokeChangesetOperation", p.verb(uri, "stage", object{"target": object{"kind": "range", "resource": fileURI(g.dir), "range": object{}}}))
	p.fails(codeNotFound, "invokeChangesetOperation", p.verb("demo:/s/changeset/branch", "commit", nil))
	p.fails(codeSessionNotFound, "invokeChangesetOperation", p.verb("demo:/none/changeset/session", "revert", nil))
	p.fails(codeNotFound, "subscribe", object{"channel": "demo:/s/changeset/turn/{turnId}"})
}

func TestNothingIsDoneWhileATurnRuns(t *testing.T) {
	t.Parallel()
	g, _, write := repository(t, "a", "1\n")
	write("a", "2\n")
	p := g.connect("c")
	chat := p.session(g, "demo:/s")
	uri := "demo:/s/changeset/uncommitted"
	p.subscribe(uri)
	p.changed(g, uri, only("a"))
	p.dispatch(chat, started("t1", "write .vscode/waits.txt x")) // a person is asked
	p.until(uri, "disabled operations", func(s object) bool {
		o, _ := s["operations"].([]any)
		return len(o) > 0 && o[0].(object)["status"] == "disabled"
	})
	p.fails(codeTurnInProgress, "invokeChangesetOperation", p.verb(uri, "commit", nil))
	p.dispatch(chat, object{"type": "chat/turnCancelled", "turnId": "t1", "duration": 1})
	p.idle(chat, "t1")
	p.until(uri, "operations again", func(s object) bool { return s["operations"].([]any)[0].(object)["status"] == "idle" })
}

func TestFilesAreReviewedUntilTheyChange(t *testing.T) {
	t.Parallel()
	g, _, write := repository(t, "a", "1\n", "b", "1\n")
	write("a", "2\n")
	write("b", "2\n")
	p := g.connect("c")
	p.session(g, "demo:/s")
	uri := "demo:/s/changeset/uncommitted"
	p.subscribe(uri)
	rows := p.changed(g, uri, only("a", "b"))
	review := object{"type": "changeset/filesReviewChanged", "files": []any{rows["a"]["id"], rows["b"]["id"], "unknown"}, "reviewed": true}
	p.echo(p.dispatch(uri, review))
	p.changed(g, uri, func(r map[string]object) bool { return r["a"]["reviewed"] == true && r["b"]["reviewed"] == true })
	if again := p.echo(p.dispatch(uri, review)); again["rejectionReason"] != nil {
		t.Errorf("the same again: %v", again)
	}
	p.call("resourceWrite", object{"channel": rootURI, "uri": rows["a"]["id"], "data": "three\n", "encoding": "utf-8"})
	p.changed(g, uri, func(r map[string]object) bool { return r["a"]["reviewed"] != true && r["b"]["reviewed"] == true })
	p.agree(g, uri)
	if refused := p.echo(p.dispatch(uri, object{"type": "changeset/cleared"})); refused["rejectionReason"] == nil {
		t.Error("a client cleared the changeset")
	}
}

func TestRevertPutsBackWhatTheAgentFound(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	if err := os.WriteFile(filepath.Join(g.dir, "x.txt"), []byte("found\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	p := g.connect("c")
	chat := p.session(g, "demo:/s")
	if list := p.state("demo:/s")["changesets"].([]any); len(list) != 3 {
		t.Errorf("the catalogue without git: %v", list)
	}
	p.fails(codeNotFound, "subscribe", object{"channel": "demo:/s/changeset/uncommitted"})
	uri := "demo:/s/changeset/session"
	p.subscribe(uri)
	p.changed(g, uri, only())
	p.dispatch("demo:/s", object{"type": "session/configChanged", "config": object{"autoApprove": "autoApprove"}})
	for i, text := range []string{"write x.txt once", "write x.txt twice", "write y.txt new"} {
		turn := fmt.Sprint("t", i)
		p.dispatch(chat, started(turn, text))
		p.idle(chat, turn)
	}
	rows := p.changed(g, uri, only("x.txt", "y.txt"))
	if was := p.text(side(rows["x.txt"], "before")); was != "found\n" {
		t.Errorf("before: %q", was)
	}
	if side(rows["y.txt"], "before") != "" {
		t.Errorf("a new file: %v", rows["y.txt"])
	}
	p.until(uri, "idle operations", func(s object) bool { return s["operations"].([]any)[0].(object)["status"] == "idle" })
	for _, n := range []string{"x.txt", "y.txt"} {
		p.call("invokeChangesetOperation", p.verb(uri, "revert", at(g, n)))
	}
	if b, _ := os.ReadFile(filepath.Join(g.dir, "x.txt")); string(b) != "found\n" {
		t.Errorf("reverted: %q", b)
	}
	if _, err := os.Stat(filepath.Join(g.dir, "y.txt")); err == nil {
		t.Error("a file that the agent made is still there")
	}
	p.fails(-32602, "invokeChangesetOperation", p.verb(uri, "revert", at(g, "z.txt")))
	p.fails(-32602, "invokeChangesetOperation", p.verb(uri, "revert", nil))
	p.agree(g, uri)
	p.call("disposeSession", object{"channel": "demo:/s"})
	p.until(uri, "the end", func(s object) bool { return len(s["files"].([]any)) == 0 })
}

func TestChangesOfTurns(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := g.connect("c")
	chat := p.session(g, "demo:/s")
	p.dispatch("demo:/s", object{"type": "session/configChanged", "config": object{"autoApprove": "autoApprove"}})
	turns := []string{"write x.txt one", "write x.txt two\nwrite y.txt made", "write x.txt three", "spawn Ann write w.txt worked"}
	for i, text := range turns {
		turn := fmt.Sprint("turn/", i)
		p.dispatch(chat, started(turn, text))
		p.idle(chat, turn)
	}
	for _, step := range []struct {
		scope string
		files map[string][2]string // what was and what is; "" is nothing
	}{
		{"turn/turn%2F0", map[string][2]string{"x.txt": {"", "one\n"}}},
		{"turn/turn%2F1", map[string][2]string{"x.txt": {"one\n", "two\n"}, "y.txt": {"", "made\n"}}},
		{"turn/turn%2F3", map[string][2]string{"w.txt": {"", "worked\n"}}},
		{"compare/turn%2F0/turn%2F2", map[string][2]string{"x.txt": {"one\n", "three\n"}, "y.txt": {"", "made\n"}}},
		{"compare/turn%2F1/turn%2F1", map[string][2]string{}},
	} {
		uri := "demo:/s/changeset/" + step.scope
		p.subscribe(uri)
		rows := p.changed(g, uri, func(rows map[string]object) bool { return len(rows) == len(step.files) })
		for name, want := range step.files {
			for i, at := range []string{"before", "after"} {
				got := ""
				if content := side(rows[name], at); content != "" {
					got = p.text(content)
				}
				if strings.TrimSpace(got) != strings.TrimSpace(want[i]) {
					t.Errorf("%s: %s %s: %q, want %q", step.scope, name, at, got, want[i])
				}
			}
		}
		p.agree(g, uri)
	}
	// A turn that goes on is followed.
	uri := "demo:/s/changeset/turn/t9"
	p.fails(codeNotFound, "subscribe", object{"channel": uri})
	p.dispatch(chat, started("t9", "write z.txt one\nwrite .vscode/waits.txt x")) // a person is asked
	p.until(chat, "the turn", func(s object) bool { return s["activeTurn"] != nil })
	p.subscribe(uri)
	p.changed(g, uri, only("z.txt"))
	p.until("demo:/s", "the question", func(s object) bool { l, _ := s["inputNeeded"].([]any); return len(l) == 1 })
	call := p.state("demo:/s")["inputNeeded"].([]any)[0].(object)["toolCall"].(object)["toolCallId"]
	p.dispatch(chat, object{"type": "chat/toolCallConfirmed", "turnId": "t9", "toolCallId": call, "approved": true, "confirmed": "user-action"})
	p.changed(g, uri, only("z.txt", ".vscode/waits.txt"))

	for _, scope := range []string{"turn", "turn/", "turn/none", "turn/a/b", "turn/%zz", "compare/turn%2F0", "compare/turn%2F0/none", "session/t9", "uncommitted/t9"} {
		p.fails(codeNotFound, "subscribe", object{"channel": "demo:/s/changeset/" + scope})
	}
	p.fails(-32602, "subscribe", object{"channel": "demo:/s/changeset/compare/turn%2F2/turn%2F0"})
	p.fails(-32602, "invokeChangesetOperation", p.verb("demo:/s/changeset/turn/turn%2F0", "revert", at(g, "x.txt")))
}

// TestChangesetsOfOneDirectoryShareTheirReadings: what two sessions follow is
// watched once, and both see what changes.
func TestChangesetsOfOneDirectoryShareTheirReadings(t *testing.T) {
	t.Parallel()
	g, git, write := repository(t, "a", "1\n")
	p := g.connect("c")
	uris := []string{"demo:/one/changeset/uncommitted", "demo:/two/changeset/uncommitted"}
	for i, name := range []string{"demo:/one", "demo:/two"} {
		p.session(g, name)
		p.subscribe(uris[i])
		p.changed(g, uris[i], only())
	}
	g.front.repos.mu.Lock()
	n := len(g.front.repos.open)
	g.front.repos.mu.Unlock()
	if n != 1 {
		t.Errorf("%d directories are followed", n)
	}
	write("a", "2\n")
	git("add", "a")
	for _, uri := range uris {
		p.changed(g, uri, only("a"))
	}
	git("commit", "-q", "-m", "second")
	git("reset", "-q", "--soft", "HEAD~1")
	for _, uri := range uris {
		p.changed(g, uri, only("a"))
	}
	p.agree(g, uris...)
}

func TestAFailedOperationIsSeen(t *testing.T) {
	t.Parallel()
	g, _, write := repository(t, "a", "1\n")
	write("a", "2\n")
	hook := filepath.Join(g.dir, ".git/hooks/pre-commit")
	if err := os.MkdirAll(filepath.Dir(hook), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(hook, []byte("#!/bin/sh\necho never >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	p := g.connect("c")
	p.session(g, "demo:/s")
	uri := "demo:/s/changeset/uncommitted"
	p.subscribe(uri)
	p.changed(g, uri, only("a"))
	from := p.mark()
	p.fails(codeConflict, "invokeChangesetOperation", p.verb(uri, "commit", nil))
	a, from := p.action(from, uri, "changeset/operationStatusChanged")
	b, _ := p.action(from, uri, "changeset/operationStatusChanged")
	if a["status"] != "running" || b["status"] != "error" || !strings.Contains(show(b["error"]), "never") {
		t.Errorf("%v, %v", a, b)
	}
	p.agree(g, uri)
}

// TestNobodyWatchingCostsNothing: a changeset is let go with its last watcher.
func TestNobodyWatchingCostsNothing(t *testing.T) {
	t.Parallel()
	g, _, _ := repository(t, "a", "1\n")
	p := g.connect("c")
	p.session(g, "demo:/s")
	uri := "demo:/s/changeset/uncommitted"
	p.subscribe(uri)
	p.changed(g, uri, only())
	p.send(object{"jsonrpc": "2.0", "method": "unsubscribe", "params": object{"channel": uri}})
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		g.front.changesets.mu.Lock()
		n := len(g.front.changesets.open)
		g.front.changesets.mu.Unlock()
		if n == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d are still followed", n)
		}
	}
}

func TestManyChangedFilesAreReadWhole(t *testing.T) {
	t.Parallel()
	g, _, write := repository(t)
	for i := range 2000 {
		write(fmt.Sprintf("d%d/f%d", i%20, i), "1\n")
	}
	p := g.connect("c")
	p.session(g, "demo:/s")
	uri := "demo:/s/changeset/uncommitted"
	p.subscribe(uri)
	counted := func(n int) func(map[string]object) bool {
		return func(rows map[string]object) bool {
			left := n
			for _, r := range rows {
				if d, ok := r["edit"].(object)["diff"].(object); ok {
					left -= int(d["added"].(float64))
				}
			}
			return len(rows) == 2000 && left == 0
		}
	}
	p.changed(g, uri, counted(2000)) // a line each
	from := p.mark()
	p.call("resourceWrite", object{"channel": rootURI, "uri": fileURI(filepath.Join(g.dir, "d3/f3")), "data": "1\n2\n", "encoding": "utf-8"})
	p.changed(g, uri, counted(2001))
	if set, _ := p.action(from, uri, "changeset/fileSet"); !strings.HasSuffix(set["file"].(object)["id"].(string), "/d3/f3") {
		t.Errorf("%v", set)
	}
	p.agree(g, uri)
	p.fails(-32602, "invokeChangesetOperation", p.verb(uri, "discard", nil)) // it would delete everything
}

func FuzzChangesetNames(f *testing.F) {
	f.Add("demo:/s/changeset/uncommitted")
	f.Add("demo:/s/changeset/compare/a%2Fb/%zz")
	f.Add("ahp-git://0123456789012345678901234567890123456789/019ace00-0000-7000-8000-000000000000/a/%2e%2e/b")
	f.Fuzz(func(t *testing.T, uri string) {
		session, scope, ok := splitChangeset(uri)
		if ok && strings.Contains(session, changesetInfix) {
			t.Error(session)
		}
		if kind, turns, ok := splitScope(scope); ok && len(turns) != map[string]int{scopeTurn: 1, scopeCompare: 2}[kind] {
			t.Errorf("%q has the turns %q", scope, turns)
		}
		if g := parseGit(uri); g != nil {
			if again := parseGit(g.uri()); again == nil || *again != *g {
				t.Errorf("%q became %q", uri, g.uri())
			}
		}
	})
}

// BenchmarkChangeset2000 is a changeset of two thousand changed files: told is
// until a client that subscribes has all of them, moved from one written file to
// the action that says so.
func BenchmarkChangeset2000(b *testing.B) {
	g, run, write := repository(b)
	name := func(i int) string { return fmt.Sprintf("d%d/f%d", i%20, i) }
	for i := range 2000 {
		write(name(i), "1\n2\n")
	}
	run("add", "-A")
	run("commit", "-q", "-m", "all")
	for i := range 2000 {
		write(name(i), "1\n3\n")
	}
	p := g.connect("c")
	p.session(g, "demo:/s")
	uri := "demo:/s/changeset/uncommitted"
	var took, moved time.Duration
	n := 0
	for ; b.Loop(); n++ {
		began := time.Now()
		p.subscribe(uri)
		p.until(uri, "the files", func(s object) bool { return s["status"] == "ready" && len(s["files"].([]any)) == 2000 })
		took += time.Since(began)
		p.until(uri, "their lines", func(s object) bool {
			return s["status"] == "ready" && s["files"].([]any)[0].(object)["edit"].(object)["diff"] != nil
		})
		began = time.Now()
		from := p.mark()
		p.call("resourceWrite", object{"channel": rootURI, "uri": fileURI(filepath.Join(g.dir, name(n%2000))), "data": fmt.Sprint(n, "\n"), "encoding": "utf-8"})
		p.action(from, uri, "changeset/fileSet")
		moved += time.Since(began)
		p.send(object{"jsonrpc": "2.0", "method": "unsubscribe", "params": object{"channel": uri}})
		for left := false; !left; time.Sleep(time.Millisecond) {
			g.front.changesets.mu.Lock()
			left = len(g.front.changesets.open) == 0
			g.front.changesets.mu.Unlock()
		}
	}
	b.ReportMetric(float64(took.Milliseconds())/float64(n), "ms/told")
	b.ReportMetric(float64(moved.Milliseconds())/float64(n), "ms/moved")
}
