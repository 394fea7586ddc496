package snowpea

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/transports/jsonrpc"
)

type createParams struct {
	Workdir       string  `json:"workdir"`
	Mode          *string `json:"mode"`
	Model         *string `json:"model"`
	Provider      *string `json:"provider"`
	Effort        *string `json:"effort"`
	Agent         *string `json:"agent"`
	DenyExec      *bool   `json:"denyExec"`
	HostToolsFrom *string `json:"hostToolsFrom"`
	OriginSurface *string `json:"originSurface"`
}

type createResult struct {
	SessionID    string  `json:"sessionId"`
	Delegation   bool    `json:"delegation"`
	WorkspaceDir *string `json:"workspaceDir"`
}

func sessionCreate(ctx context.Context, c *conn, r *jsonrpc.Request) (any, error) {
	p, err := decode[createParams](r)
	if err != nil {
		return nil, err
	}
	dir, err := workdir(p.Workdir)
	if err != nil {
		return nil, err
	}
	create := host.CreateSession{Dirs: []string{dir}, By: c.actor(), Backend: deref(p.Provider)}
	if create.Settings, create.Backend, err = c.front.startSettings(&p, dir); err != nil {
		return nil, err
	}
	surface := deref(p.OriginSurface)
	if surface == "" {
		surface = c.surface
	}
	create.Meta = map[string]json.RawMessage{metaSurface: metaValue(surface)}
	c.mu.Lock()
	kind, owner := c.kind, deref(p.HostToolsFrom)
	if owner == "" && kind == kindBrowser {
		owner = c.client
	}
	c.mu.Unlock()
	if owner != "" {
		create.Meta[metaOwner] = metaValue(owner)
	}
	s, err := c.front.host.CreateSession(ctx, create)
	if err != nil {
		return nil, err
	}
	t, s, err := c.front.live(ctx, s.ID())
	if err != nil {
		return nil, err
	}
	workspace, err := c.front.workspace(&s.State().Info)
	if err != nil {
		c.log.Warn("A session has no workspace", "session", s.ID().String(), "err", err)
	}
	chat := s.State().Default
	c.subscribe(t, chat)
	c.mu.Lock()
	c.recent = t.id
	c.mu.Unlock()
	t.own(chat, c, true)
	c.front.offerTools(ctx, t, chat)
	return createResult{SessionID: s.ID().String(), WorkspaceDir: ptr(workspace)}, nil
}

// kindBrowser is the clientKind of a browser, which brings tools of its own.
const kindBrowser = "browser"

// startSettings are the settings of a new session.
func (f *Front) startSettings(p *createParams, dir string) (event.Settings, string, error) {
	s := event.Settings{Mode: event.Mode(deref(p.Mode))}
	if s.Mode == "" {
		s.Mode = event.Mode(f.settings.projectMode(dir))
	}
	backend := deref(p.Provider)
	model := deref(p.Model)
	if vendor, rest, ok := strings.Cut(model, ":"); ok && backend == "" && f.hasBackend(vendor) {
		backend, model = vendor, rest
	}
	if backend != "" && !f.hasBackend(backend) {
		return s, "", invalid("provider", "there is no provider %q", cut(backend, 80))
	}
	info := f.catalogue(f.backendOr(backend))
	if model != "" {
		var err error
		if s.Model, err = pickModel(info, f.backendOr(backend), model); err != nil {
			return s, "", err
		}
		if s.Model == event.Inherit {
			s.Model = ""
		}
	}
	if e := deref(p.Effort); e != "" && slices.Contains(effortsOf(info, s.Model), e) {
		s.Effort = e
	}
	if a := deref(p.Agent); a != "" {
		if !slices.ContainsFunc(info.Agents, func(x agent.Persona) bool { return x.Name == a }) {
			return s, "", invalid("agent", "there is no agent %q", cut(a, 80))
		}
		s.Agent = a
	}
	if p.DenyExec != nil && *p.DenyExec {
		s.DenyExec = true
	}
	return s, backend, nil
}

func (f *Front) hasBackend(name string) bool {
	return slices.ContainsFunc(f.host.Agents(), func(a host.AgentInfo) bool { return a.Name == name })
}

// backendOr is the named backend, or the default one.
func (f *Front) backendOr(name string) string {
	if agents := f.host.Agents(); name == "" && len(agents) > 0 {
		return agents[0].Name
	}
	return name
}

// workdir checks a working directory; "~" is the user's home.
func workdir(dir string) (string, error) {
	path := dir
	if path == "~" || strings.HasPrefix(path, "~/") {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", invalid("workdir", "the home directory is not known")
		}
		path = filepath.Join(home, strings.TrimPrefix(path[1:], "/"))
	}
	if !filepath.IsAbs(path) {
		return "", invalid("workdir", "%q is not absolute", dir)
	}
	st, err := os.Stat(path)
	switch {
	case os.IsNotExist(err):
		return "", invalid("workdir", "%s does not exist", path)
	case err != nil:
		return "", invalid("workdir", "%s cannot be read", path)
	case !st.IsDir():
		return "", invalid("workdir", "%s is not a directory", path)
	}
	return filepath.Clean(path), nil
}

// workspacePath is a session's own folder for temporary files and artifacts.
func (f *Front) workspacePath(info *event.SessionInfo) string {
	return filepath.Join(f.deps.Home, "sessions", info.CreatedAt.UTC().Format("2006-01-02")+"_"+info.ID.String())
}

// workspace makes the folder when it is missing.
func (f *Front) workspace(info *event.SessionInfo) (string, error) {
	path := f.workspacePath(info)
	for _, sub := range []string{"tmp", artifactsDir} {
		if err := os.MkdirAll(filepath.Join(path, sub), 0o700); err != nil {
			return "", fmt.Errorf("session workspace: %w", err)
		}
	}
	return path, nil
}

const artifactsDir = "artifacts"

func (f *Front) workspaceIfAny(info *event.SessionInfo) string {
	path := f.workspacePath(info)
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}
