package acp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"

	"github.com/polyhost/polyhost/backends/internal/again"
	"github.com/polyhost/polyhost/backends/internal/files"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/agent/outbox"
	"github.com/polyhost/polyhost/core/event"
)

var (
	errClosed = errors.New("the conversation is closed")
	errBusy   = errors.New("a turn is running")
)

// conversation is one chat with one process of the agent, which starts with
// the first turn and again after it died. Each turn is a goroutine; another
// reads what the agent says. Both speak through the mapper's lock.
type conversation struct {
	backend *Backend
	agent   *Agent
	o       agent.Open
	dirs    files.Dirs
	out     *outbox.Outbox
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	// speaking guards the mapper and keeps its frames in order.
	speaking sync.Mutex
	m        *mapper
	noted    string // of what is not started, what was told

	mu       sync.Mutex
	id       string // the agent's own id of the conversation, "" until it has one
	fork     bool   // it is still to be forked from id
	settings event.Settings
	link     *link
	try      *attempt
	turn     *turn
	last     chan struct{} // closed when the latest turn said its last word
	asks     map[string]*ask
	serial   int
}

// ask is a request of the agent's that waits for an answer.
type ask struct {
	link    *link
	id      json.RawMessage
	call    *call
	options []permissionOption
	write   *writeRequest // instead of options: a file to be written
}

// attempt is a start that is under way.
type attempt struct {
	done chan struct{}
	link *link
	err  error
}

// turn is one prompt.
type turn struct {
	id      string
	ctx     context.Context // ends with an interrupt
	cancel  context.CancelFunc
	prompt  agent.Prompt
	answers chan settled
}

type settled struct {
	ask *ask
	res event.Resolution
}

func newConversation(b *Backend, o agent.Open) *conversation {
	c := &conversation{backend: b, agent: &b.agent, o: o, dirs: o.Dirs, out: outbox.New(), m: newMapper(&b.agent, o.Dirs),
		id: o.Resume, fork: o.Fork && o.Resume != "", settings: o.Settings, last: make(chan struct{}), asks: map[string]*ask{}}
	close(c.last)
	for _, s := range o.MCP {
		c.m.servers = append(c.m.servers, s.Name)
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
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
	t := &turn{id: p.Turn, prompt: again.Prompt(p), answers: make(chan settled, maxPending)}
	t.ctx, t.cancel = context.WithCancel(c.ctx)
	c.turn = t
	before, done := c.last, make(chan struct{})
	c.last = done
	c.wg.Go(func() {
		defer close(done)
		defer t.cancel()
		<-before
		c.run(t)
	})
	return nil
}

func (c *conversation) Interrupt(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turn != nil {
		c.turn.cancel()
	}
	return nil
}

func (c *conversation) Answer(_ context.Context, a agent.Answer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q, ok := c.asks[a.Request]; ok && c.turn != nil {
		delete(c.asks, a.Request)
		c.turn.answers <- settled{q, a.Resolution} // there are at most maxPending
	}
	return nil
}

// Configure takes effect with the next prompt.
func (c *conversation) Configure(_ context.Context, s event.Settings) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settings = s
	return nil
}

func (c *conversation) Recv(ctx context.Context) ([]agent.Frame, error) { return c.out.Recv(ctx) }

func (c *conversation) Close() error {
	c.mu.Lock()
	c.cancel() // under the lock: no turn and no start begins after this
	l := c.link
	c.mu.Unlock()
	c.out.Close(io.EOF)
	if l != nil {
		l.stop()
	}
	c.wg.Wait()
	c.backend.open.Remove(c)
	return nil
}

// linked returns the running agent, starting it if there is none.
func (c *conversation) linked(ctx context.Context) (*link, error) {
	c.mu.Lock()
	if l := c.link; l != nil {
		c.mu.Unlock()
		select {
		case <-l.read: // it died between two turns
			c.lost(l)
		default:
			return l, nil
		}
		c.mu.Lock()
	}
	a := c.try
	if a == nil {
		if c.ctx.Err() != nil {
			c.mu.Unlock()
			return nil, errClosed
		}
		a = &attempt{done: make(chan struct{})}
		c.try = a
		c.wg.Go(func() { c.start(a) })
	}
	c.mu.Unlock()
	select {
	case <-a.done:
		return a.link, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// start starts the agent and its session; an interrupt does not stop it.
func (c *conversation) start(a *attempt) {
	ctx, cancel := context.WithTimeout(c.ctx, c.backend.shake)
	defer cancel()
	l, err := c.connect(ctx)
	c.mu.Lock()
	c.try = nil
	if err == nil && c.ctx.Err() != nil {
		err = errClosed
		c.mu.Unlock()
		l.stop()
		c.mu.Lock()
		l = nil
	}
	if err == nil {
		c.link, c.id, c.fork = l, l.session, false
	}
	c.mu.Unlock()
	if err == nil {
		_ = c.out.Put(c.ctx, agent.Frame{Kind: agent.ConversationID, Text: l.session})
	}
	a.link, a.err = l, err
	close(a.done)
}

func (c *conversation) connect(ctx context.Context) (*link, error) {
	c.mu.Lock()
	id := c.id
	o := c.o
	o.Fork = c.fork
	c.mu.Unlock()
	if id != "" {
		if err := c.agent.aged(ctx, id); err != nil {
			return nil, err
		}
	}
	var secrets []string
	for _, s := range o.MCP {
		for _, v := range s.Headers {
			secrets = append(secrets, v)
		}
	}
	l, err := c.agent.connect(ctx, o.Dirs[0], secrets, c)
	if err != nil {
		return nil, err
	}
	if err := l.open(ctx, &o, id); err != nil {
		if errors.Is(err, errDied) {
			<-l.proc.Done()
			err = c.agent.broken(l.proc.Exit())
		}
		l.stop()
		return nil, err
	}
	if id == "" { // what it cost so far is known: nothing
		c.speaking.Lock()
		c.m.cost, c.m.costKnown = 0, true
		c.speaking.Unlock()
	}
	return l, nil
}

// lost forgets a link that ended, and stops what is left of it.
func (c *conversation) lost(l *link) {
	c.mu.Lock()
	if c.link == l {
		c.link = nil
	}
	c.mu.Unlock()
	l.stop()
}
