package supervisor

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/store/memstore"
)

// patience is how long a test waits for what must come.
const patience = 3 * time.Minute

// halt stops a process and waits until it stands: until a thread of it takes
// notice of the signal, the others go on.
func halt(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err == nil && strings.Contains(string(stat), ") T ") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d does not stop: %s, %v", pid, stat, err)
		}
	}
}

// hung is a plugin that will not be saved by its health check.
func hung(t *testing.T) Options {
	o := demo(t)
	o.healthEvery, o.healthBound = time.Hour, time.Hour
	return o
}

// lastTurn waits for the end of a session's n-th turn.
func lastTurn(t *testing.T, s *host.Session, n int) (event.TurnStatus, *event.Error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	sub := s.Subscribe(0)
	defer sub.Close()
	for {
		events, err := sub.Next(ctx)
		if err != nil {
			t.Fatalf("turn %d did not end: %v", n, err)
		}
		for _, e := range events {
			if ended, ok := e.Body.(*event.TurnEnded); ok {
				if n--; n == 0 {
					return ended.Status, ended.Error
				}
			}
		}
	}
}

func TestAnInterruptThatAHungPluginIgnoresEndsThePlugin(t *testing.T) {
	t.Parallel()
	b := New(hung(t))
	h, err := host.Open(t.Context(), host.Options{Store: memstore.New(), DefaultDir: t.TempDir(),
		Backends: []host.NamedBackend{{Name: "demo", Backend: b}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	me := event.Actor{Front: "test"}
	session := func() *host.Session {
		s, err := h.CreateSession(t.Context(), host.CreateSession{By: me})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	prompt := func(s *host.Session, text string) {
		if _, err := s.Prompt(t.Context(), host.Prompt{Text: text, By: me}); err != nil {
			t.Fatal(err)
		}
	}
	one, other := session(), session()
	for _, s := range []*host.Session{one, other} {
		prompt(s, "say hello\nsleep 600000")
		sub := s.Subscribe(0)
		for said := false; !said; {
			events, err := sub.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range events {
				_, ok := e.Body.(*event.PartDelta)
				said = said || ok
			}
		}
		sub.Close()
	}
	first := pid(t, b)
	halt(t, first)
	if _, err := one.Interrupt(t.Context(), host.Interrupt{By: me}); err != nil {
		t.Fatal(err)
	}
	prompt(one, "say back")
	if status, failure := lastTurn(t, one, 2); status != event.TurnComplete {
		t.Errorf("the next turn: %s, %+v", status, failure)
	}
	if status, failure := lastTurn(t, other, 1); status != event.TurnFailed || failure == nil || failure.Code != event.CodeAgentCrashed {
		t.Errorf("another session's turn: %s, %+v", status, failure)
	}
	if pid(t, b) == first {
		t.Error("the hung plugin is still used")
	}
}

func TestAnOpeningThatAHungPluginIgnoresEndsThePlugin(t *testing.T) {
	t.Parallel()
	b := start(t, hung(t))
	first := pid(t, b)
	halt(t, first)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := b.Open(ctx, agent.Open{Session: "s", Dirs: []string{t.TempDir()}}); err == nil {
		t.Fatal("a stopped process opened a conversation")
	}
	if said, err := play(t.Context(), converse(t, b), "say back"); said != "back" || err != nil {
		t.Errorf("%q, %v", said, err)
	}
	if pid(t, b) == first {
		t.Error("the hung plugin is still used")
	}
}
