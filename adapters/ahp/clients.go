package ahp

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
)

// client is a peer across its connections.
type client struct {
	id     string
	as     atomic.Pointer[event.Actor] // changes when it connects under another name
	conns  int
	leftAt time.Time // zero while connected
	// member are the sessions it is active in, private the ones it made that
	// nobody has used yet.
	member  map[id.ID]bool
	private map[id.ID]bool
	// copying has a place for each of its plugins that is copied now.
	copying chan struct{}
}

func (c *client) actor() event.Actor { return *c.as.Load() }

// remember makes a client known, or takes it up again. It reports whether it
// was known.
func (f *Front) remember(c *conn, clientID, name string, create bool) (*client, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	cl, known := f.clients[clientID]
	if !known {
		if !create {
			return nil, false
		}
		if len(f.clients) >= maxClients {
			f.forgetOldest()
		}
		cl = &client{id: clientID, member: map[id.ID]bool{}, private: map[id.ID]bool{}, copying: make(chan struct{}, copiesOfOne)}
		f.clients[clientID] = cl
	}
	if name != "" || !known {
		cl.as.Store(&event.Actor{Front: front, Client: clientID, Name: name})
	}
	cl.conns++
	cl.leftAt = time.Time{}
	return cl, known
}

// forgetOldest drops the client that left first; the caller holds mu.
func (f *Front) forgetOldest() {
	var oldest *client
	for _, c := range f.clients {
		if c.conns == 0 && len(c.member)+len(c.private) == 0 && (oldest == nil || c.leftAt.Before(oldest.leftAt)) {
			oldest = c
		}
	}
	if oldest != nil {
		delete(f.clients, oldest.id)
	}
}

// sweep takes leave of clients that dropped and did not come back.
func (f *Front) sweep() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			f.sweepAt(time.Now())
		case <-f.ctx.Done():
			return
		}
	}
}

func (f *Front) sweepAt(now time.Time) {
	type leaving struct {
		client  *client
		member  []id.ID
		private []id.ID
	}
	var gone []leaving
	f.mu.Lock()
	for key, c := range f.clients {
		if c.conns > 0 || now.Sub(c.leftAt) < clientGrace {
			continue
		}
		if len(c.member)+len(c.private) > 0 {
			gone = append(gone, leaving{c, keys(c.member), keys(c.private)})
			clear(c.member)
			clear(c.private)
		}
		if now.Sub(c.leftAt) > clientMemory {
			delete(f.clients, key)
		}
	}
	f.mu.Unlock()
	for _, shell := range f.abandoned(now) {
		f.wg.Go(func() { f.host.Terminals().Remove(shell) })
	}
	ctx, cancel := context.WithTimeout(f.ctx, leaveWithin)
	defer cancel()
	for _, g := range gone {
		for _, sid := range g.member {
			f.leave(ctx, sid, g.client)
		}
		for _, sid := range g.private {
			f.discard(ctx, sid)
		}
	}
}

// leave takes a client out of a session: its tools go and its calls fail.
func (f *Front) leave(ctx context.Context, sid id.ID, c *client) {
	l, err := f.project(ctx, sid)
	if err != nil {
		if !errors.Is(err, host.ErrNotFound) {
			f.log.Warn("A client could not be taken out of its session", "session", sid.String(), "err", err)
		}
		return
	}
	if !l.removeClient(c.id, nil) {
		return
	}
	if err := l.session().ClientGone(ctx, c.actor()); err != nil && !errors.Is(err, host.ErrNotFound) {
		f.log.Warn("The tools of a client could not be taken back", "session", sid.String(), "err", err)
	}
}

// discard removes a session that its client made and nobody used.
func (f *Front) discard(ctx context.Context, sid id.ID) {
	s, err := f.host.Session(ctx, sid)
	if err == nil {
		var gone bool
		if gone, err = s.DiscardIfUnused(ctx); gone {
			f.worktrees.left(f.ctx, sid)
		}
	}
	if err != nil && !errors.Is(err, host.ErrNotFound) {
		f.log.Warn("An unused session could not be removed", "session", sid.String(), "err", err)
	}
}

// spellings are the connections that call a session by another name.
func (f *Front) spellings(session id.ID, usual string) map[*conn]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out map[*conn]string
	for c := range f.conns {
		if name := c.spelling(session); name != "" && name != usual {
			if out == nil {
				out = map[*conn]string{}
			}
			out[c] = name
		}
	}
	return out
}

// setClient announces a client in the session, with its plugins. It reports
// whether anything changed.
func (l *live) setClient(cl *client, a *announcement, o *origin) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone {
		return false
	}
	i := slices.IndexFunc(l.clients, func(c activeClient) bool { return c.id == cl.id })
	if i >= 0 && string(l.clients[i].raw) == string(a.raw) {
		if slices.ContainsFunc(l.clients[i].plugs, l.front.plugins.gaveUp) { // it is back
			l.replug(&l.clients[i], cl, a.plugins)
			l.customize()
		}
		return false
	}
	if i < 0 {
		i = len(l.clients)
		l.clients = append(l.clients, activeClient{id: cl.id})
	}
	l.clients[i].raw = a.raw
	l.sayClient(a.raw, o)
	l.replug(&l.clients[i], cl, a.plugins)
	l.customize()
	return true
}

func (l *live) sayClient(raw json.RawMessage, o *origin) {
	l.say(id.Nil, o, func(*renderer) any { return map[string]any{"type": "session/activeClientSet", "activeClient": raw} })
}

// removeClient takes a client out of the list. It reports whether it was in.
func (l *live) removeClient(clientID string, o *origin) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.clients {
		if l.clients[i].id == clientID {
			left := l.clients[i]
			l.clients = append(l.clients[:i:i], l.clients[i+1:]...)
			l.say(id.Nil, o, func(*renderer) any {
				return map[string]any{"type": "session/activeClientRemoved", "clientId": clientID}
			})
			l.unplug(&left)
			l.customize()
			return true
		}
	}
	return false
}
