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
	"github.com/polyhost/polyhost/core/state"
)

// read makes the files and the operations of a changeset as they are now.
func (s *changesets) read(ctx context.Context, c *changeset) ([]changesetFile, []changesetOperation, error) {
	sum, ok := s.front.host.Summary(c.session)
	if !ok {
		return nil, nil, host.ErrNotFound
	}
	if c.scope == scopeSession {
		files, err := s.edited(ctx, c)
		return files, s.sessionVerbs(&sum, len(files)), err
	}
	tree, err := s.git.Open(ctx, c.dir)
	if err != nil {
		return nil, nil, err
	}
	status, err := tree.Status(ctx, true)
	if err != nil {
		return nil, nil, err
	}
	files := make([]changesetFile, 0, len(status.Files))
	for i := range status.Files {
		if f, ok := s.uncommitted(c, tree, status, &status.Files[i]); ok {
			files = append(files, f)
		}
	}
	return files, s.gitVerbs(&sum, status), nil
}

// uncommitted makes the row of a changed file; false for one that is on
// neither side, as what was staged and then deleted.
func (s *changesets) uncommitted(c *changeset, tree *git.Tree, status *git.Status, f *git.File) (changesetFile, bool) {
	path := filepath.Join(tree.Top, f.Path)
	uri := fileURI(path)
	if s.front.files.Fenced(path) {
		return changesetFile{}, false
	}
	row := changesetFile{ID: uri, Edit: fileEdit{Diff: &editStats{f.Added, f.Removed}}, stamp: stampOf(path),
		Meta: map[string]bool{"polyhost.staged": f.Staged, "polyhost.unstaged": f.Unstaged}}
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

// span is what a session did to one file: its first edit and its last.
type span struct {
	path           string
	order          int
	before         editRef
	first, last    *event.FileEdit
	added, removed int
}

// spans finds what the calls of a session's turns edited, by path.
func (s *changesets) spans(ctx context.Context, c *scoped) (map[string]*span, error) {
	sess, err := s.front.host.Session(ctx, c.session)
	if err != nil {
		return nil, err
	}
	st := sess.State()
	type done struct {
		chat *state.Chat
		turn *state.Turn
	}
	var all []done
	for _, chat := range st.Chats {
		turns, err := sess.Turns(ctx, chat.ID, chat.Count, maxChangesetTurns)
		if err != nil {
			return nil, err
		}
		for _, t := range turns {
			all = append(all, done{chat, t})
		}
		if chat.Active != nil {
			all = append(all, done{chat, chat.Active})
		}
	}
	slices.SortStableFunc(all, func(a, b done) int { return cmp.Compare(a.turn.StartedAt.UnixNano(), b.turn.StartedAt.UnixNano()) })
	found := map[string]*span{}
	for _, d := range all {
		for _, p := range d.turn.Parts {
			if p.Tool == nil || p.Tool.Status != event.CallDone {
				continue
			}
			for i := range p.Tool.Edits {
				e := &p.Tool.Edits[i]
				path := filepath.Clean(e.Path)
				x := found[path]
				if x == nil {
					x = &span{path: path, order: len(found), first: e, before: editRef{session: c.session, chat: d.chat.ID, turn: d.turn.ID,
						part: p.ID, index: i, side: sideBefore, name: filepath.Base(path)}}
					found[path] = x
				}
				x.last = e
				x.added += e.Added
				x.removed += e.Removed
			}
		}
	}
	return found, nil
}

// edited makes the rows of what a session's agents edited: from what they
// found to what is there now.
func (s *changesets) edited(ctx context.Context, c *changeset) ([]changesetFile, error) {
	found, err := s.spans(ctx, &c.scoped)
	if err != nil {
		return nil, err
	}
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
		if row.stamp != "" && !s.front.files.Fenced(x.path) {
			row.Edit.After = &editSide{URI: uri, Content: contentRef{URI: uri}}
		}
		if row.Edit.Before != nil || row.Edit.After != nil {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b changesetFile) int { return cmp.Compare(a.ID, b.ID) })
	return rows[:min(len(rows), git.MaxFiles)], nil
}
