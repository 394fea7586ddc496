package pi

import (
	"encoding/json"
	"fmt"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// listen handles what a process says until it has ended.
func (c *conversation) listen(p *process, m *mapper) {
	for r := range p.events {
		if frames := c.event(p, m, r); len(frames) > 0 {
			_ = c.out.Put(c.ctx, frames...) // fails once the conversation is closed
		}
	}
	_ = p.kill() // one that closed its output is of no use
	c.mu.Lock()
	t := c.turn
	mine := c.proc == p
	if mine {
		c.proc = nil
	}
	c.mu.Unlock()
	if mine && t != nil && t.sent {
		c.end(t, event.TurnFailed, &event.Error{Code: event.CodeAgentDied, Message: "pi ended in the middle of the turn: " + p.Exit(), Retryable: true})
	}
}

// event handles one record and returns the frames of it.
func (c *conversation) event(p *process, m *mapper, r *record) []agent.Frame {
	c.mu.Lock()
	t := c.turn
	c.mu.Unlock()
	switch r.Type {
	case "agent_start":
		return c.started(p, t)
	case "extension_ui_request":
		return c.dialog(p, m, t, r)
	}
	if t == nil {
		return nil // the end of what was given up
	}
	frames := m.frames(r)
	switch r.Type {
	case "message_start":
		if msg := r.message(); msg != nil && msg.Role == "user" {
			c.mu.Lock()
			if t.heard++; t.heard > 1 && len(t.steers) > 0 {
				frames = append(frames, agent.Frame{Kind: agent.Steered, Message: t.steers[0]})
				t.steers = t.steers[1:]
			}
			c.mu.Unlock()
		}
	case "agent_end":
		c.runEnded(t, m)
	case "auto_retry_start", "compaction_start":
		c.mu.Lock()
		c.stopRetry(t)
		c.mu.Unlock()
	case "compaction_end":
		if len(frames) > 0 {
			_ = c.out.Put(c.ctx, frames...) // before the turn's end
		}
		c.compacted(t, r.WillRetry)
		return nil
	case "auto_retry_end":
		if !r.Success {
			c.end(t, event.TurnFailed, wentWrong(r.FinalError))
		}
	case "extension_error":
		return notice("warning", "extension_error", "an extension of pi's failed: "+r.Error)
	case tooLongRecord:
		return notice("warning", "truncated", "something that pi said was left out: "+r.Error)
	}
	return frames
}

func (c *conversation) stopRetry(t *turn) {
	c.stopTimer(t.retry)
	t.retry = nil
}

// started: pi works, on the prompt or by itself.
func (c *conversation) started(p *process, t *turn) []agent.Frame {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t == nil || c.turn != t {
		if c.turn != nil || c.closed {
			return nil
		}
		c.turn = &turn{sent: true, runs: true, heard: 1, dialogs: map[string]*openDialog{}}
		return []agent.Frame{{Kind: agent.TurnStart, Text: "pi works on by itself"}}
	}
	t.runs, t.cause = true, nil
	c.stopRetry(t)
	early := t.early
	t.early = nil
	var frames []agent.Frame
	for _, m := range early {
		if t.cancelled || c.steer(t, p, m) != nil {
			frames = append(frames, agent.Frame{Kind: agent.Unsteered, Message: m.Message})
		}
	}
	if t.cancelled {
		c.wg.Go(func() { c.abort(p) })
	}
	return frames
}

// runEnded is the end of the turn, unless pi tries again.
func (c *conversation) runEnded(t *turn, m *mapper) {
	stopped, text := m.why()
	if stopped == "aborted" {
		c.end(t, event.TurnCancelled, nil)
		return
	}
	if stopped != "error" {
		c.end(t, event.TurnComplete, nil)
		return
	}
	// pi tries again, or makes the conversation shorter first.
	e := wentWrong(text)
	c.unlessAgain(t, e, e.Retryable || e.Code == event.CodeOverflow)
}

// unlessAgain fails the turn: at once, or if it may be, unless pi goes on.
func (c *conversation) unlessAgain(t *turn, e *event.Error, may bool) {
	c.mu.Lock()
	again := may && !t.cancelled && c.turn == t
	if again {
		c.stopRetry(t)
		t.cause = e
		t.retry = c.after(t, retryWait, func() { c.end(t, event.TurnFailed, e) })
	}
	c.mu.Unlock()
	if !again {
		c.end(t, event.TurnFailed, e)
	}
}

// compacted: pi has tried to make a conversation shorter whose run may have
// failed because it was too long.
func (c *conversation) compacted(t *turn, again bool) {
	c.mu.Lock()
	cause := t.cause
	c.mu.Unlock()
	if cause != nil {
		c.unlessAgain(t, cause, again)
	}
}

// dialog is a question of the gate, or of another extension.
func (c *conversation) dialog(p *process, m *mapper, t *turn, r *record) []agent.Frame {
	var frames []agent.Frame
	d := &openDialog{ask: r.Method, options: r.Options}
	var g dialog
	switch r.Method {
	case "input", "select", "confirm", "editor":
		if r.Method == "input" && json.Unmarshal([]byte(r.Title), &g) == nil && g.Polyhost == 1 {
			d.ask, d.call = g.Ask, g.Call
		}
	case "notify":
		if t == nil {
			return nil
		}
		level := "info"
		if r.NotifyAs == "warning" || r.NotifyAs == "error" {
			level = r.NotifyAs
		}
		return notice(level, "extension", r.text())
	default:
		return nil // decoration of a terminal
	}
	c.mu.Lock()
	open := t != nil && c.turn == t && !t.cancelled
	if open {
		t.dialogs[r.ID] = d
	}
	c.mu.Unlock()
	if !open {
		_ = p.tell(object{"type": "extension_ui_response", "id": r.ID, "cancelled": true})
		return nil
	}
	switch d.ask {
	case "permission":
		return m.permission(r.ID, &g)
	case "call":
		return m.clientCall(r.ID, &g)
	}
	q := event.QuestionItem{ID: r.ID, Text: r.Title, FreeText: r.Method == "input" || r.Method == "editor"}
	if text := r.text(); text != "" {
		q.Text += "\n" + text
	}
	for _, o := range r.Options {
		q.Options = append(q.Options, event.QuestionOption{Label: o})
	}
	if r.Method == "confirm" {
		q.Options = []event.QuestionOption{{Label: yes}, {Label: no}}
	}
	return append(frames, agent.Frame{Kind: agent.Ask, Request: r.ID, Questions: []event.QuestionItem{q}})
}

// The options of a dialog that is to be confirmed.
const (
	yes = "Yes"
	no  = "No"
)

// text is a dialog's message.
func (r *record) text() string {
	var s string
	_ = json.Unmarshal(r.Message, &s)
	return s
}

// answerTo is what pi is told, nil when the dialog is dismissed.
func (d *openDialog) answerTo(r event.Resolution) object {
	switch d.ask {
	case "permission":
		return object{"value": encode(object{"allow": r.Outcome == event.Allowed, "reason": r.Reason, "input": r.Input})}
	case "call":
		if r.Outcome != event.Completed {
			return object{"value": encode(object{"output": fmt.Sprintf("the call was not carried out: %s", r.Outcome), "failed": true})}
		}
		return object{"value": encode(object{"output": r.Output, "failed": r.Failed})}
	}
	if r.Outcome != event.Answered || len(r.Answers) == 0 {
		return nil
	}
	a := r.Answers[0]
	value := a.Text
	if len(a.Selected) > 0 {
		value = a.Selected[0]
	}
	switch {
	case d.ask == "confirm":
		return object{"confirmed": value == yes}
	case value == "":
		return nil
	}
	return object{"value": value}
}

func encode(o object) string {
	if raw, ok := o["input"].(json.RawMessage); ok && len(raw) == 0 {
		delete(o, "input")
	}
	b, err := json.Marshal(o)
	if err != nil {
		return "{}"
	}
	return string(b)
}
