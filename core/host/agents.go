package host

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/store"
)

// AgentInfo is what is known of an agent backend.
type AgentInfo struct {
	Name string
	Info agent.Info
	// Err is why the agent could not be asked; nil while nobody has.
	Err error
	// Known: the agent was asked and has answered.
	Known bool
}

// agents keeps what the backends say of themselves.
type agents struct {
	host *Host
	wg   sync.WaitGroup

	mu    sync.Mutex
	infos []AgentInfo
	ready chan struct{} // closed once all have been asked
}

// newAgents asks all backends in the background. Until a backend answers, it
// is what it said of itself the last time.
func newAgents(ctx context.Context, h *Host) *agents {
	a := &agents{host: h, ready: make(chan struct{})}
	for _, b := range h.opt.Backends {
		info := AgentInfo{Name: b.Name, Info: agent.Info{Name: b.Name, Title: b.Name}}
		if stored, err := h.store.Get(ctx, agentKey(b.Name)); err == nil {
			if err := json.Unmarshal(stored, &info.Info); err != nil {
				h.log.Warn("What an agent said of itself cannot be read", "backend", b.Name, "err", err)
			}
		}
		a.infos = append(a.infos, info)
	}
	a.wg.Go(func() {
		defer close(a.ready)
		var wg sync.WaitGroup
		for i, b := range h.opt.Backends {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(h.ctx, ProbeWithin)
				defer cancel()
				info, err := b.Backend.Info(ctx)
				a.mu.Lock()
				defer a.mu.Unlock()
				a.infos[i].Err, a.infos[i].Known = err, err == nil
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						h.log.Warn("An agent could not be asked what it is", "backend", b.Name, "err", err)
					}
					return
				}
				info.Name = b.Name
				if info.Title == "" {
					info.Title = b.Name
				}
				a.infos[i].Info = info
				if stored, err := json.Marshal(info); err == nil {
					h.store.Commit(store.Batch{Put: []store.KV{{Key: agentKey(b.Name), Value: stored}}, Lazy: true})
				}
			})
		}
		wg.Wait()
	})
	return a
}

func (a *agents) close() { a.wg.Wait() }

// Agents returns the backends with what they say of themselves, as far as
// they have answered; the first is the default.
func (h *Host) Agents() []AgentInfo {
	h.agents.mu.Lock()
	defer h.agents.mu.Unlock()
	return slices.Clone(h.agents.infos)
}

// AgentsReady waits until every backend was asked.
func (h *Host) AgentsReady(ctx context.Context) error {
	select {
	case <-h.agents.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *Host) backend(name string) agent.Backend {
	for _, b := range h.opt.Backends {
		if b.Name == name {
			return b.Backend
		}
	}
	return nil
}

// can is what a backend promises; nothing before it has answered.
func (h *Host) can(name string) agent.Capabilities {
	h.agents.mu.Lock()
	defer h.agents.mu.Unlock()
	for _, a := range h.agents.infos {
		if a.Name == name {
			return a.Info.Capabilities
		}
	}
	return agent.Capabilities{}
}

func (h *Host) isClosing() bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.closing
}
