//go:build linux

package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/transports/outbox"
)

// A client that never reads costs the gateway at most the bound of its queue,
// whatever goes on being said, and nothing once it is gone.
func TestAStalledClientCostsAtMostItsBound(t *testing.T) {
	const slack = 2 << 20 // what one run differs from another by
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
				gone = restingHeap() - before
			}
			t.Logf("%.1f MiB after 8 MiB of text, %.1f after 16, %.1f when it is gone", mib(full), mib(later), mib(gone))
			if full > outbox.DefaultLimit+slack {
				t.Errorf("a stalled client costs %.1f MiB", mib(full))
			}
			if later > outbox.DefaultLimit+slack {
				t.Errorf("a stalled client goes on to grow, to %.1f MiB", mib(later))
			}
			if gone > slack {
				t.Errorf("a client that is gone leaves %.1f MiB", mib(gone))
			}
		})
	}
}

// stalledText is how much a stalled client is sent at a time: twice its bound.
const stalledText = 2 * outbox.DefaultLimit

// kept is more than a front keeps of what was said, for those who come back.
func (p protocol) kept() int {
	if p.name == "ahp" { // one journal for all its sessions
		return 40 << 20
	}
	return stalledText
}

// talk runs turns of a quarter of a megabyte each until so much was said.
func (g *gateway) talk(sid id.ID, size int) {
	const deltas, payload = 64, 4096
	for range size / (deltas * payload) {
		g.prompt(sid, fmt.Sprintf("stream %d %d", deltas, payload))
		g.idle(sid)
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
