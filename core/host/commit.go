package host

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/store"
)

// emit appends an event: numbers it, folds it, stores it, publishes it.
func (s *Session) emit(chat, turn id.ID, body event.Body) *event.Event {
	e := &event.Event{Seq: s.work.Seq + 1, At: s.at, Chat: chat, Turn: turn, Body: body}
	making := s.work.Info.Making
	switch b := body.(type) {
	case *event.ChatAdded:
		s.host.meetChat(s.id, b.Info.ID, b.Info.Aliases)
	case *event.SessionCreated:
		if b.Chat != nil {
			s.host.meetChat(s.id, b.Default, b.Chat.Info.Aliases)
		}
	case *event.ChatRemoved:
		s.host.partChat(s.id, chat, s.work.Chat(chat).Aliases)
	}
	s.mu.Lock()
	err := s.work.Apply(e)
	s.mu.Unlock()
	if err != nil {
		panic(err) // the number is ours: only a bug gets here
	}
	s.seq.Store(e.Seq)
	s.w.add(e)
	_, delta := body.(*event.PartDelta)
	if s.counted && !delta {
		s.host.counters.count(body)
	}
	s.publish(e)
	if !delta {
		s.noteReason(body)
	}
	if making && !s.work.Info.Making && s.reason == "" {
		s.reason = reasonUpdated
	}
	return e
}

// noteReason decides whether an event changes the session's summary, and how
// to call it.
func (s *Session) noteReason(body event.Body) {
	reason := reasonUpdated
	switch b := body.(type) {
	case *event.SessionCreated:
		reason = reasonCreated
	case *event.SessionUpdated:
		switch {
		case b.Title != nil:
			reason = reasonRenamed
		case b.Closed != nil:
			reason = reasonClosed
		}
	case *event.TurnStarted, *event.TurnResumed, *event.MessageQueued:
		reason = reasonPrompt
	case *event.TurnEnded:
		reason = reasonTurn
	case *event.InteractionOpened:
		reason = interactionReason(b.Interaction.Kind)
	case *event.InteractionResolved:
		reason = interactionReason(b.Of)
	case *event.ChatAdded, *event.ChatUpdated, *event.ChatRemoved, *event.ChatsReordered, *event.ChatTruncated:
		reason = reasonChat
	case *event.MessageRemoved, *event.MessageUpdated, *event.QueueReordered, *event.UsageReported:
	case *event.ToolReady, *event.ToolRunning, *event.ToolEnded, *event.PlanUpdated:
		if s.tellAt.IsZero() {
			s.tellAt = s.at.Add(activityEvery)
		}
		return
	default:
		return
	}
	s.reason = reason
}

// tell has the list show what the session does, if it shows something else.
func (s *Session) tell() {
	s.tellAt = time.Time{}
	if clipTitle(s.work.Doing()) != s.told && s.reason == "" {
		s.reason = reasonActivity
	}
}

func interactionReason(k event.InteractionKind) string {
	if k == event.Approval {
		return reasonApproval
	}
	return reasonQuestion
}

// commit hands what was gathered to the store, with the new summary, and
// announces the summary.
func (s *Session) commit() {
	if s.deleted {
		return
	}
	var sum Summary
	reason := s.reason
	if reason != "" {
		s.reason = ""
		sum = summarise(s.work, s.private)
		s.told = sum.Activity
		if b, err := json.Marshal(&sum); err == nil {
			s.w.put = append(s.w.put, store.KV{Key: summaryKey(s.id), Value: b})
		}
	}
	if !s.w.waiting() {
		return
	}
	if s.w.since >= snapshotEvery && s.w.durable {
		if b, err := snapshot(s.State()); err == nil {
			s.w.put = append(s.w.put, store.KV{Key: snapshotKey(s.id), Value: b})
			s.w.since = 0
		}
	}
	if s.work.Running() && s.w.last+reserveSeqs/2 > s.reserved {
		s.reserved = s.w.last + reserveSeqs
		s.w.put = append(s.w.put, store.KV{Key: reservedKey(s.id), Value: fmt.Appendf(nil, "%d", s.reserved)})
	}
	out := &ticketed{}
	if reason != "" {
		out.change, out.announce = s.host.note(&sum, reason)
	}
	out.ticket, out.last = s.w.commit()
	s.tickets <- out
}

// awaitTickets tells the hub, and through it the subscribers, what is stored.
func (s *Session) awaitTickets() {
	for t := range s.tickets {
		<-t.ticket.Done()
		if err := t.ticket.Err(); err != nil {
			s.log.Error("Events could not be stored", "up_to", t.last, "err", err)
			select { // before anybody who hears of it tries again
			case s.lost <- struct{}{}:
			default:
			}
			s.hub.Failed(t.last, fmt.Errorf("store events: %w", err))
		}
		s.pubMu.Lock()
		s.hub.Stored(t.last)
		s.release(t.last)
		s.pubMu.Unlock()
		if t.announce {
			s.host.announce(t.change)
		}
	}
}

// publish shows an event to the subscribers, at once unless it, or an event
// before it, must be stored first.
func (s *Session) publish(e *event.Event) {
	s.pubMu.Lock()
	defer s.pubMu.Unlock()
	if s.silent {
		return
	}
	if len(s.held) > 0 || event.DurabilityOf(e.Body) == event.Barrier {
		s.held = append(s.held, e)
		return
	}
	s.hub.Publish(e)
}

func (s *Session) release(stored uint64) {
	n := 0
	for ; n < len(s.held); n++ {
		e := s.held[n]
		if e.Seq > stored && event.DurabilityOf(e.Body) == event.Barrier {
			break
		}
		s.hub.Publish(e)
	}
	s.held = append(s.held[:0], s.held[n:]...)
	clear(s.held[len(s.held):cap(s.held)])
}
