package ahp

import (
	"context"
	"errors"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
)

// The texts before and after an edit are what the core keeps of it, under
// names that say where: <scheme>://<state>/<session>/<chat>/<turn>/<part>/<edit>/<side>/<file name>.
// The last part is for editors, which choose a language by it.
const (
	editPrefix  = "ahp-edit://"
	editPending = "pending" // until the call is settled
	editSettled = "settled"
	sideBefore  = "before"
	sideAfter   = "after"
)

// spot is where a part is.
type spot struct{ chat, turn id.ID }

// editRef names one side of one edit of a call.
type editRef struct {
	git                       *gitRef // names a file in a commit instead
	pending                   bool
	session, chat, turn, part id.ID
	index                     int
	side                      string
	name                      string // "" names the folder that the text is in
}

func (e *editRef) uri() string {
	state := editSettled
	if e.pending {
		state = editPending
	}
	return editPrefix + strings.Join([]string{state, e.session.String(), e.chat.String(), e.turn.String(), e.part.String(),
		strconv.Itoa(e.index), e.side, url.PathEscape(e.name)}, "/")
}

// parseEdit reads such a name; false for any other.
func parseEdit(uri string) (*editRef, bool) {
	rest, ok := strings.CutPrefix(uri, editPrefix)
	if !ok {
		return nil, false
	}
	p := strings.Split(strings.TrimSuffix(rest, "/"), "/")
	if len(p) < 7 || len(p) > 8 || p[0] != editPending && p[0] != editSettled || p[6] != sideBefore && p[6] != sideAfter {
		return nil, false
	}
	e := &editRef{pending: p[0] == editPending, side: p[6]}
	for i, to := range []*id.ID{&e.session, &e.chat, &e.turn, &e.part} {
		u, err := id.Parse(p[1+i])
		if err != nil {
			return nil, false
		}
		*to = u
	}
	var err error
	if e.index, err = strconv.Atoi(p[5]); err != nil || e.index < 0 || e.index >= host.MaxEdits {
		return nil, false
	}
	if len(p) == 8 {
		if e.name, err = url.PathUnescape(p[7]); err != nil {
			return nil, false
		}
	}
	return e, true
}

// editOf finds the edit that a name means, and the text of its side.
func (f *Front) editOf(ctx context.Context, uri string, ref *editRef) (name, text string, err error) {
	if ref.git != nil {
		return f.changesets.fileOf(ctx, uri, ref.git)
	}
	s, err := f.host.Session(ctx, ref.session)
	if errors.Is(err, host.ErrNotFound) {
		return "", "", nothingAt(uri)
	} else if err != nil {
		return "", "", err
	}
	t, err := s.FindTurn(ctx, ref.chat, ref.turn)
	if errors.Is(err, host.ErrNotFound) {
		return "", "", nothingAt(uri)
	} else if err != nil {
		return "", "", err
	}
	p := t.Part(ref.part)
	if p == nil || p.Tool == nil || ref.index >= len(p.Tool.Edits) || ref.pending != (p.Tool.Status == event.CallPending) {
		return "", "", nothingAt(uri)
	}
	e := &p.Tool.Edits[ref.index]
	kept := e.Before
	if ref.side == sideAfter {
		kept = e.After
	}
	name = filepath.Base(e.Path)
	if kept == nil || ref.name != "" && ref.name != name {
		return "", "", nothingAt(uri)
	}
	return name, *kept, nil
}

// edit makes a change to a file. Before a person decides, the text before is
// the file as it is. A side whose text the core does not keep is the file, too.
func (r *renderer) edit(at spot, p *event.Part, index int, pending bool) fileEdit {
	e := &p.Tool.Edits[index]
	path := filepath.Clean(e.Path)
	ref := editRef{pending: pending, session: r.st.Info.ID, chat: at.chat, turn: at.turn, part: p.ID, index: index, name: filepath.Base(path)}
	side := func(name string, kept *string) *editSide {
		s := &editSide{URI: fileURI(path)}
		s.Content.URI = s.URI
		if kept != nil && (name == sideAfter || !pending) {
			ref.side = name
			s.Content = contentRef{URI: ref.uri(), SizeHint: int64(len(*kept))}
		}
		return s
	}
	f := fileEdit{Diff: &editStats{Added: e.Added, Removed: e.Removed}}
	if e.Kind != "create" {
		f.Before = side(sideBefore, e.Before)
	}
	if e.Kind != "delete" {
		f.After = side(sideAfter, e.After)
	}
	return f
}
