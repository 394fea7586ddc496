// Package fanout gives one ordered stream of encoded frames to many
// connections, each at its own pace.
//
// A Topic is the stream: one publisher, positions that increase, and a bounded
// ring of the newest frames. An Attachment is one connection's cursor in it.
//
//   - Ordering: every attachment gets the frames of the positions after its own,
//     in the order in which they were added.
//   - Loss: none that is silent. An attachment whose position the ring has left
//     behind is told so once through OnGap and gets nothing more.
//   - Bounds: a topic keeps at most its Retain, or the newest frame alone if
//     that is larger, and one run that waits for Flush. It keeps more, up to
//     Retain.Behind, while an attachment that is behind needs it and its sink
//     takes something now and then. One that has stalled is told of a gap, so it
//     costs its sink's bound.
//   - Blocking: nothing but Detach waits. A sink that is full is fed from the
//     ring by a goroutine of its attachment, which Detach waits for.
//
// Frames that lie one behind the other on a tape and are added before a Flush
// are handed to each attachment as one run. The package must not know what a
// frame means, where positions come from or what carries the frames.
package fanout

import (
	"context"
	"sync"
	"time"

	"github.com/polyhost/polyhost/transports/outbox"
)

// Sink is the queue of one connection; an outbox.Outbox is one. Push must not
// block: it returns outbox.ErrFull when the peer is too far behind, and any
// other error for good. WaitBelow waits until less than the given number of
// bytes is queued. Taken is when the peer last made room, now if nothing waits.
type Sink interface {
	Push(outbox.Frame) error
	WaitBelow(ctx context.Context, bytes int) error
	Taken() time.Time
}

// Retain bounds what a topic keeps. Zero values of the first two mean
// DefaultFrames and DefaultBytes.
type Retain struct {
	Frames, Bytes int
	// Behind is how many bytes of memory the topic may keep while an attachment
	// that is behind, and has not stalled, still needs the oldest.
	Behind int
}

// Entry is a retained frame.
type Entry struct {
	Pos   uint64
	Frame outbox.Frame
}

// Topic is one stream of frames. Its methods are safe for concurrent use,
// except that only one goroutine may publish.
type Topic struct {
	retain Retain
	counts *Counts

	mu    sync.Mutex
	ring  []Entry // length is zero or a power of two
	first uint64  // ordinal of the oldest retained entry
	next  uint64  // ordinal that the next entry gets
	fresh uint64  // ordinal of the first entry that waits for Flush; next if none does
	run   outbox.Run
	bytes int    // of frames retained
	total uint64 // bytes of all frames so far
	floor uint64 // everything after this position is retained
	last  uint64 // newest position
	all   []*Attachment
	slow  int         // how many of them the ring may be kept for
	again *time.Timer // evicts when nothing happens; nil unless more is kept than Retain
}

// NewTopic makes a stream whose first frame will have a position after the
// given one. What came before it was never here, so whoever attaches further
// back is told of a gap.
func NewTopic(after uint64, r Retain) *Topic {
	if r.Frames <= 0 {
		r.Frames = DefaultFrames
	}
	if r.Bytes <= 0 {
		r.Bytes = DefaultBytes
	}
	return &Topic{retain: r, floor: after, last: after}
}

// Count makes the topic count its frames. It is called before the first.
func (t *Topic) Count(c *Counts) { t.counts = c }

// Publish adds a frame and hands it to everyone who is in step.
func (t *Topic) Publish(pos uint64, f outbox.Frame) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(pos, f)
	t.flush()
}

// Add is Publish without the handing over, which Flush does: the publisher must
// flush before anything that has to come after the frame. Positions must
// increase; gaps between them are fine.
func (t *Topic) Add(pos uint64, f outbox.Frame) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(pos, f)
}

// Flush hands what was added to everyone who is in step.
func (t *Topic) Flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flush()
}

func (t *Topic) add(pos uint64, f outbox.Frame) {
	if pos <= t.last {
		panic("fanout: positions must increase")
	}
	if t.fresh == t.next {
		t.run = outbox.Run(f)
	} else if run, ok := t.run.Join(f); ok {
		t.run = run
	} else {
		t.flush()
		t.run = outbox.Run(f)
	}
	t.last = pos
	t.keep(Entry{Pos: pos, Frame: f})
}

func (t *Topic) flush() {
	if t.fresh == t.next {
		return
	}
	before, run, frames := t.entry(t.fresh).Pos, outbox.Frame(t.run), int(t.next-t.fresh)
	t.counts.Encoded(frames)
	t.fresh, t.run = t.next, nil
	// Backwards, because an attachment whose sink has closed leaves the list
	// and the last one, already served, takes its place.
	for i := len(t.all) - 1; i >= 0; i-- {
		a := t.all[i]
		switch {
		case a.state != live || a.pos >= t.last:
		case a.pos >= before: // it attached in between
			a.start()
		default:
			a.live(run, frames)
		}
	}
	t.evict()
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
		t.resize(max(firstSlots, 2*len(t.ring)))
	}
	t.ring[t.next&uint64(len(t.ring)-1)] = e
	t.next++
	t.bytes += len(e.Frame)
	t.total += uint64(len(e.Frame))
}

func (t *Topic) resize(slots int) {
	ring := make([]Entry, slots)
	for n := t.first; n < t.next; n++ {
		ring[n&uint64(slots-1)] = t.entry(n)
	}
	t.ring = ring
}

// evict drops the oldest entries until the bounds hold, somebody who is behind
// needs the oldest, or only the newest and what waits for Flush is left.
func (t *Topic) evict() {
	const unknown = ^uint64(0)
	needed, floor := unknown, t.floor
	for t.over(t.retain.Frames, t.retain.Bytes) && t.next-t.first > 1 && t.first < t.fresh {
		if needed == unknown {
			needed = t.slowest()
		}
		if t.entry(t.first).Pos > needed && t.cost() <= t.retain.Behind {
			t.evictLater()
			break
		}
		slot := &t.ring[t.first&uint64(len(t.ring)-1)]
		t.bytes -= len(slot.Frame)
		t.floor = slot.Pos
		*slot = Entry{}
		t.first++
	}
	if t.slow > 0 && t.floor > floor {
		t.wakeLost()
	}
	if kept := int(t.next - t.first); len(t.ring) > 4*max(kept, firstSlots) {
		t.resize(len(t.ring) / 2)
	}
}

// evictLater evicts again when those who take nothing have stalled.
func (t *Topic) evictLater() {
	if t.again != nil {
		return
	}
	t.again = time.AfterFunc(StallAfter, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.again = nil
		t.evict()
	})
}

// cost is the memory that the ring keeps, in bytes: frames, an eighth of them
// for what their allocations round up to, and slots.
func (t *Topic) cost() int {
	return t.bytes + t.bytes/8 + int(t.next-t.first)*frameCost
}

func (t *Topic) over(frames, bytes int) bool {
	return t.next-t.first > uint64(frames) || t.bytes > bytes
}

// slowest is the least position of those who are fed from the ring and have not
// stalled.
func (t *Topic) slowest() uint64 {
	least := t.last
	if t.slow == 0 {
		return least
	}
	for _, a := range t.all {
		if a.state.slow() && a.pos < least && !a.progress.Stalled(a.sink.Taken(), t.next, t.total, t.retain) {
			least = a.pos
		}
	}
	return least
}

// wakeLost lets those go whom the ring has left behind.
func (t *Topic) wakeLost() {
	for _, a := range t.all {
		if a.state == behind && a.pos < t.floor {
			a.stop()
		}
	}
}
