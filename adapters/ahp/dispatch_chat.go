package ahp

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
	"github.com/polyhost/polyhost/transports/jsonx"
)

func (a *action) startTurn(ctx context.Context) error {
	var p struct {
		TurnID          string          `json:"turnId" jsonx:"required"`
		StartedAt       string          `json:"startedAt" jsonx:"required"`
		Message         json.RawMessage `json:"message" jsonx:"required"`
		QueuedMessageID *string         `json:"queuedMessageId"`
	}
	if err := decode(a.raw, &p, "action"); err != nil {
		return err
	}
	switch {
	case p.TurnID == "":
		return refusal("action.turnId: must not be empty")
	case !isTimestamp(p.StartedAt):
		return refusal("action.startedAt: want an ISO 8601 timestamp")
	case p.QueuedMessageID != nil:
		return refusal("only the host starts a queued message")
	}
	in, err := readMessage(p.Message)
	if err != nil {
		return err
	}
	_, c := a.current()
	if c == nil {
		return errNowhere
	}
	if activeTurn(c, p.TurnID) != nil || slices.ContainsFunc(c.Turns, func(t *state.Turn) bool { return turnID(t) == p.TurnID }) {
		return errUnchanged // sent twice
	}
	prompt := in.prompt(a.place.chat, a.conn.actor())
	prompt.TurnAlias, prompt.Busy = p.TurnID, host.BusyRefuse
	prompt.Rich = encode(richMessage{Message: in.raw, StartedAt: p.StartedAt})
	return a.expect("turn:"+prompt.Turn.String(), func() error {
		_, err := a.live.session().Prompt(ctx, prompt)
		if errors.Is(err, host.ErrBusy) {
			return refusal("a turn is running: queue the message, or cancel the turn first")
		}
		return err
	})
}

// cancelTurn stops the turn of that name. One that does not run is stopped
// already: that changes nothing.
func (a *action) cancelTurn(ctx context.Context) error {
	var p struct {
		TurnID   string   `json:"turnId" jsonx:"required"`
		Duration *float64 `json:"duration" jsonx:"required"`
	}
	if err := decode(a.raw, &p, "action"); err != nil {
		return err
	}
	_, c := a.current()
	t := activeTurn(c, p.TurnID)
	if t == nil {
		return errUnchanged
	}
	key := "end:" + t.ID.String()
	return a.expect(key, func() error {
		stopped, err := a.live.session().Interrupt(ctx, host.Interrupt{Chat: a.place.chat, Turn: t.ID, By: a.conn.actor(), KeepQueue: true})
		if err == nil && !stopped {
			return errUnchanged
		}
		return err
	})
}

// call finds an open interaction of a call of the running turn.
func (a *action) call(turn, call string, kind event.InteractionKind) (*event.Interaction, *event.Part, error) {
	st, c := a.current()
	t := activeTurn(c, turn)
	if t == nil {
		return nil, nil, refusal("that turn is not running")
	}
	p := t.Call(call)
	if p == nil {
		return nil, nil, refusal("the turn has no such call")
	}
	for _, i := range st.Open {
		if i.Kind == kind && i.Part == p.ID {
			return i, p, nil
		}
	}
	return nil, p, nil
}

// confirmCall answers an approval. It is void unless the call waits for one
// and its turn runs.
func (a *action) confirmCall(ctx context.Context) error {
	var p struct {
		TurnID           string          `json:"turnId" jsonx:"required"`
		ToolCallID       string          `json:"toolCallId" jsonx:"required"`
		Approved         *bool           `json:"approved" jsonx:"required"`
		EditedToolInput  *string         `json:"editedToolInput"`
		ReasonMessage    json.RawMessage `json:"reasonMessage"`
		SelectedOptionID string          `json:"selectedOptionId"`
	}
	if err := decode(a.raw, &p, "action"); err != nil {
		return err
	}
	i, part, err := a.call(p.TurnID, p.ToolCallID, event.Approval)
	if err != nil {
		return err
	}
	if i == nil {
		return a.confirmClientCall(ctx, part, *p.Approved)
	}
	res := event.Resolution{Outcome: event.Denied, By: a.conn.actor(), Reason: words(p.ReasonMessage)}
	if *p.Approved {
		res.Outcome, res.Scope = event.Allowed, event.ScopeOnce
		if s := event.Scope(p.SelectedOptionID); slices.Contains(i.Scopes, s) {
			res.Scope = s
		}
		if p.EditedToolInput != nil {
			if jsonx.Check([]byte(*p.EditedToolInput), 0, 0) != nil || jsonx.Kind([]byte(*p.EditedToolInput)) != "object" {
				return refusal("action.editedToolInput: want a JSON object as text")
			}
			res.Input = json.RawMessage(*p.EditedToolInput)
		}
	}
	return a.expect("confirm:"+part.ID.String(), func() error { return a.live.session().Resolve(ctx, i.ID, res) })
}

// confirmClientCall takes the word of a client on a call that it is to run:
// yes is known already, no ends the call.
func (a *action) confirmClientCall(ctx context.Context, part *event.Part, approved bool) error {
	if part.Tool.Client.Client == "" || part.Tool.Status != event.CallRunning {
		return refusal("that call does not wait for a confirmation")
	}
	if approved {
		return errUnchanged
	}
	if !a.runs(part) {
		return refusal("another client runs that call")
	}
	return a.finishCall(ctx, part, event.Resolution{Outcome: event.Completed, By: a.conn.actor(), Failed: true,
		Output: "the client does not run this tool"})
}

// runs reports whether a call is this client's to run.
func (a *action) runs(part *event.Part) bool {
	return part.Tool.Client.Front == front && part.Tool.Client.Client == a.who()
}

func (a *action) finishCall(ctx context.Context, part *event.Part, res event.Resolution) error {
	st, _ := a.current()
	for _, i := range st.Open {
		if i.Kind == event.ClientCall && i.Part == part.ID {
			return a.expect("call:"+part.ID.String(), func() error { return a.live.session().Resolve(ctx, i.ID, res) })
		}
	}
	return refusal("that call is over")
}

// words are the text of a string or of {markdown}.
func words(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var m struct {
		Markdown string `json:"markdown"`
	}
	_ = json.Unmarshal(raw, &m) // neither: nothing was said
	return m.Markdown
}

// completeCall takes the result of a tool that the client runs.
func (a *action) completeCall(ctx context.Context) error {
	var p struct {
		TurnID     string `json:"turnId" jsonx:"required"`
		ToolCallID string `json:"toolCallId" jsonx:"required"`
		Result     struct {
			Success          *bool             `json:"success" jsonx:"required"`
			PastTenseMessage json.RawMessage   `json:"pastTenseMessage"`
			Content          []json.RawMessage `json:"content"`
			Structured       json.RawMessage   `json:"structuredContent"`
			Error            *struct {
				Message string `json:"message"`
			} `json:"error"`
		} `json:"result" jsonx:"required"`
	}
	if err := decode(a.raw, &p, "action"); err != nil {
		return err
	}
	_, part, err := a.call(p.TurnID, p.ToolCallID, event.ClientCall)
	if err != nil {
		return err
	}
	if !a.runs(part) {
		return refusal("only the client that runs a call may complete it")
	}
	out := contentText(p.Result.Content)
	if out == "" && p.Result.Error != nil {
		out = p.Result.Error.Message
	}
	if out == "" && jsonx.Kind(p.Result.Structured) == "object" {
		out = string(p.Result.Structured)
	}
	return a.finishCall(ctx, part, event.Resolution{Outcome: event.Completed, By: a.conn.actor(), Failed: !*p.Result.Success, Output: out})
}

// contentText is the text of a result's content.
func contentText(content []json.RawMessage) string {
	var b strings.Builder
	for _, raw := range content {
		var c struct {
			Type string `json:"type"`
			Text string `json:"text"`
			URI  string `json:"uri"`
		}
		if jsonx.DecodeChecked(raw, &c) != nil {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		switch c.Type {
		case "text":
			b.WriteString(c.Text)
		case "resource":
			b.WriteString(c.URI)
		}
	}
	return b.String()
}

// callProgress relays what a client's running tool shows; the host keeps none
// of it.
func (a *action) callProgress(ctx context.Context) error {
	var p struct {
		TurnID     string            `json:"turnId" jsonx:"required"`
		ToolCallID string            `json:"toolCallId" jsonx:"required"`
		Content    []json.RawMessage `json:"content" jsonx:"required"`
	}
	if err := decode(a.raw, &p, "action"); err != nil {
		return err
	}
	i, part, err := a.call(p.TurnID, p.ToolCallID, event.ClientCall)
	if err != nil {
		return err
	}
	if !a.runs(part) || i == nil {
		return refusal("only the client that runs a call may say what it shows")
	}
	a.live.mu.Lock()
	defer a.live.mu.Unlock()
	a.live.say(a.place.chat, &a.origin, func(*renderer) any { return a.raw })
	return nil
}

// question finds an open question of the chat.
func (a *action) question(requestID string) (*event.Interaction, error) {
	st, _ := a.current()
	for _, i := range st.Open {
		if i.Kind == event.Question && i.Chat == a.place.chat && i.ID.String() == requestID {
			return i, nil
		}
	}
	return nil, refusal("no such request is open")
}

type inputAnswer struct {
	State          string          `json:"state" jsonx:"required"`
	Value          json.RawMessage `json:"value"`
	FreeformValues []string        `json:"freeformValues"`
}

// readAnswer makes the core's answer of the protocol's, for a question.
func readAnswer(q *event.QuestionItem, raw json.RawMessage) (event.Answer, string, error) {
	out := event.Answer{ID: q.ID}
	var in inputAnswer
	if err := decode(raw, &in, "answers."+clip(q.ID)); err != nil {
		return out, "", err
	}
	if in.State == "skipped" {
		return out, in.State, nil
	}
	if in.State != "draft" && in.State != "submitted" {
		return out, "", refusal("answers." + clip(q.ID) + ".state: want draft, submitted or skipped")
	}
	var v struct {
		Kind           string          `json:"kind" jsonx:"required"`
		Value          json.RawMessage `json:"value" jsonx:"required"`
		FreeformValues []string        `json:"freeformValues"`
	}
	if err := decode(in.Value, &v, "answers."+clip(q.ID)+".value"); err != nil {
		return out, "", err
	}
	bad := refusal("answers." + clip(q.ID) + ".value: does not fit the question")
	switch v.Kind {
	case "text":
		if len(q.Options) > 0 && !q.FreeText || json.Unmarshal(v.Value, &out.Text) != nil {
			return out, "", bad
		}
	case "number", "boolean":
		if len(q.Options) > 0 {
			return out, "", bad
		}
		out.Text = string(v.Value)
	case "selected":
		var s string
		if json.Unmarshal(v.Value, &s) != nil || len(q.Options) == 0 {
			return out, "", bad
		}
		if s != "" {
			out.Selected = []string{s}
		}
	case "selected-many":
		if json.Unmarshal(v.Value, &out.Selected) != nil || !q.Multiple {
			return out, "", bad
		}
	default:
		return out, "", bad
	}
	if len(v.FreeformValues) > 0 {
		if !q.FreeText {
			return out, "", bad
		}
		out.Text = strings.Join(v.FreeformValues, "\n")
	}
	for _, s := range out.Selected {
		if !slices.ContainsFunc(q.Options, func(o event.QuestionOption) bool { return o.Label == s }) {
			if !q.FreeText {
				return out, "", bad
			}
			out.Text, out.Selected = s, slices.DeleteFunc(out.Selected, func(x string) bool { return x == s })
			break
		}
	}
	return out, in.State, nil
}

// changeAnswer shares an answer that is being typed.
func (a *action) changeAnswer(context.Context) error {
	var p struct {
		RequestID  string          `json:"requestId" jsonx:"required"`
		QuestionID string          `json:"questionId" jsonx:"required"`
		Answer     json.RawMessage `json:"answer"`
	}
	if err := decode(a.raw, &p, "action"); err != nil {
		return err
	}
	i, err := a.question(p.RequestID)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(i.Questions, func(q event.QuestionItem) bool { return q.ID == p.QuestionID })
	if at < 0 {
		return refusal("the request has no such question")
	}
	given := len(p.Answer) > 0 && string(p.Answer) != "null"
	if given {
		if _, _, err := readAnswer(&i.Questions[at], p.Answer); err != nil {
			return err
		}
		if i.Questions[at].Secret {
			return refusal("a secret is not shared while it is typed")
		}
	}
	return a.look(func(st *state.State, _ *state.Chat) error {
		if st.Interaction(i.ID) == nil {
			return refusal("no such request is open")
		}
		l := a.live
		v := l.asks[i.ID]
		if v == nil {
			v = &askView{}
			l.asks[i.ID] = v
		}
		answers := maps.Clone(v.answers) // snapshots share the old one
		if answers == nil {
			answers = map[string]json.RawMessage{}
		}
		if given {
			answers[p.QuestionID] = p.Answer
		} else {
			delete(answers, p.QuestionID)
		}
		v.answers = none(answers)
		l.say(a.place.chat, &a.origin, func(*renderer) any { return a.raw })
		l.say(id.Nil, nil, func(r *renderer) any {
			return map[string]any{"type": "session/inputNeededSet", "request": r.needs(i)}
		})
		return nil
	})
}

// completeInput answers a question.
func (a *action) completeInput(ctx context.Context) error {
	var p struct {
		RequestID string                     `json:"requestId" jsonx:"required"`
		Response  string                     `json:"response" jsonx:"required"`
		Answers   map[string]json.RawMessage `json:"answers"`
	}
	if err := decode(a.raw, &p, "action"); err != nil {
		return err
	}
	i, err := a.question(p.RequestID)
	if err != nil {
		return err
	}
	res := event.Resolution{Outcome: event.Declined, By: a.conn.actor()}
	switch p.Response {
	case "decline", "cancel":
	case "accept":
		res.Outcome = event.Answered
		if res.Answers, res.Rich, err = a.answersTo(i, p.Answers); err != nil {
			return err
		}
	default:
		return refusal("action.response: want accept, decline or cancel")
	}
	return a.expect("input:"+i.ID.String(), func() error { return a.live.session().Resolve(ctx, i.ID, res) })
}

// answersTo lays the given answers over those that were typed, and reads them.
func (a *action) answersTo(i *event.Interaction, given map[string]json.RawMessage) ([]event.Answer, json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	a.live.mu.Lock()
	if v := a.live.asks[i.ID]; v != nil {
		maps.Copy(all, v.answers)
	}
	a.live.mu.Unlock()
	maps.Copy(all, given)
	var out []event.Answer
	secret, whole := false, maps.Clone(all)
	for n := range i.Questions {
		q := &i.Questions[n]
		secret = secret || q.Secret
		raw, ok := all[q.ID]
		delete(all, q.ID)
		if !ok {
			continue
		}
		answer, state, err := readAnswer(q, raw)
		if err != nil {
			return nil, nil, err
		}
		if state != "skipped" {
			out = append(out, answer)
		}
	}
	for name := range all {
		return nil, nil, refusal("the request has no question " + clip(name))
	}
	if secret || len(whole) == 0 {
		return out, nil, nil
	}
	return out, encode(whole), nil
}

// setPending queues a message or gives it to the running turn. A message of a
// name that waits already is replaced.
func (a *action) setPending(ctx context.Context) error {
	var p struct {
		Kind    string          `json:"kind" jsonx:"required"`
		ID      string          `json:"id" jsonx:"required"`
		Message json.RawMessage `json:"message" jsonx:"required"`
	}
	if err := decode(a.raw, &p, "action"); err != nil {
		return err
	}
	if p.Kind != kindSteering && p.Kind != kindQueued {
		return refusal("action.kind: want steering or queued")
	}
	in, err := readMessage(p.Message)
	if err != nil {
		return err
	}
	_, c := a.current()
	if c == nil {
		return errNowhere
	}
	s := a.live.session()
	if old := waitingMessage(c, p.Kind, p.ID); !old.IsNil() {
		return a.expect("queue:"+old.String(), func() error {
			return s.UpdateQueued(ctx, a.place.chat, event.Message{ID: old, Text: in.text, Attachments: in.attachments,
				Settings: in.settings, Rich: encode(richMessage{Message: in.raw})})
		})
	}
	if p.Kind == kindSteering && len(c.Steering) > 0 { // there is one at a time
		if _, err := s.RemoveQueued(ctx, a.place.chat, c.Steering[len(c.Steering)-1].ID, a.conn.actor()); err != nil {
			return err
		}
	}
	prompt := in.prompt(a.place.chat, a.conn.actor())
	prompt.MessageAlias = p.ID
	if p.Kind == kindSteering {
		prompt.Busy = host.BusySteer
	}
	return a.expect("queue:"+prompt.MessageID.String(), func() error {
		_, err := s.Prompt(ctx, prompt)
		return err
	})
}

func (a *action) removePending(ctx context.Context) error {
	var p struct {
		Kind string `json:"kind" jsonx:"required"`
		ID   string `json:"id" jsonx:"required"`
	}
	if err := decode(a.raw, &p, "action"); err != nil {
		return err
	}
	_, c := a.current()
	if c == nil {
		return errNowhere
	}
	m := waitingMessage(c, p.Kind, p.ID)
	if m.IsNil() {
		return refusal("no such message waits")
	}
	return a.expect("unqueue:"+m.String(), func() error {
		removed, err := a.live.session().RemoveQueued(ctx, a.place.chat, m, a.conn.actor())
		if err == nil && !removed {
			return refusal("no such message waits")
		}
		return err
	})
}

func (a *action) reorderPending(ctx context.Context) error {
	var p struct {
		Order []string `json:"order" jsonx:"required"`
	}
	if err := decode(a.raw, &p, "action"); err != nil {
		return err
	}
	_, c := a.current()
	if c == nil {
		return errNowhere
	}
	if len(c.Queue) == 0 {
		return errUnchanged
	}
	var order []id.ID
	for _, name := range p.Order {
		if m := waitingMessage(c, kindQueued, name); !m.IsNil() && !slices.Contains(order, m) {
			order = append(order, m)
		}
	}
	return a.expect("order:"+a.chatKey(), func() error {
		return a.live.session().ReorderQueue(ctx, a.place.chat, order, a.conn.actor())
	})
}

// changeDraft shares the message that is being typed.
func (a *action) changeDraft(ctx context.Context) error {
	var p struct {
		Draft json.RawMessage `json:"draft"`
	}
	if err := decode(a.raw, &p, "action"); err != nil {
		return err
	}
	d := &event.DraftChanged{By: a.conn.actor()}
	if len(p.Draft) > 0 && string(p.Draft) != "null" {
		var m struct {
			Text *string `json:"text" jsonx:"required"`
		}
		if err := decode(p.Draft, &m, "action.draft"); err != nil {
			return err
		}
		d.Text, d.Rich = *m.Text, p.Draft
	}
	_, c := a.current()
	switch {
	case c == nil:
		return errNowhere
	case c.Draft == nil && d.Text == "" && d.Rich == nil, c.Draft != nil && c.Draft.Text == d.Text && string(c.Draft.Rich) == string(d.Rich):
		return errUnchanged
	}
	return a.expect("draft:"+a.chatKey(), func() error { return a.live.session().SetDraft(ctx, a.place.chat, d) })
}
