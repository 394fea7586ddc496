package ahp

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/git"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
)

// read makes the files and the operations of a changeset as they are now.
func (s *changesets) read(ctx context.Context, c *changeset, repo *follower) ([]changesetFile, []changesetOperation, error) {
	sum, ok := s.front.host.Summary(c.session)
	if !ok {
		return nil, nil, host.ErrNotFound
	}
	switch c.scope {
	case scopeSession:
		files, err := s.edited(ctx, c)
		return files, s.sessionVerbs(&sum, len(files)), err
	case scopeTurn, scopeCompare:
		files, err := s.edited(ctx, c)
		return files, nil, err
	}
	known := s.front.facts.of(c.dir)
	tree, status, err := repo.read(ctx)
	if err == nil {
		err = tree.Stamp(status)
	}
	if err != nil {
		return nil, nil, err
	}
	ops := append(s.gitVerbs(&sum, status), s.branchVerbs(&sum, known, false)...)
	if tree.Uncounted(status) > countApart { // the files are told before their lines
		files := s.changed(c, tree, status)
		for i := range files {
			files[i].Edit.Diff = nil
		}
		s.settle(c, files, slices.Clone(ops), nil)
	}
	if err := tree.Count(ctx, status); err != nil {
		return nil, nil, err
	}
	return s.changed(c, tree, status), ops, nil
}

// changed makes the rows of a status.
func (s *changesets) changed(c *changeset, tree *git.Tree, status *git.Status) []changesetFile {
	files := make([]changesetFile, 0, len(status.Files))
	for i := range status.Files {
		if f, ok := s.uncommitted(c, tree, status, &status.Files[i]); ok {
			files = append(files, f)
		}
	}
	return files
}

// uncommitted makes the row of a changed file; false for one that is on
// neither side, as what was staged and then deleted.
func (s *changesets) uncommitted(c *changeset, tree *git.Tree, status *git.Status, f *git.File) (changesetFile, bool) {
	path := filepath.Join(tree.Top, f.Path)
	uri := fileURI(path)
	if s.front.files.Fenced(path) {
		return changesetFile{}, false
	}
	row := changesetFile{ID: uri, Edit: fileEdit{Diff: &editStats{f.Added, f.Removed}}, stamp: f.Stamp,
		Meta: map[string]bool{"ahpd.staged": f.Staged, "ahpd.unstaged": f.Unstaged}}
	ref := gitRef{session: c.session, commit: status.Branch.Commit, path: f.Path}
	was := uri
	if f.From != "" {
		ref.path = f.From
		if !f.Copied {
			was = fileURI(filepath.Join(tree.Top, f.From))
		}
	}
	if ref.commit != "" && (f.InHead || f.From != "") {
		row.Edit.Before = &editSide{URI: was, Content: contentRef{URI: ref.uri()}}
	}
	if !f.Gone {
		row.Edit.After = &editSide{URI: uri, Content: contentRef{URI: uri}}
	}
	return row, row.Edit.Before != nil || row.Edit.After != nil
}

// stampOf tells versions of a file apart.
func stampOf(path string) string {
	info, err := os.Lstat(path)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%d-%d", info.ModTime().UnixNano(), info.Size())
}

// span is what a run of turns did to one file: its first edit and its last.
type span struct {
	path           string
	before, after  editRef
	first, last    *event.FileEdit
	added, removed int
}

// spans finds what the calls of turns edited, by path.
func spans(session id.ID, turns []turnAt) map[string]*span {
	found := map[string]*span{}
	for _, d := range turns {
		for _, p := range d.turn.Parts {
			if p.Tool == nil || p.Tool.Status != event.CallDone {
				continue
			}
			for i := range p.Tool.Edits {
				e := &p.Tool.Edits[i]
				path := filepath.Clean(e.Path)
				ref := editRef{session: session, chat: d.chat.ID, turn: d.turn.ID, part: p.ID, index: i, name: filepath.Base(path)}
				x := found[path]
				if x == nil {
					x = &span{path: path, first: e, before: ref}
					x.before.side = sideBefore
					found[path] = x
				}
				x.last, x.after = e, ref
				x.after.side = sideAfter
				x.added += e.Added
				x.removed += e.Removed
			}
		}
	}
	return found
}

// edited makes the rows of what agents edited: from what they found to what
// they left, which for the whole session is what is there now.
func (s *changesets) edited(ctx context.Context, c *changeset) ([]changesetFile, error) {
	turns, err := s.stretch(ctx, &c.scoped)
	if err != nil {
		return nil, err
	}
	found := spans(c.session, turns)
	rows := make([]changesetFile, 0, len(found))
	for _, x := range found {
		uri := fileURI(x.path)
		row := changesetFile{ID: uri, Edit: fileEdit{Diff: &editStats{x.added, x.removed}}, stamp: stampOf(x.path)}
		if x.first.Kind != "create" {
			row.Edit.Before = &editSide{URI: uri, Content: contentRef{URI: uri}}
			if x.first.Before != nil {
				row.Edit.Before.Content = contentRef{URI: x.before.uri(), SizeHint: int64(len(*x.first.Before))}
			}
		}
		there := row.stamp != "" && !s.front.files.Fenced(x.path)
		if c.scope == scopeSession {
			if there {
				row.Edit.After = &editSide{URI: uri, Content: contentRef{URI: uri}}
			}
		} else if row.stamp = ""; x.last.Kind != "delete" {
			switch {
			case x.last.After != nil:
				row.Edit.After = &editSide{URI: uri, Content: contentRef{URI: x.after.uri(), SizeHint: int64(len(*x.last.After))}}
			case there: // what it was then is not kept
				row.Edit.After = &editSide{URI: uri, Content: contentRef{URI: uri}}
			}
		}
		if row.Edit.Before != nil || row.Edit.After != nil {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b changesetFile) int { return cmp.Compare(a.ID, b.ID) })
	return rows[:min(len(rows), git.MaxFiles)], nil
}
