package zidane

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/polyhost/polyhost/core/id"
)

// presence knows which sessions are looked at, run and want a person.
type presence struct {
	dirty chan struct{} // holds one token when something may have changed

	mu      sync.Mutex
	windows map[*conn][]window
	states  map[id.ID]sessionFlags // by the id on the wire; only those with a flag
}

type window struct {
	SessionID *string `json:"sessionId"`
	Focused   bool    `json:"focused"`
}

// sessionFlags are whether a run goes, and how many people are asked for.
type sessionFlags struct {
	running bool
	asking  int
}

// presenceRow is a session that somebody looks at, that runs or that waits.
type presenceRow struct {
	SessionID string `json:"sessionId"`
	Windows   int    `json:"windows"`
	Running   bool   `json:"running"`
	Attention bool   `json:"attention"`
}

func newPresence() *presence {
	return &presence{dirty: make(chan struct{}, 1), windows: map[*conn][]window{}, states: map[id.ID]sessionFlags{}}
}

func (p *presence) touch() {
	select {
	case p.dirty <- struct{}{}:
	default:
	}
}

// change lets f change the flags of a session.
func (p *presence) change(wire id.ID, f func(*sessionFlags)) {
	p.mu.Lock()
	flags := p.states[wire]
	if f(&flags); flags == (sessionFlags{}) {
		delete(p.states, wire)
	} else {
		p.states[wire] = flags
	}
	p.mu.Unlock()
	p.touch()
}

func (p *presence) running(wire id.ID, yes bool) {
	p.change(wire, func(f *sessionFlags) { f.running = yes })
}

func (p *presence) asking(wire id.ID, more int) {
	p.change(wire, func(f *sessionFlags) { f.asking = max(0, f.asking+more) })
}

// forget drops the flags of a session that left memory.
func (p *presence) forget(wire id.ID) { p.change(wire, func(f *sessionFlags) { *f = sessionFlags{} }) }

// report replaces what a connection looks at.
func (p *presence) report(c *conn, w []window) {
	p.mu.Lock()
	p.windows[c] = w
	p.mu.Unlock()
	p.touch()
}

func (p *presence) left(c *conn) {
	p.mu.Lock()
	_, reported := p.windows[c]
	delete(p.windows, c)
	p.mu.Unlock()
	if reported {
		p.touch()
	}
}

// rows are sorted by id, so that equal presences are equal bytes.
func (p *presence) rows() []presenceRow {
	p.mu.Lock()
	defer p.mu.Unlock()
	byID := map[string]*presenceRow{}
	row := func(session string) *presenceRow {
		if byID[session] == nil {
			byID[session] = &presenceRow{SessionID: session}
		}
		return byID[session]
	}
	for _, windows := range p.windows {
		for _, w := range windows {
			if w.SessionID != nil {
				row(*w.SessionID).Windows++
			}
		}
	}
	for wire, f := range p.states {
		r := row(wire.String())
		r.Running, r.Attention = f.running, f.asking > 0
	}
	out := make([]presenceRow, 0, len(byID))
	for _, r := range byID {
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b presenceRow) int { return cmp.Compare(a.SessionID, b.SessionID) })
	return out
}

// run tells everybody of changes until ctx ends. Changes that come faster than
// they can be told are told once.
func (p *presence) run(ctx context.Context, s *signals) {
	last := encode([]presenceRow{})
	for {
		select {
		case <-p.dirty:
		case <-ctx.Done():
			return
		}
		now := encode(p.rows())
		if bytes.Equal(now, last) {
			continue
		}
		last = now
		s.broadcast(member(begin("presence:changed", len(now)+16), "sessions", now))
	}
}

type presenceBody struct {
	Sessions []presenceRow `json:"sessions"`
}

func presenceReport(_ context.Context, c *call, p struct {
	Windows []window `json:"windows" jsonx:"required"`
}) (any, error) {
	if len(p.Windows) > maxWindows {
		return nil, badField("windows", "there are %d, at most %d are taken", len(p.Windows), maxWindows)
	}
	for i, w := range p.Windows {
		if w.SessionID != nil && len(*w.SessionID) > maxShownID {
			return nil, badField("windows", "the sessionId of window %d is too long", i)
		}
	}
	c.presence.report(c.conn, p.Windows)
	return okResult{true}, nil
}

func presenceGet(_ context.Context, c *call, _ struct{}) (any, error) {
	return presenceBody{c.presence.rows()}, nil
}
