package ahp

import (
	"path/filepath"
	"testing"
)

// gitOf is what a state or a row says of the working tree.
func gitOf(o object) object {
	meta, _ := o["_meta"].(object)
	g, _ := meta["git"].(object)
	return g
}

func TestASessionSaysHowItsWorkingTreeStands(t *testing.T) {
	t.Parallel()
	g, git, write := repository(t, "a", "1\n")
	p := g.connect("c")
	chat := p.session(g, "demo:/s")
	stands := func(what string, ok func(object) bool) object {
		t.Helper()
		return gitOf(p.until("demo:/s", what, func(s object) bool { return ok(gitOf(s)) }))
	}
	first := stands("the branch", func(g object) bool { return g["branchName"] == "main" })
	if len(first) != 3 || first["uncommittedChanges"] != 0.0 || first["hasGitHubRemote"] != false {
		t.Errorf("at first: %v", first)
	}
	if meta := p.state("demo:/s")["_meta"].(object); meta["ahpd.model"] != "demo-small" || meta[ownerKey] != nil || meta["github"] != nil {
		t.Errorf("_meta: %v", meta)
	}
	write("a", "2\n")
	write("b", "2\n")
	git("add", "a")
	stands("two changes", func(g object) bool { return g["uncommittedChanges"] == 2.0 })
	git("commit", "-q", "-a", "-m", "second")
	git("switch", "-q", "-c", "topic")
	stands("another branch", func(g object) bool { return g["branchName"] == "topic" && g["uncommittedChanges"] == 1.0 })

	// A remote, and a branch that follows one of it.
	git("remote", "add", "mirror", "https://example.com/o/r.git")
	git("remote", "add", "fork", "git@github.com:me/r.git")
	git("remote", "add", "origin", "https://github.com/org/r.git")
	git("update-ref", "refs/remotes/origin/topic", "main~1")
	git("branch", "-q", "--set-upstream-to=origin/topic")
	git("commit", "-q", "--allow-empty", "-m", "third")
	st := stands("the branch that is followed", func(g object) bool {
		return g["upstreamBranchName"] == "origin/topic" && g["outgoingChanges"] == 2.0
	})
	if st["incomingChanges"] != 0.0 || st["hasGitHubRemote"] != true || st["githubOwner"] != "org" || st["githubRepo"] != "r" {
		t.Errorf("with a remote: %v", st)
	}
	meta := p.state("demo:/s")["_meta"].(object)
	dir := fileURI(g.dir)
	if gh := meta["github"].(object); gh["owner"] != "org" || gh["repo"] != "r" || meta["workingDirectoryKeys"].(object)[dir] != dir || show(meta["githubData"].(object)[dir]) != show(gh) {
		t.Errorf("github: %v", meta)
	}
	git("checkout", "-q", "--detach")
	stands("no branch", func(g object) bool { return g["isDetachedHead"] == true && g["branchName"] == nil })

	// Whoever comes later is told at once, and the list says it too.
	p.dispatch(chat, started("t1", "hello"))
	p.idle(chat, "t1")
	later := g.connect("later")
	if st := gitOf(later.subscribe("demo:/s")["state"].(object)); st["isDetachedHead"] != true {
		t.Errorf("a later client: %v", st)
	}
	row := later.call("listSessions", object{"channel": rootURI})["items"].([]any)[0].(object)
	if st := gitOf(row); st["isDetachedHead"] != true || st["githubRepo"] != "r" {
		t.Errorf("the row: %v", row)
	}
	git("switch", "-q", "main")
	p.wait(0, "the row with the branch", func(object) bool {
		for _, r := range p.rows {
			return gitOf(r)["branchName"] == "main"
		}
		return false
	})
}

func TestASessionOutsideOfAWorkingTreeSaysNothingOfGit(t *testing.T) {
	t.Parallel()
	g, git, _ := repository(t, "a", "1\n")
	p := g.connect("c")
	outside := t.TempDir()
	p.call("createSession", object{"channel": "demo:/s", "provider": "demo", "workingDirectories": []string{fileURI(outside)}})
	p.subscribe("demo:/s")
	if meta := p.state("demo:/s")["_meta"].(object); meta["git"] != nil {
		t.Errorf("_meta: %v", meta)
	}
	// It moves into one.
	p.echo(p.dispatch("demo:/s", object{"type": "session/workingDirectoryReplaced", "directory": fileURI(outside), "replacement": fileURI(g.dir)}))
	p.until("demo:/s", "the branch", func(s object) bool { return gitOf(s)["branchName"] == "main" })
	if list := p.state("demo:/s")["changesets"].([]any); len(list) != 4 {
		t.Errorf("the catalogue: %v", list)
	}
	git("switch", "-q", "-c", "other")
	p.until("demo:/s", "the other branch", func(s object) bool { return gitOf(s)["branchName"] == "other" })
	p.echo(p.dispatch("demo:/s", object{"type": "session/workingDirectoryReplaced", "directory": fileURI(g.dir), "replacement": fileURI(filepath.Dir(outside))}))
	p.until("demo:/s", "nothing of git", func(s object) bool { return gitOf(s) == nil && len(s["changesets"].([]any)) == 3 })
}

// Clients read in _meta which model a session is on: the picked one, whoever picked.
func TestASessionSaysWhichModelItIsOn(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := g.connect("c")
	const uri = "demo:/on"
	chat := p.session(g, uri)
	on := func(model string) {
		t.Helper()
		p.until(uri, model, func(s object) bool { return s["_meta"].(object)["ahpd.model"] == model })
	}
	on("demo-small")
	p.dispatch(chat, started("t1", "say x"))
	on("demo-large")
	p.idle(chat, "t1")
	none := started("t2", "say y")
	delete(none["message"].(object), "model")
	p.dispatch(chat, none)
	on("demo-small")
	p.idle(chat, "t2")
	p.dispatch(uri, object{"type": "session/configChanged", "config": object{"model": "demo-large"}})
	on("demo-large")
	p.agree(g, uri, chat)
	p.wait(0, "the row", func(object) bool { return len(p.rows) > 0 })
	for _, row := range g.connect("later").call("listSessions", object{"channel": rootURI})["items"].([]any) {
		if got := row.(object)["project"]; show(got) != show(object{"uri": fileURI(g.dir), "displayName": filepath.Base(g.dir)}) {
			t.Errorf("the project: %s", show(got))
		}
		if row.(object)["_meta"] != nil {
			t.Errorf("the row has nothing to say there: %s", show(row))
		}
	}
}
