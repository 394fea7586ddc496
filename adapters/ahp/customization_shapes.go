package ahp

import (
	"os"
	"path/filepath"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/extend"
	"github.com/polyhost/polyhost/core/host"
)

// customization is a container, one of its children, or an MCP server.
type customization struct {
	Type                  string `json:"type"`
	ID                    string `json:"id"`
	URI                   string `json:"uri"`
	Name                  string `json:"name"`
	Description           string `json:"description,omitempty"`
	Enabled               *bool  `json:"enabled,omitempty"`
	Contents              string `json:"contents,omitempty"`
	Writable              *bool  `json:"writable,omitempty"`
	DisableUserInvocation bool   `json:"disableUserInvocation,omitempty"`
	// DisableModelInvocation is of skills and agents, Model and Tools of agents,
	// AlwaysApply and Globs of rules, in plugins.
	DisableModelInvocation bool         `json:"disableModelInvocation,omitempty"`
	Model                  string       `json:"model,omitempty"`
	Tools                  []string     `json:"tools,omitempty"`
	AlwaysApply            bool         `json:"alwaysApply,omitempty"`
	Globs                  []string     `json:"globs,omitempty"`
	Enablement             []enablement `json:"enablement,omitempty"`
	// ClientID, Version and Load are of plugins.
	ClientID string            `json:"clientId,omitempty"`
	Version  string            `json:"version,omitempty"`
	Load     *loadState        `json:"load,omitempty"`
	State    *mcpState         `json:"state,omitempty"`
	Children *[]customization  `json:"children,omitempty"`
	Meta     map[string]string `json:"_meta,omitempty"`
}

// loadState is how a plugin is: loading, loaded, or error for the reason.
type loadState struct {
	Kind    string `json:"kind"`
	Message string `json:"message,omitempty"`
}

// enablement is a decision; its kinds are session, workspace and global.
type enablement struct {
	Kind    string `json:"kind"`
	URI     string `json:"uri,omitempty"`
	Enabled bool   `json:"enabled"`
}

// mcpState is how an MCP server is.
type mcpState struct {
	Kind  string     `json:"kind"`
	Error *errorInfo `json:"error,omitempty"`
	*authRequirement
}

// authRequirement is what somebody must sign in to.
type authRequirement struct {
	Reason   string   `json:"reason"`
	Resource lendable `json:"resource"`
}

// serverResource is the resource that a client brings a token for to sign in to
// an MCP server.
func serverResource(name, address string) lendable {
	return lendable{Resource: address, ResourceName: name, Required: true}
}

// The types of customizations.
const (
	typePrompt    = "prompt"
	typeSkill     = "skill"
	typeAgent     = "agent"
	typeDirectory = "directory"
	typeServer    = "mcpServer"
	typePlugin    = "plugin"
	typeRule      = "rule"
	typeHook      = "hook"
)

// metaArgumentHint is what a skill has no field for.
const metaArgumentHint = "ahpd.argumentHint"

// containers are the folders of what an agent has, one of each kind. An agent
// does not say where it found a thing: a folder is where a person would put one
// more.
func containers(o *agent.Offer, folders agent.Folders, base string) []customization {
	kinds := []struct{ kind, name, folder string }{
		{typePrompt, "Commands", folders.Commands}, {typeSkill, "Skills", folders.Skills}, {typeAgent, "Agents", folders.Subagents},
	}
	out := []customization{}
	for _, k := range kinds {
		dir := filepath.Join(base, k.folder)
		c := customization{Type: typeDirectory, ID: k.kind + "s", URI: fileURI(dir), Name: k.name, Contents: k.kind,
			Enabled: ptr(true), Writable: ptr(k.folder != "")}
		children := []customization{}
		switch k.kind {
		case typeAgent:
			for _, s := range o.Subagents {
				children = append(children, customization{Type: k.kind, ID: k.kind + ":" + s.Name, URI: fileURI(filepath.Join(dir, s.Name+".md")),
					Name: s.Name, Description: s.Description})
			}
		default:
			for _, cmd := range o.Commands {
				if cmd.Skill == (k.kind == typeSkill) {
					children = append(children, command(cmd, k.kind, dir))
				}
			}
		}
		if len(children) > 0 {
			c.Children = &children
			out = append(out, c)
		}
	}
	return out
}

func command(cmd agent.Command, kind, dir string) customization {
	c := customization{Type: kind, ID: kind + ":" + cmd.Name, URI: fileURI(filepath.Join(dir, cmd.Name+".md")), Name: cmd.Name, Description: cmd.Description}
	if kind == typeSkill {
		c.URI = fileURI(filepath.Join(dir, cmd.Name, "SKILL.md"))
		c.DisableUserInvocation = cmd.Kept
	}
	if cmd.Hint != "" {
		c.Meta = map[string]string{metaArgumentHint: cmd.Hint}
	}
	return c
}

// serverID is what an MCP server is called here, in lists and by its calls.
func serverID(name string) string { return "mcp:" + name }

// servers are the MCP servers of a session, with what was decided of them.
func (l *live) servers(view *extend.View) (out []customization) {
	info := &l.st.Info
	for i := range view.Servers {
		s := &view.Servers[i]
		c := customization{Type: typeServer, ID: serverID(s.Name), URI: s.URL, Name: s.Name, State: serverStateOf(s)}
		if c.URI == "" {
			c.URI = serverID(s.Name)
		}
		ds := l.front.host.Extensions().Decisions(l.id, info.Dirs[0], host.ServerThing(info.Backend, s.Name))
		c.Enablement = enablements(ds, info.Dirs[0])
		out = append(out, c)
	}
	return out
}

func serverStateOf(s *agent.ServerStatus) *mcpState {
	switch s.State {
	case agent.ServerReady:
		return &mcpState{Kind: "ready"}
	case agent.ServerStarting:
		return &mcpState{Kind: "starting"}
	case agent.ServerOff:
		return &mcpState{Kind: "stopped"}
	case agent.ServerSignIn:
		if s.URL != "" {
			return &mcpState{Kind: "authRequired", authRequirement: &authRequirement{"required", serverResource(s.Name, s.URL)}}
		}
		return &mcpState{Kind: "error", Error: &errorInfo{"sign_in", "somebody must sign in to this server in the agent itself"}}
	}
	e := &errorInfo{"failed", s.Error}
	if e.Message == "" {
		e.Message = "the agent could not connect to it"
	}
	return &mcpState{Kind: "error", Error: e}
}

var scopeKinds = map[extend.Scope]string{extend.ForSession: "session", extend.ForFolder: "workspace", extend.ForAll: "global"}

func enablements(ds []extend.Decision, dir string) (out []enablement) {
	for _, d := range ds {
		e := enablement{Kind: scopeKinds[d.Scope], Enabled: d.On}
		if d.Scope == extend.ForFolder {
			e.URI = fileURI(dir)
		}
		out = append(out, e)
	}
	return out
}

// everywhere are the customizations of an agent whatever the session: those in a
// person's home.
func everywhere(info *agent.Info) []customization {
	home, err := os.UserHomeDir()
	if err != nil {
		home = "/"
	}
	return containers(&agent.Offer{Commands: info.Commands, Subagents: info.Subagents}, info.Folders, home)
}
