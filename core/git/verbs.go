package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// refused words a failure of git for a person.
func (t *Tree) refused(err error) error {
	var f *failure
	if errors.As(err, &f) {
		return fmt.Errorf("%w: %s", ErrRefused, f.said)
	}
	return err
}

// on runs a command that writes, on some paths.
func (t *Tree) on(ctx context.Context, paths []string, args ...string) error {
	if len(paths) == 0 {
		return nil
	}
	_, err := t.git.run(ctx, command{dir: t.Top, write: true, most: maxAnswer, cut: true,
		args: append(args, "--pathspec-from-file=-", "--pathspec-file-nul"), input: []byte(strings.Join(paths, "\x00") + "\x00")})
	return t.refused(err)
}

// begin waits for the repository and finds what a verb is to be done to: the
// changes at or below a path relative to Top.
func (t *Tree) begin(ctx context.Context, path string) (*Status, []File, func(), error) {
	if !under(path, t.Prefix) {
		return nil, nil, nil, fmt.Errorf("%w: %.200q is outside of the directory", ErrInvalid, path)
	}
	unlock, err := t.lock(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	s, err := t.Status(ctx, false)
	if err == nil && s.Cut {
		err = fmt.Errorf("%w: more than %d files changed", ErrTooLarge, MaxFiles)
	}
	var files []File
	if err == nil {
		for _, f := range s.Files {
			if under(f.Path, path) || f.From != "" && !f.Copied && under(f.From, path) {
				files = append(files, f)
			}
		}
		if len(files) == 0 {
			err = fmt.Errorf("%w: nothing changed there", ErrNothing)
		}
	}
	if err != nil {
		unlock()
		return nil, nil, nil, err
	}
	return s, files, unlock, nil
}

// both are the paths of files, for a rename both.
func both(files []File) (paths []string) {
	for _, f := range files {
		paths = append(paths, f.Path)
		if f.From != "" && !f.Copied {
			paths = append(paths, f.From)
		}
	}
	return paths
}

// Stage puts the changes at or below a path into the index.
func (t *Tree) Stage(ctx context.Context, path string) error {
	_, files, unlock, err := t.begin(ctx, path)
	if err != nil {
		return err
	}
	defer unlock()
	return t.stage(ctx, files)
}

func (t *Tree) stage(ctx context.Context, files []File) error {
	var paths []string
	for _, f := range files {
		if f.Unstaged {
			paths = append(paths, f.Path)
		}
	}
	return t.on(ctx, paths, "add", "-A")
}

// Unstage takes the changes at or below a path out of the index; the files stay.
func (t *Tree) Unstage(ctx context.Context, path string) error {
	s, files, unlock, err := t.begin(ctx, path)
	if err != nil {
		return err
	}
	defer unlock()
	return t.unstage(ctx, s, files)
}

func (t *Tree) unstage(ctx context.Context, s *Status, files []File) error {
	var staged []File
	for _, f := range files {
		if f.Staged || f.Conflict {
			staged = append(staged, f)
		}
	}
	if s.Branch.Commit == "" {
		return t.on(ctx, both(staged), "rm", "--cached", "-f", "-q", "--ignore-unmatch")
	}
	return t.on(ctx, both(staged), "reset", "-q")
}

// Discard makes what is at or below a path as it was committed last; files
// that were not committed are deleted. Whole directories need a commit.
func (t *Tree) Discard(ctx context.Context, path string) error {
	s, files, unlock, err := t.begin(ctx, path)
	if err != nil {
		return err
	}
	defer unlock()
	one := len(files) == 1 && path == files[0].Path
	var back, drop []string
	for _, f := range files {
		switch {
		case f.Submodule && one:
			return fmt.Errorf("%w: %.200q is a repository of its own", ErrInvalid, f.Path)
		case f.Submodule:
			continue
		}
		if f.InHead {
			back = append(back, f.Path)
		} else {
			drop = append(drop, f.Path)
		}
		if f.From != "" && !f.Copied {
			back = append(back, f.From)
		}
	}
	if s.Branch.Commit == "" && !one {
		return fmt.Errorf("%w: every file is new, and all would be deleted", ErrNoCommit)
	}
	if err := t.unstage(ctx, s, files); err != nil {
		return err
	}
	if err := t.on(ctx, back, "restore", "--source=HEAD", "--staged", "--worktree"); err != nil {
		return err
	}
	root, err := os.OpenRoot(t.Top)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, p := range drop {
		if err := root.Remove(p); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%w: %.200q cannot be deleted", ErrRefused, p)
		}
	}
	return nil
}

// Commit commits the changes at or below a path, as the working tree has them,
// and leaves what else the index holds. For the whole directory it commits the
// index when that holds anything, and everything when it does not.
func (t *Tree) Commit(ctx context.Context, path, message string) error {
	if strings.TrimSpace(message) == "" || len(message) > MaxMessage || strings.ContainsRune(message, 0) {
		return fmt.Errorf("%w: a message has 1 to %d bytes", ErrInvalid, MaxMessage)
	}
	s, files, unlock, err := t.begin(ctx, path)
	if err != nil {
		return err
	}
	defer unlock()
	for _, f := range files {
		if f.Conflict {
			return fmt.Errorf("%w: %.200q is in conflict", ErrInvalid, f.Path)
		}
	}
	if path != t.Prefix {
		return t.commitOnly(ctx, s, files, message)
	}
	outside, err := t.stagedOutside(ctx)
	if err != nil {
		return err
	}
	if outside {
		return fmt.Errorf("%w: the index holds changes outside of the directory", ErrInvalid)
	}
	staged := false
	for _, f := range files {
		staged = staged || f.Staged
	}
	if !staged {
		if err := t.stage(ctx, files); err != nil {
			return err
		}
	}
	err = t.commit(ctx, message)
	if err != nil && !staged {
		return errors.Join(err, t.unstage(ctx, s, asStaged(files)))
	}
	return err
}

// commitOnly commits some files by way of an index of its own that git makes.
func (t *Tree) commitOnly(ctx context.Context, s *Status, files []File, message string) error {
	var unknown []File
	for _, f := range files {
		if !f.Tracked {
			unknown = append(unknown, f)
		}
	}
	if err := t.stage(ctx, unknown); err != nil {
		return err
	}
	args := []string{"commit", "-q", "--only", "-m", message, "--cleanup=whitespace"}
	err := t.on(ctx, both(files), args...)
	if err != nil && len(unknown) > 0 {
		return errors.Join(err, t.unstage(ctx, s, asStaged(unknown)))
	}
	return err
}

// asStaged are files as they are once they were staged.
func asStaged(files []File) []File {
	out := append([]File(nil), files...)
	for i := range out {
		out[i].Staged = true
	}
	return out
}

func (t *Tree) commit(ctx context.Context, message string) error {
	_, err := t.git.run(ctx, command{dir: t.Top, write: true, most: maxAnswer, cut: true, input: []byte(message),
		args: []string{"commit", "-q", "-F", "-", "--cleanup=whitespace"}})
	return t.refused(err)
}

// stagedOutside reports whether the index holds changes outside of the directory.
func (t *Tree) stagedOutside(ctx context.Context) (bool, error) {
	if t.Prefix == "" {
		return false, nil
	}
	out, err := t.git.run(ctx, command{dir: t.Top, most: maxList, cut: true, args: []string{"diff", "--cached", "--name-only", "--no-renames", "-z"}})
	if err != nil {
		return false, t.refused(err)
	}
	for p := range strings.SplitSeq(string(out), "\x00") {
		if p != "" && !under(p, t.Prefix) {
			return true, nil
		}
	}
	return false, nil
}

// Relative gives a path of the machine as the repository has it. The file need
// not be there, and a link at its end is meant itself.
func (t *Tree) Relative(path string) (string, error) {
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil { // the directory went with the file
		dir = filepath.Dir(path)
	}
	full := filepath.Join(dir, filepath.Base(path))
	rel, err := filepath.Rel(t.Top, full)
	if err != nil || !filepath.IsLocal(rel) {
		return "", fmt.Errorf("%w: %.200q is outside of the directory", ErrInvalid, path)
	}
	if rel == "." {
		rel = ""
	}
	return rel, nil
}
