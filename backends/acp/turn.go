package acp

import (
	"encoding/json"
	"errors"
	"net/url"
	"time"

	"github.com/polyhost/polyhost/backends/internal/cli"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// ending is how a turn ended.
type ending struct {
	status event.TurnStatus
	err    *event.Error
	answer *promptAnswer
	notice *event.Notice
}

// run takes a turn from the prompt to its one end.
func (c *conversation) run(t *turn) {
	e := c.prompt(t)
	if t.ctx.Err() != nil {
		e.status, e.err = event.TurnCancelled, nil
	}
	// From here on the conversation is free for the next prompt, which waits
	// for this goroutine before it speaks.
	c.mu.Lock()
	if c.turn == t {
		c.turn = nil
	}
	asks := c.asks
	c.asks = map[string]*ask{}
	c.mu.Unlock()

	c.speaking.Lock()
	defer c.speaking.Unlock()
	for request, q := range asks {
		q.cancel()
		c.m.put(agent.Frame{Kind: agent.Withdrawn, Request: request})
	}
	c.m.end(e.answer, e.err)
	if e.notice != nil {
		c.m.put(agent.Frame{Kind: agent.Notice, Notice: e.notice})
	}
	c.m.put(agent.Frame{Kind: agent.TurnEnd, Turn: t.id, Status: e.status, Error: e.err})
	_ = c.out.Put(c.ctx, c.m.take()...)
}

func failed(e *event.Error) ending { return ending{status: event.TurnFailed, err: e} }

// prompt sends the message and waits for the agent's answer.
func (c *conversation) prompt(t *turn) ending {
	l, err := c.linked(t.ctx)
	if err != nil {
		return c.failed(err)
	}
	s := t.prompt.Settings
	if s == (event.Settings{}) {
		c.mu.Lock()
		s = c.settings
		c.mu.Unlock()
	}
	if err := l.apply(t.ctx, s); err != nil {
		if errors.Is(err, errDied) {
			return c.died(l)
		}
		return failed(&event.Error{Code: event.CodeBadRequest, Message: err.Error()})
	}
	blocks, err := l.blocks(t.prompt)
	if err != nil {
		return failed(&event.Error{Code: event.CodeBadAttachment, Message: err.Error()})
	}
	keep, err := l.proc.Processes()
	if err != nil {
		return failed(&event.Error{Code: event.CodeAgentError, Message: err.Error()})
	}
	c.speaking.Lock()
	c.m.begin()
	l.mu.Lock()
	c.m.model = l.currently(setModel)
	l.mu.Unlock()
	if l.note != c.noted {
		if c.noted = l.note; l.note != "" {
			c.m.put(agent.Frame{Kind: agent.Notice, Notice: &event.Notice{Level: "warning", Code: "mcp_not_approved", Text: l.note}})
			c.say()
		}
	}
	c.speaking.Unlock()
	ch, forget, err := l.start("session/prompt", promptRequest{Session: l.session, Prompt: blocks})
	if errors.Is(err, errDied) {
		return c.died(l)
	} else if err != nil {
		return c.failed(err)
	}
	defer forget()
	for {
		select {
		case r := <-ch:
			return c.answered(l, r)
		case a := <-t.answers:
			c.settle(t, a)
		case <-t.ctx.Done():
			c.interrupt(l, ch, keep)
			return ending{status: event.TurnCancelled}
		}
	}
}

// failed ends a turn for which there was no agent.
func (c *conversation) failed(err error) ending {
	var resume *resumeError
	if errors.As(err, &resume) {
		return failed(&event.Error{Code: codeResume, Message: err.Error()})
	}
	return failed(c.agent.turnError(err))
}

// died words the end of the agent's program.
func (c *conversation) died(l *link) ending {
	c.lost(l)
	return failed(&event.Error{Code: event.CodeAgentDied, Message: c.agent.Title + " ended: " + l.proc.Exit(), Retryable: true})
}

// answered reads how the agent ended the turn.
func (c *conversation) answered(l *link, r reply) ending {
	if errors.Is(r.err, errDied) {
		return c.died(l)
	}
	if r.err != nil {
		return failed(c.agent.turnError(r.err))
	}
	a := &promptAnswer{}
	if err := decode(r.result, a); err != nil {
		return failed(&event.Error{Code: event.CodeAgentError, Message: "the agent's answer is not what the protocol says"})
	}
	e := ending{status: event.TurnComplete, answer: a}
	switch a.StopReason {
	case "refusal":
		e.status, e.err = event.TurnFailed, &event.Error{Code: event.CodeRefusal, Message: "the model refused to answer"}
	case "max_turn_requests":
		e.status, e.err = event.TurnFailed, &event.Error{Code: event.CodeMaxTurns, Message: "the turn took more requests than the agent allows"}
	case "max_tokens":
		e.notice = &event.Notice{Level: "warning", Code: "max_tokens", Text: "the answer was cut at the model's output limit"}
	}
	// "cancelled" without an interrupt is how some agents end a turn in which
	// a call was denied: that is a whole turn.
	return e
}

// interrupt cancels the turn, by the next stronger means if the agent does not
// heed it, and ends what its commands left behind.
func (c *conversation) interrupt(l *link, ch <-chan reply, keep []cli.Process) {
	l.notify("session/cancel", map[string]string{"sessionId": l.session})
	c.mu.Lock()
	asks := c.asks
	c.asks = map[string]*ask{}
	c.mu.Unlock()
	for _, q := range asks {
		q.cancel()
	}
	timer := time.NewTimer(cancelBound)
	defer timer.Stop()
	select {
	case r := <-ch:
		if errors.Is(r.err, errDied) {
			c.lost(l)
			return
		}
	case <-timer.C:
		_ = l.proc.Kill() // lost says what does not end
		c.lost(l)
		return
	case <-c.ctx.Done():
		return // Close ends it all
	}
	c.speaking.Lock()
	running := c.m.running()
	c.speaking.Unlock()
	if !running {
		return
	}
	pause := time.NewTimer(strayBound)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-c.ctx.Done():
		return
	}
	if err := l.proc.EndOthers(keep); err != nil {
		_ = l.proc.Kill()
		c.lost(l)
	}
}

// blocks are the prompt's message as the agent can take it.
func (l *link) blocks(p agent.Prompt) ([]block, error) {
	caps := l.init.Capabilities.Prompt
	out := []block{{Type: "text", Text: p.Text}}
	for _, a := range p.Attachments {
		name := first(a.Name, a.Path, "attachment")
		uri := (&url.URL{Scheme: "file", Path: "/" + name}).String()
		if a.Path != "" {
			uri = (&url.URL{Scheme: "file", Path: a.Path}).String()
		}
		switch {
		case a.Kind == event.AttachImage && len(a.Data) > 0:
			if !caps.Image {
				return nil, errors.New(l.agent.Title + " takes no images")
			}
			out = append(out, block{Type: "image", MIME: first(a.MIME, "image/png"), Data: a.Data})
		case a.Text != "" && caps.Embedded:
			out = append(out, block{Type: "resource", Resource: &resource{URI: uri, MIME: first(a.MIME, "text/plain"), Text: a.Text}})
		case a.Text != "":
			out = append(out, block{Type: "text", Text: name + ":\n" + a.Text})
		case a.Path != "":
			out = append(out, block{Type: "resource_link", URI: uri, Name: name, MIME: a.MIME})
		case len(a.Data) > 0 && caps.Embedded:
			out = append(out, block{Type: "resource", Resource: &resource{URI: uri, MIME: a.MIME, Blob: a.Data}})
		default:
			return nil, errors.New(l.agent.Title + " cannot take " + name)
		}
	}
	return out, nil
}

// settle gives the agent an answer.
func (c *conversation) settle(t *turn, s settled) {
	allowed := s.res.Outcome == event.Allowed
	reason := s.res.Reason
	if allowed && len(s.res.Input) > 0 && !sameJSON(s.res.Input, s.ask.call.input) {
		allowed, reason = false, c.agent.Title+" cannot run a call with other input than its own"
	}
	option := permissionOption{}
	if s.ask.write == nil {
		option = choose(s.ask.options, allowed)
		allowed = allowed && option.ID != ""
	}
	c.speaking.Lock()
	switch {
	case !allowed:
		c.m.deny(s.ask.call, first(reason, "refused"))
	default:
		s.ask.call.ran = true
		if s.ask.call.folder {
			c.m.endCall(s.ask.call, &toolCall{Status: "completed"})
		}
		if option.Kind == "allow_always" {
			c.m.put(agent.Frame{Kind: agent.Notice, Notice: &event.Notice{Level: "warning", Code: "allowed_always",
				Text: "the agent offered no way to allow this once: it will not ask for such a call again"}})
		}
	}
	frames := c.m.take()
	_ = c.out.Put(t.ctx, frames...)
	c.speaking.Unlock()
	switch {
	case s.ask.write != nil:
		c.write(s.ask, allowed)
	case option.ID == "":
		s.ask.cancel()
	default:
		s.ask.link.answer(s.ask.id, permissionAnswer{permissionOutcome{Outcome: "selected", Option: option.ID}})
	}
}

// choose picks the option that settles this call alone.
func choose(options []permissionOption, allow bool) permissionOption {
	kinds := []string{"reject_once", "reject_always"}
	if allow {
		kinds = []string{"allow_once", "allow_always"}
	}
	for _, kind := range kinds {
		for _, o := range options {
			if o.Kind == kind {
				return o
			}
		}
	}
	return permissionOption{}
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	i, err := json.Marshal(x)
	if err != nil {
		return false
	}
	j, err := json.Marshal(y)
	return err == nil && string(i) == string(j)
}

// cancel tells the agent that nobody will answer.
func (q *ask) cancel() {
	if q.write != nil {
		q.link.refuse(q.id, codeInternal, "the write was not allowed")
		return
	}
	q.link.answer(q.id, permissionAnswer{permissionOutcome{Outcome: "cancelled"}})
}
