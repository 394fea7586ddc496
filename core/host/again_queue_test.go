package host

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/polyhost/polyhost/backends/demo"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/store/memstore"
)

// Messages may wait behind a turn that failed, in a session whose events could not
// be stored for a while. They run after that turn when it is resumed.
func TestWhatWaitsRunsAfterTheTurnThatIsResumed(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	b := demo.New()
	defer b.Close()
	h, err := Open(ctx, Options{Store: memstore.New(), Backends: []NamedBackend{{Name: "demo", Backend: b}},
		DefaultDir: t.TempDir(), Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Grace: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := h.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	if err := h.AgentsReady(ctx); err != nil {
		t.Fatal(err)
	}
	by := event.Actor{Front: "test"}
	s, err := h.CreateSession(ctx, CreateSession{By: by})
	if err != nil {
		t.Fatal(err)
	}
	chat := s.State().Default
	failed, err := s.Prompt(ctx, Prompt{Text: "fail no luck\nsay done", By: by})
	if err == nil {
		_, err = s.WaitTurn(ctx, chat, failed.Turn)
	}
	if err != nil {
		t.Fatal(err)
	}
	waits := event.Message{ID: id.New(), Turn: id.New(), Text: "say waited", By: by}
	if err := s.do(ctx, false, func(s *Session) error {
		s.emit(chat, id.Nil, &event.MessageQueued{Message: waits})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.ResumeTurn(ctx, chat, failed.Turn, by); err != nil {
		t.Fatal(err)
	}
	for n, turn := range []id.ID{failed.Turn, waits.Turn} {
		if got, err := s.WaitTurn(ctx, chat, turn); err != nil || got.Status != event.TurnComplete || got.Number != n {
			t.Errorf("turn %d: %v, %+v", n, err, got)
		}
	}
}
