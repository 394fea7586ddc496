package cognitio

import (
	"sync"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
	"github.com/polyhost/polyhost/transports/outbox"
)

// projection turns the events of one live session into frames.
type projection struct {
	f       *server
	session *host.Session

	// mu lets the timer that shows a call's output in beside Project.
	mu    sync.Mutex
	from  *origin
	chats map[id.ID]*liveChat
	asked map[id.ID]ask
	// waiting are the names of queued messages: a removal does not say them.
	waiting map[id.ID]string
	unsent  []outbox.Frame // of the deltas under way
	timer   *time.Timer
	armed   bool // the timer will fire
	closed  bool
}

// liveChat is what a projection knows of a chat.
type liveChat struct {
	view view
	turn *liveTurn
	// spawned is how the chat was announced as a subagent, nil if it is none.
	spawned *subagentEvent
}

// liveTurn is a running turn.
type liveTurn struct {
	state *state.Turn
	view  view
	fold  folder
	parts map[id.ID]*livePart
	// users are the messages it answers: the one that opened it and those
	// that the agent took in.
	users []string
}

// livePart is a part of a running turn.
type livePart struct {
	step   *step
	middle []byte // of its delta frames

	// For calls: what was shown last, and the output since.
	call   toolPart
	output event.Text
	shown  time.Time
	stale  bool
}

// project begins the projection of a session at a state.
func (f *server) project(s *host.Session, st *state.State) *projection {
	p := &projection{f: f, session: s, from: f.originOf(&st.Info), chats: map[id.ID]*liveChat{}, asked: map[id.ID]ask{}, waiting: map[id.ID]string{}}
	for _, c := range st.Chats {
		p.chats[c.ID] = &liveChat{view: f.viewOf(chatOf(st, c))}
		for _, q := range [][]event.Message{c.Queue, c.Steering} {
			for i := range q {
				p.waiting[q[i].ID] = userMessageID(&q[i])
			}
		}
	}
	for _, c := range st.Chats {
		if c.Active == nil {
			continue
		}
		p.takeUp(st, p.chats[c.ID], c.Active)
	}
	for _, i := range st.Open {
		p.asked[i.ID] = ask{i, rulesOf(&st.Info).callback}
	}
	return p
}

// takeUp begins in the middle of a turn.
func (p *projection) takeUp(st *state.State, c *liveChat, t *state.Turn) {
	c.begin(t)
	for _, part := range t.Parts {
		c.turn.add(part)
		if part.Tool != nil && !part.Tool.Child.IsNil() {
			p.spawn(st, c, part)
		}
	}
}

// begin opens a turn.
func (c *liveChat) begin(t *state.Turn) {
	c.turn = &liveTurn{state: t, view: c.view.of(&t.Message), parts: map[id.ID]*livePart{}, users: []string{userMessageID(&t.Message)}}
	c.turn.fold.begin(t)
}

// add places a part and returns the step that it closed.
func (t *liveTurn) add(p *event.Part) (closed *step) {
	closed = t.fold.add(p)
	if p.Kind == event.PartMessage {
		if p.Message != nil {
			t.users = append(t.users, userMessageID(p.Message))
		}
		return closed
	}
	s := t.fold.cur
	t.parts[p.ID] = &livePart{step: s, middle: deltaMiddle(t.view.session, s.id, p.ID.Cognitio(prefixPart))}
	return closed
}

// Deltas tells everybody who listens of pieces of text and output. Pieces of
// text go out together.
func (p *projection) Deltas(events []*event.Event, st *state.State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range events {
		p.delta(e, e.Body.(*event.PartDelta), st)
	}
	p.flush()
}

// Project tells everybody who listens of any other event.
func (p *projection) Project(e *event.Event, st *state.State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.about(e, st) {
		return
	}
	c, chat := p.chats[e.Chat], st.Chat(e.Chat)
	if c == nil || chat == nil {
		return
	}
	if chat.Active != nil && c.turn != nil && chat.Active.ID == c.turn.state.ID {
		c.turn.state = chat.Active
	}
	switch b := e.Body.(type) {
	case *event.MessageQueued:
		p.waiting[b.Message.ID] = userMessageID(&b.Message)
		p.userMessage(c, &b.Message, false)
		p.updated(st, chat)
	case *event.MessageUpdated:
		p.userMessage(c, &b.Message, false)
	case *event.MessageRemoved:
		p.removed(c, b)
	case *event.PlanUpdated:
		p.send("todo.updated", todosEvent{c.view.session, todosOf(b.Items)})
	case *event.TurnStarted:
		p.turnStarted(c, chat, st, b)
	case *event.ChatTruncated:
		p.truncated(c, chat, st, b)
	case *event.TurnResumed:
		p.turnResumed(c, chat, st)
	case *event.InteractionOpened:
		p.opened(c, &b.Interaction, st)
	case *event.InteractionResolved:
		p.resolved(c, b)
	case *event.TurnEnded:
		if c.turn != nil && c.turn.state.ID == e.Turn {
			p.turnEnded(c, chat, st, b)
		}
	default:
		if c.turn != nil && c.turn.state.ID == e.Turn {
			p.partEvent(c, e, st)
		}
	}
}

// about handles what concerns the session or a chat as a whole.
func (p *projection) about(e *event.Event, st *state.State) bool {
	switch b := e.Body.(type) {
	case *event.SessionCreated:
		p.chats[b.Default] = &liveChat{view: p.f.viewOf(chatOf(st, st.DefaultChat()))}
	case *event.SessionUpdated:
		if b.Dirs != nil {
			p.from = p.f.originOf(&st.Info)
		}
		for _, c := range st.Chats {
			if lc := p.chats[c.ID]; lc != nil {
				lc.view = p.f.viewOf(chatOf(st, c))
			}
		}
		if b.Title != nil || b.Settings != nil || b.Dirs != nil || b.Archived != nil || b.Closed != nil || b.Meta != nil {
			p.updated(st, st.DefaultChat())
		}
	case *event.ChatAdded:
		chat := st.Chat(b.Info.ID)
		if chat == nil {
			return true
		}
		c := chatOf(st, chat)
		p.chats[b.Info.ID] = &liveChat{view: p.f.viewOf(c)}
		info := p.f.session(c)
		p.send("session.created", sessionEvent{info.ID, info})
	case *event.ChatUpdated:
		if b.Title != nil || b.Archived != nil {
			p.updated(st, st.Chat(e.Chat))
		}
	case *event.ChatRemoved:
		if lc := p.chats[e.Chat]; lc != nil {
			delete(p.chats, e.Chat)
			chat := event.ChatInfo{ID: e.Chat, CreatedAt: e.Chat.Time(), Origin: event.Origin{Kind: event.OriginUser}}
			info := p.f.session(chatAt{info: &st.Info, main: st.Default, chat: &chat, modified: e.At})
			p.send("session.deleted", sessionEvent{info.ID, info})
		}
	default:
		return false
	}
	return true
}

// Close ends the projection.
func (p *projection) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.timer != nil {
		p.timer.Stop()
	}
}

func (p *projection) send(kind string, properties any) {
	p.flush()
	p.f.send(p.from, kind, properties)
}

// flush sends the pieces of text that were gathered.
func (p *projection) flush() {
	if len(p.unsent) > 0 {
		p.f.streams.publish(p.from, p.unsent...)
		clear(p.unsent)
		p.unsent = p.unsent[:0]
	}
}

// updated shows a chat's session anew.
func (p *projection) updated(st *state.State, chat *state.Chat) {
	if chat == nil || !p.f.streams.heard() {
		return
	}
	info := p.f.session(chatOf(st, chat))
	p.send("session.updated", sessionEvent{info.ID, info})
}

type todosEvent struct {
	SessionID string `json:"sessionID"`
	Todos     []todo `json:"todos"`
}

// todosOf is a plan in this protocol's words.
func todosOf(items []event.PlanItem) []todo {
	out := make([]todo, 0, len(items))
	for _, i := range items {
		t := todo{Content: i.Text, Status: "pending", Priority: "medium"}
		switch i.Status {
		case event.PlanActive:
			t.Status = "in_progress"
		case event.PlanDone:
			t.Status = "completed"
		}
		switch i.Priority {
		case "high", "low":
			t.Priority = i.Priority
		}
		out = append(out, t)
	}
	return out
}
