package host

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
)

// Fork says what a new session is to begin with.
type Fork struct {
	Chat id.ID // Nil is the default chat
	// UpTo is the last turn that the fork has; Nil is the newest.
	UpTo  id.ID
	By    event.Actor
	Title string // "" is the session's
	// Meta is what the front keeps with the new session.
	Meta map[string]json.RawMessage
}

// Fork makes a new session with the history of a chat. Its first prompt begins
// a conversation of its own with what the agent remembers of this one, which
// stays as it is. ErrUnsupported says that the agent cannot do that, or not at
// this turn.
func (s *Session) Fork(ctx context.Context, f Fork) (*Session, error) {
	st := s.State()
	if f.Chat.IsNil() {
		f.Chat = st.Default
	}
	cut, err := s.forkPlace(ctx, st, f.Chat, f.UpTo)
	if err != nil {
		return nil, fmt.Errorf("fork: %w", err)
	}
	if err := s.Durable(ctx, st.Seq); err != nil {
		return nil, fmt.Errorf("fork: %w", err)
	}
	title := f.Title
	if title == "" {
		title = st.Info.Title
	}
	return s.host.copySession(ctx, s, cut, CreateSession{Backend: st.Info.Backend, Dirs: dirsOf(st, st.Chat(f.Chat)), Title: title,
		Settings: st.Info.Settings, By: f.By, Meta: f.Meta})
}

// copySession stores a session whose turns are those of a chat, with ids of
// their own, and opens it.
func (h *Host) copySession(ctx context.Context, from *Session, cut place, create CreateSession) (*Session, error) {
	info, err := h.newInfo(create)
	if err != nil {
		return nil, fmt.Errorf("fork: %w", err)
	}
	if h.isClosing() {
		return nil, ErrClosed
	}
	s := newSession(h, state.New(state.DefaultLimits), false)
	s.id, s.log, s.w.log, s.silent = info.ID, h.log.With("session", info.ID.String()), logName(info.ID), true
	s.at = info.CreatedAt
	chat := id.New()
	fresh := twins()
	s.emit(id.Nil, id.Nil, &event.SessionCreated{Info: info, Default: chat})
	r := s.chatRun(chat)
	for before := 0; before < cut.turns; {
		upto := min(before+importPage, cut.turns)
		turns, err := from.Turns(ctx, cut.chat, upto, upto-before)
		if err != nil {
			return nil, fmt.Errorf("fork: %w", err)
		}
		for _, t := range turns {
			s.copyTurn(r, t, fresh)
		}
		if before = upto; before < cut.turns {
			if err := s.store(ctx); err != nil {
				return nil, fmt.Errorf("fork: %w", err)
			}
		}
	}
	s.at = info.CreatedAt
	if cut.of != "" {
		s.emit(chat, id.Nil, &event.ChatUpdated{By: event.Gateway, ForkOf: &cut.of, ForkAt: &cut.at, ForkEnd: cut.end})
	}
	if err := s.storeWhole(ctx); err != nil {
		return nil, fmt.Errorf("fork: %w", err)
	}
	sum := summarise(s.work, false)
	sum.Live = false
	h.mu.Lock()
	h.indexLocked(&sum)
	h.tellLocked(Change{Kind: Added, Session: info.ID, Summary: sum, Reason: reasonCreated})
	h.mu.Unlock()
	return h.Session(ctx, info.ID)
}

// twins gives copies ids of their own, each thing one, of the same moment.
func twins() func(id.ID) id.ID {
	ids := map[id.ID]id.ID{}
	return func(old id.ID) id.ID {
		if old.IsNil() {
			return old
		}
		if _, ok := ids[old]; !ok {
			ids[old] = old.Twin()
		}
		return ids[old]
	}
}

// copyTurn appends a finished turn as its events were: each part whole.
func (s *Session) copyTurn(r *run, t *state.Turn, fresh func(id.ID) id.ID) {
	m := t.Message
	m.ID, m.Turn, m.Key, m.Alias, m.TurnAlias, m.Tools = fresh(m.ID), fresh(t.ID), "", "", "", nil
	m.KeepEffort = false // the settings are as they are now
	s.at = t.StartedAt
	s.start(r, m, false)
	r.point = t.Point
	for _, p := range t.Parts {
		s.copyPart(r, p, fresh)
	}
	if t.Usage != (event.Usage{}) {
		r.emit(&event.UsageReported{Usage: t.Usage})
	}
	s.at = t.StartedAt.Add(t.Duration)
	s.finish(r, t.Status, t.Error, m.By, t.Synthetic)
}

func (s *Session) copyPart(r *run, p *event.Part, fresh func(id.ID) id.ID) {
	q := *p
	q.ID = fresh(p.ID)
	s.at = p.StartedAt
	switch {
	case q.Tool != nil:
		tool := *q.Tool
		end := &event.ToolEnded{Part: q.ID, Status: tool.Status, Output: tool.Output.String(), Error: tool.Error,
			ExitCode: tool.ExitCode, Edits: tool.Edits, Dropped: tool.Dropped, Refused: tool.Refused}
		started := event.Tool{Call: tool.Call, Name: tool.Name, Title: tool.Title, Tag: tool.Tag, Server: tool.Server,
			Client: tool.Client, Status: event.CallStreaming}
		r.emit(&event.PartStarted{Part: event.Part{ID: q.ID, Kind: q.Kind, StartedAt: q.StartedAt, Tool: &started}})
		r.emit(&event.ToolReady{Part: q.ID, Input: tool.Input, Title: tool.Title, Tag: tool.Tag, Edits: tool.Edits})
		if tool.Allowed != "" {
			r.emit(&event.ToolRunning{Part: q.ID, Allowed: tool.Allowed})
		}
		s.at = p.EndedAt
		r.emit(end)
	case q.Kind == event.PartText || q.Kind == event.PartReasoning:
		text := q.Text.String()
		r.emit(&event.PartStarted{Part: event.Part{ID: q.ID, Kind: q.Kind, StartedAt: q.StartedAt}})
		for piece := text; piece != ""; {
			head := validPrefix(piece, flushBytes)
			s.emit(r.chat, r.turn, &event.PartDelta{Part: q.ID, Text: head})
			piece = piece[len(head):]
		}
		s.at = p.EndedAt
		r.emit(&event.PartEnded{Part: q.ID, Text: text, Cut: q.Cut})
	default:
		if q.Message != nil {
			m := *q.Message
			m.ID, m.Turn, m.Tools = fresh(m.ID), r.turn, slices.Clone(m.Tools)
			q.Message = &m
		}
		r.emit(&event.PartStarted{Part: q})
	}
}
