package bae

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/polyhost/polyhost/core/id"
)

// leg is one session.sendMessage from the moment it may act to its result.
type leg struct {
	key string
	id  string // marks what it writes for its client
}

// waiter is a message that waits for its turn.
type waiter struct{ key string }

// entrance says how a message gets in.
type entrance int

const (
	// enterFresh begins a turn.
	enterFresh entrance = iota
	// enterResume goes on with the turn that the sender paused.
	enterResume
	// enterTakeover ends a turn whose owner did not come back in time.
	enterTakeover
)

// errQueueFull: too many messages wait.
var errQueueFull = errors.New("too many messages wait for this session")

// enter waits for the gate: the owner of a paused turn goes straight in,
// everybody else in the order of arrival. answers says that the message is
// meant for the pause: one that is not does not end a turn that another front
// began. first puts the message at the head
// of the queue again, after something else slipped in.
func (r *room) enter(ctx context.Context, l *leg, answers, first bool) (entrance, *pause, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.paused; p != nil && p.owner == l.key && !first && (answers || !p.foreign) {
		r.paused, r.leg = nil, l
		r.wake()
		return enterResume, p, nil
	}
	if len(r.queue) >= maxWaiting {
		return 0, nil, errQueueFull
	}
	w := &waiter{l.key}
	if first {
		r.queue = slices.Insert(r.queue, 0, w)
	} else {
		r.queue = append(r.queue, w)
	}
	defer func() {
		r.queue = slices.DeleteFunc(r.queue, func(o *waiter) bool { return o == w })
		r.wake()
	}()
	for {
		if r.gone {
			return 0, nil, errOver
		}
		if r.ended {
			return 0, nil, fail(codeState, "session is %s", stateClosed)
		}
		var deadline <-chan time.Time
		var timer *time.Timer
		if r.queue[0] == w && r.leg == nil {
			p := r.paused
			switch {
			case r.active.IsNil():
				r.paused, r.leg = nil, l
				return enterFresh, nil, nil
			case p == nil || p.foreign:
			case !time.Now().Before(p.deadline):
				r.paused, r.leg = nil, l
				return enterTakeover, p, nil
			default:
				timer = time.NewTimer(time.Until(p.deadline))
				deadline = timer.C
			}
		}
		changed := r.changed
		r.mu.Unlock()
		var err error
		select {
		case <-changed:
		case <-deadline:
		case <-ctx.Done():
			err = ctx.Err()
		}
		if timer != nil {
			timer.Stop()
		}
		r.mu.Lock()
		if err != nil {
			return 0, nil, err
		}
	}
}

// restore puts a pause back that was not answered after all.
func (r *room) restore(p *pause) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.active == p.turn && r.paused == nil {
		r.paused = p
	}
}

// leave lets the next message in.
func (r *room) leave(l *leg) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.leg == l {
		r.leg = nil
		r.wake()
	}
}

// idle waits until a turn is over.
func (r *room) idle(ctx context.Context, turn id.ID) error {
	for {
		r.mu.Lock()
		over, gone, changed := r.active != turn, r.gone, r.changed
		r.mu.Unlock()
		switch {
		case over:
			return nil
		case gone:
			return errOver
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
