package pi

import (
	"context"
	"errors"
	"slices"

	"github.com/polyhost/polyhost/core/agent"
)

// Steer hands a message to the running turn, or keeps it until pi works on it.
func (c *conversation) Steer(ctx context.Context, p agent.Prompt) error {
	c.mu.Lock()
	t, proc := c.turn, c.proc
	switch {
	case t != nil && len(t.steers)+len(t.early) >= maxSteers:
		c.mu.Unlock()
		return errors.New("too many steering messages wait")
	case t == nil || t.cancelled || t.runs && proc == nil:
		c.mu.Unlock()
		return c.out.Put(ctx, agent.Frame{Kind: agent.Unsteered, Message: p.Message})
	}
	defer c.mu.Unlock()
	if !t.runs {
		t.early = append(t.early, p)
		return nil
	}
	return c.steer(t, proc, p)
}

// steer sends a message to pi; the caller holds mu.
func (c *conversation) steer(t *turn, proc *process, p agent.Prompt) error {
	text, images := spell(c.o.Dirs, p)
	command := object{"type": "steer", "message": text}
	if len(images) > 0 {
		command["images"] = images
	}
	wait, err := proc.send(command)
	if err != nil {
		return err
	}
	t.steers = append(t.steers, p.Message)
	c.wg.Go(func() {
		if _, err := wait(c.ctx); err == nil {
			return
		}
		c.mu.Lock()
		i := slices.Index(t.steers, p.Message)
		if i >= 0 {
			t.steers = slices.Delete(t.steers, i, i+1)
		}
		c.mu.Unlock()
		if i >= 0 {
			_ = c.out.Put(c.ctx, agent.Frame{Kind: agent.Unsteered, Message: p.Message})
		}
	})
	return nil
}
