package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/agent/outbox"
	"github.com/polyhost/polyhost/core/event"
)

var (
	errInterrupted = errors.New("interrupted")
	errClosed      = errors.New("the conversation is closed")
	errBusy        = errors.New("a turn is running")
)

// conversation runs one turn at a time in a goroutine of its own.
type conversation struct {
	backend *Backend
	dirs    []string
	key     string // makes ids unique across conversations
	id      string // what Open.Resume takes
	servers []agent.MCPServer
	plugins []string
	extras  extras
	bare    bool // it has no tools
	out     *outbox.Outbox
	ctx     context.Context // ends with Close
	cancel  context.CancelCauseFunc
	wg      sync.WaitGroup // turns, and commands that are being stopped

	mu       sync.Mutex
	settings event.Settings
	tools    []event.ClientTool
	serial   int
	turn     *turn
	last     chan struct{} // closed when the latest turn said its last word
}

func newConversation(b *Backend, o agent.Open) (*conversation, error) {
	c := &conversation{
		backend: b, dirs: o.Dirs, key: strings.ToLower(rand.Text()[:10]),
		out: outbox.New(), settings: o.Settings, tools: o.Tools, servers: o.MCP, plugins: o.Plugins, bare: o.Bare, last: make(chan struct{}),
	}
	close(c.last)
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.id = o.Resume
	if c.id == "" || o.Fork {
		c.id = "demo-" + strings.ToLower(rand.Text())
	}
	if o.Fork {
		if err := b.copyKept(o.Resume, c.id, o.ForkAt); err != nil {
			return nil, err
		}
	}
	_ = c.out.Put(c.ctx, agent.Frame{Kind: agent.ConversationID, Text: c.id})
	return c, nil
}

// newID returns an id that no other conversation gives.
func (c *conversation) newID(kind string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serial++
	return fmt.Sprintf("%s_%s_%d", kind, c.key, c.serial)
}

func (c *conversation) Prompt(_ context.Context, p agent.Prompt) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return errClosed
	}
	if c.turn != nil {
		return errBusy
	}
	if p.Settings.ShellInit != "" {
		c.settings.ShellInit = p.Settings.ShellInit
	}
	t := &turn{c: c, id: p.Turn, past: agent.PastTurn{At: time.Now().UTC(), Prompt: p.Text}, lines: after(scriptLines(p.Text), p.Failures), pending: map[string]chan event.Resolution{},
		tools: slices.Concat(p.Tools, c.tools), model: first(p.Settings.Model, c.settings.Model, "demo-small")}
	t.ctx, t.cancel = context.WithCancelCause(c.ctx)
	c.turn = t
	before, done := c.last, make(chan struct{})
	c.last = done
	c.wg.Go(func() {
		defer close(done)
		<-before
		t.run()
	})
	return nil
}

func first(ss ...string) string {
	for _, s := range ss {
		if s != "" {
			return s
		}
	}
	return ""
}

func (c *conversation) Interrupt(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turn != nil {
		c.turn.cancel(errInterrupted)
	}
	return nil
}

func (c *conversation) Answer(_ context.Context, a agent.Answer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turn == nil {
		return nil
	}
	if ch, ok := c.turn.pending[a.Request]; ok {
		delete(c.turn.pending, a.Request)
		ch <- a.Resolution // has room for the one answer
	}
	return nil
}

// Steer takes a message for the time between two lines of the running turn.
func (c *conversation) Steer(ctx context.Context, p agent.Prompt) error {
	c.mu.Lock()
	t := c.turn
	if t != nil {
		if len(t.steers) >= maxSteer {
			c.mu.Unlock()
			return errors.New("too many steering messages wait")
		}
		t.steers = append(t.steers, p)
	}
	c.mu.Unlock()
	if t == nil {
		return c.out.Put(ctx, agent.Frame{Kind: agent.Unsteered, Message: p.Message})
	}
	return nil
}

func (c *conversation) Configure(_ context.Context, s event.Settings) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settings = s
	return nil
}

func (c *conversation) Recv(ctx context.Context) ([]agent.Frame, error) { return c.out.Recv(ctx) }

func (c *conversation) Close() error {
	c.mu.Lock()
	c.cancel(errClosed) // under the lock: no turn starts after this
	c.mu.Unlock()
	c.out.Close(io.EOF)
	c.wg.Wait()
	c.backend.open.Remove(c)
	return nil
}
