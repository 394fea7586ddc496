package host

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
	"github.com/polyhost/polyhost/core/store"
)

// place is where in a chat, and in its agent's conversation, a fork begins or a
// chat is cut.
type place struct {
	chat  id.ID
	turns int // that stay, the first ones
	cuts  int // of the chat when it was looked at
	// of and at are as event.ChatInfo has them; without an of the agent knows
	// none of the turns, which are a person's own commands.
	of, at string
	end    *event.ForkEnd
	last   *state.Turn // that stays
}

// forkPlace finds out where an agent has to begin to know a chat's turns up to
// one, and no more. A Nil turn is the newest.
func (s *Session) forkPlace(ctx context.Context, st *state.State, chat, turn id.ID) (place, error) {
	can := s.host.can(st.Info.Backend)
	if c := st.Chat(chat); c != nil && !can.Fork {
		return place{}, fmt.Errorf("%w: %s cannot begin with another conversation's history", ErrUnsupported, st.Info.Backend)
	}
	return s.placeOf(ctx, st, chat, turn)
}

// placeOf finds the place of a finished turn of a chat.
func (s *Session) placeOf(ctx context.Context, st *state.State, chat, turn id.ID) (place, error) {
	c := st.Chat(chat)
	if c == nil {
		return place{}, fmt.Errorf("chat %s: %w", chat, ErrNotFound)
	}
	if turn.IsNil() {
		if c.Active != nil {
			return place{}, ErrBusy
		}
		last := lastTurn(c)
		if last == nil {
			return place{}, fmt.Errorf("%w: the chat has no conversation yet", ErrInvalid)
		}
		turn = last.ID
	}
	t, err := s.FindTurn(ctx, chat, turn)
	if err != nil {
		return place{}, err
	}
	if t.Status == event.TurnRunning {
		return place{}, fmt.Errorf("%w: that turn has not ended", ErrBusy)
	}
	p := place{chat: chat, turns: t.Number + 1, cuts: c.Cuts, last: t}
	known := t // the last one that the agent took part in
	for known != nil && known.Message.Command != "" {
		if known, err = s.turnAt(ctx, chat, known.Number-1); err != nil {
			return place{}, err
		}
	}
	switch {
	case known == nil: // the agent begins with nothing
	case known.Point != nil && s.host.can(st.Info.Backend).ForkAt:
		p.of, p.at = known.Point.Conversation, known.Point.At
	case p.turns < c.Count:
		return place{}, fmt.Errorf("%w: %s cannot go back to the end of that turn", ErrUnsupported, st.Info.Backend)
	case c.Active != nil:
		return place{}, ErrBusy
	case c.Conversation != "":
		p.of, p.end = c.Conversation, &event.ForkEnd{Chat: chat, Turns: c.Count, Cuts: c.Cuts}
	case c.ForkOf != "": // it has not begun its own yet
		p.of, p.at, p.end = c.ForkOf, c.ForkAt, c.ForkEnd
	default:
		return place{}, fmt.Errorf("%w: the chat has no conversation yet", ErrInvalid)
	}
	return p, nil
}

// turnAt is a finished turn by its number, nil for -1.
func (s *Session) turnAt(ctx context.Context, chat id.ID, number int) (*state.Turn, error) {
	if number < 0 {
		return nil, nil
	}
	turns, err := s.Turns(ctx, chat, number+1, 1)
	if err == nil && len(turns) == 0 {
		err = fmt.Errorf("turn %d: %w", number, ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	return turns[0], nil
}

// endsThere reports whether a chat still has the end that a fork of it is to
// begin at. Of a chat that is gone nobody can tell.
func (h *Host) endsThere(end *event.ForkEnd) bool {
	if end == nil {
		return true
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	sum := h.index[h.chats[end.Chat]]
	if sum == nil {
		return false
	}
	i := slices.IndexFunc(sum.Chats, func(c ChatSummary) bool { return c.Info.ID == end.Chat })
	return i >= 0 && sum.Chats[i].Turns == end.Turns && sum.Chats[i].Cuts == end.Cuts && (sum.Chats[i].Status == Idle || sum.Chats[i].Status == Failed)
}

// dirsOf are the directories that a chat's agent works in.
func dirsOf(st *state.State, c *state.Chat) []string {
	if len(c.Dirs) > 0 {
		return c.Dirs
	}
	return st.Info.Dirs
}

// begun reports whether the agent has heard anything of the chat.
func begun(c *state.Chat) bool {
	return c.Conversation != "" || slices.ContainsFunc(c.Turns, func(t *state.Turn) bool {
		return t.Message.Command == "" && t.Status == event.TurnComplete
	})
}

// ForkChat says what another chat of the session begins with.
type ForkChat struct {
	Chat id.ID
	// Turn is the last one that a fork has, or the one that a side chat is
	// about, which may be running.
	Turn id.ID
	// Side makes a side chat: it has no history, and the agent is told with its
	// first message what that turn said.
	Side      bool
	Selection *event.Selection
	// Info is what is known of the new chat beforehand: names, title and
	// directories.
	Info event.ChatInfo
	By   event.Actor
}

// ForkChat adds a chat that goes on from a turn of another chat of the session.
// ErrUnsupported says that the agent cannot do that, or not at this turn.
func (s *Session) ForkChat(ctx context.Context, f ForkChat) (id.ID, error) {
	st := s.State()
	info := f.Info
	info.Origin = event.Origin{Kind: event.OriginFork, Chat: f.Chat, Turn: f.Turn, Selection: f.Selection}
	if f.Side {
		t, err := s.FindTurn(ctx, f.Chat, f.Turn)
		if err != nil {
			return id.Nil, fmt.Errorf("side chat: %w", err)
		}
		info.Origin.Kind, info.Brief = event.OriginSide, brief(t, f.Selection)
		info.Origin.TurnAliases = turnNames(t)
		return s.addChat(ctx, info, f.By, place{})
	}
	cut, err := s.forkPlace(ctx, st, f.Chat, f.Turn)
	if err != nil {
		return id.Nil, fmt.Errorf("fork: %w", err)
	}
	if info.ID.IsNil() {
		info.ID = id.New()
	}
	if info.Title == "" {
		c := st.Chat(f.Chat)
		if info.Title = c.Title; info.Title == "" && c.ID == st.Default {
			info.Title = st.Info.Title
		}
	}
	info.Origin.TurnAliases = turnNames(cut.last)
	info.ForkOf, info.ForkAt, info.ForkEnd = cut.of, cut.at, cut.end
	if err := s.copyTurns(ctx, s.id, info.ID, cut, twins()); err != nil {
		return id.Nil, fmt.Errorf("fork: %w", err)
	}
	return s.addChat(ctx, info, f.By, cut)
}

// turnNames are what the fronts call a turn.
func turnNames(t *state.Turn) map[string]string {
	if t.Message.TurnAlias == "" {
		return nil
	}
	return map[string]string{t.Message.By.Front: t.Message.TurnAlias}
}

// copyTurns stores the first turns of a chat as those of another one, which is
// still to be announced; fresh gives the copies their ids, nil leaves them.
func (s *Session) copyTurns(ctx context.Context, session, chat id.ID, cut place, fresh func(id.ID) id.ID) error {
	for before := 0; before < cut.turns; {
		upto := min(before+importPage, cut.turns)
		turns, err := s.Turns(ctx, cut.chat, upto, upto-before)
		if err != nil {
			return err
		}
		if len(turns) != upto-before {
			return fmt.Errorf("turns %d to %d: %w", before, upto, ErrNotFound)
		}
		b := store.Batch{}
		for _, t := range turns {
			if fresh != nil {
				t = twin(t, fresh)
			}
			raw, err := encodeTurn(t)
			if err != nil {
				return err
			}
			b.Put = append(b.Put, store.KV{Key: turnKey(session, chat, t.Number), Value: raw})
		}
		if err := store.Wait(ctx, s.host.store.Commit(b)); err != nil {
			return err
		}
		before = upto
	}
	return nil
}

// twin is a finished turn under ids of its own.
func twin(t *state.Turn, fresh func(id.ID) id.ID) *state.Turn {
	out := *t
	out.ID, out.Resumable = fresh(t.ID), false
	m := &out.Message
	m.ID, m.Turn, m.Key, m.Alias, m.TurnAlias, m.Tools = fresh(m.ID), out.ID, "", "", "", nil
	out.Parts = make([]*event.Part, len(t.Parts))
	for i, p := range t.Parts {
		q := *p
		q.ID = fresh(p.ID)
		if q.Message != nil {
			m := *q.Message
			m.ID, m.Turn = fresh(m.ID), out.ID
			q.Message = &m
		}
		out.Parts[i] = &q
	}
	out.Asked = make([]*state.Asked, len(t.Asked))
	for i, a := range t.Asked {
		q := *a
		q.Interaction.ID, q.Interaction.Turn = fresh(a.Interaction.ID), out.ID
		q.Interaction.Part = fresh(a.Interaction.Part)
		out.Asked[i] = &q
	}
	return &out
}

// brief is what an agent is told of a turn that it was no part of.
func brief(t *state.Turn, sel *event.Selection) string {
	var said []string
	for _, p := range t.Parts {
		if p.Kind == event.PartText && p.Text.Len() > 0 {
			said = append(said, p.Text.String())
		}
	}
	out := "[This is a side conversation about something that was said in another one. A person wrote there:\n" +
		quote(t.Message.Text) + "The answer was:\n" + quote(strings.Join(said, "\n"))
	if sel != nil && sel.Text != "" {
		out += "The person asks about this passage of it:\n" + quote(sel.Text)
	}
	return out + "]\n\n"
}

// quote marks the lines of a text as somebody else's, as far as it is kept.
func quote(text string) string {
	text = validPrefix(strings.TrimRight(text, "\n"), maxBrief)
	return "> " + strings.ReplaceAll(text, "\n", "\n> ") + "\n"
}

// addChat adds a chat, with turns of the place that are stored as its own.
func (s *Session) addChat(ctx context.Context, info event.ChatInfo, by event.Actor, cut place) (id.ID, error) {
	if info.ID.IsNil() {
		info.ID = id.New()
	}
	if info.Origin.Kind == "" {
		info.Origin.Kind = event.OriginUser
	}
	info.Title = clipTitle(info.Title)
	if err := checkAliases(info.Aliases); err != nil {
		return id.Nil, err
	}
	var window []*state.Turn
	if cut.turns > 0 {
		var err error
		if window, err = s.host.turns(ctx, s.id, info.ID, cut.turns, state.DefaultLimits.Turns); err != nil {
			return id.Nil, err
		}
	}
	return info.ID, s.do(ctx, false, func(s *Session) error {
		if s.work.Chat(info.ID) != nil {
			return fmt.Errorf("chat %s: %w", info.ID, ErrExists)
		}
		if len(s.work.Chats) >= MaxChats {
			return fmt.Errorf("%d chats: %w", MaxChats, ErrTooLarge)
		}
		if c := s.work.Chat(cut.chat); cut.turns > 0 && (c == nil || c.Cuts != cut.cuts || !s.host.endsThere(info.ForkEnd)) {
			return fmt.Errorf("the chat it comes from has changed meanwhile: %w", ErrBusy)
		}
		for front, name := range info.Aliases {
			if _, _, taken := s.host.ByAlias(front, name); taken {
				return fmt.Errorf("chat %.80q: %w", name, ErrExists)
			}
		}
		if err := within(s.work.Info.Dirs, info.Dirs); err != nil {
			return err
		}
		info.CreatedAt = s.at
		s.nameOrigin(&info)
		s.emit(info.ID, id.Nil, &event.ChatAdded{Info: info, By: by, Turns: cut.turns})
		s.refill(info.ID, window)
		return nil
	})
}

func (s *Session) refill(chat id.ID, turns []*state.Turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.work.Refill(chat, turns)
	s.frozen.Store(s.work.Freeze()) // there may be one of this position without them
}

// within reports a directory that the session does not work in.
func within(all, dirs []string) error {
	for _, d := range dirs {
		if !slices.Contains(all, d) {
			return fmt.Errorf("%w: %s is none of the session's working directories", ErrInvalid, d)
		}
	}
	return nil
}
