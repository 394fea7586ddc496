package ahp

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
)

// The session configuration that this host declares. The words of mode are
// those that editors have a picker of their own for.
const (
	keyMode   = "mode"
	keyModel  = "model"
	keyEffort = "effortLevel"
	keyAgent  = "agent"
	// keyThinking is where an editor's model picker puts the effort.
	keyThinking = "thinkingLevel"

	// anyModel stands for an agent's own choice, where it names no models.
	anyModel = "default"
)

var modes = []struct {
	mode               event.Mode
	word, label, about string
}{
	{event.ModePlan, "plan", "Plan", "Reads, writes only documents, asks before it runs commands"},
	{event.ModeAccept, "interactive", "Interactive", "Edits files, asks before it runs commands"},
	{event.ModeAuto, "autopilot", "Autopilot", "Asks only about settings and secrets"},
}

func modeWord(m event.Mode) string {
	for _, row := range modes {
		if row.mode == m {
			return row.word
		}
	}
	return string(m)
}

// modeOf reads a mode, in this protocol's words or in the gateway's own.
func modeOf(word string) (event.Mode, bool) {
	for _, row := range modes {
		if row.word == word || string(row.mode) == word {
			return row.mode, true
		}
	}
	return "", false
}

// configValues are the settings of a session under the declared keys.
func configValues(info *event.SessionInfo) values {
	s := info.Settings
	words := map[string]string{keyMode: modeWord(s.Mode), keyModel: s.Model, keyEffort: s.Effort, keyAgent: s.Agent}
	maps.Copy(words, fixedValues(info))
	v := values{}
	for key, word := range words {
		if word != "" {
			v[key] = encode(word)
		}
	}
	if s.ShellInit != "" {
		v[keyShells] = json.RawMessage(s.ShellInit)
	}
	return v
}

// configChanges is what differs; whole when a key went, which only a
// replacement can say.
func configChanges(was, now values) (changes values, whole bool) {
	changes = values{}
	for k, v := range now {
		if !sameValue(was[k], v) {
			changes[k] = v
		}
	}
	for k := range was {
		if _, there := now[k]; !there {
			return now, true
		}
	}
	return changes, false
}

// schemaFor declares the configuration of an agent's sessions.
func schemaFor(info *agent.Info) configSchema {
	mode := configProperty{Type: "string", Title: "Mode", Description: "How much the agent may do without asking",
		Default: modeWord(event.ModeAccept), SessionMutable: true}
	for _, row := range modes {
		mode.Enum = append(mode.Enum, row.word)
		mode.EnumLabels = append(mode.EnumLabels, row.label)
		mode.EnumDescriptions = append(mode.EnumDescriptions, row.about)
	}
	s := configSchema{Type: "object", Properties: map[string]configProperty{keyMode: mode}}
	if len(info.Models) > 0 {
		// Not listed: editors would draw a second picker of models, which says
		// nothing, as every message names the model of the first.
		p := configProperty{Type: "string", Title: "Model", Description: "The model of messages that name none",
			Default: info.Models[0].ID, SessionMutable: true}
		for _, m := range info.Models {
			p.offers, p.labels = append(p.offers, m.ID), append(p.labels, modelName(m))
		}
		s.Properties[keyModel] = p
	}
	if !slices.ContainsFunc(info.Models, func(m agent.Model) bool { return len(info.EffortsOf(&m)) > 0 }) && len(info.Efforts) > 0 {
		// Else the picker of models has it: two controls of one thing are one too many.
		s.Properties[keyEffort] = configProperty{Type: "string", Title: "Effort", Enum: info.Efforts, SessionMutable: true}
	}
	if len(info.Agents) > 0 {
		p := configProperty{Type: "string", Title: "Agent", SessionMutable: true}
		for _, a := range info.Agents {
			p.Enum, p.EnumDescriptions = append(p.Enum, a.Name), append(p.EnumDescriptions, a.Description)
		}
		s.Properties[keyAgent] = p
	}
	if info.Capabilities.ShellInit {
		s.Properties[keyShells] = shellsProperty
	}
	return s
}

func modelName(m agent.Model) string {
	if m.Name != "" {
		return m.Name
	}
	return m.ID
}

// settingsFrom lays configuration over settings. What the schema does not
// declare, or a value it does not list, is an error when strict; editors send
// such keys when they create a session, and there they mean nothing. Scripts that
// cannot be are always one.
func settingsFrom(s event.Settings, config map[string]json.RawMessage, schema configSchema, strict bool) (event.Settings, error) {
	for key, raw := range config {
		p, declared := schema.Properties[key]
		var word string
		switch {
		case !declared && strict:
			return s, refusal("this host has no setting " + clip(key))
		case !declared:
			continue
		case key == keyShells:
			scripts, err := readShells(raw)
			if err != nil {
				return s, err
			}
			s.ShellInit = scripts
			continue
		case json.Unmarshal(raw, &word) != nil || !offered(p, key, word):
			if strict {
				return s, refusal("that is no value of the setting " + clip(key))
			}
			continue
		}
		switch key {
		case keyMode:
			s.Mode, _ = modeOf(word)
		case keyModel:
			s.Model = word
		case keyEffort:
			s.Effort = word
		case keyAgent:
			s.Agent = word
		}
	}
	return s, nil
}

func offered(p configProperty, key, word string) bool {
	if key == keyMode {
		_, ok := modeOf(word)
		return ok
	}
	return slices.Contains(p.values(), word)
}

func (p *configProperty) values() []string { return append(slices.Clip(p.Enum), p.offers...) }

// clip shortens a peer's own word for an error.
func clip(s string) string {
	if len(s) > 80 {
		s = s[:80]
	}
	return s
}

// agentNamed finds an agent.
func (f *Front) agentNamed(name string) (*host.AgentInfo, bool) {
	agents := f.host.Agents()
	for i := range agents {
		if agents[i].Name == name {
			return &agents[i], true
		}
	}
	return nil, false
}

func (f *Front) schemaOf(backend string) configSchema {
	if a, ok := f.agentNamed(backend); ok {
		return schemaFor(&a.Info)
	}
	return schemaFor(&agent.Info{})
}

// agents lists the agents as the root channel shows them.
func (f *Front) agents() []agentInfo {
	infos := f.host.Agents()
	out := make([]agentInfo, len(infos))
	for i, a := range infos {
		s := agentInfo{Provider: a.Name, DisplayName: a.Info.Title, Description: a.Info.Description, Models: []modelInfo{},
			ProtectedResources: f.lendables(&a.Info), Customizations: everywhere(&a.Info), Capabilities: agentCapabilities{MultipleChats: multipleChats{Fork: a.Info.Capabilities.Fork, SideChat: true}}}
		if a.Info.Capabilities.Dirs {
			s.Capabilities.MultipleDirs = &multipleDirs{true, true}
		}
		for _, m := range a.Info.Models {
			row := modelInfo{ID: m.ID, Provider: a.Name, Name: modelName(m), MaxContextWindow: m.Context}
			if a.Info.Capabilities.Images {
				row.SupportsVision = ptr(m.Images)
			}
			if levels := a.Info.EffortsOf(&m); len(levels) > 0 {
				row.ConfigSchema = &configSchema{Type: "object", Properties: map[string]configProperty{
					keyThinking: {Type: "string", Title: "Thinking", Enum: levels}}}
			}
			s.Models = append(s.Models, row)
		}
		if len(s.Models) == 0 { // editors draw no prompt box for an agent without a model
			s.Models = append(s.Models, modelInfo{ID: anyModel, Provider: a.Name, Name: "Default"})
		}
		out[i] = s
	}
	return out
}

// messageSettings are what a message itself picks.
func messageSettings(m *modelSelection) event.Settings {
	var s event.Settings
	if m == nil {
		return s
	}
	if m.ID != anyModel {
		s.Model = m.ID
	}
	_ = json.Unmarshal(m.Config[keyThinking], &s.Effort) // absent or of another kind: none
	return s
}

// configOf is a session's configuration.
func (f *Front) configOf(info *event.SessionInfo) configState {
	c := configState{Schema: f.schemaOf(info.Backend), Values: configValues(info)}
	if fixed := fixedValues(info); fixed != nil {
		var branches []string
		if b := fixed[keyBranch]; b != "" {
			branches = []string{b}
		}
		withIsolation(c.Schema, branches, fixed[keyBranch])
	}
	return c
}

// resolved merges answers so far with the defaults, as resolveSessionConfig
// gives them back.
func resolvedConfig(schema configSchema, given map[string]json.RawMessage) map[string]json.RawMessage {
	values := map[string]json.RawMessage{}
	for key, p := range schema.Properties {
		if p.Default != nil {
			values[key] = encode(p.Default)
		}
	}
	maps.Copy(values, given)
	return values
}
