package host_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
)

// A client that answers a question the moment it hears of it may be quicker
// than the list of sessions.
func TestASessionThatRunsMayHaveAskedAlready(t *testing.T) {
	for want, sums := range map[bool][]host.Summary{
		true:  {{Status: host.Running}, {Status: host.AwaitingApproval, Approvals: 1}, {Status: host.AwaitingQuestion, Questions: 1}},
		false: {{Status: host.Idle}, {Status: host.Failed}},
	} {
		for _, s := range sums {
			if s.MayAsk() != want {
				t.Errorf("%+v: %v", s, !want)
			}
		}
	}
}

// A session that ran in a chat which is gone again was seen and listed: it is
// not taken for one that nobody used.
func TestWhatRanIsNotDiscarded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.session(func(c *host.CreateSession) { c.Private = true })
	if n := len(f.host.List(host.Filter{})); n != 0 {
		t.Fatalf("%d sessions are listed before the first turn", n)
	}
	side, err := s.AddChat(f.ctx(), event.ChatInfo{}, tester)
	if err != nil {
		t.Fatal(err)
	}
	p := f.prompt(s, "say aside", func(p *host.Prompt) { p.Chat = side })
	f.until(s, "the end of the turn", func(e *event.Event) bool {
		_, ended := e.Body.(*event.TurnEnded)
		return ended && e.Turn == p.Turn
	})
	if err := s.RemoveChat(f.ctx(), side, tester); err != nil {
		t.Fatal(err)
	}
	if gone, err := s.DiscardIfUnused(f.ctx()); gone || err != nil {
		t.Errorf("discarded: %v, %v", gone, err)
	}
	if n := len(f.host.List(host.Filter{})); n != 1 {
		t.Errorf("%d sessions are listed", n)
	}
	fresh := f.session(func(c *host.CreateSession) { c.Private = true })
	if gone, err := fresh.DiscardIfUnused(f.ctx()); !gone || err != nil {
		t.Errorf("one that nobody used stays: %v, %v", gone, err)
	}
}

// Who hears of a chat finds it at once, under its name and its id.
func TestAChatIsFoundOnceItIsHeardOf(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.session()
	const chats = 30
	sub := s.Subscribe(s.State().Seq)
	defer sub.Close()
	heard := make(chan error, 1)
	go func() {
		heard <- func() error {
			for n := 0; n < chats; {
				events, err := sub.Next(f.ctx())
				if err != nil {
					return err
				}
				for _, e := range events {
					b, ok := e.Body.(*event.ChatAdded)
					if !ok {
						continue
					}
					n++
					if of, ok := f.host.SessionOf(b.Info.ID); !ok || of != s.ID() {
						return fmt.Errorf("chat %d is not known", n)
					}
					if _, chat, ok := f.host.ByAlias("test", b.Info.Aliases["test"]); !ok || chat != b.Info.ID {
						return fmt.Errorf("chat %d is not known by its name", n)
					}
				}
			}
			return nil
		}()
	}()
	var last id.ID
	for n := range chats {
		var err error
		if last, err = s.AddChat(f.ctx(), event.ChatInfo{Aliases: map[string]string{"test": fmt.Sprint("c", n)}}, tester); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-heard; err != nil {
		t.Fatal(err)
	}
	if err := s.RemoveChat(f.ctx(), last, tester); err != nil {
		t.Fatal(err)
	}
	if _, ok := f.host.SessionOf(last); ok {
		t.Error("a chat that is gone is still found")
	}
}

// The list says what a session does, whoever opened it, and that it does nothing any
// more.
func TestTheListSaysWhatASessionDoes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.session()
	w := f.host.Watch()
	defer w.Close()
	shows := func(doing string, while host.Status) {
		t.Helper()
		for {
			changes, err := w.Next(f.ctx())
			if err != nil {
				t.Fatalf("waiting for a session that does %q: %v", doing, err)
			}
			now := changes[len(changes)-1].Summary
			if now.Activity == doing && now.Status == while {
				break
			}
		}
		if now, _ := f.host.Summary(s.ID()); now.Activity != doing {
			t.Errorf("listed with %q", now.Activity)
		}
	}
	const long = "until [ -e done ]; do sleep 0.1; done"
	p := f.prompt(s, "", func(p *host.Prompt) { p.Command = long })
	shows(long, host.Running)
	if err := os.WriteFile(filepath.Join(f.dir, "done"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f.wait(s, p.Turn)
	shows("", host.Idle)
}
