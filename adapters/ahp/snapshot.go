package ahp

import (
	"context"
	"path/filepath"
	"strconv"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
)

// taken is a snapshot with where its channel goes on.
type taken struct {
	snapshot
	ch   *channel
	pos  uint64 // of the first frame that is not in the snapshot
	held held
}

// take makes a snapshot of a channel as it is now. turns is how many finished
// turns of a chat it should have.
func (f *Front) take(ctx context.Context, uri string, turns int) (taken, error) {
	if uri == rootURI {
		return f.root.take(), nil
	}
	if s := f.service(uri); s != nil {
		return s.take(ctx, uri)
	}
	p, err := f.find(ctx, uri)
	if err != nil {
		return taken{}, err
	}
	for {
		l, err := f.project(ctx, p.session)
		if err != nil {
			return taken{}, err
		}
		t, gone, err := l.snapshot(ctx, uri, p, turns)
		if !gone {
			return t, err
		}
		if err := ctx.Err(); err != nil {
			return taken{}, err
		}
	}
}

// snapshot makes the snapshot of one of the session's channels. gone says that the
// projection ended meanwhile and another one must be asked.
func (l *live) snapshot(ctx context.Context, uri string, p place, limit int) (t taken, gone bool, err error) {
	var turns []*state.Turn
	count, cuts := -1, 0
	for {
		l.mu.Lock()
		if l.gone {
			l.mu.Unlock()
			return t, true, nil
		}
		if p.chat.IsNil() {
			break
		}
		c := l.st.Chat(p.chat)
		if c == nil {
			l.mu.Unlock()
			return t, false, notFound(uri)
		}
		if c.Count == count && c.Cuts == cuts {
			break
		}
		count, cuts = c.Count, c.Cuts
		sess := l.sess
		l.mu.Unlock()
		// Finished turns are read without the lock: only the last one may
		// change, if it is resumed.
		if turns, err = sess.Turns(ctx, p.chat, count, limit); err != nil {
			return t, false, err
		}
	}
	defer l.mu.Unlock()
	turns = l.withLast(p.chat, turns, limit)
	s := l.stream(uri, p)
	r := l.renderer(p.speller)
	t.ch, t.held = s.ch, held{ch: s.ch, session: l.id, chat: p.chat}
	t.Resource = uri
	if len(turns) > 0 {
		s.first = max(s.first, turns[0].Number)
	}
	if p.chat.IsNil() {
		t.State = l.sessionState(r)
	} else {
		t.State = l.chatState(r, uri, l.st.Chat(p.chat), turns)
	}
	t.FromSeq, t.pos = l.front.journal.promise(t.ch)
	return t, false, nil
}

// withLast has finished turns of a chat end as they did at the projection's
// position: the session may be ahead of it and have resumed the last one.
func (l *live) withLast(chat id.ID, turns []*state.Turn, limit int) []*state.Turn {
	c := l.st.Chat(chat)
	if c == nil || len(c.Turns) == 0 {
		return turns
	}
	last := c.Turns[len(c.Turns)-1]
	if last.Resumable {
		limit = max(limit, 1) // clients make it the running turn again
	}
	n := len(turns)
	for n > 0 && turns[n-1].Number >= last.Number {
		n--
	}
	turns = append(turns[:n:n], last)
	return turns[max(0, len(turns)-limit):]
}

func (l *live) sessionState(r *renderer) sessionState {
	info := &l.st.Info
	s := sessionState{Provider: info.Backend, Title: info.Title, Status: r.sessionStatus(), Activity: l.doing, Origin: sessionOriginOf(info), WorkingDirectories: dirURIs(info.Dirs),
		ActiveClients: l.activeClients(), Chats: []chatSummary{}, DefaultChat: r.chatURI(l.st.Default),
		Config: l.front.configOf(info), Customizations: l.customized, ServerTools: l.tools, Annotations: l.front.annotations.summary(l.id, r.speller.session), Changesets: catalogue(r.speller.session, l.repository),
		Meta: l.front.stateMeta(l.st)}
	s.Lifecycle, s.CreationError = lifecycle(info)
	for _, c := range l.st.Chats {
		s.Chats = append(s.Chats, r.head(c, l.chatView(c.ID).read).summary())
	}
	for _, i := range l.st.Open {
		if n := r.needs(i); n != nil {
			s.InputNeeded = append(s.InputNeeded, *n)
		}
	}
	return s
}

// lifecycle is how far a session's making is. One that a client asked for does
// not fail later: its turn does, and the next one may find an agent. Of one
// that an automation asked for nobody else hears.
func lifecycle(info *event.SessionInfo) (string, *errorInfo) {
	var failed *errorInfo
	if info.MakeError != nil && sessionOriginOf(info) != nil {
		failed = &errorInfo{ErrorType: info.MakeError.Code, Message: info.MakeError.Message}
	}
	switch {
	case info.Unmade && failed != nil:
		return "failed", failed
	case info.Provisional, info.Making, info.Unmade:
		return "creating", failed
	}
	return "ready", failed
}

func (l *live) chatState(r *renderer, uri string, c *state.Chat, turns []*state.Turn) chatState {
	s := chatState{chatHead: r.head(c, l.chatView(c.ID).read), Turns: make([]turnShape, len(turns)), Draft: draft(c.Draft), BackgroundWork: r.work(c.Work)}
	s.Resource = uri
	for i, t := range turns {
		s.Turns[i] = r.finished(c.ID, t)
	}
	s.TurnsNextCursor = olderThan(turns)
	if c.Active != nil {
		s.ActiveTurn = r.running(c.ID, c.Active)
	}
	if n := len(c.Steering); n > 0 {
		m := &c.Steering[n-1]
		s.SteeringMessage = &pendingMessage{messageID(m), message(m)}
	}
	for i := range c.Queue {
		s.QueuedMessages = append(s.QueuedMessages, pendingMessage{messageID(&c.Queue[i]), message(&c.Queue[i])})
	}
	return s
}

// olderThan is the cursor of what comes before turns; "" is nothing.
func olderThan(turns []*state.Turn) string {
	if len(turns) == 0 || turns[0].Number == 0 {
		return ""
	}
	return strconv.Itoa(turns[0].Number)
}

// row makes a session of the list, without what it does.
func (f *Front) row(sum *host.Summary, uri string) sessionRow {
	info := &sum.Info
	sp := speller{uri}
	r := sessionRow{Resource: uri, Provider: info.Backend, Title: info.Title, Status: status(sum.Status, info.Unread, info.Archived), Activity: sum.Activity,
		Origin: sessionOriginOf(info), CreatedAt: stamp(info.CreatedAt), ModifiedAt: stamp(sum.ModifiedAt), WorkingDirectories: dirURIs(info.Dirs),
		DefaultChat: sp.chat(sum.Default, sum.Default, nil), Meta: f.rowMeta(info)}
	if len(info.Dirs) > 0 {
		r.Project = &projectInfo{fileURI(info.Dirs[0]), filepath.Base(info.Dirs[0])}
	}
	for i := range sum.Chats {
		c := &sum.Chats[i]
		if c.Info.ID == sum.Default {
			r.DefaultChat = sp.chat(sum.Default, sum.Default, c.Info.Aliases)
		}
		r.Chats = append(r.Chats, chatRow{Resource: sp.chat(c.Info.ID, sum.Default, c.Info.Aliases), Title: chatTitle(&c.Info, info, sum.Default), Origin: originOf(c.Info.Origin, sp, sum.Default),
			Interactivity: interactivity(c.Info.Origin), Status: status(c.Status, c.Info.Unread, c.Info.Archived)})
	}
	return r
}

// statusRuns is the bit that says that a turn runs.
const statusRuns = 8

// status makes the bits of a summary.
func status(s host.Status, unread, archived bool) uint32 {
	bits := uint32(1)
	switch s {
	case host.Running:
		bits = 8
	case host.AwaitingApproval, host.AwaitingQuestion:
		bits = 24
	case host.Failed:
		bits = 2
	}
	if !unread {
		bits |= 32
	}
	if archived {
		bits |= 64
	}
	return bits
}
