//go:build linux

package bench

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// A front encodes a delta once, however many clients it has. An encoding makes
// at least one object, so one for each client would show among the objects that
// are made for a delta. The clients make none: they count what they see.
func TestADeltaIsEncodedOnceForAllClients(t *testing.T) {
	const (
		few, many = 1, 50
		deltas    = 2000
	)
	for _, p := range all {
		t.Run(p.name, func(t *testing.T) {
			g := inside(t, p.name)
			sid := g.session()
			// Some fronts show a session from its first turn on. Cognitio has one
			// stream for all that happens: the clients below come once that turn
			// is said there, not only over.
			said := watchCognitio(g, sid)
			g.prompt(sid, "say hello")
			g.idle(sid)
			said.until(`"type":"session.idle"`)
			said.close()
			perDelta := func(clients []*counter) float64 {
				before := allocations()
				for _, c := range clients {
					c.want(deltas)
				}
				g.prompt(sid, fmt.Sprintf("stream %d 20", deltas))
				g.idle(sid)
				for _, c := range clients {
					c.wait(t)
				}
				return float64(allocations()-before) / deltas
			}
			watch := func(n int) (clients []*counter) {
				for range n {
					clients = append(clients, count(p.watch(g, sid), p))
				}
				return clients
			}
			clients := watch(few)
			perDelta(clients) // fills the pools
			one := perDelta(clients)
			clients = append(clients, watch(many-few)...)
			perDelta(clients)
			all := perDelta(clients)
			t.Logf("%.2f objects a delta for one client, %.2f for %d", one, all, many)
			if all-one > many/5 { // an encoding for each would make 49 more
				t.Errorf("a delta makes %.1f objects for one client and %.1f for %d", one, all, many)
			}
		})
	}
}

// counter reads a stream and counts deltas and ends of turns without making
// anything.
type counter struct {
	p            protocol
	deltas, ends atomic.Int64
	wantDeltas   int64
	wantEnds     int64
}

func count(s *stream, p protocol) *counter {
	c := &counter{p: p}
	go func() {
		delta, end := []byte(p.delta), []byte(p.end)
		buf, kept := make([]byte, 64<<10), 0
		for {
			n, err := s.raw.Read(buf[kept:])
			seen := buf[:kept+n]
			c.deltas.Add(int64(bytes.Count(seen, delta)))
			c.ends.Add(int64(bytes.Count(seen, end)))
			if err != nil {
				return
			}
			// What may be the beginning of a mark is looked at again, what was
			// counted is not.
			kept = copy(buf, tailOf(seen, delta, end))
		}
	}()
	return c
}

// tailOf is the longest end of what was seen that begins one of the marks.
func tailOf(seen []byte, marks ...[]byte) []byte {
	longest := 0
	for _, m := range marks {
		for n := min(len(m)-1, len(seen)); n > longest; n-- {
			if bytes.HasSuffix(seen, m[:n]) {
				longest = n
			}
		}
	}
	return seen[len(seen)-longest:]
}

// want says that so many deltas and the end of a turn are to come.
func (c *counter) want(deltas int64) {
	if c.p.name == bae.name {
		deltas = 0
	}
	c.wantDeltas, c.wantEnds = c.deltas.Load()+deltas, c.ends.Load()+1
}

func (c *counter) wait(t *testing.T) {
	t.Helper()
	for began := time.Now(); c.deltas.Load() < c.wantDeltas || c.ends.Load() < c.wantEnds; time.Sleep(time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatalf("a client has %d of %d deltas and %d of %d ends", c.deltas.Load(), c.wantDeltas, c.ends.Load(), c.wantEnds)
		}
	}
	if n := c.deltas.Load(); n != c.wantDeltas {
		t.Errorf("a client got %d deltas, want %d", n, c.wantDeltas)
	}
}
