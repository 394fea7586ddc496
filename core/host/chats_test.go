package host_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/backends/demo"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
)

// prompts are what the agent remembers of a chat.
func (f *fixture) prompts(keep string, c *state.Chat) []string {
	f.t.Helper()
	page, err := (&demo.Backend{Keep: keep}).History(f.t.Context(), agent.HistoryQuery{ID: c.Conversation})
	if err != nil {
		f.t.Fatal(err)
	}
	var out []string
	for _, t := range page.Turns {
		out = append(out, t.Prompt)
	}
	return out
}

// shown are the prompts of a chat's turns, read page by page.
func (f *fixture) shown(s *host.Session, chat id.ID) []string {
	f.t.Helper()
	var out []string
	for before := -1; ; {
		page, err := s.Turns(f.ctx(), chat, before, 2)
		if err != nil {
			f.t.Fatal(err)
		}
		for i := len(page) - 1; i >= 0; i-- {
			out = append(out, page[i].Message.Text)
		}
		if len(page) == 0 || page[0].Number == 0 {
			slices.Reverse(out)
			return out
		}
		before = page[0].Number
	}
}

// turnIn prompts in a chat and waits for the end.
func (f *fixture) turnIn(s *host.Session, chat id.ID, text string) *state.Turn {
	f.t.Helper()
	p := f.prompt(s, text, func(p *host.Prompt) { p.Chat = chat })
	t, err := s.WaitTurn(f.ctx(), chat, p.Turn)
	if err != nil {
		f.t.Fatal(err)
	}
	return t
}

// again starts the host anew and opens a session.
func (f *fixture) again(s *host.Session, change ...func(*host.Options)) *host.Session {
	f.t.Helper()
	if err := f.host.Close(f.ctx()); err != nil {
		f.t.Fatal(err)
	}
	f.open(change...)
	s, err := f.host.Session(f.ctx(), s.ID())
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

// A chat beside the default one is named by its first message, until a person
// names it.
func TestAChatHasATitle(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.session()
	f.turn(s, "say one")
	chat, err := s.AddChat(f.ctx(), event.ChatInfo{}, tester)
	if err != nil {
		t.Fatal(err)
	}
	title := func() string { return s.State().Chat(chat).Title }
	f.turnIn(s, chat, "say aside")
	f.turnIn(s, chat, "say more")
	if got := title(); got != "say aside" {
		t.Errorf("the chat is called %q", got)
	}
	mine := "Mine"
	if err := s.UpdateChat(f.ctx(), chat, &event.ChatUpdated{By: tester, Title: &mine}); err != nil {
		t.Fatal(err)
	}
	f.turnIn(s, chat, "say on")
	if got := title(); got != mine || s.State().Info.Title != "say one" {
		t.Errorf("the chat is called %q, the session %q", got, s.State().Info.Title)
	}
}

func TestAForkInsideASessionBeginsAtItsTurn(t *testing.T) {
	t.Parallel()
	keep := t.TempDir()
	f := newFixture(t, keeping(keep))
	s := f.session()
	f.turn(s, "say one")
	second := f.turn(s, "think hm\nsay two")
	f.turn(s, "say three")
	chat, err := s.ForkChat(f.ctx(), host.ForkChat{Chat: s.State().Default, Turn: second.ID, By: tester})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"say one", "think hm\nsay two"}
	if got := f.shown(s, chat); !slices.Equal(got, want) {
		t.Errorf("the fork shows %q", got)
	}
	c := s.State().Chat(chat)
	if c.Count != 2 || c.Origin.Kind != event.OriginFork || c.Origin.Turn != second.ID || c.Turns[1].ID == second.ID || c.Turns[1].Text() != "two" {
		t.Errorf("the fork is %+v", c)
	}
	f.turn(s, "say four") // the first chat goes on before the fork begins
	f.turnIn(s, chat, "say other")
	if got := f.prompts(keep, s.State().Chat(chat)); !slices.Equal(got, append(want, "say other")) {
		t.Errorf("the agent of the fork remembers %q", got)
	}
	if got := f.prompts(keep, s.State().DefaultChat()); !slices.Equal(got, []string{"say one", "think hm\nsay two", "say three", "say four"}) {
		t.Errorf("the agent of the first chat remembers %q", got)
	}
	s = f.again(s, keeping(keep))
	if got := f.shown(s, chat); !slices.Equal(got, append(want, "say other")) {
		t.Errorf("after a restart the fork shows %q", got)
	}
}

// A new session, too, begins at the turn that was named, whatever the
// conversation does before its first prompt.
func TestAForkOfASessionBeginsAtItsTurn(t *testing.T) {
	t.Parallel()
	keep := t.TempDir()
	f := newFixture(t, keeping(keep))
	s := f.session()
	first := f.turn(s, "say one")
	f.turn(s, "say two")
	fork, err := s.Fork(f.ctx(), host.Fork{By: tester, UpTo: first.ID})
	if err != nil {
		t.Fatal(err)
	}
	f.turn(s, "say three")
	f.turn(fork, "say other")
	if got := f.prompts(keep, fork.State().DefaultChat()); !slices.Equal(got, []string{"say one", "say other"}) {
		t.Errorf("the agent of the fork remembers %q", got)
	}
	// A fork of what was copied goes back to where that came from.
	again, err := fork.Fork(f.ctx(), host.Fork{By: tester, UpTo: fork.State().DefaultChat().Turns[0].ID})
	if err != nil {
		t.Fatal(err)
	}
	f.turn(again, "say third")
	if got := f.prompts(keep, again.State().DefaultChat()); !slices.Equal(got, []string{"say one", "say third"}) {
		t.Errorf("the agent of the fork's fork remembers %q", got)
	}
}

// limited is the demo agent with fewer abilities.
type limited struct {
	*demo.Backend
	less func(*agent.Capabilities)
}

func (l *limited) Info(ctx context.Context) (agent.Info, error) {
	i, err := l.Backend.Info(ctx)
	l.less(&i.Capabilities)
	return i, err
}

func TestAnAgentThatForksAtTheEndAloneNeverForksElsewhere(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *host.Options) {
		o.Backends = []host.NamedBackend{{Name: "demo", Backend: &limited{demo.New(), func(c *agent.Capabilities) { c.ForkAt = false }}}}
	})
	s := f.session()
	main := s.State().Default
	first := f.turn(s, "say one")
	second := f.turn(s, "say two")
	if _, err := s.ForkChat(f.ctx(), host.ForkChat{Chat: main, Turn: first.ID, By: tester}); !errors.Is(err, host.ErrUnsupported) {
		t.Errorf("at an earlier turn: %v", err)
	}
	if _, err := s.Truncate(f.ctx(), main, first.ID, tester); !errors.Is(err, host.ErrUnsupported) {
		t.Errorf("truncated: %v", err)
	}
	chat, err := s.ForkChat(f.ctx(), host.ForkChat{Chat: main, Turn: second.ID, By: tester})
	if err != nil {
		t.Fatal(err)
	}
	f.turnIn(s, chat, "say fine")
	late, err := s.ForkChat(f.ctx(), host.ForkChat{Chat: main, Turn: second.ID, By: tester})
	if err != nil {
		t.Fatal(err)
	}
	f.turn(s, "say three")
	if turn := f.turnIn(s, late, "say wrong"); turn.Status != event.TurnFailed || !strings.Contains(turn.Error.Message, "went on") {
		t.Errorf("it began in the wrong place: %+v", turn)
	}
}

func TestASideChatIsToldOfItsTurnOnce(t *testing.T) {
	t.Parallel()
	keep := t.TempDir()
	f := newFixture(t, keeping(keep))
	s := f.session()
	turn := f.turn(s, "say the blue door")
	chat, err := s.ForkChat(f.ctx(), host.ForkChat{Chat: s.State().Default, Turn: turn.ID, Side: true, By: tester,
		Selection: &event.Selection{Text: "blue"}})
	if err != nil {
		t.Fatal(err)
	}
	if c := s.State().Chat(chat); c.Count != 0 || c.Origin.Kind != event.OriginSide {
		t.Errorf("the side chat is %+v", c)
	}
	f.turnIn(s, chat, "say first")
	f.turnIn(s, chat, "say second")
	got := f.prompts(keep, s.State().Chat(chat))
	if len(got) != 2 || !strings.Contains(got[0], "the blue door") || !strings.HasSuffix(got[0], "say first") || got[1] != "say second" {
		t.Errorf("the agent was told %q", got)
	}
	if got := f.shown(s, chat); !slices.Equal(got, []string{"say first", "say second"}) {
		t.Errorf("people see %q", got)
	}
}

func TestATruncatedChatGoesOnFromTheTurnThatIsLeft(t *testing.T) {
	t.Parallel()
	keep := t.TempDir()
	f := newFixture(t, keeping(keep))
	s := f.session()
	main := s.State().Default
	first := f.turn(s, "say one")
	f.turn(s, "spawn helper say below")
	third := f.turn(s, "say three")
	if n := len(s.State().Chats); n != 2 {
		t.Fatalf("%d chats", n)
	}
	if changed, err := s.Truncate(f.ctx(), main, third.ID, tester); err != nil || changed {
		t.Errorf("after the last turn: %v, %v", changed, err)
	}
	if changed, err := s.Truncate(f.ctx(), main, first.ID, tester); err != nil || !changed {
		t.Fatalf("%v, %v", changed, err)
	}
	if got := f.shown(s, main); !slices.Equal(got, []string{"say one"}) {
		t.Errorf("left are %q", got)
	}
	if _, err := s.FindTurn(f.ctx(), main, third.ID); !errors.Is(err, host.ErrNotFound) {
		t.Errorf("the turn is still found: %v", err)
	}
	if n := len(s.State().Chats); n != 1 {
		t.Errorf("the subagent of a turn that is gone stayed: %d chats", n)
	}
	s = f.again(s, keeping(keep))
	f.turn(s, "say other")
	want := []string{"say one", "say other"}
	if got := f.prompts(keep, s.State().DefaultChat()); !slices.Equal(got, want) {
		t.Errorf("the agent remembers %q", got)
	}
	if got := f.shown(s, main); !slices.Equal(got, want) {
		t.Errorf("people see %q", got)
	}
	if got := f.shown(f.again(s, keeping(keep)), main); !slices.Equal(got, want) {
		t.Errorf("after a restart people see %q", got)
	}
}

func TestATurnWithoutARewindPointRefusesTheCut(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.session()
	main := s.State().Default
	p, err := s.Prompt(f.ctx(), host.Prompt{Text: "sleep 60000", By: tester})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Truncate(f.ctx(), main, p.Turn, tester); !errors.Is(err, host.ErrBusy) {
		t.Errorf("while it runs: %v", err)
	}
	if _, err := s.Interrupt(f.ctx(), host.Interrupt{By: tester}); err != nil {
		t.Fatal(err)
	}
	crashed := f.turn(s, "crash")
	f.turn(s, "say after")
	if _, err := s.Truncate(f.ctx(), main, crashed.ID, tester); !errors.Is(err, host.ErrUnsupported) {
		t.Errorf("after a turn in which the agent died: %v", err)
	}
	if _, err := s.Truncate(f.ctx(), main, s.ID(), tester); !errors.Is(err, host.ErrNotFound) {
		t.Errorf("after no turn: %v", err)
	}
}

// The person's own commands are no turns of the agent's: it goes back to where
// it was before them, or to its beginning.
func TestACutAfterACommand(t *testing.T) {
	t.Parallel()
	keep := t.TempDir()
	f := newFixture(t, keeping(keep))
	s := f.session()
	main := s.State().Default
	p, err := s.Prompt(f.ctx(), host.Prompt{Text: "!true", Command: "true", By: tester})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.WaitTurn(f.ctx(), main, p.Turn); err != nil {
		t.Fatal(err)
	}
	f.turn(s, "say one")
	if changed, err := s.Truncate(f.ctx(), main, p.Turn, tester); err != nil || !changed {
		t.Fatalf("%v, %v", changed, err)
	}
	f.turn(s, "say two")
	if got := f.prompts(keep, s.State().DefaultChat()); len(got) != 1 || !strings.HasSuffix(got[0], "say two") {
		t.Errorf("the agent remembers %q", got)
	}
}

func TestTheDefaultChatPassesItsRoleOn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.session()
	f.turn(s, "spawn helper say below")
	main := s.State().Default
	if err := s.RemoveChat(f.ctx(), main, tester); !errors.Is(err, host.ErrInvalid) {
		t.Errorf("the last chat was removed: %v", err)
	}
	next, err := s.AddChat(f.ctx(), event.ChatInfo{}, tester)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.RemoveChat(f.ctx(), main, tester); err != nil {
		t.Fatal(err)
	}
	f.turn(s, "say here")
	s = f.again(s)
	if st := s.State(); st.Default != next || st.Chat(main) != nil || st.DefaultChat().Count != 1 {
		t.Errorf("the default chat is %s of %d", st.Default, len(st.Chats))
	}
}

// A turn that a person stopped is over before its agent says where it ended.
func TestAPersonGoesBackToATurnThatWasCancelled(t *testing.T) {
	t.Parallel()
	keep := t.TempDir()
	f := newFixture(t, keeping(keep))
	s := f.session()
	chat := s.State().Default
	f.turn(s, "say one")
	p := f.prompt(s, "say two\nask Go on?")
	f.opened(s, event.Question)
	if _, err := s.Interrupt(f.ctx(), host.Interrupt{By: tester}); err != nil {
		t.Fatal(err)
	}
	queued := f.prompt(s, "say three") // begins before the agent has stopped
	f.until(s, "the place", func(e *event.Event) bool {
		b, ok := e.Body.(*event.TurnPointed)
		return ok && b.Turn == p.Turn
	})
	f.wait(s, queued.Turn)
	f.turn(s, "say four")
	shown := s.State().Chat(chat)
	if stopped := shown.Turn(p.Turn); stopped.Status != event.TurnCancelled || stopped.Point == nil {
		t.Fatalf("%+v", stopped)
	}
	s = f.again(s, keeping(keep))
	same(t, "the turns after a restart", s.State().Chat(chat).Turns, shown.Turns)

	fork, err := s.Fork(f.ctx(), host.Fork{UpTo: p.Turn, By: tester})
	if err != nil {
		t.Fatal(err)
	}
	f.turn(fork, "say five")
	want := []string{"say one", "say two\nask Go on?", "say five"}
	if got := f.prompts(keep, fork.State().DefaultChat()); !slices.Equal(got, want) {
		t.Errorf("the fork's agent remembers %q", got)
	}
	if changed, err := s.Truncate(f.ctx(), chat, p.Turn, tester); err != nil || !changed {
		t.Fatal(changed, err)
	}
	f.turn(s, "say six")
	want[2] = "say six"
	if got := f.prompts(keep, s.State().Chat(chat)); !slices.Equal(got, want) {
		t.Errorf("the agent remembers %q", got)
	}
}
