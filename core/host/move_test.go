package host_test

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/store"
	"github.com/polyhost/polyhost/core/store/memstore"
)

// order are the session's chats, by the names that the test gave them.
func order(s *host.Session, names map[id.ID]string) string {
	var out []string
	for _, c := range s.State().Chats {
		out = append(out, names[c.ID])
	}
	return fmt.Sprint(out)
}

func TestChatsAreKeptInTheOrderTheyWereMovedTo(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.session()
	f.turn(s, "say one")
	names := map[id.ID]string{s.State().Default: "main"}
	chats := map[string]id.ID{}
	for _, name := range []string{"a", "b", "c"} {
		chat, err := s.AddChat(f.ctx(), event.ChatInfo{}, tester)
		if err != nil {
			t.Fatal(err)
		}
		names[chat], chats[name] = name, chat
	}
	move := func(chat, after id.ID) error {
		_, err := s.MoveChat(f.ctx(), host.Move{Chat: chat, To: s.ID(), After: after, By: tester})
		return err
	}
	for _, err := range []error{move(chats["c"], id.Nil), move(chats["a"], chats["b"])} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := order(s, names); got != "[c main b a]" {
		t.Errorf("the order is %s", got)
	}
	for what, err := range map[string]error{"the default chat": move(s.State().Default, id.Nil), "behind itself": move(chats["a"], chats["a"]),
		"behind no chat": move(chats["a"], s.ID())} {
		if !errors.Is(err, host.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if got := order(f.again(s), names); got != "[c main b a]" {
		t.Errorf("after a restart the order is %s", got)
	}
}

func TestAMovedChatGoesOnInTheOtherSession(t *testing.T) {
	t.Parallel()
	keep := t.TempDir()
	f := newFixture(t, keeping(keep))
	s, dest := f.session(), f.session(func(c *host.CreateSession) { c.Dirs = []string{t.TempDir()} })
	f.turn(s, "say main")
	chat, err := s.AddChat(f.ctx(), event.ChatInfo{Title: "wanders", Aliases: map[string]string{"test": "mine"}}, tester)
	if err != nil {
		t.Fatal(err)
	}
	f.turnIn(s, chat, "say one")
	f.turnIn(s, chat, "spawn helper say below")
	to, err := s.MoveChat(f.ctx(), host.Move{Chat: chat, To: dest.ID(), By: tester})
	if err != nil || to != dest.ID() {
		t.Fatalf("to %s: %v", to, err)
	}
	if st := s.State(); len(st.Chats) != 1 {
		t.Errorf("%d chats are left", len(st.Chats))
	}
	st := dest.State()
	c := st.Chat(chat)
	if c == nil || len(st.Chats) != 3 || st.Chats[0].ID != chat || c.Title != "wanders" || c.Count != 2 || !slices.Equal(c.Dirs, s.State().Info.Dirs) {
		t.Fatalf("the other session has %+v of %d", c, len(st.Chats))
	}
	if where, which, ok := f.host.ByAlias("test", "mine"); !ok || where != dest.ID() || which != chat {
		t.Errorf("its name leads to %s in %s", which, where)
	}
	f.turnIn(dest, chat, "say two")
	want := []string{"say one", "spawn helper say below", "say two"}
	if got := f.prompts(keep, dest.State().Chat(chat)); !slices.Equal(got, want) {
		t.Errorf("its agent remembers %q", got)
	}
	dest = f.again(dest, keeping(keep))
	if got := f.shown(dest, chat); !slices.Equal(got, want) {
		t.Errorf("after a restart it shows %q", got)
	}
	if s = f.again(s, keeping(keep)); len(s.State().Chats) != 1 {
		t.Errorf("after a restart the first session has %d chats", len(s.State().Chats))
	}
}

func TestAChatBecomesASessionOfItsOwn(t *testing.T) {
	t.Parallel()
	keep := t.TempDir()
	f := newFixture(t, keeping(keep))
	s := f.session()
	f.turn(s, "say main")
	chat, err := s.AddChat(f.ctx(), event.ChatInfo{Title: "alone"}, tester)
	if err != nil {
		t.Fatal(err)
	}
	f.turnIn(s, chat, "say one")
	conversation := s.State().Chat(chat).Conversation
	to, err := s.MoveChat(f.ctx(), host.Move{Chat: chat, By: tester})
	if err != nil {
		t.Fatal(err)
	}
	made, err := f.host.Session(f.ctx(), to)
	if err != nil {
		t.Fatal(err)
	}
	if st := made.State(); st.Default != chat || st.Info.Title != "alone" || st.Info.Aliases["test"] != conversation || st.DefaultChat().Count != 1 {
		t.Errorf("the new session is %+v", st.Info)
	}
	f.turn(made, "say two")
	if got := f.prompts(keep, made.State().DefaultChat()); !slices.Equal(got, []string{"say one", "say two"}) {
		t.Errorf("its agent remembers %q", got)
	}
	if got := f.shown(f.again(made, keeping(keep)), chat); !slices.Equal(got, []string{"say one", "say two"}) {
		t.Errorf("after a restart it shows %q", got)
	}
}

func TestAChatThatCannotMoveStays(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s, dest := f.session(), f.session()
	chat, err := s.AddChat(f.ctx(), event.ChatInfo{}, tester)
	if err != nil {
		t.Fatal(err)
	}
	f.prompt(s, "sleep 60000", func(p *host.Prompt) { p.Chat = chat })
	for what, m := range map[string]host.Move{
		"with a running turn": {Chat: chat, To: dest.ID()}, "the default chat": {Chat: s.State().Default, To: dest.ID()},
		"behind a chat of another session": {Chat: chat, To: dest.ID(), After: chat},
	} {
		m.By = tester
		if _, err := s.MoveChat(f.ctx(), m); !errors.Is(err, host.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := s.MoveChat(f.ctx(), host.Move{Chat: chat, To: chat, By: tester}); !errors.Is(err, host.ErrNotFound) {
		t.Errorf("to no session: %v", err)
	}
	if len(s.State().Chats) != 2 || len(dest.State().Chats) != 1 {
		t.Error("a chat has moved")
	}
}

// stopping is a store that takes no more batches from a point on, as for a
// gateway that is killed.
type stopping struct {
	store.Store
	left atomic.Int64 // batches that are still taken
}

func (s *stopping) Commit(b store.Batch) store.Ticket {
	if s.left.Add(-1) < 0 {
		return refused{}
	}
	return s.Store.Commit(b)
}

// Wherever a stop cuts a move off, the chat is in one session afterwards, whole.
func TestAMoveThatAStopCutOffIsFinishedOrUndone(t *testing.T) {
	t.Parallel()
	for batches := range int64(6) {
		disk := memstore.New()
		f := &fixture{t: t, store: disk, dir: t.TempDir()}
		f.open()
		s, dest := f.session(), f.session()
		f.turn(s, "say main")
		chat, err := s.AddChat(f.ctx(), event.ChatInfo{}, tester)
		if err != nil {
			t.Fatal(err)
		}
		f.turnIn(s, chat, "say one")
		f.turnIn(s, chat, "say two")
		f.turn(dest, "say there")
		dying := &stopping{Store: disk}
		dying.left.Store(1 << 30)
		f.store = dying
		s = f.again(s)
		if _, err := f.host.Session(f.ctx(), dest.ID()); err != nil {
			t.Fatal(err)
		}
		dying.left.Store(batches)
		if _, err := s.MoveChat(f.ctx(), host.Move{Chat: chat, To: dest.ID(), By: tester}); err == nil && batches < 3 {
			t.Fatalf("%d batches are too few for a move", batches)
		}
		f.store = disk
		s = f.again(s)
		if dest, err = f.host.Session(f.ctx(), dest.ID()); err != nil {
			t.Fatal(err)
		}
		in := []*host.Session{}
		for _, s := range []*host.Session{s, dest} {
			if s.State().Chat(chat) != nil {
				in = append(in, s)
			}
		}
		if len(in) != 1 {
			t.Fatalf("after %d batches the chat is in %d sessions", batches, len(in))
		}
		if got := f.shown(in[0], chat); !slices.Equal(got, []string{"say one", "say two"}) {
			t.Errorf("after %d batches it shows %q", batches, got)
		}
	}
}
