package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/polyhost/polyhost/backends/demo"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
	"github.com/polyhost/polyhost/core/store/memstore"
)

// said are the texts of a turn, with the errors that it was resumed after.
func said(t *state.Turn) (out []string) {
	for _, p := range t.Parts {
		switch {
		case p.Notice != nil && p.Notice.Ended != nil:
			out = append(out, "! "+p.Notice.Text)
		case p.Kind == event.PartText:
			out = append(out, p.Text.String())
		}
	}
	return out
}

func same(t *testing.T, what string, a, b any) {
	t.Helper()
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	if errX != nil || errY != nil || string(x) != string(y) {
		t.Errorf("%s:\n%s\n%s", what, x, y)
	}
}

// killed is a session after the gateway was killed and started.
func (f *fixture) killed(s *host.Session) *host.Session {
	f.t.Helper()
	f.store.Close() // from here on nothing reaches the disk
	f.store = f.store.(*memstore.Store).Reopen()
	f.open()
	again, err := f.host.Session(f.ctx(), s.ID())
	if err != nil {
		f.t.Fatal(err)
	}
	return again
}

func TestAFailedTurnGoesOnWhereItFailed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.session()
	f.turn(s, "say before")
	failed := f.turn(s, "say one\nusage 1 2\nfail no luck\nsay two\nusage 3 4\nfail again\nsay three")
	chat := s.State().Default
	if failed.Status != event.TurnFailed || !failed.Resumable || failed.Number != 1 {
		t.Fatalf("%+v", failed)
	}
	if err := s.ResumeTurn(f.ctx(), chat, failed.ID, tester); err != nil {
		t.Fatal(err)
	}
	second := f.wait(s, failed.ID)
	if got := said(second); second.Status != event.TurnFailed || !second.Resumable || second.Error.Message != "again" ||
		!slices.Equal(got, []string{"one", "! no luck", "two"}) {
		t.Fatalf("%+v %q", second, got)
	}

	// So it does after a restart of the gateway, and the turn is the same then.
	shown := s.State().Chat(chat)
	s = f.again(s)
	same(t, "the failed turn after a restart", s.State().Chat(chat).Turns, shown.Turns)
	if err := s.ResumeTurn(f.ctx(), chat, failed.ID, tester); err != nil {
		t.Fatal(err)
	}
	third := f.wait(s, failed.ID)
	if got := said(third); third.Status != event.TurnComplete || third.Error != nil || third.Resumable || third.Number != 1 ||
		!slices.Equal(got, []string{"one", "! no luck", "two", "! again", "three"}) {
		t.Fatalf("%+v %q", third, got)
	}
	if u := third.Usage; u.Input != 4 || u.Output != 6 {
		t.Errorf("usage %+v", u)
	}
	if c := s.State().Chat(chat); c.Count != 2 || c.Active != nil || c.Failed() {
		t.Errorf("%d turns", c.Count)
	}
	f.turn(s, "say after")
	live := s.State().Chat(chat)
	s = f.again(s)
	same(t, "the turns after another restart", s.State().Chat(chat).Turns, live.Turns)
	all, err := s.Turns(f.ctx(), chat, -1, 10)
	if err != nil || len(all) != 3 {
		t.Fatalf("%d turns, %v", len(all), err)
	}
}

func TestATurnThatAStopCutOffAfterItWasResumedIsWhole(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(*fixture, *host.Session) *host.Session{
		"stopped": func(f *fixture, s *host.Session) *host.Session { return f.again(s) }, "killed": (*fixture).killed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cutOff(t, stop)
		})
	}
}

func cutOff(t *testing.T, stop func(*fixture, *host.Session) *host.Session) {
	f := newFixture(t)
	s := f.session()
	chat := s.State().Default
	failed := f.turn(s, "say one\nfail no luck\nsay two\nask Which?")
	if err := s.ResumeTurn(f.ctx(), chat, failed.ID, tester); err != nil {
		t.Fatal(err)
	}
	f.opened(s, event.Question)
	s = stop(f, s)
	c := s.State().Chat(chat)
	if c.Active != nil || c.Count != 1 || len(c.Turns) != 1 {
		t.Fatalf("%+v", c)
	}
	last := c.Turns[0]
	if got := said(last); last.Status != event.TurnCancelled || last.Resumable || !slices.Equal(got, []string{"one", "! no luck", "two"}) {
		t.Errorf("%+v %q", last, got)
	}
	if err := s.ResumeTurn(f.ctx(), chat, failed.ID, tester); !errors.Is(err, host.ErrInvalid) {
		t.Errorf("a cancelled turn: %v", err)
	}
}

func TestWhatCannotBeResumedIsRefusedInWords(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.session()
	chat := s.State().Default
	refused := func(what string, turn id.ID, want error) {
		t.Helper()
		before := s.State().Chat(chat)
		if err := s.ResumeTurn(f.ctx(), chat, turn, tester); !errors.Is(err, want) {
			t.Errorf("%s: %v", what, err)
		}
		if now := s.State().Chat(chat); now.Count != before.Count || now.Cuts != before.Cuts {
			t.Errorf("%s: something happened", what)
		}
	}
	first := f.turn(s, "fail first")
	complete := f.turn(s, "say fine")
	refused("a turn that is not the last", first.ID, host.ErrInvalid)
	refused("a complete turn", complete.ID, host.ErrInvalid)
	refused("a turn that is not there", id.New(), host.ErrInvalid)
	failed := f.turn(s, "fail second")
	if err := s.ResumeTurn(f.ctx(), id.New(), failed.ID, tester); !errors.Is(err, host.ErrNotFound) {
		t.Errorf("no such chat: %v", err)
	}
	f.prompt(s, "ask Go on?")
	f.opened(s, event.Question)
	refused("while a turn runs", failed.ID, host.ErrBusy)
	if _, err := s.Interrupt(f.ctx(), host.Interrupt{By: tester}); err != nil {
		t.Fatal(err)
	}
	refused("a cancelled turn", s.State().DefaultChat().Turns[3].ID, host.ErrInvalid)
	command := f.prompt(s, "", func(p *host.Prompt) { p.Command = "exit 3" })
	if last := f.wait(s, command.Turn); last.Resumable {
		t.Errorf("a command: %+v", last)
	}
}

// heard folds what a session says as fronts do, from a state on.
func heard(t *testing.T, f *fixture, s *host.Session, from *state.State) *state.State {
	t.Helper()
	st := from.Thaw(state.ActiveOnly)
	sub := s.Subscribe(from.Seq)
	defer sub.Close()
	for upto := s.State().Seq; st.Seq < upto; {
		events, err := sub.Next(f.ctx())
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if err := st.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
	}
	return st
}

// A turn that failed is the newest again when those behind it were taken away: its
// agent goes on with it from there. Who follows the session has the whole turn.
func TestATurnIsResumedAfterThoseBehindItWereTakenAway(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]bool{"at once": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, keeping(t.TempDir()))
			s := f.session()
			chat := s.State().Default
			f.turn(s, "say before")
			failed := f.turn(s, "say one\nfail no luck\nsay two\nask Which?")
			f.turn(s, "say gone")
			f.turn(s, "say gone too")
			from := s.State()
			if _, err := s.Truncate(f.ctx(), chat, failed.ID, tester); err != nil {
				t.Fatal(err)
			}
			if stop {
				s = f.again(s)
			}
			if err := s.ResumeTurn(f.ctx(), chat, failed.ID, tester); err != nil {
				t.Fatal(err)
			}
			f.opened(s, event.Question)
			shown := heard(t, f, s, from).Chat(chat).Active
			if shown == nil || !slices.Equal(said(shown), []string{"one", "! no luck", "two"}) {
				t.Fatalf("fronts have %+v", shown)
			}
			if _, err := s.Interrupt(f.ctx(), host.Interrupt{By: tester}); err != nil {
				t.Fatal(err)
			}
			if last := f.wait(s, failed.ID); last.Status != event.TurnCancelled || last.Number != 1 {
				t.Errorf("%+v", last)
			}
			if last := f.turn(s, "say after"); last.Number != 2 || last.Text() != "after" {
				t.Errorf("%+v", last)
			}
			live := s.State().Chat(chat).Turns
			same(t, "after a restart", f.again(s).State().Chat(chat).Turns, live)
		})
	}
}

func TestATurnIsResumedInTheSessionItsChatWasMovedTo(t *testing.T) {
	t.Parallel()
	f := newFixture(t, keeping(t.TempDir()))
	s, dest := f.session(), f.session()
	chat, err := s.AddChat(f.ctx(), event.ChatInfo{}, tester)
	if err != nil {
		t.Fatal(err)
	}
	f.turnIn(s, chat, "say one")
	failed := f.turnIn(s, chat, "fail no luck\nsay two")
	from := dest.State()
	if _, err := s.MoveChat(f.ctx(), host.Move{Chat: chat, To: dest.ID(), By: tester}); err != nil {
		t.Fatal(err)
	}
	if c := heard(t, f, dest, from).Chat(chat); c.Resumable() == nil || !c.Failed() {
		t.Errorf("fronts have %+v", c)
	}
	moved := dest.State().Chat(chat).Turns
	dest = f.killed(dest)
	same(t, "after a kill", dest.State().Chat(chat).Turns, moved)
	if err := dest.ResumeTurn(f.ctx(), chat, failed.ID, tester); err != nil {
		t.Fatal(err)
	}
	last, err := dest.WaitTurn(f.ctx(), chat, failed.ID)
	if err != nil || last.Status != event.TurnComplete || !slices.Equal(said(last), []string{"! no luck", "two"}) {
		t.Fatalf("%v %+v", err, last)
	}
	c := heard(t, f, dest, from).Chat(chat)
	if c.Count != 2 || len(c.Turns) != 1 || c.Turns[0].Status != event.TurnComplete || c.Failed() {
		t.Errorf("fronts have %+v", c)
	}
	live := dest.State().Chat(chat).Turns
	same(t, "after a restart", f.again(dest).State().Chat(chat).Turns, live)
}

func TestAForkOfAFailedTurnIsNotResumed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.session()
	f.turn(s, "say one\nfail no luck")
	fork, err := s.Fork(f.ctx(), host.Fork{By: tester})
	if err != nil {
		t.Fatal(err)
	}
	c := fork.State().DefaultChat()
	if last := c.Turns[0]; last.Resumable {
		t.Error("the copy says that it can be resumed")
	} else if err := fork.ResumeTurn(f.ctx(), c.ID, last.ID, tester); !errors.Is(err, host.ErrInvalid) {
		t.Error(err)
	}
}

func TestTwoWhoResumeATurnAtOnceResumeItOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.session()
	chat := s.State().Default
	failed := f.turn(s, "fail no luck\nask Again?\nsay done")
	errs := make([]error, 4)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = s.ResumeTurn(f.ctx(), chat, failed.ID, tester) })
	}
	wg.Wait()
	resumed := 0
	for _, err := range errs {
		if err == nil {
			resumed++
		} else if !errors.Is(err, host.ErrBusy) {
			t.Error(err)
		}
	}
	if resumed != 1 {
		t.Fatalf("resumed %d times", resumed)
	}
	f.prompt(s, "say queued") // waits for the resumed turn's end
	i := f.opened(s, event.Question)
	if err := s.Resolve(f.ctx(), i.ID, event.Resolution{Outcome: event.Answered, By: tester,
		Answers: []event.Answer{{ID: "q1", Text: "yes"}}}); err != nil {
		t.Fatal(err)
	}
	if last := f.wait(s, failed.ID); last.Failures() != 1 || last.Status != event.TurnComplete {
		t.Errorf("%+v", last)
	}
}

func TestATurnIsResumedAfterItsAgentCrashed(t *testing.T) {
	t.Parallel()
	keep := filepath.Join(t.TempDir(), "kept")
	f := newFixture(t, func(o *host.Options) {
		o.Backends = []host.NamedBackend{{Name: "demo", Backend: &demo.Backend{Keep: keep}}}
	})
	s := f.session()
	failed := f.turn(s, "say one\ncrash\nsay two")
	if failed.Error == nil || failed.Error.Code != event.CodeAgentCrashed {
		t.Fatalf("%+v", failed)
	}
	if err := s.ResumeTurn(f.ctx(), s.State().Default, failed.ID, tester); err != nil {
		t.Fatal(err)
	}
	if last := f.wait(s, failed.ID); last.Status != event.TurnComplete || !slices.Equal(said(last)[2:], []string{"two"}) {
		t.Errorf("%+v %q", last, said(last))
	}
}

// forgetful is an agent that resumes nothing.
type forgetful struct{ *demo.Backend }

func (f forgetful) Info(ctx context.Context) (agent.Info, error) {
	info, err := f.Backend.Info(ctx)
	info.Capabilities.ResumeTurn = false
	return info, err
}

func TestAnAgentThatResumesNothingSaysSo(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *host.Options) {
		o.Backends = []host.NamedBackend{{Name: "demo", Backend: forgetful{demo.New()}}}
	})
	s := f.session()
	failed := f.turn(s, "fail no luck")
	err := s.ResumeTurn(f.ctx(), s.State().Default, failed.ID, tester)
	if failed.Resumable || !errors.Is(err, host.ErrUnsupported) {
		t.Errorf("%v, %v", failed.Resumable, err)
	}
}
