package host_test

import (
	"errors"
	"testing"

	"github.com/polyhost/polyhost/backends/demo"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
)

func TestAForkHasTheHistoryAndGoesItsOwnWay(t *testing.T) {
	t.Parallel()
	keep := t.TempDir()
	f := newFixture(t, keeping(keep))
	s := f.session()
	f.turn(s, "think hm\nsay one")
	f.turn(s, "write a.txt hello\nusage 3 4")
	fork, err := s.Fork(f.ctx(), host.Fork{By: tester, Title: "the other way"})
	if err != nil {
		t.Fatal(err)
	}
	was, is := s.State(), fork.State()
	if is.Info.Title != "the other way" || is.DefaultChat().Count != 2 || is.Usage != was.Usage || is.DefaultChat().Conversation != "" {
		t.Errorf("the fork is %+v with %d turns, usage %+v", is.Info, is.DefaultChat().Count, is.Usage)
	}
	for i, turn := range is.DefaultChat().Turns {
		old := was.DefaultChat().Turns[i]
		if turn.ID == old.ID || !turn.ID.Time().Equal(old.ID.Time()) || turn.Message.Text != old.Message.Text || turn.Text() != old.Text() || len(turn.Parts) != len(old.Parts) || turn.Status != old.Status {
			t.Errorf("turn %d: %+v, was %+v", i, turn, old)
		}
	}
	f.until(fork, "the last event", func(e *event.Event) bool { return e.Seq == is.Seq })
	f.turn(fork, "say two")
	f.turn(s, "say three")
	for session, want := range map[*host.Session]string{s: "say three", fork: "say two"} {
		c := session.State().DefaultChat()
		page, err := (&demo.Backend{Keep: keep}).History(t.Context(), agent.HistoryQuery{ID: c.Conversation})
		if err != nil || len(page.Turns) != 3 || page.Turns[2].Prompt != want {
			t.Errorf("%s: the agent has %d turns, %v", want, len(page.Turns), err)
		}
	}
	if a, b := s.State().DefaultChat().Conversation, fork.State().DefaultChat().Conversation; a == b {
		t.Errorf("both go on in %s", a)
	}
	f.host.RefreshPast(f.ctx())
	f.listed(2)
}

func TestAForkThatTheAgentCannotMakeIsRefusedInWords(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.session()
	if _, err := s.Fork(f.ctx(), host.Fork{By: tester}); !errors.Is(err, host.ErrInvalid) {
		t.Errorf("before the first turn: %v", err)
	}
	f.turn(s, "say one")
	if _, err := s.Fork(f.ctx(), host.Fork{By: tester, UpTo: s.ID()}); !errors.Is(err, host.ErrNotFound) {
		t.Errorf("at no turn: %v", err)
	}
}
