package front

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/hub"
	"github.com/polyhost/polyhost/core/state"
)

// Projection turns the events of one session into a front's frames.
type Projection interface {
	// Deltas is called for consecutive event.PartDelta events, with the state
	// after the last of them: they go to the connections together.
	Deltas(events []*event.Event, st *state.State)
	// Project is called for each other event, with the state after it. The
	// state holds running turns only; it must not be kept.
	Project(e *event.Event, st *state.State)
	// Close: the session left memory or was deleted. It may come back, with
	// a new projection.
	Close()
}

// Project runs one projection for every session that is or comes into memory,
// until ctx ends, and closes the watch. The watch begins before the front has
// clients: of a session that is met in the middle, they would miss the
// beginning. open is called with the session and its state at the position
// from which events follow; a nil projection passes the session by.
func Project(ctx context.Context, w *host.LiveWatch, open func(*host.Session, *state.State) Projection) error {
	defer w.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		lives, err := w.Next(ctx)
		if errors.Is(err, host.ErrClosed) {
			wg.Wait() // each ends after the last event of its session, or with ctx
			return nil
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("watch sessions: %w", err)
		}
		for _, l := range lives {
			p := open(l.Session, l.State)
			if p == nil {
				continue
			}
			sub := l.Session.Subscribe(l.State.Seq)
			wg.Go(func() {
				defer p.Close()
				defer sub.Close()
				run(ctx, sub, p, l.State.Thaw(state.ActiveOnly))
			})
		}
	}
}

// Settle waits until a front's projections have ended, as they do by themselves
// when the host has closed: clients are let go after they were told how their
// turns ended. projected is closed when Project has returned.
func Settle(ctx context.Context, projected <-chan struct{}) {
	t := time.NewTimer(settleWithin)
	defer t.Stop()
	select {
	case <-projected:
	case <-t.C:
	case <-ctx.Done():
	}
}

func run(ctx context.Context, sub *hub.Subscription, p Projection, st *state.State) {
	for {
		events, err := sub.Next(ctx)
		if err != nil {
			return
		}
		if !project(events, p, st) {
			return // the state would be wrong from here on; a new projection follows the next opening
		}
	}
}

// project reports false when an event does not follow.
func project(events []*event.Event, p Projection, st *state.State) bool {
	deltas := 0 // of events are applied and not handed over
	hand := func() {
		if deltas > 0 {
			p.Deltas(events[:deltas], st)
			events, deltas = events[deltas:], 0
		}
	}
	for len(events) > deltas {
		e := events[deltas]
		_, delta := e.Body.(*event.PartDelta)
		if !delta {
			hand()
		}
		if st.Apply(e) != nil {
			hand()
			return false
		}
		if delta {
			deltas++
			continue
		}
		p.Project(e, st)
		events = events[1:]
	}
	hand()
	return true
}
