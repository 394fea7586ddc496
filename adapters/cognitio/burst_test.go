package cognitio

import "testing"

// A client that goes on reading gets all of a burst that is far more than what
// is kept for it otherwise.
func TestReaderIsNotCutOffByABurst(t *testing.T) {
	t.Parallel()
	const deltas = 50_000
	g := newGateway(t)
	s := g.listen("/event")
	session := g.session()
	g.prompt(session, "stream 50000 4")
	got := 0
	for _, e := range s.idle(session) {
		if e.Type == "message.part.delta" {
			got++
		}
	}
	if got != deltas {
		t.Errorf("%d deltas, want %d", got, deltas)
	}
}
