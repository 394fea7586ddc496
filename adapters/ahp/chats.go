package ahp

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
	"github.com/polyhost/polyhost/transports/jsonrpc"
)

// createChat adds a chat to a session: an empty one, one that goes on from a
// turn of another (fork), or one that the agent is told of a turn (sideChat).
func (c *conn) createChat(ctx context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		Chat               string          `json:"chat" jsonx:"required"`
		InitialMessage     json.RawMessage `json:"initialMessage"`
		Source             json.RawMessage `json:"source"`
		WorkingDirectories []string        `json:"workingDirectories"`
	}
	_, at, err := c.placeOf(ctx, r, false)
	if err != nil {
		return nil, err
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	if rest, ok := strings.CutPrefix(p.Chat, chatScheme+":/"); !ok || rest == "" || len(p.Chat) > maxChannelURI {
		return nil, invalid("chat: a chat's name begins with %s:/", chatScheme)
	}
	if _, err := c.front.find(ctx, p.Chat); err == nil {
		return nil, jsonrpc.Errorf(codeAlreadyExists, "the name is taken: %.200s", p.Chat)
	}
	info := event.ChatInfo{Aliases: map[string]string{front: p.Chat}}
	for _, uri := range p.WorkingDirectories {
		dir, err := filePath(uri)
		if err != nil {
			return nil, err
		}
		info.Dirs = append(info.Dirs, dir)
	}
	l, err := c.front.project(ctx, at.session)
	if err != nil {
		return nil, err
	}
	var first *incoming
	if given(p.InitialMessage) {
		if first, err = readMessage(p.InitialMessage); err == nil {
			err = c.front.attachChats(ctx, first)
		}
		if err != nil {
			return nil, invalid("initialMessage: %s", refusalText(err))
		}
	}
	var chat id.ID
	if given(p.Source) {
		chat, err = c.createFrom(ctx, l.session(), p.Source, info)
	} else {
		chat, err = l.session().AddChat(ctx, info, c.actor())
	}
	if err != nil {
		return nil, err
	}
	l.catchUp(ctx, l.session().State().Seq) // who hears the answer may subscribe
	if first == nil {
		return nil, nil
	}
	c.lendTo(l.session())
	_, err = l.session().Prompt(ctx, first.prompt(chat, c.actor()))
	return nil, err
}

// given reports whether an optional value is there.
func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// createFrom adds a chat that comes from a turn of another one of the session.
func (c *conn) createFrom(ctx context.Context, s *host.Session, raw json.RawMessage, info event.ChatInfo) (id.ID, error) {
	var p struct {
		Kind      string `json:"kind" jsonx:"required"`
		Chat      string `json:"chat" jsonx:"required"`
		TurnID    string `json:"turnId" jsonx:"required"`
		Selection *struct {
			Text           string `json:"text" jsonx:"required"`
			ResponsePartID string `json:"responsePartId"`
		} `json:"selection"`
	}
	if err := decode(raw, &p, "source"); err != nil {
		return id.Nil, invalid("%s", refusalText(err))
	}
	if p.Kind != "fork" && p.Kind != "sideChat" {
		return id.Nil, invalid("source.kind: want fork or sideChat")
	}
	from, err := c.front.find(ctx, p.Chat)
	if err != nil || from.chat.IsNil() || from.session != s.ID() {
		return id.Nil, invalid("source.chat: no chat of this session: %.200s", p.Chat)
	}
	f := host.ForkChat{Chat: from.chat, Side: p.Kind == "sideChat", Info: info, By: c.actor()}
	if p.Selection != nil && f.Side {
		if len(p.Selection.Text) > maxSelection {
			return id.Nil, invalid("source.selection.text: longer than %d bytes", maxSelection)
		}
		f.Selection = &event.Selection{Text: p.Selection.Text, Part: clip(p.Selection.ResponsePartID)}
	}
	t, err := findTurn(ctx, s, from.chat, p.TurnID)
	switch {
	case errors.Is(err, host.ErrNotFound):
		return id.Nil, invalid("source.turnId: no turn of that chat: %.200s", p.TurnID)
	case err != nil:
		return id.Nil, err
	case !f.Side && t.Status == event.TurnRunning:
		return id.Nil, jsonrpc.Errorf(codeTurnInProgress, "source.turnId: that turn has not ended")
	}
	f.Turn = t.ID
	return s.ForkChat(ctx, f)
}

// findTurn finds a turn of a chat, finished or running, by its name here.
func findTurn(ctx context.Context, s *host.Session, chat id.ID, name string) (*state.Turn, error) {
	c := s.State().Chat(chat)
	if c == nil {
		return nil, host.ErrNotFound
	}
	if t := activeTurn(c, name); t != nil {
		return t, nil
	}
	for before := c.Count; before > 0; {
		turns, err := s.Turns(ctx, chat, before, snapshotTurns)
		if err != nil {
			return nil, err
		}
		for _, t := range turns {
			if turnID(t) == name {
				return t, nil
			}
		}
		if len(turns) == 0 {
			break
		}
		before = turns[0].Number
	}
	return nil, host.ErrNotFound
}

// disposeChat ends a chat. The last one of a session stays.
func (c *conn) disposeChat(ctx context.Context, r *jsonrpc.Request) (any, error) {
	_, at, err := c.placeOf(ctx, r, true)
	if err != nil {
		return nil, err
	}
	l, err := c.front.project(ctx, at.session)
	if err != nil {
		return nil, err
	}
	err = l.session().RemoveChat(ctx, at.chat, c.actor())
	if errors.Is(err, host.ErrInvalid) {
		return nil, invalid("channel: the last chat goes with its session: dispose that")
	}
	return nil, err
}

// truncate takes the turns after one away, from the chat and from its agent's
// memory.
func (a *action) truncate(ctx context.Context) error {
	var p struct {
		TurnID *string `json:"turnId"`
	}
	if err := decode(a.raw, &p, "action"); err != nil {
		return err
	}
	if p.TurnID == nil || *p.TurnID == "" {
		return refusal("agents cannot go back to before their first message: name the last turn that stays, or make another chat")
	}
	s := a.live.session()
	_, c := a.current()
	if c == nil {
		return errNowhere
	}
	t, err := findTurn(ctx, s, a.place.chat, *p.TurnID)
	switch {
	case errors.Is(err, host.ErrNotFound):
		return refusal("this chat has no such turn")
	case err != nil:
		return err
	case c.Active != nil:
		return host.ErrBusy
	case t.Number == c.Count-1 && c.Failed():
		return refusal("no turn follows that one") // to say it again would take its error from the chat's status
	}
	return a.expect("truncate:"+a.chatKey(), func() error {
		changed, err := s.Truncate(ctx, a.place.chat, t.ID, a.conn.actor())
		if err == nil && !changed {
			return errUnchanged
		}
		return err
	})
}

// truncated says that turns are gone. Who watches from a later turn on than the
// last that stays is given that one first: otherwise it would keep them all.
func (l *live) truncated(e *event.Event, b *event.ChatTruncated) {
	name := b.TurnAliases[front]
	if name == "" {
		name = b.Turn.String()
	}
	o := l.take("truncate:" + e.Chat.String() + b.By.Client)
	var kept []*state.Turn
	for _, s := range l.open {
		if s.chat != e.Chat {
			continue
		}
		if s.first >= b.Turns {
			if kept == nil {
				var err error
				if kept, err = l.sess.Turns(l.front.ctx, e.Chat, b.Turns, snapshotTurns); err != nil {
					l.front.log.Error("The turns that stay cannot be read", "session", l.id.String(), "err", err)
				}
			}
			l.front.journal.publish(s.ch, s.ch.action(encode(loaded(l.renderer(s.speller), e.Chat, kept))), nil)
		}
		l.front.journal.publish(s.ch, s.ch.action(encode(map[string]any{"type": "chat/truncated", "turnId": name})), o)
	}
}

// loaded is the action with older turns.
func loaded(r *renderer, chat id.ID, turns []*state.Turn) any {
	shapes := make([]turnShape, len(turns))
	for i, t := range turns {
		shapes[i] = r.finished(chat, t)
	}
	a := map[string]any{"type": "chat/turnsLoaded", "turns": shapes}
	if cursor := olderThan(turns); cursor != "" {
		a["turnsNextCursor"] = cursor
	}
	return a
}

// chatRemoved tells that a chat is gone. Where it was the default one, its name
// is the next one's from now on: that chat goes under its old name and comes
// back under the new one.
func (l *live) chatRemoved(e *event.Event, b *event.ChatRemoved) {
	v := l.chats[e.Chat]
	delete(l.chats, e.Chat)
	was := l.st.Default
	if !b.Default.IsNil() {
		was = e.Chat
	}
	l.say(id.Nil, nil, func(r *renderer) any {
		return map[string]any{"type": "session/chatRemoved", "chat": r.speller.chat(e.Chat, was, l.removedAliases)}
	})
	if h := l.front.handovers.of(e.Chat); h != nil && !b.To.IsNil() {
		l.handOver(h, e.Chat, v)
	}
	for uri, s := range l.open {
		if s.chat == e.Chat {
			l.front.journal.close(s.ch)
			delete(l.open, uri)
		}
	}
	next := l.st.DefaultChat()
	if b.Default.IsNil() || next == nil {
		return
	}
	l.say(id.Nil, nil, func(r *renderer) any {
		return map[string]any{"type": "session/chatRemoved", "chat": r.speller.chat(next.ID, id.Nil, next.Aliases)}
	})
	v = l.chatView(next.ID)
	moved := v.head.Movable
	v.head = l.plain().head(next, v.read)
	if moved {
		l.say(next.ID, nil, func(*renderer) any { return map[string]any{"type": "chat/movableChanged", "movable": false} })
	}
	l.say(id.Nil, nil, func(r *renderer) any {
		return map[string]any{"type": "session/chatAdded", "summary": r.head(next, v.read).summary()}
	})
	for _, i := range l.st.Open { // they name their chat
		if i.Chat == next.ID && l.plain().needs(i) != nil {
			l.say(id.Nil, nil, func(r *renderer) any {
				return map[string]any{"type": "session/inputNeededSet", "request": r.needs(i)}
			})
		}
	}
	l.chatsReordered(nil)
	l.say(id.Nil, nil, func(r *renderer) any {
		return map[string]any{"type": "session/defaultChatChanged", "defaultChat": r.chatURI(next.ID)}
	})
}

// chatsReordered says the order of all chats.
func (l *live) chatsReordered(o *origin) {
	l.say(id.Nil, o, func(r *renderer) any {
		order := make([]string, len(l.st.Chats))
		for i, c := range l.st.Chats {
			order[i] = r.chatURI(c.ID)
		}
		return map[string]any{"type": "session/chatsReordered", "chats": order}
	})
}
