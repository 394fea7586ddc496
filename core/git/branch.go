package git

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// What is done first with what is uncommitted, when something else is checked
// out.
const (
	StashFirst  = "stash"
	CommitFirst = "commit"
)

// ErrDirty: there are uncommitted changes, and it was not said what becomes of
// them.
var ErrDirty = errors.New("the working tree has uncommitted changes")

// Checkout makes the working tree that of a branch, a tag or a commit. first is
// StashFirst, CommitFirst with a message, or "": ErrDirty then when there are
// changes. What was stashed comes back when it fails.
func (t *Tree) Checkout(ctx context.Context, what, first, message string) error {
	if err := checkName(what); err != nil {
		return err
	}
	if t.Prefix != "" {
		return fmt.Errorf("%w: the directory is not the top of its working tree", ErrInvalid)
	}
	unlock, err := t.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	s, err := t.Status(ctx, false)
	if err != nil {
		return err
	}
	stashed := false
	switch {
	case len(s.Files) == 0:
	case first == StashFirst:
		if err := t.stash(ctx, "push", "-q", "--include-untracked", "-m", "before "+what); err != nil {
			return err
		}
		stashed = true
	case first == CommitFirst:
		if err := t.stage(ctx, s.Files); err != nil {
			return err
		}
		if err := t.commit(ctx, message); err != nil {
			return errors.Join(err, t.unstage(ctx, s, asStaged(s.Files)))
		}
	case first == "":
		return ErrDirty
	default:
		return fmt.Errorf("%w: there is no %.40q before a checkout", ErrInvalid, first)
	}
	err = t.write(ctx, "checkout", "-q", what, "--")
	if err != nil && stashed {
		err = errors.Join(err, t.stash(ctx, "pop", "-q", "--index"))
	}
	return err
}

// write runs a command that writes.
func (t *Tree) write(ctx context.Context, args ...string) error {
	_, err := t.git.run(ctx, command{dir: t.Top, write: true, most: maxAnswer, cut: true, args: args})
	return t.refused(err)
}

// stash puts changes away or back. Taken literally, its own pattern for all files
// would leave the untracked ones in their place.
func (t *Tree) stash(ctx context.Context, args ...string) error {
	_, err := t.git.run(ctx, command{dir: t.Top, write: true, most: maxAnswer, cut: true, patterns: true, args: append([]string{"stash"}, args...)})
	return t.refused(err)
}

// Branch makes a branch where the working tree is, and checks it out; what is
// uncommitted goes along.
func (t *Tree) Branch(ctx context.Context, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	unlock, err := t.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return t.write(ctx, "switch", "-q", "--no-track", "-c", name)
}

// Push sends a branch to a remote, which it then follows.
func (t *Tree) Push(ctx context.Context, remote, branch string) error {
	if err := errors.Join(checkName(remote), checkName(branch)); err != nil {
		return err
	}
	unlock, err := t.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	ref := "refs/heads/" + branch
	return t.write(ctx, "push", "-q", "--set-upstream", "--", remote, ref+":"+ref)
}

// Subjects are the first lines of the commits that HEAD has and a branch, of a
// remote or local, has not, the newest first; at most limit.
func (t *Tree) Subjects(ctx context.Context, remote, branch string, limit int) ([]string, error) {
	if err := errors.Join(checkName(remote), checkName(branch)); err != nil {
		return nil, err
	}
	base := "refs/remotes/" + remote + "/" + branch
	there, err := t.hasRef(ctx, base)
	if err != nil {
		return nil, err
	}
	if !there {
		base = "refs/heads/" + branch
		if there, err = t.hasRef(ctx, base); err != nil || !there {
			return nil, err
		}
	}
	out, err := t.git.run(ctx, command{dir: t.Top, most: maxAnswer, cut: true,
		args: []string{"log", "--no-show-signature", fmt.Sprintf("--max-count=%d", limit), "--format=%s", "HEAD", "^" + base, "--"}})
	if err != nil {
		return nil, t.refused(err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")[:strings.Count(string(out), "\n")], nil
}
