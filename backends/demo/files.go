package demo

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
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

type writeInput struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

type readInput struct {
	Path string `json:"path"`
}

// write replaces or creates a file.
func (s *script) write(path, text string) error {
	return s.use(call{
		tool: agent.Tool{Name: toolWrite, Tag: event.TagWrite, Input: marshal(writeInput{path, text + "\n"})},
		look: func(t *agent.Tool) error {
			var in writeInput
			if err := input(t, &in); err != nil {
				return err
			}
			t.Title, t.Paths = in.Path, []string{in.Path}
			edit, err := s.edit(in)
			if err != nil {
				return err
			}
			t.Edits = []event.FileEdit{edit}
			return nil
		},
		run: func(t agent.Tool) (agent.Result, error) {
			var in writeInput
			if err := input(&t, &in); err != nil {
				return failed(err), nil
			}
			// The file may have changed while somebody thought it over.
			edit, err := s.edit(in)
			if err == nil {
				err = s.store(in)
			}
			if err != nil {
				return failed(err), nil
			}
			return agent.Result{Output: fmt.Sprintf("wrote %d bytes to %s", len(in.Content), in.Path), Edits: []event.FileEdit{edit}}, nil
		},
	})
}

func (s *script) read(path string) error {
	return s.use(call{
		tool: agent.Tool{Name: toolRead, Tag: event.TagRead, Input: marshal(readInput{path})},
		look: func(t *agent.Tool) error {
			t.Title, t.Paths = path, []string{path}
			_, _, err := s.locate(path)
			return err
		},
		run: func(agent.Tool) (agent.Result, error) {
			b, err := s.load(path)
			if err != nil {
				return failed(err), nil
			}
			text := string(b)
			if len(b) > maxRead {
				text = text[:wholeRunes(b[:maxRead])] + "\n[the rest is left out]\n"
			}
			return agent.Result{Output: strings.ToValidUTF8(text, "\ufffd")}, nil
		},
	})
}

// locate finds the working directory that a path is in, and its name there.
func (s *script) locate(path string) (dir, name string, err error) {
	if !filepath.IsAbs(path) {
		if filepath.IsLocal(path) {
			return s.t.c.dirs[0], filepath.Clean(path), nil
		}
		path = filepath.Join(s.t.c.dirs[0], path)
	}
	for _, dir := range s.t.c.dirs {
		if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
			return dir, rel, nil
		}
	}
	return "", "", outside(path)
}

func outside(path string) error {
	return fmt.Errorf("%s is outside of the working directories", path)
}

// load reads up to a little more than maxRead bytes of a regular file.
func (s *script) load(path string) ([]byte, error) {
	dir, name, err := s.locate(path)
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
	b, err := io.ReadAll(io.LimitReader(f, maxRead+utf8.UTFMax))
	if err != nil {
		return nil, worded(path, err)
	}
	return b, nil
}

func (s *script) store(in writeInput) error {
	dir, name, err := s.locate(in.Path)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return worded(in.Path, err)
	}
	defer root.Close()
	if parent := filepath.Dir(name); parent != "." {
		if err := root.MkdirAll(parent, 0o755); err != nil {
			return worded(in.Path, err)
		}
	}
	if err := root.WriteFile(name, []byte(in.Content), 0o644); err != nil {
		return worded(in.Path, err)
	}
	return nil
}

// edit works out what a write changes.
func (s *script) edit(in writeInput) (event.FileEdit, error) {
	dir, name, err := s.locate(in.Path)
	if err != nil {
		return event.FileEdit{}, err
	}
	e := event.FileEdit{Path: filepath.Join(dir, name), Kind: "edit"}
	var before string
	b, err := s.load(in.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.Kind = "create"
	case err != nil:
		return event.FileEdit{}, err
	default:
		before = string(b)
	}
	if len(before) > maxEdit || len(in.Content) > maxEdit || !utf8.ValidString(before) {
		return e, nil
	}
	if e.Kind == "edit" {
		e.Before = &before
	}
	e.After = &in.Content
	e.Patch, e.Added, e.Removed = diff(name, e.Kind, before, in.Content)
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
	return fmt.Errorf("%s: %w", path, plain(err))
}

// plain strips the operation and the path that the os package adds.
func plain(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
