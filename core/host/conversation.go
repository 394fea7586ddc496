package host

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
)

type agentFrame = agent.Frame

// conversation is an agent's conversation with the goroutines that move its
// commands and frames, so that the session never waits for the agent.
type conversation struct {
	session *Session
	chat    id.ID
	ctx     context.Context
	cancel  context.CancelFunc
	out     chan func(context.Context, agent.Conversation)
	done    chan struct{} // closed when the agent's process is gone
	door    ToolDoor      // nil if clients' tools are not served to it
	// plugins are the copies that it was given; nil until it is opened.
	plugins atomic.Pointer[[]string]
	servers []agent.ServerStatus // as it said last; only the session's goroutine
}

var errStuck = errors.New("the agent takes no commands")

// converse opens a conversation in the background. Its frames, and its end,
// arrive in the session's inbox. It begins when the chat's conversation before
// it has ended: two processes of one conversation would write over each other.
// An agent that takes plugins gets those that the session has then.
func (s *Session) converse(b agent.Backend, o agent.Open, chat id.ID, before *conversation, door ToolDoor, backend string) *conversation {
	c := &conversation{session: s, chat: chat, out: make(chan func(context.Context, agent.Conversation), maxCommands),
		done: make(chan struct{}), door: door}
	c.ctx, c.cancel = context.WithCancel(s.host.ctx)
	s.host.wg.Go(func() {
		defer close(c.done)
		if door != nil {
			defer door.Close()
		}
		defer c.cancel()
		before.ended(c.ctx)
		for _, held := range c.givePlugins(&o, backend) {
			defer held.Release()
		}
		open, cancel := context.WithTimeout(c.ctx, OpenWithin)
		conv, err := b.Open(open, o)
		cancel()
		if err != nil {
			c.deliver(received{conv: c, err: &startError{err}})
			return
		}
		defer func() {
			if err := conv.Close(); err != nil {
				s.log.Warn("Closing an agent's conversation failed", "chat", chat.String(), "err", err)
			}
		}()
		stopped := make(chan struct{})
		defer func() { c.cancel(); <-stopped }()
		go func() {
			defer close(stopped)
			for {
				select {
				case f := <-c.out:
					f(c.ctx, conv)
				case <-c.ctx.Done():
					return
				}
			}
		}()
		for {
			frames, err := conv.Recv(c.ctx)
			if len(frames) > 0 && !c.deliver(received{conv: c, frames: append([]agentFrame(nil), frames...)}) {
				return
			}
			if err != nil {
				c.deliver(received{conv: c, err: err})
				return
			}
		}
	})
	return c
}

// ended waits until the conversation's process is gone, within a bound.
func (c *conversation) ended(ctx context.Context) {
	if c == nil {
		return
	}
	t := time.NewTimer(ClosingWithin)
	defer t.Stop()
	select {
	case <-c.done:
	case <-t.C:
	case <-ctx.Done():
	}
}

// startError is why an agent could not be started.
type startError struct{ err error }

func (e *startError) Error() string { return fmt.Sprintf("the agent did not start: %v", e.err) }
func (e *startError) Unwrap() error { return e.err }

// deliver hands something to the session unless either is gone.
func (c *conversation) deliver(r received) bool {
	select {
	case c.session.frames <- r:
		return true
	case <-c.session.gone:
	case <-c.ctx.Done():
	}
	return false
}

// tell queues a command for the agent. It reports whether there was room.
func (c *conversation) tell(what string, f func(context.Context, agent.Conversation) error) error {
	select {
	case c.out <- func(ctx context.Context, conv agent.Conversation) {
		if err := f(ctx, conv); err != nil && ctx.Err() == nil {
			c.session.log.Warn("The agent did not take a command", "command", what, "chat", c.chat.String(), "err", err)
		}
	}:
		return nil
	default:
		return errStuck
	}
}

// close ends the conversation and, by its driver, the agent's process tree.
func (c *conversation) close() { c.cancel() }

// run is what the session's goroutine knows of one chat's agent.
type run struct {
	s    *Session
	chat id.ID
	conv *conversation
	// before is the conversation that was let go; its process may still end.
	before *conversation
	// moving: the chat is on its way to another session.
	moving bool
	// since is when the last turn ended, background whether the agent works
	// on without one.
	since      time.Time
	background bool
	// child is the agent's key of a subagent's chat; its parent has conv.
	child  string
	parent *run
	// autoTitle is the chat's title, if no person gave it; the session has the
	// default chat's.
	autoTitle string

	// The running turn, Nil for none.
	turn     id.ID
	message  event.Message
	opened   uint64 // the number of its first event
	usage    event.Usage
	point    *event.Point // where its end is, as the agent says
	refusals int
	parts    map[string]*openPart // by the agent's part key
	current  *openPart            // the open text or reasoning part
	calls    map[string]*call
	requests map[id.ID]*request // by interaction
	children map[string]*run

	// stopCommand ends the command that the running turn is; nil for none.
	stopCommand context.CancelFunc

	// draining: the agent has not ended a turn that the gateway ended, this
	// one.
	draining bool
	drained  id.ID
	deadline *time.Timer // of draining
	// closing: the turn's open parts are being ended.
	closing bool
	// stuck is why the agent is given up as soon as nothing is closing.
	stuck error
	// waiting: the running turn's prompt waits for the agent to be ready.
	waiting bool
}

// openPart is a text or reasoning part that is being written.
type openPart struct {
	id   id.ID
	key  string
	kind event.PartKind
	size int
	cut  bool // it was longer than what is kept
}

// call is a tool call that has not ended.
type call struct {
	part    id.ID
	id      string
	name    string
	ready   bool
	running bool
	tool    agent.Tool
	size    int   // output bytes kept
	dropped int64 // output bytes not kept
	tail    []byte
	client  event.Actor
	worker  id.ID              // the chat of its subagent, once that begins
	own     bool               // the gateway was asked to run it
	stop    context.CancelFunc // of its running it
}

// request is something the agent waits for.
type request struct {
	id   string // the agent's
	kind event.InteractionKind
	call *call
	// reply gets the outcome of a call that came over MCP; made says that the
	// call is shown only because of it.
	reply chan event.Resolution
	made  bool
	// own: the call is the gateway's to run.
	own bool
}

func (s *Session) chatRun(chat id.ID) *run {
	r := s.chats[chat]
	if r == nil {
		r = &run{s: s, chat: chat}
		r.reset()
		s.chats[chat] = r
	}
	return r
}

func (r *run) reset() {
	if r.stopCommand != nil {
		r.stopCommand()
		r.stopCommand = nil
	}
	for _, c := range r.calls {
		if c.stop != nil {
			c.stop()
		}
	}
	r.since = time.Now()
	r.turn, r.message, r.usage, r.point, r.refusals, r.current, r.waiting = id.Nil, event.Message{}, event.Usage{}, nil, 0, nil, false
	r.parts, r.calls, r.requests = map[string]*openPart{}, map[string]*call{}, map[id.ID]*request{}
}

// drop lets the conversation go.
func (r *run) drop() {
	if r.deadline != nil {
		r.deadline.Stop()
	}
	if r.conv != nil {
		r.conv.close()
		r.before, r.conv = r.conv, nil
	}
	r.background = false
	r.s.nothingLeft(r.chat)
	r.draining, r.stuck = false, nil
}

// agentOf is the run that holds the conversation.
func (r *run) agentOf() *run {
	for r.parent != nil {
		r = r.parent
	}
	return r
}

func (r *run) emit(body event.Body) *event.Event { return r.s.emit(r.chat, r.turn, body) }

// answer tells the agent how a request was settled.
func (r *run) answer(request string, res event.Resolution) {
	conv := r.agentOf().conv
	if conv == nil {
		return
	}
	err := conv.tell("answer", func(ctx context.Context, c agent.Conversation) error {
		return c.Answer(ctx, agent.Answer{Request: request, Resolution: res})
	})
	if err == nil {
		return
	}
	root := r.agentOf()
	if r.closing || root.closing {
		root.stuck = err // its end must not begin inside another
		return
	}
	r.s.crashed(root, err)
}
