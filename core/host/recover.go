package host

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
	"github.com/polyhost/polyhost/core/store"
)

// recover closes what a crash left open in a session that was just loaded:
// first it skips the sequence numbers that may have been seen by clients but
// never reached the disk, then it ends interactions, calls, parts and turns,
// with events that say that they are synthetic.
func (s *Session) recover(ctx context.Context) error {
	s.host.mu.RLock()
	beyond, lost := s.host.beyond[s.id]
	s.resumes = s.host.opened && !lost
	s.host.mu.RUnlock()
	if !s.work.Running() && len(s.work.Open) == 0 && len(s.work.Tools) == 0 && !s.worked() && beyond <= s.work.Seq {
		return nil
	}
	s.at = now()
	if err := s.skipLost(ctx, beyond); err != nil {
		return err
	}
	for _, c := range s.work.Chats { // agents are gone too
		s.nothingLeft(c.ID)
	}
	// Their clients' connections are gone with the process.
	for _, set := range s.work.Tools {
		s.emit(id.Nil, id.Nil, &event.ClientToolsSet{Client: set.Client})
	}
	failure := &event.Error{Code: event.CodeInterrupted, Message: "the gateway stopped in the middle of this turn"}
	for _, c := range s.running() {
		r := s.chatRun(c.ID)
		r.turn, r.message = c.Active.ID, c.Active.Message
		s.finish(r, event.TurnCancelled, failure, event.Gateway, true)
	}
	for _, i := range s.work.Open { // of no running turn
		s.settle(i, event.Resolution{Outcome: event.Cancelled, By: event.Gateway})
	}
	s.reason = reasonTurn
	// The caller starts the session's goroutine only later; nothing reads
	// the tickets until then, and there is room for this one.
	s.commit()
	return nil
}

// worked reports whether an agent was going on with something.
func (s *Session) worked() bool {
	return slices.ContainsFunc(s.work.Chats, func(c *state.Chat) bool { return len(c.Work) > 0 })
}

// skipLost moves the sequence beyond what a crash may have taken, and beyond
// what is known to have been seen.
func (s *Session) skipLost(ctx context.Context, upto uint64) error {
	b, err := s.host.store.Get(ctx, reservedKey(s.id))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if reserved, err := strconv.ParseUint(string(b), 10, 64); err == nil {
		upto = max(upto, reserved)
	}
	if upto <= s.work.Seq {
		return nil
	}
	r := store.Record{First: s.work.Seq + 1, Last: upto, Data: []byte{recordLost}}
	events, err := decodeRecord(r, s.work.Seq, upto)
	if err != nil {
		return err
	}
	for _, e := range events {
		if err := s.work.Apply(e); err != nil {
			return err
		}
		s.hub.Publish(e)
	}
	s.seq.Store(s.work.Seq)
	s.w.records = append(s.w.records, r)
	s.w.last = s.work.Seq
	return nil
}
