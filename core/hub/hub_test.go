package hub

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/polyhost/polyhost/core/event"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memLog is a log that has what it was given.
type memLog struct {
	mu     sync.Mutex
	events []*event.Event
}

func (l *memLog) add(e *event.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

func (l *memLog) Events(_ context.Context, after, upto uint64, _ int) ([]*event.Event, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	upto = min(upto, after+7, uint64(len(l.events)))
	return l.events[after:upto], nil
}

func delta(seq uint64) *event.Event {
	return &event.Event{Seq: seq, Body: &event.PartDelta{Text: "x"}}
}

// Whoever subscribes whenever and reads however slowly sees the same order
// without gap or double, from its starting point to the end.
func TestEverySubscriberSeesTheSameOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := uint64(rapid.IntRange(1, 3*TailEvents).Draw(t, "events"))
		storeEvery := uint64(rapid.IntRange(1, 600).Draw(t, "stored every"))
		log := &memLog{}
		h := New(log, 0)
		type start struct {
			at, after uint64
			pause     int
		}
		starts := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) start {
			at := rapid.Uint64Range(0, total).Draw(t, "at")
			return start{at, rapid.Uint64Range(0, at).Draw(t, "after"), rapid.IntRange(0, 40).Draw(t, "pause")}
		}), 1, 6).Draw(t, "subscribers")
		var wg sync.WaitGroup
		errs := make(chan error, len(starts))
		launch := func(s start) {
			sub := h.Subscribe(s.after)
			wg.Go(func() {
				defer sub.Close()
				want := s.after + 1
				for {
					batch, err := sub.Next(context.Background())
					if errors.Is(err, ErrClosed) {
						if want != total+1 {
							errs <- errors.New("ended early")
						}
						return
					}
					if err != nil {
						errs <- err
						return
					}
					for _, e := range batch {
						if e.Seq != want {
							errs <- errors.New("gap or double")
							return
						}
						want++
					}
					for range s.pause { // a slow reader
						runtime.Gosched()
					}
				}
			})
		}
		for seq := uint64(0); seq <= total; seq++ {
			if seq > 0 {
				e := delta(seq)
				log.add(e)
				h.Publish(e)
				if seq%storeEvery == 0 {
					h.Stored(seq)
				}
			}
			for _, s := range starts {
				if s.at == seq {
					launch(s)
				}
			}
		}
		h.Close()
		wg.Wait()
		select {
		case err := <-errs:
			t.Fatal(err)
		default:
		}
	})
}

func TestTailIsBoundedOnceStored(t *testing.T) {
	h := New(&memLog{}, 0)
	for seq := uint64(1); seq <= 10*TailEvents; seq++ {
		h.Publish(delta(seq))
	}
	if n := len(h.tail) - h.head; n != 10*TailEvents {
		t.Fatalf("%d events are kept: the log has none of them yet", n)
	}
	h.Stored(10 * TailEvents)
	if n := len(h.tail) - h.head; n > TailEvents {
		t.Fatalf("%d events are kept", n)
	}
	for seq := uint64(10*TailEvents + 1); seq <= 30*TailEvents; seq++ {
		h.Publish(delta(seq))
		h.Stored(seq)
	}
	if cap(h.tail) > 64*TailEvents {
		t.Fatalf("the tail's array grew to %d", cap(h.tail))
	}
}

func TestNextEndsWithItsContextAndGoesOn(t *testing.T) {
	h := New(&memLog{}, 0)
	s := h.Subscribe(0)
	defer s.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	h.Publish(delta(1))
	if got, err := s.Next(context.Background()); err != nil || len(got) != 1 {
		t.Fatalf("got %v, %v", got, err)
	}
}

func TestCloseWakesAWaitingSubscriber(t *testing.T) {
	h := New(&memLog{}, 0)
	s := h.Subscribe(0)
	done := make(chan error)
	go func() { _, err := s.Next(context.Background()); done <- err }()
	s.Close()
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Fatalf("got %v", err)
	}
	if h.Subscribers() != 0 {
		t.Fatal("a closed subscription is still counted")
	}
}

// anyLog has every event.
type anyLog struct{}

func (anyLog) Events(_ context.Context, after, upto uint64, _ int) ([]*event.Event, error) {
	var out []*event.Event
	for seq := after + 1; seq <= min(upto, after+BatchEvents); seq++ {
		out = append(out, delta(seq))
	}
	return out, nil
}

func BenchmarkPublishToOneSubscriber(b *testing.B) {
	h := New(anyLog{}, 0)
	s := h.Subscribe(0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			if _, err := s.Next(context.Background()); err != nil {
				return
			}
		}
	}()
	b.ReportAllocs()
	body := &event.PartDelta{Text: "x"}
	for i := 0; b.Loop(); i++ {
		h.Publish(&event.Event{Seq: uint64(i + 1), Body: body})
		if i%256 == 0 {
			h.Stored(uint64(i + 1))
		}
	}
	s.Close()
	<-done
}
