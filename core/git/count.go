package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// tally remembers the counted lines of a working tree: most files of a status
// are as they were in the one before.
type tally struct {
	mu    sync.Mutex // held while lines are counted
	known map[string]lines
}

// lines are those of one version of a file, against one of the last commit's.
type lines struct {
	head, from, stamp string
	added, removed    int
}

// Stamp notes which versions of the files there are.
func (t *Tree) Stamp(s *Status) error {
	root, err := os.OpenRoot(t.Top)
	if err != nil {
		return err
	}
	defer root.Close()
	for i := range s.Files {
		s.Files[i].Stamp = stampOf(root, s.Files[i].Path)
	}
	return nil
}

func stampOf(root *os.Root, path string) string {
	info, err := root.Lstat(path)
	if err != nil {
		return ""
	}
	stamp := strconv.FormatInt(info.ModTime().UnixNano(), 36) + "-" + strconv.FormatInt(info.Size(), 36)
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		stamp += fmt.Sprintf("-%x-%x", sys.Ino, sys.Ctim.Nano())
	}
	return stamp
}

// Uncounted tells of how many files Count would have to look at the content.
// They must be stamped.
func (t *Tree) Uncounted(s *Status) (n int) {
	t.tally.mu.Lock()
	defer t.tally.mu.Unlock()
	for i := range s.Files {
		if _, known := t.tally.of(&s.Files[i]); !known {
			n++
		}
	}
	return n
}

func (t *tally) of(f *File) (lines, bool) {
	l, ok := t.known[f.Path]
	return l, ok && l.head == f.head && l.from == f.From && l.stamp == f.Stamp
}

// Count stamps the files, and notes how many lines of each changed.
func (t *Tree) Count(ctx context.Context, s *Status) error {
	t.tally.mu.Lock()
	defer t.tally.mu.Unlock()
	if err := t.Stamp(s); err != nil {
		return err
	}
	// What was written this moment may be written again under the same stamp.
	settled := time.Now().Add(-settledAfter)
	var fresh []*File
	known := make(map[string]lines, len(s.Files))
	for i := range s.Files {
		f := &s.Files[i]
		if l, ok := t.tally.of(f); ok {
			f.Added, f.Removed = l.added, l.removed
			known[f.Path] = l
		} else {
			fresh = append(fresh, f)
		}
	}
	if len(fresh) > 0 {
		if err := t.count(ctx, s, fresh); err != nil {
			return err
		}
	}
	root, err := os.OpenRoot(t.Top)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, f := range fresh {
		if info, err := root.Lstat(f.Path); err != nil || info.ModTime().Before(settled) {
			known[f.Path] = lines{f.head, f.From, f.Stamp, f.Added, f.Removed}
		}
	}
	t.tally.known = known
	return ctx.Err()
}

// count counts the lines of files.
func (t *Tree) count(ctx context.Context, s *Status, files []*File) error {
	base := s.Branch.Commit
	if base == "" {
		out, err := t.look(ctx, maxAnswer, "hash-object", "-t", "tree", "--stdin")
		if err != nil {
			return t.refused(err)
		}
		base = strings.TrimSpace(string(out))
	}
	// Unlike diff, diff-index does not look first whether files that were only
	// touched are what the index has, which takes as long as the counting.
	args := []string{"diff-index", "--numstat", "-z", "--find-renames", "--no-ext-diff", "--no-textconv", base}
	if only := tracked(files); len(only) > 0 {
		if len(strings.Join(only, "")) <= maxPathspec {
			args = append(append(args, "--"), only...)
		} else {
			args = t.scope(args...)
		}
		out, err := t.git.run(ctx, command{dir: t.Top, most: maxList, cut: true, args: args})
		if err != nil {
			return t.refused(err)
		}
		counted := parseCounts(out)
		for _, f := range files {
			c := counted[f.Path]
			f.Added, f.Removed = c[0], c[1]
		}
	}
	root, err := os.OpenRoot(t.Top)
	if err != nil {
		return err
	}
	defer root.Close()
	left := maxCounted
	for _, f := range files {
		if !f.Tracked && left > 0 {
			n, lines := countLines(root, f.Path)
			f.Added = lines
			left -= n
		}
	}
	return nil
}

// tracked are the paths of files that git has something of.
func tracked(files []*File) (paths []string) {
	for _, f := range files {
		if f.Tracked {
			paths = append(paths, f.Path)
			if f.From != "" {
				paths = append(paths, f.From)
			}
		}
	}
	return paths
}

// parseCounts reads what git says with --numstat -z, by the path that is now.
func parseCounts(out []byte) map[string][2]int {
	counted := map[string][2]int{}
	next := func() (string, bool) {
		word, rest, whole := bytes.Cut(out, []byte{0})
		out = rest
		return string(word), whole
	}
	for {
		line, whole := next()
		if !whole {
			return counted
		}
		p := strings.SplitN(line, "\t", 3)
		if len(p) < 3 {
			continue
		}
		if p[2] == "" { // a rename: both paths follow
			next()
			if p[2], whole = next(); !whole {
				return counted
			}
		}
		added, err := strconv.Atoi(p[0])
		removed, err2 := strconv.Atoi(p[1])
		if errors.Join(err, err2) == nil { // "-" is what is not text
			counted[p[2]] = [2]int{added, removed}
		}
	}
}

// countLines counts the lines of a new text file, and tells how much it read.
func countLines(root *os.Root, path string) (read, lines int) {
	info, err := root.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxCount {
		return 0, 0
	}
	f, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return 0, 0
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxCount))
	if err != nil || bytes.IndexByte(b[:min(len(b), 8000)], 0) >= 0 {
		return len(b), 0
	}
	lines = bytes.Count(b, []byte("\n"))
	if len(b) > 0 && b[len(b)-1] != '\n' {
		lines++
	}
	return len(b), lines
}
