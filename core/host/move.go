package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
	"github.com/polyhost/polyhost/core/store"
)

// Move says where a chat goes.
type Move struct {
	Chat id.ID
	// To is the session it goes to, its own one too; Nil is a new one, whose
	// default chat it is.
	To id.ID
	// After is the chat of that session that it is to follow; Nil makes it the
	// first.
	After id.ID
	By    event.Actor
	// Rename gives the chat, and the chats of its subagents, the names that they
	// have in the other session; nil leaves them.
	Rename func(*event.ChatInfo)
}

// moved is a chat on its way, with what is stored of a move that is not done.
type moved struct {
	Added event.ChatAdded `json:"added"`
	Draft *event.DraftChanged
	// before is the agent's process in the old session, which may still end.
	before *conversation
}

// moveRecord is stored while a chat belongs to the new session, but the old
// one, the new one or both were not told yet.
type moveRecord struct {
	From  id.ID       `json:"from"`
	To    id.ID       `json:"to"`
	After id.ID       `json:"after,omitzero"`
	By    event.Actor `json:"by"`
	Chats []moved     `json:"chats"` // the chat, then its subagents'
}

// MoveChat moves a chat to another place in its session, or to another session,
// with its turns, its agent's conversation and the chats of its subagents. The
// agent goes on with the next prompt, in the directories it was in. It returns
// the session that has the chat then.
//
// ErrInvalid and ErrUnsupported say in words why this chat stays, or why the
// session or the place is none for it. Nothing has changed then.
func (s *Session) MoveChat(ctx context.Context, m Move) (to id.ID, err error) {
	if m.To == s.id {
		return s.id, s.order(ctx, m)
	}
	s.host.moving.Lock()
	defer s.host.moving.Unlock()
	var dest *Session
	backend := s.State().Info.Backend
	if !m.To.IsNil() {
		if dest, err = s.host.Session(ctx, m.To); err != nil {
			return id.Nil, err
		}
		st := dest.State()
		switch {
		case st.Info.Backend != backend:
			return id.Nil, fmt.Errorf("%w: that session's agent is %s and this chat's is %s", ErrInvalid, st.Info.Backend, backend)
		case !m.After.IsNil() && st.Chat(m.After) == nil:
			return id.Nil, fmt.Errorf("%w: the chat that it is to follow is not in that session", ErrInvalid)
		}
	}
	chats, err := s.pack(ctx, m)
	if err != nil {
		return id.Nil, err
	}
	to, err = s.hand(ctx, dest, m, chats)
	if err != nil {
		s.unpack(context.WithoutCancel(ctx), m.Chat)
	}
	return to, err
}

// movable reports why a chat stays where it is.
func (s *Session) movable(chat id.ID) error {
	c := s.work.Chat(chat)
	switch {
	case c == nil:
		return fmt.Errorf("chat %s: %w", chat, ErrNotFound)
	case chat == s.work.Default:
		return fmt.Errorf("%w: the default chat stays with its session", ErrInvalid)
	case c.Origin.Kind == event.OriginSubagent:
		return fmt.Errorf("%w: a subagent's chat stays with the chat that started it", ErrInvalid)
	case c.Active != nil || len(c.Queue)+len(c.Steering) > 0:
		return fmt.Errorf("%w: a turn runs in the chat", ErrInvalid)
	case !s.host.can(s.work.Info.Backend).Resume:
		return fmt.Errorf("%w: %s cannot take up a conversation again", ErrUnsupported, s.work.Info.Backend)
	}
	return nil
}

// order moves a chat inside the session.
func (s *Session) order(ctx context.Context, m Move) error {
	return s.do(ctx, false, func(s *Session) error {
		if err := s.movable(m.Chat); err != nil {
			return err
		}
		order, err := orderWith(s.work, m.Chat, m.After)
		if err != nil {
			return err
		}
		if slices.EqualFunc(order, s.work.Chats, func(x id.ID, c *state.Chat) bool { return x == c.ID }) {
			return nil
		}
		s.emit(id.Nil, id.Nil, &event.ChatsReordered{Order: order, By: m.By})
		return nil
	})
}

// orderWith are the session's chats with one of them behind another.
func orderWith(st *state.State, chat, after id.ID) ([]id.ID, error) {
	var order []id.ID
	for _, c := range st.Chats {
		if c.ID != chat {
			order = append(order, c.ID)
		}
	}
	at := 0
	if !after.IsNil() {
		if at = slices.Index(order, after) + 1; at == 0 {
			return nil, fmt.Errorf("%w: a chat follows another chat of its session, and not itself", ErrInvalid)
		}
	}
	return slices.Insert(order, at, chat), nil
}

// pack makes a chat ready to go: it takes no more messages, and its agent stops.
func (s *Session) pack(ctx context.Context, m Move) (chats []moved, err error) {
	err = s.do(ctx, false, func(s *Session) error {
		if err := s.movable(m.Chat); err != nil {
			return err
		}
		chats = nil
		for _, c := range append([]*state.Chat{s.work.Chat(m.Chat)}, s.workers(m.Chat)...) {
			info := c.ChatInfo
			info.Dirs = dirsOf(s.work, c)
			if m.Rename != nil {
				m.Rename(&info)
			}
			one := moved{Added: event.ChatAdded{Info: info, By: m.By, Turns: c.Count, From: s.id, Usage: c.Usage}, Draft: c.Draft}
			if last := standing(c); last != nil {
				one.Added.Last = &event.LastTurn{Message: last.Message, StartedAt: last.StartedAt, Duration: last.Duration}
				if c.Failed() {
					one.Added.Last.Status = event.TurnFailed
				}
			}
			failed, err := storedFailed(c.Resumable())
			if err != nil {
				return fmt.Errorf("move chat: %w", err)
			}
			one.Added.Failed = failed
			r := s.chatRun(c.ID)
			r.drop()
			one.before, r.moving = r.before, true
			chats = append(chats, one)
		}
		return nil
	})
	return chats, err
}

// standing is the turn whose end a chat shows.
func standing(c *state.Chat) *state.Turn {
	if c.Rest != nil {
		return c.Rest
	}
	return lastTurn(c)
}

// unpack lets a chat that stays go on.
func (s *Session) unpack(ctx context.Context, chat id.ID) {
	err := s.do(ctx, false, func(s *Session) error {
		for _, r := range s.chats {
			if c := s.work.Chat(r.chat); c != nil && (r.chat == chat || c.Origin.Chat == chat) {
				r.moving = false
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, ErrNotFound) {
		s.log.Warn("A chat that was to move may take no messages until its session is opened again", "chat", chat.String(), "err", err)
	}
}

// hand gives a packed chat over. From the record on it is the other session's,
// whatever happens: Open finishes a move that a stop cut off.
func (s *Session) hand(ctx context.Context, dest *Session, m Move, chats []moved) (id.ID, error) {
	var created CreateSession
	to := m.To
	if dest == nil {
		st := s.State()
		first := chats[0].Added.Info
		created = CreateSession{Backend: st.Info.Backend, Dirs: first.Dirs, Title: first.Title, Settings: st.Info.Settings, By: m.By}
		if created.Title == "" {
			created.Title = st.Info.Title
		}
		s.host.nameAfter(&created, first.Conversation)
		to = created.ID
	}
	for i := range chats {
		a := &chats[i].Added
		where := created.Dirs
		if dest != nil {
			where = dest.State().Info.Dirs
		}
		if slices.Equal(a.Info.Dirs, where) {
			a.Info.Dirs = nil
		}
		if err := s.copyTurns(ctx, to, a.Info.ID, place{chat: a.Info.ID, turns: a.Turns}, nil); err != nil {
			return id.Nil, fmt.Errorf("move chat: %w", err)
		}
	}
	// A client that leaves must not leave half of it done.
	ctx = context.WithoutCancel(ctx)
	record, err := json.Marshal(moveRecord{From: s.id, To: to, After: m.After, By: m.By, Chats: chats})
	if err != nil {
		return id.Nil, fmt.Errorf("move chat: %w", err)
	}
	key := movePrefix + m.Chat.String()
	if err := store.Wait(ctx, s.host.store.Commit(store.Batch{Put: []store.KV{{Key: key, Value: record}}})); err != nil {
		return id.Nil, fmt.Errorf("move chat: %w", err)
	}
	if dest == nil {
		err = s.host.createWith(ctx, created, chats, func() error { return s.giveAway(ctx, to, m.By, chats) })
	} else if err = s.giveAway(ctx, to, m.By, chats); err == nil {
		err = dest.receiveChats(ctx, m.After, chats)
	}
	if err != nil {
		err = fmt.Errorf("move chat: %w", err)
		if back := s.receiveChats(ctx, id.Nil, chats); back != nil {
			return id.Nil, errors.Join(err, back) // Open goes on with the record
		}
		return id.Nil, errors.Join(err, store.Wait(ctx, s.host.store.Commit(store.Batch{Delete: []string{key}})))
	}
	return to, s.host.moveDone(ctx, s.id, chats)
}

// moveDone removes what the move left: the turns in the old session's records,
// and its own.
func (h *Host) moveDone(ctx context.Context, from id.ID, chats []moved) error {
	b := store.Batch{Delete: []string{movePrefix + chats[0].Added.Info.ID.String()}}
	for i := range chats {
		a := &chats[i].Added
		for n := range a.Turns {
			b.Delete = append(b.Delete, turnKey(from, a.Info.ID, n))
		}
	}
	return store.Wait(ctx, h.store.Commit(b))
}

// nameAfter gives a new session the name that its agent's conversation has, if
// nothing else is called so.
func (h *Host) nameAfter(c *CreateSession, conversation string) {
	c.ID = id.New()
	if conversation == "" || len(conversation) > MaxName {
		return
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	if u, err := id.Parse(conversation); err == nil {
		if h.index[u] == nil {
			c.ID = u
		}
	} else if _, taken := h.aliases[c.By.Front+"\x00"+conversation]; !taken {
		c.Alias = conversation
	}
}

// giveAway takes moved chats out of the session they were in.
func (s *Session) giveAway(ctx context.Context, to id.ID, by event.Actor, chats []moved) error {
	return s.do(ctx, false, func(s *Session) error {
		for _, one := range slices.Backward(chats) { // subagents' chats first
			if chat := one.Added.Info.ID; s.work.Chat(chat) != nil {
				s.removeChat(chat, &event.ChatRemoved{By: by, To: to})
			}
		}
		return nil
	})
}

// receiveChats takes moved chats in, behind one of the session's, if it is still
// there.
func (s *Session) receiveChats(ctx context.Context, after id.ID, chats []moved) error {
	windows := make([][]*state.Turn, len(chats))
	for i := range chats {
		var err error
		if windows[i], err = s.host.turns(ctx, s.id, chats[i].Added.Info.ID, chats[i].Added.Turns, state.DefaultLimits.Turns); err != nil {
			return err
		}
	}
	return s.do(ctx, false, func(s *Session) error {
		if s.work.Chat(chats[0].Added.Info.ID) != nil {
			return nil // it is here
		}
		for i := range chats {
			one := &chats[i]
			chat := one.Added.Info.ID
			s.emit(chat, id.Nil, &one.Added)
			s.private = s.private && s.work.Info.Provisional
			s.refill(chat, windows[i])
			s.chatRun(chat).before = one.before
			if one.Draft != nil {
				s.emit(chat, id.Nil, one.Draft)
			}
		}
		if s.work.Chat(after) == nil {
			after = id.Nil
		}
		order, err := orderWith(s.work, chats[0].Added.Info.ID, after)
		if err != nil {
			return err
		}
		s.emit(id.Nil, id.Nil, &event.ChatsReordered{Order: order, By: chats[0].Added.By})
		return nil
	})
}

// createWith stores a session whose default chat is a moved one. Nobody hears
// of it before the old session was told.
func (h *Host) createWith(ctx context.Context, create CreateSession, chats []moved, release func() error) error {
	info, err := h.newInfo(create)
	if err != nil {
		return err
	}
	info.Provisional = chats[0].Added.Turns == 0
	s := newSession(h, state.New(state.DefaultLimits), false)
	s.id, s.log, s.w.log, s.silent = info.ID, h.log.With("session", info.ID.String()), logName(info.ID), true
	s.at = info.CreatedAt
	s.emit(id.Nil, id.Nil, &event.SessionCreated{Info: info, Default: chats[0].Added.Info.ID, Chat: &chats[0].Added})
	for i := range chats {
		one := &chats[i]
		if i > 0 {
			s.emit(one.Added.Info.ID, id.Nil, &one.Added)
		}
		if one.Draft != nil {
			s.emit(one.Added.Info.ID, id.Nil, one.Draft)
		}
	}
	if err := s.storeWhole(ctx); err != nil {
		return err
	}
	if err := release(); err != nil {
		return err
	}
	sum := summarise(s.work, false)
	sum.Live = false
	h.mu.Lock()
	h.indexLocked(&sum)
	h.tellLocked(Change{Kind: Added, Session: info.ID, Summary: sum, Reason: reasonCreated})
	h.mu.Unlock()
	return nil
}

// finishMoves goes on with the moves that a stop cut off.
func (h *Host) finishMoves(ctx context.Context) error {
	kvs, err := h.store.Scan(ctx, movePrefix, "", pageKeys, false)
	if err != nil {
		return err
	}
	for _, kv := range kvs {
		var m moveRecord
		if err := json.Unmarshal(kv.Value, &m); err != nil || len(m.Chats) == 0 {
			h.log.Error("The record of a move cannot be read", "key", kv.Key, "err", err)
			continue
		}
		if err := h.finishMove(ctx, &m); err != nil {
			h.log.Error("A chat's move to another session cannot be finished", "chat", m.Chats[0].Added.Info.ID.String(), "err", err)
		}
	}
	return nil
}

func (h *Host) finishMove(ctx context.Context, m *moveRecord) error {
	from, err := h.Session(ctx, m.From)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	to, err := h.Session(ctx, m.To)
	switch {
	case errors.Is(err, ErrNotFound): // it was still to be created: the chat stays
		if from != nil {
			if err := from.receiveChats(ctx, id.Nil, m.Chats); err != nil {
				return err
			}
		}
		return store.Wait(ctx, h.store.Commit(store.Batch{Delete: []string{movePrefix + m.Chats[0].Added.Info.ID.String()}}))
	case err != nil:
		return err
	}
	if from != nil {
		if err := from.giveAway(ctx, m.To, m.By, m.Chats); err != nil {
			return err
		}
	}
	if err := to.receiveChats(ctx, m.After, m.Chats); err != nil {
		return err
	}
	return h.moveDone(ctx, m.From, m.Chats)
}
