package cognitio

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/host"
)

// A backend is a provider here, and what it can run on are its models.

// defaultModel is the model of a backend that names none.
const defaultModel = "default"

// chosenModel is the core's word for a model: "" for the agent's own choice.
func chosenModel(model string) string {
	if model == defaultModel {
		return ""
	}
	return model
}

// agentsWithin is how long a client waits for agents that have not yet said
// what they are.
const agentsWithin = 3 * time.Second

// agents are the backends, the default one first. Clients read this once, at
// start, so it waits a little for those that are still starting.
func (c *call) agents() []host.AgentInfo {
	ctx, cancel := context.WithTimeout(c.ctx(), agentsWithin)
	defer cancel()
	if c.f.host.AgentsReady(ctx) != nil {
		c.f.log.Info("not all agents have said what they are yet")
	}
	return c.f.host.Agents()
}

func (f *server) agent(backend string) agent.Info {
	for _, a := range f.host.Agents() {
		if a.Name == backend {
			return a.Info
		}
	}
	return agent.Info{Name: backend, Title: backend}
}

// modelOf is the model a session shows.
func (f *server) modelOf(backend, chosen string) string {
	if chosen != "" {
		return chosen
	}
	if models := f.agent(backend).Models; len(models) > 0 {
		return models[0].ID
	}
	return defaultModel
}

func (f *server) hasPersona(backend, name string) bool {
	return slices.ContainsFunc(f.agent(backend).Agents, func(p agent.Persona) bool { return p.Name == name })
}

func (f *server) hasEffort(backend, effort string) bool {
	return effort != "" && slices.Contains(f.agent(backend).Efforts, effort)
}

func (f *server) hasCommand(backend, name string) bool {
	return slices.ContainsFunc(f.agent(backend).Commands, func(c agent.Command) bool { return c.Name == name })
}

type provider struct {
	ID      string           `json:"id"`
	Name    string           `json:"name"`
	Source  string           `json:"source"`
	Env     []string         `json:"env"`
	Options struct{}         `json:"options"`
	Models  map[string]model `json:"models"`
}

type model struct {
	ID           string       `json:"id"`
	ProviderID   string       `json:"providerID"`
	API          modelAPI     `json:"api"`
	Name         string       `json:"name"`
	Family       string       `json:"family"`
	Capabilities capabilities `json:"capabilities"`
	Cost         modelCost    `json:"cost"`
	Limit        modelLimit   `json:"limit"`
	Status       string       `json:"status"`
	Options      struct{}     `json:"options"`
	Headers      struct{}     `json:"headers"`
	ReleaseDate  string       `json:"release_date"`
	Variants     variants     `json:"variants"`
}

type variants map[string]struct{}

type modelAPI struct {
	ID  string `json:"id"`
	URL string `json:"url"`
	NPM string `json:"npm"`
}

type capabilities struct {
	Temperature bool       `json:"temperature"`
	Reasoning   bool       `json:"reasoning"`
	Attachment  bool       `json:"attachment"`
	ToolCall    bool       `json:"toolcall"`
	Input       modalities `json:"input"`
	Output      modalities `json:"output"`
	Interleaved bool       `json:"interleaved"`
}

type modalities struct {
	Text  bool `json:"text"`
	Audio bool `json:"audio"`
	Image bool `json:"image"`
	Video bool `json:"video"`
	PDF   bool `json:"pdf"`
}

type modelCost struct {
	Input  float64 `json:"input"`
	Output float64 `json:"output"`
	Cache  cache   `json:"cache"`
}

type modelLimit struct {
	Context int64 `json:"context"`
	Output  int64 `json:"output"`
}

func providerOf(a host.AgentInfo) provider {
	p := provider{ID: a.Name, Name: a.Info.Title, Source: "custom", Env: []string{}, Models: map[string]model{}}
	models := a.Info.Models
	if len(models) == 0 {
		models = []agent.Model{{ID: defaultModel, Name: a.Info.Title}}
	}
	effort := variants{}
	for _, e := range a.Info.Efforts {
		effort[e] = struct{}{}
	}
	for _, m := range models {
		name := m.Name
		if name == "" {
			name = m.ID
		}
		p.Models[m.ID] = model{ID: m.ID, ProviderID: a.Name, API: modelAPI{ID: m.ID}, Name: name, Status: "active",
			Limit: modelLimit{Context: m.Context}, Variants: effort,
			Capabilities: capabilities{Reasoning: m.Reasoning || a.Info.Capabilities.Reasoning, Attachment: m.Images || a.Info.Capabilities.Images,
				ToolCall: true, Input: modalities{Text: true, Image: m.Images || a.Info.Capabilities.Images}, Output: modalities{Text: true}}}
	}
	return p
}

func (c *call) providers() (all []provider, chosen map[string]string, connected []string) {
	chosen, connected = map[string]string{}, []string{}
	for _, a := range c.agents() {
		all = append(all, providerOf(a))
		chosen[a.Name] = c.f.modelOf(a.Name, "")
		if a.Err == nil {
			connected = append(connected, a.Name)
		}
	}
	return all, chosen, connected
}

func listProviders(c *call) (any, error) {
	all, chosen, connected := c.providers()
	return map[string]any{"all": all, "default": chosen, "connected": connected}, nil
}

func configProviders(c *call) (any, error) {
	all, chosen, _ := c.providers()
	return map[string]any{"providers": all, "default": chosen}, nil
}

func providerAuth(*call) (any, error) { return map[string]any{}, nil }

// getConfig says what a client would find in a configuration file: the model
// to start with and that nothing is shared or updated.
func getConfig(c *call) (any, error) {
	first := c.agents()[0]
	name := os.Getenv("USER")
	if name == "" {
		name = "user"
	}
	return map[string]any{"model": first.Name + "/" + c.f.modelOf(first.Name, ""), "share": "disabled", "autoupdate": false,
		"snapshot": false, "username": name, "default_agent": agentBuild, "agent": map[string]any{}, "mode": map[string]any{},
		"command": map[string]any{}, "plugin": []string{}, "provider": map[string]any{}}, nil
}

type agentInfo struct {
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	Mode        string   `json:"mode"`
	Native      bool     `json:"native"`
	Permission  []rule   `json:"permission"`
	Options     struct{} `json:"options"`
}

// listAgents are the two ways every session can work, and the default
// backend's personas.
func listAgents(c *call) (any, error) {
	first := c.agents()[0]
	out := []agentInfo{
		{Name: agentBuild, Description: "Works on the task; asks before it runs commands.", Mode: "primary", Native: true,
			Permission: []rule{{"*", "*", actionAllow}, {"bash", "*", actionAsk}, {"webfetch", "*", actionAsk}}},
		{Name: agentPlan, Description: "Reads and plans; changes nothing but documents.", Mode: "primary", Native: true,
			Permission: []rule{{"*", "*", actionAllow}, {"bash", "*", actionAsk}, {"edit", "*", actionDeny}}},
	}
	for _, p := range first.Info.Agents {
		if p.Name != agentBuild && p.Name != agentPlan {
			out = append(out, agentInfo{Name: p.Name, Description: p.Description, Mode: "primary", Permission: []rule{}})
		}
	}
	return out, nil
}

type command struct {
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	Source      string   `json:"source"`
	Template    string   `json:"template"`
	Hints       []string `json:"hints"`
}

func commandsOf(info agent.Info) []command {
	out := []command{}
	for _, c := range info.Commands {
		hints := []string{}
		if c.Hint != "" {
			hints = append(hints, "$ARGUMENTS")
		}
		out = append(out, command{Name: c.Name, Description: c.Description, Source: "command", Template: "/" + c.Name + " $ARGUMENTS", Hints: hints})
	}
	return out
}

func listCommands(c *call) (any, error) { return commandsOf(c.agents()[0].Info), nil }

func sessionCommands(c *call) (any, error) {
	p, err := c.session()
	if err != nil {
		return nil, err
	}
	c.agents()
	return commandsOf(c.f.agent(p.State().Info.Backend)), nil
}

// provider of a query, else the default backend.
func (c *call) toolsOf() ([]agent.ToolInfo, error) {
	all := c.agents()
	name := c.r.URL.Query().Get("provider")
	if name == "" {
		name = all[0].Name
	}
	for _, a := range all {
		if a.Name == name {
			return a.Info.Tools, nil
		}
	}
	return nil, badQuery("provider", "provider: there is no %.60q", name)
}

func listToolIDs(c *call) (any, error) {
	tools, err := c.toolsOf()
	out := []string{}
	for _, t := range tools {
		out = append(out, toolName(t.Name))
	}
	return out, err
}

type toolItem struct {
	ID          string          `json:"id"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

func listTools(c *call) (any, error) {
	tools, err := c.toolsOf()
	out := []toolItem{}
	for _, t := range tools {
		schema := t.Schema
		if len(strings.TrimSpace(string(schema))) == 0 {
			schema = json.RawMessage(`{"type":"object"}`)
		}
		out = append(out, toolItem{toolName(t.Name), t.Description, schema})
	}
	return out, err
}
