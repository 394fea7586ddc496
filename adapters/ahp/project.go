package ahp

import (
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
	"github.com/polyhost/polyhost/transports/jsonx"
)

// texts is the hot path: deltas of one part's text, one frame each for each
// spelling.
func (l *live) texts(events []*event.Event) {
	for _, e := range events {
		if err := l.st.Apply(e); err != nil {
			l.front.log.Error("An event does not follow", "session", l.id.String(), "err", err)
			continue
		}
		l.pieces = append(l.pieces, e.Body.(*event.PartDelta).Text)
	}
	e, part := events[0], events[0].Body.(*event.PartDelta).Part
	for _, s := range l.open {
		if s.chat != e.Chat {
			continue
		}
		head := s.heads[part]
		if head == nil {
			if head = l.deltaHead(s, e, part); head == nil {
				continue
			}
			s.heads[part] = head
		}
		l.front.journal.texts(s.ch, head, l.pieces)
	}
	clear(l.pieces)
	l.pieces = l.pieces[:0]
}

// deltaHead is everything of a delta's frame before its text.
func (l *live) deltaHead(s *stream, e *event.Event, part id.ID) []byte {
	_, t, p := l.part(e, part)
	if p == nil {
		return nil
	}
	kind := "chat/delta"
	if p.Kind == event.PartReasoning {
		kind = "chat/reasoning"
	}
	b := append(s.ch.head(160), `{"type":"`+kind+`","turnId":`...)
	b = jsonx.AppendString(b, turnID(t))
	b = append(b, `,"partId":"`+part.String()+`","content":`...)
	return b[:len(b):len(b)]
}

// part finds a part of the running turn that an event is about.
func (l *live) part(e *event.Event, part id.ID) (*state.Chat, *state.Turn, *event.Part) {
	c := l.st.Chat(e.Chat)
	if c == nil || c.Active == nil || c.Active.ID != e.Turn {
		return c, nil, nil
	}
	return c, c.Active, c.Active.Part(part)
}

// view returns what clients were told of a call, as of the state before the
// event that is about to be folded.
func (l *live) view(p *event.Part) *callView {
	v := l.calls[p.ID]
	if v == nil {
		v = viewOf(p, l.plain().openOn(p))
		l.calls[p.ID] = v
	}
	return v
}

// before notes what the fold will overwrite.
func (l *live) before(e *event.Event) {
	var part id.ID
	switch b := e.Body.(type) {
	case *event.ToolReady:
		part = b.Part
	case *event.ToolRunning:
		part = b.Part
	case *event.ToolEnded:
		part = b.Part
	case *event.ToolLinked:
		part = b.Part
	case *event.ToolProgress:
		part = b.Part
	case *event.InteractionOpened:
		part = b.Interaction.Part
	case *event.InteractionResolved:
		part = b.Part
	case *event.MessageRemoved:
		if c := l.st.Chat(e.Chat); c != nil {
			for i := range c.Queue {
				if c.Queue[i].ID == b.ID {
					l.leaving[b.ID] = messageID(&c.Queue[i])
				}
			}
		}
	case *event.ChatRemoved:
		if c := l.st.Chat(e.Chat); c != nil {
			l.removedAliases = c.Aliases
		}
	case *event.WorkChanged:
		l.work = nil
		if c := l.st.Chat(e.Chat); c != nil {
			l.work = c.Work
		}
	case *event.ChatUpdated:
		if c := l.st.Chat(e.Chat); c != nil {
			l.chatDirs = c.Dirs
		}
	case *event.SessionUpdated:
		l.config = configValues(&l.st.Info)
		l.dirs = l.st.Info.Dirs
	}
	if part.IsNil() {
		return
	}
	if _, _, p := l.part(e, part); p != nil && p.Tool != nil {
		l.view(p)
	}
}

// after says what an event means, once it is folded.
func (l *live) after(e *event.Event) {
	switch b := e.Body.(type) {
	case *event.TurnStarted:
		l.turnStarted(e, b)
	case *event.TurnResumed:
		l.turnResumed(e, b)
	case *event.TurnEnded:
		l.turnEnded(e, b)
	case *event.PartStarted:
		l.partStarted(e, b)
	case *event.PartEnded:
		l.partEnded(b)
	case *event.ToolRunning:
		l.toolRunning(e, b)
	case *event.ToolLinked:
		l.linked(e, b)
	case *event.ToolProgress:
		if _, t, p := l.part(e, b.Part); p != nil && p.Tool != nil && metaOf(p.Tool)["toolKind"] == "subagent" {
			l.view(p).progress = true
			l.show(e.Chat, t, p, e.At)
		}
	case *event.ToolEnded:
		l.toolEnded(e, b)
		l.front.changesets.touched(l.id)
		if l.followed != "" {
			l.front.facts.want(l.followed, false)
		}
	case *event.UsageReported, *event.ContextReported:
		if c := l.st.Chat(e.Chat); c != nil && c.Active != nil && c.Active.ID == e.Turn {
			l.say(e.Chat, nil, func(*renderer) any {
				return struct {
					turnAction
					Usage *usageShape `json:"usage"`
				}{turnAction{"chat/usage", turnID(c.Active)}, usage(c.Active.Usage, c.Active.Context)}
			})
		}
	case *event.InteractionOpened:
		l.opened(e, &b.Interaction)
	case *event.InteractionResolved:
		l.resolved(e, b)
	case *event.WorkChanged:
		l.workChanged(e, l.work)
	case *event.MessageQueued:
		l.queued(e, b)
	case *event.MessageUpdated:
		l.updated(e, b)
	case *event.MessageRemoved:
		l.removed(e, b)
	case *event.QueueReordered:
		l.reordered(e, b)
	default:
		l.afterSession(e)
	}
}

func (l *live) turnStarted(e *event.Event, b *event.TurnStarted) {
	queued := ""
	m := &b.Message
	if b.FromQueue {
		queued = messageID(m)
	} else if o := l.take("queue:" + m.ID.String()); o != nil {
		// Sent to wait, but nothing ran: it is taken at once.
		queued = messageID(m)
		l.say(e.Chat, o, func(*renderer) any { return pendingAction{"chat/pendingMessageSet", kindQueued, queued, message(m)} })
		l.say(e.Chat, nil, func(*renderer) any {
			return pendingAction{Type: "chat/pendingMessageRemoved", Kind: kindQueued, ID: queued}
		})
	}
	l.chatView(e.Chat).read = false
	l.say(e.Chat, l.take("turn:"+e.Turn.String()), func(*renderer) any {
		return turnStart{"chat/turnStarted", turnName(e.Turn, m), startedAt(m, e.At), message(m), queued, personMeta(senderKey, m.By.User)}
	})
}

func (l *live) turnResumed(e *event.Event, b *event.TurnResumed) {
	l.chatView(e.Chat).read = false
	l.say(e.Chat, l.take("resume:"+e.Turn.String()+b.By.Client), func(*renderer) any {
		return turnAction{"chat/turnResume", turnName(e.Turn, &b.Message)}
	})
}

func (l *live) turnEnded(e *event.Event, b *event.TurnEnded) {
	c := l.st.Chat(e.Chat)
	if c == nil || len(c.Turns) == 0 {
		return
	}
	t := c.Turns[len(c.Turns)-1]
	if t.ID != e.Turn {
		return
	}
	end := turnEnd{Type: "chat/turnComplete", TurnID: turnID(t), Duration: milliseconds(t.Duration)}
	switch b.Status {
	case event.TurnCancelled:
		end.Type = "chat/turnCancelled"
	case event.TurnFailed:
		part := failure(b.Error, b.Resumable)
		end.Type, end.Part = "chat/error", &part
	}
	l.say(e.Chat, l.take("end:"+e.Turn.String()), func(*renderer) any { return end })
	l.lookForRepository()
	for _, p := range t.Parts {
		delete(l.calls, p.ID)
		l.void("confirm:"+p.ID.String(), "that turn is over")
		l.void("call:"+p.ID.String(), "that turn is over")
		for _, s := range l.open {
			delete(s.heads, p.ID)
		}
	}
	for _, a := range t.Asked {
		delete(l.asks, a.Interaction.ID)
	}
	if v := l.chatView(e.Chat); v.read {
		v.read = false
		l.say(e.Chat, nil, func(*renderer) any { return map[string]any{"type": "chat/isReadChanged", "isRead": false} })
	}
}

// lookForRepository tells another catalogue of changesets when the session's
// directory became a working tree, or is none any more.
func (l *live) lookForRepository() {
	now := inRepository(l.st.Info.Dirs)
	if now == l.repository {
		return
	}
	l.repository = now
	l.say(id.Nil, nil, func(r *renderer) any {
		return map[string]any{"type": "session/changesetsChanged", "changesets": catalogue(r.speller.session, now)}
	})
}

func (l *live) partStarted(e *event.Event, b *event.PartStarted) {
	_, t, p := l.part(e, b.Part.ID)
	if p == nil {
		return
	}
	name := turnID(t)
	if p.Tool == nil {
		l.say(e.Chat, nil, func(r *renderer) any {
			return partAction{"chat/responsePart", name, r.part(spot{e.Chat, t.ID}, p, true)}
		})
		return
	}
	v := &callView{phase: phaseStreaming, meta: metaOf(p.Tool)}
	l.calls[p.ID] = v
	l.say(e.Chat, nil, func(r *renderer) any {
		c := r.base(p.Tool)
		return callStart{"chat/toolCallStart", name, c.ToolCallID, c.ToolName, c.DisplayName, c.Contributor, r.withChat(v.meta, p.Tool)}
	})
	if first := p.Tool.PartialInput.String(); first != "" {
		l.inputDelta(e.Chat, name, p, v, first)
	}
}

// partEnded lets go of what the deltas of a part needed.
func (l *live) partEnded(b *event.PartEnded) {
	for _, s := range l.open {
		delete(s.heads, b.Part)
	}
}

func (l *live) toolDelta(e *event.Event, d *event.PartDelta) {
	if _, _, p := l.part(e, d.Part); p != nil && p.Tool != nil {
		l.view(p)
	}
	if err := l.st.Apply(e); err != nil {
		l.front.log.Error("An event does not follow", "session", l.id.String(), "err", err)
		return
	}
	_, t, p := l.part(e, d.Part)
	if p == nil || p.Tool == nil {
		return
	}
	v := l.view(p)
	switch {
	case d.Field == event.FieldInput && v.phase == phaseStreaming:
		l.inputDelta(e.Chat, turnID(t), p, v, d.Text)
	case d.Field != event.FieldInput && v.phase == phaseRunning:
		l.showOutput(e.At, false)
	}
}

func (l *live) inputDelta(chat id.ID, turn string, p *event.Part, v *callView, piece string) {
	v.partial += piece
	l.say(chat, nil, func(*renderer) any {
		return struct {
			turnAction
			ToolCallID string `json:"toolCallId"`
			Content    string `json:"content"`
		}{turnAction{"chat/toolCallDelta", turn}, p.Tool.Call, piece}
	})
}

// ready tells that the input of a call is complete: with a reason it runs,
// without one a person is asked.
func (l *live) ready(e *event.Event, t *state.Turn, p *event.Part, v *callView, confirmed string) {
	v.phase, v.confirmed = phaseRunning, confirmed
	if confirmed == "" {
		v.phase = phasePending
	}
	l.say(e.Chat, nil, func(r *renderer) any {
		c := r.call(spot{e.Chat, t.ID}, p, v)
		return callReady{Type: "chat/toolCallReady", TurnID: turnID(t), ToolCallID: c.ToolCallID, InvocationMessage: ptr(title(p.Tool)),
			ToolInput: input(p.Tool.Input), Confirmed: confirmed, ConfirmationTitle: c.ConfirmationTitle, Edits: c.Edits,
			Editable: c.Editable, Options: c.Options, Meta: c.Meta}
	})
}

func (l *live) toolRunning(e *event.Event, b *event.ToolRunning) {
	_, t, p := l.part(e, b.Part)
	if p == nil || p.Tool == nil {
		return
	}
	switch v := l.view(p); v.phase {
	case phaseStreaming:
		l.ready(e, t, p, v, confirmedBy(p.Tool))
		if !p.Tool.Terminal.IsNil() {
			l.show(e.Chat, t, p, e.At)
		}
	case phasePending:
		v.phase, v.confirmed = phaseRunning, confirmedBy(p.Tool)
		a := callConfirmed{Type: "chat/toolCallConfirmed", TurnID: turnID(t), ToolCallID: p.Tool.Call, Approved: true, Confirmed: v.confirmed}
		if b.Input != nil {
			a.EditedToolInput = input(b.Input)
		}
		l.say(e.Chat, l.take("confirm:"+p.ID.String()), func(*renderer) any { return a })
		if b.Input != nil && metaOf(p.Tool)["toolKind"] == "subagent" { // which are made of the input
			l.show(e.Chat, t, p, e.At)
		}
	}
}

func (l *live) toolEnded(e *event.Event, b *event.ToolEnded) {
	_, t, p := l.part(e, b.Part)
	if p == nil || p.Tool == nil {
		return
	}
	v := l.view(p)
	switch {
	case v.phase == phaseCompleted || v.phase == phaseCancelled:
		return
	case b.Status == event.CallCancelled:
		// The end of the turn, which follows, closes it for clients. What
		// they were not yet told of its input, they are now.
		if v.phase == phaseStreaming && p.Tool.Input != nil {
			l.ready(e, t, p, v, "setting")
		}
		if v.progress {
			l.show(e.Chat, t, p, e.At)
		}
		return
	case b.Status == event.CallDenied && byPerson(p.Tool):
		if v.phase == phaseStreaming {
			l.ready(e, t, p, v, "")
		}
		a := callConfirmed{Type: "chat/toolCallConfirmed", TurnID: turnID(t), ToolCallID: p.Tool.Call}
		a.Reason, a.ReasonMessage = refusalReason(p.Tool.Refused)
		v.phase = phaseCancelled
		l.say(e.Chat, l.take("confirm:"+p.ID.String()), func(*renderer) any { return a })
		return
	}
	if v.phase != phaseRunning {
		l.ready(e, t, p, v, confirmedBy(p.Tool))
	}
	v.phase = phaseCompleted
	l.say(e.Chat, l.take("call:"+p.ID.String()), func(r *renderer) any {
		fields, content := r.result(spot{e.Chat, t.ID}, p)
		a := callComplete{Type: "chat/toolCallComplete", TurnID: turnID(t), ToolCallID: p.Tool.Call, Result: callResult{fields, content}}
		if v.progress {
			a.Meta = r.meta(p.Tool)
		}
		return a
	})
}

// linked tells of the chat of a call's subagent.
func (l *live) linked(e *event.Event, b *event.ToolLinked) {
	_, t, p := l.part(e, b.Part)
	if p == nil || p.Tool == nil {
		return
	}
	if v := l.view(p); v.phase == phasePending {
		l.ready(e, t, p, v, "")
		return
	}
	l.show(e.Chat, t, p, time.Now())
}

func (l *live) show(chat id.ID, t *state.Turn, p *event.Part, now time.Time) {
	v := l.view(p)
	if v.phase != phaseRunning {
		return
	}
	v.shown, v.shownAt = p.Tool.Output.Len(), now
	l.say(chat, nil, func(r *renderer) any {
		content := r.content(p.Tool, v.shown)
		if content == nil {
			content = []any{}
		}
		return callContent{"chat/toolCallContentChanged", turnID(t), p.Tool.Call, content, r.meta(p.Tool)}
	})
}

// showOutput shows the output of running calls that have some new, each at
// most once in a while.
func (l *live) showOutput(now time.Time, all bool) {
	l.eachBehind(func(c *state.Chat, p *event.Part, v *callView) bool {
		if all || now.Sub(v.shownAt) >= outputEvery {
			l.show(c.ID, c.Active, p, now)
		}
		return true
	})
}

// behindOutput reports whether a running call has output that was not shown.
func (l *live) behindOutput() (behind bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.calls) == 0 || len(l.open) == 0 {
		return false
	}
	l.eachBehind(func(*state.Chat, *event.Part, *callView) bool { behind = true; return false })
	return behind
}

func (l *live) eachBehind(f func(*state.Chat, *event.Part, *callView) bool) {
	for _, c := range l.st.Chats {
		if c.Active == nil {
			continue
		}
		for _, p := range c.Active.Parts {
			if v := l.calls[p.ID]; v != nil && v.phase == phaseRunning && p.Tool.Output.Len() > v.shown && !f(c, p, v) {
				return
			}
		}
	}
}

func (l *live) opened(e *event.Event, i *event.Interaction) {
	switch i.Kind {
	case event.Question:
		c := l.st.Chat(i.Chat)
		if c == nil || c.Active == nil {
			return
		}
		l.chatView(i.Chat).read = false
		l.say(i.Chat, nil, func(*renderer) any { return map[string]any{"type": "chat/inputRequested", "request": request(i)} })
	case event.Approval:
		if _, t, p := l.part(e, i.Part); p != nil && p.Tool != nil {
			l.ready(e, t, p, l.view(p), "")
		}
	case event.SignIn:
		if _, t, p := l.part(e, i.Part); p != nil && p.Tool != nil {
			l.view(p).phase = phaseSignIn
			l.say(e.Chat, nil, func(r *renderer) any {
				return callAuth{turnAction{"chat/toolCallAuthRequired", turnID(t)}, p.Tool.Call, r.signIn(p)}
			})
		}
	}
	l.say(id.Nil, nil, func(r *renderer) any {
		return map[string]any{"type": "session/inputNeededSet", "request": r.needs(i)}
	})
}

func (l *live) resolved(e *event.Event, b *event.InteractionResolved) {
	if _, t, p := l.part(e, b.Part); b.Of == event.SignIn && p != nil && p.Tool != nil {
		l.view(p).phase = phaseRunning
		l.say(e.Chat, nil, func(*renderer) any {
			return callAuth{turnAction: turnAction{"chat/toolCallAuthResolved", turnID(t)}, ToolCallID: p.Tool.Call}
		})
	}
	if b.Of == event.Question {
		o := l.take("input:" + b.ID.String())
		l.clearTyped(e, b.ID)
		if word := response(&b.Resolution); word != "" {
			a := inputCompleted{Type: "chat/inputCompleted", RequestID: b.ID.String(), Response: word}
			if asked := l.asked(e, b.ID); asked != nil {
				if given := answers(&asked.Interaction, &b.Resolution); given != nil {
					a.Answers = given
				}
			}
			l.say(e.Chat, o, func(*renderer) any { return a })
		}
		delete(l.asks, b.ID)
	}
	l.say(id.Nil, nil, func(*renderer) any {
		return map[string]any{"type": "session/inputNeededRemoved", "id": b.ID.String()}
	})
}

// clearTyped takes back the answers that were being typed: what counts is what
// was given, and a finished turn keeps nothing else.
func (l *live) clearTyped(e *event.Event, ask id.ID) {
	v := l.asks[ask]
	if v == nil {
		return
	}
	for question := range v.answers {
		l.say(e.Chat, nil, func(*renderer) any {
			return map[string]any{"type": "chat/inputAnswerChanged", "requestId": ask.String(), "questionId": question}
		})
	}
}

func (l *live) asked(e *event.Event, ask id.ID) *state.Asked {
	c := l.st.Chat(e.Chat)
	if c == nil || c.Active == nil {
		return nil
	}
	for _, a := range c.Active.Asked {
		if a.Interaction.ID == ask {
			return a
		}
	}
	return nil
}
