package pi

import (
	"context"
	"time"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// Interrupt stops the running turn.
func (c *conversation) Interrupt(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, p := c.turn, c.proc
	if t == nil || t.cancelled || c.closed {
		return nil
	}
	t.cancelled = true
	// pi ends nothing while a dialog is open.
	for id := range t.dialogs {
		delete(t.dialogs, id)
		if p != nil {
			_ = p.tell(object{"type": "extension_ui_response", "id": id, "cancelled": true})
		}
	}
	if t.sent && p != nil {
		c.wg.Go(func() { c.abort(p) })
	}
	c.after(t, stopWait, func() {
		c.mu.Lock()
		stuck := c.turn == t
		c.mu.Unlock()
		if stuck {
			c.drop()
			c.end(t, event.TurnCancelled, nil)
		}
	})
	return nil
}

// abort asks pi to stop; what comes of it are events.
func (c *conversation) abort(p *process) {
	ctx, cancel := context.WithTimeout(c.ctx, stopWait)
	defer cancel()
	_, _ = p.ask(ctx, object{"type": "abort"})
}

// after runs f later, in a goroutine that Close waits for, unless the turn has
// ended. The caller holds mu.
func (c *conversation) after(t *turn, d time.Duration, f func()) *time.Timer {
	c.wg.Add(1)
	timer := time.AfterFunc(d, func() {
		defer c.wg.Done()
		f()
	})
	t.timers = append(t.timers, timer)
	return timer
}

// stopTimer is for the timers of after.
func (c *conversation) stopTimer(t *time.Timer) {
	if t != nil && t.Stop() {
		c.wg.Done()
	}
}

// drop ends the process without waiting for what it says.
func (c *conversation) drop() {
	c.mu.Lock()
	p := c.proc
	c.proc = nil
	c.mu.Unlock()
	if p != nil {
		_ = p.kill()
	}
}

// endStrays ends what the commands of a cancelled turn left behind.
func (c *conversation) endStrays(t *turn) {
	c.mu.Lock()
	p, keep := c.proc, t.keep
	stray := c.turn == t && t.cancelled && t.sent && p != nil
	c.mu.Unlock()
	if stray {
		if err := p.EndOthers(keep); err != nil {
			c.drop()
		}
	}
}

// end is the turn's last word, said once.
func (c *conversation) end(t *turn, status event.TurnStatus, e *event.Error) {
	c.endStrays(t)
	c.mu.Lock()
	if c.turn != t {
		c.mu.Unlock()
		return
	}
	c.turn = nil
	for _, timer := range t.timers {
		c.stopTimer(timer)
	}
	if t.cancelled {
		status, e = event.TurnCancelled, nil
	}
	var frames []agent.Frame
	for id := range t.dialogs {
		frames = append(frames, agent.Frame{Kind: agent.Withdrawn, Request: id})
	}
	for _, m := range t.steers {
		frames = append(frames, agent.Frame{Kind: agent.Unsteered, Message: m})
	}
	if t.runs && c.id == "" && c.session != "" && c.m.answered() {
		c.id = c.session
		frames = append(frames, agent.Frame{Kind: agent.ConversationID, Text: c.id})
	}
	for _, p := range t.early {
		frames = append(frames, agent.Frame{Kind: agent.Unsteered, Message: p.Message})
	}
	left := len(t.steers) > 0
	last := agent.Frame{Kind: agent.TurnEnd, Turn: t.id, Status: status, Error: e}
	file := c.file
	if c.id == "" {
		file = "" // pi keeps nothing yet
	}
	c.mu.Unlock()
	if file != "" {
		last.Point = newest(file)
	}
	if left {
		c.drop() // it would take the messages into the next turn
	}
	_ = c.out.Put(c.ctx, append(frames, last)...)
}
