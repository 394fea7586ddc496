// Package supervisor runs an agent plugin as a process of the gateway's: it
// starts it on first use, watches it, starts it again after a death, and ends
// it as a whole tree. To the core it is one more agent.Backend. It must not
// know any agent and nothing of sessions.
//
// A plugin that dies fails the Recv of its conversations with an error that
// says so; the next Open starts a new process, at growing intervals if it keeps
// dying. One that hangs is killed: when it fails its health checks, and at once
// when it leaves a close unanswered. Close returns within bounds whatever the
// plugin does. When the gateway is killed, its plugins notice and end
// themselves and what they run; Begin ends what could not.
package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/plugins/client"
)

// Options say what to run.
type Options struct {
	// Name of the agent, for logs and file names.
	Name string
	// Path is the plugin's binary, Args its arguments.
	Path string
	Args []string
	// SHA256 is the hex sum that the binary must have; "" is not checked.
	SHA256 string
	// Instance is the running gateway.
	Instance *Instance
	// PassEnv names variables that the plugin gets from the gateway's
	// environment beside the usual ones, by prefix where it ends in *; Env are further NAME=value pairs.
	PassEnv []string
	Env     []string
	// Logger defaults to slog.Default().
	Logger *slog.Logger

	healthEvery, healthBound time.Duration
}

// New returns the backend of a plugin. Nothing is started yet.
func New(o Options) agent.Backend {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.Logger = o.Logger.With("plugin", o.Name)
	if o.healthEvery == 0 {
		o.healthEvery, o.healthBound = healthEvery, healthBound
	}
	s := &supervisor{o: o}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

type supervisor struct {
	o      Options
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // the attempt to start, and who waits for a death

	mu        sync.Mutex
	proc      *process // nil when none runs
	try       *attempt // the start that is under way
	deaths    int      // in a row
	notBefore time.Time
}

// attempt is one start, shared by all who wait for it.
type attempt struct {
	done chan struct{}
	proc *process
	err  error
}

var errClosed = errors.New("the gateway is closing")

// Info starts the plugin and asks it.
func (s *supervisor) Info(ctx context.Context) (agent.Info, error) {
	p, err := s.running(ctx)
	if err != nil {
		return agent.Info{}, err
	}
	info, err := p.backend.Info(ctx)
	if err != nil {
		return agent.Info{}, fmt.Errorf("plugin %s: %w", s.o.Name, err)
	}
	return info, nil
}

// Open starts the plugin if none runs, and opens a conversation in it.
func (s *supervisor) Open(ctx context.Context, o agent.Open) (agent.Conversation, error) {
	for again := true; ; again = false {
		p, err := s.running(ctx)
		if err != nil {
			return nil, err
		}
		c, err := p.backend.Open(ctx, o)
		switch {
		case err == nil:
			return &conversation{full: c.(full), proc: p}, nil
		case errors.Is(err, client.ErrLost) && again:
			// It died before it was noticed: the next one may live.
			p.await(obituaryBound)
		default:
			if ctx.Err() != nil {
				s.doubt(p) // nobody waits any more, but the next one would
			}
			return nil, p.explain(err)
		}
	}
}

// Conversations starts the plugin and asks for its agent's past
// conversations.
func (s *supervisor) Conversations(ctx context.Context, q agent.ConversationQuery) (agent.ConversationPage, error) {
	p, err := s.running(ctx)
	if err != nil {
		return agent.ConversationPage{}, err
	}
	page, err := p.backend.Conversations(ctx, q)
	if err != nil {
		return agent.ConversationPage{}, fmt.Errorf("plugin %s: %w", s.o.Name, p.explain(err))
	}
	return page, nil
}

// History starts the plugin and asks for the turns of a past conversation.
func (s *supervisor) History(ctx context.Context, q agent.HistoryQuery) (agent.HistoryPage, error) {
	p, err := s.running(ctx)
	if err != nil {
		return agent.HistoryPage{}, err
	}
	page, err := p.backend.History(ctx, q)
	if err != nil {
		return agent.HistoryPage{}, fmt.Errorf("plugin %s: %w", s.o.Name, p.explain(err))
	}
	return page, nil
}

// doubt looks after a plugin in the background.
func (s *supervisor) doubt(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() == nil {
		s.wg.Go(p.doubt)
	}
}

// running returns a live process, starting it if need be.
func (s *supervisor) running(ctx context.Context) (*process, error) {
	s.mu.Lock()
	for s.proc != nil && s.proc.dead() && s.ctx.Err() == nil {
		dying := s.proc
		s.mu.Unlock()
		select {
		case <-dying.over:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		s.mu.Lock()
	}
	if s.ctx.Err() != nil {
		s.mu.Unlock()
		return nil, errClosed
	}
	if s.proc != nil {
		defer s.mu.Unlock()
		return s.proc, nil
	}
	if s.try == nil {
		s.try = &attempt{done: make(chan struct{})}
		try, wait := s.try, time.Until(s.notBefore)
		s.wg.Go(func() { s.start(try, wait) })
	}
	try, deaths := s.try, s.deaths
	s.mu.Unlock()
	select {
	case <-try.done:
		return try.proc, try.err
	case <-ctx.Done():
		if deaths > 0 {
			return nil, fmt.Errorf("plugin %s has died or not started %d times in a row: %w", s.o.Name, deaths, ctx.Err())
		}
		return nil, fmt.Errorf("plugin %s has not started yet: %w", s.o.Name, ctx.Err())
	}
}

// start waits out the backoff, starts the plugin and publishes the result.
func (s *supervisor) start(try *attempt, wait time.Duration) {
	defer close(try.done)
	if wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-s.ctx.Done():
			try.err = errClosed
			return
		}
	}
	p, err := launch(s.o)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.try = nil
	if err != nil {
		s.died(0)
		s.o.Logger.Error("the plugin did not start", "error", err, "deaths", s.deaths)
		try.err = fmt.Errorf("start plugin %s: %w", s.o.Name, err)
		return
	}
	s.proc, try.proc = p, p
	s.wg.Go(func() {
		s.o.Logger.Info("the plugin runs", "pid", p.group.PID())
		life := p.watch(s.o)
		s.mu.Lock()
		defer s.mu.Unlock()
		defer close(p.over)
		s.proc = nil
		if s.ctx.Err() == nil {
			s.died(life)
			s.o.Logger.Error("the plugin died", "pid", p.group.PID(), "status", p.obituary(), "deaths", s.deaths)
		}
	})
}

// died sets when the next start may be. Holds mu.
func (s *supervisor) died(life time.Duration) {
	if life >= stableAfter {
		s.deaths = 0
	}
	s.deaths++
	s.notBefore = time.Now().Add(min(backoffFirst<<min(s.deaths-1, 16), backoffMost))
}

// Close ends the plugin and all that it runs.
func (s *supervisor) Close() error {
	s.mu.Lock()
	s.cancel()
	try := s.try
	s.mu.Unlock()
	if try != nil {
		<-try.done
	}
	s.mu.Lock()
	p := s.proc
	s.mu.Unlock()
	var err error
	if p != nil {
		if err = p.stop(); err != nil {
			err = fmt.Errorf("stop plugin %s: %w", s.o.Name, err)
		}
	}
	s.wg.Wait()
	return err
}

// full is a conversation of the client, with all abilities.
type full interface {
	agent.Conversation
	agent.Steerer
	agent.Configurer
	agent.ServerSwitcher
}

// conversation says of a lost connection what happened to the process.
type conversation struct {
	full
	proc *process
}

// Close is not left to a plugin that hangs: one that is not well, or does not
// end the conversation in time, is killed.
func (c *conversation) Close() error {
	closed := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		t := time.NewTimer(closePatience)
		defer t.Stop()
		select {
		case <-closed:
		case <-t.C:
			c.proc.doubt()
		}
	})
	err := c.full.Close()
	close(closed)
	watch.Wait()
	if errors.Is(err, client.ErrNotClosed) && !c.proc.dead() {
		c.proc.kill(err)
	}
	return err
}

func (c *conversation) Recv(ctx context.Context) ([]agent.Frame, error) {
	frames, err := c.full.Recv(ctx)
	if err != nil {
		err = c.proc.explain(err)
	}
	return frames, err
}
