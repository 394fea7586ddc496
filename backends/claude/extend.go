package claude

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/polyhost/polyhost/backends/internal/mcpjson"
	"github.com/polyhost/polyhost/core/agent"
)

// errRests: there is no process that could be told.
var errRests = errors.New("no process of the CLI runs now")

// extras are what the CLI has beside the conversation: its commands, its
// subagents, its MCP servers.
type extras struct {
	commands  []agent.Command
	subagents []agent.Persona
	skills    []string // of the commands, and others that it keeps for itself
	slash     []string
	said      []byte // the offer that was said
	servers   []agent.ServerStatus
	configs   map[string]json.RawMessage // of servers, with what is secret in them
	lent      map[string]serverConfig    // those of the process that a token was brought for
	stale     bool                       // the servers must be asked for
	asks      int                        // how often a server that starts was asked for
}

// offered takes the answer to the first request.
func (m *mapper) offered(a *initialized) {
	m.extras.commands, m.extras.subagents = a.offer()
	m.sayOffer()
}

// offer is what the CLI says that it has.
func (a *initialized) offer() (commands []agent.Command, subagents []agent.Persona) {
	for _, c := range a.Commands[:min(len(a.Commands), maxOffered)] {
		commands = append(commands, agent.Command{Name: c.Name, Description: clip(c.Description), Hint: clip(c.Hint)})
	}
	for _, s := range a.Agents[:min(len(a.Agents), maxOffered)] {
		subagents = append(subagents, agent.Persona{Name: s.Name, Description: clip(s.Description)})
	}
	return commands, subagents
}

// extend reads what the beginning of a turn says of these.
func (m *mapper) extend(r *record) {
	if r.Skills != nil {
		m.extras.skills, m.extras.slash = r.Skills, r.Slash
		m.sayOffer()
	}
	names := 0
	for _, s := range r.Servers {
		if s.Name == gatewayServer {
			continue
		}
		names++
		i := slices.IndexFunc(m.extras.servers, func(k agent.ServerStatus) bool { return k.Name == s.Name })
		if i < 0 || m.extras.servers[i].State != serverState(s.Status) {
			m.extras.stale, m.extras.asks = true, 0
		}
	}
	if names != len(m.extras.servers) {
		m.extras.stale = true
	}
}

func (m *mapper) sayOffer() {
	o := &agent.Offer{Commands: slices.Clone(m.extras.commands), Subagents: m.extras.subagents}
	for _, name := range m.extras.skills {
		i := slices.IndexFunc(o.Commands, func(c agent.Command) bool { return c.Name == name })
		switch {
		case i >= 0:
			o.Commands[i].Skill = true
		case !slices.Contains(m.extras.slash, name) && len(o.Commands) < 2*maxOffered:
			o.Commands = append(o.Commands, agent.Command{Name: clip(name), Skill: true, Kept: true})
		}
	}
	if len(o.Commands)+len(o.Subagents) == 0 && m.extras.said == nil {
		return
	}
	now := marshal(o)
	if bytes.Equal(now, m.extras.said) {
		return
	}
	m.extras.said = now
	m.put(agent.Frame{Kind: agent.Offers, Offer: o})
}

// serverState is the CLI's word for how a server is.
func serverState(status string) agent.ServerState {
	switch status {
	case "connected":
		return agent.ServerReady
	case "pending":
		return agent.ServerStarting
	case "needs-auth":
		return agent.ServerSignIn
	case "disabled":
		return agent.ServerOff
	}
	return agent.ServerFailed
}

// status takes the CLI's answer how its servers are.
func (m *mapper) status(raw json.RawMessage) {
	var answer struct {
		Servers []struct {
			Name   string          `json:"name"`
			Status string          `json:"status"`
			Error  string          `json:"error"`
			Config json.RawMessage `json:"config"`
		} `json:"mcpServers"`
	}
	if json.Unmarshal(raw, &answer) != nil {
		return
	}
	now := []agent.ServerStatus{}
	m.extras.configs = map[string]json.RawMessage{}
	for _, s := range answer.Servers[:min(len(answer.Servers), maxOffered)] {
		if s.Name == gatewayServer {
			continue
		}
		m.extras.configs[s.Name] = s.Config
		st := agent.ServerStatus{Name: s.Name, State: serverState(s.Status), URL: mcpjson.Bare(configOf(s.Config).URL)}
		_, lent := m.extras.lent[s.Name]
		if lent && st.State == agent.ServerFailed && strings.Contains(s.Error, tokenRejected) {
			st.State = agent.ServerSignIn
		}
		if st.State == agent.ServerFailed {
			st.Error = clip(s.Error)
		}
		now = append(now, st)
	}
	if !slices.Equal(now, m.extras.servers) {
		m.saidServers(now)
	}
}

// tokenRejected is in what the CLI says of a server that took the token for none.
const tokenRejected = "HTTP 401"

// serverConfig is what is said of a server that is reached over HTTP.
type serverConfig struct {
	Type    string            `json:"type"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitempty"`
}

func configOf(raw json.RawMessage) (s serverConfig) {
	if json.Unmarshal(raw, &s) != nil {
		return serverConfig{}
	}
	return s
}

// withToken is the configuration of a server that is reached over HTTP, with a
// token to sign in with; false for any other.
func (m *mapper) withToken(name, token string) (serverConfig, bool) {
	s := configOf(m.extras.configs[name])
	if s.URL == "" || s.Type != "http" && s.Type != "sse" {
		return s, false
	}
	headers := map[string]string{"Authorization": "Bearer " + token}
	for k, v := range s.Headers {
		if !strings.EqualFold(k, "Authorization") {
			headers[k] = v
		}
	}
	s.Headers = headers
	return s, true
}

func (m *mapper) saidServers(now []agent.ServerStatus) {
	m.extras.servers = now
	m.put(agent.Frame{Kind: agent.Servers, Servers: slices.Clone(now)})
}

// starts reports whether a server is on its way.
func (m *mapper) starts() bool {
	return slices.ContainsFunc(m.extras.servers, func(s agent.ServerStatus) bool { return s.State == agent.ServerStarting })
}

// askServers asks how the servers are, and again while one starts. The caller
// holds the lock.
func (c *conversation) askServers() {
	p := c.proc
	if p == nil {
		return
	}
	c.ask(map[string]any{"subtype": "mcp_status"}, func(r controlResponse) {
		if r.Subtype != "success" {
			return
		}
		c.m.status(r.Response)
		c.stopTimer(&c.serving)
		if c.m.starts() && c.m.extras.asks < maxServerAsks {
			c.m.extras.asks++
			c.serving = time.AfterFunc(serverAskEvery, func() {
				_ = c.change(c.ctx, func() error {
					if c.proc == p {
						c.askServers()
					}
					return nil
				})
			})
		}
	})
}

// SwitchServer connects to an MCP server or disconnects from it.
func (c *conversation) SwitchServer(ctx context.Context, s agent.ServerSwitch) error {
	return c.change(ctx, func() error {
		i := slices.IndexFunc(c.m.extras.servers, func(k agent.ServerStatus) bool { return k.Name == s.Name })
		switch {
		case c.proc == nil:
			return errRests
		case i < 0:
			return errors.New("the CLI has no MCP server " + clip(s.Name))
		}
		request := map[string]any{"subtype": "mcp_toggle", "serverName": s.Name, "enabled": s.On}
		if state := c.m.extras.servers[i].State; s.On && state != agent.ServerOff {
			// It lets nobody in that is not signed in: connecting anew asks for that.
			request = map[string]any{"subtype": "mcp_reconnect", "serverName": s.Name}
		}
		if s.Token != "" {
			with, ok := c.m.withToken(s.Name, s.Token)
			if !ok {
				return errors.New("the CLI does not say where its MCP server " + clip(s.Name) + " is")
			}
			// The CLI lets go of those that it is not told of again.
			if c.m.extras.lent == nil {
				c.m.extras.lent = map[string]serverConfig{}
			}
			c.m.extras.lent[s.Name] = with
			request = map[string]any{"subtype": "mcp_set_servers", "servers": c.m.extras.lent}
		}
		if s.On {
			now := slices.Clone(c.m.extras.servers)
			now[i].State, now[i].Error = agent.ServerStarting, ""
			c.m.saidServers(now)
		}
		c.m.extras.asks = 0
		c.ask(request, func(controlResponse) { c.askServers() })
		return nil
	})
}
