package codex

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// run hands a prompt to the program, which is started if need be.
func (c *conversation) run(t *turn) {
	if err := c.ensure(c.ctx); err != nil {
		c.fail(t, err)
		return
	}
	c.mu.Lock()
	l, stop := c.link, t.interrupted
	params, err := c.turnParams(t.prompt)
	c.mapper.model = params.Model
	c.mu.Unlock()
	switch {
	case stop:
		c.say(func() []agent.Frame { return c.end(t, event.TurnCancelled, nil) })
		return
	case err != nil:
		c.fail(t, err)
		return
	case l == nil:
		c.fail(t, errGone)
		return
	}
	method, body := "turn/start", any(params)
	if strings.TrimSpace(t.prompt.Text) == "/"+commandCompact {
		method, body = "thread/compact/start", map[string]any{"threadId": params.ThreadID}
	}
	var answer struct {
		Turn turnInfo `json:"turn"`
	}
	if err := l.call(c.ctx, method, body, &answer); err != nil {
		if !errors.Is(err, errGone) { // else the end of the program tells more
			c.fail(t, err)
		}
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.learn(t, answer.Turn.ID)
}

// learn notes the program's id of the running turn. It comes with the answer
// and with a notification, in either order.
func (c *conversation) learn(t *turn, id string) {
	if id == "" || t.codex != "" || c.turn != t {
		return
	}
	t.codex = id
	if m := c.mapper.mine(); m.turn == "" {
		m.turn = id
	}
	close(t.known)
}

// fail ends a turn that did not get to the program.
func (c *conversation) fail(t *turn, err error) {
	e := &event.Error{Code: event.CodeAgentError, Message: err.Error()}
	var problem *agent.Problem
	var refused *rpcError
	switch {
	case errors.As(err, &problem):
		e.Code = problem.Code
	case errors.Is(err, errAttachment):
		e.Code = event.CodeBadAttachment
	case errors.As(err, &refused):
		e.Code = event.CodeBadRequest
	}
	c.say(func() []agent.Frame {
		if t.interrupted {
			return c.end(t, event.TurnCancelled, nil)
		}
		return c.end(t, event.TurnFailed, e)
	})
}

// end closes a turn, once. It runs under mu.
func (c *conversation) end(t *turn, status event.TurnStatus, e *event.Error) []agent.Frame {
	if c.turn != t {
		return nil
	}
	frames := c.withdrawAll()
	if m := c.mapper.mine(); m != nil {
		frames = append(frames, c.mapper.closeText(m)...)
		m.over()
	}
	c.turn = nil
	close(t.over)
	end := agent.Frame{Kind: agent.TurnEnd, Turn: t.id, Status: status, Error: e}
	if t.outcome != nil { // a fork takes no turn that the program has not ended
		end.Point = t.outcome.ID
	}
	return append(frames, end)
}

// notified follows a notification. It runs under mu.
func (c *conversation) notified(l *link, m message) []agent.Frame {
	if !followed[m.Method] {
		c.log.Debug("codex said what is not followed", "method", m.Method)
		return nil
	}
	if c.link != l {
		return nil // of a process that was given up, or before its thread
	}
	switch m.Method {
	case "mcpServer/startupStatus/updated":
		return c.starts(l, m.Params)
	case "skills/changed":
		c.skillsChanged(l)
		return nil
	}
	var n note
	if err := lenient(json.Unmarshal(m.Params, &n)); err != nil {
		c.log.Debug("codex said what cannot be read", "method", m.Method, "error", err)
		return nil
	}
	switch m.Method {
	case "serverRequest/resolved":
		return c.resolved(l, n.RequestID)
	case "account/rateLimits/updated":
		return c.mapper.limits(n.RateLimits)
	}
	t := c.turn
	if t != nil && t.ending {
		return nil
	}
	var frames []agent.Frame
	mine := n.ThreadID == c.thread
	if mine && m.Method == "warning" && t != nil {
		return []agent.Frame{notice("warning", "agent_warning", n.Message)} // it may come before the turn's id
	}
	if mine && m.Method == "turn/started" && n.Turn != nil {
		frames = c.began(n.Turn.ID)
		t = c.turn
	}
	before := c.mapper.mine().turn
	frames = append(frames, c.mapper.notification(m.Method, &n)...)
	if m.Method != "turn/completed" || t == nil {
		return frames
	}
	if mine && n.Turn != nil && before == n.Turn.ID {
		t.outcome = n.Turn
	}
	// Subagents that still work belong to the turn.
	if t.outcome != nil && (t.interrupted || len(c.mapper.busyChildren()) == 0) {
		frames = append(frames, c.completed(l, t)...)
	}
	return frames
}

// followed are the notifications that mean something here.
var followed = map[string]bool{
	"turn/started": true, "turn/completed": true, "turn/plan/updated": true,
	"item/started": true, "item/completed": true, "item/agentMessage/delta": true, "item/plan/delta": true,
	"item/reasoning/summaryTextDelta": true, "item/reasoning/textDelta": true,
	"item/commandExecution/outputDelta": true, "item/mcpToolCall/progress": true,
	"thread/tokenUsage/updated": true, "thread/name/updated": true, "serverRequest/resolved": true,
	"mcpServer/startupStatus/updated": true, "skills/changed": true, "account/rateLimits/updated": true, "error": true, "warning": true, "guardianWarning": true, "model/rerouted": true,
}

// began is the beginning of a turn: the prompt's, or one of the program's own.
func (c *conversation) began(id string) []agent.Frame {
	var frames []agent.Frame
	if c.turn == nil {
		c.turn = newTurn("")
		frames = append(frames, agent.Frame{Kind: agent.TurnStart})
	}
	c.learn(c.turn, id)
	if !c.told {
		c.told = true
		frames = append(frames, agent.Frame{Kind: agent.ConversationID, Text: c.thread})
	}
	return frames
}

// completed ends a turn as the program said. After an interrupt what its
// commands left running is ended first.
func (c *conversation) completed(l *link, t *turn) []agent.Frame {
	if t.interrupted {
		t.ending = true
		thread := c.thread
		c.wg.Go(func() {
			ctx, cancel := context.WithTimeout(c.ctx, cleanBound)
			defer cancel()
			if err := l.call(ctx, "thread/backgroundTerminals/clean", map[string]any{"threadId": thread}, nil); err != nil {
				c.log.Debug("codex did not end its commands", "error", err)
			}
			if err := l.endCommands(); err != nil {
				c.log.Warn("what codex's commands started does not end", "error", err)
			}
			c.say(func() []agent.Frame { return c.end(t, event.TurnCancelled, nil) })
		})
		return nil
	}
	switch t.outcome.Status {
	case "interrupted":
		return c.end(t, event.TurnCancelled, nil)
	case "failed":
		return c.end(t, event.TurnFailed, wentWrong(t.outcome.Error))
	}
	return append(c.leave(l), c.end(t, event.TurnComplete, nil)...)
}

// leave says which commands run on after a turn, and has somebody see when
// they are done. It runs under mu.
func (c *conversation) leave(l *link) []agent.Frame {
	left := c.mapper.left
	if left == "" || c.watching {
		return nil
	}
	c.watching = true
	thread := c.thread
	c.wg.Go(func() {
		c.watchCommands(l, thread)
		c.say(func() []agent.Frame {
			c.watching = false
			return []agent.Frame{{Kind: agent.Background}}
		})
	})
	return []agent.Frame{{Kind: agent.Background, Text: left}}
}

// watchCommands returns when none of the thread's commands runs on, or the
// program cannot tell.
func (c *conversation) watchCommands(l *link, thread string) {
	t := time.NewTicker(c.backend.every)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-l.ended:
			return
		case <-c.ctx.Done():
			return
		}
		var running struct {
			Data []json.RawMessage `json:"data"`
		}
		err := l.call(c.ctx, "thread/backgroundTerminals/list", map[string]any{"threadId": thread}, &running)
		if err != nil {
			c.log.Debug("codex does not say what its commands do", "error", err)
		}
		if err != nil || len(running.Data) == 0 {
			return
		}
	}
}

// Interrupt asks the turn to end. What then does not end in time is ended with
// its process.
func (c *conversation) Interrupt(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.turn
	if t == nil || t.interrupted || c.ctx.Err() != nil {
		return nil
	}
	t.interrupted = true
	c.wg.Go(func() { c.interrupt(t) })
	return nil
}

func (c *conversation) interrupt(t *turn) {
	late := time.NewTimer(interruptBound)
	defer late.Stop()
	select {
	case <-t.over:
		return
	case <-c.ctx.Done():
		return
	case <-late.C:
		c.abandon(t)
		return
	case <-t.known:
	}
	c.mu.Lock()
	l, thread := c.link, c.thread
	children := map[string]string{}
	for _, child := range c.mapper.busyChildren() {
		children[child.id] = child.turn
	}
	if t.outcome != nil && l != nil && !t.ending {
		_ = c.completed(l, t) // only subagents were still at work
	}
	c.mu.Unlock()
	if l == nil {
		return
	}
	stop := func(thread, turn string) {
		ctx, cancel := context.WithTimeout(c.ctx, interruptBound)
		defer cancel()
		if err := l.call(ctx, "turn/interrupt", map[string]any{"threadId": thread, "turnId": turn}, nil); err != nil {
			c.log.Debug("codex did not take an interrupt", "error", err)
		}
	}
	c.wg.Go(func() { stop(thread, t.codex) })
	for thread, turn := range children {
		c.wg.Go(func() { stop(thread, turn) })
	}
	select {
	case <-t.over:
	case <-c.ctx.Done():
	case <-late.C:
		c.abandon(t)
	}
}

// abandon ends a turn that does not end when it is asked to, with its process.
// The next prompt resumes the thread in a new one.
func (c *conversation) abandon(t *turn) {
	c.mu.Lock()
	l := c.link
	if c.turn == t {
		c.link = nil
		t.ending = true
	}
	c.mu.Unlock()
	if l != nil {
		c.log.Warn("codex ignores an interrupt and is ended")
		_ = l.kill()
	}
	c.say(func() []agent.Frame { return c.end(t, event.TurnCancelled, nil) })
}

// died is the end of a process.
func (c *conversation) died(l *link) {
	c.say(func() []agent.Frame {
		if c.link != l {
			return nil
		}
		c.link = nil
		t := c.turn
		if t == nil || c.ctx.Err() != nil {
			return nil
		}
		if t.interrupted {
			return c.end(t, event.TurnCancelled, nil)
		}
		return c.end(t, event.TurnFailed, &event.Error{Code: event.CodeAgentDied, Message: "codex ended: " + l.proc.Exit()})
	})
}

// Steer hands a message to the running turn.
func (c *conversation) Steer(_ context.Context, p agent.Prompt) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return errClosed
	}
	t := c.turn
	c.wg.Go(func() { c.steer(t, p) })
	return nil
}

func (c *conversation) steer(t *turn, p agent.Prompt) {
	back := func() []agent.Frame { return []agent.Frame{{Kind: agent.Unsteered, Message: p.Message}} }
	if t == nil {
		c.say(back)
		return
	}
	select {
	case <-t.known:
	case <-t.over:
	case <-c.ctx.Done():
	}
	c.mu.Lock()
	l, in := c.link, []input(nil)
	var err error
	if c.turn == t && l != nil {
		in, err = c.inputs(p)
	}
	params := turnParams{ThreadID: c.thread, ExpectedTurnID: t.codex, Input: in}
	c.mu.Unlock()
	if in == nil || err != nil {
		c.say(back)
		return
	}
	// Said before anything that comes after the answer: a turn that ends at
	// once has taken the message all the same.
	taken := func(json.RawMessage) {
		c.say(func() []agent.Frame {
			// The message that was being said is cut off by it.
			var frames []agent.Frame
			if m := c.mapper.mine(); m != nil {
				frames = c.mapper.closeText(m)
			}
			return append(frames, agent.Frame{Kind: agent.Steered, Message: p.Message})
		})
	}
	if err := l.callThen(c.ctx, "turn/steer", params, nil, taken); err != nil {
		c.log.Debug("codex did not take a message into its turn", "error", err)
		c.say(back)
	}
}
