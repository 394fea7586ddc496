package git

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"strings"
)

// Branch is where a working tree is.
type Branch struct {
	// Commit is the name of what is checked out; "" is nothing yet.
	Commit string
	// Name is the branch; "" is none.
	Name string
	// Upstream is the branch that it follows, as git names it; "" is none.
	Upstream string
	// Tracked says that there is such a branch; Ahead and Behind count commits
	// against it then.
	Tracked       bool
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
	// Stamp tells versions of the file apart; "" is none, or not looked at yet.
	Stamp string

	head string // the object that the last commit has of it, or of From
}

// Status reads what changed in the directory. Without counts, lines are not
// counted and files not stamped.
func (t *Tree) Status(ctx context.Context, counts bool) (*Status, error) {
	out, err := t.git.run(ctx, command{dir: t.Top, most: maxList, cut: true,
		args: t.scope("status", "--porcelain=v2", "-z", "--branch", "--untracked-files=all", "--renames", "--ignore-submodules=none")})
	if err != nil {
		return nil, t.refused(err)
	}
	s := parseStatus(out)
	s.Cut = s.Cut || len(out) == maxList
	if !counts {
		return s, nil
	}
	return s, t.Count(ctx, s)
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
			f.InHead, f.head = strings.Trim(p[3], "0") != "", p[6]
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
			f.From, f.Copied, f.head = string(from), strings.HasPrefix(p[8], "C"), p[6]
		case strings.HasPrefix(text, "u "):
			p := strings.SplitN(text, " ", 11)
			if len(p) < 11 || len(p[1]) != 2 || p[2] == "" {
				continue
			}
			f = entry(p[1], p[2], p[10])
			f.Staged, f.Unstaged, f.Conflict = false, true, true
			f.InHead, f.head = strings.Trim(p[4], "0") != "", p[8]
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
		b.Tracked = true
		b.Ahead, _ = strconv.Atoi(strings.TrimPrefix(ahead, "+"))
		b.Behind, _ = strconv.Atoi(strings.TrimPrefix(behind, "-"))
	}
}
