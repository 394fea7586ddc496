package zidane

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
)

// buildAgent is the protocol's name for the default way of the default agent.
// Its other ways go by their own names; another backend is an agent of the
// backend's name, its ways are "backend:way".
const buildAgent = "build"

// backend finds what is known of a backend; "" is the default one.
func (f *Front) backend(name string) (host.AgentInfo, bool) {
	for i, a := range f.host.Agents() {
		if a.Name == name || name == "" && i == 0 {
			return a, true
		}
	}
	return host.AgentInfo{}, false
}

func (f *Front) agentID(backend, persona string) string {
	first, _ := f.backend("")
	switch {
	case backend == first.Name && persona == "":
		return buildAgent
	case backend == first.Name:
		return persona
	case persona == "":
		return backend
	}
	return backend + ":" + persona
}

// agentOf finds what an agent id of the protocol means; "" is the default.
func (f *Front) agentOf(agentID string) (backend, persona string, err error) {
	first, _ := f.backend("")
	if agentID == "" || agentID == buildAgent {
		return first.Name, "", nil
	}
	for _, a := range f.host.Agents() {
		rest, own := strings.CutPrefix(agentID, a.Name)
		switch {
		case own && rest == "":
			return a.Name, "", nil
		case own && rest[0] == ':' && hasPersona(a, rest[1:]):
			return a.Name, rest[1:], nil
		}
	}
	if hasPersona(first, agentID) {
		return first.Name, agentID, nil
	}
	return "", "", failed("Agent \"%s\" not found.", shown(agentID))
}

func hasPersona(a host.AgentInfo, name string) bool {
	return slices.ContainsFunc(a.Info.Agents, func(p agent.Persona) bool { return p.Name == name })
}

func (f *Front) canSteer(backend string) bool {
	a, ok := f.backend(backend)
	return ok && a.Info.Capabilities.Steer
}

// checkModel refuses a model that the agent says it has not got.
func (f *Front) checkModel(backend, model string) error {
	a, ok := f.backend(backend)
	if len(model) > maxText {
		return badField("modelId", "longer than %d bytes", maxText)
	}
	if !ok || len(a.Info.Models) == 0 || offers(a, model) {
		return nil
	}
	return failed("Model \"%s\" not found.", shown(model))
}

func offers(a host.AgentInfo, model string) bool {
	return slices.ContainsFunc(a.Info.Models, func(m agent.Model) bool { return m.ID == model })
}

// defaultModel is the model that models.setDefault stored, where the backend
// has it.
func (f *Front) defaultModel(ctx context.Context, backend string) string {
	b, err := f.kv.Get(ctx, keyDefaultModel)
	if err != nil {
		return ""
	}
	if a, ok := f.backend(backend); ok && offers(a, string(b)) {
		return string(b)
	}
	return ""
}

// modelOf names the model that runs a message, as far as it is known before
// the agent says so.
func (f *Front) modelOf(info *event.SessionInfo, m *event.Message) string {
	model := cmp.Or(m.Settings.Model, info.Settings.Model)
	if model != "" {
		return model
	}
	if a, ok := f.backend(info.Backend); ok && len(a.Info.Models) > 0 {
		return a.Info.Models[0].ID
	}
	return info.Backend
}

func (f *Front) modelName(model string) string {
	for _, a := range f.host.Agents() {
		for _, m := range a.Info.Models {
			if m.ID == model {
				return cmp.Or(m.Name, m.ID)
			}
		}
	}
	return model
}

type runtimeObject struct {
	ModelID string         `json:"modelId"`
	AgentID string         `json:"agentId"`
	Effort  string         `json:"effort,omitempty"`
	Mode    string         `json:"mode"`
	Running bool           `json:"running"`
	RunID   string         `json:"runId,omitempty"`
	Context *contextObject `json:"context,omitempty"`
}

type contextObject struct {
	Used   int64 `json:"used"`
	Window int64 `json:"window"`
}

func (f *Front) runtimeOf(st *state.State, chat *state.Chat) runtimeObject {
	settings := st.Info.Settings
	o := runtimeObject{ModelID: f.modelOf(&st.Info, &event.Message{}), AgentID: f.agentID(st.Info.Backend, settings.Agent),
		Effort: settings.Effort, Mode: string(settings.Mode), Running: chat.Active != nil}
	if chat.Active != nil {
		o.RunID = chat.Active.ID.String()
	}
	if chat.Context != (event.ContextReported{}) {
		o.Context = &contextObject{chat.Context.Used, chat.Context.Window}
	}
	return o
}

func runtimeGet(ctx context.Context, c *call, p ref) (any, error) {
	_, st, chat, err := c.chatOf(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	return c.runtimeOf(st, chat), nil
}

func runtimeSet(ctx context.Context, c *call, p struct {
	ref
	ModelID *string `json:"modelId"`
	AgentID *string `json:"agentId"`
	Effort  *string `json:"effort"`
	Mode    *string `json:"mode"`
}) (any, error) {
	s, st, _, err := c.chatOf(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	next, err := c.changed(st.Info.Settings, st.Info.Backend, p.AgentID, p.ModelID)
	if err != nil {
		return nil, err
	}
	if next == nil {
		same := st.Info.Settings
		next = &same
	}
	if p.Mode != nil {
		switch m := event.Mode(*p.Mode); m {
		case event.ModePlan, event.ModeAccept, event.ModeAuto:
			next.Mode = m
		default:
			return nil, badField("mode", "want plan, accept or auto")
		}
	}
	if p.Effort != nil {
		if a, ok := c.backend(st.Info.Backend); ok && *p.Effort != "" && len(a.Info.Efforts) > 0 && !slices.Contains(a.Info.Efforts, *p.Effort) {
			return nil, badField("effort", "want one of %s", strings.Join(a.Info.Efforts, ", "))
		}
		next.Effort = *p.Effort
	}
	if err := s.Update(ctx, &event.SessionUpdated{By: c.conn.by, Settings: next}); err != nil {
		return nil, err
	}
	return runtimeGet(ctx, c, p.ref)
}

type agentRow struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
	Source      string `json:"source"`
	ModelID     string `json:"modelId,omitempty"`
}

func agentsList(_ context.Context, c *call, _ struct{}) (any, error) {
	var out []agentRow
	for _, a := range c.host.Agents() {
		row := agentRow{ID: c.agentID(a.Name, ""), Name: cmp.Or(a.Info.Title, a.Name), Description: a.Info.Description, Source: a.Name}
		if len(a.Info.Models) > 0 {
			row.ModelID = a.Info.Models[0].ID
		}
		out = append(out, row)
		for _, p := range a.Info.Agents {
			if x := c.agentID(a.Name, p.Name); x != row.ID {
				out = append(out, agentRow{ID: x, Name: p.Name, Description: p.Description, Source: a.Name, ModelID: row.ModelID})
			}
		}
	}
	return struct {
		Agents []agentRow `json:"agents"`
	}{out}, nil
}

type modelRow struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Provider string `json:"provider"`
	Context  int64  `json:"context,omitempty"`
	Vision   bool   `json:"vision,omitempty"`
}

func modelsList(ctx context.Context, c *call, _ struct{}) (any, error) {
	out := struct {
		Models  []modelRow `json:"models"`
		Default string     `json:"default"`
	}{Models: []modelRow{}}
	for i, a := range c.host.Agents() {
		for _, m := range a.Info.Models {
			out.Models = append(out.Models, modelRow{m.ID, cmp.Or(m.Name, m.ID), cmp.Or(m.Provider, a.Name), m.Context, m.Images})
		}
		if i == 0 {
			out.Default = cmp.Or(c.defaultModel(ctx, a.Name), c.modelOf(&event.SessionInfo{Backend: a.Name}, &event.Message{}))
		}
	}
	return out, nil
}

func modelsSetDefault(ctx context.Context, c *call, p struct {
	ModelID string `json:"modelId" jsonx:"required"`
}) (any, error) {
	for _, a := range c.host.Agents() {
		if offers(a, p.ModelID) {
			return okResult{true}, c.kv.Set(ctx, keyDefaultModel, []byte(p.ModelID))
		}
	}
	return nil, failed("Model \"%s\" not found.", shown(p.ModelID))
}

type providerRow struct {
	ID     string     `json:"id"`
	Name   string     `json:"name"`
	Fields []struct{} `json:"fields"` // agents keep their own credentials
}

func catalogProviders(_ context.Context, c *call, _ struct{}) (any, error) {
	out := []providerRow{}
	for _, a := range c.host.Agents() {
		out = append(out, providerRow{a.Name, cmp.Or(a.Info.Title, a.Name), []struct{}{}})
	}
	return struct {
		Providers []providerRow `json:"providers"`
	}{out}, nil
}

type commandRow struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Source      string `json:"source"`
	Args        string `json:"args,omitempty"`
}

func commandsList(_ context.Context, c *call, p folder) (any, error) {
	if _, err := c.workDir(*p.Cwd); err != nil {
		return nil, err
	}
	out := []commandRow{}
	a, _ := c.backend("")
	for _, cmd := range a.Info.Commands {
		out = append(out, commandRow{cmd.Name, cmd.Description, a.Name, cmd.Hint})
	}
	return struct {
		Commands []commandRow `json:"commands"`
	}{out}, nil
}

// commandsRun gives the agent one of its slash commands.
func commandsRun(ctx context.Context, c *call, p struct {
	ref
	Name string `json:"name" jsonx:"required"`
	Args string `json:"args"`
}) (any, error) {
	s, st, chat, err := c.chatOf(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	name := strings.TrimPrefix(p.Name, "/")
	a, _ := c.backend(st.Info.Backend)
	if !slices.ContainsFunc(a.Info.Commands, func(cmd agent.Command) bool { return cmd.Name == name }) {
		return nil, failed("Command \"%s\" not found.", shown(p.Name))
	}
	return c.run(ctx, s, host.Prompt{Chat: chat.ID, Text: strings.TrimSpace("/" + name + " " + p.Args), By: c.conn.by})
}

type environmentRow struct {
	ID      string `json:"id"`
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Ready   bool   `json:"ready"`
	Current bool   `json:"current"`
}

// hostEnvironment is the only environment: agents run on the server's machine.
const hostEnvironment = "host"

func environmentsList(_ context.Context, c *call, _ struct{}) (any, error) {
	return struct {
		Environments []environmentRow `json:"environments"`
	}{[]environmentRow{{hostEnvironment, hostEnvironment, c.hostName, true, true}}}, nil
}

func environmentsSelect(ctx context.Context, c *call, p struct {
	ref
	ID string `json:"id" jsonx:"required"`
}) (any, error) {
	if _, _, err := c.session(ctx, p.SessionID); err != nil {
		return nil, err
	}
	if p.ID != hostEnvironment {
		return nil, failed("Environment \"%s\" not found.", shown(p.ID))
	}
	return okResult{true}, nil
}

func plansGet(ctx context.Context, c *call, p ref) (any, error) {
	_, _, chat, err := c.chatOf(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	return plansOf(chat.ID, chat.Plan), nil
}

type runRow struct {
	RunID       string `json:"runId"`
	ParentRunID string `json:"parentRunId,omitempty"`
	SessionID   string `json:"sessionId"`
	AgentID     string `json:"agentId"`
	Status      string `json:"status"`
	StartedAt   int64  `json:"startedAt"`
	EndedAt     int64  `json:"endedAt,omitempty"`
}

// orchestrationList lists the newest runs of a session and of its subagents.
func orchestrationList(ctx context.Context, c *call, p ref) (any, error) {
	_, st, only, err := c.chatOf(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	out := []runRow{}
	for _, chat := range st.Chats {
		if only.ID != st.Default && chat.ID != only.ID {
			continue
		}
		turns := chat.Turns
		if chat.Active != nil {
			turns = append(slices.Clip(turns), chat.Active)
		}
		for _, t := range turns {
			row := runRow{RunID: t.ID.String(), ParentRunID: chat.Origin.Turn.String(), Status: string(t.Status),
				SessionID: wireID(st.Info.ID, st.Default, chat.ID).String(), StartedAt: t.StartedAt.UnixMilli(),
				AgentID: c.agentID(st.Info.Backend, cmp.Or(chat.Agent, st.Info.Settings.Agent))}
			if t.Status != event.TurnRunning {
				row.EndedAt = t.StartedAt.Add(t.Duration).UnixMilli()
			}
			out = append(out, row)
		}
	}
	slices.SortStableFunc(out, func(a, b runRow) int { return cmp.Compare(a.StartedAt, b.StartedAt) })
	return struct {
		Runs []runRow `json:"runs"`
	}{out}, nil
}

func orchestrationStop(ctx context.Context, c *call, p struct {
	RunID string `json:"runId" jsonx:"required"`
}) (any, error) {
	turn, err := id.Parse(p.RunID)
	if err != nil {
		return stopResult{false}, nil
	}
	for _, sum := range c.host.List(host.Filter{IncludeClosed: true, IncludeArchived: true, IncludePrivate: true}) {
		if sum.Status == host.Idle || sum.Status == host.Failed {
			continue
		}
		s, err := c.host.Session(ctx, sum.Info.ID)
		if err != nil {
			continue
		}
		for _, chat := range s.State().Chats {
			if chat.Active != nil && chat.Active.ID == turn {
				stopped, err := s.Interrupt(ctx, host.Interrupt{Chat: chat.ID, Turn: turn, By: c.conn.by, KeepQueue: true})
				return stopResult{stopped}, err
			}
		}
	}
	return stopResult{false}, nil
}
