package demo

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/polyhost/polyhost/core/agent"
)

// extras are what the script says that the agent has beside the conversation.
type extras struct {
	mu      sync.Mutex // held while it is said, so that the last word is right
	offer   agent.Offer
	servers []agent.ServerStatus
	locked  map[string]bool // by name: wants a sign-in when it is used
	changed chan struct{}   // closed when servers changes; nil while nobody waits
	work    []agent.Work
}

// server says that there is an MCP server, or how it is now; text is its
// address, or why it failed. It reports false for a line that makes no sense.
func (s *script) server(name, state, text string) (bool, error) {
	st := agent.ServerStatus{Name: name, State: agent.ServerState(state)}
	switch st.State {
	case stateLocked:
		st.State, st.URL = agent.ServerReady, text
	case agent.ServerStarting, agent.ServerReady, agent.ServerSignIn, agent.ServerOff:
		st.URL = text
	case agent.ServerFailed:
		st.Error = text
	case "gone":
	default:
		return false, nil
	}
	x := &s.t.c.extras
	x.mu.Lock()
	defer x.mu.Unlock()
	i := slices.IndexFunc(x.servers, func(k agent.ServerStatus) bool { return k.Name == name })
	switch {
	case state == "gone" && i >= 0:
		x.servers = slices.Delete(slices.Clone(x.servers), i, i+1)
	case state == "gone" || i < 0 && len(x.servers) == maxExtras:
		return false, nil
	case i >= 0:
		x.servers = slices.Clone(x.servers)
		x.servers[i] = st
	default:
		x.servers = append(slices.Clip(x.servers), st)
	}
	if x.locked == nil {
		x.locked = map[string]bool{}
	}
	x.locked[name] = state == stateLocked
	return true, x.say(s.t.ctx, s.t.c)
}

// stateLocked is what a script calls a server that is ready until it is used.
const stateLocked = "locked"

// say says how the servers are; the caller holds mu.
func (x *extras) say(ctx context.Context, c *conversation) error {
	if x.changed != nil {
		close(x.changed)
		x.changed = nil
	}
	return c.out.Put(ctx, agent.Frame{Kind: agent.Servers, Servers: x.servers})
}

// set puts a server into a state and says so; the caller holds mu.
func (x *extras) set(ctx context.Context, c *conversation, i int, state agent.ServerState) error {
	x.servers = slices.Clone(x.servers)
	x.servers[i].State, x.servers[i].Error = state, ""
	return x.say(ctx, c)
}

// useServer calls a tool of a server. One that is locked wants somebody to sign
// in first: the call waits until it is ready, or cannot be used any more.
func (s *script) useServer(name, tool, text string) error {
	t, id := agent.Tool{Name: tool, Title: tool, Server: name}, s.t.c.newID("call")
	for _, kind := range []agent.FrameKind{agent.ToolStart, agent.ToolRun} {
		if err := s.put(agent.Frame{Kind: kind, Call: id, Tool: &t}); err != nil {
			return err
		}
	}
	x := &s.t.c.extras
	for waits := false; ; waits = true {
		x.mu.Lock()
		i := slices.IndexFunc(x.servers, func(k agent.ServerStatus) bool { return k.Name == name })
		if i >= 0 && x.locked[name] {
			x.locked[name] = false
			if err := x.set(s.t.ctx, s.t.c, i, agent.ServerSignIn); err != nil {
				x.mu.Unlock()
				return err
			}
			waits = true
		}
		var state agent.ServerState
		if i >= 0 {
			state = x.servers[i].State
		}
		switch {
		case state == agent.ServerReady:
			x.mu.Unlock()
			return s.end(id, agent.Result{Output: text})
		case !waits || state != agent.ServerSignIn && state != agent.ServerStarting:
			x.mu.Unlock()
			return s.end(id, failed(errors.New("the MCP server "+name+" cannot be used now")))
		}
		if x.changed == nil {
			x.changed = make(chan struct{})
		}
		changed := x.changed
		x.mu.Unlock()
		select {
		case <-changed:
		case <-s.t.ctx.Done():
			return s.t.ctx.Err()
		}
	}
}

// offers says that there is a command or a skill more.
func (s *script) offers(c agent.Command) (bool, error) {
	x := &s.t.c.extras
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.offer.Commands) == maxExtras {
		return false, nil
	}
	x.offer.Commands = append(slices.Clip(x.offer.Commands), c)
	offer := x.offer
	return true, s.t.c.out.Put(s.t.ctx, agent.Frame{Kind: agent.Offers, Offer: &offer})
}

// plugins says which plugins the conversation has.
func (s *script) plugins() error {
	var there []string
	for _, dir := range s.t.c.plugins {
		if _, err := os.ReadDir(dir); err == nil {
			there = append(there, filepath.Base(dir))
		}
	}
	if there == nil {
		there = []string{"none"}
	}
	return s.say(agent.TextDelta, "plugins: "+strings.Join(there, ", "))
}

// background says that the agent goes on with something, or not any more. Nothing
// runs.
func (s *script) background(name, command string) (bool, error) {
	x := &s.t.c.extras
	x.mu.Lock()
	defer x.mu.Unlock()
	x.work = slices.DeleteFunc(slices.Clone(x.work), func(w agent.Work) bool { return w.ID == name })
	if command != "" {
		if len(x.work) == maxExtras {
			return false, nil
		}
		x.work = append(x.work, agent.Work{ID: name, Label: name, Command: command})
	}
	f := agent.Frame{Kind: agent.Background, Work: x.work}
	if len(x.work) > 0 {
		f.Text = x.work[0].Label
	}
	return true, s.t.c.out.Put(s.t.ctx, f)
}

// badToken is the one token that no server takes.
const badToken = "wrong"

// SwitchServer makes a server ready or switches it off.
func (c *conversation) SwitchServer(ctx context.Context, sw agent.ServerSwitch) error {
	x := &c.extras
	x.mu.Lock()
	defer x.mu.Unlock()
	i := slices.IndexFunc(x.servers, func(k agent.ServerStatus) bool { return k.Name == sw.Name })
	if i < 0 {
		return errors.New("there is no MCP server " + sw.Name)
	}
	if !sw.On {
		return x.set(ctx, c, i, agent.ServerOff)
	}
	if sw.Token != "" {
		if err := x.set(ctx, c, i, agent.ServerStarting); err != nil {
			return err
		}
		if sw.Token == badToken {
			return x.set(ctx, c, i, agent.ServerSignIn)
		}
	}
	return x.set(ctx, c, i, agent.ServerReady)
}
