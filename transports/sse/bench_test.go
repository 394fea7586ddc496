package sse

import (
	"io"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/polyhost/polyhost/transports/outbox"
)

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkFanOut sends b.N events to each of 100 subscribers, flat out, and
// reports deliveries per CPU-second, receivers included.
func BenchmarkFanOut(b *testing.B) {
	const subscribers = 100
	srv, streams, _ := hub(b, Options{}, 0)
	event := Data(make([]byte, 256))
	outs := make([]*outbox.Outbox, subscribers)
	var done sync.WaitGroup
	for i := range outs {
		res := get(b, srv.URL)
		outs[i] = <-streams
		done.Go(func() {
			want := int64(len(comment) + b.N*len(event))
			if n, _ := io.CopyN(io.Discard, res.Body, want); n != want {
				b.Errorf("a subscriber got %d of %d bytes", n, want)
			}
		})
	}
	b.ResetTimer()
	before := cpu()
	for range b.N {
		for _, out := range outs {
			for out.Push(event) != nil {
				_ = out.WaitBelow(b.Context(), outbox.DefaultLimit/2)
			}
		}
	}
	done.Wait()
	b.ReportMetric(float64(b.N)*subscribers/(cpu()-before).Seconds(), "deliveries/cpu-s")
	b.ReportMetric(0, "ns/op")
}
