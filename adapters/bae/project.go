package bae

import (
	"encoding/json"
	"slices"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
)

type coreID = id.ID

// projector turns the events of a host session into those of one BAE session.
//
// It is a pure function of the session's log from any anchor on: a turn begins
// afresh, whatever was before. Payloads therefore use nothing but the events
// themselves and the constants below. One goroutine uses it.
type projector struct {
	ses      id.ID // the BAE session: the host session's id or a child chat's
	spelled  string
	host     id.ID // the host session
	chat     id.ID
	child    bool // ses is a child chat
	creator  string
	provider string

	seq    uint64 // of the last event seen
	anchor uint64 // of the turn, 0 when there is none
	turn   *logical
	out    []entry // of the event being projected
	e      *event.Event
}

// logical is a turn as BAE knows it: a core turn, or several when a paused one
// was given up for a new message.
type logical struct {
	id     id.ID // of the newest core turn
	by     event.Actor
	key    string
	model  string
	tools  []toolDecl
	msgs   []json.RawMessage // what the agent was told in this turn, for provider.request
	asking bool              // a provider.request has no response yet
	parts  map[id.ID]event.PartKind
	calls  map[id.ID]*call              // open tool calls by part
	open   map[id.ID]*event.Interaction // open interactions
	gone   map[id.ID]event.Resolution   // how the interactions of the pause were settled elsewhere
	routes routes
	text   []block     // visible text since the last message
	round  []block     // what the agent said since the last provider.request
	usage  event.Usage // of the round
	// children are the chats of the turn's subagents: their requests are its own.
	children map[id.ID]bool
	served   map[string]bool      // tool_use ids that were answered without the client
	paused   []*event.Interaction // what the pause waits for; nil while the turn runs
	over     bool                 // the core turn ended while it was paused
}

// call is an open tool call.
type call struct {
	tool  event.Tool
	input json.RawMessage
	// dispatch says who runs it. A client's call is shown when the turn
	// pauses for it.
	dispatch string
	shown    bool
	running  bool
	child    id.ID
}

func newProjector(ses id.ID, st *state.State, chat id.ID) *projector {
	p := &projector{ses: ses, spelled: ses.BAE("ses"), host: st.Info.ID, chat: chat, child: ses != st.Info.ID,
		provider: st.Info.Backend, creator: keyOf(st.Info.Owner)}
	if o, ok := openingOf(&st.Info); ok {
		p.creator = o.Key
	}
	return p
}

// fresh is a projector of the same session that begins after another anchor.
func (p *projector) fresh(at position) *projector {
	q := *p
	q.turn, q.out, q.e, q.anchor = nil, nil, nil, 0
	q.seq = 0
	if at.anchor > 0 {
		q.seq = at.anchor - 1
	}
	return &q
}

// project returns the entries of one event; the slice is the caller's.
func (p *projector) project(e *event.Event) []entry {
	p.seq = e.Seq
	if _, ok := e.Body.(*event.PartDelta); ok {
		return nil
	}
	p.out, p.e = nil, e
	switch b := e.Body.(type) {
	case *event.SessionCreated:
		p.created(b)
	case *event.SessionUpdated:
		p.updated(b)
	case *event.ChatAdded:
		if p.child && b.Info.ID == p.chat {
			p.emit("session.open", p.creator, openPayload{Tools: []string{}, SandboxTools: []string{}, SubagentTools: []string{}})
		}
	case *event.InteractionOpened:
		if t := p.turn; t != nil && (b.Interaction.Turn == t.id || t.children[b.Interaction.Chat]) {
			t.open[b.Interaction.ID] = &b.Interaction
		}
	case *event.InteractionResolved:
		if p.turn != nil {
			p.resolved(b)
		}
	case *event.TurnStarted:
		if e.Chat == p.chat {
			p.started(b)
		}
	case *event.TurnResumed:
		if e.Chat == p.chat {
			p.reopened(b)
		}
	default:
		if t := p.turn; t != nil {
			if l, ok := b.(*event.ToolLinked); ok && (e.Turn == t.id || t.children[e.Chat]) {
				t.children[l.Child] = true
			}
			if e.Turn == t.id {
				p.inTurn()
			}
		}
	}
	return p.out
}

// emit adds an event.
func (p *projector) emit(kind, key string, payload any) *entry {
	pos := position{anchor: p.anchor, seq: p.e.Seq, idx: uint16(len(p.out))}
	if pos.anchor == 0 {
		pos.anchor = p.e.Seq
	}
	p.out = append(p.out, newEntry(pos, pos.eventID(p.ses), p.spelled, kind, key, payload, p.e.At))
	return &p.out[len(p.out)-1]
}

// own adds an event of the turn.
func (p *projector) own(kind string, payload any) *entry {
	en := p.emit(kind, p.turn.key, payload)
	en.turn = true
	return en
}

func (p *projector) created(b *event.SessionCreated) {
	if p.child {
		return
	}
	payload := openPayload{}
	if o, ok := openingOf(&b.Info); ok {
		payload = o.Payload
	}
	payload.fill()
	p.emit("session.open", p.creator, payload)
}

func (o *openPayload) fill() {
	for _, l := range []*[]string{&o.Tools, &o.SandboxTools, &o.SubagentTools} {
		if *l == nil {
			*l = []string{}
		}
	}
}

func (p *projector) updated(b *event.SessionUpdated) {
	closing := b.Closed != nil && *b.Closed
	var n note
	if raw, ok := b.Meta[metaNote]; ok && json.Unmarshal(raw, &n) == nil && n.Chat == p.chat {
		for _, ev := range n.Events {
			p.emit(ev.Type, ev.Key, ev.Payload)
			closing = closing && ev.Type != typeClose // the note says why
		}
		if n.Pause != nil && p.turn != nil && p.turn.id == n.Pause.Turn {
			p.pause(n.Pause)
		}
	}
	if closing {
		p.emit(typeClose, p.creator, reasonPayload{reasonClientClose})
	}
}

func (p *projector) started(b *event.TurnStarted) {
	var s spoken
	mine := b.Message.By.Front == frontName && json.Unmarshal(b.Message.Rich, &s) == nil
	if p.turn == nil || !p.turn.over || len(s.Results) == 0 {
		p.anchor = p.e.Seq
		p.turn = &logical{}
	}
	if !mine {
		s = spoken{}
	}
	s = p.turn.begin(p.e.Turn, &b.Message, s)
	if b.Message.System {
		p.turn.heard(s) // nobody spoke
	} else {
		p.said(s)
	}
	p.ask()
}

// reopened begins a turn once more that had failed: nobody speaks.
func (p *projector) reopened(b *event.TurnResumed) {
	var s spoken
	if b.Message.By.Front != frontName || json.Unmarshal(b.Message.Rich, &s) != nil {
		s = spoken{}
	}
	p.anchor, p.turn = p.e.Seq, &logical{}
	p.turn.heard(p.turn.begin(p.e.Turn, &b.Message, s))
	p.ask()
}

// begin is the turn's beginning with a message; it returns what was said.
func (t *logical) begin(turn id.ID, m *event.Message, s spoken) spoken {
	t.id, t.by, t.key, t.model = turn, m.By, keyOf(m.By), m.Settings.Model
	t.tools, t.paused, t.over, t.gone = []toolDecl{}, nil, false, nil
	t.parts, t.calls, t.open = map[id.ID]event.PartKind{}, map[id.ID]*call{}, map[id.ID]*event.Interaction{}
	t.served, t.children = map[string]bool{}, map[id.ID]bool{}
	t.text, t.round, t.routes = nil, nil, routes{}
	if s.Role == "" {
		s.Role = "user"
	}
	if len(s.Content) == 0 {
		s.Content = mustJSON(m.Text)
	}
	t.offered(s)
	if s.Model != "" && t.model == "" {
		t.model = s.Model
	}
	return s
}

// heard adds a message to what the agent is asked with.
func (t *logical) heard(s spoken) {
	t.msgs = append(t.msgs, mustJSON(message{s.Role, s.Content}))
}

// said writes a message of the client and the tool results in it.
func (p *projector) said(s spoken) {
	p.own("client.message.send", message{s.Role, s.Content}).leg = s.Leg
	p.turn.heard(s)
	for _, r := range s.Results {
		p.own("tool.result", toolResultPayload{ToolUseID: r.ID, Dispatch: dispatchClient, Content: r.Content, IsError: r.IsError}).leg = s.Leg
	}
}

// offered takes the acting client's tools from what it said.
func (t *logical) offered(s spoken) {
	if s.Tools != nil {
		t.tools, t.routes = s.Tools, s.Routes
	}
}

// offers reports whether the agent may call a tool of the acting client.
func (t *logical) offers(tool string) bool {
	return tool != toolPermission && slices.ContainsFunc(t.tools, func(d toolDecl) bool { return d.Name == tool })
}

// ask writes the provider.request of a round.
func (p *projector) ask() {
	t := p.turn
	t.asking, t.round, t.usage = true, nil, event.Usage{}
	p.own("provider.request", providerRequest{Kind: "primary", Provider: p.provider, BaseURL: baseURL(p.provider), Model: t.modelName(),
		Messages: slices.Clone(t.msgs), Tools: t.tools})
}

func (t *logical) modelName() string {
	if t.model != "" {
		return t.model
	}
	return "default"
}

// answer writes the provider.response of a round.
func (p *projector) answer(stop string) {
	t := p.turn
	if !t.asking {
		return
	}
	t.asking = false
	if t.usage.Model != "" {
		t.model = t.usage.Model
	}
	content := t.round
	if content == nil {
		content = []block{}
	}
	status := 200
	p.own("provider.response", providerResponse{Kind: "primary", Provider: p.provider, OK: true, Status: &status,
		Body: &providerBody{Type: "message", Role: "assistant", Model: t.modelName(), Content: content, StopReason: stop,
			Usage: providerUsage{t.usage.Input, t.usage.Output}}})
}

// inTurn projects what happens inside the turn.
func (p *projector) inTurn() {
	t := p.turn
	switch p.e.Body.(type) {
	case *event.TurnEnded, *event.UsageReported:
	default:
		p.dissolve(false)
	}
	switch b := p.e.Body.(type) {
	case *event.PartStarted:
		p.partStarted(&b.Part)
	case *event.PartEnded:
		if t.parts[b.Part] == event.PartText && b.Text != "" {
			bl := block{Type: "text", Text: b.Text}
			t.text, t.round = append(t.text, bl), append(t.round, bl)
		}
		delete(t.parts, b.Part)
	case *event.ToolReady:
		if c := t.calls[b.Part]; c != nil {
			c.input = object(b.Input)
			if c.dispatch != dispatchClient {
				p.show(c)
			}
		}
	case *event.ToolRunning:
		if c := t.calls[b.Part]; c != nil && c.dispatch != dispatchClient {
			p.running(c, b)
		}
	case *event.ToolLinked:
		if c := t.calls[b.Part]; c != nil {
			c.child = b.Child
			for _, s := range []string{"start", "running"} {
				p.own("session.subagent."+s, p.subagent(c))
			}
		}
	case *event.ToolEnded:
		if c := t.calls[b.Part]; c != nil {
			delete(t.calls, b.Part)
			p.toolEnded(c, b)
		}
	case *event.UsageReported:
		t.usage = t.usage.Add(b.Usage)
	case *event.TurnEnded:
		p.ended(b)
	}
}

// nextRound begins a round if the last one was answered and its calls ended.
func (p *projector) nextRound() {
	if t := p.turn; !t.asking && len(t.calls) == 0 {
		p.ask()
	}
}

func (p *projector) partStarted(part *event.Part) {
	t := p.turn
	p.dissolve(true)
	switch part.Kind {
	case event.PartText, event.PartReasoning:
		p.nextRound()
		t.parts[part.ID] = part.Kind
	case event.PartTool:
		p.nextRound()
		c := &call{tool: *part.Tool, input: object(part.Tool.Input), dispatch: dispatchMCP}
		if t.offers(c.tool.Name) {
			c.dispatch = t.routes.of(c.tool.Name)
		}
		t.calls[part.ID] = c
	case event.PartMessage:
		if m := part.Message; m != nil {
			key := t.key
			t.key = keyOf(m.By)
			p.said(spoken{Role: "user", Content: mustJSON(m.Text)})
			t.key = key
		}
	}
}

// ended projects the end of the core turn.
func (p *projector) ended(b *event.TurnEnded) {
	t := p.turn
	failed := b.Status == event.TurnFailed && !b.Synthetic && !interrupted(b.Error)
	if t.paused != nil && b.Status != event.TurnComplete && !failed {
		// A client that gives the turn up answers its calls with its next
		// message; anybody else leaves them unanswered.
		t.over = true
		if b.By.Front != frontName {
			for _, i := range t.paused {
				p.clientResult(useID(i), "the turn was cancelled", true)
			}
		}
		p.finish(nil)
		return
	}
	switch {
	case failed:
		p.failed(b.Error)
	case b.Status == event.TurnComplete:
		p.dissolve(true)
		p.nextRound()
		p.answer("end_turn")
		p.speak()
	default:
		p.answer("cancelled")
		p.speak()
	}
}

func interrupted(err *event.Error) bool { return err != nil && err.Code == event.CodeInterrupted }

// speak writes the assistant's message and ends the turn.
func (p *projector) speak() {
	content := p.turn.text
	if content == nil {
		content = []block{}
	}
	m := message{"assistant", mustJSON(content)}
	p.own("server.message.send", m)
	p.finish(mustJSON(m))
	p.drop()
}

// failed writes the failure trail. Only a turn that a BAE client began brings
// its session into the error state.
func (p *projector) failed(err *event.Error) {
	t := p.turn
	detail := "the agent failed"
	if err != nil && err.Message != "" {
		detail = err.Message
	}
	if !t.asking {
		p.ask()
	}
	t.asking = false
	p.own("provider.response", providerResponse{Kind: "primary", Provider: p.provider, Error: detail})
	p.own("session.error", sessionError{Reason: "provider_call_failed", Provider: p.provider, Detail: detail})
	if t.by.Front == frontName {
		p.own("session.error", sessionError{Reason: "all_providers_failed", Attempts: 1})
	}
	p.finish(mustJSON(message{"assistant", textContent("The agent could not answer: all providers failed.")}))
	p.drop()
}

// finish marks the end of the turn for those who wait for it.
func (p *projector) finish(msg json.RawMessage) {
	p.out = append(p.out, entry{pos: position{p.anchor, p.e.Seq, uint16(len(p.out))},
		mark: &mark{turn: p.turn.id, ended: true, message: msg}})
}

// drop forgets the turn: what follows is outside of it.
func (p *projector) drop() { p.turn, p.anchor = nil, 0 }
