//go:build linux

package bench

import (
	"testing"
	"time"
)

// What is said in a session is encoded once for each front, and each frame goes
// to every client of it: the gateway's own counters say so.
func TestFramesAreEncodedOnceForAllClients(t *testing.T) {
	const (
		clients = 3
		unheard = 4 // frames at most that tell of the list of sessions, which not all clients watch
	)
	for _, p := range all {
		t.Run(p.name, func(t *testing.T) {
			g := inside(t, p.name)
			sid := g.session()
			var heard []*counter
			for range clients {
				heard = append(heard, count(p.watch(g, sid), p))
			}
			encodedBefore, deliveredBefore := g.frames.Read()
			g.prompt(sid, "stream 50 100")
			began := time.Now()
			for _, c := range heard {
				for ; c.ends.Load() == 0; time.Sleep(5 * time.Millisecond) {
					if time.Since(began) > patience {
						t.Fatal("a client did not hear the end of the turn")
					}
				}
			}
			var encoded, delivered uint64
			for ; ; time.Sleep(5 * time.Millisecond) {
				encoded, delivered = g.frames.Read()
				encoded, delivered = encoded-encodedBefore, delivered-deliveredBefore
				if encoded > 0 && delivered <= clients*encoded && delivered >= clients*(encoded-min(encoded-1, unheard)) && delivered%clients == 0 {
					break
				}
				if time.Since(began) > patience {
					t.Fatalf("%d frames encoded, %d delivered to %d clients", encoded, delivered, clients)
				}
			}
			t.Logf("%d frames encoded, %d delivered", encoded, delivered)
		})
	}
}
