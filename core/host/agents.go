package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

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
	// Problems are what stands in its way, with their remedies.
	Problems []agent.Problem
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
		if err := b.missing(); err != nil {
			info.Problems = problemsOf(err)
		}
		a.infos = append(a.infos, info)
	}
	var first sync.WaitGroup
	for i := range h.opt.Backends {
		first.Add(1)
		a.wg.Go(func() { a.keepAsking(i, first.Done) })
	}
	a.wg.Go(func() {
		first.Wait()
		close(a.ready)
	})
	return a
}

// keepAsking asks one backend, and again at growing intervals while it fails:
// the agent may be installed, or mended, meanwhile.
func (a *agents) keepAsking(i int, asked func()) {
	for pause := ReprobeFirst; ; pause = min(2*pause, ReprobeMost) {
		err := a.ask(a.host.ctx, i)
		asked()
		asked = func() {}
		if err == nil {
			return
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-a.host.ctx.Done():
			t.Stop()
			return
		}
	}
}

// ask has one backend say what it is. One whose program is not there is left
// alone: it would be started for nothing. That ctx ended says nothing of the
// agent, and changes nothing.
func (a *agents) ask(ctx context.Context, i int) error {
	b := a.host.opt.Backends[i]
	within, cancel := context.WithTimeout(ctx, ProbeWithin)
	defer cancel()
	var info agent.Info
	err := b.missing()
	if err == nil {
		info, err = b.Backend.Info(within)
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil && within.Err() != nil {
		err = fmt.Errorf("no answer within %v, as from a machine that is too busy: %w", ProbeWithin, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	at := &a.infos[i]
	if err != nil {
		if before := at.Err; !at.missing() && (before == nil || before.Error() != err.Error()) {
			a.host.log.Warn("An agent could not be asked what it is", "backend", b.Name, "err", err)
		}
		at.Err, at.Known, at.Problems = err, false, problemsOf(err)
		return err
	}
	info.Name = b.Name
	if info.Title == "" {
		info.Title = b.Name
	}
	at.Err, at.Known, at.Problems, at.Info = nil, true, info.Problems, info
	if stored, err := json.Marshal(info); err == nil {
		a.host.store.Commit(store.Batch{Put: []store.KV{{Key: agentKey(b.Name), Value: stored}}, Lazy: true})
	}
	return nil
}

// missing is why the program of the agent is not there, as far as can be told.
func (b *NamedBackend) missing() error {
	if b.Missing == nil {
		return nil
	}
	return b.Missing()
}

// problemsOf is the problem that an error is, if it is one.
func problemsOf(err error) []agent.Problem {
	var p *agent.Problem
	if errors.As(err, &p) {
		return []agent.Problem{*p}
	}
	return nil
}

// missing: the agent's program is not there.
func (i *AgentInfo) missing() bool {
	return slices.ContainsFunc(i.Problems, func(p agent.Problem) bool { return p.Code == agent.ProblemMissing }) && !i.Known
}

// ProbeAgents asks all backends again and waits for their answers.
func (h *Host) ProbeAgents(ctx context.Context) {
	var wg sync.WaitGroup
	for i := range h.opt.Backends {
		wg.Go(func() { _ = h.agents.ask(ctx, i) }) // what failed is in the list
	}
	wg.Wait()
}

func (a *agents) close() { a.wg.Wait() }

// Agents returns the agents that clients are offered, with what they say of
// themselves as far as they have answered; the first is the default. Those
// that are not installed are left out, unless none is.
func (h *Host) Agents() []AgentInfo {
	all := h.AllAgents()
	offered := slices.DeleteFunc(slices.Clone(all), func(a AgentInfo) bool { return a.missing() })
	if len(offered) == 0 {
		return all
	}
	return offered
}

// AllAgents returns also the agents that are not installed.
func (h *Host) AllAgents() []AgentInfo {
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
func (h *Host) can(name string) agent.Capabilities { return h.infoOf(name).Capabilities }

// infoOf is what an agent said of itself so far.
func (h *Host) infoOf(name string) agent.Info {
	h.agents.mu.Lock()
	defer h.agents.mu.Unlock()
	for _, a := range h.agents.infos {
		if a.Name == name {
			return a.Info
		}
	}
	return agent.Info{}
}

func (h *Host) isClosing() bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.closing
}
