package codex

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/polyhost/polyhost/backends/internal/mcpjson"
	"github.com/polyhost/polyhost/core/agent"
)

var (
	// errRests: there is no process that could be told.
	errRests = errors.New("codex does not run now")
	// errKeeps: the program has no way to let go of one.
	errKeeps = errors.New("codex lets go of no MCP server")
)

// servers are the MCP servers of the conversation's thread, as the program said
// last. The conversation's mu guards them.
type servers struct {
	list  []agent.ServerStatus
	known map[string]string // addresses, of the configuration; nil until it was read
	asked bool              // for the configuration
	// failed are the newest notes of servers that did not start and of which the
	// program was not asked yet, one a server; asking: it is being asked.
	failed []serverNote
	asking bool
}

// serverNote says how a server starts.
type serverNote struct {
	ThreadID string `json:"threadId"`
	Name     string `json:"name"`
	Status   string `json:"status"`
	Error    string `json:"error"`
}

// starts follows a server of the thread that starts. It runs under mu.
func (c *conversation) starts(l *link, raw json.RawMessage) []agent.Frame {
	var n serverNote
	if lenient(json.Unmarshal(raw, &n)) != nil || n.ThreadID != c.thread || n.Name == "" || n.Name == gateway || c.ctx.Err() != nil {
		return nil
	}
	if !c.servers.asked {
		c.servers.asked = true
		c.wg.Go(func() { c.configured(l) })
	}
	st := agent.ServerStatus{Name: n.Name, State: agent.ServerStarting}
	switch n.Status {
	case "starting":
	case "ready":
		st.State = agent.ServerReady
	case "cancelled":
		st.State, st.Error = agent.ServerFailed, "its start was cancelled"
	default:
		// Only when asked does the program tell a server that is broken from one
		// that nobody has signed in to.
		if c.servers.failedToo(n) && !c.servers.asking {
			c.servers.asking = true
			c.wg.Go(func() { c.askFailed(l) })
		}
		return nil
	}
	return c.servers.set(st)
}

// set puts a server in its place, and says how all are if that is news.
func (s *servers) set(st agent.ServerStatus) []agent.Frame {
	st.URL = cmp.Or(st.URL, s.known[st.Name])
	i := slices.IndexFunc(s.list, func(k agent.ServerStatus) bool { return k.Name == st.Name })
	switch {
	case i >= 0 && s.list[i] == st, i < 0 && len(s.list) == maxServers:
		return nil
	case i >= 0:
		s.list[i] = st
	default:
		s.list = append(s.list, st)
	}
	return []agent.Frame{{Kind: agent.Servers, Servers: slices.Clone(s.list)}}
}

// configured reads what the configuration says of the servers: the addresses, and
// which are switched off.
func (c *conversation) configured(l *link) {
	var answer struct {
		Config struct {
			Servers map[string]struct {
				URL     string `json:"url"`
				Enabled *bool  `json:"enabled"`
			} `json:"mcp_servers"`
		} `json:"config"`
	}
	err := l.call(c.ctx, "config/read", map[string]any{"cwd": c.open.Dirs[0]}, &answer)
	if err != nil {
		c.log.Debug("codex does not say which MCP servers it has", "error", err)
		return
	}
	c.say(func() (frames []agent.Frame) {
		if c.link != l {
			return nil
		}
		known := map[string]string{}
		for _, s := range c.open.MCP {
			known[s.Name] = mcpjson.Bare(s.URL)
		}
		var off []string
		for name, s := range answer.Config.Servers {
			known[name] = mcpjson.Bare(s.URL)
			if s.Enabled != nil && !*s.Enabled {
				off = append(off, name)
			}
		}
		c.servers.known = known
		for _, st := range slices.Clone(c.servers.list) {
			frames = append(frames, c.servers.set(st)...)
		}
		slices.Sort(off)
		for _, name := range off {
			frames = append(frames, c.servers.set(agent.ServerStatus{Name: name, State: agent.ServerOff})...)
		}
		if n := len(frames); n > 1 {
			frames = frames[n-1:] // the last has all
		}
		return frames
	})
}

// failedToo keeps a note until the program is asked; false if there are too many.
func (s *servers) failedToo(n serverNote) bool {
	i := slices.IndexFunc(s.failed, func(k serverNote) bool { return k.Name == n.Name })
	switch {
	case i >= 0:
		s.failed[i] = n
	case len(s.failed) == maxServers:
		return false
	default:
		s.failed = append(s.failed, n)
	}
	return true
}

// askFailed asks about the servers that failed, one after the other.
func (c *conversation) askFailed(l *link) {
	for {
		c.mu.Lock()
		if c.link != l {
			c.mu.Unlock()
			return // the notes are of another process by now
		}
		s := &c.servers
		if len(s.failed) == 0 || c.ctx.Err() != nil {
			s.asking = false
			c.mu.Unlock()
			return
		}
		n := s.failed[0]
		s.failed = slices.Delete(s.failed, 0, 1)
		c.mu.Unlock()
		c.fails(l, n)
	}
}

// fails finds out what a server that did not start wants.
func (c *conversation) fails(l *link, n serverNote) {
	var answer struct {
		Data []struct {
			Name   string `json:"name"`
			Status string `json:"runtimeStatus"`
		} `json:"data"`
	}
	err := l.call(c.ctx, "mcpServerStatus/list", map[string]any{"threadId": n.ThreadID, "serverName": n.Name, "detail": "toolsAndAuthOnly"}, &answer)
	if err != nil {
		c.log.Debug("codex does not say why an MCP server did not start", "server", n.Name, "error", err)
	}
	st := agent.ServerStatus{Name: n.Name, State: agent.ServerFailed, Error: strings.ToValidUTF8(n.Error[:min(len(n.Error), maxNotice)], "")}
	for _, s := range answer.Data {
		if s.Name == n.Name && s.Status == "authenticationRequired" {
			st.State, st.Error = agent.ServerSignIn, ""
		}
	}
	c.say(func() []agent.Frame {
		if c.link != l || c.thread != n.ThreadID {
			return nil
		}
		for _, k := range c.servers.list {
			if k.Name == st.Name && k.State != agent.ServerStarting {
				return nil // more was heard of it meanwhile
			}
		}
		return c.servers.set(st)
	})
}

// SwitchServer connects anew to the servers that are not connected: the program
// has no narrower word for it.
func (c *conversation) SwitchServer(ctx context.Context, s agent.ServerSwitch) error {
	if !s.On {
		return errKeeps
	}
	c.mu.Lock()
	l := c.link
	c.mu.Unlock()
	if l == nil {
		return errRests
	}
	return l.call(ctx, "config/mcpServer/reload", map[string]any{}, nil)
}
