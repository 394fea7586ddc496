package boltstore

import (
	"sync"
	"time"

	"github.com/polyhost/polyhost/core/store"
)

// ticket is a batch on its way to the disk.
type ticket struct {
	batch store.Batch
	bytes int
	done  chan struct{}
	err   error // written before done is closed
}

func newTicket(b store.Batch) *ticket {
	t := &ticket{batch: b, bytes: batchCost * (1 + entries(&b)), done: make(chan struct{})}
	for _, r := range b.Records {
		t.bytes += len(r.Data)
	}
	for _, kv := range b.Put {
		t.bytes += len(kv.Key) + len(kv.Value)
	}
	for _, k := range b.Delete {
		t.bytes += len(k)
	}
	return t
}

func entries(b *store.Batch) int { return len(b.Records) + len(b.Put) + len(b.Delete) }

func (t *ticket) Done() <-chan struct{} { return t.done }
func (t *ticket) Err() error            { return t.err }

func (t *ticket) settle(err error) {
	t.err = err
	t.batch = store.Batch{} // a kept ticket does not keep the data
	close(t.done)
}

// queue holds batches until their group is due.
type queue struct {
	wake chan struct{} // one token: look again

	mu      sync.Mutex
	room    sync.Cond
	waiting []*ticket
	due     time.Time // when waiting is to be written; only if there is any
	bytes   int       // of waiting, and of what was taken and is not written
	closed  bool
}

func newQueue() *queue {
	q := &queue{wake: make(chan struct{}, 1)}
	q.room.L = &q.mu
	return q
}

// push queues a ticket; it blocks while the queue is full and reports false
// once it is closed.
func (q *queue) push(t *ticket) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.bytes >= maxQueue && !q.closed {
		q.room.Wait()
	}
	if q.closed {
		return false
	}
	q.bytes += t.bytes
	due := time.Now()
	if t.batch.Lazy && q.bytes < maxQueue {
		due = due.Add(lazyWait)
	}
	if len(q.waiting) == 0 || due.Before(q.due) {
		q.due = due
		q.signal()
	}
	q.waiting = append(q.waiting, t)
	return true
}

// next blocks until a group is due and takes it; nothing more will come once
// it returns none.
func (q *queue) next() []*ticket {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		group, wait, closed := q.take()
		if len(group) > 0 || closed {
			return group
		}
		if wait > 0 {
			timer.Reset(wait)
			select {
			case <-q.wake:
			case <-timer.C:
			}
		} else {
			<-q.wake
		}
	}
}

func (q *queue) take() (group []*ticket, wait time.Duration, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return nil, 0, q.closed
	}
	if wait = time.Until(q.due); wait > 0 && !q.closed {
		return nil, wait, false
	}
	group, q.waiting = q.waiting, nil
	return group, 0, q.closed
}

// written makes room again after a group was written.
func (q *queue) written(bytes int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes -= bytes
	q.room.Broadcast()
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.room.Broadcast()
	q.signal()
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}
