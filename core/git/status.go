package git

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Branch is where a working tree is.
type Branch struct {
	// Commit is the name of what is checked out; "" is nothing yet.
	Commit string
	// Name is the branch; "" is none.
	Name string
	// Upstream is the branch that it follows, as git names it; "" is none.
	Upstream string
	// Ahead and Behind count commits against Upstream.
	Ahead, Behind int
}

// Status is what differs from the last commit.
type Status struct {
	Branch Branch
	// Files are in the order of their paths.
	Files []File
	// Cut says that there are more than MaxFiles.
	Cut bool
}

// File is a changed file.
type File struct {
	// Path is relative to the top of the working tree, as bytes.
	Path string
	// From is the path that it was renamed or copied from, or "".
	From string
	// Copied says that From is still there.
	Copied bool
	// Staged and Unstaged say which of the index and the working tree have a
	// change of it; both may.
	Staged, Unstaged bool
	// Tracked says that the index has it, or the last commit has.
	Tracked bool
	// InHead says that the last commit has the path; Gone that the working
	// tree does not.
	InHead, Gone bool
	// Conflict is one that a merge left; Submodule a repository of its own.
	Conflict, Submodule bool
	// Added and Removed count lines; both are 0 for what is not text.
	Added, Removed int
}

// Status reads what changed in the directory. Without counts, lines are not
// counted, which takes half the time.
func (t *Tree) Status(ctx context.Context, counts bool) (*Status, error) {
	out, err := t.git.run(ctx, command{dir: t.Top, most: maxList, cut: true,
		args: t.scope("status", "--porcelain=v2", "-z", "--branch", "--untracked-files=all", "--renames", "--ignore-submodules=none")})
	if err != nil {
		return nil, t.refused(err)
	}
	s := parseStatus(out)
	s.Cut = s.Cut || len(out) == maxList
	if !counts || len(s.Files) == 0 {
		return s, nil
	}
	return s, t.count(ctx, s)
}

// parseStatus reads what git says with --porcelain=v2 -z. An entry that it
// does not know, or that was cut off, is passed over.
func parseStatus(out []byte) *Status {
	s := &Status{}
	at := map[string]int{}
	for len(out) > 0 {
		line, rest, whole := bytes.Cut(out, []byte{0})
		if !whole {
			break
		}
		out = rest
		var f File
		switch text := string(line); {
		case strings.HasPrefix(text, "# "):
			s.Branch.note(text[2:])
			continue
		case strings.HasPrefix(text, "? "):
			f = File{Path: text[2:], Unstaged: true}
			if i, known := at[f.Path]; known { // taken out of the index, and still there
				s.Files[i].Unstaged, s.Files[i].Gone = true, false
				continue
			}
		case strings.HasPrefix(text, "1 "):
			p := strings.SplitN(text, " ", 9)
			if len(p) < 9 || len(p[1]) != 2 || p[2] == "" {
				continue
			}
			f = entry(p[1], p[2], p[8])
			f.InHead = strings.Trim(p[3], "0") != ""
		case strings.HasPrefix(text, "2 "):
			p := strings.SplitN(text, " ", 10)
			from, rest, whole := bytes.Cut(out, []byte{0})
			if !whole {
				return s
			}
			out = rest
			if len(p) < 10 || len(p[1]) != 2 || p[2] == "" {
				continue
			}
			f = entry(p[1], p[2], p[9])
			f.From, f.Copied = string(from), strings.HasPrefix(p[8], "C")
		case strings.HasPrefix(text, "u "):
			p := strings.SplitN(text, " ", 11)
			if len(p) < 11 || len(p[1]) != 2 || p[2] == "" {
				continue
			}
			f = entry(p[1], p[2], p[10])
			f.Staged, f.Unstaged, f.Conflict = false, true, true
			f.InHead = strings.Trim(p[4], "0") != ""
			f.Gone = strings.Trim(p[6], "0") == ""
		default:
			continue
		}
		if f.Path == "" || strings.HasSuffix(f.Path, "/") { // a repository of its own that nobody added
			continue
		}
		if len(s.Files) == MaxFiles {
			s.Cut = true
			break
		}
		at[f.Path] = len(s.Files)
		s.Files = append(s.Files, f)
	}
	slices.SortFunc(s.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return s
}

func entry(xy, sub, path string) File {
	return File{Path: path, Staged: xy[0] != '.', Unstaged: xy[1] != '.', Tracked: true, Submodule: sub[0] == 'S',
		Gone: xy[1] == 'D' || xy[0] == 'D' && xy[1] == '.'}
}

func (b *Branch) note(line string) {
	key, value, _ := strings.Cut(line, " ")
	switch key {
	case "branch.oid":
		if IsCommit(value) {
			b.Commit = value
		}
	case "branch.head":
		if value != "(detached)" {
			b.Name = value
		}
	case "branch.upstream":
		b.Upstream = value
	case "branch.ab":
		ahead, behind, _ := strings.Cut(value, " ")
		b.Ahead, _ = strconv.Atoi(strings.TrimPrefix(ahead, "+"))
		b.Behind, _ = strconv.Atoi(strings.TrimPrefix(behind, "-"))
	}
}

// count notes how many lines of each file changed.
func (t *Tree) count(ctx context.Context, s *Status) error {
	base := s.Branch.Commit
	if base == "" {
		out, err := t.look(ctx, maxAnswer, "hash-object", "-t", "tree", "--stdin")
		if err != nil {
			return t.refused(err)
		}
		base = strings.TrimSpace(string(out))
	}
	out, err := t.git.run(ctx, command{dir: t.Top, most: maxList, cut: true,
		args: t.scope("diff", "--numstat", "-z", "--find-renames", "--no-ext-diff", "--no-textconv", base)})
	if err != nil {
		return t.refused(err)
	}
	counted := parseCounts(out)
	root, err := os.OpenRoot(t.Top)
	if err != nil {
		return err
	}
	defer root.Close()
	left := maxCounted
	for i := range s.Files {
		f := &s.Files[i]
		if c, ok := counted[f.Path]; ok {
			f.Added, f.Removed = c[0], c[1]
		} else if !f.Tracked && left > 0 {
			n, lines := countLines(root, f.Path)
			f.Added = lines
			left -= n
		}
	}
	return ctx.Err()
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
