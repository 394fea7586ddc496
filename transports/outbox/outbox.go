// Package outbox is the queue between those who produce frames and the one
// goroutine that writes them to one connection.
//
//   - Ordering: frames leave in the order of Push.
//   - Loss: none. A frame that does not fit is refused with ErrFull and the
//     producer decides: close the peer, or feed it from the log later.
//   - Bounds: queued bytes plus a small charge a run stay within the limit
//     given to New. A frame or run larger than the whole limit is taken when nothing
//     else waits, so that it can be delivered at all. Frames handed to the
//     writer count until the writer comes back for more.
//   - Blocking: Push, Close and Discard never block. Next blocks the writer;
//     WaitBelow blocks a feeder that reads from the log.
//
// Frames that lie one behind the other on a Tape are queued and written as one
// run. The package must not know what a frame means or what carries it.
package outbox

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Frame is one encoded message as it goes on the wire, with the framing of its
// transport. It must not change once pushed, because many connections share it.
type Frame []byte

// Run is one or more whole frames, one behind the other.
type Run []byte

// Errors that Push returns.
var (
	// ErrFull says that the frame was not queued because the peer is too far behind.
	ErrFull = errors.New("outbox: full")
	// ErrClosed says that the connection is closing and takes nothing more.
	ErrClosed = errors.New("outbox: closed")
)

// Outbox is the bounded, ordered queue of one connection. Any goroutine may
// push; one goroutine takes.
type Outbox struct {
	limit int
	ready chan struct{} // holds one token when the writer has something to see

	mu         sync.Mutex
	head, tail *block    // nil when empty
	first      int       // of head
	end        int       // of tail
	n          int       // runs
	queued     int       // cost of what is in the blocks, bytes
	inFlight   int       // cost of the last batch, bytes
	batch      *[]Run    // the last batch; nil when idle
	taken      time.Time // when Take was last called
	err        error     // set once closed
	waiters    []waiter
}

// block is a piece of the queue. Blocks and batches come from pools, so that a
// busy queue does not allocate and an idle one holds nothing.
type block struct {
	runs [blockRuns]Run
	next *block
}

var (
	blocks  = sync.Pool{New: func() any { return new(block) }}
	batches = sync.Pool{New: func() any { return new([]Run) }}
)

type waiter struct {
	below int
	done  chan struct{}
}

// New makes an empty queue that holds at most limit bytes; zero means
// DefaultLimit. An idle queue has no buffers.
func New(limit int) *Outbox {
	if limit <= 0 {
		limit = DefaultLimit
	}
	return &Outbox{limit: limit, ready: make(chan struct{}, 1)}
}

// Push queues one frame, or a run of frames, of which all or nothing is taken.
// It returns ErrFull when the bound does not allow it and ErrClosed after
// Close; in both cases nothing was queued.
func (o *Outbox) Push(f Frame) error { return o.PushBelow(f, o.limit) }

// PushBelow is Push with a bound below the queue's own, for frames that leave
// room to others.
func (o *Outbox) PushBelow(f Frame, limit int) error {
	o.mu.Lock()
	if o.err != nil {
		o.mu.Unlock()
		return ErrClosed
	}
	if o.n > 0 {
		// A run stays within one batch.
		last := &o.tail.runs[o.end-1]
		if run, ok := last.Join(f); ok {
			if o.queued+o.inFlight+len(f) > limit {
				o.mu.Unlock()
				return ErrFull
			}
			*last = run
			o.queued += len(f)
			o.mu.Unlock()
			return nil
		}
	}
	cost := len(f) + runOverhead
	if o.queued+o.inFlight+cost > limit && (o.n > 0 || cost <= limit) {
		o.mu.Unlock()
		return ErrFull
	}
	if o.tail == nil || o.end == blockRuns {
		o.addBlock()
	}
	o.tail.runs[o.end] = Run(f)
	o.end++
	o.n++
	o.queued += cost
	first := o.n == 1
	o.mu.Unlock()
	if first {
		o.signal()
	}
	return nil
}

// Len is the cost in bytes of what the writer has not yet finished with.
func (o *Outbox) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.queued + o.inFlight
}

// Taken is when the writer last came for more, because the peer had made room:
// now if nothing waits for it.
func (o *Outbox) Taken() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.queued+o.inFlight == 0 {
		return time.Now()
	}
	return o.taken
}

// Limit is the bound in bytes.
func (o *Outbox) Limit() int { return o.limit }

// Next returns all runs of frames that have gathered, up to MaxBatch bytes and at
// least one, and blocks until there is one. Asking again says that the batch
// before was written. When the queue is closed and empty it returns the error
// given to Close. The slice is used again by the next call. For the writer
// goroutine only.
func (o *Outbox) Next(ctx context.Context) ([]Run, error) {
	for {
		batch, err := o.Take()
		if len(batch) > 0 || err != nil {
			return batch, err
		}
		select {
		case <-o.ready:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Ready receives when Take has something new to say. It is for writers that
// wait for more than the queue.
func (o *Outbox) Ready() <-chan struct{} { return o.ready }

// Take is Next without the wait: an empty batch and no error means that
// nothing is queued.
func (o *Outbox) Take() ([]Run, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.batch != nil {
		clear(*o.batch)
		*o.batch = (*o.batch)[:0]
	}
	o.inFlight = 0
	o.taken = time.Now()
	if o.n == 0 {
		if o.batch != nil {
			batches.Put(o.batch)
			o.batch = nil
		}
		o.wakeWaiters()
		return nil, o.err
	}
	if o.batch == nil {
		o.batch = batches.Get().(*[]Run)
	}
	for o.n > 0 {
		run := o.head.runs[o.first]
		cost := len(run) + runOverhead
		if o.inFlight > 0 && o.inFlight+cost > MaxBatch {
			break
		}
		*o.batch = append(*o.batch, run)
		o.inFlight += cost
		o.queued -= cost
		o.head.runs[o.first] = nil
		o.first++
		if o.n--; o.n == 0 || o.first == blockRuns {
			o.dropBlock()
		}
	}
	o.wakeWaiters()
	return *o.batch, nil
}

// addBlock gives room at the end; the caller holds the lock.
func (o *Outbox) addBlock() {
	b := blocks.Get().(*block)
	if o.tail == nil {
		o.head, o.first = b, 0
	} else {
		o.tail.next = b
	}
	o.tail, o.end = b, 0
}

// dropBlock gives the first block, which is read to its end, back; the caller
// holds the lock.
func (o *Outbox) dropBlock() {
	b := o.head
	if o.head, o.first = b.next, 0; o.head == nil {
		o.tail = nil
	}
	b.next = nil
	blocks.Put(b)
}

// WaitBelow blocks until less than mark bytes wait to be written, so that a
// feeder can add the next piece of a history at the pace of the peer. It
// returns ErrClosed when the queue closes and the cause of ctx when that ends
// first.
func (o *Outbox) WaitBelow(ctx context.Context, mark int) error {
	o.mu.Lock()
	if o.err != nil {
		o.mu.Unlock()
		return ErrClosed
	}
	if o.queued+o.inFlight < mark {
		o.mu.Unlock()
		return nil
	}
	w := waiter{below: mark, done: make(chan struct{})}
	o.waiters = append(o.waiters, w)
	o.mu.Unlock()
	select {
	case <-w.done:
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.err != nil {
			return ErrClosed
		}
		return nil
	case <-ctx.Done():
		o.mu.Lock()
		defer o.mu.Unlock()
		for i := range o.waiters {
			if o.waiters[i].done == w.done {
				o.waiters = append(o.waiters[:i], o.waiters[i+1:]...)
				break
			}
		}
		return context.Cause(ctx)
	}
}

// Close refuses further frames. The writer still gets what is queued and then
// err, which must not be nil. Only the first call counts.
func (o *Outbox) Close(err error) { o.shut(err, false) }

// Discard is Close for a peer that will not wait for the rest: what is queued
// is dropped.
func (o *Outbox) Discard(err error) { o.shut(err, true) }

func (o *Outbox) shut(err error, drop bool) {
	o.mu.Lock()
	if o.err == nil {
		o.err = err
	}
	if drop {
		o.head, o.tail, o.n, o.queued = nil, nil, 0, 0
	}
	for _, w := range o.waiters {
		close(w.done)
	}
	o.waiters = nil
	o.mu.Unlock()
	o.signal()
}

func (o *Outbox) signal() {
	select {
	case o.ready <- struct{}{}:
	default:
	}
}

// wakeWaiters releases the feeders whose mark is reached; the caller holds the lock.
func (o *Outbox) wakeWaiters() {
	left := o.waiters[:0]
	for _, w := range o.waiters {
		if o.queued+o.inFlight < w.below {
			close(w.done)
		} else {
			left = append(left, w)
		}
	}
	clear(o.waiters[len(left):])
	o.waiters = left
}
