package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/store"
)

// Question is asked of an agent outside of all sessions.
type Question struct {
	Backend string
	Model   string // "" is the agent's own choice
	Text    string
	// Tokens were lent by a client for the agent, by their resources' ids.
	Tokens map[string]string
}

// Ask puts a question to an agent in a conversation that nobody sees, and returns
// its answer. The conversation is over then, and is in no list. The agent has no
// tools and an empty directory; whatever it asks to do is refused. When ctx ends its
// turn is cancelled.
func (h *Host) Ask(ctx context.Context, q Question) (string, error) {
	b := h.backend(q.Backend)
	switch {
	case b == nil:
		return "", fmt.Errorf("%w: %.80q", ErrNoBackend, q.Backend)
	case len(q.Text) > MaxPrompt:
		return "", fmt.Errorf("question of %d bytes, at most %d: %w", len(q.Text), MaxPrompt, ErrTooLarge)
	}
	h.mu.Lock()
	if h.closing {
		h.mu.Unlock()
		return "", ErrClosed
	}
	h.wg.Add(1)
	h.mu.Unlock()
	defer h.wg.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.ctx, cancel)()
	dir, err := os.MkdirTemp("", "polyhost-ask-")
	if err != nil {
		return "", fmt.Errorf("ask: %w", err)
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			h.log.Warn("The directory of a question is left behind", "dir", dir, "err", err)
		}
	}()
	settings := event.Settings{Mode: event.ModePlan, Model: q.Model, DenyExec: true}
	open, opened := context.WithTimeout(ctx, OpenWithin)
	conv, err := b.Open(open, agent.Open{Session: id.New().String(), Chat: id.New().String(), Dirs: []string{dir}, Settings: settings, Bare: true, Tokens: q.Tokens})
	opened()
	if err != nil {
		return "", &startError{err}
	}
	defer func() {
		if err := conv.Close(); err != nil {
			h.log.Warn("Closing an agent's conversation failed", "agent", q.Backend, "err", err)
		}
	}()
	err = conv.Prompt(ctx, agent.Prompt{Turn: id.New().String(), Message: id.New().String(), Text: q.Text, Settings: settings})
	if err != nil {
		return "", fmt.Errorf("ask: %w", err)
	}
	answer, err := h.answer(ctx, q.Backend, conv)
	if ctx.Err() != nil {
		late, done := context.WithTimeout(context.WithoutCancel(ctx), CancelWithin)
		defer done()
		if err := conv.Interrupt(late); err != nil {
			h.log.Warn("A question could not be cancelled", "agent", q.Backend, "err", err)
		}
	}
	return answer, err
}

// answer is what the agent says in its turn.
func (h *Host) answer(ctx context.Context, backend string, conv agent.Conversation) (string, error) {
	var said strings.Builder
	part := ""
	for {
		frames, err := conv.Recv(ctx)
		for i := range frames {
			f := &frames[i]
			switch f.Kind {
			case agent.ConversationID:
				h.unlist(ctx, backend, f.Text)
			case agent.TextDelta:
				if f.Child != "" || said.Len()+len(f.Text) >= MaxAnswer {
					continue
				}
				if f.Part != part && said.Len() > 0 {
					said.WriteByte('\n')
				}
				part = f.Part
				said.WriteString(f.Text)
			case agent.Permission, agent.Ask, agent.ClientCall:
				outcome := event.Denied
				if f.Kind != agent.Permission {
					outcome = event.Declined
				}
				if err := conv.Answer(ctx, agent.Answer{Request: f.Request, Resolution: event.Resolution{Outcome: outcome, By: event.Gateway}}); err != nil {
					return "", fmt.Errorf("ask: %w", err)
				}
			case agent.TurnEnd:
				switch {
				case f.Status == event.TurnComplete:
					return strings.TrimSpace(said.String()), nil
				case f.Error != nil:
					return "", fmt.Errorf("ask: %s", f.Error.Message)
				}
				return "", errors.New("ask: the turn was cancelled")
			}
		}
		if errors.Is(err, io.EOF) {
			return "", errors.New("ask: the agent ended")
		} else if err != nil {
			return "", fmt.Errorf("ask: %w", err)
		}
	}
}

// unlist keeps a conversation of no session out of the list of past ones.
func (h *Host) unlist(ctx context.Context, backend, conversation string) {
	h.mu.Lock()
	put := h.buryLocked(backend, conversation)
	h.mu.Unlock()
	if err := store.Wait(ctx, h.store.Commit(store.Batch{Put: put})); err != nil {
		h.log.Warn("The conversation of a question may be listed", "agent", backend, "err", err)
	}
}
