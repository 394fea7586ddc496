package host_test

import (
	"context"
	"testing"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
)

// More sessions than are worked on at once have messages waiting when the host
// stops; all of them run after the next start, in order and once.
func TestWaitingMessagesRunAfterARestart(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const sessions = 20
	waiting := map[*host.Session][]host.Prompted{}
	for range sessions {
		s := f.session()
		f.prompt(s, "sleep 60000")
		waiting[s] = []host.Prompted{f.prompt(s, "say two"), f.prompt(s, "say three")}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if err := f.host.Close(ctx); err != nil {
		t.Fatal(err)
	}
	f.open()
	for old, prompts := range waiting {
		s, err := f.host.Session(f.ctx(), old.ID())
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range prompts {
			turn := f.wait(s, p.Turn)
			if want := []string{"two", "three"}[i]; turn.Text() != want || turn.Status != event.TurnComplete || turn.Number != i+1 {
				t.Errorf("turn %d is %s and says %q", turn.Number, turn.Status, turn.Text())
			}
		}
		if c := s.State().DefaultChat(); c.Count != 3 || len(c.Queue) > 0 {
			t.Errorf("%d turns, %d messages wait", c.Count, len(c.Queue))
		}
	}
}
