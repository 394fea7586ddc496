package ahp

import (
	"encoding/json"
	"reflect"
	"slices"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
)

func (l *live) chatView(chat id.ID) *chatView {
	if v := l.chats[chat]; v != nil {
		return v
	}
	if c := l.st.Chat(chat); c != nil {
		return l.meet(c)
	}
	return &chatView{} // of a chat that is gone: nobody will look
}

// queued tells of a message that waits. One that goes into the running turn is
// told by settleSteering, as the protocol knows only one of those.
func (l *live) queued(e *event.Event, b *event.MessageQueued) {
	if !b.Steer {
		m := &b.Message
		l.say(e.Chat, l.take("queue:"+m.ID.String()), func(*renderer) any {
			return pendingAction{"chat/pendingMessageSet", kindQueued, messageID(m), message(m)}
		})
	}
}

func (l *live) updated(e *event.Event, b *event.MessageUpdated) {
	c := l.st.Chat(e.Chat)
	if c == nil {
		return
	}
	kind := kindQueued
	if slices.ContainsFunc(c.Steering, func(m event.Message) bool { return m.ID == b.Message.ID }) {
		kind = kindSteering
		if l.chatView(e.Chat).steering != b.Message.ID {
			return
		}
	}
	l.say(e.Chat, l.take("queue:"+b.Message.ID.String()), func(*renderer) any {
		return pendingAction{"chat/pendingMessageSet", kind, messageID(&b.Message), message(&b.Message)}
	})
}

// removed needs the message's name, which the event does not have: clients
// were told it when it was queued.
func (l *live) removed(e *event.Event, b *event.MessageRemoved) {
	name, queued := l.leaving[b.ID]
	if !queued {
		return
	}
	delete(l.leaving, b.ID)
	l.say(e.Chat, l.take("unqueue:"+b.ID.String()), func(*renderer) any {
		return pendingAction{Type: "chat/pendingMessageRemoved", Kind: kindQueued, ID: name}
	})
}

func (l *live) reordered(e *event.Event, b *event.QueueReordered) {
	c := l.st.Chat(e.Chat)
	if c == nil {
		return
	}
	order := make([]string, len(c.Queue))
	for i := range c.Queue {
		order[i] = messageID(&c.Queue[i])
	}
	l.say(e.Chat, l.take("order:"+e.Chat.String()+b.By.Client), func(*renderer) any {
		return map[string]any{"type": "chat/queuedMessagesReordered", "order": order}
	})
}

// settleSteering tells which message waits to go into the running turn.
func (l *live) settleSteering(c *state.Chat) {
	v := l.chatView(c.ID)
	var now id.ID
	var m *event.Message
	if n := len(c.Steering); n > 0 {
		m = &c.Steering[n-1]
		now = m.ID
	}
	if now == v.steering {
		return
	}
	if m != nil {
		l.steeringName[c.ID] = messageID(m)
		l.say(c.ID, l.take("queue:"+now.String()), func(*renderer) any {
			return pendingAction{"chat/pendingMessageSet", kindSteering, messageID(m), message(m)}
		})
	} else {
		name := l.steeringName[c.ID]
		delete(l.steeringName, c.ID)
		l.say(c.ID, l.take("unqueue:"+v.steering.String()), func(*renderer) any {
			return pendingAction{Type: "chat/pendingMessageRemoved", Kind: kindSteering, ID: name}
		})
	}
	v.steering = now
}

// draft is what a person types, in this front's form.
func draft(d *event.DraftChanged) json.RawMessage {
	if d == nil {
		return nil
	}
	if d.By.Front == front && len(d.Rich) > 0 {
		return d.Rich
	}
	return encode(messageShape{Text: d.Text, Origin: kindOnly{"user"}})
}

// afterSession says what changed in the session itself and in its chats.
func (l *live) afterSession(e *event.Event) {
	switch b := e.Body.(type) {
	case *event.SessionUpdated:
		l.sessionUpdated(b)
	case *event.ChatAdded:
		if c := l.st.Chat(b.Info.ID); c != nil {
			h := l.front.handovers.of(c.ID)
			h.await(l.front.ctx)
			l.learnAgent()
			l.meet(c)
			l.adopt(h, c)
			l.say(id.Nil, nil, func(r *renderer) any {
				return map[string]any{"type": "session/chatAdded", "summary": r.head(c, l.chats[c.ID].read).summary()}
			})
		}
	case *event.ChatRemoved:
		l.chatRemoved(e, b)
	case *event.ChatTruncated:
		l.truncated(e, b)
	case *event.ChatsReordered:
		l.chatsReordered(nil)
	case *event.ChatUpdated:
		l.chatUpdated(e, b)
	case *event.DraftChanged:
		c := l.st.Chat(e.Chat)
		if c == nil {
			return
		}
		l.say(e.Chat, l.take("draft:"+e.Chat.String()+b.By.Client), func(*renderer) any {
			a := map[string]any{"type": "chat/draftChanged"}
			if d := draft(c.Draft); d != nil {
				a["draft"] = d
			}
			return a
		})
	case *event.ClientToolsSet:
		if b.Client.Front == front {
			return // said when the client announced itself
		}
		if len(b.Tools) == 0 {
			l.say(id.Nil, nil, func(*renderer) any {
				return map[string]any{"type": "session/activeClientRemoved", "clientId": clientName(b.Client)}
			})
			return
		}
		l.say(id.Nil, nil, func(*renderer) any {
			return map[string]any{"type": "session/activeClientSet", "activeClient": foreignClient(b)}
		})
	}
}

// foreignClient shows a client of another front that offers tools.
func foreignClient(b *event.ClientToolsSet) json.RawMessage {
	type tool struct {
		Name        string      `json:"name"`
		Description string      `json:"description,omitempty"`
		InputSchema *toolSchema `json:"inputSchema,omitempty"`
	}
	tools := make([]tool, len(b.Tools))
	for i, t := range b.Tools {
		tools[i] = tool{t.Name, t.Description, schemaOfTool(t.Schema)}
	}
	return encode(struct {
		ClientID    string `json:"clientId"`
		DisplayName string `json:"displayName,omitempty"`
		Tools       []tool `json:"tools"`
	}{clientName(b.Client), b.Client.Name, tools})
}

// schemaOfTool is what the protocol's shape has room for of a JSON Schema; nil
// when there is none.
func schemaOfTool(raw json.RawMessage) *toolSchema {
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) != nil || all == nil {
		return nil
	}
	s := &toolSchema{Type: "object"}
	_ = json.Unmarshal(all["required"], &s.Required) // absent or of another kind: none
	var properties map[string]json.RawMessage
	_ = json.Unmarshal(all["properties"], &properties)
	for name, p := range properties {
		var o map[string]json.RawMessage
		if json.Unmarshal(p, &o) != nil || o == nil {
			continue // true and false are schemas too, but no objects
		}
		if s.Properties == nil {
			s.Properties = map[string]json.RawMessage{}
		}
		s.Properties[name] = p
	}
	return s
}

// activeClients are all clients of a session, as the protocol shows them.
func (l *live) activeClients() []json.RawMessage {
	out := make([]json.RawMessage, 0, len(l.clients))
	for i := range l.st.Tools {
		if b := &l.st.Tools[i]; b.Client.Front != front {
			out = append(out, foreignClient(b))
		}
	}
	for _, c := range l.clients {
		out = append(out, c.raw)
	}
	return out
}

func (l *live) sessionUpdated(b *event.SessionUpdated) {
	who := b.By.Client
	if b.Title != nil {
		o := l.take("title:" + who)
		l.say(id.Nil, o, func(r *renderer) any {
			return map[string]any{"type": "session/titleChanged", "title": l.st.Info.Title}
		})
		// A client may rename by the default chat's channel: its own action
		// comes back there.
		if o := l.take("chattitle:" + l.st.Default.String() + who); o != nil {
			l.echoTitle(l.st.Default, o, l.st.Info.Title)
		}
	}
	if b.Unread != nil {
		l.say(id.Nil, l.take("read:"+who), func(*renderer) any {
			return map[string]any{"type": "session/isReadChanged", "isRead": !*b.Unread}
		})
	}
	if b.Archived != nil {
		l.say(id.Nil, l.take("archived:"+who), func(*renderer) any {
			return map[string]any{"type": "session/isArchivedChanged", "isArchived": *b.Archived}
		})
	}
	if b.Dirs != nil {
		l.dirsChanged(l.take("dirs:" + who))
	}
	if b.Meta != nil {
		l.sayMeta() // which has the artifacts
	}
	if b.Settings != nil {
		changes, whole := configChanges(l.config, configValues(&l.st.Info))
		l.say(id.Nil, l.take("config:"+who), func(*renderer) any {
			a := map[string]any{"type": "session/configChanged", "config": changes}
			if whole {
				a["replace"] = true
			}
			return a
		})
	}
}

func (l *live) echoTitle(chat id.ID, o *origin, title string) {
	l.say(chat, o, func(*renderer) any { return map[string]any{"type": "session/titleChanged", "title": title} })
}

func (l *live) chatUpdated(e *event.Event, b *event.ChatUpdated) {
	v, who := l.chatView(e.Chat), b.By.Client
	if b.Dirs != nil {
		l.chatDirsChanged(e.Chat, l.chatDirs, b.Dirs, who)
	}
	if b.Title != nil {
		if o := l.take("chattitle:" + e.Chat.String() + who); o != nil {
			l.echoTitle(e.Chat, o, *b.Title)
		}
	}
	if b.Unread != nil {
		if read := !*b.Unread; read != v.read {
			v.read = read
			l.say(e.Chat, l.take("chatread:"+e.Chat.String()+who), func(*renderer) any {
				return map[string]any{"type": "chat/isReadChanged", "isRead": read}
			})
		}
	}
	if b.Archived != nil {
		l.say(e.Chat, l.take("chatarchived:"+e.Chat.String()+who), func(*renderer) any {
			return map[string]any{"type": "chat/isArchivedChanged", "isArchived": *b.Archived}
		})
	}
}

// settle tells what follows from an event for lists: the head of its chat, and
// the session's read mark, which the end of a turn takes away.
func (l *live) settle(e *event.Event) {
	l.settleMaking()
	if read := !l.st.Info.Unread; read != l.read {
		l.read = read
		if _, told := e.Body.(*event.SessionUpdated); !told {
			l.say(id.Nil, nil, func(*renderer) any { return map[string]any{"type": "session/isReadChanged", "isRead": read} })
		}
	}
	if _, ok := e.Body.(*event.SessionUpdated); ok {
		l.settleChat(l.st.DefaultChat()) // has the session's title
	}
	if !e.Chat.IsNil() {
		l.settleChat(l.st.Chat(e.Chat))
	}
	if _, ok := e.Body.(*event.ChatRemoved); ok {
		l.settleActivity() // another chat may be the default one
	}
	switch e.Body.(type) {
	case *event.TurnStarted, *event.TurnResumed, *event.TurnEnded, *event.UsageReported, *event.ChatTruncated, *event.SessionUpdated, *event.ChatRemoved:
		l.sayMeta() // which names the model
	}
	if i, ok := e.Body.(*event.InteractionOpened); ok && i.Interaction.Chat != e.Chat {
		l.settleChat(l.st.Chat(i.Interaction.Chat))
	}
}

// settleMaking tells that there is an agent for the session, or that there
// cannot be.
func (l *live) settleMaking() {
	now, failed := lifecycle(&l.st.Info)
	if now == l.made {
		return
	}
	l.made = now
	switch now {
	case "ready":
		l.say(id.Nil, nil, func(*renderer) any { return map[string]any{"type": "session/ready"} })
	case "failed":
		l.say(id.Nil, nil, func(*renderer) any { return map[string]any{"type": "session/creationFailed", "error": failed} })
	}
}

func (l *live) settleChat(c *state.Chat) {
	if c == nil {
		return
	}
	l.settleSteering(c)
	v := l.chatView(c.ID)
	was, now := v.head, l.plain().head(c, v.read)
	if reflect.DeepEqual(was, now) {
		return
	}
	v.head = now
	if was.Activity != now.Activity {
		activity := map[string]any{"type": "chat/activityChanged"}
		if now.Activity != "" {
			activity["activity"] = now.Activity
		}
		l.say(c.ID, nil, func(*renderer) any { return activity })
		l.settleActivity()
	}
	changes := map[string]any{}
	if was.Title != now.Title {
		changes["title"] = now.Title
	}
	if was.Status != now.Status {
		changes["status"] = now.Status
	}
	if was.ModifiedAt != now.ModifiedAt {
		changes["modifiedAt"] = now.ModifiedAt
	}
	if was.Activity != now.Activity {
		changes["activity"] = now.Activity
	}
	if was.Movable != now.Movable {
		changes["movable"] = now.Movable
		l.say(c.ID, nil, func(*renderer) any { return map[string]any{"type": "chat/movableChanged", "movable": now.Movable} })
	}
	if !slices.Equal(was.WorkingDirectories, now.WorkingDirectories) {
		changes["workingDirectories"] = now.WorkingDirectories
	}
	if len(changes) == 0 {
		return
	}
	l.say(id.Nil, nil, func(r *renderer) any {
		return map[string]any{"type": "session/chatUpdated", "chat": r.chatURI(c.ID), "changes": changes}
	})
}
