package boltstore

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/polyhost/polyhost/core/store"
)

func lazyBatch(bytes int) *ticket {
	return newTicket(store.Batch{Put: []store.KV{{Key: "k", Value: make([]byte, bytes)}}, Lazy: true})
}

func durableBatch() *ticket { return newTicket(store.Batch{Put: []store.KV{{Key: "k"}}}) }

func TestLazyBatchesWaitForTheirTimeOrForADurableOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		start := time.Now()
		q.push(lazyBatch(1))
		time.Sleep(lazyWait / 2)
		q.push(lazyBatch(1))
		if got := q.next(); len(got) != 2 || time.Since(start) != lazyWait {
			t.Errorf("%d lazy batches were due after %v, want 2 after %v", len(got), time.Since(start), lazyWait)
		}
		start = time.Now()
		q.push(lazyBatch(1))
		time.AfterFunc(time.Millisecond, func() { q.push(durableBatch()) })
		if got := q.next(); len(got) != 2 || time.Since(start) != time.Millisecond {
			t.Errorf("%d batches were due after %v, want both with the durable one", len(got), time.Since(start))
		}
	})
}

func TestPushBlocksWhileTheQueueIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		start := time.Now()
		big := lazyBatch(maxQueue)
		q.push(big)
		pushed := make(chan bool, 1)
		go func() { pushed <- q.push(lazyBatch(1)) }()
		synctest.Wait()
		if len(pushed) > 0 {
			t.Fatal("a full queue took another batch")
		}
		// Full is due, and what was taken still counts until it is written.
		if got := q.next(); len(got) != 1 || time.Since(start) != 0 {
			t.Fatalf("%d batches of a full queue were due after %v", len(got), time.Since(start))
		}
		synctest.Wait()
		if len(pushed) > 0 {
			t.Fatal("the queue forgot what is being written")
		}
		q.written(big.bytes)
		if !<-pushed {
			t.Error("the batch was refused")
		}
	})
}

func TestClosingLetsThoseGoWhoWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.push(lazyBatch(maxQueue))
		pushed := make(chan bool, 1)
		go func() { pushed <- q.push(durableBatch()) }()
		synctest.Wait()
		q.close()
		if <-pushed {
			t.Error("a closed queue took a batch")
		}
		if got := len(q.next()); got != 1 {
			t.Errorf("closing left %d batches, want 1", got)
		}
		if got := len(q.next()); got != 0 {
			t.Errorf("%d batches after the last", got)
		}
	})
}
