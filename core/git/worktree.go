package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// NewTree says what a further working tree of a repository is to be.
type NewTree struct {
	// Root is a directory for the trees of all repositories; "" puts the tree
	// beside its repository, into <repository>.worktrees.
	Root string
	// Name is its directory there: one part of a path.
	Name string
	// Branch is checked out in it. When it is Fresh it is made, where From is, a
	// branch, and follows that if Track.
	Branch, From string
	Fresh, Track bool
	// Include are patterns, as in .gitignore, of ignored files that are copied
	// from this tree, Link of ignored folders that become links to this tree's.
	Include, Link []string
}

// Added is a further working tree, and what must be known to take it away.
type Added struct {
	Repository string `json:"repository"` // a directory in it that stays
	Path       string `json:"path"`
	Branch     string `json:"branch"`
	Fresh      bool   `json:"fresh,omitempty"`
	// Commit is what a fresh branch began at.
	Commit string   `json:"commit,omitempty"`
	Links  []string `json:"links,omitempty"`
}

// Add makes a further working tree. What cannot be copied or linked is left out.
func (t *Tree) Add(ctx context.Context, n NewTree) (*Added, error) {
	if err := checkName(n.Branch); err != nil {
		return nil, err
	}
	if n.Fresh {
		if err := checkName(n.From); err != nil {
			return nil, err
		}
	}
	if n.Name == "" || n.Name != filepath.Base(n.Name) || strings.HasPrefix(n.Name, ".") || checkName(n.Name) != nil {
		return nil, fmt.Errorf("%w: %.80q cannot be the name of a working tree", ErrInvalid, n.Name)
	}
	for _, p := range slices.Concat(n.Include, n.Link) {
		if p == "" || len(p) > maxPattern || strings.ContainsAny(p, "\x00\n") {
			return nil, fmt.Errorf("%w: a pattern has 1 to %d bytes", ErrInvalid, maxPattern)
		}
	}
	if len(n.Include) > maxPatterns || len(n.Link) > maxPatterns {
		return nil, fmt.Errorf("%w: more than %d patterns", ErrTooLarge, maxPatterns)
	}
	unlock, err := t.lock(ctx)
	if err != nil {
		return nil, err
	}
	a, err := t.add(ctx, n)
	unlock() // Drop waits for it
	switch {
	case err == nil:
		return a, nil
	case a != nil:
		_, dropErr := t.git.Drop(context.WithoutCancel(ctx), a, AnyBranch)
		err = errors.Join(err, dropErr)
	}
	return nil, err
}

// add is Add of what was checked; with an error it gives what there is to be
// dropped, or nil. The caller holds the repository's lock.
func (t *Tree) add(ctx context.Context, n NewTree) (*Added, error) {
	a := &Added{Repository: t.home(), Branch: n.Branch, Fresh: n.Fresh}
	in := a.Repository + ".worktrees"
	if n.Root != "" {
		in = filepath.Join(n.Root, filepath.Base(a.Repository))
	}
	if err := os.MkdirAll(in, 0o755); err != nil {
		return nil, fmt.Errorf("%w: %.200s cannot be made", ErrRefused, in)
	}
	if info, err := os.Lstat(in); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%w: %.200s is no directory", ErrRefused, in)
	}
	a.Path = filepath.Join(in, n.Name)
	_, err := os.Lstat(a.Path)
	ours := errors.Is(err, fs.ErrNotExist) // what is there afterwards
	args := []string{"worktree", "add", "-q"}
	if n.Fresh {
		out, err := t.look(ctx, maxAnswer, "rev-parse", "--verify", "--quiet", "--end-of-options", n.From+"^{commit}")
		if err != nil {
			_ = os.Remove(in) // if it is empty
			return nil, fmt.Errorf("%w: there is no branch %.80q", ErrInvalid, n.From)
		}
		a.Commit = strings.TrimSpace(string(out))
		there, err := t.hasBranch(ctx, n.Branch)
		ours = ours && !there && err == nil
		track := "--no-track"
		if n.Track {
			track = "--track"
		}
		args = append(args, track, "-b", n.Branch, "--", a.Path, n.From)
	} else {
		args = append(args, "--", a.Path, n.Branch)
	}
	if err := t.write(ctx, args...); err != nil {
		if ours { // it was cut off perhaps, or a hook did not like it
			_, none := os.Lstat(a.Path)
			branch, _ := t.hasBranch(context.WithoutCancel(ctx), n.Branch)
			ours = none == nil || n.Fresh && branch
		}
		if ours {
			return a, err
		}
		_ = os.Remove(in)
		return nil, err
	}
	if len(n.Link)+len(n.Include) > 0 {
		return a, t.bring(ctx, a, n)
	}
	return a, nil
}

func (t *Tree) hasBranch(ctx context.Context, name string) (bool, error) {
	_, err := t.look(ctx, maxAnswer, "rev-parse", "--verify", "--quiet", "--end-of-options", "refs/heads/"+name)
	var none *failure
	if errors.As(err, &none) {
		return false, nil
	}
	return err == nil, err
}

// home is the directory of the repository that stays when an added working tree
// goes.
func (t *Tree) home() string {
	if filepath.Base(t.Common) == ".git" {
		return filepath.Dir(t.Common)
	}
	if t.Common != t.Dir { // of a repository without a working tree
		return t.Common
	}
	return t.Top
}

// bring links and copies what git ignores into a new working tree.
func (t *Tree) bring(ctx context.Context, a *Added, n NewTree) error {
	from, err := os.OpenRoot(t.Top)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenRoot(a.Path)
	if err != nil {
		return err
	}
	defer to.Close()
	for _, dir := range t.ignored(ctx, n.Link, "--directory") {
		rel := strings.TrimSuffix(dir, "/")
		if rel == dir || !filepath.IsLocal(rel) {
			continue
		}
		if _, err := to.Lstat(rel); err == nil {
			continue
		}
		if to.MkdirAll(filepath.Dir(rel), 0o755) == nil && to.Symlink(filepath.Join(t.Top, rel), rel) == nil {
			a.Links = append(a.Links, rel)
		}
	}
	left := int64(maxCopied)
	for _, path := range t.ignored(ctx, n.Include) {
		if filepath.IsLocal(path) && left > 0 {
			left -= copyFile(from, to, path, left)
		}
	}
	return ctx.Err()
}

// ignored lists what git ignores and a pattern names; nothing when that cannot be
// told.
func (t *Tree) ignored(ctx context.Context, patterns []string, more ...string) []string {
	if len(patterns) == 0 {
		return nil
	}
	args := append([]string{"ls-files", "-z", "--others", "--ignored"}, more...)
	for _, p := range patterns {
		args = append(args, "--exclude="+p)
	}
	out, err := t.git.run(ctx, command{dir: t.Top, most: maxList, cut: true, args: args})
	if err != nil || len(out) == 0 {
		return nil
	}
	// It takes no literal paths: what would be a pattern is left out.
	found := slices.DeleteFunc(zeroed(out), func(p string) bool { return strings.HasPrefix(p, ":") })
	out, err = t.git.run(ctx, command{dir: t.Top, most: maxList, cut: true, patterns: true, args: []string{"check-ignore", "-z", "--stdin"},
		input: []byte(strings.Join(found, "\x00") + "\x00")})
	if err != nil {
		return nil
	}
	found = zeroed(out)
	return found[:min(len(found), maxCopies)]
}

// zeroed are the whole lines of what ends each with a zero.
func zeroed(out []byte) []string {
	lines := strings.Split(string(out), "\x00")
	return lines[:len(lines)-1]
}

// copyFile copies a regular file of at most so many bytes, and tells how many it
// copied.
func copyFile(from, to *os.Root, path string, most int64) int64 {
	in, err := from.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return 0
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > most || to.MkdirAll(filepath.Dir(path), 0o755) != nil {
		return 0
	}
	out, err := to.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return 0
	}
	n, err := io.Copy(out, io.LimitReader(in, most))
	if errors.Join(err, out.Close()) != nil {
		_ = to.Remove(path)
	}
	return n
}

// Which branch goes with an added working tree. One that was not made for it
// stays.
type Branches int

const (
	// NoBranch: it stays.
	NoBranch Branches = iota
	// UnusedBranch: it goes when nothing was committed to it.
	UnusedBranch
	// AnyBranch: it goes.
	AnyBranch
)

// Drop takes an added working tree away, unless somebody's work is in it: what is
// uncommitted stays, and so does the tree. It may be gone already.
func (g *Git) Drop(ctx context.Context, a *Added, branch Branches) (kept bool, err error) {
	if _, err := os.Lstat(a.Path); err == nil {
		t, err := g.Open(ctx, a.Path)
		if err != nil {
			return true, err
		}
		if t.home() != a.Repository || t.Top != a.Path || t.Dir == t.Common {
			return true, fmt.Errorf("%w: %.200s is no added working tree of %.200s", ErrInvalid, a.Path, a.Repository)
		}
		if kept, err := t.clear(ctx, a); kept || err != nil {
			return true, err
		}
	}
	home, err := g.Open(ctx, a.Repository)
	if err != nil {
		return false, err
	}
	unlock, err := home.lock(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	if _, err := os.Lstat(a.Path); err == nil {
		if err := home.write(ctx, "worktree", "remove", "--", a.Path); err != nil {
			return true, err
		}
	} else if err := home.write(ctx, "worktree", "prune"); err != nil {
		return false, err
	}
	_ = os.Remove(filepath.Dir(a.Path)) // if it is empty
	if !a.Fresh || branch == NoBranch || checkName(a.Branch) != nil {
		return false, nil
	}
	out, err := home.look(ctx, maxAnswer, "rev-parse", "--verify", "--quiet", "--end-of-options", "refs/heads/"+a.Branch)
	if err != nil || branch == UnusedBranch && strings.TrimSpace(string(out)) != a.Commit {
		return false, nil
	}
	return false, home.write(ctx, "branch", "-q", "-D", "--", a.Branch)
}

// clear takes the links out of a working tree that has no other changes; kept
// says that it has.
func (t *Tree) clear(ctx context.Context, a *Added) (kept bool, err error) {
	s, err := t.Status(ctx, false)
	if err != nil {
		return true, err
	}
	for _, f := range s.Files {
		if f.Tracked || !slices.Contains(a.Links, f.Path) {
			return true, nil
		}
	}
	root, err := os.OpenRoot(a.Path)
	if err != nil {
		return true, err
	}
	defer root.Close()
	for _, l := range a.Links {
		if info, err := root.Lstat(l); err == nil && info.Mode()&os.ModeSymlink != 0 {
			_ = root.Remove(l) // git will say if that matters
		}
	}
	return false, nil
}

// Restore makes an added working tree again that was taken away, on its branch.
func (g *Git) Restore(ctx context.Context, a *Added) error {
	if _, err := os.Lstat(a.Path); err == nil {
		return nil
	}
	if err := checkName(a.Branch); err != nil {
		return err
	}
	home, err := g.Open(ctx, a.Repository)
	if err != nil {
		return err
	}
	unlock, err := home.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return home.write(ctx, "worktree", "add", "-q", "--", a.Path, a.Branch)
}
