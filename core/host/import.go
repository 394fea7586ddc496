package host

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
	"github.com/polyhost/polyhost/core/store"
)

// loadOrImport brings a session into memory: from the store, or, the first
// time, from what its agent keeps.
func (h *Host) loadOrImport(ctx context.Context, sid id.ID) (*Session, error) {
	h.mu.RLock()
	p, unread := h.past.unread[sid]
	sum := h.index[sid]
	h.mu.RUnlock()
	if !unread || sum == nil {
		return h.loadGrown(ctx, sid)
	}
	// Whoever asked may go: the next one would begin anew.
	within, cancel := context.WithTimeout(h.ctx, ImportWithin)
	defer cancel()
	if err := h.importPast(within, sum, p); err != nil {
		return nil, fmt.Errorf("read the conversation %.80q of %s: %w", p.ID, p.backend, err)
	}
	s, err := h.load(within, sid)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.past.unread, sid)
	h.tellLocked(Change{Kind: Changed, Session: sid, Summary: summarise(s.work, false), Reason: reasonUpdated})
	return s, nil
}

// importPast writes a conversation's history into the store as a session
// whose turns have ended. Its summary comes last: without it nothing of it
// counts.
func (h *Host) importPast(ctx context.Context, sum *Summary, p pastOne) error {
	backend, ok := h.backend(p.backend).(agent.Cataloger)
	if !ok {
		return fmt.Errorf("%w: it keeps no history", ErrUnsupported)
	}
	if err := h.erase(ctx, sum.Info.ID); err != nil { // of an attempt that was cut off
		return err
	}
	s := newSession(h, state.New(state.DefaultLimits), false)
	s.id, s.log, s.w.log, s.silent = sum.Info.ID, h.log.With("session", sum.Info.ID.String()), logName(sum.Info.ID), true
	s.at = sum.Info.CreatedAt
	s.autoTitle = sum.Info.Title
	s.emit(id.Nil, id.Nil, &event.SessionCreated{Info: sum.Info, Default: sum.Default})
	s.emit(sum.Default, id.Nil, &event.ChatUpdated{By: theAgent, Conversation: &p.ID})
	r := s.chatRun(sum.Default)
	if err := s.importTurns(ctx, r, backend, p, 0); err != nil {
		return err
	}
	if s.work.ModifiedAt.Before(sum.ModifiedAt) {
		s.work.ModifiedAt = sum.ModifiedAt // the agent may count what is no turn
	}
	return s.storeWhole(ctx)
}

// importTurns folds in the turns of a conversation after the first ones, which
// are there.
func (s *Session) importTurns(ctx context.Context, r *run, from agent.Cataloger, p pastOne, there int) error {
	q := agent.HistoryQuery{ID: p.ID, Dir: p.Dir, Limit: importPage}
	for n := 0; ; {
		page, err := from.History(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Turns {
			if n >= there {
				if err := s.importTurn(ctx, r, &page.Turns[i], n >= MaxImport); err != nil {
					return err
				}
			}
			if n++; n > MaxImport {
				break
			}
		}
		more := page.Next != "" && page.Next != q.After && n <= MaxImport
		if !more {
			break
		}
		q.After = page.Next
		if err := s.store(ctx); err != nil {
			return err
		}
	}
	s.w.put = append(s.w.put, store.KV{Key: importedKey(s.id), Value: fmt.Appendf(nil, "%d", s.work.Chat(r.chat).Count)})
	return nil
}

// loadGrown loads a session. If all of its turns were read from the agent,
// where the conversation has gone on since, the new ones are read before.
func (h *Host) loadGrown(ctx context.Context, sid id.ID) (*Session, error) {
	s, err := h.load(ctx, sid)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	p, grown := h.past.grown[sid]
	delete(h.past.grown, sid)
	h.mu.Unlock()
	if !grown || !s.onlyImported(ctx, p) {
		return s, nil
	}
	backend, ok := h.backend(p.backend).(agent.Cataloger)
	if !ok {
		return s, nil
	}
	within, cancel := context.WithTimeout(h.ctx, ImportWithin)
	defer cancel()
	s.silent, s.at = true, s.work.ModifiedAt
	err = s.importTurns(within, s.chatRun(s.work.Default), backend, p, s.work.DefaultChat().Count)
	if err == nil {
		if s.work.ModifiedAt.Before(p.UpdatedAt) {
			s.work.ModifiedAt = p.UpdatedAt.UTC().Truncate(time.Millisecond)
		}
		err = s.storeWhole(within)
	}
	if err != nil {
		h.log.Warn("What an agent added to a conversation could not be read", "session", sid.String(), "err", err)
	}
	return h.load(ctx, sid)
}

// onlyImported: nothing has run here, and the agent has the conversation still.
func (s *Session) onlyImported(ctx context.Context, p pastOne) bool {
	c := s.work.DefaultChat()
	n, err := s.host.store.Get(ctx, importedKey(s.id))
	return err == nil && string(n) == fmt.Sprint(c.Count) && c.Count < MaxImport && c.Active == nil && len(c.Queue) == 0 &&
		c.Conversation == p.ID
}

// storeWhole writes the rest of a session that was put together outside of
// its goroutine: from then on it can be loaded.
func (s *Session) storeWhole(ctx context.Context) error {
	sum := summarise(s.work, s.private)
	summary, err := json.Marshal(&sum)
	if err != nil {
		return err
	}
	snap, err := snapshot(s.State())
	if err != nil {
		return err
	}
	s.w.put = append(s.w.put, store.KV{Key: summaryKey(s.id), Value: summary}, store.KV{Key: snapshotKey(s.id), Value: snap})
	return s.store(ctx)
}

// store writes what was imported, and waits for it.
func (s *Session) store(ctx context.Context) error {
	s.w.durable, s.reason = true, ""
	t, _ := s.w.commit()
	return store.Wait(ctx, t)
}

// importTurn folds a past turn in. The last one of a history that is too long
// says so instead.
func (s *Session) importTurn(ctx context.Context, r *run, t *agent.PastTurn, last bool) error {
	if at := t.At.UTC().Truncate(time.Millisecond); at.After(s.at) {
		s.at = at
	}
	for i := range t.Attachments {
		if jail(s.work.Info.Dirs, t.Attachments[i:i+1]) != nil {
			t.Attachments[i].Path = "" // not to be read through the gateway
		}
	}
	kept, err := s.host.keep(ctx, t.Attachments)
	if err != nil {
		return err
	}
	s.start(r, event.Message{ID: id.New(), At: s.at, Text: validPrefix(t.Prompt, MaxPrompt), Attachments: kept, By: theAgent,
		System: t.Prompt == "" && len(kept) == 0}, false)
	if last {
		t.Frames = []agent.Frame{{Kind: agent.Notice, Notice: &event.Notice{Level: "warning", Code: "truncated",
			Text: fmt.Sprintf("The conversation goes on after these %d turns; the agent has the rest.", MaxImport)}}}
	}
	for i := range t.Frames {
		f := &t.Frames[i]
		switch f.Kind {
		case agent.Permission, agent.Ask, agent.ClientCall, agent.Withdrawn, agent.Steered, agent.Unsteered,
			agent.ConversationID, agent.Title, agent.TurnStart, agent.Background:
			continue // these are for a turn that runs
		case agent.TurnEnd:
			f.Turn = ""
		}
		s.frame(r, f)
		if r.turn.IsNil() {
			break
		}
	}
	if !r.turn.IsNil() {
		s.end(r, event.TurnComplete, nil, theAgent)
	}
	return nil
}
