package bae

import (
	"context"
	"errors"
	"math"
	"slices"
)

var (
	// errLagged: a stream fell further behind than the ring reaches.
	errLagged = errors.New("lagged; reconnect with since_event_id")
	// errOver: the stream has come to its end.
	errOver = errors.New("the stream is over")
)

// ring holds the newest entries of a room for the streams that follow it. It
// is empty while nobody does. The room's lock guards it.
type ring struct {
	entries []entry
	base    uint64 // number of entries[0]
	bytes   int
	streams map[*cursor]struct{}

	maxEvents, maxBytes int
}

// cursor is one stream's place in a room.
type cursor struct {
	room *room
	next uint64   // number of the next entry
	at   position // of the last one, or of where the stream began
	// live: the stream only watches, and ends with unsubscribe and the session.
	live bool
	over bool
}

func (g *ring) end() uint64 { return g.base + uint64(len(g.entries)) }

// add appends entries and drops what nobody needs or the bounds forbid.
func (g *ring) add(entries []entry) {
	if len(g.streams) == 0 {
		g.base = g.end() + uint64(len(entries))
		g.entries, g.bytes = nil, 0
		return
	}
	for _, e := range entries {
		g.entries = append(g.entries, e)
		g.bytes += len(e.frame)
	}
	drop := 0
	for len(g.entries)-drop > 1 && (len(g.entries)-drop > g.maxEvents || g.bytes > g.maxBytes) {
		g.bytes -= len(g.entries[drop].frame)
		drop++
	}
	if drop > 0 {
		g.entries = append([]entry(nil), g.entries[drop:]...)
		g.base += uint64(drop)
	}
}

// some copies entries, as many as make a piece. A stream that waits for its peer
// holds on to them, so they must not be the whole ring.
func (g *ring) some(from uint64) []entry {
	n, size := 0, 0
	for _, e := range g.entries[from:] {
		if size += len(e.frame); n > 0 && size > pieceBytes {
			break
		}
		n++
	}
	return slices.Clone(g.entries[from : from+uint64(n)])
}

// attach follows the room from now on.
func (r *room) attach(live bool) *cursor {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.attachLocked(live)
}

func (r *room) attachLocked(live bool) *cursor {
	at := position{anchor: r.proj.anchor, seq: r.proj.seq, idx: math.MaxUint16}
	if at.anchor == 0 {
		at.anchor = at.seq
	}
	c := &cursor{room: r, next: r.ring.end(), at: at, live: live, over: r.gone || live && r.ended}
	r.ring.streams[c] = struct{}{}
	return c
}

// detach ends a stream.
func (c *cursor) detach() {
	c.room.mu.Lock()
	defer c.room.mu.Unlock()
	delete(c.room.ring.streams, c)
	if len(c.room.ring.streams) == 0 {
		c.room.ring.add(nil)
	}
}

// wait returns entries since the last call, at least one; errLagged when some
// were missed, errOver at the end of the stream. The slice is the caller's.
func (c *cursor) wait(ctx context.Context) ([]entry, error) {
	r := c.room
	for {
		r.mu.Lock()
		g := &r.ring
		switch {
		case c.next < g.base:
			r.mu.Unlock()
			return nil, errLagged
		case c.next < g.end():
			got := g.some(c.next - g.base)
			c.next, c.at = c.next+uint64(len(got)), got[len(got)-1].pos
			r.mu.Unlock()
			return got, nil
		case c.over:
			r.mu.Unlock()
			return nil, errOver
		}
		changed := r.changed
		r.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
