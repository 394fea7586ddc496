package ahp

import (
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
)

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
