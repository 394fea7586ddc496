// Package acp drives agents that speak the Agent Client Protocol over stdio:
// known ones and any other that is named by its command.
//
// It is the protocol's client: it starts the agent, opens a session, sends
// prompts, answers the agent's questions and files, and maps what the agent
// says into frames. How agents differ is data, in agents.go.
//
// The package knows only the agent port: no front and no plugin.
package acp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/polyhost/polyhost/backends/internal/openset"
	"github.com/polyhost/polyhost/core/agent"
)

// Backend drives one agent, with a process for each conversation.
type Backend struct {
	agent  Agent
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // the probe
	open   openset.Set[*conversation]

	mu    sync.Mutex
	probe *probe // the one that is under way, or has succeeded

	listing sync.Mutex
	list    *listed // nil before it was read

	reading sync.Mutex
	kept    *kept

	caches func() (string, error) // finds the directory for what may be deleted
	shake  time.Duration          // how long a conversation's start may take
}

// New returns the backend of an agent. Nothing is started yet.
func New(a Agent) *Backend {
	b := &Backend{agent: a, caches: os.UserCacheDir, shake: shakeBound}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

// Open begins a conversation. The agent's program starts with the first turn.
func (b *Backend) Open(ctx context.Context, o agent.Open) (agent.Conversation, error) {
	if len(o.Dirs) == 0 {
		return nil, fmt.Errorf("%s needs a working directory", b.agent.Title)
	}
	for _, dir := range o.Dirs {
		if !filepath.IsAbs(dir) {
			return nil, fmt.Errorf("working directory %s is not absolute", dir)
		}
	}
	if _, _, err := b.agent.Program.Find(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := newConversation(b, o)
	if err := b.open.Add(c); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Close ends all conversations and their processes.
func (b *Backend) Close() error {
	b.mu.Lock()
	b.cancel() // under the lock: no probe starts after this
	b.mu.Unlock()
	err := b.open.Close()
	b.wg.Wait()
	return err
}

// aged waits until an agent can load a conversation.
func (a *Agent) aged(ctx context.Context, id string) error {
	if a.Minute == nil {
		return nil
	}
	wait := time.Until(a.Minute(id).Add(time.Minute + minuteSlack))
	if wait <= 0 {
		return nil
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
