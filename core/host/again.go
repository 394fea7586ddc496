package host

import (
	"context"
	"fmt"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
)

// ResumeTurn has the agent go on with the newest turn of a chat, which failed:
// it is the running turn again, with all that it had. It returns once that is
// stored. Messages that wait go on waiting until it ends.
//
// ErrBusy says that a turn runs or the chat is on its way, ErrInvalid that the turn is
// none that can be resumed, ErrUnsupported that the agent resumes none.
func (s *Session) ResumeTurn(ctx context.Context, chat, turn id.ID, by event.Actor) error {
	return s.do(ctx, false, func(s *Session) error {
		if s.host.isClosing() {
			return ErrClosed
		}
		c := s.work.Chat(chat)
		if c == nil {
			return fmt.Errorf("chat %s: %w", chat, ErrNotFound)
		}
		r := s.chatRun(chat)
		switch t := lastTurn(c); {
		case c.Active != nil:
			return fmt.Errorf("chat %s: %w", chat, ErrBusy)
		case r.moving:
			return fmt.Errorf("the chat is being moved: %w", ErrBusy)
		case t == nil || t.ID != turn:
			return fmt.Errorf("%w: only the newest turn can be resumed", ErrInvalid)
		case t.Status != event.TurnFailed:
			return fmt.Errorf("%w: the turn did not fail", ErrInvalid)
		case !s.host.can(s.work.Info.Backend).ResumeTurn:
			return fmt.Errorf("%w: %s cannot go on with a turn that failed", ErrUnsupported, s.work.Info.Backend)
		case c.Resumable() == nil:
			return fmt.Errorf("%w: that turn is not one to be resumed", ErrInvalid)
		}
		if err := s.reopenTurn(r, c.Resumable(), by); err != nil {
			return err
		}
		s.prompt(r)
		return nil
	})
}

// reopenTurn opens a failed turn.
func (s *Session) reopenTurn(r *run, t *state.Turn, by event.Actor) error {
	failure := t.Error
	if failure == nil {
		failure = &event.Error{Code: event.CodeAgentFailed}
	}
	r.reset()
	m := t.Message
	m.Turn = t.ID
	s.begin(r, m, by)
	failed := t.StartedAt.Add(t.Duration)
	r.opened = r.emit(&event.TurnResumed{By: by, Message: m, Part: event.Part{ID: id.New(), Kind: event.PartNotice,
		StartedAt: failed, EndedAt: failed,
		Notice: &event.Notice{Level: "error", Code: failure.Code, Text: failure.Message, Ended: &event.Ended{Usage: t.Usage, Retryable: failure.Retryable}}}}).Seq
	s.private = false
	s.eraseTurns(r.chat, t.Number, t.Number+1)
	return s.keepState()
}

// resumable reports whether the agent could go on with a turn that fails: one
// that answers a message, of a chat that people can talk to.
func (s *Session) resumable(r *run, t *state.Turn) bool {
	return r.parent == nil && t.Message.Command == "" && t.Message.By.Front != theAgent.Front && !s.silent &&
		s.host.can(s.work.Info.Backend).ResumeTurn
}
