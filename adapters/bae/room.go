package bae

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/hub"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
)

// room is a BAE session in memory: its projection, its streams and its gate.
// One goroutine (run) reads the session's events; everything else takes mu.
type room struct {
	front *Front
	ses   id.ID
	chat  id.ID
	log   *slog.Logger
	// profile is the session's; those of other fronts belong to the default.
	profile string
	base    *projector // as newly made: for readers of the log
	holds   int        // requests that use the room; the front's lock guards it

	mu      sync.Mutex
	host    *host.Session
	proj    *projector
	ring    ring
	changed chan struct{} // closed and replaced whenever something changes
	gone    bool          // the session was deleted or the gateway stops
	ended   bool          // the session was closed: watching streams are over

	active  id.ID // the running turn, as far as the projection has come
	leg     *leg  // whose request is in the turn now
	paused  *pause
	queue   []*waiter
	busy    map[id.ID]bool // interactions that a leg is answering
	asked   map[id.ID]bool // interactions that the room has dealt with
	quietAt time.Time      // since when calls wait and nothing else happens
}

func newRoom(f *Front, ses id.ID, hs *host.Session, chat id.ID) *room {
	st := hs.State()
	r := &room{front: f, ses: ses, chat: chat, host: hs, log: f.log.With("session", ses.String()),
		base: newProjector(ses, st, chat), changed: make(chan struct{}),
		busy: map[id.ID]bool{}, asked: map[id.ID]bool{}, ended: st.Info.Closed}
	r.profile = f.defaults.Profile
	if o, ok := openingOf(&st.Info); ok {
		r.profile = o.Profile
	}
	r.ring = ring{streams: map[*cursor]struct{}{}, maxEvents: f.set.ringEvents, maxBytes: f.set.ringBytes}
	// The projection begins with the running turn, if there is one: what is
	// before it is over.
	at := st.Seq
	if c := st.Chat(chat); c != nil && c.Active != nil {
		r.active = c.Active.ID
		at = 0
	}
	r.proj = r.base.fresh(position{})
	r.proj.seq = at
	return r
}

// session is the live host session.
func (r *room) session() *host.Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.host
}

// wake tells everyone who waits for a change. The caller holds mu.
func (r *room) wake() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// run projects the session's events until it leaves memory or ctx ends.
func (r *room) run(ctx context.Context) {
	defer r.shut()
	for {
		err := r.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		if !errors.Is(err, hub.ErrClosed) {
			r.log.Error("The events of a session cannot be read", "err", err)
			return
		}
		if r.front.dropRoom(r, false) {
			return // nobody uses it
		}
		hs, err := r.front.host.Session(ctx, r.host.ID())
		if err != nil {
			return // deleted
		}
		r.mu.Lock()
		r.host = hs
		r.mu.Unlock()
	}
}

// shut ends the room: streams are over and whoever waits is told.
func (r *room) shut() {
	r.front.dropRoom(r, true)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone = true
	for c := range r.ring.streams {
		c.over = true
	}
	r.wake()
}

// follow reads one subscription to its end.
func (r *room) follow(ctx context.Context) error {
	r.mu.Lock()
	sub := r.host.Subscribe(r.proj.seq)
	r.mu.Unlock()
	defer sub.Close()
	for {
		wait, cancel := ctx, context.CancelFunc(func() {})
		if at := r.nextWake(); !at.IsZero() {
			wait, cancel = context.WithDeadline(ctx, at)
		}
		events, err := sub.Next(wait)
		cancel()
		switch {
		case err == nil:
			r.advance(events)
		case ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded):
			return err
		}
		r.act(ctx)
	}
}

// advance projects events and gives them to the streams.
func (r *room) advance(events []*event.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := false
	for _, e := range events {
		if _, ok := e.Body.(*event.PartDelta); ok {
			r.proj.seq = e.Seq
			continue
		}
		entries := r.proj.project(e)
		r.front.countEncoded(entries)
		r.ring.add(entries)
		changed = true
		r.note(e)
		for i := range entries {
			m := entries[i].mark
			if m == nil {
				continue
			}
			if m.pause != nil {
				m.pause.deadline = time.Now().Add(r.front.set.turnTimeout)
				r.paused = m.pause
			}
			if l := r.leg; l != nil && m.message != nil {
				// The next message need not wait for a peer that does not read.
				time.AfterFunc(releaseAfter, func() { r.leave(l) })
			}
		}
	}
	if changed {
		r.quietAt = time.Time{}
		r.wake()
	}
}

// note follows what the gate needs to know. The caller holds mu.
func (r *room) note(e *event.Event) {
	switch b := e.Body.(type) {
	case *event.TurnStarted, *event.TurnResumed:
		if e.Chat == r.chat {
			r.active = e.Turn
			r.paused = nil
		}
	case *event.TurnEnded:
		if e.Turn == r.active {
			r.active = id.Nil
			clear(r.busy)
			clear(r.asked)
		}
	case *event.InteractionResolved:
		if p := r.paused; p != nil && b.Resolution.Rich != nil && slices.ContainsFunc(p.calls, func(i *event.Interaction) bool { return i.ID == b.ID }) {
			r.paused = nil
		}
	case *event.SessionUpdated:
		if b.Closed != nil {
			r.ended = *b.Closed
			if r.ended {
				r.paused = nil
				r.front.clearDrivers(r.ses)
				for c := range r.ring.streams {
					c.over = c.over || c.live
				}
			}
		}
	}
}

// seen waits until the projection has come to seq.
func (r *room) seen(ctx context.Context, seq uint64) error {
	for {
		r.mu.Lock()
		reached, gone, changed := r.proj.seq >= seq, r.gone, r.changed
		r.mu.Unlock()
		switch {
		case reached:
			return nil
		case gone:
			return host.ErrNotFound
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// sync waits until the projection shows everything that has happened by now.
func (r *room) sync(ctx context.Context) error {
	return r.seen(ctx, r.session().State().Seq)
}

// write stores a note in the session's log and waits until it is projected.
func (r *room) write(ctx context.Context, key string, events ...noted) error {
	u := noteMeta(actor(key), note{Chat: r.chat, Events: events})
	if err := r.session().Update(ctx, u); err != nil {
		return err
	}
	return r.sync(ctx)
}

func actor(key string) event.Actor { return event.Actor{Front: frontName, Client: key} }

// unsubscribe ends all watching streams.
func (r *room) unsubscribe() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.ring.streams {
		c.over = c.over || c.live
	}
	r.wake()
}

// replay gives the entries after a position, up to and with the session event
// upto, to each until that returns false.
func (r *room) replay(ctx context.Context, after position, upto uint64, each func(e *entry) bool) error {
	p := r.base.fresh(after)
	if upto == 0 || p.seq >= upto {
		return nil
	}
	sub := r.session().Subscribe(p.seq)
	defer sub.Close()
	for {
		events, err := sub.Next(ctx)
		if err != nil {
			return err
		}
		for _, e := range events {
			if e.Seq > upto {
				return nil
			}
			entries := p.project(e)
			r.front.countEncoded(entries)
			for i := range entries {
				if en := &entries[i]; en.pos.after(after) && !each(en) {
					return nil
				}
			}
			if e.Seq == upto {
				return nil
			}
		}
	}
}

// waitingCalls are the open interactions that a BAE client could settle, in
// the order they were opened.
func (r *room) waitingCalls() []*event.Interaction {
	t := r.proj.turn
	if t == nil || t.over || t.paused != nil || r.active.IsNil() {
		return nil
	}
	var out []*event.Interaction
	for _, i := range t.open {
		if !r.busy[i.ID] {
			out = append(out, i)
		}
	}
	slices.SortFunc(out, func(a, b *event.Interaction) int { return a.ID.Compare(b.ID) })
	return out
}

// running reports whether that turn is the running one.
func (r *room) running(turn id.ID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.active == turn && !turn.IsNil()
}

// answering says that a leg answers the calls of a pause, so that nobody is
// asked again; it returns how far the projection has come.
func (r *room) answering(p *pause) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range p.calls {
		r.busy[i.ID] = true
	}
	return r.proj.seq
}

// The states of a session.
const (
	stateOpen   = "open"
	stateClosed = "closed"
	stateError  = "error"
)

// state is how the session stands for BAE: in error after a turn that a BAE
// client began has failed, and after a pause was answered wrongly.
func (r *room) state() string {
	st := r.session().State()
	return stateOf(&st.Info, st.Chat(r.chat))
}

func stateOf(info *event.SessionInfo, c *state.Chat) string {
	switch {
	case info.Closed:
		return stateClosed
	case info.Meta[metaError] != nil:
		return stateError
	}
	if c != nil && len(c.Turns) > 0 && c.Active == nil {
		last := c.Turns[len(c.Turns)-1]
		if last.Status == event.TurnFailed && last.Message.By.Front == frontName && !last.Synthetic && !interrupted(last.Error) {
			return stateError
		}
	}
	return stateOpen
}

// open is the error of a session that takes no turns.
func (r *room) open() error {
	if s := r.state(); s != stateOpen {
		return fail(codeState, "session is %s", s)
	}
	return nil
}

// countEncoded counts what will be sent of entries: marks are not.
func (f *Front) countEncoded(entries []entry) {
	n := 0
	for i := range entries {
		if entries[i].kind != "" {
			n++
		}
	}
	f.deps.Frames.Encoded(n)
}
