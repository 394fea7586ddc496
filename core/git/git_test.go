package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// repo is a repository in a directory of the test.
type repo struct {
	t    testing.TB
	dir  string
	tree *Tree
}

func newRepo(t testing.TB) *repo {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &repo{t: t, dir: dir}
	r.git("init", "-q", "-b", "main")
	r.git("config", "user.name", "A Person")
	r.git("config", "user.email", "person@example.com")
	r.tree = r.open("")
	return r
}

func (r *repo) open(sub string) *Tree {
	r.t.Helper()
	tree, err := New().Open(ctx(r.t), filepath.Join(r.dir, sub))
	if err != nil {
		r.t.Fatal(err)
	}
	return tree
}

func ctx(t testing.TB) context.Context {
	c, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return c
}

func (r *repo) git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = r.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return string(out)
}

func (r *repo) write(path, content string) {
	r.t.Helper()
	full := filepath.Join(r.dir, path)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

func (r *repo) commit(files ...string) {
	r.t.Helper()
	for i := 0; i < len(files); i += 2 {
		r.write(files[i], files[i+1])
	}
	r.git("add", "-A")
	r.git("commit", "-q", "-m", "a commit")
}

func (r *repo) remove(path string) {
	r.t.Helper()
	if err := os.Remove(filepath.Join(r.dir, path)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *repo) exists(path string) bool {
	_, err := os.Lstat(filepath.Join(r.dir, path))
	return err == nil
}

func (r *repo) status() map[string]File {
	r.t.Helper()
	return files(r.t, r.tree)
}

func files(t testing.TB, tree *Tree) map[string]File {
	t.Helper()
	s, err := tree.Status(ctx(t), true)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]File{}
	for _, f := range s.Files {
		path := f.Path
		f.Path, f.Stamp, f.head = "", "", ""
		out[path] = f
	}
	return out
}

func (r *repo) want(want map[string]File) {
	r.t.Helper()
	got := r.status()
	for path, f := range want {
		if got[path] != f {
			r.t.Errorf("%q: %+v, want %+v", path, got[path], f)
		}
	}
	for path, f := range got {
		if _, ok := want[path]; !ok {
			r.t.Errorf("%q is not wanted: %+v", path, f)
		}
	}
}

func (r *repo) do(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *repo) fails(err, want error) {
	r.t.Helper()
	if !errors.Is(err, want) {
		r.t.Fatalf("%v, want %v", err, want)
	}
}

func TestStatusTellsEveryKindOfChange(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.commit("same", "1\n", "edited", "1\n2\n", "staged", "1\n", "twice", "1\n", "deleted", "1\n", "removed", "1\n", "old name", "1\n2\n3\n4\n", "untracked again", "1\n",
		"link", "1\n")
	r.write("edited", "1\n3\n4\n")
	r.write("staged", "2\n")
	r.write("twice", "2\n")
	r.git("add", "staged", "twice")
	r.write("twice", "3\n")
	r.remove("deleted")
	r.git("rm", "-q", "removed")
	r.git("mv", "old name", "new name")
	r.git("rm", "-q", "--cached", "untracked again")
	r.write("new", "1\n2")
	r.write("data", "\x00\x01\n")
	r.remove("link")
	r.do(os.Symlink("/etc/passwd", filepath.Join(r.dir, "link")))
	r.write(".gitignore", "ignored\n")
	r.write("ignored", "x")
	r.want(map[string]File{
		"edited":          {Unstaged: true, Tracked: true, InHead: true, Added: 2, Removed: 1},
		"staged":          {Staged: true, Tracked: true, InHead: true, Added: 1, Removed: 1},
		"twice":           {Staged: true, Unstaged: true, Tracked: true, InHead: true, Added: 1, Removed: 1},
		"deleted":         {Unstaged: true, Tracked: true, InHead: true, Gone: true, Removed: 1},
		"removed":         {Staged: true, Tracked: true, InHead: true, Gone: true, Removed: 1},
		"new name":        {Staged: true, Tracked: true, From: "old name"},
		"untracked again": {Staged: true, Unstaged: true, Tracked: true, InHead: true, Removed: 1},
		"new":             {Unstaged: true, Added: 2},
		"data":            {Unstaged: true},
		"link":            {Unstaged: true, Tracked: true, InHead: true, Added: 1, Removed: 1},
		".gitignore":      {Unstaged: true, Added: 1},
	})
}

func TestPathsAreBytesAndNeverPatterns(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	names := []string{"-rf", ":(top)x", "*", "a b", "line\nbreak", "caf\xe9", "\"quoted\"", "tab\there", "ü"}
	args := []string{}
	for _, n := range names {
		args = append(args, n, "1\n")
	}
	r.commit(args...)
	for _, n := range names {
		r.write(n, "2\n")
	}
	for _, n := range names {
		f := r.status()[n]
		if !f.Unstaged || f.Added != 1 || f.Removed != 1 {
			t.Errorf("%q: %+v", n, f)
		}
		r.do(r.tree.Stage(ctx(t), n))
		if !r.status()[n].Staged {
			t.Errorf("%q was not staged", n)
		}
		was, err := r.tree.Show(ctx(t), strings.TrimSpace(r.git("rev-parse", "HEAD")), n)
		if err != nil || string(was) != "1\n" {
			t.Errorf("%q was %q, %v", n, was, err)
		}
	}
	r.do(r.tree.Unstage(ctx(t), "*"))
	if got := r.status(); got["*"].Staged || !got["a b"].Staged {
		t.Error("a pattern was taken for one")
	}
	r.do(r.tree.Discard(ctx(t), "-rf"))
	r.do(r.tree.Commit(ctx(t), "line\nbreak", "-m is no option"))
	if got := r.status(); len(got) != len(names)-2 {
		t.Errorf("%d changes are left", len(got))
	}
}

func TestADirectoryIsAllThatIsLookedAt(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.commit("sub/a", "1\n", "sub2/b", "1\n")
	r.write("sub/a", "2\n")
	r.write("sub2/b", "2\n")
	sub := r.open("sub")
	if got := files(t, sub); len(got) != 1 || !got["sub/a"].Unstaged {
		t.Errorf("%+v", got)
	}
	r.fails(sub.Stage(ctx(t), "sub2/b"), ErrInvalid)
	r.fails(sub.Discard(ctx(t), ""), ErrInvalid)
	r.fails(sub.Stage(ctx(t), "sub/none"), ErrNothing)
	r.git("add", "sub2/b")
	r.fails(sub.Commit(ctx(t), "sub", "x"), ErrInvalid)
	r.do(sub.Commit(ctx(t), "sub/a", "only that"))
	if got := r.status(); len(got) != 1 || !got["sub2/b"].Staged {
		t.Errorf("%+v", got)
	}
}

func TestWhatIsNoWorkingTreeIsSaidToBeNone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bare := t.TempDir()
	if out, err := exec.Command("git", "init", "-q", "--bare", bare).CombinedOutput(); err != nil {
		t.Fatal(string(out))
	}
	r := newRepo(t)
	for _, d := range []string{dir, bare, filepath.Join(dir, "none"), filepath.Join(r.dir, ".git"), "relative"} {
		if _, err := New().Open(ctx(t), d); !errors.Is(err, ErrNoRepository) {
			t.Errorf("%s: %v", d, err)
		}
	}
}

func TestARepositoryWithoutCommits(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.write("a", "1\n")
	r.write("b", "1\n")
	r.do(r.tree.Stage(ctx(t), "a"))
	r.want(map[string]File{"a": {Staged: true, Tracked: true, Added: 1}, "b": {Unstaged: true, Added: 1}})
	r.fails(r.tree.Discard(ctx(t), ""), ErrNoCommit)
	r.do(r.tree.Unstage(ctx(t), ""))
	r.want(map[string]File{"a": {Unstaged: true, Added: 1}, "b": {Unstaged: true, Added: 1}})
	r.do(r.tree.Commit(ctx(t), "b", "the first"))
	r.want(map[string]File{"a": {Unstaged: true, Added: 1}})
	r.do(r.tree.Commit(ctx(t), "", "the rest"))
	r.want(map[string]File{})
	if n := strings.TrimSpace(r.git("rev-list", "--count", "HEAD")); n != "2" {
		t.Errorf("%s commits", n)
	}
}

func TestDiscardPutsFilesBackToTheLastCommit(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.commit("edited", "1\n", "deleted", "1\n", "staged", "1\n", "old", "1\n2\n3\n", "dir/x", "1\n")
	r.write("edited", "2\n")
	r.remove("deleted")
	r.write("staged", "2\n")
	r.git("add", "staged")
	r.git("mv", "old", "moved")
	r.write("new", "x")
	r.write("added", "x")
	r.git("add", "added")
	r.write("dir/x", "2\n")
	r.write("dir/y", "2\n")
	r.do(r.tree.Discard(ctx(t), "moved"))
	if !r.exists("old") || r.exists("moved") {
		t.Error("a rename was not taken back")
	}
	r.do(r.tree.Discard(ctx(t), "added"))
	r.do(r.tree.Discard(ctx(t), "dir"))
	if r.exists("added") || r.exists("dir/y") || !r.exists("new") {
		t.Error("not just what was named went")
	}
	r.do(r.tree.Discard(ctx(t), ""))
	r.want(map[string]File{})
	if r.exists("new") || r.git("show", "HEAD:edited") != "1\n" {
		t.Error("not everything was put back")
	}
}

func TestDiscardDoesNotFollowLinks(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.commit("a", "1\n")
	outside := filepath.Join(t.TempDir(), "kept")
	r.do(os.WriteFile(outside, []byte("x"), 0o644))
	r.do(os.Symlink(outside, filepath.Join(r.dir, "file")))
	r.do(os.Symlink(filepath.Dir(outside), filepath.Join(r.dir, "dir")))
	r.do(r.tree.Discard(ctx(t), ""))
	if _, err := os.Stat(outside); err != nil {
		t.Error(err)
	}
	r.want(map[string]File{})
}

func TestCommitTakesAFileOrTheIndexOrEverything(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.commit("a", "1\n", "b", "1\n", "c", "1\n", "old", "1\n2\n3\n", "gone", "1\n")
	for _, f := range []string{"a", "b", "c"} {
		r.write(f, "2\n")
	}
	r.git("add", "b")
	r.write("new", "1\n")
	r.git("mv", "old", "moved")
	r.git("rm", "-q", "gone")

	last := func() []string {
		return strings.Fields(r.git("show", "--name-status", "--format=", "-M", "HEAD"))
	}
	r.do(r.tree.Commit(ctx(t), "new", "one new file"))
	if got := last(); !slices.Equal(got, []string{"A", "new"}) {
		t.Errorf("a new file: %q", got)
	}
	r.do(r.tree.Commit(ctx(t), "moved", "one rename"))
	if got := last(); !slices.Equal(got, []string{"R100", "old", "moved"}) {
		t.Errorf("a rename: %q", got)
	}
	r.do(r.tree.Commit(ctx(t), "gone", "one deletion"))
	if got := last(); !slices.Equal(got, []string{"D", "gone"}) {
		t.Errorf("a deletion: %q", got)
	}
	r.do(r.tree.Commit(ctx(t), "", "the index\n\n# no comment"))
	if got := last(); !slices.Equal(got, []string{"M", "b"}) {
		t.Errorf("the index: %q", got)
	}
	if got := strings.TrimSpace(r.git("log", "-1", "--format=%B")); got != "the index\n\n# no comment" {
		t.Errorf("the message: %q", got)
	}
	r.do(r.tree.Commit(ctx(t), "", "all"))
	if got := last(); !slices.Equal(got, []string{"M", "a", "M", "c"}) {
		t.Errorf("all: %q", got)
	}
	r.fails(r.tree.Commit(ctx(t), "", "nothing"), ErrNothing)
	r.write("a", "3\n")
	r.fails(r.tree.Commit(ctx(t), "", " \n"), ErrInvalid)
}

func TestAHookThatRefusesLeavesTheIndexAsItWas(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.commit("a", "1\n")
	hook := filepath.Join(r.dir, ".git/hooks/pre-commit")
	r.do(os.MkdirAll(filepath.Dir(hook), 0o755))
	r.do(os.WriteFile(hook, []byte("#!/bin/sh\necho not on my watch >&2\nexit 1\n"), 0o755))
	r.write("a", "2\n")
	r.write("new", "1\n")
	for _, path := range []string{"", "new"} {
		err := r.tree.Commit(ctx(t), path, "x")
		r.fails(err, ErrRefused)
		if !strings.Contains(err.Error(), "not on my watch") {
			t.Errorf("the hook is not heard: %v", err)
		}
		r.want(map[string]File{"a": {Unstaged: true, Tracked: true, InHead: true, Added: 1, Removed: 1}, "new": {Unstaged: true, Added: 1}})
	}
}

func TestConflictsAreSeenAndCanBeDiscarded(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.commit("a", "1\n")
	r.git("checkout", "-q", "-b", "other")
	r.commit("a", "2\n")
	r.git("checkout", "-q", "main")
	r.commit("a", "3\n")
	if err := exec.Command("git", "-C", r.dir, "merge", "-q", "other").Run(); err == nil {
		t.Fatal("no conflict")
	}
	if f := r.status()["a"]; !f.Conflict || !f.InHead || f.Gone {
		t.Errorf("%+v", f)
	}
	r.fails(r.tree.Commit(ctx(t), "", "x"), ErrInvalid)
	r.do(r.tree.Discard(ctx(t), "a"))
	r.want(map[string]File{})
}

func TestSubmodulesAreToldApart(t *testing.T) {
	t.Parallel()
	inner, r := newRepo(t), newRepo(t)
	inner.commit("x", "1\n")
	r.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", inner.dir, "mod")
	r.git("commit", "-q", "-m", "module")
	r.write("mod/x", "2\n")
	if f := r.status()["mod"]; !f.Submodule || !f.Unstaged {
		t.Errorf("%+v", f)
	}
	r.fails(r.tree.Discard(ctx(t), "mod"), ErrInvalid)
}

func TestBranches(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.commit("a", "1\n")
	r.git("checkout", "-q", "-b", "topic", "--track", "main")
	r.commit("a", "2\n")
	s, err := r.tree.Status(ctx(t), false)
	r.do(err)
	b := s.Branch
	if b.Name != "topic" || b.Upstream != "main" || b.Ahead != 1 || b.Behind != 0 || !IsCommit(b.Commit) {
		t.Errorf("%+v", b)
	}
	r.git("checkout", "-q", "--detach")
	s, err = r.tree.Status(ctx(t), false)
	r.do(err)
	if s.Branch.Name != "" || s.Branch.Upstream != "" {
		t.Errorf("%+v", s.Branch)
	}
}

func TestShowIsBoundedToTheCommit(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.commit("a", "1\n", "dir/b", "2\n")
	head := strings.TrimSpace(r.git("rev-parse", "HEAD"))
	for _, c := range []struct{ commit, path string }{{head, "none"}, {head, "dir"}, {head, "../a"}, {head, "./a"}, {head, ""}, {"HEAD", "a"}, {"--help", "a"}} {
		if out, err := r.tree.Show(ctx(t), c.commit, c.path); !errors.Is(err, ErrNotFound) {
			t.Errorf("%v: %q, %v", c, out, err)
		}
	}
}

// TestAMonitorOfTheRepositoryIsNotRun: looking runs no program that the
// repository's own configuration names.
func TestAMonitorOfTheRepositoryIsNotRun(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.commit("a", "1\n")
	mark := filepath.Join(t.TempDir(), "ran")
	script := filepath.Join(t.TempDir(), "monitor")
	r.do(os.WriteFile(script, []byte("#!/bin/sh\ntouch '"+mark+"'\n"), 0o755))
	r.git("config", "core.fsmonitor", script)
	r.git("config", "diff.external", script)
	r.write("a", "2\n")
	r.status()
	if _, err := os.Stat(mark); err == nil {
		t.Error("it was run")
	}
}

func TestACommandThatHangsIsEnded(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.commit("a", "1\n")
	hook := filepath.Join(r.dir, ".git/hooks/pre-commit")
	ran := filepath.Join(t.TempDir(), "ran")
	r.do(os.MkdirAll(filepath.Dir(hook), 0o755))
	r.do(os.WriteFile(hook, []byte("#!/bin/sh\ntouch '"+ran+"'\nsleep 600\n"), 0o755))
	r.write("a", "2\n")
	c, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
			if _, err := os.Stat(ran); err == nil {
				return
			}
		}
	}()
	r.fails(r.tree.Commit(c, "a", "x"), context.Canceled)
	r.do(os.Remove(hook))
	r.do(r.tree.Commit(ctx(t), "a", "x"))
}

// TestCountsAreThoseOfAFreshLook: what is remembered of the lines is never told
// of other versions of the files.
func TestCountsAreThoseOfAFreshLook(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.commit("a", "1\n2\n3\n", "b", "1\n2\n3\n", "c", "1\n2\n3\n4\n5\n")
	steps := []func(){
		func() { r.write("a", "1\n2\n"); r.write("new", "1\n") },
		func() { r.write("b", "x\n") },
		func() { r.write("new", "1\n2\n") },
		func() { r.write("new", "3\n4\n5\n") },
		func() { r.git("mv", "c", "moved"); r.write("moved", "1\n2\n3\n4\n5\n6\n") },
		func() { r.git("add", "a", "new") },
		func() { r.git("commit", "-q", "-m", "another") },
		func() { r.write("a", "1\n2\n3\n"); r.remove("b") },
		func() { r.git("reset", "-q", "--hard") },
		func() { r.git("rm", "-q", "--cached", "a") },
	}
	for i, step := range steps {
		step()
		for range 2 {
			got, want := r.status(), files(t, r.open(""))
			for path, f := range want {
				if got[path] != f {
					t.Errorf("step %d: %q: %+v, a fresh look says %+v", i, path, got[path], f)
				}
			}
			if len(got) != len(want) {
				t.Errorf("step %d: %d files, a fresh look says %d", i, len(got), len(want))
			}
		}
	}
}

func TestOnlyWhatChangedIsCounted(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.commit("a", "1\n", "b", "1\n")
	r.write("a", "2\n")
	r.write("b", "2\n")
	old := time.Now().Add(-time.Hour)
	for _, f := range []string{"a", "b"} {
		r.do(os.Chtimes(filepath.Join(r.dir, f), old, old))
	}
	uncounted := func() int {
		t.Helper()
		s, err := r.tree.Status(ctx(t), false)
		r.do(err)
		r.do(r.tree.Stamp(s))
		return r.tree.Uncounted(s)
	}
	if n := uncounted(); n != 2 {
		t.Errorf("%d are not counted at first", n)
	}
	r.status()
	if n := uncounted(); n != 0 {
		t.Errorf("%d are not counted after a status", n)
	}
	r.write("a", "3\n")
	if n := uncounted(); n != 1 {
		t.Errorf("%d are not counted after one changed", n)
	}
}

// repo2000 has two thousand files, each changed.
func repo2000(b *testing.B) (*repo, []string) {
	r := newRepo(b)
	args, names := []string{}, []string{}
	for i := range 2000 {
		names = append(names, fmt.Sprintf("dir%d/file%d", i%50, i))
		args = append(args, names[i], "1\n2\n3\n")
	}
	r.commit(args...)
	for _, name := range names {
		r.write(name, "1\n4\n3\n")
	}
	return r, names
}

// BenchmarkStatus2000 reads a status of two thousand changed files: list names
// them, first counts their lines, too, and again is once more after one changed.
func BenchmarkStatus2000(b *testing.B) {
	r, names := repo2000(b)
	look := func(b *testing.B, tree *Tree, counts bool) {
		s, err := tree.Status(ctx(b), counts)
		if err != nil || len(s.Files) != len(names) {
			b.Fatal(err)
		}
	}
	b.Run("list", func(b *testing.B) {
		for b.Loop() {
			look(b, r.tree, false)
		}
	})
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			look(b, r.open(""), true)
		}
	})
	b.Run("again", func(b *testing.B) {
		look(b, r.tree, true)
		for i := 0; b.Loop(); i++ {
			r.write(names[i%len(names)], fmt.Sprintf("%d\n", i))
			look(b, r.tree, true)
		}
	})
}

func FuzzStatus(f *testing.F) {
	f.Add([]byte("# branch.oid (initial)\x00# branch.ab +1 -2\x001 M. N... 100644 100644 100644 a b p q\x00? new\x00"))
	f.Add([]byte("2 R. N... 100644 100644 100644 a b R100 to\x00from\x00u UU N... 1 1 1 1 a b c p\x00"))
	f.Add([]byte("2 R. N... 100644 100644 100644 a b R100 to\x00"))
	f.Fuzz(func(t *testing.T, out []byte) {
		for _, file := range parseStatus(out).Files {
			if file.Path == "" {
				t.Error("a file without a path")
			}
		}
		parseCounts(out)
	})
}
