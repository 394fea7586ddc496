//go:build linux && !race

package bench

import (
	"testing"
	"time"

	"github.com/polyhost/polyhost/transports/outbox"
)

// A client that never reads costs the gateway at most the bound of its queue and,
// on fronts that let the ring which all clients share grow for those who are behind,
// what that may grow to; nothing once it is gone and something more was said. The race detector
// makes so much text too slow: the client would be cut before it is full.
func TestAStalledClientCostsAtMostItsBound(t *testing.T) {
	const slack int64 = 2 << 20 // what one run differs from another by
	for _, p := range all {
		t.Run(p.name, func(t *testing.T) {
			g := inside(t, p.name)
			sid := g.session()
			count(p.watch(g, sid), p)
			g.talk(sid, p.kept()) // fills what a session and a front that has clients keep anyway
			before := restingHeap()
			stalled := p.watch(g, sid)
			stalled.next = nil // the buffer of what it has read is not the gateway's
			g.talk(sid, stalledText)
			full := restingHeap() - before
			g.talk(sid, stalledText)
			later := restingHeap() - before
			stalled.close()
			gone := restingHeap() - before
			for began := time.Now(); gone > slack && time.Since(began) < patience; {
				g.talk(sid, turnText)
				gone = restingHeap() - before
			}
			t.Logf("%.1f MiB after 8 MiB of text, %.1f after 16, %.1f when it is gone", mib(full), mib(later), mib(gone))
			bound := outbox.DefaultLimit + p.ringGrowth() + slack
			if full > bound {
				t.Errorf("a stalled client costs %.1f MiB", mib(full))
			}
			if later > bound {
				t.Errorf("a stalled client goes on to grow, to %.1f MiB", mib(later))
			}
			if gone > slack {
				t.Errorf("a client that is gone leaves %.1f MiB", mib(gone))
			}
		})
	}
}

// ringGrowth is what the shared ring of a front may come to hold more than usual,
// with room for the chunks that its frames lie in.
func (p protocol) ringGrowth() int64 {
	switch p.name {
	case "ahp", "zidane", "cognitio":
		return 64 << 20
	}
	return 0
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
