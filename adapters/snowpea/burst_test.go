package snowpea

import "testing"

// A client that goes on reading gets all of a burst that is far more than its
// queue and the ring hold.
func TestReaderIsNotCutOffByABurst(t *testing.T) {
	t.Parallel()
	const deltas = 20_000
	g := newGateway(t)
	c := g.hello()
	s := c.session(g.dir)
	got := 0
	for _, e := range c.turnOf(s, c.prompt(s, "stream 20000 4")) {
		if e.Kind == "message.delta" {
			got++
		}
	}
	if got != deltas {
		t.Errorf("%d deltas, want %d", got, deltas)
	}
	gapless(t, c.of(s), 1)
}
