package snowpea

import (
	"cmp"
	"context"
	"io/fs"
	"mime"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/transports/jsonrpc"
)

type agentRow struct {
	Name            string            `json:"name"`
	Kind            string            `json:"kind"`
	Description     string            `json:"description"`
	Source          string            `json:"source"`
	AgentID         *string           `json:"agentId"`
	SessionID       *string           `json:"sessionId"`
	ParentSessionID *string           `json:"parentSessionId"`
	Status          *string           `json:"status"`
	Task            *string           `json:"task"`
	Active          *bool             `json:"active"`
	HasGuide        *bool             `json:"hasGuide"`
	Channel         *string           `json:"channel"`
	Namespace       *string           `json:"namespace"`
	Path            *string           `json:"path"`
	Agents          []string          `json:"agents"`
	Bindings        []string          `json:"bindings"`
	Channels        []string          `json:"channels"`
	Jobs            []string          `json:"jobs"`
	Stages          map[string]string `json:"stages"`
}

// agentList lists the ways the default agent can work, and the subagents that
// run now.
func agentList(_ context.Context, c *conn, _ *jsonrpc.Request) (any, error) {
	rows := []agentRow{}
	add := func(r agentRow) {
		r.Agents, r.Bindings, r.Channels, r.Jobs, r.Stages = []string{}, []string{}, []string{}, []string{}, map[string]string{}
		rows = append(rows, r)
	}
	f := c.front
	for _, a := range f.catalogue(f.backendOr("")).Agents {
		add(agentRow{Name: a.Name, Kind: "definition", Description: a.Description, Source: "builtin"})
	}
	for _, s := range f.host.List(host.Filter{}) {
		for _, chat := range s.Chats {
			if chat.Info.Origin.Kind != event.OriginSubagent || chat.Status == host.Idle || chat.Status == host.Failed {
				continue
			}
			name := chat.Info.ID.String()
			add(agentRow{Name: cmp.Or(chat.Info.Agent, chat.Info.Title, "subagent"), Kind: "subagent", Source: "session",
				AgentID: &name, SessionID: &name, ParentSessionID: ptr(spell(&s, chat.Info.Origin.Chat)),
				Status: ptr("running"), Task: ptr(chat.Info.Title)})
		}
	}
	return map[string]any{"agents": rows}, nil
}

func backendSet(ctx context.Context, c *conn, r *jsonrpc.Request) (any, error) {
	p, err := decode[struct {
		SessionID string `json:"sessionId"`
		Kind      string `json:"kind"`
	}](r)
	if err != nil {
		return nil, err
	}
	if _, _, _, err := c.opened(ctx, p.SessionID); err != nil {
		return nil, err
	}
	if p.Kind != "local" {
		return nil, unavailable("tools run where the agent runs: on this machine")
	}
	return done, nil
}

func audioCapabilities(context.Context, *conn, *jsonrpc.Request) (any, error) {
	const why = "the gateway has no audio"
	return map[string]any{"record": false, "play": false, "tts": false, "autoSpeak": false, "sttPinned": false, "ttsPinned": false,
		"players": []string{}, "recorders": []string{}, "sttProviders": []string{}, "ttsProviders": []string{},
		"stt": nil, "sttEffective": nil, "sttLanguage": "auto", "sttLanguageSource": "default",
		"ttsEffective": nil, "ttsProvider": nil, "voice": nil,
		"reasons": map[string]string{"record": why, "play": why, "stt": why, "tts": why}}, nil
}

func audioInstall(_ context.Context, _ *conn, r *jsonrpc.Request) (any, error) {
	p, err := decode[struct {
		Engine string  `json:"engine"`
		Voice  *string `json:"voice"`
	}](r)
	if err != nil {
		return nil, err
	}
	return map[string]any{"engine": p.Engine, "voice": p.Voice, "ok": false, "log": "", "hint": "the gateway has no audio"}, nil
}

type providerRow struct {
	Vendor         string   `json:"vendor"`
	Label          string   `json:"label"`
	Configured     bool     `json:"configured"`
	AuthStatus     string   `json:"authStatus"`
	AuthMethods    []string `json:"authMethods"`
	Default        bool     `json:"default"`
	DefaultModel   string   `json:"defaultModel"`
	Models         []string `json:"models"`
	SupportsEffort bool     `json:"supportsEffort"`
	Custom         bool     `json:"custom"`
	BaseURL        string   `json:"baseUrl"`
	DefaultBaseURL string   `json:"defaultBaseUrl"`
	Preset         string   `json:"preset"`
	Variant        string   `json:"variant"`
}

func providerList(_ context.Context, c *conn, _ *jsonrpc.Request) (any, error) {
	rows := []providerRow{}
	for i, a := range c.front.host.Agents() {
		row := providerRow{Vendor: a.Name, Label: cmp.Or(a.Info.Title, a.Name), Configured: a.Known, AuthStatus: "unconfigured",
			AuthMethods: []string{}, Default: i == 0, Models: modelIDs(a), SupportsEffort: len(effortsOf(a.Info, "")) > 0}
		if a.Known {
			row.AuthStatus = "active"
		}
		if len(row.Models) > 0 {
			row.DefaultModel = row.Models[0]
		}
		rows = append(rows, row)
	}
	return map[string]any{"providers": rows}, nil
}

func modelIDs(a host.AgentInfo) []string {
	out := []string{}
	for _, m := range a.Info.Models {
		out = append(out, m.ID)
	}
	return out
}

// agent finds a backend by the vendor's name.
func (f *Front) agent(vendor string) (host.AgentInfo, error) {
	for _, a := range f.host.Agents() {
		if a.Name == vendor {
			return a, nil
		}
	}
	return host.AgentInfo{}, invalid("vendor", "there is no provider %q", cut(vendor, 80))
}

func providerModels(_ context.Context, c *conn, r *jsonrpc.Request) (any, error) {
	p, err := decode[struct {
		Vendor *string `json:"vendor"`
	}](r)
	if err != nil {
		return nil, err
	}
	a, err := c.front.agent(c.front.backendOr(deref(p.Vendor)))
	if err != nil {
		return nil, err
	}
	out := map[string]any{"vendor": a.Name, "models": modelIDs(a), "source": "live", "detail": "as the agent lists them",
		"current": "", "error": nil}
	vision := map[string]bool{}
	for i, m := range a.Info.Models {
		if i == 0 {
			out["current"] = m.ID
		}
		if m.Images {
			vision[m.ID] = true
		}
	}
	out["vision"] = vision
	if !a.Known {
		out["source"], out["error"] = "curated", notAnswered
	}
	return out, nil
}

const notAnswered = "the agent has not answered"

func providerTest(_ context.Context, c *conn, r *jsonrpc.Request) (any, error) {
	p, err := decode[struct {
		Provider string  `json:"provider"`
		Model    *string `json:"model"`
	}](r)
	if err != nil {
		return nil, err
	}
	out := map[string]any{"provider": p.Provider, "model": deref(p.Model), "ok": false, "latencyMs": 0, "reply": nil, "modelEcho": nil}
	switch a, err := c.front.agent(p.Provider); {
	case err != nil:
		out["error"] = "there is no such provider"
	case !a.Known:
		out["error"] = notAnswered
	default:
		out["error"] = "an agent's models are tried by prompting it in a session"
	}
	return out, nil
}

func providerLogin(context.Context, *conn, *jsonrpc.Request) (any, error) {
	return nil, fail(codeLogin, "sign in with the agent's own program")
}

type artifactRow struct {
	Name       string  `json:"name"`
	Path       string  `json:"path"`
	Size       int64   `json:"size"`
	MimeType   *string `json:"mimeType"`
	ModifiedAt string  `json:"modifiedAt"`
	at         time.Time
}

// sessionArtifacts lists the files under artifacts/, newest first.
func sessionArtifacts(ctx context.Context, c *conn, r *jsonrpc.Request) (any, error) {
	p, err := decode[sessionParams](r)
	if err != nil {
		return nil, err
	}
	_, s, _, err := c.front.lookup(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	info := s.State().Info
	dir, err := c.front.workspace(&info)
	if err != nil {
		return nil, err
	}
	rows := []artifactRow{}
	root := filepath.Join(dir, artifactsDir)
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || len(rows) >= maxArtifacts {
			return nil // what vanishes or cannot be read is left out
		}
		st, err := d.Info()
		if err != nil {
			return nil
		}
		rel, _ := filepath.Rel(root, path)
		rows = append(rows, artifactRow{Name: filepath.ToSlash(rel), Path: path, Size: st.Size(), at: st.ModTime(),
			MimeType: ptr(mime.TypeByExtension(filepath.Ext(path))), ModifiedAt: stamp(st.ModTime())})
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(rows, func(a, b artifactRow) int { return cmp.Or(b.at.Compare(a.at), cmp.Compare(a.Name, b.Name)) })
	return map[string]any{"workspaceDir": dir, "artifacts": rows}, nil
}

// removeWorkspace deletes a session's own folder.
func (f *Front) removeWorkspace(info *event.SessionInfo) {
	if err := os.RemoveAll(f.workspacePath(info)); err != nil {
		f.log.Warn("A session's workspace could not be removed", "session", info.ID.String(), "err", err)
	}
}
