//go:build linux

package bench

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// all are the fronts where it does not matter what a delta is.
var all = append(append([]protocol(nil), protocols...), bae)

// BenchmarkIdleGateway is the resident memory of a gateway and its demo agent
// after a first turn, once it has settled.
func BenchmarkIdleGateway(b *testing.B) {
	for b.Loop() {
		g := start(b, "demo")
		sid := g.session()
		s := watchZidane(g, sid)
		g.prompt(sid, "say hello")
		s.turn(protocols[2])
		s.close()
		gateway := g.lowest()
		var sum int64
		for _, pid := range g.processes() {
			sum += residentOf(b, pid)
		}
		b.ReportMetric(mib(gateway), "gateway-MiB")
		b.ReportMetric(mib(sum), "MiB")
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkIdleConnection is the slope of the gateway's resident memory over
// connections that watch a session in which nothing happens. The first ones
// fill the pools and do not count.
func BenchmarkIdleConnection(b *testing.B) {
	each(b, all, func(b *testing.B, p protocol) {
		const first, conns = 200, 1000
		g := start(b, "demo")
		sid := g.session()
		open := func(n int) {
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for range n / 4 {
						p.watch(g, sid)
					}
				})
			}
			wg.Wait()
		}
		g.prompt(sid, "say hello") // some fronts show a session from its first turn on
		for b.Loop() {
			open(first)
			before := g.settled()
			open(conns)
			b.ReportMetric(float64(g.settled()-before)/conns/1024, "KiB/connection")
		}
		b.ReportMetric(0, "ns/op")
	})
}

// BenchmarkStalledMemory is what clients that never read cost: the growth of
// the gateway's resident memory for each of 10, after 8 MiB of text for them
// and after 8 MiB more, beside what the same turns cost without them.
func BenchmarkStalledMemory(b *testing.B) {
	each(b, sockets, func(b *testing.B, p protocol) {
		const stalled = 10
		script := strings.Repeat(fmt.Sprintf("stream %d 256\n", 8192), 4)
		run := func(clients int) (grown [2]float64) {
			g := start(b, "demo")
			sid := g.session()
			for range clients {
				p.watch(g, sid)
			}
			before := g.settled()
			for i := range grown {
				g.prompt(sid, script)
				g.idle(sid)
				grown[i] = mib(g.settled() - before)
			}
			return grown
		}
		for b.Loop() {
			none, some := run(0), run(stalled)
			b.ReportMetric((some[0]-none[0])/stalled, "MiB/client")
			b.ReportMetric((some[1]-none[1])/stalled, "MiB/client-later")
		}
		b.ReportMetric(0, "ns/op")
	})
}

// BenchmarkLongSession runs a million deltas in ten thousand turns through one
// session with a client on every front, and reports how the gateway's own memory
// has grown, and in its second half alone.
func BenchmarkLongSession(b *testing.B) {
	const turns, deltas = 10_000, 100
	for b.Loop() {
		g := start(b, "demo")
		sid := g.session()
		var watchers []*stream
		for _, p := range all[1:] {
			watchers = append(watchers, p.watch(g, sid))
		}
		for _, s := range watchers {
			go func() {
				for {
					if _, err := s.next(); err != nil {
						return
					}
				}
			}()
		}
		s := protocols[0].watch(g, sid)
		turn := func() {
			g.prompt(sid, fmt.Sprintf("stream %d 20", deltas))
			s.turn(protocols[0])
		}
		for range 100 {
			turn()
		}
		heap := func() int64 { g.settled(); return anonymousOf(b, g.pid) }
		before, began := heap(), time.Now()
		for range turns / 2 {
			turn()
		}
		half := heap()
		for range turns / 2 {
			turn()
		}
		took := time.Since(began)
		end := heap()
		b.ReportMetric(mib(end-before), "MiB")
		b.ReportMetric(mib(end-half), "MiB-second-half")
		b.ReportMetric(turns/took.Seconds(), "turns/s")
		s.close()
		for _, w := range watchers {
			w.close()
		}
	}
	b.ReportMetric(0, "ns/op")
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }
