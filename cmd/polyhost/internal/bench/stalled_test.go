//go:build linux && !race

package bench

import (
	"testing"
	"time"

	"github.com/polyhost/polyhost/transports/outbox"
)

// A client that never reads costs the gateway at most its bound, at any time, and
// nothing once it is gone. The race detector makes so much text too slow.
func TestAStalledClientCostsAtMostItsBound(t *testing.T) {
	const (
		slack int64 = 512 << 10 // what one run differs from another by
		step        = 2 << 20   // of text between two looks at the heap
		// Half a second must pass before a client counts as stalled, in which a
		// fast machine says a lot; the limit of writes, 10 s, would hide all.
		soon = 5 * time.Second
	)
	for _, p := range all {
		t.Run(p.name, func(t *testing.T) {
			g := inside(t, p.name)
			sid := g.session()
			count(p.watch(g, sid), p)
			g.talk(sid, p.kept()) // fills what a session and a front that has clients keep anyway
			before := restingHeap()
			stalled := p.watch(g, sid)
			stalled.next = nil // the buffer of what it has read is not the gateway's
			most := int64(0)
			for said := 0; said < p.kept(); said += step {
				g.talk(sid, step)
				cost := restingHeap() - before
				for began := time.Now(); cost > outbox.StalledCost+slack && time.Since(began) < soon; {
					cost = restingHeap() - before
				}
				most = max(most, cost)
			}
			stalled.close()
			gone := restingHeap() - before
			for began := time.Now(); gone > slack && time.Since(began) < patience; {
				g.talk(sid, turnText)
				gone = restingHeap() - before
			}
			t.Logf("%.1f MiB at most, %.1f when it is gone", mib(most), mib(gone))
			if most > outbox.StalledCost+slack {
				t.Errorf("a stalled client costs %.1f MiB", mib(most))
			}
			if gone > slack {
				t.Errorf("a client that is gone leaves %.1f MiB", mib(gone))
			}
		})
	}
}

// restingHeap is the heap of this process once it has stopped to fall: a front
// may still be at work on what was said.
func restingHeap() int64 {
	low := heapInUse()
	for quiet := 0; quiet < 5; quiet++ {
		time.Sleep(20 * time.Millisecond)
		if now := heapInUse(); now < low-64<<10 {
			low, quiet = now, -1
		} else {
			low = min(low, now)
		}
	}
	return low
}
