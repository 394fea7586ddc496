package git

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func (r *repo) add(n NewTree) *Added {
	r.t.Helper()
	a, err := r.tree.Add(ctx(r.t), n)
	r.do(err)
	return a
}

func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestAWorkingTreeIsAddedAndTakenAway(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.commit("a", "1\n")
	a := r.add(NewTree{Name: "one", Branch: "agents/one", From: "main", Fresh: true})
	if a.Path != r.dir+".worktrees/one" || a.Repository != r.dir || !there(filepath.Join(a.Path, "a")) {
		t.Fatalf("%+v", a)
	}
	t.Cleanup(func() { os.RemoveAll(r.dir + ".worktrees") })
	one, err := New().Open(ctx(t), a.Path)
	r.do(err)
	// One of a tree is beside the repository, too.
	b, err := one.Add(ctx(t), NewTree{Name: "two", Branch: "agents/two", From: "agents/one", Fresh: true, Track: true})
	r.do(err)
	if b.Repository != r.dir || filepath.Dir(b.Path) != filepath.Dir(a.Path) {
		t.Errorf("%+v", b)
	}
	s, err := one.Status(ctx(t), false)
	if err != nil || s.Branch.Name != "agents/one" || s.Branch.Upstream != "" {
		t.Errorf("%+v, %v", s, err)
	}
	// Work stays.
	r.do(os.WriteFile(filepath.Join(a.Path, "new"), []byte("x"), 0o644))
	if kept, err := r.tree.git.Drop(ctx(t), a, AnyBranch); err != nil || !kept || !there(a.Path) {
		t.Errorf("kept: %v, %v", kept, err)
	}
	r.do(one.Commit(ctx(t), "", "work"))
	if kept, err := r.tree.git.Drop(ctx(t), a, UnusedBranch); err != nil || kept || there(a.Path) {
		t.Errorf("kept: %v, %v", kept, err)
	}
	if got := r.git("branch", "--list", "agents/one"); got == "" {
		t.Error("a branch with commits went")
	}
	r.do(r.tree.git.Restore(ctx(t), a))
	if !there(filepath.Join(a.Path, "new")) {
		t.Error("it did not come back")
	}
	for i, x := range []*Added{a, b} {
		goes := []Branches{AnyBranch, UnusedBranch}[i]
		if kept, err := r.tree.git.Drop(ctx(t), x, goes); err != nil || kept || there(x.Path) {
			t.Errorf("kept: %v, %v", kept, err)
		}
		if kept, err := r.tree.git.Drop(ctx(t), x, goes); err != nil || kept { // again
			t.Errorf("kept: %v, %v", kept, err)
		}
	}
	if got := strings.TrimSpace(r.git("branch", "--list")); got != "* main" || there(r.dir+".worktrees") {
		t.Errorf("left: %q", got)
	}
	// A root for all, and a branch that is there.
	r.git("branch", "topic")
	root := t.TempDir()
	c := r.add(NewTree{Root: root, Name: "three", Branch: "topic"})
	if c.Path != filepath.Join(root, filepath.Base(r.dir), "three") {
		t.Errorf("%+v", c)
	}
	if kept, err := r.tree.git.Drop(ctx(t), c, AnyBranch); err != nil || kept || r.git("branch", "--list", "topic") == "" {
		t.Errorf("a branch that was there before: %v, %v", kept, err)
	}
}

func TestIgnoredFilesAreBroughtIntoANewTree(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	t.Cleanup(func() { os.RemoveAll(r.dir + ".worktrees") })
	r.commit("a", "1\n", ".gitignore", ".env*\n*.env\nnode_modules/\nsecret\n")
	r.write(".env", "x\n")
	r.write("sub/.env.local", "y\n")
	r.write("untracked", "z\n")
	r.write("secret", "s\n")
	r.write(".env:(top)", "o\n")
	r.write(":(bad).env", "o\n")
	r.write("node_modules/m/index.js", "m\n")
	r.do(os.Symlink("/etc/passwd", filepath.Join(r.dir, ".env.link")))
	a := r.add(NewTree{Name: "one", Branch: "one", From: "main", Fresh: true,
		Include: []string{".env*", "untracked", "a", "none", "--help"}, Link: []string{"node_modules", "sub", "none/"}})
	for path, want := range map[string]bool{".env": true, "sub/.env.local": true, "untracked": false, "secret": false, ".env.link": false, "node_modules/m/index.js": true} {
		if there(filepath.Join(a.Path, path)) != want {
			t.Errorf("%s: %v, want %v", path, !want, want)
		}
	}
	if to, err := os.Readlink(filepath.Join(a.Path, "node_modules")); err != nil || to != filepath.Join(r.dir, "node_modules") || len(a.Links) != 1 {
		t.Errorf("the link: %q %v %v", to, err, a.Links)
	}
	if kept, err := r.tree.git.Drop(ctx(t), a, AnyBranch); err != nil || kept || !r.exists("node_modules/m/index.js") {
		t.Errorf("kept: %v, %v", kept, err)
	}
}

// What was begun is taken away again, and the repository can be written to after that.
func TestATreeThatCannotBeMadeLeavesNothing(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.commit("a", "1\n")
	began := filepath.Join(t.TempDir(), "began")
	for what, hook := range map[string]string{
		"a hook refuses it":            "exit 1",
		"it is gone before it is used": `rm -rf "$PWD"`,
		"somebody gives up":            "touch '" + began + "'; sleep 600",
	} {
		r.do(os.WriteFile(filepath.Join(r.dir, ".git", "hooks", "post-checkout"), []byte("#!/bin/sh\n"+hook+"\n"), 0o755))
		c, cancel := context.WithCancel(ctx(t))
		given := make(chan struct{})
		go func() {
			defer close(given)
			for c.Err() == nil && !there(began) {
				time.Sleep(time.Millisecond)
			}
			cancel()
		}()
		if a, err := r.tree.Add(c, NewTree{Name: "one", Branch: "agents/one", From: "main", Fresh: true, Link: []string{"x"}}); err == nil {
			t.Errorf("%s: %+v", what, a)
		}
		cancel()
		<-given
		if there(r.dir + ".worktrees") {
			t.Errorf("%s: a directory is left", what)
		}
		if got := r.git("branch", "--list", "agents/one"); got != "" {
			t.Errorf("%s: a branch is left", what)
		}
		r.do(os.RemoveAll(began))
	}
	// What was there before stays.
	r.do(os.Remove(filepath.Join(r.dir, ".git", "hooks", "post-checkout")))
	r.git("branch", "agents/one")
	if _, err := r.tree.Add(ctx(t), NewTree{Name: "one", Branch: "agents/one", From: "main", Fresh: true}); !errors.Is(err, ErrRefused) {
		t.Errorf("a branch that is there: %v", err)
	}
	if got := r.git("branch", "--list", "agents/one"); got == "" {
		t.Error("somebody's branch went")
	}
}

func TestWhatANewTreeCannotBe(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.commit("a", "1\n")
	good := NewTree{Name: "x", Branch: "x", From: "main", Fresh: true}
	for what, change := range map[string]func(*NewTree){
		"path":    func(n *NewTree) { n.Name = "../x" },
		"hidden":  func(n *NewTree) { n.Name = ".git" },
		"empty":   func(n *NewTree) { n.Name = "" },
		"option":  func(n *NewTree) { n.Branch = "--force" },
		"from":    func(n *NewTree) { n.From = "--orphan" },
		"none":    func(n *NewTree) { n.From = "none" },
		"pattern": func(n *NewTree) { n.Include = []string{"a\nb"} },
		"long":    func(n *NewTree) { n.Link = []string{strings.Repeat("x", maxPattern+1)} },
	} {
		n := good
		change(&n)
		if _, err := r.tree.Add(ctx(t), n); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	n := good
	n.Branch, n.Fresh = "main", false // it is checked out here
	_, err := r.tree.Add(ctx(t), n)
	r.fails(err, ErrRefused)
	if there(r.dir + ".worktrees") {
		t.Error("a directory was left behind")
	}
	r.do(os.Symlink(t.TempDir(), r.dir+".worktrees"))
	_, err = r.tree.Add(ctx(t), good)
	r.fails(err, ErrRefused)
	r.do(os.Remove(r.dir + ".worktrees"))
	// What is no added tree is not taken away.
	_, err = r.tree.git.Drop(ctx(t), &Added{Repository: r.dir, Path: r.dir, Branch: "main", Fresh: true}, AnyBranch)
	r.fails(err, ErrInvalid)
	other := newRepo(t)
	_, err = r.tree.git.Drop(ctx(t), &Added{Repository: r.dir, Path: other.dir}, AnyBranch)
	r.fails(err, ErrInvalid)
	if !r.exists("a") {
		t.Error("a repository went")
	}
}
