package cognitio

import (
	"maps"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/state"
)

type messageEvent struct {
	SessionID string `json:"sessionID"`
	Info      any    `json:"info"`
}

type partEvent struct {
	SessionID string `json:"sessionID"`
	Part      any    `json:"part"`
	Time      int64  `json:"time"`
}

type removedEvent struct {
	SessionID string `json:"sessionID"`
	MessageID string `json:"messageID"`
}

type statusEvent struct {
	SessionID string `json:"sessionID"`
	Status    status `json:"status"`
}

type idleEvent struct {
	SessionID string `json:"sessionID"`
}

type errorEvent struct {
	SessionID string     `json:"sessionID"`
	Error     *wireError `json:"error"`
}

type diffEvent struct {
	SessionID string     `json:"sessionID"`
	Diff      []fileDiff `json:"diff"`
}

func (p *projection) sendPart(session string, part any, at time.Time) {
	p.send("message.part.updated", partEvent{session, part, millis(at)})
}

func (p *projection) userMessage(c *liveChat, m *event.Message, synthetic bool) {
	p.send("message.updated", messageEvent{c.view.session, c.view.user(m)})
	for _, part := range c.view.userParts(m, synthetic) {
		p.sendPart(c.view.session, part, m.At)
	}
}

// removed forgets a message that waited, and takes it back if no turn has it.
func (p *projection) removed(c *liveChat, b *event.MessageRemoved) {
	name, ok := p.waiting[b.ID]
	delete(p.waiting, b.ID)
	if ok && (b.Why == event.RemovedDropped || b.Why == event.RemovedByUser) {
		p.send("message.removed", removedEvent{c.view.session, name})
	}
}

func (p *projection) turnStarted(c *liveChat, chat *state.Chat, st *state.State, b *event.TurnStarted) {
	if chat.Active == nil {
		return
	}
	if chat.ID == st.Default {
		p.f.created(chatOf(st, chat), p.from)
	}
	c.begin(chat.Active)
	if !b.FromQueue {
		p.userMessage(c, &b.Message, b.Message.System)
	}
	p.updated(st, chat)
	p.send("session.status", statusEvent{c.view.session, status{"busy"}})
	p.stepStarted(c.turn)
}

// truncated takes back the messages of turns that are gone, oldest first.
func (p *projection) truncated(c *liveChat, chat *state.Chat, st *state.State, b *event.ChatTruncated) {
	for i := range b.Gone {
		for _, name := range messageIDs(&b.Gone[i]) {
			p.send("message.removed", removedEvent{c.view.session, name})
		}
	}
	p.updated(st, chat)
}

// turnResumed begins another answer to the message of a turn that had failed.
func (p *projection) turnResumed(c *liveChat, chat *state.Chat, st *state.State) {
	if chat.Active == nil {
		return
	}
	p.takeUp(st, c, chat.Active)
	p.updated(st, chat)
	p.send("session.status", statusEvent{c.view.session, status{"busy"}})
	p.stepStarted(c.turn)
}

func (p *projection) stepStarted(t *liveTurn) {
	s := t.fold.cur
	p.send("message.updated", messageEvent{t.view.session, t.view.assistant(s)})
	p.sendPart(t.view.session, t.view.stepStart(s), time.UnixMilli(s.start))
}

func (p *projection) stepEnded(t *liveTurn, s *step, info assistantMessage) {
	p.sendPart(t.view.session, t.view.stepFinish(s, info), time.UnixMilli(info.Time.Completed))
	p.send("message.updated", messageEvent{t.view.session, info})
}

// partEvent handles what happens to the parts of a running turn.
func (p *projection) partEvent(c *liveChat, e *event.Event, st *state.State) {
	t := c.turn
	switch b := e.Body.(type) {
	case *event.PartStarted:
		if closed := t.add(&b.Part); closed != nil {
			p.stepEnded(t, closed, t.view.assistant(closed).ended(closed))
			p.stepStarted(t)
		}
		p.show(t, &b.Part, e.At)
		if n := b.Part.Notice; n != nil && n.Code == noticeCompacted {
			p.send("session.compacted", idleEvent{t.view.session})
		}
	case *event.PartEnded:
		p.show(t, t.state.Part(b.Part), e.At)
	case *event.ToolReady:
		p.show(t, t.state.Part(b.Part), e.At)
	case *event.ToolRunning:
		p.show(t, t.state.Part(b.Part), e.At)
	case *event.ToolLinked:
		part := t.state.Part(b.Part)
		p.show(t, part, e.At)
		if ev := p.spawn(st, c, part); ev != nil {
			p.send("subagent.started", ev)
		}
	case *event.ToolEnded:
		part := t.state.Part(b.Part)
		p.show(t, part, e.At)
		if part != nil && part.Tool != nil && part.Tool.Status == event.CallDone {
			for _, edit := range part.Tool.Edits {
				p.send("file.edited", fileEvent{edit.Path})
			}
		}
	}
}

// noticeCompacted is the code of the notice that an agent shortened its context.
const noticeCompacted = "compacted"

type fileEvent struct {
	File string `json:"file"`
}

// show sends a part as it is now.
func (p *projection) show(t *liveTurn, part *event.Part, at time.Time) {
	if part == nil {
		return
	}
	lp := t.parts[part.ID]
	if lp == nil || !p.f.streams.heard() && part.Tool == nil {
		return
	}
	wire := t.view.part(lp.step, part)
	if call, ok := wire.(toolPart); ok {
		lp.call, lp.output, lp.stale, lp.shown = call, event.Text{}, false, at
	}
	p.sendPart(t.view.session, wire, at)
}

// delta is the hot path.
func (p *projection) delta(e *event.Event, d *event.PartDelta, st *state.State) {
	c := p.chats[e.Chat]
	if c == nil || c.turn == nil || d.Field == event.FieldInput {
		return
	}
	lp := c.turn.parts[d.Part]
	if lp == nil {
		return
	}
	if d.Field == event.FieldText {
		if p.f.streams.heard() {
			p.unsent = append(p.unsent, p.f.delta(lp.middle, d.Text))
		}
		return
	}
	chat := st.Chat(e.Chat)
	if chat == nil || chat.Active == nil {
		return
	}
	if part := chat.Active.Part(d.Part); part != nil && part.Tool != nil {
		lp.output, lp.stale = part.Tool.Output, true
		if wait := outputEvery - e.At.Sub(lp.shown); wait > 0 {
			p.showLater(wait)
			return
		}
		p.showOutput(c.turn, lp, e.At)
	}
}

// showOutput sends a running call with its newest output. This protocol has no
// delta for it, so the end of the output is sent again, not too often.
func (p *projection) showOutput(t *liveTurn, lp *livePart, at time.Time) {
	lp.stale, lp.shown = false, at
	call := lp.call
	call.State.Metadata = maps.Clone(call.State.Metadata)
	if call.State.Metadata == nil {
		call.State.Metadata = map[string]any{}
	}
	call.State.Metadata["output"] = tail(lp.output)
	p.sendPart(t.view.session, call, at)
}

// showLater makes sure that output which came too soon after the last is
// shown even if no more follows.
func (p *projection) showLater(wait time.Duration) {
	if p.timer == nil {
		p.timer = time.AfterFunc(wait, p.showStale)
	} else if !p.armed {
		p.timer.Reset(wait)
	}
	p.armed = true
}

func (p *projection) showStale() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = false
	if p.closed {
		return
	}
	now := time.Now()
	for _, c := range p.chats {
		if c.turn == nil {
			continue
		}
		for _, lp := range c.turn.parts {
			if lp.stale {
				p.showOutput(c.turn, lp, now)
			}
		}
	}
}

// turnEnded closes the last step and says how the turn went. The result comes
// before idle, and idle only when nothing waits.
func (p *projection) turnEnded(c *liveChat, chat *state.Chat, st *state.State, b *event.TurnEnded) {
	t := c.turn
	c.turn = nil
	ended := *t.state
	ended.Duration = b.Duration
	s := t.fold.cur
	used := b.Usage
	if _, failed := t.state.Again(); failed != nil {
		used = used.Since(failed.Notice.Ended.Usage)
	}
	info := t.view.assistant(s).last(turnEnd(&ended), b.Status, b.Error, used)
	if info.Error != nil {
		p.send("session.error", errorEvent{t.view.session, info.Error})
	}
	p.stepEnded(t, s, info)
	p.updated(st, chat)
	if diff := diffOf(t.view.dir, t.state.Parts); len(diff) > 0 {
		p.send("session.diff", diffEvent{t.view.session, diff})
	}
	text := t.finalText()
	for _, user := range t.users {
		p.send("session.result", t.result(user, s, info, text))
	}
	if c.spawned != nil {
		p.send("subagent.stopped", c.spawned.stopped(b.Status, text, info.Error))
	}
	if len(chat.Queue) == 0 {
		p.send("session.status", statusEvent{t.view.session, status{"idle"}})
		p.send("session.idle", idleEvent{t.view.session})
	}
}

// finalText is what the last step said.
func (t *liveTurn) finalText() string {
	for i := len(t.state.Parts) - 1; i >= 0; i-- {
		part := t.state.Parts[i]
		if part.Kind == event.PartText {
			if lp := t.parts[part.ID]; lp != nil && lp.step == t.fold.cur {
				return part.Text.String()
			}
			break
		}
	}
	return ""
}

func (t *liveTurn) result(user string, s *step, info assistantMessage, text string) resultEvent {
	r := resultEvent{SessionID: t.view.session, MessageID: s.id, ParentMessageID: user, Subtype: "success", StopReason: finishStop,
		FinalText: text, NumTurns: s.number + 1, TotalCostUSD: info.Cost, Usage: info.Tokens,
		ModelUsage: map[string]modelUsage{info.ProviderID + "/" + info.ModelID: {info.Tokens, info.Cost}}}
	if info.Error != nil {
		r.Subtype, r.StopReason = "error_during_execution", finishError
		if info.Error.Name == "MessageAbortedError" {
			r.Subtype, r.StopReason = "error_aborted", "aborted"
		}
		r.Error = &resultError{info.Error.Name, info.Error.Data.Message}
	}
	return r
}

// stopped is the end of a subagent.
func (s subagentEvent) stopped(how event.TurnStatus, text string, fail *wireError) subagentEvent {
	switch {
	case fail == nil:
		s.Status, s.Result = "completed", text
	case how == event.TurnCancelled:
		s.Status, s.Error = "cancelled", fail.Data.Message
	default:
		s.Status, s.Error = "error", fail.Data.Message
	}
	return s
}

// spawn notes that a call runs a subagent, and says so.
func (p *projection) spawn(st *state.State, parent *liveChat, part *event.Part) *subagentEvent {
	if part == nil || part.Tool == nil || parent.turn == nil {
		return nil
	}
	child, lp := p.chats[part.Tool.Child], parent.turn.parts[part.ID]
	if child == nil || lp == nil {
		return nil
	}
	agent := child.view.agent
	child.spawned = &subagentEvent{SessionID: sessionID(st.Info.ID), ParentSessionID: parent.view.session, ChildSessionID: child.view.session,
		Agent: agent, MessageID: lp.step.id, CallID: part.Tool.Call, TaskID: child.view.session, SpawnMode: "fresh"}
	return child.spawned
}
