package codex

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/polyhost/polyhost/backends/internal/files"
	"github.com/polyhost/polyhost/core/event"
)

// edits describes a change of one file; a move is the end of one file and the
// beginning of another.
func (m *mapper) edits(c *change) []event.FileEdit {
	switch c.Kind.Type {
	case "add":
		e := event.FileEdit{Path: c.Path, Kind: "create", Added: countLines(c.Diff)}
		e.Patch = m.header(c.Path, "create") + fmt.Sprintf("@@ -0,0 +1,%d @@\n", e.Added) + prefixed("+", c.Diff)
		if len(c.Diff) <= files.MaxEdit {
			e.After = &c.Diff
		}
		return []event.FileEdit{e}
	case "delete":
		e := event.FileEdit{Path: c.Path, Kind: "delete"}
		before, ok := m.read(c.Path)
		if !ok {
			before = c.Diff
		}
		e.Removed = countLines(before)
		e.Patch = m.header(c.Path, "delete") + fmt.Sprintf("@@ -1,%d +0,0 @@\n", e.Removed) + prefixed("-", before)
		if len(before) <= files.MaxEdit {
			e.Before = &before
		}
		return []event.FileEdit{e}
	}
	e := event.FileEdit{Path: c.Path, Kind: "edit", Patch: m.header(c.Path, "edit") + c.Diff}
	e.Added, e.Removed = countHunks(c.Diff)
	if before, ok := m.read(c.Path); ok {
		e.Before = &before
		if after, ok := patched(before, c.Diff); ok && len(after) <= files.MaxEdit {
			e.After = &after
		}
	}
	if c.Kind.Move == "" || c.Kind.Move == c.Path {
		return []event.FileEdit{e}
	}
	gone := event.FileEdit{Path: c.Path, Kind: "delete", Before: e.Before}
	moved := event.FileEdit{Path: c.Kind.Move, Kind: "create", After: e.After, Patch: e.Patch, Added: e.Added, Removed: e.Removed}
	return []event.FileEdit{gone, moved}
}

// header is the two lines that a patch begins with.
func (m *mapper) header(path, kind string) string {
	name := path
	for _, dir := range m.dirs {
		if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
			name = rel
			break
		}
	}
	from, to := "a/"+strings.TrimPrefix(name, "/"), "b/"+strings.TrimPrefix(name, "/")
	switch kind {
	case "create":
		from = "/dev/null"
	case "delete":
		to = "/dev/null"
	}
	return "--- " + from + "\n+++ " + to + "\n"
}

func prefixed(sign, text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(sign + line)
		if !strings.HasSuffix(line, "\n") {
			b.WriteString("\n\\ No newline at end of file\n")
		}
	}
	return b.String()
}

func countLines(text string) int {
	n := strings.Count(text, "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		n++
	}
	return n
}

func countHunks(hunks string) (added, removed int) {
	for line := range strings.Lines(hunks) {
		switch line[0] {
		case '+':
			added++
		case '-':
			removed++
		}
	}
	return added, removed
}

// read returns the text of a file inside the working directories, if it is one
// of a size that is shown.
func (m *mapper) read(path string) (string, bool) {
	if len(m.dirs) == 0 {
		return "", false
	}
	b, err := m.dirs.Load(path, files.MaxEdit)
	if err != nil || len(b) > files.MaxEdit || !utf8.Valid(b) {
		return "", false
	}
	return string(b), true
}

// patched applies hunks without a file header; false when they do not fit.
func patched(before, hunks string) (string, bool) {
	var out strings.Builder
	rest := before // what no hunk has reached yet
	line := 1      // its first line
	inside := false
	var last byte // the sign of the line before
	for h := range strings.Lines(hunks) {
		text := h[1:]
		switch h[0] {
		case '@':
			from, ok := hunkStart(h)
			for ; ok && line < from; line++ {
				i := strings.IndexByte(rest, '\n')
				if i < 0 {
					return "", false
				}
				out.WriteString(rest[:i+1])
				rest = rest[i+1:]
			}
			if !ok {
				return "", false
			}
			inside = true
		case ' ', '-':
			// The last line of a file may lack its newline.
			if !inside || !strings.HasPrefix(rest, text) && rest != strings.TrimSuffix(text, "\n") || rest == "" {
				return "", false
			}
			taken := text
			if !strings.HasPrefix(rest, text) {
				taken = rest
			}
			if h[0] == ' ' {
				out.WriteString(taken)
			}
			rest = rest[len(taken):]
			line++
		case '+':
			if !inside {
				return "", false
			}
			out.WriteString(text)
		case '\\':
			if last == '+' {
				s := strings.TrimSuffix(out.String(), "\n")
				out.Reset()
				out.WriteString(s)
			}
		default:
			return "", false
		}
		last = h[0]
	}
	return out.String() + rest, true
}

// hunkStart reads the first old line of "@@ -3,4 +3,5 @@"; a hunk that only
// adds names the line before.
func hunkStart(h string) (int, bool) {
	rest, ok := strings.CutPrefix(h, "@@ -")
	if !ok {
		return 0, false
	}
	old, _, ok := strings.Cut(rest, " ")
	if !ok {
		return 0, false
	}
	first, count, counted := strings.Cut(old, ",")
	n, err := strconv.Atoi(first)
	if err != nil || n < 0 {
		return 0, false
	}
	if counted && count == "0" {
		n++
	}
	return n, true
}
