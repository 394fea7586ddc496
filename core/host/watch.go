package host

import (
	"context"
	"sync"

	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
)

// ChangeKind says what happened to a session in the list of sessions.
type ChangeKind int

const (
	Added ChangeKind = iota
	Changed
	Removed
)

// Change is the newest news of one session. Changes of a session that a
// watcher has not read yet are merged: it sees the newest summary.
type Change struct {
	Kind    ChangeKind
	Session id.ID
	Summary Summary
	// Reason is the newest cause: created, prompt, turn, approval,
	// question, renamed, closed, deleted, chat, activity or updated.
	Reason string
}

// Watch tells of changes in the list of sessions. It holds at most one change
// a session, and nobody waits for it.
type Watch struct {
	host *Host
	queue[Change]
	at map[id.ID]int // position in items, of what may be merged
}

// Watch begins to watch. List what is there after calling it.
func (h *Host) Watch() *Watch {
	w := &Watch{host: h, at: map[id.ID]int{}}
	w.init()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watchers[w] = struct{}{}
	if h.closing && h.ctx.Err() != nil {
		w.end()
	}
	return w
}

// Next returns the changes since the last call, at least one, in the order
// the sessions changed first. It returns ErrClosed when the host has stopped
// or the watch was closed.
func (w *Watch) Next(ctx context.Context) ([]Change, error) {
	return w.take(ctx, func() { clear(w.at) })
}

// Close ends the watch.
func (w *Watch) Close() {
	w.host.mu.Lock()
	delete(w.host.watchers, w)
	w.host.mu.Unlock()
	w.end()
}

func (w *Watch) push(c Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i, ok := w.at[c.Session]; ok {
		old := &w.items[i]
		if c.Kind == Changed && old.Kind == Added {
			c.Kind = Added // not read yet: still new
		}
		*old = c
		return
	}
	w.at[c.Session] = len(w.items)
	w.items = append(w.items, c)
	w.signal()
}

// Live is a session that came into memory, with the state from which its
// events follow.
type Live struct {
	Session *Session
	State   *state.State
}

// LiveWatch tells of every session that is or comes into memory.
type LiveWatch struct {
	host *Host
	queue[Live]
}

// WatchLive begins with the sessions that are live now.
func (h *Host) WatchLive() *LiveWatch {
	w := &LiveWatch{host: h}
	w.init()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lives[w] = struct{}{}
	for _, s := range h.live {
		w.push(Live{Session: s, State: s.State()})
	}
	return w
}

// Next returns the sessions that became live since the last call, at least
// one, or ErrClosed.
func (w *LiveWatch) Next(ctx context.Context) ([]Live, error) {
	return w.take(ctx, func() {})
}

// Close ends the watch.
func (w *LiveWatch) Close() {
	w.host.mu.Lock()
	delete(w.host.lives, w)
	w.host.mu.Unlock()
	w.end()
}

func (w *LiveWatch) push(l Live) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.items = append(w.items, l)
	w.signal()
}

// queue is a list with a wake-up, for one reader.
type queue[T any] struct {
	mu    sync.Mutex
	items []T
	wake  chan struct{}
	ended bool
}

func (q *queue[T]) init() { q.wake = make(chan struct{}, 1) }

func (q *queue[T]) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *queue[T]) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	q.signal()
}

func (q *queue[T]) take(ctx context.Context, reset func()) ([]T, error) {
	for {
		q.mu.Lock()
		items, ended := q.items, q.ended
		q.items = nil
		reset()
		q.mu.Unlock()
		if len(items) > 0 {
			return items, nil
		}
		if ended {
			return nil, ErrClosed
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// note indexes a session's new summary, and says what the watchers are to be
// told once the events behind it are stored; false for nothing. A private
// session is not announced; when its first turn starts it is added.
func (h *Host) note(sum *Summary, reason string) (Change, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	old := h.index[sum.Info.ID]
	if old == nil {
		return Change{}, false // deleted meanwhile
	}
	h.adoptLocked(sum)
	h.indexLocked(sum)
	kind := Changed
	if old.Private && !sum.Private {
		kind = Added
	}
	return Change{Kind: kind, Session: sum.Info.ID, Summary: *sum, Reason: reason}, !sum.Private
}

// announce tells the watchers.
func (h *Host) announce(c Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.index[c.Session] == nil {
		return // deleted meanwhile, and they know
	}
	for w := range h.watchers {
		w.push(c)
	}
}

// The reasons of changes.
const (
	reasonCreated  = "created"
	reasonPrompt   = "prompt"
	reasonTurn     = "turn"
	reasonApproval = "approval"
	reasonQuestion = "question"
	reasonRenamed  = "renamed"
	reasonClosed   = "closed"
	reasonDeleted  = "deleted"
	reasonChat     = "chat"
	reasonActivity = "activity"
	reasonUpdated  = "updated"
)
