package host_test

import (
	"testing"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
)

func TestTotalsCountWhatRan(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.session(func(c *host.CreateSession) { c.Settings.Mode = event.ModeAuto })
	f.turn(s, "usage 10 20\nrun true\nrun false")
	f.turn(s, "fail broken")
	want := host.Counts{TurnsStarted: 2, TurnsComplete: 1, TurnsFailed: 1, CallsDone: 1, CallsFailed: 1, InputTokens: 10, OutputTokens: 20}
	if got := f.host.Counts(); got != want {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}
