package host_test

import (
	"context"
	"testing"
	"time"

	"github.com/polyhost/polyhost/core/host"
)

// A caller that gives up does not share its answer with the command, which may
// run all the same. What this tests shows under the race detector.
func TestCommandThatRunsAfterItsCallerGaveUp(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.session()
	for i := range 300 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%30)*10*time.Microsecond)
		if got, err := s.Prompt(ctx, host.Prompt{Text: "say x", By: tester}); err != nil && got != (host.Prompted{}) {
			t.Errorf("a prompt that failed with %v answers %+v", err, got)
		}
		if stopped, err := s.Interrupt(ctx, host.Interrupt{By: tester}); err != nil && stopped {
			t.Errorf("an interrupt that failed with %v says that it stopped a turn", err)
		}
		cancel()
	}
}
