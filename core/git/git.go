// Package git is what a host does in git repositories: what changed in a
// directory, what a file was, and the few verbs with which a person deals with
// changes. It knows no protocol and no session.
//
// It runs the git program, without a shell, with a bound on its output and its
// time, and with the configuration and the hooks of the user, as in the user's
// own terminal. Commands that only look take no locks and ask no file system
// monitor. Paths are bytes that mean themselves, never patterns or options.
//
// Commands that write to one repository run one after the other; a person's own
// git may still run beside them and makes them fail with its words.
package git

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"path/filepath"
	"strings"
)

// Errors. The texts that wrap them are fit for clients.
var (
	// ErrNoRepository: the directory is in no working tree, or there is no git.
	ErrNoRepository = errors.New("not a git working tree")
	// ErrNoCommit: nothing was ever committed.
	ErrNoCommit = errors.New("the repository has no commit yet")
	// ErrNothing: there is nothing that the verb would do something to.
	ErrNothing = errors.New("nothing to do")
	// ErrInvalid: the verb makes no sense for what it was asked for.
	ErrInvalid = errors.New("not possible")
	// ErrRefused: git would not do it, in its words.
	ErrRefused = errors.New("git refused")
	// ErrNotFound: no such file in that commit.
	ErrNotFound = errors.New("not in the repository")
	// ErrTooLarge: a limit of this package.
	ErrTooLarge = errors.New("too large")
)

// Git runs git.
type Git struct {
	slots chan struct{}
	seed  maphash.Seed
	locks [stripes]chan struct{} // by repository
}

// New makes one; it holds nothing that must be closed.
func New() *Git {
	g := &Git{slots: make(chan struct{}, maxRunning), seed: maphash.MakeSeed()}
	for i := range g.locks {
		g.locks[i] = make(chan struct{}, 1)
	}
	return g
}

// Tree is a directory in a working tree: what is below it is what all is about.
type Tree struct {
	git *Git
	// Top is the top of the working tree, real and absolute.
	Top string
	// Prefix is the directory, relative to Top; "" is Top itself.
	Prefix string
	// Dir is the repository's own directory of this working tree, where its
	// HEAD and its index are.
	Dir string
	// Common is the repository's own directory that all its working trees share;
	// Dir, unless this is an added one.
	Common string

	tally *tally
}

// Open finds the working tree that a directory is in, or ErrNoRepository.
func (g *Git) Open(ctx context.Context, dir string) (*Tree, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil || !filepath.IsAbs(real) {
		return nil, fmt.Errorf("%w: %.200s", ErrNoRepository, dir)
	}
	out, err := g.run(ctx, command{dir: real, most: maxAnswer,
		args: []string{"rev-parse", "--path-format=absolute", "--show-toplevel", "--absolute-git-dir", "--git-common-dir"}})
	var f *failure
	if errors.As(err, &f) {
		return nil, fmt.Errorf("%w: %.200s", ErrNoRepository, dir)
	} else if err != nil {
		return nil, err
	}
	said := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(said) != 3 { // a line break in a path
		return nil, fmt.Errorf("%w: %.200s", ErrNoRepository, dir)
	}
	t := &Tree{git: g, Top: said[0], Dir: said[1], Common: said[2], tally: &tally{}}
	rel, err := filepath.Rel(t.Top, real)
	if err != nil || !filepath.IsAbs(t.Top) || !filepath.IsLocal(rel) {
		return nil, fmt.Errorf("%w: %.200s", ErrNoRepository, dir)
	}
	if rel != "." {
		t.Prefix = rel
	}
	return t, nil
}

// under reports whether a path of the repository is the directory or in it.
func under(path, dir string) bool {
	return dir == "" || path == dir || strings.HasPrefix(path, dir) && path[len(dir)] == '/'
}

// look runs a command that only looks.
func (t *Tree) look(ctx context.Context, most int, args ...string) ([]byte, error) {
	return t.git.run(ctx, command{dir: t.Top, args: args, most: most})
}

// scope limits a command to the directory.
func (t *Tree) scope(args ...string) []string {
	if t.Prefix != "" {
		return append(args, "--", t.Prefix)
	}
	return args
}

// lock waits for the turn to write to the repository.
func (t *Tree) lock(ctx context.Context) (unlock func(), err error) {
	l := t.git.locks[maphash.String(t.git.seed, t.Dir)%stripes]
	select {
	case l <- struct{}{}:
		return func() { <-l }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Show gives the content of a file in a commit, at most MaxBlob bytes.
func (t *Tree) Show(ctx context.Context, commit, path string) ([]byte, error) {
	if !IsCommit(commit) || !filepath.IsLocal(path) || filepath.Clean(path) != path {
		return nil, fmt.Errorf("%w: %.200q", ErrNotFound, path)
	}
	out, err := t.look(ctx, MaxBlob, "cat-file", "blob", commit+":"+path)
	var f *failure
	if errors.As(err, &f) {
		return nil, fmt.Errorf("%w: %.200q", ErrNotFound, path)
	}
	return out, err
}

// IsCommit reports whether a text can be the whole name of a commit.
func IsCommit(s string) bool {
	if len(s) != 40 && len(s) != 64 {
		return false
	}
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
