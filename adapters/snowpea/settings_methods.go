package snowpea

import (
	"context"
	"errors"
	"strings"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/policy"
	"github.com/polyhost/polyhost/transports/jsonrpc"
)

type settingsChanged struct {
	Scope string   `json:"scope"`
	Keys  []string `json:"keys"`
}

// settingsScope reads which document is meant: "" is the global one.
func settingsScope(scope string, dir *string) (string, error) {
	if scope != "project" {
		return "", nil
	}
	if dir == nil {
		return "", invalid("workdir", "is needed for the project's settings")
	}
	return workdir(*dir)
}

func settingsGet(_ context.Context, c *conn, r *jsonrpc.Request) (any, error) {
	p, err := decode[struct {
		Scope   string  `json:"scope"`
		Workdir *string `json:"workdir"`
	}](r)
	if err != nil {
		return nil, err
	}
	project, err := settingsScope(p.Scope, p.Workdir)
	if err != nil {
		return nil, err
	}
	d := c.front.settings.effective()
	if project != "" {
		d = c.front.settings.project(project)
	}
	return map[string]any{"settings": hide(d)}, nil
}

func settingsSet(_ context.Context, c *conn, r *jsonrpc.Request) (any, error) {
	p, err := decode[struct {
		Scope   string   `json:"scope"`
		Workdir *string  `json:"workdir"`
		Patch   document `json:"patch"`
	}](r)
	if err != nil {
		return nil, err
	}
	project, err := settingsScope(p.Scope, p.Workdir)
	if err != nil {
		return nil, err
	}
	d, err := c.front.changeSettings(project, p.Patch)
	if err != nil {
		return nil, err
	}
	return map[string]any{"settings": hide(d)}, nil
}

// changeSettings writes a patch and tells every client what changed.
func (f *Front) changeSettings(project string, patch document) (document, error) {
	d, changed, err := f.settings.set(project, patch)
	if err != nil {
		return nil, err
	}
	f.tellSettings(project, changed)
	return d, nil
}

func (f *Front) tellSettings(project string, changed []string) {
	if len(changed) == 0 {
		return
	}
	scope := "global"
	if project != "" {
		scope = "project"
	}
	f.broadcast("settings.changed", settingsChanged{scope, changed}, nil)
}

type allowlistRow struct {
	PatternID     string  `json:"patternId"`
	Pattern       string  `json:"pattern"`
	Scope         string  `json:"scope"`
	Tool          *string `json:"tool"`
	Origin        *string `json:"origin"`
	HostToolsFrom *string `json:"hostToolsFrom"`
	ReasonCode    *string `json:"reasonCode"`
	CreatedAt     *string `json:"createdAt"`
}

func rowOf(e policy.Entry) allowlistRow {
	r := allowlistRow{PatternID: e.ID, Pattern: e.Pattern, Scope: string(e.Scope), CreatedAt: ptr(stamp(e.CreatedAt))}
	if e.Kind == policy.EntryTool {
		r.Tool = ptr(e.Pattern)
	} else if tool, ok := strings.CutPrefix(e.Pattern, toolPrefix); ok {
		r.Tool = ptr(tool)
	}
	return r
}

// toolPrefix marks an entry that names a tool, not a command.
const toolPrefix = "tool:"

func allowlistAdd(_ context.Context, c *conn, r *jsonrpc.Request) (any, error) {
	p, err := decode[struct {
		Pattern string  `json:"pattern"`
		Scope   string  `json:"scope"`
		Workdir *string `json:"workdir"`
	}](r)
	if err != nil {
		return nil, err
	}
	e, err := c.allow(p.Pattern, p.Scope == string(event.ScopeAlways), c.dirOr(p.Workdir))
	if err != nil {
		return nil, err
	}
	return map[string]string{"patternId": e.ID}, nil
}

// dirOr is the project that is meant: the named one, else the latest session's.
func (c *conn) dirOr(dir *string) string {
	if dir != nil && *dir != "" {
		return *dir
	}
	return c.recentDir()
}

// allow stores an entry of the allow-list.
func (c *conn) allow(pattern string, always bool, dir string) (policy.Entry, error) {
	e := policy.Entry{Kind: policy.EntryRegexp, Pattern: pattern, Scope: event.ScopeProject, By: c.actor()}
	if tool, ok := strings.CutPrefix(pattern, toolPrefix); ok {
		e.Kind, e.Pattern = policy.EntryTool, tool
	}
	if always {
		e.Scope = event.ScopeAlways
	} else {
		var err error
		if dir == "" {
			return e, invalid("workdir", "is needed: no session says which project is meant")
		}
		if e.Dir, err = workdir(dir); err != nil {
			return e, err
		}
	}
	added, err := c.front.host.Allowlist().Add(e)
	if errors.Is(err, policy.ErrPattern) {
		return e, invalid("pattern", "%s (the syntax is RE2: no back-references, no look-around)", err.Error())
	}
	if err != nil {
		return e, err
	}
	return added, nil
}

func allowlistList(_ context.Context, c *conn, r *jsonrpc.Request) (any, error) {
	p, err := decode[struct {
		Scope   *string `json:"scope"`
		Workdir *string `json:"workdir"`
	}](r)
	if err != nil {
		return nil, err
	}
	rows := []allowlistRow{}
	for _, e := range c.front.host.Allowlist().List(c.dirOr(p.Workdir)) {
		if p.Scope == nil || string(e.Scope) == *p.Scope {
			rows = append(rows, rowOf(e))
		}
	}
	return map[string]any{"patterns": rows}, nil
}

func allowlistRemove(_ context.Context, c *conn, r *jsonrpc.Request) (any, error) {
	p, err := decode[struct {
		PatternID string `json:"patternId"`
	}](r)
	if err != nil {
		return nil, err
	}
	removed, err := c.front.host.Allowlist().Remove(p.PatternID)
	if err != nil {
		return nil, err
	}
	if !removed {
		return nil, fail(codeNotFound, "no allow-list entry %q", cut(p.PatternID, 60))
	}
	return done, nil
}
