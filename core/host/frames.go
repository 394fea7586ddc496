package host

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
)

// receive takes a batch of an agent's frames, or the end of its conversation.
func (s *Session) receive(in received) {
	r := s.chats[in.conv.chat]
	if r == nil || r.conv != in.conv {
		return // an older conversation: its frames are void
	}
	for i := range in.frames {
		s.frame(r, &in.frames[i])
		if s.w.full() {
			s.commit()
		}
	}
	if in.err != nil && r.conv == in.conv {
		s.crashed(r, in.err)
	}
}

// frame turns one agent frame into events.
func (s *Session) frame(root *run, f *agentFrame) {
	switch f.Kind { // what is not of a turn
	case agent.ConversationID:
		if c := s.work.Chat(root.chat); c != nil && c.Conversation != f.Text {
			s.bury(c.Conversation)
			s.emit(root.chat, id.Nil, &event.ChatUpdated{By: event.Actor{Front: "agent"}, Conversation: &f.Text})
		}
		return
	case agent.Title:
		s.entitle(root, clipTitle(f.Text), event.Actor{Front: "agent"})
		return
	case agent.TurnEnd:
		s.turnEnd(root, f)
		return
	case agent.Background:
		root.background, root.since = f.Text != "", time.Now()
		s.goesOn(root, f.Work)
		return
	case agent.Offers:
		if f.Offer != nil {
			s.host.extended.Offered(s.id, f.Offer)
		}
		return
	case agent.Servers:
		s.servers(root, f.Servers)
		return
	case agent.TurnStart:
		if root.turn.IsNil() && !root.draining {
			s.agentTurn(root, f.Text)
		}
		return
	}
	r := root
	if f.Child != "" {
		r = root.children[f.Child]
	}
	if f.Kind == agent.ChildStart && !root.turn.IsNil() && !root.draining && root.message.Command == "" {
		s.childStart(root, f)
		return
	}
	if r == nil || r.turn.IsNil() || root.draining || root.message.Command != "" {
		s.late++
		if f.Request != "" && !root.draining { // an agent must not wait for ever
			root.answer(f.Request, event.Resolution{Outcome: event.Cancelled, By: event.Gateway})
		}
		return
	}
	switch f.Kind {
	case agent.TextDelta:
		r.text(f, event.PartText)
	case agent.ReasoningDelta:
		r.text(f, event.PartReasoning)
	case agent.PartDone:
		if p := r.parts[f.Part]; p != nil && p == r.current {
			r.closeText()
		}
	case agent.ToolStart, agent.ToolInput, agent.Permission, agent.ToolRun, agent.ToolOutput, agent.ToolEnd, agent.ClientCall:
		s.toolFrame(r, f)
	case agent.Progress:
		s.progress(r, f)
	case agent.Ask:
		s.ask(r, f)
	case agent.Withdrawn:
		for ix, q := range r.requests {
			if q.id == f.Request {
				if i := s.work.Interaction(ix); i != nil {
					s.settle(i, event.Resolution{Outcome: event.Cancelled, By: event.Actor{Front: "agent"}})
				}
			}
		}
	case agent.ChildEnd:
		status := event.TurnComplete
		if f.Error != nil {
			status = event.TurnFailed
		}
		s.end(r, status, f.Error, event.Actor{Front: "agent"})
		delete(root.children, f.Child)
	case agent.Plan:
		r.emit(&event.PlanUpdated{Items: f.Plan})
	case agent.Usage:
		if f.Usage != nil {
			r.emit(&event.UsageReported{Usage: *f.Usage})
		}
	case agent.Context:
		if f.Context != nil {
			r.emit(f.Context)
		}
	case agent.Notice:
		if f.Notice != nil {
			r.whole(event.Part{Kind: event.PartNotice, Notice: f.Notice})
		}
	case agent.Image:
		if f.Image != nil {
			r.whole(event.Part{Kind: event.PartImage, Image: f.Image})
		}
	case agent.Steered:
		s.steered(r, f.Message)
	}
}

// text appends to a text or reasoning part, starting it with its first piece.
func (r *run) text(f *agentFrame, kind event.PartKind) {
	p := r.parts[f.Part]
	if p == nil || p != r.current || p.kind != kind {
		r.closeText()
		p = &openPart{id: id.New(), key: f.Part, kind: kind}
		r.parts[f.Part], r.current = p, p
		r.emit(&event.PartStarted{Part: event.Part{ID: p.id, Kind: kind, StartedAt: r.s.at}})
	}
	text := f.Text
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	if room := MaxPartText - p.size; len(text) > room {
		text, p.cut = validPrefix(text, room), true
		p.size = MaxPartText // what follows has no room either
	} else {
		p.size += len(text)
	}
	if text == "" {
		return
	}
	r.s.emit(r.chat, r.turn, &event.PartDelta{Part: p.id, Text: text})
}

// closeText ends the open text or reasoning part.
func (r *run) closeText() {
	p := r.current
	if p == nil {
		return
	}
	r.current = nil
	delete(r.parts, p.key)
	if part := r.s.part(r, p.id); part != nil && !part.Ended() {
		r.emit(&event.PartEnded{Part: p.id, Text: part.Text.String()})
	}
	if p.cut {
		r.whole(event.Part{Kind: event.PartNotice, Notice: &event.Notice{Level: "warning", Code: "truncated",
			Text: "the rest of this text was too long to keep"}})
	}
}

// whole appends a part that comes complete.
func (r *run) whole(p event.Part) {
	r.closeText()
	p.ID, p.StartedAt, p.EndedAt = id.New(), r.s.at, r.s.at
	r.emit(&event.PartStarted{Part: p})
}

func (s *Session) part(r *run, p id.ID) *event.Part {
	if c := s.work.Chat(r.chat); c != nil && c.Active != nil {
		return c.Active.Part(p)
	}
	return nil
}

// agentTurn opens a turn that the agent began by itself.
func (s *Session) agentTurn(r *run, why string) {
	if s.host.isClosing() {
		return
	}
	s.start(r, event.Message{ID: id.New(), At: s.at, Text: why, By: event.Actor{Front: "agent"}, System: true}, false)
}

// turnEnd is the agent's end of its turn: of the running one, or of one that
// the gateway ended before.
func (s *Session) turnEnd(r *run, f *agentFrame) {
	if r.draining {
		if f.Turn != "" && f.Turn != r.drained.String() {
			s.late++
			return
		}
		s.pointed(r, f.Point)
		s.drained(r)
		return
	}
	if r.turn.IsNil() || r.message.Command != "" || f.Turn != "" && f.Turn != r.turn.String() {
		s.late++
		return
	}
	r.closeText()
	r.point = s.point(r, f.Point)
	status := f.Status
	switch status {
	case event.TurnComplete, event.TurnCancelled, event.TurnFailed:
	default:
		status = event.TurnComplete
	}
	if status == event.TurnFailed && f.Error == nil {
		f.Error = &event.Error{Code: event.CodeAgentFailed, Message: "the agent failed without saying why"}
	}
	s.end(r, status, f.Error, event.Actor{Front: "agent"})
}

// point is the agent's name of a place in the chat's conversation; nil for none.
func (s *Session) point(r *run, at string) *event.Point {
	c := s.work.Chat(r.chat)
	if at == "" || len(at) > MaxName || c == nil || c.Conversation == "" {
		return nil
	}
	return &event.Point{Conversation: c.Conversation, At: at}
}

// pointed notes where the agent ended a turn that the gateway had ended before.
func (s *Session) pointed(r *run, at string) {
	point := s.point(r, at)
	if point == nil {
		return
	}
	if t := s.work.Chat(r.chat).Turn(r.drained); t == nil || t.Status == event.TurnRunning {
		return // it was resumed meanwhile
	}
	s.emit(r.chat, id.Nil, &event.TurnPointed{Turn: r.drained, Point: *point})
	s.keepTurn(r.chat, s.work.Chat(r.chat).Turn(r.drained))
}

// childStart makes a subagent's chat and opens its turn.
func (s *Session) childStart(root *run, f *agentFrame) {
	if f.Child == "" || root.children[f.Child] != nil || len(s.work.Chats) >= MaxChats {
		s.log.Warn("A subagent cannot be shown", "child", f.Child, "chats", len(s.work.Chats))
		return
	}
	root.closeText()
	info := event.ChatInfo{ID: id.New(), CreatedAt: s.at, Title: clipTitle(f.Name), Agent: f.Name,
		Origin: event.Origin{Kind: event.OriginSubagent, Chat: root.chat, Turn: root.turn}}
	c := root.calls[f.Call]
	if c != nil {
		info.Origin.Call = c.id
		if !c.worker.IsNil() && s.work.Chat(c.worker) == nil {
			info.ID = c.worker
		}
	}
	s.nameOrigin(&info)
	s.emit(info.ID, id.Nil, &event.ChatAdded{Info: info, By: event.Actor{Front: "agent"}})
	if c != nil {
		root.emit(&event.ToolLinked{Part: c.part, Child: info.ID})
	}
	child := s.chatRun(info.ID)
	child.child, child.parent = f.Child, root
	if root.children == nil {
		root.children = map[string]*run{}
	}
	root.children[f.Child] = child
	s.start(child, event.Message{ID: id.New(), At: s.at, Text: f.Text, By: event.Actor{Front: "agent"}, System: true}, false)
}

// steered: the agent took a steering message into the running turn.
func (s *Session) steered(r *run, message string) {
	c := s.work.Chat(r.chat)
	for _, m := range c.Steering {
		if m.ID.String() != message {
			continue
		}
		m.Turn = r.turn
		s.emit(r.chat, id.Nil, &event.MessageRemoved{ID: m.ID, Why: event.RemovedSteered, By: event.Actor{Front: "agent"}, Turn: r.turn})
		r.whole(event.Part{Kind: event.PartMessage, Message: &m})
		return
	}
}
