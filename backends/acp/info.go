package acp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/polyhost/polyhost/backends/internal/openset"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/lines"
)

// probe is one look at the agent, shared by all who wait for it.
type probe struct {
	done chan struct{}
	info agent.Info
	err  error
}

// Info says what the agent has. The look at it goes on when the caller has no
// time left: a slow start is not begun again and again. An answer without
// problems is kept.
func (b *Backend) Info(ctx context.Context) (agent.Info, error) {
	b.mu.Lock()
	if b.ctx.Err() != nil {
		b.mu.Unlock()
		return agent.Info{}, openset.ErrClosed
	}
	p := b.probe
	if p == nil {
		p = &probe{done: make(chan struct{})}
		b.probe = p
		b.wg.Go(func() {
			p.info, p.err = b.examine(b.ctx)
			if p.err != nil || len(p.info.Problems) > 0 {
				b.mu.Lock()
				b.probe = nil
				b.mu.Unlock()
			}
			close(p.done)
		})
	}
	b.mu.Unlock()
	select {
	case <-p.done:
		return p.info, p.err
	case <-ctx.Done():
		return agent.Info{}, fmt.Errorf("%s has not started yet: %w", b.agent.Title, ctx.Err())
	}
}

// examine opens a session in which nothing is done, and reads the list of past
// conversations on the way: starting an agent is dear.
func (b *Backend) examine(ctx context.Context) (agent.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, shakeBound)
	defer cancel()
	dir, err := b.lookout()
	if err != nil {
		return agent.Info{}, err
	}
	q := &quietListener{commands: make(chan struct{}, 1)}
	l, err := b.agent.connect(ctx, dir, nil, q)
	if err != nil {
		return agent.Info{}, err
	}
	defer l.stop()
	info := b.agent.describe(&l.init)
	err = l.look(ctx, dir)
	var problem *agent.Problem
	switch {
	case errors.As(err, &problem):
		info.Problems = append(info.Problems, *problem)
		return info, nil
	case err != nil:
		return info, b.agent.broken(err.Error())
	}
	t := time.NewTimer(commandsBound)
	defer t.Stop()
	select {
	case <-q.commands:
	case <-t.C:
	case <-ctx.Done():
	}
	l.fill(&info)
	l.leave(ctx)
	if info.Capabilities.Catalogue {
		if all, err := l.conversations(ctx, dir); err == nil { // else they are asked for again
			l.stop()
			b.keep(all, b.agent.stamp())
		}
	}
	return info, nil
}

// lookout is the directory of sessions in which nothing is done. It is always
// the same one: agents remember every directory they have worked in.
func (b *Backend) lookout() (string, error) {
	dir, err := b.caches()
	if err == nil {
		dir = filepath.Join(dir, "polyhost", "probe", b.agent.Name)
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return "", fmt.Errorf("a directory to look at %s in: %w", b.agent.Title, err)
	}
	return dir, nil
}

// look opens a session in which nothing is done: the one of the last time, if
// the agent keeps such sessions for good.
func (l *link) look(ctx context.Context, dir string) error {
	o := &agent.Open{Dirs: []string{dir}}
	s := l.init.Capabilities.Session
	if s.List != nil && s.Resume != nil && s.Delete == nil {
		var a listAnswer
		if l.call(ctx, "session/list", listRequest{Dir: dir}, &a) == nil {
			for _, old := range a.Sessions {
				if filepath.Clean(old.Dir) == dir && l.open(ctx, o, old.ID) == nil {
					return nil
				}
			}
		}
	}
	return l.open(ctx, o, "")
}

// leave ends the session, as far as the agent lets it.
func (l *link) leave(ctx context.Context) {
	s := l.init.Capabilities.Session
	id := map[string]string{"sessionId": l.session}
	if s.Close != nil {
		_ = l.call(ctx, "session/close", id, nil) // it ends with the program anyway
	}
	if s.Delete != nil {
		_ = l.call(ctx, "session/delete", id, nil) // else it is used again
	}
}

// describe is what the handshake tells.
func (a *Agent) describe(init *initializeAnswer) agent.Info {
	c := init.Capabilities
	info := agent.Info{Name: a.Name, Title: a.Title, Description: a.Title + ", driven over the Agent Client Protocol"}
	if init.AgentInfo != nil {
		info.Version = init.AgentInfo.Version
	}
	info.Capabilities = agent.Capabilities{
		Resume: c.Load || c.Session.Resume != nil, Images: c.Prompt.Image, Reasoning: true, Approvals: true, ResumeTurn: true, Usage: !a.NoTokens,
		Plan: a.Plans, Subagents: a.Subagents, MCP: c.MCP.HTTP, Dirs: c.Session.Dirs != nil, Fork: c.Session.Fork != nil,
		Catalogue: c.Session.List != nil && c.Load,
	}
	return info
}

// fill adds what the session tells.
func (l *link) fill(info *agent.Info) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.choices(setModel) {
		model := agent.Model{ID: m.Value, Name: first(m.Name, m.Value), Images: info.Capabilities.Images}
		if m.Value == l.currently(setModel) {
			info.Models = append([]agent.Model{model}, info.Models...)
		} else {
			info.Models = append(info.Models, model)
		}
	}
	for _, e := range l.choices(setEffort) {
		info.Efforts = append(info.Efforts, e.Value)
	}
	if l.agent.Personas {
		for _, m := range l.choices(setMode) {
			info.Agents = append(info.Agents, agent.Persona{Name: m.Value, Description: m.Description})
		}
	}
	info.Capabilities.SetModel = len(info.Models) > 0
	info.Capabilities.SetMode = l.agent.PlanMode != "" && l.has(setMode, l.agent.PlanMode)
	info.Commands = l.commands
}

// quietListener serves a session in which nothing is done.
type quietListener struct{ commands chan struct{} }

func (q *quietListener) update(_ *link, u *update) {
	if u.Kind == "available_commands_update" {
		select {
		case q.commands <- struct{}{}:
		default:
		}
	}
}

func (q *quietListener) request(l *link, m *message) {
	if len(m.ID) > 0 {
		l.refuse(m.ID, codeNoMethod, "there is no "+m.Method)
	}
}

func (q *quietListener) tooLong(*lines.TooLongError) {}
