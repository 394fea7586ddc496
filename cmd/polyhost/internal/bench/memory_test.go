//go:build linux

package bench

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/transports/outbox"
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
// connections that watch a session in which nothing happens, after a collection
// on both ends of it. The first ones fill the pools and do not count.
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
			heap, resident := g.memory()
			open(conns)
			heap2, resident2 := g.memory()
			b.ReportMetric(float64(resident2-resident)/conns/1024, "KiB/connection")
			b.ReportMetric(float64(heap2-heap)/conns/1024, "heap-KiB/connection")
		}
		b.ReportMetric(0, "ns/op")
	})
}

// BenchmarkStalledMemory is what clients that never read cost, in memory of
// the gateway after a collection: after thrice the bound of their queues in
// text, after as much again, and once all were cut; most fronts cut them sooner. What the same turns cost
// without clients is subtracted.
func BenchmarkStalledMemory(b *testing.B) {
	each(b, all, func(b *testing.B, p protocol) {
		for _, stalled := range []int{1, 20} {
			b.Run(fmt.Sprintf("clients=%d", stalled), func(b *testing.B) {
				for b.Loop() {
					none, some := stall(b, p, 0), stall(b, p, stalled)
					for i, name := range []string{"MiB/client", "MiB/client-later", "MiB/client-cut"} {
						b.ReportMetric(mib(some.heap[i]-none.heap[i])/float64(stalled), name)
					}
					b.ReportMetric(mib(some.resident-none.resident)/float64(stalled), "resident-MiB/client-later")
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	})
}

// grown is what memory has come on top of that of a gateway with its clients
// connected: after the text, after as much again and without the clients.
type grown struct {
	heap     [3]int64
	resident int64 // after as much again
}

func stall(b *testing.B, p protocol, clients int) (out grown) {
	g := start(b, "demo")
	sid := g.session()
	say := func() { g.talk(sid, stalledText) }
	reader := p.watch(g, sid)
	count(reader, p)
	g.talk(sid, p.kept()) // what a session and a front that has clients keep anyway is there from here on
	conns := make([]*stream, clients)
	for i := range conns {
		conns[i] = p.watch(g, sid)
	}
	heap, resident := g.resting()
	for i := range 2 {
		say()
		h, r := g.resting()
		out.heap[i], out.resident = h-heap, r-resident
	}
	for began := time.Now(); clients > 0 && g.clients(p.name) > 1; time.Sleep(100 * time.Millisecond) {
		if time.Since(began) > patience {
			b.Fatalf("%d stalled clients were never cut", g.clients(p.name))
		}
	}
	h, _ := g.resting()
	out.heap[2] = h - heap
	for _, c := range conns {
		c.close()
	}
	return out
}

// stalledText is how much a stalled client is sent at a time: thrice its bound.
const stalledText = 3 * outbox.StalledCost

// kept is more than a front keeps of what was said, for those who come back.
func (p protocol) kept() int {
	if p.name == "ahp" { // one journal for all its sessions, of 32 MiB
		return 40 << 20
	}
	return stalledText
}

// turnText is what one turn of talk says.
const turnText = talkDeltas * talkPayload

const talkDeltas, talkPayload = 64, 4096

// talk runs turns until so much was said.
func (g *gateway) talk(sid id.ID, size int) {
	for range size / turnText {
		g.prompt(sid, fmt.Sprintf("stream %d %d", talkDeltas, talkPayload))
		g.idle(sid)
	}
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
		heap := func() int64 { _, resident := g.memory(); return resident }
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
