package ahp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
	if err == nil {
		err = a.conn.front.attachChats(ctx, in)
	}
	if err != nil {
		return err
	}
	_, c := a.current()
	if c == nil {
		return errNowhere
	}
	if activeTurn(c, p.TurnID) != nil || slices.ContainsFunc(c.Turns, func(t *state.Turn) bool { return turnID(t) == p.TurnID }) {
		// Not unchanged: to hear it again would empty the turn for its sender.
		return refusal("that turn was started already")
	}
	prompt := in.prompt(a.place.chat, a.conn.actor())
	prompt.TurnAlias, prompt.Busy = p.TurnID, host.BusyRefuse
	a.conn.lendTo(a.live.session())
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
	return a.change(ctx, key, func() error {
		stopped, err := a.live.session().Interrupt(ctx, host.Interrupt{Chat: a.place.chat, Turn: t.ID, By: a.conn.actor(), KeepQueue: true})
		if err == nil && !stopped {
			return errUnchanged
		}
		return err
	})
}

// resumeTurn has the agent go on with the last turn, which failed. One that
// somebody else has resumed already runs.
func (a *action) resumeTurn(ctx context.Context) error {
	var p struct {
		TurnID string `json:"turnId" jsonx:"required"`
	}
	if err := decode(a.raw, &p, "action"); err != nil {
		return err
	}
	_, c := a.current()
	if c == nil {
		return errNowhere
	}
	if t := activeTurn(c, p.TurnID); t != nil && t.Failures() > 0 {
		return errUnchanged
	}
	if c.Active != nil {
		return refusal("a turn is running")
	}
	n := len(c.Turns)
	if n == 0 || turnID(c.Turns[n-1]) != p.TurnID {
		return refusal("only the last turn can be resumed")
	}
	t := c.Turns[n-1]
	a.conn.lendTo(a.live.session())
	return a.change(ctx, "resume:"+t.ID.String()+a.who(), func() error {
		err := a.live.session().ResumeTurn(ctx, a.place.chat, t.ID, a.conn.actor())
		if _, c := a.current(); errors.Is(err, host.ErrBusy) && activeTurn(c, p.TurnID) != nil {
			return errUnchanged // somebody was quicker
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
	if err == nil {
		err = a.conn.front.attachChats(ctx, in)
	}
	if err != nil {
		return err
	}
	_, c := a.current()
	if c == nil {
		return errNowhere
	}
	s := a.live.session()
	rich := encode(richMessage{Message: in.raw})
	if old := waitingMessage(c, p.Kind, p.ID); !old.IsNil() {
		if slices.ContainsFunc(slices.Concat(c.Queue, c.Steering), func(m event.Message) bool {
			return m.ID == old && m.By.Front == front && bytes.Equal(m.Rich, rich)
		}) {
			return errUnchanged
		}
		return a.change(ctx, "queue:"+old.String(), func() error {
			return s.UpdateQueued(ctx, a.place.chat, event.Message{ID: old, Text: in.text, Command: in.command(), Attachments: in.attachments,
				Settings: in.settings, KeepEffort: true, Rich: rich})
		})
	}
	if p.Kind == kindSteering && len(c.Steering) > 0 { // there is one at a time
		if _, err := s.RemoveQueued(ctx, a.place.chat, c.Steering[len(c.Steering)-1].ID, a.conn.actor()); err != nil {
			return err
		}
	}
	prompt := in.prompt(a.place.chat, a.conn.actor())
	prompt.MessageAlias = p.ID
	a.conn.lendTo(s)
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
	return a.change(ctx, "unqueue:"+m.String(), func() error {
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
	inPlace := true // what is named is what the queue begins with
	for _, name := range p.Order {
		if m := waitingMessage(c, kindQueued, name); !m.IsNil() && !slices.Contains(order, m) {
			inPlace = inPlace && c.Queue[len(order)].ID == m
			order = append(order, m)
		}
	}
	if inPlace {
		return errUnchanged
	}
	return a.change(ctx, "order:"+a.chatKey(), func() error {
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
		var m sentMessage
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
	return a.change(ctx, "draft:"+a.chatKey(), func() error { return a.live.session().SetDraft(ctx, a.place.chat, d) })
}
