package zidane

import (
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
	"github.com/polyhost/polyhost/transports/jsonx"
)

// projection turns the events of one live session into signals.
type projection struct {
	f    *Front
	sid  id.ID
	said bool    // session:created was sent, or the session is older than this process
	subs []id.ID // the other chats
	runs map[id.ID]*run
	// parts are the open parts whose deltas are sent on.
	parts map[id.ID]*openPart
	hot   *openPart // the one the last delta was for
}

// run is a running turn.
type run struct {
	wire    id.ID
	prompts []promptTurn
	begun   time.Time
	first   time.Time // of the first streamed piece
	last    time.Time
	chars   int
	told    bool // a stream:progress was sent
	model   string
	used    event.Usage // by the turn before it was resumed
}

type promptTurn struct {
	TurnID string `json:"turnId"`
	Text   string `json:"text"`
}

// openPart has the bytes around the text of its deltas made once.
type openPart struct {
	id     id.ID
	run    *run
	wire   id.ID
	prefix []byte // of the whole frame
	suffix []byte
	stderr []byte // the suffix for standard error
	sent   int    // bytes of text
	speech bool   // counts as streamed text
	called bool   // its tool-call was sent
}

// open begins the projection of a session that became live.
func (f *Front) open(session id.ID, st *state.State) *projection {
	p := &projection{f: f, sid: session, runs: map[id.ID]*run{}, parts: map[id.ID]*openPart{}}
	p.said = st.Info.CreatedAt.Before(f.startedAt) || f.signals.known(p.sid)
	p.announce(st)
	for _, i := range st.Open {
		p.asked(st, i)
	}
	for _, c := range st.Chats {
		if c.ID != st.Default {
			p.subs = append(p.subs, c.ID)
		}
		if c.Active != nil {
			p.startRun(st, c, c.Active.ID, &c.Active.Message, c.Active.StartedAt, st.Seq)
			for _, part := range c.Active.Parts {
				if !part.Ended() {
					p.openPart(st, c.ID, c.Active.ID, part)
				}
			}
		}
	}
	return p
}

// Close ends the projection: the session left memory or was deleted.
func (p *projection) Close() {
	p.f.presence.forget(p.sid)
	for _, wire := range p.subs {
		p.f.presence.forget(wire)
	}
	if _, there := p.f.host.Summary(p.sid); there || !p.said {
		return
	}
	for _, chat := range p.subs {
		p.deleted(chat, 0)
	}
	p.deleted(p.sid, 0)
}

// deleted is the last signal of a session.
func (p *projection) deleted(wire id.ID, seq uint64) {
	p.f.presence.forget(wire)
	p.f.signals.send(wire, seq, p.beginFor("session:deleted", wire, 0))
	p.f.signals.forget(wire)
	p.f.counts.forget(wire)
	p.f.drafts.forget(wire)
}

// announce sends session:created once, for a session that was made since we
// started, and not before a private one has its first turn.
func (p *projection) announce(st *state.State) bool {
	if p.said {
		return true
	}
	if sum, ok := p.f.host.Summary(p.sid); ok && sum.Private && st.Info.Provisional {
		return false
	}
	p.said = true
	for _, c := range st.Chats {
		p.sessionSignal("session:created", st, c)
	}
	return true
}

// Project sends what any other event means. st is the state after it.
func (p *projection) Project(e *event.Event, st *state.State) {
	if _, ok := e.Body.(*event.SessionCreated); ok || !p.announce(st) {
		p.announce(st)
		return
	}
	chat := st.Chat(e.Chat)
	wire := wireID(p.sid, st.Default, e.Chat)
	switch b := e.Body.(type) {
	case *event.SessionUpdated:
		if b.Title != nil || b.Settings != nil || b.Dirs != nil || b.Archived != nil || b.Closed != nil {
			if c := st.DefaultChat(); c != nil {
				p.sessionSignal("session:updated", st, c)
			}
		}
	case *event.ChatAdded:
		if c := st.Chat(b.Info.ID); c != nil {
			p.subs = append(p.subs, c.ID)
			p.sessionSignal("session:created", st, c)
		}
	case *event.ChatRemoved:
		p.subs = slices.DeleteFunc(p.subs, func(c id.ID) bool { return c == e.Chat })
		p.deleted(wire, e.Seq)
	case *event.ChatUpdated:
		if chat != nil && (b.Title != nil || b.Archived != nil) {
			p.sessionSignal("session:updated", st, chat)
		}
	case *event.DraftChanged:
		p.f.drafts.changed(wire, b)
	case *event.InteractionOpened:
		if i := &b.Interaction; forPeople(i.Kind) {
			w := p.asked(st, i)
			p.send(w, e.Seq, "interaction:open", "interaction", interactionOf(w, i))
		}
	case *event.InteractionResolved:
		if forPeople(b.Of) {
			p.f.asked.settled(b.ID)
			p.f.presence.asking(wire, -1)
			p.resolved(wire, e.Seq, b)
		}
	default:
		if chat != nil {
			p.inChat(e, st, chat, wire)
		}
	}
}

// asked notes that a person is wanted and returns for which session.
func (p *projection) asked(st *state.State, i *event.Interaction) id.ID {
	wire := wireID(p.sid, st.Default, i.Chat)
	if forPeople(i.Kind) {
		p.f.asked.opened(p.sid, i)
		p.f.presence.asking(wire, 1)
	}
	return wire
}

func (p *projection) inChat(e *event.Event, st *state.State, chat *state.Chat, wire id.ID) {
	r := p.runs[e.Turn]
	switch b := e.Body.(type) {
	case *event.MessageQueued:
		if !b.Steer {
			p.send(wire, e.Seq, "queue:changed", "items", queueOf(chat.Queue))
		}
	case *event.MessageUpdated, *event.MessageRemoved, *event.QueueReordered:
		p.send(wire, e.Seq, "queue:changed", "items", queueOf(chat.Queue))
	case *event.PlanUpdated:
		p.send(wire, e.Seq, "plans:snapshot", "snapshot", plansOf(chat.ID, b.Items))
	case *event.ChatTruncated:
		p.send(wire, e.Seq, "transcript:truncated", "turnId", b.Turn.String())
		p.sessionSignal("session:updated", st, chat)
	case *event.TurnStarted:
		p.startRun(st, chat, e.Turn, &b.Message, e.At, e.Seq)
	case *event.TurnResumed: // the error that it had ended with was told then
		p.startRun(st, chat, e.Turn, &b.Message, e.At, e.Seq)
	case *event.TurnEnded:
		if r != nil {
			p.endRun(e, b, r, chat)
		}
	case *event.PartStarted:
		if r != nil {
			p.startPart(e, st, r, &b.Part)
		}
	case *event.PartEnded:
		p.endPart(e, b)
	case *event.ToolReady:
		p.toolCall(e, chat, wire, b.Part)
	case *event.ToolEnded:
		if o := p.parts[b.Part]; o != nil && !o.called { // it ended before its input was complete
			p.toolCall(e, chat, wire, b.Part)
		}
		delete(p.parts, b.Part)
		p.hot = nil
		if part := toolPart(chat, e.Turn, b.Part); part != nil {
			p.event(wire, e.Seq, toolResultEvent(e.Turn, part))
		}
	}
}

func (p *projection) toolCall(e *event.Event, chat *state.Chat, wire, part id.ID) {
	if o := p.parts[part]; o != nil {
		o.called = true
	}
	if t := toolPart(chat, e.Turn, part); t != nil {
		p.event(wire, e.Seq, toolCallEvent(e.Turn, t))
	}
}

// toolPart finds a call of a running turn.
func toolPart(chat *state.Chat, turn, part id.ID) *event.Part {
	t := chat.Turn(turn)
	if t == nil {
		return nil
	}
	if p := t.Part(part); p != nil && p.Tool != nil {
		return p
	}
	return nil
}

// startRun sends what comes before the first piece of a run.
func (p *projection) startRun(st *state.State, chat *state.Chat, turn id.ID, m *event.Message, at time.Time, seq uint64) {
	r := &run{wire: wireID(p.sid, st.Default, chat.ID), begun: at, model: p.f.modelOf(&st.Info, m)}
	if _, failed := chat.Active.Again(); failed != nil {
		r.used = failed.Notice.Ended.Usage
	}
	p.runs[turn] = r
	p.f.presence.running(r.wire, true)
	p.send(r.wire, seq, "run:start", "runId", turn.String())
	p.send(r.wire, seq, "plans:snapshot", "snapshot", plansOf(chat.ID, chat.Plan))
	p.prompted(r, m, seq)
}

func (p *projection) prompted(r *run, m *event.Message, seq uint64) {
	r.prompts = append(r.prompts, promptTurn{m.ID.String(), m.Text})
	p.send(r.wire, seq, "prompt-turns", "turns", r.prompts)
}

func (p *projection) startPart(e *event.Event, st *state.State, r *run, part *event.Part) {
	switch part.Kind {
	case event.PartText, event.PartReasoning, event.PartTool:
		o := p.openPart(st, e.Chat, e.Turn, part)
		if o.speech && part.Text.Len() > 0 {
			o.sent = 0
			p.whole(o, e, part.Text.String())
		}
		if part.Ended() {
			delete(p.parts, part.ID)
		}
	case event.PartMessage:
		if part.Message != nil {
			p.prompted(r, part.Message, e.Seq)
		}
	default:
		if ev := wholeEvent(e.Turn, part); ev != nil {
			p.event(r.wire, e.Seq, ev)
		}
	}
}

// openPart makes ready for the deltas of a part.
func (p *projection) openPart(st *state.State, chat, turn id.ID, part *event.Part) *openPart {
	o := &openPart{id: part.ID, run: p.runs[turn], wire: wireID(p.sid, st.Default, chat), sent: part.Text.Len(),
		called: part.Tool != nil && part.Tool.Status != event.CallStreaming}
	b := begin("event", 160)
	b = member(b, "sessionId", jsonx.AppendString(nil, o.wire.String()))
	b = append(b, `,"event":{"kind":"`...)
	tail := `,"streaming":true,"turnId":"` + turn.String() + `"}`
	switch part.Kind {
	case event.PartText:
		o.prefix, o.speech = append(b, `markdown","text":`...), true
	case event.PartReasoning:
		o.prefix, o.speech = append(b, `thinking","text":`...), true
	default:
		b = append(b, `tool-output","callId":`...)
		b = jsonx.AppendString(b, part.Tool.Call)
		o.prefix = append(b, `,"text":`...)
		o.stderr = []byte(`,"stream":"stderr"` + tail)
		tail = `,"stream":"stdout"` + tail
	}
	o.suffix = []byte(tail)
	p.parts[part.ID] = o
	return o
}

// Deltas sends pieces of text and output, all of them together.
func (p *projection) Deltas(events []*event.Event, _ *state.State) {
	s := p.f.signals
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range events {
		p.delta(e, e.Body.(*event.PartDelta))
	}
	s.topic.Flush()
}

// delta is the hot path: one frame, made where it stays. The caller holds the
// lock of the signals and flushes the topic.
func (p *projection) delta(e *event.Event, d *event.PartDelta) {
	o := p.hot
	if o == nil || o.id != d.Part {
		if o = p.parts[d.Part]; o == nil {
			return
		}
		p.hot = o
	}
	switch d.Field {
	case event.FieldText, event.FieldOutput:
		p.piece(o, e, d.Text, o.suffix)
	case event.FieldStderr:
		p.piece(o, e, d.Text, o.stderr)
	}
}

// whole is a piece on its own.
func (p *projection) whole(o *openPart, e *event.Event, text string) {
	s := p.f.signals
	s.mu.Lock()
	defer s.mu.Unlock()
	p.piece(o, e, text, o.suffix)
	s.topic.Flush()
}

func (p *projection) piece(o *openPart, e *event.Event, text string, suffix []byte) {
	o.sent += len(text)
	if r := o.run; r != nil && o.speech {
		r.chars += utf8.RuneCountInString(text)
		r.last = e.At
		if r.first.IsZero() {
			r.first = e.At
		}
	}
	st := p.f.signals.of(o.wire)
	b := st.tape.Begin(len(o.prefix) + len(text) + len(text)/8 + len(suffix) + numberRoom + 2)
	start := len(b)
	b = append(b, o.prefix...)
	b = jsonx.AppendString(b, text)
	b = append(b, suffix...)
	p.f.signals.add(st, e.Seq, b, len(b)-start)
}

// endPart closes a text. What the deltas left out is made good.
func (p *projection) endPart(e *event.Event, b *event.PartEnded) {
	o := p.parts[b.Part]
	if o == nil {
		return
	}
	if o.sent < len(b.Text) {
		p.whole(o, e, b.Text[o.sent:])
	}
	delete(p.parts, b.Part)
	p.hot = nil
	if o.run != nil {
		p.progress(o.run, e.Turn, e.Seq)
	}
}

func (p *projection) progress(r *run, turn id.ID, seq uint64) {
	r.told = true
	b := p.beginFor("stream:progress", r.wire, 80)
	b = member(b, "turnId", jsonx.AppendString(nil, turn.String()))
	b = member(b, "chars", strconv.AppendInt(nil, int64(r.chars), 10))
	p.f.signals.send(r.wire, seq, b)
}

// endRun sends what comes after the last piece of a run.
func (p *projection) endRun(e *event.Event, b *event.TurnEnded, r *run, chat *state.Chat) {
	delete(p.runs, e.Turn)
	if b.Error != nil {
		p.event(r.wire, e.Seq, errorEvent(e.Turn, b.Error))
	}
	if !r.told {
		p.progress(r, e.Turn, e.Seq)
	}
	used := b.Usage.Since(r.used)
	usage := turnUsage{Input: used.Input, Output: used.Output, ModelID: r.model,
		TimeToFirstTokenMs: between(r.begun, r.first), StreamDurationMs: between(r.first, r.last)}
	if b.Usage.Model != "" {
		usage.ModelID = b.Usage.Model
	}
	p.f.usage.ran(e.At, usage) // before the run is over for anybody who then asks for the counts
	frame := p.beginFor("turn:end", r.wire, 200)
	frame = member(frame, "turnId", jsonx.AppendString(nil, e.Turn.String()))
	p.f.signals.send(r.wire, e.Seq, member(frame, "usage", encode(usage)))
	p.send(r.wire, e.Seq, "plans:snapshot", "snapshot", plansOf(chat.ID, chat.Plan))

	frame = p.beginFor("run:end", r.wire, 200)
	frame = member(frame, "runId", jsonx.AppendString(nil, e.Turn.String()))
	frame = member(frame, "ok", strconv.AppendBool(nil, b.Status == event.TurnComplete))
	if reason, message := whyEnded(b.Status, b.Error); reason != "" {
		frame = member(frame, "reason", jsonx.AppendString(nil, reason))
		if message != "" {
			frame = member(frame, "message", jsonx.AppendString(nil, message))
		}
	}
	p.f.signals.send(r.wire, e.Seq, frame)
	p.f.presence.running(r.wire, false)
}

// whyEnded says why a run did not end well: "stopped" or the code of its error.
func whyEnded(status event.TurnStatus, err *event.Error) (reason, message string) {
	switch {
	case err != nil:
		return err.Code, err.Message
	case status == event.TurnCancelled:
		return "stopped", ""
	case status == event.TurnFailed:
		return event.CodeAgentFailed, ""
	}
	return "", ""
}

type turnUsage struct {
	Input              int64  `json:"input"`
	Output             int64  `json:"output"`
	ModelID            string `json:"modelId"`
	TimeToFirstTokenMs int64  `json:"timeToFirstTokenMs"`
	StreamDurationMs   int64  `json:"streamDurationMs"`
}

// between is the time between two moments in milliseconds; 0 if one is missing.
func between(a, b time.Time) int64 {
	if a.IsZero() || b.IsZero() {
		return 0
	}
	return max(0, b.Sub(a).Milliseconds())
}

func (p *projection) resolved(wire id.ID, seq uint64, b *event.InteractionResolved) {
	frame := p.beginFor("interaction:closed", wire, 200)
	frame = member(frame, "id", jsonx.AppendString(nil, b.ID.String()))
	frame = member(frame, "outcome", jsonx.AppendString(nil, string(b.Resolution.Outcome)))
	frame = member(frame, "by", jsonx.AppendString(nil, actorName(b.Resolution.By)))
	p.f.signals.send(wire, seq, frame)
}

func actorName(a event.Actor) string {
	if a.Name != "" {
		return a.Name
	}
	return a.Front
}

func (p *projection) beginFor(kind string, wire id.ID, room int) []byte {
	b := begin(kind, room+60)
	b = append(b, `,"sessionId":"`...)
	b = append(b, wire.String()...)
	return append(b, '"')
}

// send is a signal of a session with one member more.
func (p *projection) send(wire id.ID, seq uint64, kind, name string, value any) {
	v := encode(value)
	p.f.signals.send(wire, seq, member(p.beginFor(kind, wire, len(name)+len(v)+4), name, v))
}

// event is the signal of one event of the transcript.
func (p *projection) event(wire id.ID, seq uint64, ev any) { p.send(wire, seq, "event", "event", ev) }

func (p *projection) sessionSignal(kind string, st *state.State, chat *state.Chat) {
	p.send(wireID(p.sid, st.Default, chat.ID), st.Seq, kind, "session", p.f.objectOf(st, chat))
}
