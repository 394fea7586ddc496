package ahp

import (
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/polyhost/polyhost/adapters/ahp/reduce"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
	"github.com/polyhost/polyhost/transports/jsonx"
)

func stamp(t time.Time) string { return t.UTC().Format(reduce.TimeFormat) }

// richMessage is what this front keeps with a message: the client's own form.
type richMessage struct {
	Message   json.RawMessage `json:"message"`
	StartedAt string          `json:"startedAt,omitempty"`
}

func richOf(m *event.Message) (r richMessage) {
	if m.By.Front == front && len(m.Rich) > 0 {
		_ = json.Unmarshal(m.Rich, &r) // we wrote it
	}
	return r
}

// turnID is a turn's name here: what the client that started it chose.
func turnID(t *state.Turn) string { return turnName(t.ID, &t.Message) }

func turnName(turn id.ID, m *event.Message) string {
	if m.By.Front == front && m.TurnAlias != "" {
		return m.TurnAlias
	}
	return turn.String()
}

// messageID is a waiting message's name here.
func messageID(m *event.Message) string {
	if m.By.Front == front && m.Alias != "" {
		return m.Alias
	}
	return m.ID.String()
}

// message is what somebody said: in the client's own form if it came through
// this front.
func message(m *event.Message) json.RawMessage {
	if r := richOf(m); len(r.Message) > 0 {
		return signed(r.Message, m.By.User)
	}
	shape := messageShape{Text: m.Text, Origin: kindOnly{"user"}}
	switch {
	case m.System:
		shape.Origin.Kind = "systemNotification"
	case m.By.Front == byAgent:
		shape.Origin.Kind = "agent"
	}
	if m.Settings.Model != "" {
		shape.Model = &modelSelection{ID: m.Settings.Model}
	}
	for i := range m.Attachments {
		shape.Attachments = append(shape.Attachments, attachment(&m.Attachments[i]))
	}
	return signed(encode(shape), m.By.User)
}

func attachment(a *event.Attachment) attachmentShape {
	s := attachmentShape{Type: "simple", Label: a.Name}
	switch {
	case a.Path != "":
		s.Type, s.URI, s.DisplayKind = "resource", fileURI(a.Path), "document"
	case a.Kind == event.AttachText:
		s.ModelRepresentation = a.Text
	case len(a.Data) > 0:
		s.Type, s.Data, s.ContentType = "embeddedResource", base64.StdEncoding.EncodeToString(a.Data), a.MIME
	}
	if s.Label == "" {
		s.Label = a.Kind
	}
	return s
}

// startedAt is when a turn began: in the words of the client that began it.
func startedAt(m *event.Message, at time.Time) string {
	if s := richOf(m).StartedAt; s != "" {
		return s
	}
	return stamp(at)
}

func milliseconds(d time.Duration) int64 { return max(0, d.Milliseconds()) }

func usage(u event.Usage, context event.ContextReported) *usageShape {
	if u == (event.Usage{}) && context == (event.ContextReported{}) {
		return nil
	}
	s := &usageShape{InputTokens: u.Input, OutputTokens: u.Output, Model: u.Model, CacheReadTokens: u.CacheRead}
	more := map[string]any{}
	if u.CacheWrite != 0 {
		more["ahpd.cacheWriteTokens"] = u.CacheWrite
	}
	if u.Reasoning != 0 {
		more["ahpd.reasoningTokens"] = u.Reasoning
	}
	if u.CostUSD != 0 {
		more["ahpd.cost"] = map[string]any{"amount": u.CostUSD, "currency": "USD"}
	}
	if context != (event.ContextReported{}) {
		full := map[string]any{"used": context.Used}
		if context.Window != 0 {
			full["size"] = context.Window
		}
		more["ahpd.context"] = full
	}
	if len(more) > 0 {
		s.Meta = more
	}
	return s
}

// renderer makes the shapes of one session in one spelling.
type renderer struct {
	speller speller
	st      *state.State // with the running turns at some position
	calls   map[id.ID]*callView
	asks    map[id.ID]*askView
	resumes bool // the session's agent can take up a conversation again
}

func (r *renderer) chatURI(chat id.ID) string {
	if c := r.st.Chat(chat); c != nil {
		return r.speller.chat(chat, r.st.Default, c.Aliases)
	}
	return r.speller.chat(chat, r.st.Default, nil)
}

// finished makes a turn that is over.
func (r *renderer) finished(chat id.ID, t *state.Turn) turnShape {
	ms := milliseconds(t.Duration)
	s := turnShape{ID: turnID(t), StartedAt: startedAt(&t.Message, t.StartedAt), Duration: &ms,
		Message: message(&t.Message), ResponseParts: r.parts(chat, t, false), Usage: usage(t.Usage, t.Context), State: "complete"}
	switch t.Status {
	case event.TurnCancelled:
		s.State = "cancelled"
	case event.TurnFailed:
		s.State = "error"
		s.ResponseParts = append(s.ResponseParts, failure(t.Error, t.Resumable))
	}
	return s
}

// running makes the active turn.
func (r *renderer) running(chat id.ID, t *state.Turn) *turnShape {
	return &turnShape{ID: turnID(t), StartedAt: startedAt(&t.Message, t.StartedAt),
		Message: message(&t.Message), ResponseParts: r.parts(chat, t, true), Usage: usage(t.Usage, t.Context)}
}

func failure(e *event.Error, resumable bool) errorPart {
	if e == nil {
		e = &event.Error{Code: event.CodeAgentFailed, Message: "the turn failed"}
	}
	return errorPart{Kind: "error", Error: errorInfo{ErrorType: e.Code, Message: e.Message}, Resumable: resumable}
}

// parts makes the parts of a turn, the questions asked between them included.
func (r *renderer) parts(chat id.ID, t *state.Turn, active bool) []any {
	out := make([]any, 0, len(t.Parts)+len(t.Asked))
	asked := t.Asked
	again, _ := t.Again()
	for i, p := range t.Parts {
		for len(asked) > 0 && asked[0].After <= i {
			out, asked = append(out, r.asked(asked[0])), asked[1:]
		}
		out = append(out, r.part(spot{chat, t.ID}, p, active && i >= again))
	}
	for _, a := range asked {
		out = append(out, r.asked(a))
	}
	return out
}

func (r *renderer) part(at spot, p *event.Part, active bool) any {
	switch p.Kind {
	case event.PartText:
		return textPart{"markdown", p.ID.String(), p.Text.String()}
	case event.PartReasoning:
		return textPart{"reasoning", p.ID.String(), p.Text.String()}
	case event.PartTool:
		if active {
			return toolPart{"toolCall", r.call(at, p, r.calls[p.ID])}
		}
		return toolPart{"toolCall", r.ended(at, p)}
	case event.PartImage:
		return image(p.Image)
	case event.PartMessage:
		return noticePart{Kind: "systemNotification", Content: p.Message.Text,
			Meta: map[string]any{"polyhost.steering": messageID(p.Message)}}
	}
	if p.Notice != nil && p.Notice.Ended != nil {
		return failure(&event.Error{Code: p.Notice.Code, Message: p.Notice.Text}, true)
	}
	n := noticePart{Kind: "systemNotification", Content: p.Text.String()}
	if p.Notice != nil {
		n.Content = p.Notice.Text
		n.Meta = map[string]any{"polyhost.level": p.Notice.Level, "polyhost.code": p.Notice.Code}
	}
	return n
}

func image(a *event.Attachment) refPart {
	s := refPart{Kind: "contentRef", ContentType: a.MIME, SizeHint: a.Size}
	switch {
	case a.Path != "":
		s.URI = fileURI(a.Path)
	default:
		s.URI = "data:" + a.MIME + ";base64," + base64.StdEncoding.EncodeToString(a.Data)
	}
	return s
}

// activityOf are the activity bits of a chat.
func (r *renderer) activityOf(c *state.Chat) uint32 {
	if c.Active == nil {
		if c.Failed() {
			return reduce.Failed
		}
		return reduce.Idle
	}
	for _, i := range r.st.Open {
		if i.Chat == c.ID && (i.Kind == event.Question || i.Kind == event.SignIn) {
			return reduce.InputNeeded
		}
	}
	for _, p := range c.Active.Parts {
		if p.Tool != nil && r.phase(p) == phasePending {
			return reduce.InputNeeded
		}
	}
	return reduce.Running
}

func (r *renderer) originOf(o event.Origin) *chatOrigin { return originOf(o, r.speller, r.st.Default) }

// originOf names the chat that another one comes from as it was called then: it
// may be gone.
func originOf(o event.Origin, sp speller, dflt id.ID) *chatOrigin {
	if o.Role == event.RoleDefault {
		dflt = o.Chat
	} else if o.Role == event.RoleOther {
		dflt = id.Nil
	}
	from := sp.chat(o.Chat, dflt, o.Aliases)
	turn := o.TurnAliases[front]
	if turn == "" {
		turn = o.Turn.String()
	}
	switch o.Kind {
	case event.OriginSubagent:
		return &chatOrigin{Kind: "tool", Chat: from, ToolCallID: o.Call}
	case event.OriginFork:
		return &chatOrigin{Kind: "fork", Chat: from, TurnID: turn}
	case event.OriginSide:
		side := &chatOrigin{Kind: "sideChat", Chat: from, TurnID: turn}
		if s := o.Selection; s != nil {
			side.Selection = &selectionShape{s.Text, s.Part}
		}
		return side
	}
	return &chatOrigin{Kind: "user"}
}

func interactivity(o event.Origin) string {
	if o.Kind == event.OriginSubagent {
		return "read-only"
	}
	return ""
}

// chatTitle is a chat's own title; the default chat has the session's.
func chatTitle(c *event.ChatInfo, info *event.SessionInfo, dflt id.ID) string {
	if c.Title == "" && c.ID == dflt {
		return info.Title
	}
	return c.Title
}

// head makes what lists show of a chat. read is the read mark as clients have
// it.
func (r *renderer) head(c *state.Chat, read bool) chatHead {
	h := chatHead{Resource: r.chatURI(c.ID), Title: chatTitle(&c.ChatInfo, &r.st.Info, r.st.Default), Status: r.activityOf(c),
		Activity: c.Doing(), ModifiedAt: modifiedAt(c), Origin: r.originOf(c.Origin), Interactivity: interactivity(c.Origin),
		Movable: r.movable(c)}
	if len(c.Dirs) > 0 {
		h.WorkingDirectories = dirURIs(c.Dirs)
	}
	if read {
		h.Status |= reduce.Read
	}
	if c.Archived {
		h.Status |= reduce.Archived
	}
	return h
}

// movable reports whether the chat may go to another place or session.
func (r *renderer) movable(c *state.Chat) bool {
	return r.resumes && c.ID != r.st.Default && c.Active == nil && c.Origin.Kind != event.OriginSubagent
}

// modifiedAt is what clients compute: the start of the running turn, or the end of
// the last one, which may have been taken away since. A turn that is resumed leaves
// it as it was.
func modifiedAt(c *state.Chat) string {
	if t := c.Active; t != nil && c.Rest == nil {
		start := startedAt(&t.Message, t.StartedAt)
		if _, failed := t.Again(); failed != nil {
			return reduce.EndTime(start, float64(milliseconds(failed.EndedAt.Sub(t.StartedAt))))
		}
		return start
	}
	t := c.Rest
	if t == nil {
		t = newestTurn(c)
	}
	if t != nil {
		return reduce.EndTime(startedAt(&t.Message, t.StartedAt), float64(milliseconds(t.Duration)))
	}
	return stamp(c.CreatedAt)
}

// newestTurn is the one that runs, or else the one that ended last, which may have
// been taken away since; nil when there was none.
func newestTurn(c *state.Chat) *state.Turn {
	n := len(c.Turns)
	switch {
	case c.Active != nil:
		return c.Active
	case c.Rest != nil || n == 0:
		return c.Rest
	}
	return c.Turns[n-1]
}

// sessionStatus are the bits of a session: its activity, read and archived.
func (r *renderer) sessionStatus() uint32 {
	status := uint32(reduce.Idle)
	if c := r.st.DefaultChat(); c != nil {
		status = r.activityOf(c)
	}
	for _, c := range r.st.Chats {
		status = max(status, r.activityOf(c))
	}
	if !r.st.Info.Unread {
		status |= reduce.Read
	}
	if r.st.Info.Archived {
		status |= reduce.Archived
	}
	return status
}

// encode writes JSON without the escapes for HTML, of values that cannot fail.
func encode(v any) json.RawMessage {
	b, err := jsonx.Encode(v)
	if err != nil {
		panic("ahp: encode: " + err.Error()) // our own shapes hold only what encodes
	}
	return b
}

// origin says whose dispatched action an action is.
type origin struct {
	client string
	seq    json.Number
}

func (o *origin) encoded() []byte {
	b := append([]byte(`{"clientId":`), jsonx.AppendString(nil, o.client)...)
	b = append(append(b, `,"clientSeq":`...), o.seq...)
	return append(b, '}')
}
