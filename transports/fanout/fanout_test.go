package fanout_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/polyhost/polyhost/transports/fanout"
	"github.com/polyhost/polyhost/transports/outbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tape lays frames that are lines.
type tape struct{ outbox.Tape }

func (t *tape) line(s string) outbox.Frame { return t.Add([]byte(s + "\n")) }

// take empties a queue as its writer would, at most n batches.
func take(o *outbox.Outbox, n int) (got []string) {
	for range n {
		batch, _ := o.Take()
		if len(batch) == 0 {
			return got
		}
		for _, run := range batch {
			for line := range strings.Lines(string(run)) {
				got = append(got, strings.TrimSuffix(line, "\n"))
			}
		}
	}
	return got
}

func name(pos uint64) string { return fmt.Sprint(pos) }

// publish adds positions as one run.
func publish(t *fanout.Topic, from, to uint64) {
	var on tape
	for pos := from; pos <= to; pos++ {
		t.Add(pos, on.line(name(pos)))
	}
	t.Flush()
}

func names(from, to uint64) (out []string) {
	for pos := from; pos <= to; pos++ {
		out = append(out, name(pos))
	}
	return out
}

func TestAttachmentGetsWhatComesAfterItsPosition(t *testing.T) {
	t.Parallel()
	topic := fanout.NewTopic(0, fanout.Retain{})
	publish(topic, 1, 10)
	out := outbox.New(0)
	a := topic.Attach(out, fanout.AttachOptions{After: 4})
	publish(topic, 11, 12)
	if got := take(out, 9); !slices.Equal(got, names(5, 12)) {
		t.Fatalf("got %v", got)
	}
	if a.Pos() != 12 {
		t.Fatalf("position %d", a.Pos())
	}
	a.Detach()
	publish(topic, 13, 14)
	if got := take(out, 9); len(got) > 0 {
		t.Fatalf("after detach: %v", got)
	}
}

func TestPositionAheadOfTheTopicSkipsWhatItAlreadyCovers(t *testing.T) {
	t.Parallel()
	topic := fanout.NewTopic(0, fanout.Retain{})
	publish(topic, 1, 3)
	out := outbox.New(0)
	defer topic.Attach(out, fanout.AttachOptions{After: 6}).Detach()
	publish(topic, 4, 8)
	if got := take(out, 9); !slices.Equal(got, names(7, 8)) {
		t.Fatalf("got %v", got)
	}
}

func TestHeldAttachmentIsSilentUntilReleased(t *testing.T) {
	t.Parallel()
	topic := fanout.NewTopic(0, fanout.Retain{})
	publish(topic, 1, 3)
	out := outbox.New(0)
	a := topic.Attach(out, fanout.AttachOptions{After: 1, Held: true})
	defer a.Detach()
	publish(topic, 4, 5)
	if got := take(out, 9); len(got) > 0 {
		t.Fatalf("while held: %v", got)
	}
	_ = out.Push(outbox.Frame("answer\n"))
	a.Release()
	a.Release()
	publish(topic, 6, 6)
	if got := take(out, 9); !slices.Equal(got, append([]string{"answer"}, names(2, 6)...)) {
		t.Fatalf("got %v", got)
	}
}

func TestSinceSaysWhenThePastIsGone(t *testing.T) {
	t.Parallel()
	topic := fanout.NewTopic(10, fanout.Retain{Frames: 2})
	if _, ok := topic.Since(9); ok {
		t.Fatal("a position before the topic began")
	}
	topic.Publish(12, outbox.Frame("a"))
	topic.Publish(15, outbox.Frame("b"))
	got, ok := topic.Since(10)
	want := []fanout.Entry{{Pos: 12, Frame: outbox.Frame("a")}, {Pos: 15, Frame: outbox.Frame("b")}}
	if !ok || !slices.EqualFunc(got, want, func(a, b fanout.Entry) bool { return a.Pos == b.Pos && string(a.Frame) == string(b.Frame) }) {
		t.Fatalf("got %v, %v", got, ok)
	}
	topic.Publish(16, outbox.Frame("c"))
	if _, ok := topic.Since(11); ok {
		t.Fatal("position 12 must have left")
	}
	if got, ok := topic.Since(12); !ok || len(got) != 2 || topic.Last() != 16 {
		t.Fatalf("got %v, %v", got, ok)
	}
	topic.Publish(20, make([]byte, fanout.DefaultBytes+1))
	if got, ok := topic.Since(16); !ok || len(got) != 1 {
		t.Fatalf("the newest position is always kept; got %d, %v", len(got), ok)
	}
}

func TestStalledSinkHoldsAtMostItsBoundAndDelaysNobody(t *testing.T) {
	t.Parallel()
	const bound, frame, count = 100_000, 1000, 5000
	topic := fanout.NewTopic(0, fanout.Retain{Bytes: 200_000})
	stalled, fast := outbox.New(bound), outbox.New(0)
	gaps := make(chan uint64, 1)
	a := topic.Attach(stalled, fanout.AttachOptions{OnGap: func(after uint64) { gaps <- after }})
	defer topic.Attach(fast, fanout.AttachOptions{}).Detach()
	seen := 0
	for pos := uint64(1); pos <= count; pos++ {
		topic.Publish(pos, make([]byte, frame))
		seen += len(take(fast, 1))
		if held := stalled.Len(); held > bound {
			t.Fatalf("%d bytes wait for the stalled sink", held)
		}
	}
	if seen += len(take(fast, count)); seen != count {
		t.Fatalf("the other sink got %d frames", seen)
	}
	// It moves again too late: the position it is told of is what it has.
	got := 0
	for {
		n := len(take(stalled, 1))
		if got += n; n == 0 {
			break
		}
	}
	after := <-gaps
	got += len(take(stalled, count))
	if after != uint64(got) {
		t.Fatalf("told of a gap after %d, has %d", after, got)
	}
	a.Detach()
}

func TestClosedSinkLeaves(t *testing.T) {
	t.Parallel()
	topic := fanout.NewTopic(0, fanout.Retain{})
	var outs []*outbox.Outbox
	for range 5 {
		outs = append(outs, outbox.New(0))
		topic.Attach(outs[len(outs)-1], fanout.AttachOptions{})
	}
	for i := range outs {
		outs[i].Close(errors.New("bye"))
		topic.Publish(uint64(i+1), outbox.Frame("x"))
	}
	for i, o := range outs {
		if got := take(o, 9); len(got) != i {
			t.Errorf("the sink that closed before position %d has %d frames", i+1, len(got))
		}
	}
}

func TestDetachInsideOnGap(t *testing.T) {
	t.Parallel()
	topic := fanout.NewTopic(5, fanout.Retain{})
	told := make(chan uint64)
	ready := make(chan *fanout.Attachment, 1)
	ready <- topic.Attach(outbox.New(0), fanout.AttachOptions{After: 2, OnGap: func(after uint64) {
		(<-ready).Detach()
		told <- after
	}})
	if after := <-told; after != 2 {
		t.Fatalf("gap after %d", after)
	}
}

// oneFrame is the least bound, in bytes, that fits a frame of the property test
// and what a queue charges for it.
const oneFrame = 40

// client is a connection of the property test: it keeps what reached it, and
// reads the log itself when the topic says that its position is gone.
type client struct {
	topic *fanout.Topic
	out   *outbox.Outbox
	a     *fanout.Attachment
	start uint64
	got   []string
	mu    sync.Mutex
	gaps  []uint64
	limit int
}

func (c *client) attach(after uint64, held bool) {
	c.a = c.topic.Attach(c.out, fanout.AttachOptions{After: after, Held: held, OnGap: func(after uint64) {
		c.mu.Lock()
		c.gaps = append(c.gaps, after)
		c.mu.Unlock()
	}})
}

// told are the gaps it was told of since the last call.
func (c *client) told() []uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	gaps := c.gaps
	c.gaps = nil
	return gaps
}

func TestEverySinkSeesTheSameOrderWithoutGapOrDuplicate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// Only the interface: a bubble has no deadline for rapid to look at.
		rapid.Check(struct{ rapid.TB }{t}, func(t *rapid.T) {
			retain := fanout.Retain{Frames: rapid.IntRange(1, 40).Draw(t, "retained frames"), Bytes: rapid.IntRange(1, 400).Draw(t, "retained bytes"),
				Behind: rapid.IntRange(0, 4000).Draw(t, "retained for those behind")}
			topic := fanout.NewTopic(0, retain)
			var (
				on      tape
				log     []fanout.Entry
				pos     uint64
				clients []*client
			)
			// wanted is the log between two positions.
			wanted := func(after, upto uint64) (out []string) {
				for _, e := range log {
					if e.Pos > after && e.Pos <= upto {
						out = append(out, string(e.Frame))
					}
				}
				return out
			}
			// settle lets the feeders run and answers every gap from the log.
			settle := func() {
				for again := true; again; {
					synctest.Wait()
					again = false
					for _, c := range clients {
						gaps := c.told()
						if len(gaps) == 0 {
							continue
						}
						if len(gaps) > 1 {
							t.Fatalf("told of %d gaps", len(gaps))
						}
						after := gaps[0]
						c.a.Detach()
						c.got = append(c.got, take(c.out, 1<<20)...)
						c.got = append(c.got, wanted(after, pos)...)
						c.attach(pos, false)
						again = true
					}
				}
			}
			some := func(action func(c *client)) func(*rapid.T) {
				return func(t *rapid.T) {
					if len(clients) == 0 {
						t.Skip("nobody is there")
					}
					action(clients[rapid.IntRange(0, len(clients)-1).Draw(t, "client")])
				}
			}
			defer func() {
				for _, c := range clients {
					c.a.Detach()
				}
			}()
			t.Repeat(map[string]func(*rapid.T){
				"publish": func(t *rapid.T) {
					for range rapid.IntRange(1, 30).Draw(t, "positions") {
						pos += uint64(rapid.IntRange(1, 3).Draw(t, "step"))
						log = append(log, fanout.Entry{Pos: pos, Frame: []byte(name(pos))})
						topic.Add(pos, on.line(name(pos)))
						if rapid.Bool().Draw(t, "flush") {
							topic.Flush()
						}
					}
				},
				"join": func(t *rapid.T) {
					c := &client{topic: topic, limit: rapid.IntRange(oneFrame, 2000).Draw(t, "bound")}
					c.out = outbox.New(c.limit)
					c.start = uint64(rapid.IntRange(0, int(pos)+2).Draw(t, "after"))
					c.attach(c.start, rapid.Bool().Draw(t, "held"))
					clients = append(clients, c)
				},
				"release": some(func(c *client) { c.a.Release() }),
				"write a little": some(func(c *client) {
					c.got = append(c.got, take(c.out, 1)...)
				}),
				"resume": some(func(c *client) {
					settle()
					c.a.Detach()
					at := c.a.Pos()
					c.got = append(c.got, take(c.out, 1<<20)...)
					c.got = slices.DeleteFunc(c.got, func(f string) bool {
						var pos uint64
						_, _ = fmt.Sscan(f, &pos)
						return pos > at
					})
					c.attach(at, false)
				}),
				"let time pass": func(*rapid.T) {
					time.Sleep(fanout.StallAfter)
					settle()
				},
				"flush":               func(*rapid.T) { topic.Flush() },
				"let the feeders run": func(*rapid.T) { settle() },
			})
			topic.Flush()
			for _, c := range clients {
				c.a.Release()
			}
			// Twice: an empty take says that the batch before was written.
			for idle := 0; idle < 2; idle++ {
				settle()
				for _, c := range clients {
					if got := take(c.out, 1<<20); len(got) > 0 {
						c.got = append(c.got, got...)
						idle = -1
					}
				}
			}
			for i, c := range clients {
				if want := wanted(c.start, pos); !slices.Equal(c.got, want) {
					t.Fatalf("client %d, after %d:\n got %v\nwant %v", i, c.start, c.got, want)
				}
				if at := c.a.Pos(); at != max(pos, c.start) {
					t.Fatalf("client %d is at %d of %d", i, at, pos)
				}
			}
		})
	})
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	const count = 20_000
	topic := fanout.NewTopic(0, fanout.Retain{Frames: count})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var on outbox.Tape
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			out := outbox.New(4000 * (i + 1))
			a := topic.Attach(out, fanout.AttachOptions{Held: i%2 == 0})
			a.Release()
			defer a.Detach()
			for want := uint64(1); want <= count; {
				batch, err := out.Next(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				for _, run := range batch {
					for ; len(run) > 0; run = run[8:] {
						if got := binary.BigEndian.Uint64(run); got != want {
							t.Errorf("got %d, want %d", got, want)
							return
						}
						want++
					}
				}
			}
		})
	}
	for pos := uint64(1); pos <= count; pos++ {
		topic.Add(pos, on.Add(binary.BigEndian.AppendUint64(nil, pos)))
		if pos%100 == 0 {
			topic.Flush()
		}
	}
	wg.Wait()
}

// A sink that goes on taking frames is not left behind by a burst that is far
// larger than what is kept otherwise, and the ring shrinks again.
func TestSinkThatTakesFramesIsNotLeftBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // where no time passes while anybody is at work
		const count = 50_000
		topic := fanout.NewTopic(0, fanout.Retain{Frames: 100, Behind: 32 << 20})
		out := outbox.New(1000)
		a := topic.Attach(out, fanout.AttachOptions{OnGap: func(after uint64) { out.Close(fmt.Errorf("left behind after %d", after)) }})
		defer a.Detach()
		published := make(chan struct{})
		go func() {
			defer close(published)
			publish(topic, 1, count)
		}()
		for want := uint64(1); want <= count; {
			batch, err := out.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, run := range batch {
				for line := range strings.Lines(string(run)) {
					if line != name(want)+"\n" {
						t.Fatalf("got %q, want %d", line, want)
					}
					want++
				}
			}
		}
		_, _ = out.Take()
		<-published
		synctest.Wait()
		if at := a.Pos(); at != count {
			t.Fatalf("at %d of %d", at, count)
		}
		publish(topic, count+1, count+10)
		if _, ok := topic.Since(count - 200); ok {
			t.Error("the ring still holds what nobody needs")
		}
	})
}

// However a frame gets to a sink, it counts once for it, and once as encoded.
func TestFramesAreCountedOnceForEachSink(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const count, sinks = 1000, 5
		var counts fanout.Counts
		topic := fanout.NewTopic(0, fanout.Retain{})
		topic.Count(&counts)
		small, held := outbox.New(1000), outbox.New(0)
		defer topic.Attach(small, fanout.AttachOptions{}).Detach()
		late := topic.Attach(held, fanout.AttachOptions{Held: true})
		defer late.Detach()
		for range sinks - 2 {
			defer topic.Attach(outbox.New(0), fanout.AttachOptions{}).Detach()
		}
		publish(topic, 1, count)
		late.Release()
		for got := 0; got < count; synctest.Wait() {
			got += len(take(small, 1))
		}
		if encoded, delivered := counts.Read(); encoded != count || delivered != sinks*count {
			t.Errorf("%d encoded, %d delivered", encoded, delivered)
		}
	})
}

// A sink that takes nothing lets the ring grow for a moment; then it is told of
// the gap and what was kept for it goes, though nothing more is published.
func TestSinkThatTakesNothingIsLeftBehindSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const count = 1000
		topic := fanout.NewTopic(0, fanout.Retain{Frames: 100, Behind: 1 << 20})
		out := outbox.New(1000)
		gap := uint64(0)
		topic.Attach(out, fanout.AttachOptions{OnGap: func(after uint64) { gap = after }})
		slow := outbox.New(1000)
		a := topic.Attach(slow, fanout.AttachOptions{OnGap: func(uint64) { t.Error("the slow sink was left behind") }})
		defer a.Detach()
		for pos := uint64(1); pos <= count; pos++ {
			topic.Publish(pos, outbox.Frame(name(pos)))
		}
		synctest.Wait()
		if _, ok := topic.Since(30); !ok || gap != 0 {
			t.Fatalf("the ring was not kept for those behind; gap after %d", gap)
		}
		for range 4 {
			time.Sleep(fanout.StallAfter / 2)
			_, _ = slow.Take()
			synctest.Wait()
		}
		if gap == 0 {
			t.Error("the stalled sink was not told of the gap")
		}
		if _, ok := topic.Since(gap); ok {
			t.Error("the ring still holds what the stalled sink needed")
		}
		for len(take(slow, 1)) > 0 || a.Pos() < count {
			synctest.Wait()
		}
		time.Sleep(2 * fanout.StallAfter)
		if _, ok := topic.Since(count - 200); ok {
			t.Error("the ring still holds what nobody needs")
		}
	})
}

// What the ring kept for an attachment alone goes with it.
func TestRingShrinksWhenThoseBehindLeave(t *testing.T) {
	t.Parallel()
	topic := fanout.NewTopic(0, fanout.Retain{Frames: 100, Behind: 1 << 20})
	a := topic.Attach(outbox.New(1000), fanout.AttachOptions{})
	publish(topic, 1, 1000)
	if _, ok := topic.Since(800); !ok {
		t.Fatal("the ring was not kept for who is behind")
	}
	a.Detach()
	if _, ok := topic.Since(800); ok {
		t.Error("the ring still holds what nobody needs")
	}
}

// BenchmarkPublishTo100 is the cost of one frame to a hundred connections whose
// writers keep up.
func BenchmarkPublishTo100(b *testing.B) {
	topic := fanout.NewTopic(0, fanout.Retain{})
	outs := make([]*outbox.Outbox, 100)
	for i := range outs {
		outs[i] = outbox.New(0)
		defer topic.Attach(outs[i], fanout.AttachOptions{}).Detach()
	}
	message := make([]byte, 256)
	var on outbox.Tape
	b.ReportAllocs()
	for pos := uint64(1); b.Loop(); pos++ {
		topic.Publish(pos, on.Add(message))
		if pos%32 == 0 {
			for _, o := range outs {
				_, _ = o.Take()
				_, _ = o.Take()
			}
		}
	}
}
