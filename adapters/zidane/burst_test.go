package zidane

import "testing"

// A client that goes on reading gets all of a burst that is far more than the
// ring holds for those who resume.
func TestReaderIsNotCutOffByABurst(t *testing.T) {
	t.Parallel()
	const deltas = 20_000
	g := newGateway(t)
	c := g.connect()
	got := text(c.send(c.newSession(), "stream 20000 4"))
	if len(got) != 4*deltas {
		t.Errorf("%d bytes of text, want %d", len(got), 4*deltas)
	}
}
