package snowpea

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/transports/fanout"
	"github.com/polyhost/polyhost/transports/outbox"
	"github.com/polyhost/polyhost/transports/ws"
)

// sub is one connection's subscription to one chat. It is the fan-out's sink:
// while it is held, or the connection's queue has only the reserve left, it is
// "full" and is fed from the ring, then from the log, at its own pace.
type sub struct {
	conn  *conn
	track *track
	chat  id.ID // Nil: the default chat, once that is known

	holds atomic.Int32
	freed chan struct{} // holds one token when the last hold went

	attachment atomic.Pointer[fanout.Attachment]
	gone       atomic.Bool
}

func newSub(c *conn, t *track, chat id.ID) *sub {
	return &sub{conn: c, track: t, chat: chat, freed: make(chan struct{}, 1)}
}

// chatIn is the chat; the caller holds the track's mu and the session is known.
func (s *sub) chatIn(t *track) id.ID {
	if s.chat.IsNil() {
		s.chat = t.fold.Default
	}
	return s.chat
}

// Push implements fanout.Sink.
func (s *sub) Push(f outbox.Frame) error {
	if s.holds.Load() > 0 {
		return outbox.ErrFull
	}
	return s.conn.ws.Outbox().PushBelow(f, outboxLimit-answerReserve)
}

// WaitBelow implements fanout.Sink.
func (s *sub) WaitBelow(ctx context.Context, bytes int) error {
	for s.holds.Load() > 0 {
		select {
		case <-s.freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return s.conn.ws.Outbox().WaitBelow(ctx, bytes)
}

// Taken implements fanout.Sink.
func (s *sub) Taken() time.Time { return s.conn.ws.Outbox().Taken() }

// hold keeps events back until release, so that an answer goes first.
func (s *sub) hold() { s.holds.Add(1) }

func (s *sub) release() {
	if s.holds.Add(-1) == 0 {
		select {
		case s.freed <- struct{}{}:
		default:
		}
	}
}

// attach begins after an event. It does not wait.
func (s *sub) attach(topic *stream, after uint64) {
	a := topic.Attach(s, fanout.AttachOptions{After: after, OnGap: func(pos uint64) { s.catchUp(nil, pos) }})
	s.attachment.Store(a)
	if s.gone.Load() {
		a.Detach()
	}
}

// detach ends the subscription.
func (s *sub) detach() {
	s.gone.Store(true)
	if a := s.attachment.Load(); a != nil {
		a.Detach()
	}
	s.track.mu.Lock()
	delete(s.track.subs, s)
	delete(s.track.waiting, s)
	s.track.shrink()
	s.track.mu.Unlock()
}

// catchUp feeds the subscription from the log until the ring has what follows.
// It runs on a goroutine of its own, and ends with the connection.
func (s *sub) catchUp(r *replay, after uint64) {
	s.conn.spawn(func(ctx context.Context) {
		if r != nil {
			defer func() { r.close() }()
		}
		frames := s.track.front.deps.Frames
		for ctx.Err() == nil && !s.gone.Load() {
			s.track.mu.Lock()
			if s.track.session == nil {
				s.track.waiting[s] = struct{}{} // goes on when the session is back
				s.track.mu.Unlock()
				return
			}
			topic, upto, session := s.track.topic(s.chat), s.track.fold.Seq, s.track.session
			s.track.mu.Unlock()
			if _, ok := topic.Since(after); ok {
				s.attach(topic, after)
				return
			}
			// Until there is room nothing is held of what will be read.
			if err := s.WaitBelow(ctx, feedBelow); err != nil {
				return
			}
			if r == nil {
				base, err := s.track.base(ctx, s.chat, after)
				if err != nil {
					s.lost(err)
					return
				}
				r = newReplay(session, base, s.chat, after)
				defer func() { r.close() }()
			}
			events, _, err := r.next(ctx, upto, feedBatch)
			if err != nil {
				s.lost(err)
				return
			}
			for _, e := range events {
				frames.Encoded(1)
				if s.deliver(ctx, ws.Text(e.message)) != nil {
					return
				}
				frames.Delivered(1)
				after = e.seq
			}
		}
	})
}

// deliver queues one frame, waiting for room.
func (s *sub) deliver(ctx context.Context, f outbox.Frame) error {
	for mark := feedBelow; ; mark = max(1, mark/2) {
		err := s.Push(f)
		if !errors.Is(err, outbox.ErrFull) {
			return err
		}
		if err := s.WaitBelow(ctx, mark); err != nil {
			return err
		}
	}
}

// lost ends a connection whose events cannot be read; it may come back.
func (s *sub) lost(err error) {
	if s.conn.ctx.Err() == nil {
		s.conn.log.Error("Events could not be read for a client", "session", s.track.id.String(), "err", err)
		s.conn.ws.CloseSlow("events could not be read: reconnect and session.resume")
	}
}

// settleAnswer waits until an answer has left the queue, and a moment more.
func (c *conn) settleAnswer(ctx context.Context) {
	wait, cancel := context.WithTimeout(ctx, resumeDrain)
	defer cancel()
	_ = c.ws.Outbox().WaitBelow(wait, 1)
	t := time.NewTimer(resumeGap)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
