package outbox

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/polyhost/polyhost/core/agent"
)

func text(s string) agent.Frame { return agent.Frame{Kind: agent.TextDelta, Text: s} }

func TestRecvTakesWhatGathered(t *testing.T) {
	t.Parallel()
	o, ctx := New(), context.Background()
	for _, s := range []string{"a", "b", "c"} {
		if err := o.Put(ctx, text(s)); err != nil {
			t.Fatal(err)
		}
	}
	o.Close(io.EOF)
	got, err := o.Recv(ctx)
	if err != nil || len(got) != 3 || got[0].Text+got[1].Text+got[2].Text != "abc" {
		t.Fatalf("got %v, %v", got, err)
	}
	if _, err := o.Recv(ctx); !errors.Is(err, io.EOF) {
		t.Fatalf("after the last frame: %v", err)
	}
	if err := o.Put(ctx, text("d")); !errors.Is(err, io.EOF) {
		t.Fatalf("put after close: %v", err)
	}
}

func TestASlowHostSlowsTheAgent(t *testing.T) {
	t.Parallel()
	for name, frame := range map[string]agent.Frame{
		"by count": text("x"),
		"by bytes": text(strings.Repeat("x", MaxBytes/4)),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o, ctx := New(), context.Background()
				put := 0
				const all = 3 * MaxFrames
				go func() {
					for range all {
						if o.Put(ctx, frame) != nil {
							return
						}
						put++
					}
				}()
				synctest.Wait()
				if put == 0 || put > MaxFrames {
					t.Fatalf("%d frames went in while nobody received", put)
				}
				for got := 0; got < all; {
					fs, err := o.Recv(ctx)
					if err != nil {
						t.Fatal(err)
					}
					got += len(fs)
				}
			})
		})
	}
}

func TestACancelledPutLeavesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := New()
		for range MaxFrames {
			_ = o.Put(context.Background(), text("x"))
		}
		ctx, cancel := context.WithCancel(context.Background())
		var err error
		go func() { err = o.Put(ctx, text("late")) }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("put: %v", err)
		}
		fs, _ := o.Recv(context.Background())
		if len(fs) != MaxFrames || fs[len(fs)-1].Text == "late" {
			t.Fatalf("%d frames", len(fs))
		}
	})
}

func BenchmarkPutRecv(b *testing.B) {
	o, ctx := New(), context.Background()
	go func() {
		for range b.N {
			_ = o.Put(ctx, text("word"))
		}
		o.Close(io.EOF)
	}()
	b.ReportAllocs()
	for {
		if _, err := o.Recv(ctx); err != nil {
			return
		}
	}
}
