package outbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errBye = errors.New("bye")

func TestFramesLeaveInOrderAcrossGrowthAndWrap(t *testing.T) {
	t.Parallel()
	o := New(0)
	rng := rand.New(rand.NewPCG(1, 2))
	pushed, taken := 0, 0
	for taken < 5000 {
		for range rng.IntN(50) {
			if err := o.Push(fmt.Appendf(nil, "%d", pushed)); err != nil {
				t.Fatal(err)
			}
			pushed++
		}
		batch, err := o.Take()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range batch {
			if string(f) != fmt.Sprint(taken) {
				t.Fatalf("got frame %s, want %d", f, taken)
			}
			taken++
		}
	}
}

func TestBatchesAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	o := New(0)
	for range 100 {
		if err := o.Push(make(Frame, 10_000)); err != nil {
			t.Fatal(err)
		}
	}
	for seen := 0; seen < 100; {
		batch, err := o.Take()
		if err != nil || len(batch) == 0 {
			t.Fatalf("after %d frames: %d frames, %v", seen, len(batch), err)
		}
		if size := len(batch) * 10_000; size > MaxBatch {
			t.Fatalf("batch of %d bytes", size)
		}
		seen += len(batch)
	}
}

func TestStalledWriterHoldsAtMostTheBound(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 300, 9000} {
		o := New(100_000)
		full := 0
		for range 200_000 {
			if err := o.Push(make(Frame, size)); errors.Is(err, ErrFull) {
				full++
			}
			if full == 1 {
				if _, err := o.Take(); err != nil {
					t.Fatal(err)
				}
			}
			if full > 100 {
				break
			}
		}
		if bytes := o.Len(); bytes > 100_000 {
			t.Errorf("frames of %d bytes: %d bytes are held", size, bytes)
		}
		if full == 0 {
			t.Errorf("frames of %d bytes were never refused", size)
		}
	}
}

func TestFrameLargerThanTheBoundPassesAlone(t *testing.T) {
	t.Parallel()
	o := New(1000)
	if err := o.Push(make(Frame, 5000)); err != nil {
		t.Fatalf("alone: %v", err)
	}
	if err := o.Push(make(Frame, 5000)); !errors.Is(err, ErrFull) {
		t.Fatalf("behind another: %v", err)
	}
	if err := o.Push(make(Frame, 1)); !errors.Is(err, ErrFull) {
		t.Fatalf("small one behind it: %v", err)
	}
}

func TestCloseDeliversWhatIsQueuedThenTheReason(t *testing.T) {
	t.Parallel()
	o := New(0)
	_ = o.Push(Frame("last words"))
	o.Close(errBye)
	o.Close(errors.New("second"))
	if err := o.Push(Frame("late")); !errors.Is(err, ErrClosed) {
		t.Fatalf("push after close: %v", err)
	}
	batch, err := o.Next(t.Context())
	if err != nil || len(batch) != 1 || string(batch[0]) != "last words" {
		t.Fatalf("got %q, %v", batch, err)
	}
	if _, err := o.Next(t.Context()); !errors.Is(err, errBye) {
		t.Fatalf("end: %v", err)
	}
}

func TestDiscardDropsWhatIsQueued(t *testing.T) {
	t.Parallel()
	o := New(0)
	_ = o.Push(Frame("never seen"))
	o.Discard(errBye)
	if batch, err := o.Next(t.Context()); !errors.Is(err, errBye) {
		t.Fatalf("got %q, %v", batch, err)
	}
}

func TestIdleQueueHoldsNothing(t *testing.T) {
	t.Parallel()
	for _, frames := range []int{1, blockRuns, 10_000} {
		o := New(0)
		for range frames {
			_ = o.Push(Frame("x"))
		}
		for {
			if batch, _ := o.Take(); len(batch) == 0 {
				break
			}
		}
		if o.head != nil || o.tail != nil || o.batch != nil {
			t.Fatalf("after %d frames the idle queue still holds %v %v %v", frames, o.head, o.tail, o.batch)
		}
		if bytes := o.Len(); bytes != 0 {
			t.Fatalf("after %d frames: %d bytes", frames, bytes)
		}
	}
}

func TestWaitBelow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := New(0)
		for range 10 {
			_ = o.Push(make(Frame, 50_000))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := o.WaitBelow(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("queue is full, got %v", err)
		}
		reached := make(chan error, 1)
		go func() { reached <- o.WaitBelow(t.Context(), 100_000) }()
		taken := 0
		for {
			synctest.Wait()
			if len(reached) == 1 {
				break
			}
			if batch, _ := o.Take(); len(batch) == 0 {
				t.Fatal("drained without waking the feeder")
			}
			taken++
		}
		if err := <-reached; err != nil {
			t.Fatal(err)
		}
		// The last frame is still being written and so still counts.
		if bytes := o.Len(); bytes >= 100_000 || taken != 10 {
			t.Fatalf("woken at %d bytes after %d batches", bytes, taken)
		}

		go func() { reached <- o.WaitBelow(t.Context(), 1) }()
		synctest.Wait()
		o.Close(errBye)
		if err := <-reached; !errors.Is(err, ErrClosed) {
			t.Fatalf("after close: %v", err)
		}
	})
}

func TestConcurrentProducersKeepTheirOwnOrder(t *testing.T) {
	t.Parallel()
	const producers, each = 8, 2000
	o := New(1 << 30)
	var wg sync.WaitGroup
	for p := range producers {
		wg.Go(func() {
			for i := range each {
				_ = o.Push(Frame{byte(p), byte(i >> 8), byte(i)})
			}
		})
	}
	next := make([]int, producers)
	for total := 0; total < producers*each; {
		batch, err := o.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range batch {
			if i := int(f[1])<<8 | int(f[2]); i != next[f[0]] {
				t.Fatalf("producer %d: got %d, want %d", f[0], i, next[f[0]])
			}
			next[f[0]]++
		}
		total += len(batch)
	}
	wg.Wait()
}

func BenchmarkPushAndTake(b *testing.B) {
	o := New(0)
	f := make(Frame, 256)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		_ = o.Push(f)
		if i%64 == 63 {
			_, _ = o.Take()
		}
	}
}
