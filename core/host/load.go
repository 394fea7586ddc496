package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
	"github.com/polyhost/polyhost/core/store"
)

// loadIndex reads all summaries.
func (h *Host) loadIndex(ctx context.Context) error {
	for after := ""; ; {
		kvs, err := h.store.Scan(ctx, summaryPrefix, after, pageKeys, false)
		if err != nil {
			return err
		}
		for _, kv := range kvs {
			s := new(Summary)
			if err := json.Unmarshal(kv.Value, s); err != nil {
				h.log.Error("A stored session summary cannot be read; the session is left out", "key", kv.Key, "err", err)
				continue
			}
			h.indexLocked(s)
		}
		if len(kvs) < pageKeys {
			return nil
		}
		after = kvs[len(kvs)-1].Key
	}
}

// discardPrivate removes the sessions that nobody had begun to use when the
// last host stopped: their clients are gone.
func (h *Host) discardPrivate(ctx context.Context) error {
	for sid, s := range h.index {
		if !s.Private {
			continue
		}
		h.unindexNames(sid)
		delete(h.index, sid)
		if err := h.erase(ctx, sid); err != nil {
			return err
		}
	}
	return nil
}

// recoverRunning opens the sessions whose turn was cut off, which closes it.
func (h *Host) recoverRunning(ctx context.Context) error {
	for after := ""; ; {
		kvs, err := h.store.Scan(ctx, runningPrefix, after, pageKeys, false)
		if err != nil {
			return err
		}
		for _, kv := range kvs {
			after = kv.Key
			sid, err := id.Parse(kv.Key[len(runningPrefix):])
			if err != nil {
				continue
			}
			if _, err := h.Session(ctx, sid); err != nil {
				h.log.Error("A session with a cut-off turn cannot be opened", "session", sid.String(), "err", err)
				continue
			}
			h.log.Warn("A turn that the last stop cut off was closed", "session", sid.String())
		}
		if len(kvs) < pageKeys {
			return nil
		}
	}
}

// load rebuilds a session from its snapshot and the log after it.
func (h *Host) load(ctx context.Context, sid id.ID) (*Session, error) {
	st := state.New(state.DefaultLimits)
	b, err := h.store.Get(ctx, snapshotKey(sid))
	switch {
	case err == nil:
		if st, err = state.Decode(b, state.DefaultLimits); err != nil {
			return nil, fmt.Errorf("open session %s: %w", sid, err)
		}
		if err := h.loadTurns(ctx, st); err != nil {
			return nil, fmt.Errorf("open session %s: %w", sid, err)
		}
	case !errors.Is(err, store.ErrNotFound):
		return nil, fmt.Errorf("open session %s: %w", sid, err)
	}
	since := 0
	for {
		records, err := h.store.Read(ctx, logName(sid), st.Seq+1, pageBytes)
		if err != nil {
			return nil, fmt.Errorf("open session %s: %w", sid, err)
		}
		if len(records) == 0 {
			break
		}
		since += len(records)
		for _, r := range records {
			events, err := decodeRecord(r, st.Seq, r.Last)
			if err != nil {
				return nil, fmt.Errorf("open session %s: %w", sid, err)
			}
			for _, e := range events {
				if err := st.Apply(e); err != nil {
					return nil, fmt.Errorf("open session %s: %w", sid, err)
				}
			}
		}
	}
	if st.Info.ID != sid {
		return nil, fmt.Errorf("open session %s: its log is empty: %w", sid, ErrNotFound)
	}
	h.mu.RLock()
	private := h.index[sid] != nil && h.index[sid].Private
	h.mu.RUnlock()
	for _, c := range st.Chats {
		if err := h.refill(ctx, st, c.ID); err != nil {
			return nil, fmt.Errorf("open session %s: %w", sid, err)
		}
	}
	s := newSession(h, st, private)
	s.w.since = since
	if err := s.recover(ctx); err != nil {
		return nil, fmt.Errorf("open session %s: %w", sid, err)
	}
	return s, nil
}

// loadTurns gives a decoded snapshot its window of finished turns.
func (h *Host) loadTurns(ctx context.Context, st *state.State) error {
	for _, c := range st.Chats {
		turns, err := h.turns(ctx, st.Info.ID, c.ID, c.Count, state.DefaultLimits.Turns)
		if err != nil {
			return err
		}
		c.Turns = turns
		c.Trim(state.DefaultLimits)
	}
	return nil
}

// refill gives a chat without turns in memory, or with the one that it came with, the
// newest of those it has.
func (h *Host) refill(ctx context.Context, st *state.State, chat id.ID) error {
	c := st.Chat(chat)
	if c == nil || c.Count == 0 || len(c.Turns) > 0 && c.Rest == nil {
		return nil
	}
	turns, err := h.turns(ctx, st.Info.ID, chat, c.Count, state.DefaultLimits.Turns)
	if err == nil {
		st.Refill(chat, turns)
	}
	return err
}

// turns reads finished turns from their records: limit of them before number
// before, oldest first.
func (h *Host) turns(ctx context.Context, sid, chat id.ID, before, limit int) ([]*state.Turn, error) {
	prefix := turnPrefix(sid, chat)
	kvs, err := h.store.Scan(ctx, prefix, turnKey(sid, chat, before), limit, true)
	if err != nil {
		return nil, err
	}
	out := make([]*state.Turn, len(kvs))
	for i, kv := range kvs {
		t := new(state.Turn)
		if err := json.Unmarshal(kv.Value, t); err != nil {
			return nil, fmt.Errorf("turn record %s: %w", kv.Key, err)
		}
		out[len(kvs)-1-i] = t
	}
	return out, nil
}
