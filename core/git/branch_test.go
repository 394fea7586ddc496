package git

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestCheckout(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.commit("a", "1\n")
	r.git("branch", "topic")
	r.git("tag", "v1")
	head := strings.TrimSpace(r.git("rev-parse", "HEAD"))
	on := func(want string) {
		t.Helper()
		if got := strings.TrimSpace(r.git("branch", "--show-current")); got != want {
			t.Errorf("on %q, want %q", got, want)
		}
	}
	r.do(r.tree.Checkout(ctx(t), "topic", "", ""))
	on("topic")
	r.do(r.tree.Checkout(ctx(t), "v1", "", ""))
	on("")
	r.do(r.tree.Checkout(ctx(t), "main", "", ""))
	r.do(r.tree.Checkout(ctx(t), head, "", ""))
	r.do(r.tree.Checkout(ctx(t), "main", "", ""))
	r.write("new", "x\n")
	r.fails(r.tree.Checkout(ctx(t), "topic", "", ""), ErrDirty)
	r.fails(r.tree.Checkout(ctx(t), "topic", "hide", ""), ErrInvalid)
	// What was stashed comes back when it fails: a file may be named as a branch.
	r.write("none", "x\n")
	r.fails(r.tree.Checkout(ctx(t), "none", StashFirst, ""), ErrRefused)
	on("main")
	if !r.exists("new") || !r.exists("none") || r.git("stash", "list") != "" {
		t.Error("what was stashed did not come back")
	}
	r.do(r.tree.Checkout(ctx(t), "topic", StashFirst, ""))
	on("topic")
	if r.exists("new") {
		t.Error("it was not stashed")
	}
	r.write("new", "y\n")
	r.do(r.tree.Checkout(ctx(t), "main", CommitFirst, "kept"))
	if got := strings.TrimSpace(r.git("show", "topic:new")); got != "y" {
		t.Errorf("committed: %q", got)
	}
	r.commit("sub/x", "1\n")
	r.fails(r.open("sub").Checkout(ctx(t), "topic", "", ""), ErrInvalid)
}

func TestABranchIsMadeAndPushed(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.commit("a", "1\n")
	bare := filepath.Join(t.TempDir(), "bare.git")
	if out, err := exec.Command("git", "init", "-q", "--bare", bare).CombinedOutput(); err != nil {
		t.Fatal(string(out))
	}
	r.git("remote", "add", "origin", bare)
	r.do(r.tree.Push(ctx(t), "origin", "main"))
	r.do(r.tree.Branch(ctx(t), "agents/x-1"))
	r.fails(r.tree.Branch(ctx(t), "agents/x-1"), ErrRefused)
	r.commit("b", "1\n")
	r.write("c", "1\n")
	if got, err := r.tree.Subjects(ctx(t), "origin", "main", 10); err != nil || !slices.Equal(got, []string{"a commit"}) {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := r.tree.Subjects(ctx(t), "origin", "unknown", 10); err != nil || got != nil {
		t.Errorf("%q, %v", got, err)
	}
	r.do(r.tree.Push(ctx(t), "origin", "agents/x-1"))
	s, err := r.tree.Status(ctx(t), false)
	r.do(err)
	if b := s.Branch; b.Name != "agents/x-1" || b.Upstream != "origin/agents/x-1" || !b.Tracked || b.Ahead != 0 {
		t.Errorf("%+v", b)
	}
	if got, err := r.tree.Branches(ctx(t), "", 10); err != nil || len(got) != 2 {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := r.tree.Branches(ctx(t), "AIN", 10); err != nil || !slices.Equal(got, []string{"main"}) {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := r.tree.DefaultBranch(ctx(t), "origin"); err != nil || got != "main" {
		t.Errorf("%q, %v", got, err)
	}
	r.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/agents/x-1")
	if got, err := r.tree.DefaultBranch(ctx(t), "origin"); err != nil || got != "agents/x-1" {
		t.Errorf("%q, %v", got, err)
	}
	r.git("config", "remote.more.url", "ext::sh -c touch% evil")
	r.git("config", "--add", "remote.more.url", "second")
	if got, err := r.tree.Remotes(ctx(t)); err != nil || !slices.Equal(got, []Remote{{"origin", bare}, {"more", "ext::sh -c touch% evil"}}) {
		t.Errorf("%q, %v", got, err)
	}
	r.fails(r.tree.Push(ctx(t), "more", "main"), ErrRefused)
	if r.exists("evil") {
		t.Error("a remote ran a program")
	}
}

func TestNoNameIsAnOptionOrAnExpression(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.commit("a", "1\n")
	for _, name := range []string{"", "-b", "--force", "a b", "a\tb", "a\nb", "a..b", "@", "HEAD", "x@{1}", "x~", "x^", "x:y", "x?", "x*", "x[", "x\\y", "/x", "x/", "x//y", ".x", "a/.x",
		"x.lock", "x.lock/y", "x.", "\x00", "x\x7f", "caf\xe9", strings.Repeat("x", MaxRef+1)} {
		r.fails(r.tree.Checkout(ctx(t), name, StashFirst, ""), ErrInvalid)
		r.fails(r.tree.Branch(ctx(t), name), ErrInvalid)
		r.fails(r.tree.Push(ctx(t), name, "main"), ErrInvalid)
		r.fails(r.tree.Push(ctx(t), "origin", name), ErrInvalid)
		if _, err := r.tree.HasBranch(ctx(t), name); err == nil {
			t.Errorf("%q was looked for", name)
		}
	}
	for _, name := range []string{"a", "b/c", "ü", "v1.2", "a-b", "user@host", "a{b}"} {
		r.do(r.tree.Branch(ctx(t), name))
	}
}

// FuzzNames: what is taken for a name is one for git, too.
func FuzzNames(f *testing.F) {
	for _, s := range []string{"a", "-x", "a/b.lock", "a..b", "é"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if checkName(name) != nil || len(name) > 100 {
			return
		}
		if strings.HasPrefix(name, "-") {
			t.Fatal(name)
		}
		if out, err := exec.Command("git", "check-ref-format", "refs/heads/"+name).CombinedOutput(); err != nil {
			t.Errorf("%q: %s", name, out)
		}
	})
}

func TestWhatGitSaysHasNoSecrets(t *testing.T) {
	t.Parallel()
	got := wording([]byte("fatal: unable to access 'https://me:secret@example.com/r.git/': no\n"))
	if got != "unable to access 'https://example.com/r.git/': no" {
		t.Error(got)
	}
}
