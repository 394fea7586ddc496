package outbox

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
)

func TestFramesOfATapeAreTakenAsRunsWithEverythingElseInItsPlace(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	tape := &Tape{Header: lengths}
	o := New(0)
	var pushed, taken []byte
	runs, frames := 0, 0
	for range 300 {
		for i := range rng.IntN(300) {
			f := Frame("7:private")
			if rng.IntN(100) > 0 {
				f = tape.Add(bytes.Repeat([]byte{byte('a' + i%26)}, rng.IntN(400)))
			}
			if rng.IntN(100) == 0 {
				continue // a frame of the tape that is not for this queue
			}
			if err := o.Push(f); err != nil {
				t.Fatal(err)
			}
			pushed = append(pushed, f...)
			frames++
		}
		for range rng.IntN(3) {
			batch, err := o.Take()
			if err != nil {
				t.Fatal(err)
			}
			size := 0
			for _, run := range batch {
				if !wholeFrames(run) {
					t.Fatal("a run ends inside a frame")
				}
				size += len(run)
				taken = append(taken, run...)
			}
			if size > MaxBatch {
				t.Fatalf("a batch of %d bytes", size)
			}
			runs += len(batch)
		}
	}
	for {
		batch, _ := o.Take()
		if len(batch) == 0 {
			break
		}
		runs += len(batch)
		for _, run := range batch {
			taken = append(taken, run...)
		}
	}
	if !bytes.Equal(pushed, taken) {
		t.Fatalf("%d bytes were pushed, other %d taken", len(pushed), len(taken))
	}
	if runs > frames/10 {
		t.Errorf("%d frames were taken in %d runs", frames, runs)
	}
}

func TestFramesOfOneArrayThatAreNotNeighboursStayApart(t *testing.T) {
	t.Parallel()
	tape := new(Tape)
	a, b, c := tape.Add([]byte("a")), tape.Add([]byte("b")), tape.Add([]byte("c"))
	for _, order := range [][]Frame{{a, c}, {b, a}, {c, b, a}, {a, a}, {a, {}, b}, {a, b, c}} {
		o := New(0)
		var want, got string
		for _, f := range order {
			_ = o.Push(f)
			want += string(f)
		}
		batch, _ := o.Take()
		for _, run := range batch {
			got += string(run)
		}
		if got != want {
			t.Errorf("pushed %q, got %q", want, got)
		}
	}
}

// A tape goes on while the queues that share it are written.
func TestRunsDoNotChangeWhileTheTapeGrows(t *testing.T) {
	t.Parallel()
	const count = 20_000
	tape := new(Tape)
	outs := make([]*Outbox, 4)
	var wg sync.WaitGroup
	for i := range outs {
		outs[i] = New(1 << 30)
		wg.Go(func() {
			for n := 0; n < count; {
				batch, err := outs[i].Next(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				for _, run := range batch {
					for ; len(run) > 0; n++ {
						want := fmt.Sprintf("%06d", n)
						if string(run[:6]) != want {
							t.Errorf("got %s, want %s", run[:6], want)
							return
						}
						run = run[6:]
					}
				}
			}
		})
	}
	for n := range count {
		f := tape.Add(fmt.Appendf(nil, "%06d", n))
		for _, o := range outs {
			_ = o.Push(f)
		}
	}
	wg.Wait()
}

func TestBoundsHoldForRuns(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 300, 9000} {
		tape, o := new(Tape), New(100_000)
		queued := 0
		for {
			if err := o.PushBelow(tape.Add(make([]byte, size)), 80_000); errors.Is(err, ErrFull) {
				break
			}
			queued += size
		}
		if held := o.Len(); held > 80_000 || queued < 60_000 {
			t.Errorf("frames of %d bytes: %d queued, which cost %d", size, queued, held)
		}
		if err := o.Push(tape.Add(make([]byte, size))); err != nil {
			t.Errorf("the rest of the bound is not there for Push: %v", err)
		}
	}
}

// lengths is a header of one to some digits and a colon.
func lengths(dst []byte, n int) []byte { return append(strconv.AppendInt(dst, int64(n), 10), ':') }

// wholeFrames reports whether a run is frames with lengths as their headers.
func wholeFrames(run []byte) bool {
	for len(run) > 0 {
		head, rest, ok := bytes.Cut(run, []byte(":"))
		n, err := strconv.Atoi(string(head))
		if !ok || err != nil || n > len(rest) {
			return false
		}
		run = rest[n:]
	}
	return true
}

func TestAPayloadMayBeWrittenInPlaceWhateverItsLength(t *testing.T) {
	t.Parallel()
	tape := &Tape{Header: lengths}
	var frames []Frame
	var want []string
	for i, size := range []int{1, 9, 10, 100, 5, 0, 70_000, 3, 999, 1000, 4 * chunkSize, 12, 300, 301} {
		payload := bytes.Repeat([]byte{byte('a' + i)}, size)
		b := tape.Begin(size / (1 + i%3)) // some turn out longer than was said
		frames = append(frames, tape.End(append(b, payload...)))
		want = append(want, fmt.Sprintf("%d:%s", size, payload))
	}
	for i, f := range frames {
		if string(f) != want[i] {
			t.Errorf("frame %d is %.20q…, want %.20q…", i, f, want[i])
		}
	}
}

func TestARunIsPushedAsAWhole(t *testing.T) {
	t.Parallel()
	tape, o := new(Tape), New(1000)
	run := Run(tape.Add(make([]byte, 300)))
	for range 2 {
		var ok bool
		if run, ok = run.Join(tape.Add(make([]byte, 300))); !ok {
			t.Fatal("neighbours do not join")
		}
	}
	if err := o.Push(Frame(run)); err != nil {
		t.Fatal(err)
	}
	if err := o.Push(tape.Add(make([]byte, 600))); !errors.Is(err, ErrFull) {
		t.Fatalf("more than the bound: %v", err)
	}
	if batch, _ := o.Take(); len(batch) != 1 || len(batch[0]) != 900 {
		t.Fatalf("took %d runs", len(batch))
	}
}

func BenchmarkPushARun(b *testing.B) {
	o, tape, payload := New(0), new(Tape), make([]byte, 256)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		_ = o.Push(tape.Add(payload))
		if i%64 == 63 {
			_, _ = o.Take()
		}
	}
}
