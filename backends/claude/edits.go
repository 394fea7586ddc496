package claude

import (
	"encoding/json"
	"errors"
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

// editsOf works out from a call's input and the file on disk what the call
// would change; nil for calls that change no file. Files outside of the
// working directories and large ones get a change without texts.
func editsOf(dirs []string, name string, input json.RawMessage) []event.FileEdit {
	switch name {
	case "Write", "Edit", "MultiEdit", "NotebookEdit":
	default:
		return nil
	}
	var in toolInput
	if json.Unmarshal(input, &in) != nil {
		return nil
	}
	path := in.FilePath
	if path == "" {
		path = in.Notebook
	}
	if path == "" {
		return nil
	}
	path = absolute(dirs, path)
	e := event.FileEdit{Path: path, Kind: "edit"}
	before, err := load(dirs, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.Kind = "create"
	case err != nil:
		return []event.FileEdit{e}
	}
	if name == "NotebookEdit" {
		return []event.FileEdit{e}
	}
	after, ok := in.apply(name, before)
	if !ok {
		return []event.FileEdit{e}
	}
	return []event.FileEdit{withTexts(dirs, e, before, after)}
}

// apply is the text after the call; false if the call does not fit it.
func (in *toolInput) apply(name, before string) (string, bool) {
	if name == "Write" {
		return in.Content, true
	}
	edits := in.Edits
	if name == "Edit" {
		edits = []textEdit{{in.Old, in.New, in.ReplaceAll}}
	}
	for _, e := range edits {
		switch {
		case e.Old == "" && before == "":
			before = e.New
		case e.Old == "" || !strings.Contains(before, e.Old):
			return "", false
		case e.ReplaceAll:
			before = strings.ReplaceAll(before, e.Old, e.New)
		default:
			before = strings.Replace(before, e.Old, e.New, 1)
		}
	}
	return before, true
}

// withTexts adds the texts and their difference, if they are not too large.
func withTexts(dirs []string, e event.FileEdit, before, after string) event.FileEdit {
	if len(before) > maxEdit || len(after) > maxEdit || !utf8.ValidString(before) || !utf8.ValidString(after) {
		return e
	}
	if e.Kind == "edit" {
		e.Before = &before
	}
	e.After = &after
	name := e.Path
	for _, dir := range dirs {
		if rel, err := filepath.Rel(dir, e.Path); err == nil && filepath.IsLocal(rel) {
			name = rel
			break
		}
	}
	from := "a/" + name
	if e.Kind == "create" {
		from = "/dev/null"
	}
	patch, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{A: splitLines(before), B: splitLines(after), FromFile: from, ToFile: "b/" + name, Context: 3})
	if err != nil {
		return e
	}
	e.Patch = patch
	if i := strings.Index(patch, "\n@@"); i >= 0 {
		patch = patch[i:]
	}
	e.Added, e.Removed = strings.Count(patch, "\n+"), strings.Count(patch, "\n-")
	return e
}

// splitLines splits a text so that each line has its newline.
func splitLines(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if !strings.HasSuffix(line, "\n") {
			line += "\n\\ No newline at end of file\n"
		}
		out = append(out, line)
	}
	return out
}

var errOutside = errors.New("outside of the working directories")

// load reads a text file inside the working directories, up to a little more
// than maxEdit bytes of it.
func load(dirs []string, path string) (string, error) {
	b, err := readInside(dirs, path, maxEdit+1)
	return string(b), err
}

// readInside reads at most limit bytes of a regular file that is inside one of
// the directories, links followed.
func readInside(dirs []string, path string, limit int64) ([]byte, error) {
	path = absolute(dirs, path)
	for _, dir := range dirs {
		rel, err := filepath.Rel(dir, path)
		if err != nil || !filepath.IsLocal(rel) {
			continue
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			return nil, err
		}
		defer root.Close()
		// Without O_NONBLOCK a named pipe would hold the caller.
		f, err := root.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
			return nil, errors.New("not a file")
		}
		return io.ReadAll(io.LimitReader(f, limit))
	}
	return nil, errOutside
}

// plain strips the operation and the path that the os package adds.
func plain(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
