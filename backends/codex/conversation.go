package codex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/polyhost/polyhost/backends/internal/again"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/agent/outbox"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/lines"
)

var (
	errClosed = errors.New("the conversation is closed")
	errBusy   = errors.New("a turn is running")
)

// conversation is one thread of the program, in one process at a time.
type conversation struct {
	backend *Backend
	open    agent.Open
	log     *slog.Logger
	out     *outbox.Outbox
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	// voice orders what is said: whoever turns something into frames holds
	// it until they are in the outbox. It is taken before mu.
	voice sync.Mutex
	// starting lets one goroutine start the program.
	starting sync.Mutex

	mu       sync.Mutex
	settings event.Settings
	link     *link
	thread   string // "" before the first start
	told     bool   // the thread's id was told: it can be resumed
	model    string // the thread's defaults
	effort   string
	turn     *turn
	requests map[string]*request
	serial   int // of requests
	mapper   *mapper
	servers  servers
	skills   skills
	watching bool // somebody sees when left commands are done
}

// turn is one prompt, or work that the program began by itself.
type turn struct {
	id          string // the gateway's, "" for the program's own
	prompt      agent.Prompt
	known       chan struct{} // closed once the program's id is known
	codex       string
	interrupted bool
	ending      bool // its end is being seen to
	// outcome is how the conversation's own part of it ended, while
	// subagents go on.
	outcome *turnInfo
	over    chan struct{} // closed when it has ended
}

func newTurn(id string) *turn {
	return &turn{id: id, known: make(chan struct{}), over: make(chan struct{})}
}

func newConversation(b *Backend, o agent.Open) *conversation {
	log := b.log.With("session", o.Session, "chat", o.Chat)
	c := &conversation{backend: b, open: o, log: log, out: outbox.New(), settings: o.Settings,
		requests: map[string]*request{}, mapper: newMapper(log, o.Dirs)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// ensure starts the program and its thread if none runs.
func (c *conversation) ensure(ctx context.Context) error {
	c.starting.Lock()
	defer c.starting.Unlock()
	c.mu.Lock()
	ready := c.link != nil
	c.mu.Unlock()
	if ready {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	l, err := c.backend.start(ctx, c.open.Dirs[0], c.heard, c.lost)
	if err != nil {
		return err
	}
	if err := c.begin(ctx, l); err != nil {
		c.mu.Lock()
		c.link = nil
		c.mu.Unlock()
		_ = l.kill()
		<-l.ended
		return err
	}
	c.wg.Go(func() {
		<-l.ended
		c.died(l)
	})
	return nil
}

// begin makes the thread: a new one, a fork, or the one there was.
func (c *conversation) begin(ctx context.Context, l *link) error {
	c.mu.Lock()
	p := c.threadParams()
	method, fresh := "thread/start", true
	switch {
	case c.told:
		method, p.ThreadID = "thread/resume", c.thread
	case c.open.Resume != "" && c.open.Fork:
		method, p.ThreadID, p.LastTurnID = "thread/fork", c.open.Resume, c.open.ForkAt
	case c.open.Resume != "":
		method, p.ThreadID = "thread/resume", c.open.Resume
	}
	if p.ThreadID != "" {
		p.ExcludeTurns, fresh = true, false
	} else {
		// It runs in the directory. Told of it beside the sandbox, it would write
		// down that the user trusts it, and start the servers of its .codex.
		p.Cwd = ""
	}
	c.mu.Unlock()
	var answer threadAnswer
	var failed error
	// The notifications right after the answer are about the thread already.
	err := l.callThen(ctx, method, p, nil, func(result json.RawMessage) {
		if failed = lenient(json.Unmarshal(result, &answer)); failed == nil && answer.Thread.ID == "" {
			failed = broken("it names no thread")
		}
		if failed == nil {
			c.say(func() []agent.Frame { return c.begun(l, &answer, fresh) })
		}
	})
	switch {
	case err == nil && failed == nil:
		c.learnSkills(ctx, l) // before a prompt can name one
		return nil
	case err == nil:
		return failed
	case p.ThreadID != "":
		return fmt.Errorf("the conversation %s cannot be continued: %w", p.ThreadID, err)
	}
	return fmt.Errorf("codex begins no conversation: %w", err)
}

// begun takes the thread over. It runs under mu.
func (c *conversation) begun(l *link, answer *threadAnswer, fresh bool) []agent.Frame {
	c.link, c.thread = l, answer.Thread.ID
	c.model, c.effort = answer.Model, answer.Effort
	c.mapper.open(c.thread, fresh)
	c.servers = servers{}
	c.skills.asking, c.skills.stale = true, false
	if fresh || c.told {
		return nil // a new thread can be resumed from its first turn on
	}
	c.told = true
	return []agent.Frame{{Kind: agent.ConversationID, Text: c.thread}}
}

// say puts the frames that f makes into the outbox. Frames come out in the
// order of the calls. f runs under mu.
func (c *conversation) say(f func() []agent.Frame) {
	c.voice.Lock()
	defer c.voice.Unlock()
	c.mu.Lock()
	frames := f()
	c.mu.Unlock()
	if len(frames) > 0 {
		_ = c.out.Put(c.ctx, frames...) // fails only once the conversation is closed
	}
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
	t := newTurn(p.Turn)
	t.prompt = again.Prompt(p)
	c.turn = t
	c.wg.Go(func() { c.run(t) })
	return nil
}

// Configure holds from the next turn on.
func (c *conversation) Configure(_ context.Context, s event.Settings) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settings = s
	return nil
}

func (c *conversation) Recv(ctx context.Context) ([]agent.Frame, error) { return c.out.Recv(ctx) }

// Close ends the program with all it started.
func (c *conversation) Close() error {
	c.mu.Lock()
	c.cancel() // under the lock: no turn starts after this
	l := c.link
	c.mu.Unlock()
	c.out.Close(io.EOF) // whoever waits for room goes on
	var err error
	if l != nil {
		err = l.close()
	}
	c.wg.Wait()
	c.backend.open.Remove(c)
	return err
}

// heard takes a request or a notification of the program.
func (c *conversation) heard(l *link, m message) {
	c.say(func() []agent.Frame {
		if len(m.ID) > 0 {
			return c.asked(l, m)
		}
		return c.notified(l, m)
	})
}

// lost tells of a record that was too long to be read.
func (c *conversation) lost(_ *link, err error) {
	c.say(func() []agent.Frame {
		if c.turn == nil {
			return nil
		}
		var long *lines.TooLongError
		text := err.Error()
		if errors.As(err, &long) {
			text = fmt.Sprintf("codex said something of %d bytes, which is too long to be read", long.Length)
		}
		return []agent.Frame{notice("warning", "truncated", text)}
	})
}
