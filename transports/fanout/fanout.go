// Package fanout gives one ordered stream of encoded frames to many
// connections, each at its own pace.
//
// A Topic is the stream: one publisher, positions that increase, and a bounded
// ring of the newest frames. An Attachment is one connection's cursor in it.
//
//   - Ordering: every attachment gets the frames of the positions after its own,
//     in the order of Publish, whole positions only.
//   - Loss: none that is silent. An attachment whose position the ring has left
//     behind is told so once through OnGap and gets nothing more.
//   - Bounds: a topic keeps at most its Retain, or the newest position alone if
//     that is larger. A stalled attachment costs its sink's bound and the rest
//     of one position.
//   - Blocking: Publish, Attach and Release never wait for a sink. A sink that
//     is full is fed from the ring by a goroutine of its attachment, which
//     Detach waits for.
//
// It must not know what a frame means, where positions come from or what
// carries the frames.
package fanout

import (
	"context"
	"sync"

	"github.com/polyhost/polyhost/transports/outbox"
)

// Sink is the queue of one connection; an outbox.Outbox is one. Push must not
// block: it returns outbox.ErrFull when the peer is too far behind, and any
// other error for good. WaitBelow waits until less than the given number of
// bytes is queued.
type Sink interface {
	Push(outbox.Frame) error
	WaitBelow(ctx context.Context, bytes int) error
}

// Retain bounds what a topic keeps. Zero values mean DefaultFrames and DefaultBytes.
type Retain struct{ Frames, Bytes int }

// Entry is a retained frame. Frames that were published together have the same position.
type Entry struct {
	Pos   uint64
	Frame outbox.Frame
}

// Topic is one stream of frames. Its methods are safe for concurrent use,
// except that only one goroutine may publish.
type Topic struct {
	retain Retain

	mu    sync.Mutex
	tape  outbox.Tape
	ring  []Entry // length is zero or a power of two
	first uint64  // ordinal of the oldest retained entry
	next  uint64  // ordinal that the next entry gets
	bytes int     // payload retained
	floor uint64  // everything after this position is retained
	last  uint64  // newest position
	all   []*Attachment
}

// NewTopic makes a stream whose first frame will have a position after the
// given one. What came before it was never here, so whoever attaches further
// back is told of a gap. The framing makes frames of what is published; nil
// means that those are frames already.
func NewTopic(after uint64, r Retain, framing outbox.Framing) *Topic {
	if r.Frames <= 0 {
		r.Frames = DefaultFrames
	}
	if r.Bytes <= 0 {
		r.Bytes = DefaultBytes
	}
	return &Topic{retain: r, tape: outbox.Tape{Framing: framing}, floor: after, last: after}
}

// Publish appends the messages of one position and hands them to everyone who
// is in step. Positions must increase; gaps between them are fine. Payloads are
// copied.
func (t *Topic) Publish(pos uint64, payloads ...[]byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if pos <= t.last {
		panic("fanout: positions must increase")
	}
	t.last = pos
	from := t.next
	for _, p := range payloads {
		t.keep(Entry{Pos: pos, Frame: t.tape.Add(p)})
	}
	t.evict()
	// Backwards, because an attachment whose sink has closed leaves the list
	// and the last one, already served, takes its place.
	for i := len(t.all) - 1; i >= 0; i-- {
		if a := t.all[i]; a.state == live {
			a.live(pos, from)
		}
	}
}

// Last is the position of the newest frames.
func (t *Topic) Last() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}

// Since returns the retained frames after a position, oldest first. It reports
// false when some of them are no longer retained.
func (t *Topic) Since(after uint64) ([]Entry, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if after < t.floor {
		return nil, false
	}
	var out []Entry
	for n := t.ordinalAfter(after); n < t.next; n++ {
		e := t.entry(n)
		e.Frame = e.Frame[:len(e.Frame):len(e.Frame)]
		out = append(out, e)
	}
	return out, true
}

func (t *Topic) entry(n uint64) Entry { return t.ring[n&uint64(len(t.ring)-1)] }

// ordinalAfter finds the oldest retained entry after a position.
func (t *Topic) ordinalAfter(pos uint64) uint64 {
	lo, hi := t.first, t.next
	for lo < hi {
		mid := lo + (hi-lo)/2
		if t.entry(mid).Pos > pos {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

func (t *Topic) keep(e Entry) {
	if t.next-t.first == uint64(len(t.ring)) {
		grown := make([]Entry, max(firstSlots, 2*len(t.ring)))
		for n := t.first; n < t.next; n++ {
			grown[n&uint64(len(grown)-1)] = t.entry(n)
		}
		t.ring = grown
	}
	t.ring[t.next&uint64(len(t.ring)-1)] = e
	t.next++
	t.bytes += len(e.Frame)
}

// evict drops whole positions, oldest first, until the bounds hold or only the
// newest position is left.
func (t *Topic) evict() {
	for t.next-t.first > uint64(t.retain.Frames) || t.bytes > t.retain.Bytes {
		pos := t.entry(t.first).Pos
		if pos == t.last {
			return
		}
		for t.first < t.next && t.entry(t.first).Pos == pos {
			slot := &t.ring[t.first&uint64(len(t.ring)-1)]
			t.bytes -= len(slot.Frame)
			*slot = Entry{}
			t.first++
		}
		t.floor = pos
	}
}
