package claude

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/polyhost/polyhost/backends/internal/again"
	"github.com/polyhost/polyhost/backends/internal/cli"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/agent/outbox"
	"github.com/polyhost/polyhost/core/event"
)

var (
	errClosed = errors.New("the conversation is closed")
	errBusy   = errors.New("a turn is running")
)

// conversation is one dialogue, with one process at a time.
type conversation struct {
	backend *Backend
	open    agent.Open
	out     *outbox.Outbox
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	wg      sync.WaitGroup // readers, and stops of processes

	mu       sync.Mutex
	m        *mapper
	settings event.Settings
	told     event.Settings // what the process was told
	proc     *cli.Proc      // nil if there is none
	ready    chan struct{}  // closed by the first answer, or the end, of proc
	keep     []cli.Process  // what ran before the turn
	exit     string         // how the last process ended
	dir      string         // for files of ours, made with the first process
	note     string         // on MCP servers that were not started
	noted    string         // the note that was told
	serial   int
	controls map[string]func(controlResponse)
	// interrupting stops a process that does not heed an interrupt.
	interrupting *time.Timer
	// following ends a turn that its last subagent did not wake.
	following *time.Timer
	// serving asks for a server that starts.
	serving *time.Timer
}

func newConversation(b *Backend, o agent.Open) *conversation {
	c := &conversation{backend: b, open: o, out: outbox.New(), m: newMapper(o.Dirs), settings: o.Settings,
		controls: map[string]func(controlResponse){}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// change runs f under the lock and says the frames that come of it.
func (c *conversation) change(ctx context.Context, f func() error) error {
	c.mu.Lock()
	if c.ctx.Err() != nil {
		c.mu.Unlock()
		return errClosed
	}
	err := f()
	frames := c.after()
	c.mu.Unlock()
	if len(frames) > 0 {
		err = errors.Join(err, c.out.Put(ctx, frames...))
	}
	return err
}

func (c *conversation) Prompt(ctx context.Context, p agent.Prompt) error {
	id := uuid()
	line, err := userRecord(c.open.Dirs, id, again.Prompt(p))
	if err != nil {
		return err
	}
	return c.change(ctx, func() error {
		if c.m.open && !c.m.self {
			return errBusy
		}
		c.settings = over(c.settings, p.Settings)
		if c.proc == nil {
			if err := c.begin(); err != nil {
				return err
			}
		} else {
			c.tell(c.settings, false)
		}
		keep, err := c.proc.Processes()
		if err != nil {
			return err
		}
		c.keep = keep
		c.m.begin(p.Turn, id)
		if c.note != c.noted {
			if c.noted = c.note; c.note != "" {
				c.m.notice("warning", "mcp_not_approved", c.note)
			}
		}
		c.write(line)
		return nil
	})
}

// over is what counts when a prompt or a change says s: its mode and what it
// picks. What it leaves empty is the agent's default.
func over(base, s event.Settings) event.Settings {
	if s.Mode == "" {
		s.Mode = base.Mode
	}
	return s
}

// Steer hands a message to the running turn: the CLI takes it in after the
// call that runs, or goes on with it after the text that streams.
func (c *conversation) Steer(ctx context.Context, p agent.Prompt) error {
	id := uuid()
	line, err := userRecord(c.open.Dirs, id, p)
	if err != nil {
		return err
	}
	return c.change(ctx, func() error {
		if !c.m.open || c.m.interrupted || c.proc == nil {
			c.m.put(agent.Frame{Kind: agent.Unsteered, Message: p.Message})
			return nil
		}
		c.m.sent[id] = sent{message: p.Message, steer: true}
		c.write(line)
		return nil
	})
}

func (c *conversation) Interrupt(ctx context.Context) error {
	return c.change(ctx, func() error {
		if !c.m.open || c.m.interrupted {
			return nil
		}
		c.m.interrupted = true
		p := c.proc
		if p == nil {
			c.m.finish(agent.Frame{Kind: agent.TurnEnd, Status: event.TurnCancelled})
			return nil
		}
		if c.m.held != nil && !c.m.running {
			// Only subagents work, and an idle CLI does not heed.
			c.stop(p)
			return nil
		}
		c.ask(map[string]any{"subtype": "interrupt", "cancel_queued": true}, func(controlResponse) {})
		c.interrupting = time.AfterFunc(interruptBound, func() { c.unheeded(p) })
		return nil
	})
}

// unheeded stops a process that goes on with an interrupted turn.
func (c *conversation) unheeded(p *cli.Proc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.proc == p && c.m.open && c.m.interrupted && c.ctx.Err() == nil {
		c.backend.log().Warn("Claude Code does not heed an interrupt and is stopped", "chat", c.open.Chat)
		c.stop(p)
	}
}

// unfollowed ends a turn whose subagents have ended, when the CLI does not go
// on by itself.
func (c *conversation) unfollowed() {
	_ = c.change(c.ctx, func() error {
		if c.m.waitsToFollow() {
			c.m.finish(*c.m.held)
		}
		return nil
	})
}

func (c *conversation) Answer(ctx context.Context, a agent.Answer) error {
	return c.change(ctx, func() error {
		c.write(c.m.answer(a))
		return nil
	})
}

// Configure changes the settings from the next model call on.
func (c *conversation) Configure(ctx context.Context, s event.Settings) error {
	return c.change(ctx, func() error {
		c.settings = over(c.settings, s)
		if c.proc != nil {
			c.tell(c.settings, false)
		}
		return nil
	})
}

func (c *conversation) Recv(ctx context.Context) ([]agent.Frame, error) { return c.out.Recv(ctx) }

func (c *conversation) Close() error {
	c.mu.Lock()
	c.cancel() // under the lock: nothing starts after this
	p := c.proc
	busy := c.m.open
	c.stopTimer(&c.interrupting)
	c.stopTimer(&c.following)
	c.stopTimer(&c.serving)
	c.mu.Unlock()
	c.out.Close(io.EOF)
	var err error
	if p != nil {
		if busy {
			err = p.Kill() // with its input closed it would finish the turn
		} else {
			err = p.Close()
		}
	}
	c.wg.Wait()
	if c.dir != "" {
		_ = os.RemoveAll(c.dir)
	}
	c.backend.open.Remove(c)
	return err
}
