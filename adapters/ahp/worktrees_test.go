package ahp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// apart creates a session in a working tree of its own, and gives the tree.
func (p *peer) apart(g *gateway, uri string, config object) (tree, chat string) {
	p.t.Helper()
	c := object{"isolation": "worktree"}
	for k, v := range config {
		c[k] = v
	}
	p.call("createSession", object{"channel": uri, "provider": "demo", "workingDirectories": []string{fileURI(g.dir)}, "config": c, "progressToken": uri})
	s := p.subscribe(uri)["state"].(object)
	chat = s["defaultChat"].(string)
	p.subscribe(chat)
	tree, err := filePath(s["workingDirectories"].([]any)[0].(string))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { os.RemoveAll(g.dir + ".worktrees") })
	return tree, chat
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what + " did not come")
		}
	}
}

func TestASessionWorksInATreeOfItsOwn(t *testing.T) {
	t.Parallel()
	g, git, write := repository(t, "a", "1\n", ".gitignore", ".env\n")
	write(".env", "x\n")
	write("a", "not committed\n")
	p := g.connect("c")
	from := p.mark()
	tree, chat := p.apart(g, "demo:/s", object{"branch": "main", "worktreeIncludeFiles": []string{".env"}, "worktreeBranchPrefix": "me/"})
	if filepath.Dir(tree) != g.dir+".worktrees" || !exists(filepath.Join(tree, ".env")) {
		t.Errorf("the tree: %s", tree)
	}
	for i := range 3 {
		var f object
		f, from = p.wait(from, "progress", func(f object) bool { return f["method"] == "root/progress" })
		if got := f["params"].(object); got["progress"] != float64(i) || got["total"] != 2.0 || got["progressToken"] != "demo:/s" {
			t.Errorf("progress: %v", got)
		}
	}
	config := p.state("demo:/s")["config"].(object)
	if v := config["values"].(object); v["isolation"] != "worktree" || v["branch"] != "main" || config["schema"].(object)["properties"].(object)["isolation"] == nil {
		t.Errorf("the configuration: %v", config)
	}
	st := gitOf(p.until("demo:/s", "the branch", func(s object) bool { return gitOf(s)["branchName"] != nil }))
	if !strings.HasPrefix(st["branchName"].(string), "me/session-") || st["baseBranchName"] != "main" || st["uncommittedChanges"] != 0.0 {
		t.Errorf("git: %v", st)
	}
	// The settings are fixed; saying what is so changes nothing.
	p.echo(p.dispatch("demo:/s", object{"type": "session/configChanged", "config": object{"isolation": "worktree", "mode": "autopilot"}}))
	if e := p.echo(p.dispatch("demo:/s", object{"type": "session/configChanged", "config": object{"isolation": "folder"}})); e["rejectionReason"] == nil {
		t.Errorf("the isolation of a session changed: %v", e)
	}
	// The agent works there, and the folder stays as it is.
	uri := "demo:/s/changeset/uncommitted"
	p.subscribe(uri)
	p.dispatch("demo:/s", object{"type": "session/configChanged", "config": object{"mode": "autopilot"}})
	p.dispatch(chat, started("t1", "write made.txt hello"))
	p.idle(chat, "t1")
	p.until(uri, "the file", func(s object) bool { return len(s["files"].([]any)) == 1 })
	if !exists(filepath.Join(tree, "made.txt")) || exists(filepath.Join(g.dir, "made.txt")) {
		t.Error("the agent worked elsewhere")
	}
	p.agree(g, "demo:/s", uri)

	// Somebody's work keeps the tree when the session goes; without any, it goes too.
	p.call("disposeSession", object{"channel": "demo:/s"})
	if !exists(filepath.Join(tree, "made.txt")) {
		t.Error("work went with its session")
	}
	clean, _ := p.apart(g, "demo:/clean", nil)
	branch := git("-C", clean, "branch", "--show-current")
	p.call("disposeSession", object{"channel": "demo:/clean"})
	if exists(clean) || git("branch", "--list", branch) != "" {
		t.Error("a tree without work stayed")
	}
}

func TestTheTreeOfAnUnusedSessionGoesWithIt(t *testing.T) {
	t.Parallel()
	g, git, _ := repository(t, "a", "1\n")
	p := g.connect("c")
	left, _ := p.apart(g, "demo:/left", nil)
	p.hangUp()
	await(t, "the end of the connection", func() bool {
		g.front.mu.Lock()
		defer g.front.mu.Unlock()
		return g.front.clients["c"].conns == 0
	})
	g.front.sweepAt(time.Now().Add(clientGrace + time.Second))
	if exists(left) {
		t.Error("the tree of a session that its client left stayed")
	}
	// A gateway that stopped with one takes it away when it starts again.
	q := g.connect("d")
	stale, _ := q.apart(g, "demo:/stale", nil)
	q.hangUp()
	g.stop()
	if !exists(stale) {
		t.Fatal("the tree went with the gateway")
	}
	g.start()
	await(t, "the end of the tree", func() bool { return !exists(stale) })
	await(t, "the end of its branch", func() bool { return git("branch", "--list", "agents/*") == "" })
}

func TestWhatASessionsTreeCannotBe(t *testing.T) {
	t.Parallel()
	g, git, _ := repository(t, "a", "1\n")
	p := g.connect("c")
	outside := t.TempDir()
	marker := filepath.Join(t.TempDir(), "ran")
	for _, bad := range []object{
		{"isolation": "elsewhere"}, {"isolation": 1},
		{"isolation": "worktree", "branch": "none"}, {"isolation": "worktree", "branch": "--upload-pack=touch " + marker},
		{"isolation": "worktree", "branch": []string{"main"}}, {"isolation": "worktree", "worktreeBranchPrefix": "-"},
		{"isolation": "worktree", "worktreeBranchPrefix": "../"}, {"isolation": "worktree", "worktreeIncludeFiles": object{}},
		{"isolation": "worktree", "worktreeSymlinkFolders": strings.Repeat("a,", 1000)}, {"isolation": "worktree", "worktreeBranchTrack": "yes"},
	} {
		p.fails(-32602, "createSession", object{"channel": "demo:/bad", "provider": "demo", "workingDirectories": []string{fileURI(g.dir)}, "config": bad})
	}
	p.fails(codeConflict, "createSession", object{"channel": "demo:/bad", "provider": "demo", "workingDirectories": []string{fileURI(g.dir)},
		"config": object{"isolation": "worktree", "branch": "main", "worktreeCreateNewBranch": false}}) // it is checked out already
	p.fails(-32602, "createSession", object{"channel": "demo:/bad", "provider": "demo", "workingDirectories": []string{fileURI(outside)}, "config": object{"isolation": "worktree"}})
	p.call("createSession", object{"channel": "demo:/good", "provider": "demo", "workingDirectories": []string{fileURI(outside)}, "config": object{"isolation": "folder"}})
	if exists(g.dir+".worktrees") || exists(marker) || git("branch", "--list", "agents/*") != "" {
		t.Error("something was left behind")
	}
}

func TestASessionIsConfiguredByItsRepository(t *testing.T) {
	t.Parallel()
	g, git, _ := repository(t, "a", "1\n")
	for _, b := range []string{"topic/one", "topic/two", "Other"} {
		git("branch", b)
	}
	p := g.connect("c")
	in := func(dir string, more object) object {
		o := object{"channel": rootURI, "provider": "demo", "workingDirectory": fileURI(dir)}
		for k, v := range more {
			o[k] = v
		}
		return o
	}
	res := p.call("resolveSessionConfig", in(g.dir, object{"config": object{"isolation": "worktree"}}))
	props, values := res["schema"].(object)["properties"].(object), res["values"].(object)
	for _, key := range []string{"isolation", "branch", "worktreeBranchPrefix", "worktreeBranchTrack", "worktreeCreateNewBranch", "worktreeIncludeFiles", "worktreeSymlinkFolders"} {
		if props[key] == nil {
			t.Errorf("%s is not declared", key)
		}
	}
	if b := props["branch"].(object); len(b["enum"].([]any)) != 4 || b["default"] != "main" || b["enumDynamic"] != true {
		t.Errorf("branch: %v", b)
	}
	if values["isolation"] != "worktree" || values["branch"] != "main" || values["worktreeCreateNewBranch"] != true || values["worktreeBranchTrack"] != false {
		t.Errorf("values: %v", values)
	}
	if props := p.call("resolveSessionConfig", in(t.TempDir(), nil))["schema"].(object)["properties"].(object); props["isolation"] != nil {
		t.Error("isolation without a repository")
	}
	items := p.call("sessionConfigCompletions", in(g.dir, object{"property": "branch", "query": "TOPIC"}))["items"].([]any)
	if len(items) != 2 || !strings.HasPrefix(items[0].(object)["value"].(string), "topic/") {
		t.Errorf("completions: %v", items)
	}
	if items := p.call("sessionConfigCompletions", in(g.dir, object{"property": "isolation", "query": "tree"}))["items"].([]any); len(items) != 1 {
		t.Errorf("completions: %v", items)
	}
	p.fails(-32602, "sessionConfigCompletions", in(t.TempDir(), object{"property": "branch"}))
	p.fails(-32602, "resolveSessionConfig", object{"channel": rootURI, "provider": "demo", "workingDirectory": "https://example.com"})
}

func TestTheWindowHoldsTrees(t *testing.T) {
	t.Parallel()
	g, git, _ := repository(t, "a", "1\n")
	p := g.connect("c")
	p.session(g, "demo:/folder")
	p.fails(-32602, "vscode/createAgentHostDetachedWorktree", object{"session": "demo:/folder", "prompt": "x"})
	p.fails(codeSessionNotFound, "vscode/createAgentHostDetachedWorktree", object{"session": "demo:/none", "prompt": "x"})
	tree, _ := p.apart(g, "demo:/s", nil)
	res := p.call("vscode/createAgentHostDetachedWorktree", object{"session": "demo:/s", "prompt": "do it"})
	h := res["handle"].(string)
	if res["resource"] != fileURI(tree) {
		t.Errorf("%v", res)
	}
	branch := git("-C", tree, "branch", "--show-current")
	for _, method := range []string{"claimAgentHostDetachedWorktree", "setAgentHostDetachedWorktreeArchived"} {
		e := p.fails(-32602, "vscode/"+method, object{"handle": "none", "archived": true})
		if !strings.Contains(e["message"].(string), "Unknown detached worktree handle") {
			t.Errorf("%v", e)
		}
	}
	p.call("vscode/claimAgentHostDetachedWorktree", object{"handle": h})
	p.call("vscode/setAgentHostDetachedWorktreeArchived", object{"handle": h, "archived": true})
	if !exists(tree) {
		t.Error("a tree went while its session was there")
	}
	// It is the window's now: it stays when its session goes.
	p.call("disposeSession", object{"channel": "demo:/s"})
	if !exists(tree) {
		t.Error("a claimed tree went with its session")
	}
	p.call("vscode/setAgentHostDetachedWorktreeArchived", object{"handle": h, "archived": true})
	if exists(tree) || git("branch", "--list", branch) == "" {
		t.Error("it was not archived")
	}
	p.call("vscode/setAgentHostDetachedWorktreeArchived", object{"handle": h, "archived": false})
	if !exists(filepath.Join(tree, "a")) || git("-C", tree, "branch", "--show-current") != branch {
		t.Error("it was not put back")
	}
	p.call("vscode/reconcileAgentHostDetachedWorktrees", object{"scope": "x", "activeHandles": []string{}})
	if !exists(tree) {
		t.Error("a tree was forgotten at once")
	}
	if err := os.WriteFile(filepath.Join(tree, "work"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(handleMemory + time.Hour)
	for range 2 { // work stays, and without it the tree goes
		if err := g.front.worktrees.reconcile(t.Context(), nil, later); err != nil {
			t.Error(err)
		}
		if work := filepath.Join(tree, "work"); exists(work) {
			p.fails(codeConflict, "vscode/deleteAgentHostDetachedWorktree", object{"handle": h})
			os.Remove(work)
		}
	}
	if exists(tree) || git("branch", "--list", branch) == "" {
		t.Error("a forgotten tree stayed, or its branch went")
	}
	p.call("vscode/deleteAgentHostDetachedWorktree", object{"handle": h}) // gone already

	other, chat := p.apart(g, "demo:/other", nil)
	h = p.call("vscode/createAgentHostDetachedWorktree", object{"session": "demo:/other", "prompt": ""})["handle"].(string)
	p.dispatch(chat, started("t1", "hello"))
	p.idle(chat, "t1")
	p.fails(codeTurnInProgress, "vscode/deleteAgentHostDetachedWorktree", object{"handle": h})
	p.call("vscode/claimAgentHostDetachedWorktree", object{"handle": h})
	p.call("disposeSession", object{"channel": "demo:/other"})
	p.call("vscode/deleteAgentHostDetachedWorktree", object{"handle": h})
	if exists(other) || strings.TrimSpace(git("branch", "--list", "agents/*")) != branch {
		t.Error("a deleted tree stayed, or its branch")
	}
}

// A tree in which another session works, too, outlives its own session and the
// handle that a window has of it.
func TestATreeStaysForWhoeverWorksInIt(t *testing.T) {
	t.Parallel()
	g, _, _ := repository(t, "a", "1\n")
	p := g.connect("c")
	tree, chat := p.apart(g, "demo:/first", nil)
	p.dispatch(chat, started("t1", "say hello"))
	p.idle(chat, "t1")
	h := p.call("vscode/createAgentHostDetachedWorktree", object{"session": "demo:/first", "prompt": "x"})["handle"].(string)
	p.call("createSession", object{"channel": "demo:/second", "provider": "demo", "workingDirectories": []string{fileURI(g.dir), fileURI(tree)}})
	p.call("disposeSession", object{"channel": "demo:/first"})
	p.fails(codeTurnInProgress, "vscode/deleteAgentHostDetachedWorktree", object{"handle": h})
	p.fails(codeTurnInProgress, "vscode/setAgentHostDetachedWorktreeArchived", object{"handle": h, "archived": true})
	if err := g.front.worktrees.reconcile(t.Context(), nil, time.Now().Add(handleMemory+time.Hour)); err != nil {
		t.Error(err)
	}
	if !exists(filepath.Join(tree, "a")) {
		t.Fatal("the tree went under a session that works in it")
	}
	p.call("disposeSession", object{"channel": "demo:/second"})
	p.call("vscode/deleteAgentHostDetachedWorktree", object{"handle": h})
	if exists(tree) {
		t.Error("the tree stayed when nobody worked in it")
	}
}
