package host

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/hub"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/store"
	"github.com/polyhost/polyhost/core/store/boltstore"
	"github.com/polyhost/polyhost/core/store/memstore"
)

// quietAgent takes prompts and says nothing: the benchmarks speak for it.
type quietAgent struct{}

func (quietAgent) Info(context.Context) (agent.Info, error) { return agent.Info{}, nil }
func (quietAgent) Open(context.Context, agent.Open) (agent.Conversation, error) {
	return quietConversation{}, nil
}
func (quietAgent) Close() error { return nil }

type quietConversation struct{}

func (quietConversation) Prompt(context.Context, agent.Prompt) error { return nil }
func (quietConversation) Interrupt(context.Context) error            { return nil }
func (quietConversation) Answer(context.Context, agent.Answer) error { return nil }
func (quietConversation) Close() error                               { return nil }
func (quietConversation) Recv(ctx context.Context) ([]agent.Frame, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// benchSession is a session whose goroutine is the benchmark's own, so that
// the path of an event is measured without the hand-over between goroutines.
func benchSession(b testing.TB, home store.Store) (*Session, *run) {
	h, err := Open(context.Background(), Options{Store: home, DefaultDir: b.TempDir(),
		Backends: []NamedBackend{{Name: "quiet", Backend: quietAgent{}}}})
	if err != nil {
		b.Fatal(err)
	}
	s, err := h.CreateSession(context.Background(), CreateSession{By: event.Actor{Front: "bench"}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return s, s.chatRun(s.work.Default)
}

// on runs f on the session's goroutine.
func on(b testing.TB, s *Session, f func()) {
	done := make(chan struct{})
	s.urgent <- func() { f(); close(done) }
	select {
	case <-done:
	case <-time.After(time.Minute):
		b.Fatal("the session does not answer")
	}
}

func drain(sub *hub.Subscription) (stop func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			if _, err := sub.Next(context.Background()); err != nil {
				return
			}
		}
	}()
	return func() { sub.Close(); <-done }
}

func oneTurn(s *Session, r *run, deltas int) {
	s.start(r, event.Message{ID: id.New(), Text: "x", By: event.Actor{Front: "bench"}}, false)
	for range deltas {
		s.frame(r, &agent.Frame{Kind: agent.TextDelta, Part: "p", Text: "lorem ipsum dolor sit "})
		if s.w.full() {
			s.commit()
		}
	}
	s.turnEnd(r, &agent.Frame{Kind: agent.TurnEnd, Status: event.TurnComplete})
	s.commit()
}

// BenchmarkDelta is the core path of one delta: from an agent's frame over
// append and fold to one subscriber. The cost must not grow with the length
// of the conversation.
func BenchmarkDelta(b *testing.B) {
	for _, turns := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("turn=%d", turns), func(b *testing.B) {
			s, r := benchSession(b, memstore.New())
			on(b, s, func() {
				for range turns {
					s.at = now()
					oneTurn(s, r, 1)
				}
			})
			stop := drain(s.Subscribe(s.hub.Last()))
			defer stop()
			on(b, s, func() {
				s.start(r, event.Message{ID: id.New(), Text: "x"}, false)
				s.commit()
				b.ReportAllocs()
				b.ResetTimer()
				n := 0
				for b.Loop() {
					if n%64 == 0 {
						s.at = now()
					}
					if n++; n%20_000 == 0 { // texts are bounded: go on in another part
						r.closeText()
					}
					s.frame(r, &agent.Frame{Kind: agent.TextDelta, Part: "p", Text: "lorem ipsum dolor sit "})
					if s.w.full() {
						s.commit()
					}
				}
				s.turnEnd(r, &agent.Frame{Kind: agent.TurnEnd, Status: event.TurnComplete})
			})
		})
	}
}

// BenchmarkLongSession runs a million deltas and ten thousand turns through
// one session and reports how much the heap has grown.
func BenchmarkLongSession(b *testing.B) {
	for b.Loop() {
		home, err := boltstore.Open(b.TempDir())
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { home.Close() })
		s, r := benchSession(b, home)
		stop := drain(s.Subscribe(0))
		before := heap()
		for range 10_000 {
			on(b, s, func() { s.at = now(); oneTurn(s, r, 100) })
		}
		if err := s.Durable(context.Background(), s.seq.Load()); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(heap()-before)/(1<<20), "MiB")
		stop()
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
