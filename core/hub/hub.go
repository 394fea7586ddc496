// Package hub fans the events of one session out to its subscribers, by
// position and not by queue.
//
// A subscriber is a cursor. In sync it gets events as they are published;
// behind, it is fed from the retained tail, and from the log where the tail no
// longer reaches, in batches at its own pace. Ordering: every subscriber sees
// every event after its starting point, in order, once. Loss: none. Bounds:
// the tail is bounded in events and bytes, except that it always holds what
// the log does not have yet; a subscriber costs one cursor. Blocking: Publish
// never waits for anyone; Next waits for its own subscriber only.
package hub

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/polyhost/polyhost/core/event"
)

// ErrClosed is returned by Next after the last event, once the hub is closed.
var ErrClosed = errors.New("the session left memory")

// Log reads stored events.
type Log interface {
	// Events returns stored events after `after` and up to `upto`, in
	// order, at least one, about maxBytes at most.
	Events(ctx context.Context, after, upto uint64, maxBytes int) ([]*event.Event, error)
}

// Hub is the fan-out of one session.
type Hub struct {
	log Log

	mu     sync.Mutex
	tail   []*event.Event // retained events, without gap; tail[head:] is live
	head   int
	bytes  int
	last   uint64 // of the newest published event
	stored uint64 // everything up to here can be read from the log
	failed error  // why the log takes no more
	subs   map[*Subscription]struct{}
	waits  []wait
	closed bool
}

// wait is someone who waits for the log to have an event.
type wait struct {
	seq  uint64
	done chan error
}

// New is a hub whose newest event is last; everything up to it is in the log.
func New(log Log, last uint64) *Hub {
	return &Hub{log: log, last: last, stored: last, subs: map[*Subscription]struct{}{}}
}

// Publish adds the next event. It must follow the last one.
func (h *Hub) Publish(e *event.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	if e.Seq != h.last+1 {
		panic(fmt.Sprintf("hub: event %d published after %d", e.Seq, h.last))
	}
	h.last = e.Seq
	if len(h.tail) == cap(h.tail) && h.head > len(h.tail)/2 {
		h.compact()
	}
	h.tail = append(h.tail, e)
	h.bytes += Weight(e)
	h.evict()
	for s := range h.subs {
		if s.waiting {
			s.waiting = false
			s.wake <- struct{}{} // has room: waiting was set with it empty
		}
	}
}

// Stored tells the hub that the log has everything up to seq.
func (h *Hub) Stored(seq uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stored = max(h.stored, seq)
	h.evict()
	h.answer(nil)
}

// Failed tells the hub that the log could not take the events up to seq.
func (h *Hub) Failed(seq uint64, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed = err
	h.stored = max(h.stored, seq)
	h.answer(err)
}

func (h *Hub) answer(err error) {
	h.waits = slices.DeleteFunc(h.waits, func(w wait) bool {
		if w.seq > h.stored {
			return false
		}
		w.done <- err
		return true
	})
}

// WaitStored waits until the log has everything up to seq, or cannot have it.
func (h *Hub) WaitStored(ctx context.Context, seq uint64) error {
	h.mu.Lock()
	if h.stored >= seq {
		defer h.mu.Unlock()
		return h.failed
	}
	w := wait{seq, make(chan error, 1)}
	h.waits = append(h.waits, w)
	h.mu.Unlock()
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		h.mu.Lock()
		defer h.mu.Unlock()
		h.waits = slices.DeleteFunc(h.waits, func(o wait) bool { return o.done == w.done })
		return ctx.Err()
	}
}

// evict forgets the oldest events beyond the bounds, if the log has them.
func (h *Hub) evict() {
	for h.head < len(h.tail) && (len(h.tail)-h.head > TailEvents || h.bytes > TailBytes) {
		e := h.tail[h.head]
		if e.Seq > h.stored {
			return
		}
		h.bytes -= Weight(e)
		h.tail[h.head] = nil
		h.head++
	}
}

// compact moves the live part of the tail to the front of its array.
func (h *Hub) compact() {
	n := copy(h.tail, h.tail[h.head:])
	clear(h.tail[n:])
	h.tail, h.head = h.tail[:n], 0
}

// Last is the sequence number of the newest published event.
func (h *Hub) Last() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

// Subscribers counts the open subscriptions.
func (h *Hub) Subscribers() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.subs)
}

// Close ends all subscriptions, once they have had the last event.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for s := range h.subs {
		if s.waiting {
			s.waiting = false
			s.wake <- struct{}{}
		}
	}
}

// Subscribe begins after a sequence number: 0 is the beginning. A number
// beyond the last event waits for what follows it.
func (h *Hub) Subscribe(after uint64) *Subscription {
	s := &Subscription{hub: h, next: after + 1, wake: make(chan struct{}, 1)}
	h.mu.Lock()
	h.subs[s] = struct{}{}
	h.mu.Unlock()
	return s
}

// Subscription is one subscriber. Its methods are for one goroutine, but
// Close may be called from another.
type Subscription struct {
	hub     *Hub
	next    uint64
	waiting bool // guarded by hub.mu: Next sleeps on wake
	wake    chan struct{}
	gone    bool // guarded by hub.mu
}

// Next returns the events that follow, at least one. The slice is the
// caller's. It returns ErrClosed when no event will follow any more.
func (s *Subscription) Next(ctx context.Context) ([]*event.Event, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		batch, upto, err := s.fromTail()
		if batch != nil || err != nil {
			return batch, err
		}
		if upto > 0 {
			batch, err := s.hub.log.Events(ctx, s.next-1, upto, BatchBytes)
			if err != nil {
				return nil, err
			}
			if len(batch) == 0 || batch[0].Seq != s.next {
				return nil, fmt.Errorf("hub: the log has no event %d", s.next)
			}
			s.next = batch[len(batch)-1].Seq + 1
			return batch, nil
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			s.hub.mu.Lock()
			s.waiting = false
			s.hub.mu.Unlock()
			select { // a wake that was sent in between must not be taken for a later one
			case <-s.wake:
			default:
			}
			return nil, ctx.Err()
		}
	}
}

// fromTail returns a batch of the tail; or, when the log must be read first,
// up to which number; or neither, with waiting set.
func (s *Subscription) fromTail() (batch []*event.Event, upto uint64, err error) {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.gone {
		return nil, 0, ErrClosed
	}
	if s.next > h.last {
		if h.closed {
			return nil, 0, ErrClosed
		}
		s.waiting = true
		return nil, 0, nil
	}
	live := h.tail[h.head:]
	first := h.last - uint64(len(live)) + 1
	if s.next < first {
		return nil, first - 1, nil
	}
	live = live[s.next-first:]
	if len(live) > BatchEvents {
		live = live[:BatchEvents]
	}
	s.next += uint64(len(live))
	return append(make([]*event.Event, 0, len(live)), live...), 0, nil
}

// Close ends the subscription; Next returns ErrClosed.
func (s *Subscription) Close() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	delete(s.hub.subs, s)
	s.gone = true
	if s.waiting {
		s.waiting = false
		s.wake <- struct{}{}
	}
}

// Weight is about what an event holds in memory, in bytes.
func Weight(e *event.Event) int {
	switch b := e.Body.(type) {
	case *event.PartDelta:
		return 160 + len(b.Text)
	case *event.PartEnded:
		return 160 + len(b.Text)
	case *event.ToolEnded:
		return 320 + len(b.Output)
	case *event.TurnStarted:
		return 512 + len(b.Message.Text)
	case *event.ChatTruncated:
		n := 512 + len(b.Failed)
		for i := range b.Gone {
			n += 512 + 512*len(b.Gone[i].Parts)
		}
		return n
	case *event.ChatAdded:
		return 512 + len(b.Failed)
	case *event.TurnResumed:
		return 512 + len(b.Message.Text)
	}
	return 512
}
