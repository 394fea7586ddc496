package host_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/polyhost/polyhost/backends/demo"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
)

// outside runs prompts in a conversation of the agent that no gateway knows.
func outside(t *testing.T, keep, dir string, prompts ...string) (conversation string) {
	t.Helper()
	b := &demo.Backend{Keep: keep}
	defer b.Close()
	c, err := b.Open(t.Context(), agent.Open{Dirs: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range prompts {
		if err := c.Prompt(t.Context(), agent.Prompt{Turn: p, Text: p}); err != nil {
			t.Fatal(err)
		}
		for over := false; !over; {
			frames, err := c.Recv(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range frames {
				switch f.Kind {
				case agent.ConversationID:
					conversation = f.Text
				case agent.Permission:
					_ = c.Answer(t.Context(), agent.Answer{Request: f.Request, Resolution: event.Resolution{Outcome: event.Allowed}})
				case agent.TurnEnd:
					over = true
				}
			}
		}
	}
	return conversation
}

func keeping(dir string) func(*host.Options) {
	return func(o *host.Options) {
		o.Backends = []host.NamedBackend{{Name: "demo", Backend: &demo.Backend{Keep: dir}}}
	}
}

// listed waits until the list has n sessions.
func (f *fixture) listed(n int) []host.Summary {
	f.t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(2 * time.Millisecond) {
		list := f.host.List(host.Filter{IncludeClosed: true, IncludePrivate: true})
		if len(list) == n {
			return list
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("%d sessions are listed, want %d", len(list), n)
		}
	}
}

func TestAConversationBegunInTheAgentIsListedReadAndContinued(t *testing.T) {
	t.Parallel()
	keep, dir := t.TempDir(), t.TempDir()
	conversation := outside(t, keep, dir, "say one two", "write a.txt hello\nusage 3 4", "fail no luck")
	f := newFixture(t, keeping(keep))
	sum := f.listed(1)[0]
	if !sum.Past || !sum.Info.FromAgent || sum.Info.Title != "say one two" || !slices.Equal(sum.Info.Dirs, []string{dir}) || sum.Live {
		t.Errorf("listed as %+v", sum)
	}
	s, err := f.host.Session(f.ctx(), sum.Info.ID)
	if err != nil {
		t.Fatal(err)
	}
	chat := s.State().DefaultChat()
	if chat.ID != sum.Default || chat.Count != 3 || chat.Conversation != conversation {
		t.Fatalf("chat %s has %d turns, conversation %q", chat.ID, chat.Count, chat.Conversation)
	}
	turns, err := s.Turns(f.ctx(), chat.ID, -1, 10)
	if err != nil {
		t.Fatal(err)
	}
	if got := turns[0]; got.Text() != "one two" || got.Message.Text != "say one two" || got.Status != event.TurnComplete {
		t.Errorf("first turn: %+v", got)
	}
	if got := turns[1].Parts; len(got) != 1 || got[0].Tool == nil || got[0].Tool.Status != event.CallDone || turns[1].Usage.Output != 4 {
		t.Errorf("second turn: %+v, usage %+v", got, turns[1].Usage)
	}
	if got := turns[2]; got.Status != event.TurnFailed || got.Error == nil {
		t.Errorf("third turn: %+v", got)
	}
	if age := time.Since(turns[0].StartedAt); age > time.Minute || turns[0].StartedAt.After(turns[2].StartedAt) {
		t.Errorf("the turns are of %v and %v", turns[0].StartedAt, turns[2].StartedAt)
	}
	// The events are those of any session: gapless, and their fold is the state.
	f.until(s, "the last turn's end", func(e *event.Event) bool { return e.Turn == turns[2].ID && e.Body.Kind() == "turn.ended" })

	if got := f.turn(s, "say three"); got.Text() != "three" || got.Number != 3 {
		t.Errorf("continued with %+v", got)
	}
	page, err := (&demo.Backend{Keep: keep}).History(t.Context(), agent.HistoryQuery{ID: conversation})
	if err != nil || len(page.Turns) != 4 {
		t.Errorf("the agent has %d turns, %v", len(page.Turns), err)
	}
	f.host.RefreshPast(f.ctx())
	if now := f.listed(1)[0]; now.Past || now.Chats[0].Turns != 4 {
		t.Errorf("listed as %+v", now)
	}
}

func TestAnImportedConversationIsTheSameSessionAfterARestart(t *testing.T) {
	t.Parallel()
	keep, dir := t.TempDir(), t.TempDir()
	outside(t, keep, dir, "say one")
	outside(t, keep, dir, "say two")
	f := newFixture(t, keeping(keep))
	before := f.listed(2)
	if _, err := f.host.Session(f.ctx(), before[1].Info.ID); err != nil {
		t.Fatal(err)
	}
	if err := f.host.Close(f.ctx()); err != nil {
		t.Fatal(err)
	}
	f.open(keeping(keep))
	after := f.listed(2)
	for i := range before {
		if before[i].Info.ID != after[i].Info.ID || before[i].Default != after[i].Default {
			t.Errorf("%s is %s now", before[i].Info.ID, after[i].Info.ID)
		}
	}
	if !after[0].Past || after[1].Past || !after[1].Info.FromAgent || after[1].Chats[0].Turns != 1 {
		t.Errorf("%+v", after)
	}
	if before[0].Info.CreatedAt.Before(before[1].Info.CreatedAt) || before[0].Info.ID.Time().Before(before[1].Info.ID.Time()) {
		t.Errorf("the order is %q, %q", before[0].Info.Title, before[1].Info.Title)
	}
}

// goOn runs a prompt in a conversation that was begun outside.
func goOn(t *testing.T, keep, dir, conversation, prompt string) {
	t.Helper()
	time.Sleep(2 * time.Millisecond) // the agent's list tells times apart by the millisecond
	b := &demo.Backend{Keep: keep}
	defer b.Close()
	c, err := b.Open(t.Context(), agent.Open{Dirs: []string{dir}, Resume: conversation})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Prompt(t.Context(), agent.Prompt{Turn: prompt, Text: prompt}); err != nil {
		t.Fatal(err)
	}
	for {
		frames, err := c.Recv(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if frames[len(frames)-1].Kind == agent.TurnEnd {
			return
		}
	}
}

func TestTurnsThatTheAgentHadAfterAnImportAreReadWhenItIsOpenedAgain(t *testing.T) {
	t.Parallel()
	keep, dir := t.TempDir(), t.TempDir()
	conversation := outside(t, keep, dir, "say one", "say two")
	f := newFixture(t, keeping(keep))
	sum := f.listed(1)[0]
	opened := func() *host.Session {
		t.Helper()
		if err := f.host.Close(f.ctx()); err != nil {
			t.Fatal(err)
		}
		f.open(keeping(keep))
		f.host.RefreshPast(f.ctx())
		s, err := f.host.Session(f.ctx(), sum.Info.ID)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	texts := func(s *host.Session) (out []string) {
		t.Helper()
		turns, err := s.Turns(f.ctx(), s.State().Default, -1, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, turn := range turns {
			out = append(out, turn.Text())
		}
		return out
	}
	s, err := f.host.Session(f.ctx(), sum.Info.ID)
	if err != nil {
		t.Fatal(err)
	}
	title := "mine"
	if err := s.Update(f.ctx(), &event.SessionUpdated{By: tester, Title: &title}); err != nil {
		t.Fatal(err)
	}
	goOn(t, keep, dir, conversation, "say three")
	goOn(t, keep, dir, conversation, "say four")
	s = opened()
	if got := texts(s); !slices.Equal(got, []string{"one", "two", "three", "four"}) || s.State().Info.Title != title {
		t.Errorf("%q has %q", s.State().Info.Title, got)
	}
	last := s.State().DefaultChat().Turns[3].ID
	f.until(s, "the last turn's end", func(e *event.Event) bool { return e.Turn == last && e.Body.Kind() == "turn.ended" })
	goOn(t, keep, dir, conversation, "say five")
	if got := texts(opened()); len(got) != 5 {
		t.Errorf("opened a third time it has %q", got)
	}
	// Once something has run here, the histories may differ in their turns.
	s = opened()
	f.turn(s, "say six")
	goOn(t, keep, dir, conversation, "say seven")
	if got := texts(opened()); !slices.Equal(got, []string{"one", "two", "three", "four", "five", "six"}) {
		t.Errorf("after a turn here it has %q", got)
	}
}

func TestASessionOfTheGatewayIsNotListedAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t, keeping(t.TempDir()))
	s := f.session()
	f.turn(s, "say hello")
	f.host.RefreshPast(f.ctx())
	if list := f.listed(1); list[0].Info.ID != s.ID() {
		t.Errorf("%+v", list[0].Info)
	}
}

func TestADeletedConversationStaysAway(t *testing.T) {
	t.Parallel()
	keep, dir := t.TempDir(), t.TempDir()
	for _, p := range []string{"say unread", "say read"} {
		outside(t, keep, dir, p)
	}
	f := newFixture(t, keeping(keep))
	list := f.listed(2)
	own := f.session()
	f.turn(own, "say own")
	if _, err := f.host.Session(f.ctx(), list[0].Info.ID); err != nil {
		t.Fatal(err)
	}
	w := f.host.Watch()
	defer w.Close()
	for _, sid := range []id.ID{list[0].Info.ID, list[1].Info.ID, own.ID()} {
		if err := f.host.DeleteSession(f.ctx(), sid, tester); err != nil {
			t.Fatal(err)
		}
	}
	removed := map[id.ID]bool{}
	for len(removed) < 3 {
		changes, err := w.Next(f.ctx())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range changes {
			removed[c.Session] = c.Kind == host.Removed
		}
	}
	for _, restart := range []bool{false, true} {
		if restart {
			if err := f.host.Close(f.ctx()); err != nil {
				t.Fatal(err)
			}
			f.open(keeping(keep))
		}
		f.host.RefreshPast(f.ctx())
		f.listed(0)
	}
	if files, err := filepath.Glob(filepath.Join(keep, "*.jsonl")); err != nil || len(files) != 3 {
		t.Errorf("the agent has %v left, %v", files, err)
	}
	if _, err := f.host.Session(f.ctx(), list[0].Info.ID); !errors.Is(err, host.ErrNotFound) {
		t.Errorf("a deleted conversation opens: %v", err)
	}
}

func TestAConversationThatTheAgentForgotLeavesTheList(t *testing.T) {
	t.Parallel()
	keep := t.TempDir()
	conversation := outside(t, keep, t.TempDir(), "say one")
	f := newFixture(t, keeping(keep))
	f.listed(1)
	if err := os.Remove(filepath.Join(keep, conversation+".jsonl")); err != nil {
		t.Fatal(err)
	}
	f.host.RefreshPast(f.ctx())
	f.listed(0)
}

func TestHistoryCanBeSwitchedOffAndIsBounded(t *testing.T) {
	t.Parallel()
	keep, dir := t.TempDir(), t.TempDir()
	for range 3 {
		outside(t, keep, dir, "say one")
	}
	off := newFixture(t, keeping(keep), func(o *host.Options) { o.Past = -1 })
	off.host.RefreshPast(off.ctx())
	off.listed(0)
	two := newFixture(t, keeping(keep), func(o *host.Options) { o.Past = 2 })
	two.listed(2)
}

// unreadable lists a conversation whose history cannot be read.
type unreadable struct {
	*demo.Backend
	fails chan error
}

func (u unreadable) History(ctx context.Context, q agent.HistoryQuery) (agent.HistoryPage, error) {
	page, err := u.Backend.History(ctx, agent.HistoryQuery{ID: q.ID, After: q.After, Limit: 1})
	select {
	case failure := <-u.fails:
		if q.After != "" {
			return agent.HistoryPage{}, failure
		}
		u.fails <- failure
	default:
	}
	return page, err
}

func TestAnImportThatFailedIsTriedAgain(t *testing.T) {
	t.Parallel()
	keep := t.TempDir()
	outside(t, keep, t.TempDir(), "say one", "say two")
	u := unreadable{&demo.Backend{Keep: keep}, make(chan error, 1)}
	f := newFixture(t, func(o *host.Options) { o.Backends = []host.NamedBackend{{Name: "demo", Backend: u}} })
	sum := f.listed(1)[0]
	u.fails <- errors.New("the file is locked")
	if _, err := f.host.Session(f.ctx(), sum.Info.ID); err == nil {
		t.Fatal("a half history was taken for the whole")
	}
	s, err := f.host.Session(f.ctx(), sum.Info.ID)
	if err != nil {
		t.Fatal(err)
	}
	if c := s.State().DefaultChat(); c.Count != 2 || c.Turns[0].Text() != "one" {
		t.Errorf("%d turns", c.Count)
	}
	f.until(s, "the last event", func(e *event.Event) bool { return e.Seq == s.State().Seq })
}
