package ahp

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/extend"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
)

// customizations tells the sessions that are projected of what changed in what
// their agents have. The core must not wait for it, so it is told on a goroutine
// of its own.
type customizations struct {
	front *Front
	wake  chan struct{}

	mu      sync.Mutex
	changed map[id.ID]bool // Nil: all
}

func newCustomizations(f *Front) *customizations {
	c := &customizations{front: f, wake: make(chan struct{}, 1), changed: map[id.ID]bool{}}
	f.host.Extensions().Watch(c.touch)
	return c
}

// touch has a session looked at again.
func (c *customizations) touch(session id.ID) {
	c.mu.Lock()
	c.changed[session] = true
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *customizations) run(ctx context.Context) {
	for {
		select {
		case <-c.wake:
		case <-ctx.Done():
			return
		}
		c.mu.Lock()
		changed := c.changed
		c.changed = map[id.ID]bool{}
		c.mu.Unlock()
		for _, l := range c.front.projections() {
			if changed[l.id] || changed[id.Nil] {
				l.settleCustomizations()
			}
		}
	}
}

func (f *Front) projections() []*live {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]*live, 0, len(f.lives))
	for _, l := range f.lives {
		out = append(out, l)
	}
	return out
}

// customizationsNow are those of the session as things stand.
func (l *live) customizationsNow() []customization {
	info := &l.st.Info
	view := l.front.host.Extensions().Of(l.id)
	a, _ := l.front.agentNamed(info.Backend)
	if a == nil {
		a = &host.AgentInfo{}
	}
	offer := view.Offer
	if offer == nil {
		offer = &agent.Offer{Commands: a.Info.Commands, Subagents: a.Info.Subagents}
	}
	out := append(containers(l.ownOffer(offer), a.Info.Folders, info.Dirs[0]), l.servers(&view)...)
	return append(out, l.pluginShapes(a)...)
}

// settleCustomizations says what changed of them.
func (l *live) settleCustomizations() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.customize()
}

// customize is settleCustomizations for who holds mu.
func (l *live) customize() {
	was, now := l.customized, l.customizationsNow()
	if reflect.DeepEqual(was, now) {
		return
	}
	l.customized = now
	defer l.askSignIn()
	actions, fits := customizationActions(was, now)
	if !fits {
		l.say(id.Nil, nil, func(*renderer) any {
			return map[string]any{"type": "session/customizationsChanged", "customizations": now}
		})
		return
	}
	for _, a := range actions {
		o := l.take("toggle:" + a.id)
		if o != nil && a.decided {
			l.say(id.Nil, o, func(*renderer) any {
				return toggleAction{"session/customizationToggled", a.id, a.decisions}
			})
			if a.only {
				continue
			}
		}
		l.say(id.Nil, nil, func(*renderer) any { return a.action })
	}
}

type toggleAction struct {
	Type       string       `json:"type"`
	ID         string       `json:"id"`
	Enablement []enablement `json:"enablement"`
}

// customizationAction says one change of the list.
type customizationAction struct {
	id     string
	action any
	// decided: what was decided of it changed, to decisions; only: nothing else.
	decided, only bool
	decisions     []enablement
}

// customizationActions are those that lead from one list to another, of servers
// and plugins that changed, came or went; false when that takes the whole list.
func customizationActions(was, now []customization) (out []customizationAction, fits bool) {
	at := map[string]*customization{}
	for i := range now {
		at[now[i].ID] = &now[i]
	}
	left := []string{}
	for i := range was {
		old, next := &was[i], at[was[i].ID]
		if next == nil {
			if old.Type == typeDirectory {
				return nil, false
			}
			out = append(out, customizationAction{id: old.ID, action: map[string]any{"type": "session/customizationRemoved", "id": old.ID}})
			continue
		}
		left = append(left, old.ID)
		if reflect.DeepEqual(old, next) {
			continue
		}
		if old.Type == typeDirectory || next.Type == typeDirectory {
			return nil, false
		}
		out = append(out, change(old, next))
	}
	for i := range now {
		if slices.Contains(left, now[i].ID) {
			continue
		}
		if now[i].Type == typeDirectory {
			return nil, false
		}
		left = append(left, now[i].ID)
		out = append(out, customizationAction{id: now[i].ID, action: updated(&now[i])})
	}
	return out, slices.EqualFunc(left, now, func(name string, c customization) bool { return name == c.ID })
}

func updated(c *customization) any {
	return map[string]any{"type": "session/customizationUpdated", "customization": c}
}

// change says how a server or a plugin changed.
func change(old, next *customization) customizationAction {
	a := customizationAction{id: next.ID, action: updated(next), decisions: next.Enablement}
	if a.decisions == nil {
		a.decisions = []enablement{}
	}
	a.decided = !slices.Equal(old.Enablement, next.Enablement)
	only := *old
	only.Enablement = next.Enablement
	a.only = a.decided && reflect.DeepEqual(&only, next)
	state := *old
	state.State = next.State
	if next.Type == typeServer && reflect.DeepEqual(&state, next) {
		a.action = map[string]any{"type": "session/mcpServerStateChanged", "id": next.ID, "state": next.State}
	}
	return a
}

// customization finds one that clients were told of, and the container it is in.
func (l *live) customization(name string) (c *customization, inside bool) {
	for i := range l.customized {
		if l.customized[i].ID == name {
			return &l.customized[i], false
		}
	}
	for i := range l.customized {
		if children := l.customized[i].Children; children != nil {
			for j := range *children {
				if (*children)[j].ID == name {
					return &(*children)[j], true
				}
			}
		}
	}
	return nil, false
}

// named finds what an action is about.
func (a *action) named(name string) (customization, error) {
	a.live.mu.Lock()
	defer a.live.mu.Unlock()
	if c, _ := a.live.customization(name); c != nil {
		return *c, nil
	}
	return customization{}, refusal("this host has no such customization")
}

// toggleCustomization takes what a person decides of a customization.
func (a *action) toggleCustomization(context.Context) error {
	var p struct {
		ID         string        `json:"id" jsonx:"required"`
		Enablement *[]enablement `json:"enablement" jsonx:"required"`
	}
	if err := decode(a.raw, &p, "action"); err != nil {
		return err
	}
	c, err := a.named(p.ID)
	if err != nil {
		return err
	}
	info := a.live.session().State().Info
	ds, err := decisions(*p.Enablement, info.Dirs[0])
	if err != nil {
		return err
	}
	if c.Type == typePlugin {
		return a.togglePlugin(p.ID, ds)
	}
	if c.Type != typeServer {
		a.live.restate()
		return refusal("the agents of this host have no switch for a " + c.Type)
	}
	if !a.can(info.Backend).SwitchServers {
		a.live.restate()
		return refusal(noSwitch)
	}
	thing := host.ServerThing(info.Backend, c.Name)
	before := extend.On(a.conn.front.host.Extensions().Decisions(a.live.id, info.Dirs[0], thing))
	a.live.expecting("toggle:"+p.ID, a)
	changed, err := a.conn.front.host.Extensions().Decide(a.live.id, info.Dirs[0], thing, ds)
	if err != nil || !changed {
		a.live.unexpect("toggle:"+p.ID, a.origin)
		if errors.Is(err, extend.ErrTooMany) {
			return refusal("this host keeps no more decisions")
		}
		if err == nil {
			err = errUnchanged
		}
		return err
	}
	a.live.settleCustomizations()
	if on := extend.On(ds); on != before {
		a.conn.front.switchEverywhere(info.Backend, c.Name)
	}
	return nil
}

// restate says the whole list again: a client that could not have its way has
// drawn it otherwise.
func (l *live) restate() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.say(id.Nil, nil, func(*renderer) any {
		return map[string]any{"type": "session/customizationsChanged", "customizations": l.customized}
	})
}

const (
	noSwitch = "this agent connects to its MCP servers by itself and cannot be told to"
	noStop   = "this agent lets go of no MCP server: take it out of the agent's configuration"
)

// can is what the agent of that name can do.
func (a *action) can(backend string) agent.Capabilities {
	info, ok := a.conn.front.agentNamed(backend)
	if !ok {
		return agent.Capabilities{}
	}
	return info.Info.Capabilities
}

// decisions reads what a client decides of a customization.
func decisions(list []enablement, dir string) ([]extend.Decision, error) {
	var out []extend.Decision
	for _, e := range list {
		d := extend.Decision{On: e.Enabled}
		for scope, kind := range scopeKinds {
			if kind == e.Kind {
				d.Scope = scope
			}
		}
		switch {
		case d.Scope == "":
			return nil, refusal("action.enablement: want session, workspace or global, got " + clip(e.Kind))
		case slices.ContainsFunc(out, func(o extend.Decision) bool { return o.Scope == d.Scope }):
			return nil, refusal("action.enablement: " + e.Kind + " is there twice")
		case d.Scope == extend.ForFolder && e.URI != fileURI(dir):
			return nil, refusal("action.enablement: the workspace of this session is " + fileURI(dir))
		case d.Scope == extend.ForFolder:
			d.Dir = dir
		}
		out = append(out, d)
	}
	return out, nil
}

// switchEverywhere has the agents that run follow what was decided of a server:
// a decision may be for more sessions than the one it was made in.
func (f *Front) switchEverywhere(backend, name string) {
	for _, l := range f.projections() {
		s := l.session()
		info := s.State().Info
		view := f.host.Extensions().Of(l.id)
		st := view.Server(name)
		if st == nil || info.Backend != backend {
			continue
		}
		on := extend.On(f.host.Extensions().Decisions(l.id, info.Dirs[0], host.ServerThing(backend, name)))
		if on == (st.State != agent.ServerOff) {
			continue
		}
		// Without a running agent the next one is told.
		if err := s.SwitchServer(f.ctx, agent.ServerSwitch{Name: name, On: on}); err != nil && !errors.Is(err, host.ErrInvalid) {
			f.log.Warn("An MCP server could not be switched", "session", l.id.String(), "server", name, "err", err)
		}
	}
}

func (a *action) server() (customization, error) {
	var p struct {
		ID string `json:"id" jsonx:"required"`
	}
	if err := decode(a.raw, &p, "action"); err != nil {
		return customization{}, err
	}
	c, err := a.named(p.ID)
	if err == nil && c.Type != typeServer {
		err = refusal("that customization is no MCP server")
	}
	return c, err
}

func (a *action) startServer(ctx context.Context) error { return a.switchServer(ctx, true) }
func (a *action) stopServer(ctx context.Context) error  { return a.switchServer(ctx, false) }

// switchServer does as asked and says so; the agent's word how it went follows.
func (a *action) switchServer(ctx context.Context, on bool) error {
	c, err := a.server()
	if err != nil {
		return err
	}
	info := a.live.session().State().Info
	switch can := a.can(info.Backend); {
	case can.SwitchServers:
	case !can.StartServers:
		return refusal(noSwitch)
	case !on:
		return refusal(noStop)
	}
	known := a.conn.front.host.Extensions()
	thing := host.ServerThing(info.Backend, c.Name)
	if ds := known.Decisions(a.live.id, info.Dirs[0], thing); on && !extend.On(ds) {
		ds = append([]extend.Decision{{Scope: extend.ForSession, On: true}}, slices.DeleteFunc(ds, func(d extend.Decision) bool { return d.Scope == extend.ForSession })...)
		if _, err := known.Decide(a.live.id, info.Dirs[0], thing, ds); err != nil {
			return err
		}
	}
	err = a.live.session().SwitchServer(ctx, agent.ServerSwitch{Name: c.Name, On: on})
	switch {
	case errors.Is(err, host.ErrInvalid):
		return refusal("no agent runs in this session now: it connects to its servers with the next message")
	case err != nil:
		return err
	}
	a.live.mu.Lock()
	if c, _ := a.live.customization(c.ID); c != nil {
		told := *c
		told.State = &mcpState{Kind: "stopped"}
		if on {
			told.State = &mcpState{Kind: "starting"}
		}
		a.live.replace(told)
	}
	a.live.say(id.Nil, &a.origin, func(*renderer) any { return a.raw })
	a.live.customize()
	a.live.mu.Unlock()
	return nil
}

// replace puts a customization in the place of the one with its id.
func (l *live) replace(c customization) {
	l.customized = slices.Clone(l.customized)
	for i := range l.customized {
		if l.customized[i].ID == c.ID {
			l.customized[i] = c
		}
	}
}

// backgroundServer asks that no turn waits for a server that starts; none does.
func (a *action) backgroundServer(context.Context) error {
	if _, err := a.server(); err != nil {
		return err
	}
	return errUnchanged
}
