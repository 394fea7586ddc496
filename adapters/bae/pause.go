package bae

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
)

// pause is a turn that waits for its owner's tool results.
type pause struct {
	turn  id.ID
	owner string
	at    position // of the paused message's mark
	calls []*event.Interaction
	// served are tool_use ids that the gateway's side answered itself.
	served map[string]bool
	// foreign: another front began the turn; the owner only answers for it.
	foreign  bool
	deadline time.Time
}

// useID is the tool_use id under which a BAE client sees an interaction.
func useID(i *event.Interaction) string {
	if i.Kind == event.ClientCall && i.Call != "" {
		return i.Call
	}
	return i.ID.BAE("tu")
}

// useName and useInput are the tool call that an interaction becomes.
func useName(i *event.Interaction) string {
	switch i.Kind {
	case event.Approval:
		return toolPermission
	case event.Question:
		return toolQuestion
	}
	return i.Tool
}

func useInput(i *event.Interaction) json.RawMessage {
	switch i.Kind {
	case event.Approval:
		return permissionInput(i)
	case event.Question:
		return questionInput(i)
	}
	return object(i.Input)
}

// inPause reports whether the pause waits for a call.
func (t *logical) inPause(c *call) bool {
	return slices.ContainsFunc(t.paused, func(i *event.Interaction) bool {
		return i.Kind == event.ClientCall && i.Call == c.tool.Call
	})
}

// pause writes the paused message and what led to it.
func (p *projector) pause(n *pauseNote) {
	t := p.turn
	var calls []*event.Interaction
	for _, x := range n.Interactions {
		if i := t.open[x]; i != nil {
			calls = append(calls, i)
		}
	}
	if len(calls) == 0 || t.paused != nil {
		return // settled while the note was on its way
	}
	key := t.key
	t.key = n.Key
	defer func() { t.key = key }()
	content := slices.Clone(t.text)
	for _, i := range calls {
		use := block{Type: "tool_use", ID: useID(i), Name: useName(i), Input: useInput(i)}
		t.round = append(t.round, use)
		use.Dispatch = dispatchClient
		content = append(content, use)
	}
	p.answer("tool_use")
	for _, i := range calls {
		p.own("tool.call", toolCallPayload{ID: useID(i), Name: useName(i), Input: useInput(i), Dispatch: dispatchClient})
		for _, c := range t.calls {
			if c.dispatch == dispatchClient && c.tool.Call == i.Call {
				c.shown = true
			}
		}
	}
	m := message{"assistant", mustJSON(content)}
	en := p.own("server.message.send", m)
	t.msgs = append(t.msgs, mustJSON(message{"assistant", mustJSON(undispatched(content))}))
	t.paused, t.gone, t.text = calls, map[id.ID]event.Resolution{}, nil
	en.mark = &mark{turn: t.id, message: mustJSON(m), pause: &pause{turn: t.id, owner: n.Key, at: en.pos, calls: calls,
		served: maps.Clone(t.served), foreign: t.by.Front != frontName}}
}

// running reports whether a call runs that nobody is asked about.
func (t *logical) running() bool {
	for part, c := range t.calls {
		waits := !c.child.IsNil() // a subagent's calls are looked at themselves
		for _, i := range t.open {
			waits = waits || i.Part == part || i.Call != "" && i.Call == c.tool.Call
		}
		if !waits {
			return true
		}
	}
	return false
}

func undispatched(content []block) []block {
	out := slices.Clone(content)
	for i := range out {
		out[i].Dispatch = ""
	}
	return out
}

// resolved projects the end of an interaction.
func (p *projector) resolved(b *event.InteractionResolved) {
	t := p.turn
	i := t.open[b.ID]
	if i == nil {
		return
	}
	delete(t.open, b.ID)
	var s spoken
	if b.Resolution.By.Front == frontName && len(b.Resolution.Rich) > 0 && json.Unmarshal(b.Resolution.Rich, &s) == nil {
		p.resumed(b.Resolution.By.Client, s)
		return
	}
	if slices.Contains(t.paused, i) {
		t.gone[b.ID] = b.Resolution
	}
}

// resumed ends the pause with its owner's answer.
func (p *projector) resumed(key string, s spoken) {
	t := p.turn
	t.paused, t.gone = nil, nil
	if t.by.Front == frontName {
		key = t.key
	}
	old := t.key
	t.key = key
	p.said(s)
	t.key = old
	t.offered(s)
	p.goOn()
}

// goOn begins the next round, unless calls of this one still run.
func (p *projector) goOn() {
	for _, c := range p.turn.calls {
		if c.dispatch != dispatchClient {
			return
		}
	}
	p.ask()
}

// dissolve ends a pause all of whose calls were settled elsewhere: the turn
// went on without its owner. Cancelled calls alone do not show that it did, as
// a turn's end cancels them: then new says that the agent made something new.
func (p *projector) dissolve(new bool) {
	t := p.turn
	if t.paused == nil || len(t.gone) < len(t.paused) {
		return
	}
	for _, r := range t.gone {
		new = new || r.Outcome != event.Cancelled
	}
	if !new {
		return
	}
	for _, i := range t.paused {
		r := t.gone[i.ID]
		p.clientResult(useID(i), settledText(r), r.Outcome != event.Allowed && r.Outcome != event.Answered && r.Outcome != event.Completed)
	}
	t.paused, t.gone = nil, nil
	p.goOn()
}
