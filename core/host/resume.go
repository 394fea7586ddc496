package host

import (
	"context"
	"errors"

	"github.com/polyhost/polyhost/core/id"
)

// Messages that wait for a turn's end have been acknowledged, so they outlive
// the gateway: whoever sent them need not come back for them to run. A session
// that comes into memory goes on with them; after a start some sessions at a
// time are fetched for that. Not so one that was given up because its events
// could not be stored: it would run the same message again and again.

// resume starts what waits in chats without a running turn.
func (s *Session) resume() {
	if s.host.isClosing() {
		return
	}
	var waiting []id.ID
	for _, c := range s.work.Chats {
		if c.Active == nil && len(c.Queue)+len(c.Steering) > 0 {
			waiting = append(waiting, c.ID)
		}
	}
	for _, c := range waiting {
		s.log.Info("The messages that waited when the gateway stopped are taken up", "chat", c.String())
		s.next(s.chatRun(c))
	}
}

// resumeQueues has all sessions with waiting messages work on them, a bounded
// number at a time.
func (h *Host) resumeQueues() {
	h.mu.Lock()
	h.opened = true
	var queued []id.ID
	for sid, s := range h.index {
		if s.Queued > 0 {
			queued = append(queued, sid)
		}
	}
	h.mu.Unlock()
	todo := make(chan id.ID, len(queued))
	for _, sid := range queued {
		todo <- sid
	}
	close(todo)
	for range min(resumeAtOnce, len(queued)) {
		h.wg.Go(func() {
			for sid := range todo {
				if err := h.resumeQueue(h.ctx, sid); err != nil && h.ctx.Err() == nil && !errors.Is(err, ErrClosed) {
					h.log.Error("The messages that wait in a session cannot be taken up", "session", sid.String(), "err", err)
				}
			}
		})
	}
}

// resumeQueue starts a session's waiting messages and returns when they are
// through, or wait for a person.
func (h *Host) resumeQueue(ctx context.Context, sid id.ID) error {
	s, err := h.Session(ctx, sid)
	if err != nil {
		return err
	}
	if err := s.do(ctx, false, func(s *Session) error { s.resume(); return nil }); err != nil {
		return err
	}
	sub := s.Subscribe(s.State().Seq)
	defer sub.Close()
	for st := s.State(); st.Running() && len(st.Open) == 0; st = s.State() {
		if _, err := sub.Next(ctx); err != nil {
			return err
		}
	}
	return nil
}
