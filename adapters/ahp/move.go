package ahp

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
	"github.com/polyhost/polyhost/transports/jsonrpc"
)

// moveChat moves a chat to another place of its session, to another session or
// to a new one.
func (c *conn) moveChat(ctx context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		Destination json.RawMessage `json:"destination" jsonx:"required"`
	}
	_, at, err := c.placeOf(ctx, r, true)
	if err != nil {
		return nil, err
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	var d struct {
		Kind    string  `json:"kind" jsonx:"required"`
		Session string  `json:"session"`
		After   *string `json:"after"`
	}
	if err := decode(p.Destination, &d, "destination"); err != nil {
		return nil, invalid("%s", refusalText(err))
	}
	m := host.Move{Chat: at.chat, By: c.actor()}
	switch d.Kind {
	case "session":
		to, err := c.front.find(ctx, d.Session)
		if err != nil || !to.chat.IsNil() {
			return nil, invalid("destination.session: no such session: %.200s", d.Session)
		}
		m.To = to.session
		if d.After != nil {
			after, err := c.front.find(ctx, *d.After)
			if err != nil || after.chat.IsNil() || after.session != m.To {
				return nil, invalid("destination.after: no chat of that session: %.200s", *d.After)
			}
			if after.chat == at.chat {
				return nil, invalid("destination.after: a chat does not follow itself")
			}
			m.After = after.chat
		}
	case "newSession":
	default:
		return nil, invalid("destination.kind: want session or newSession")
	}
	from, err := c.front.project(ctx, at.session)
	if err != nil {
		return nil, err
	}
	if m.To == at.session {
		if _, err := from.session().MoveChat(ctx, m); err != nil {
			return nil, err
		}
		from.catchUp(ctx, from.session().State().Seq)
		return map[string]any{"session": d.Session}, nil
	}
	to, err := c.moveAway(ctx, from, m)
	if err != nil {
		return nil, err
	}
	sum, ok := c.front.host.Summary(to)
	if !ok {
		return nil, sessionNotFound(d.Session)
	}
	if d.Session == "" {
		d.Session = c.spelledFor(&sum)
	}
	return map[string]any{"session": d.Session}, nil
}

// moveAway moves a chat to another session, and who watches it with it. Both
// sessions are projected, so that one hands over what the other takes.
func (c *conn) moveAway(ctx context.Context, from *live, m host.Move) (id.ID, error) {
	f := c.front
	if !m.To.IsNil() {
		if _, err := f.project(ctx, m.To); err != nil {
			return id.Nil, err
		}
	}
	st := from.session().State()
	own := speller{sessionURI(&st.Info)}
	chats := chatAndWorkers(st, m.Chat)
	if !f.handovers.begin(chats) {
		return id.Nil, invalid("channel: the chat is on its way to another session")
	}
	defer f.handovers.end(chats)
	m.Rename = func(info *event.ChatInfo) {
		names := map[string]string{front: own.chat(info.ID, st.Default, info.Aliases)}
		if m.To.IsNil() && info.ID == m.Chat {
			names[keptName] = names[front]
		}
		for front, name := range info.Aliases {
			if names[front] == "" {
				names[front] = name
			}
		}
		info.Aliases = names
		if o := &info.Origin; !o.Chat.IsNil() { // it stays what it is called here
			from := originOf(*o, own, st.Default).Chat
			o.Aliases, o.Role = maps.Clone(o.Aliases), event.RoleOther
			if o.Aliases == nil {
				o.Aliases = map[string]string{}
			}
			o.Aliases[front] = from
		}
	}
	to, err := from.session().MoveChat(ctx, m)
	if err != nil {
		return id.Nil, err
	}
	from.catchUp(ctx, from.session().State().Seq)
	l, err := f.project(ctx, to)
	if err != nil {
		return id.Nil, err
	}
	if m.To.IsNil() {
		l.adoptAll(chats)
	}
	l.catchUp(ctx, l.session().State().Seq)
	return to, nil
}

// chatAndWorkers are a chat and the chats of its subagents.
func chatAndWorkers(st *state.State, chat id.ID) []id.ID {
	out := []id.ID{chat}
	for i := 0; i < len(out); i++ {
		for _, c := range st.Chats {
			if c.Origin.Kind == event.OriginSubagent && c.Origin.Chat == out[i] && !slices.Contains(out, c.ID) {
				out = append(out, c.ID)
			}
		}
	}
	return out
}

// handovers are the chats on their way to another session.
type handovers struct {
	mu    sync.Mutex
	chats map[id.ID]*handover
}

// handover is what one session gives another of a chat: the channels on which
// it is watched, and how clients have it.
type handover struct {
	given   chan struct{} // closed once the old session told that it is gone
	streams map[string]*stream
	view    *chatView
}

func (h *handovers) begin(chats []id.ID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.chats == nil {
		h.chats = map[id.ID]*handover{}
	}
	for _, c := range chats {
		if h.chats[c] != nil {
			return false
		}
	}
	for _, c := range chats {
		h.chats[c] = &handover{given: make(chan struct{})}
	}
	return true
}

func (h *handovers) end(chats []id.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range chats {
		delete(h.chats, c)
	}
}

// of is the handover of a chat, nil for none.
func (h *handovers) of(chat id.ID) *handover {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.chats[chat]
}

// await waits until the old session has told that the chat is gone, within a
// bound: the order in which clients hear of a move. The old session waits for
// nobody.
func (h *handover) await(ctx context.Context) {
	if h == nil {
		return
	}
	t := time.NewTimer(handoverWithin)
	defer t.Stop()
	select {
	case <-h.given:
	case <-t.C:
	case <-ctx.Done():
	}
}

// handOver gives away the channels of a chat; the caller holds mu.
func (l *live) handOver(h *handover, chat id.ID, v *chatView) {
	h.streams, h.view = map[string]*stream{}, v
	for uri, s := range l.open {
		if s.chat == chat {
			h.streams[uri] = s
			delete(l.open, uri)
		}
	}
	delete(l.steeringName, chat)
	close(h.given)
}

// adoptAll takes over chats that were in the session before it was projected.
func (l *live) adoptAll(chats []id.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, chat := range chats {
		h := l.front.handovers.of(chat)
		h.await(l.front.ctx)
		if c := l.st.Chat(chat); c != nil {
			l.adopt(h, c)
		}
	}
}

// adopt goes on with the channels of a chat that came from another session, and
// tells what is different of it here. The caller holds mu.
func (l *live) adopt(h *handover, c *state.Chat) {
	if h == nil {
		return
	}
	select {
	case <-h.given:
	default:
		return // it took too long; its watchers have to ask again
	}
	for uri, s := range h.streams {
		if c.Active != nil || l.open[uri] != nil || l.gone { // more happened than they were told
			l.front.journal.close(s.ch)
			continue
		}
		s.speller = speller{sessionURI(&l.st.Info)}
		l.open[uri] = s
	}
	h.streams = nil
	if h.view == nil {
		return
	}
	now := l.plain().head(c, l.chatView(c.ID).read)
	if was := h.view.head.Movable; was != now.Movable {
		l.say(c.ID, nil, func(*renderer) any { return map[string]any{"type": "chat/movableChanged", "movable": now.Movable} })
	}
	l.sayChatDirs(c.ID, h.view.head.WorkingDirectories, now.WorkingDirectories, nil)
}

// sayChatDirs tells a chat how its own working directories became others.
func (l *live) sayChatDirs(chat id.ID, was, now []string, o *origin) {
	for _, a := range chatDirActions(was, now) {
		l.say(chat, o, func(*renderer) any { return a })
	}
}

// chatDirActions lead from one list of a chat's directories to another: what is
// not in its place goes, and comes back at the end.
func chatDirActions(was, now []string) (out []directoryAction) {
	was = slices.Clone(was)
	for i := 0; i < len(was); {
		if i < len(now) && was[i] == now[i] {
			i++
			continue
		}
		out = append(out, directoryAction{Type: "chat/workingDirectoryRemoved", Directory: was[i]})
		was = slices.Delete(was, i, i+1)
	}
	for _, d := range now[len(was):] {
		out = append(out, directoryAction{Type: "chat/workingDirectorySet", Directory: d})
	}
	return out
}
