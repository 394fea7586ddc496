// Command plugin-echo is an agent plugin that says back what it is told, one
// word at a time. It is the smallest agent that keeps the whole contract: see
// docs/plugins.md.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/agent/outbox"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/plugins/sdk"
)

// wordPause makes the echo look typed.
const wordPause = 5 * time.Millisecond

func main() {
	if err := sdk.Serve(&backend{open: map[*conversation]bool{}}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// backend is the agent. It keeps its conversations to close them.
type backend struct {
	mu   sync.Mutex
	open map[*conversation]bool
}

func (b *backend) Info(context.Context) (agent.Info, error) {
	return agent.Info{
		Name: "echo", Title: "Echo", Description: "Says back what it is told", Version: "1.0.0",
		// What is not promised here is never asked for.
		Capabilities: agent.Capabilities{Resume: true},
	}, nil
}

func (b *backend) Open(_ context.Context, o agent.Open) (agent.Conversation, error) {
	c := &conversation{backend: b, out: outbox.New()}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	// The gateway gives this id back in Open.Resume. An agent with a memory
	// would look the conversation up; an echo has none.
	c.id = o.Resume
	if c.id == "" {
		c.id = rand.Text()
	}
	if err := c.out.Put(c.ctx, agent.Frame{Kind: agent.ConversationID, Text: c.id}); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open[c] = true
	return c, nil
}

func (b *backend) Close() error {
	b.mu.Lock()
	all := make([]*conversation, 0, len(b.open))
	for c := range b.open {
		all = append(all, c)
	}
	b.mu.Unlock()
	for _, c := range all {
		_ = c.Close()
	}
	return nil
}

// conversation runs each turn in a goroutine and speaks through the outbox,
// which makes the agent wait when the gateway does not keep up.
type conversation struct {
	backend *backend
	id      string
	out     *outbox.Outbox
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	turns   sync.WaitGroup

	mu        sync.Mutex
	serial    int
	interrupt context.CancelFunc // nil between turns
}

func (c *conversation) Prompt(_ context.Context, p agent.Prompt) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return errors.New("the conversation is closed")
	}
	if c.interrupt != nil {
		return errors.New("a turn is running")
	}
	ctx, cancel := context.WithCancel(c.ctx)
	c.interrupt = cancel
	c.serial++
	part := fmt.Sprintf("%s-%d", c.id, c.serial)
	c.turns.Go(func() { c.turn(ctx, p, part) })
	return nil
}

// turn echoes one prompt. Whatever happens, it ends with one TurnEnd.
func (c *conversation) turn(ctx context.Context, p agent.Prompt, part string) {
	end := agent.Frame{Kind: agent.TurnEnd, Turn: p.Turn, Status: event.TurnComplete}
	if c.echo(ctx, p.Text, part) != nil {
		end.Status = event.TurnCancelled
	}
	c.mu.Lock()
	c.interrupt()
	c.interrupt = nil // the gateway may prompt again once it has the end
	c.mu.Unlock()
	_ = c.out.Put(c.ctx, end)
}

func (c *conversation) echo(ctx context.Context, text, part string) error {
	for _, word := range strings.SplitAfter(text, " ") {
		if err := c.out.Put(ctx, agent.Frame{Kind: agent.TextDelta, Part: part, Text: word}); err != nil {
			return err
		}
		select {
		case <-time.After(wordPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return c.out.Put(ctx, agent.Frame{Kind: agent.PartDone, Part: part})
}

func (c *conversation) Interrupt(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.interrupt != nil {
		c.interrupt()
	}
	return nil
}

// Answer has nothing to settle: an echo never asks.
func (c *conversation) Answer(context.Context, agent.Answer) error { return nil }

func (c *conversation) Recv(ctx context.Context) ([]agent.Frame, error) { return c.out.Recv(ctx) }

func (c *conversation) Close() error {
	c.mu.Lock()
	c.cancel()
	c.mu.Unlock()
	c.out.Close(io.EOF)
	c.turns.Wait()
	c.backend.mu.Lock()
	defer c.backend.mu.Unlock()
	delete(c.backend.open, c)
	return nil
}
