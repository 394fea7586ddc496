// Package files looks at files inside the working directories of a
// conversation, for agents that do not say what a call is about to change.
//
// No path leaves the directories, through links neither. Sizes are bounded; a
// file that is no regular file is refused. It knows no agent.
package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/pmezard/go-difflib/difflib"
	"github.com/polyhost/polyhost/core/event"
)

// MaxEdit is the largest text, in bytes, that an edit carries and that is
// compared line by line.
const MaxEdit = 256 << 10

// Dirs are working directories, absolute; relative paths are meant in the first.
type Dirs []string

// Locate finds the working directory that a path is in, and its name there.
func (d Dirs) Locate(path string) (dir, name string, err error) {
	if !filepath.IsAbs(path) {
		if filepath.IsLocal(path) {
			return d[0], filepath.Clean(path), nil
		}
		path = filepath.Join(d[0], path)
	}
	for _, dir := range d {
		if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
			return dir, rel, nil
		}
	}
	return "", "", outside(path)
}

func outside(path string) error {
	return fmt.Errorf("%s is outside of the working directories", path)
}

// Load reads a regular file, at most limit bytes and the rest of a character.
func (d Dirs) Load(path string, limit int) ([]byte, error) {
	dir, name, err := d.Locate(path)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, worded(path, err)
	}
	defer root.Close()
	// Without O_NONBLOCK a named pipe would hold the turn.
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, worded(path, err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, int64(limit)+utf8.UTFMax))
	if err != nil {
		return nil, worded(path, err)
	}
	return b, nil
}

// Store writes a file and makes the directories above it.
func (d Dirs) Store(path, text string) error {
	dir, name, err := d.Locate(path)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return worded(path, err)
	}
	defer root.Close()
	if parent := filepath.Dir(name); parent != "." {
		if err := root.MkdirAll(parent, 0o755); err != nil {
			return worded(path, err)
		}
	}
	if err := root.WriteFile(name, []byte(text), 0o644); err != nil {
		return worded(path, err)
	}
	return nil
}

// Edit works out what replacing a file's text changes. The texts are left out
// when one is larger than MaxEdit or the file is not text.
func (d Dirs) Edit(path, after string) (event.FileEdit, error) {
	dir, name, err := d.Locate(path)
	if err != nil {
		return event.FileEdit{}, err
	}
	e := event.FileEdit{Path: filepath.Join(dir, name), Kind: "edit"}
	var before string
	b, err := d.Load(path, MaxEdit)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.Kind = "create"
	case err != nil:
		return event.FileEdit{}, err
	default:
		before = string(b)
	}
	if len(before) > MaxEdit || len(after) > MaxEdit || !utf8.ValidString(before) {
		return e, nil
	}
	if e.Kind == "edit" {
		e.Before = &before
	}
	e.After = &after
	e.Patch, e.Added, e.Removed = diff(name, e.Kind, before, after)
	return e, nil
}

// diff returns a unified diff and how many lines it adds and removes.
func diff(name, kind, before, after string) (patch string, added, removed int) {
	from := "a/" + name
	if kind == "create" {
		from = "/dev/null"
	}
	u := difflib.UnifiedDiff{A: lines(before), B: lines(after), FromFile: from, ToFile: "b/" + name, Context: 3}
	patch, err := difflib.GetUnifiedDiffString(u)
	if err != nil {
		return "", 0, 0
	}
	body := patch
	if i := strings.Index(patch, "\n@@"); i >= 0 {
		body = patch[i:]
	}
	return patch, strings.Count(body, "\n+"), strings.Count(body, "\n-")
}

// lines splits a text so that each line has its newline; the last one may
// need to be given it.
func lines(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if !strings.HasSuffix(line, "\n") {
			line += "\n\\ No newline at end of file\n"
		}
		out = append(out, line)
	}
	return out
}

// worded keeps of a file error what concerns the reader.
func worded(path string, err error) error {
	if strings.Contains(err.Error(), "escapes from parent") {
		return outside(path)
	}
	return fmt.Errorf("%s: %w", path, Reason(err))
}

// Reason strips the operation and the path that the os package adds.
func Reason(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
