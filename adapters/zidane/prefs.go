package zidane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/polyhost/polyhost/core/store"
	"github.com/polyhost/polyhost/transports/jsonx"
)

// The keys of what clients store here for each other.
const (
	keyPrefs          = "prefs"
	keyViews          = "sidebar-views"
	keySpace          = "sidebar-space"
	keySettings       = "settings" // and "settings" + a folder
	keyDefaultModel   = "default-model"
	keyHistoryCleared = "history-cleared" // and "history-cleared" + a folder
)

// object is a stored JSON object, empty if there is none.
type members map[string]json.RawMessage

func (f *Front) stored(ctx context.Context, key string) (members, error) {
	out := members{}
	b, err := f.kv.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return out, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	return out, nil
}

// change merges a patch into a stored object and returns the result.
func (f *Front) change(ctx context.Context, key, field string, patch json.RawMessage) (members, error) {
	if jsonx.Kind(patch) != "object" {
		return nil, badField(field, "want object, got %s", jsonx.Kind(patch))
	}
	f.prefsMu.Lock()
	defer f.prefsMu.Unlock()
	old, err := f.stored(ctx, key)
	if err != nil {
		return nil, err
	}
	next := merge(old, patch)
	b := encode(next)
	if len(b) > maxPrefs {
		return nil, failed("That would be %d bytes, more than the %d kept.", len(b), maxPrefs)
	}
	return next, f.kv.Set(ctx, key, b)
}

// merge lays the members of a patch over an object, objects member by member;
// null deletes.
func merge(old members, patch json.RawMessage) members {
	out := members{}
	for k, v := range old {
		out[k] = v
	}
	_ = jsonx.Members(patch, func(key string, v []byte) error {
		switch jsonx.Kind(v) {
		case "null":
			delete(out, key)
		case "object":
			inner := members{}
			if jsonx.Kind(orNull(out[key])) == "object" {
				_ = jsonx.Members(out[key], func(k string, v []byte) error { inner[k] = v; return nil })
			}
			out[key] = encode(merge(inner, v))
		default:
			out[key] = v
		}
		return nil
	})
	return out
}

func orNull(v json.RawMessage) []byte {
	if len(v) == 0 {
		return []byte("null")
	}
	return v
}

type patchParams struct {
	Patch json.RawMessage `json:"patch" jsonx:"required"`
	Cwd   string          `json:"cwd"`
}

type prefsBody struct {
	Prefs members `json:"prefs"`
}

func prefsGet(ctx context.Context, c *call, _ struct{}) (any, error) {
	prefs, err := c.stored(ctx, keyPrefs)
	return prefsBody{prefs}, err
}

func prefsSet(ctx context.Context, c *call, p patchParams) (any, error) {
	prefs, err := c.change(ctx, keyPrefs, "patch", p.Patch)
	return prefsBody{prefs}, err
}

// defaultSettings are the settings the server itself looks at.
var defaultSettings = members{"allowCreateFolders": json.RawMessage("true")}

// settingOn reads a switch of the server.
func (f *Front) settingOn(name string) bool {
	settings, err := f.stored(f.ctx, keySettings)
	v, ok := settings[name]
	if err != nil || !ok {
		v = defaultSettings[name]
	}
	return string(v) == "true"
}

func settingsKey(dir string) string { return keySettings + dir }

type settingsBody struct {
	Settings members `json:"settings"`
	Defaults members `json:"defaults"`
}

// settingsGet gives the server's settings, with a folder's own over them.
func settingsGet(ctx context.Context, c *call, p struct {
	Cwd string `json:"cwd"`
}) (any, error) {
	settings, err := c.settings(ctx, p.Cwd)
	return settingsBody{settings, defaultSettings}, err
}

func (f *Front) settings(ctx context.Context, cwd string) (members, error) {
	out := merge(nil, encode(defaultSettings))
	keys := []string{keySettings}
	if cwd != "" {
		dir, err := f.workDir(cwd)
		if err != nil {
			return nil, err
		}
		keys = append(keys, settingsKey(dir))
	}
	for _, key := range keys {
		own, err := f.stored(ctx, key)
		if err != nil {
			return nil, err
		}
		out = merge(out, encode(own))
	}
	return out, nil
}

func settingsSet(ctx context.Context, c *call, p patchParams) (any, error) {
	key := keySettings
	if p.Cwd != "" {
		dir, err := c.workDir(p.Cwd)
		if err != nil {
			return nil, err
		}
		key = settingsKey(filepath.Clean(dir))
	}
	if _, err := c.change(ctx, key, "patch", p.Patch); err != nil {
		return nil, err
	}
	settings, err := c.settings(ctx, p.Cwd)
	if err != nil {
		return nil, err
	}
	body := encode(settings)
	frame := member(begin("settings:changed", len(body)+len(p.Cwd)+40), "settings", body)
	if p.Cwd != "" {
		frame = member(frame, "cwd", jsonx.AppendString(nil, p.Cwd))
	}
	c.signals.broadcast(frame)
	return struct {
		Settings members `json:"settings"`
	}{settings}, nil
}

func sidebarGetViews(ctx context.Context, c *call, _ struct{}) (any, error) {
	views, err := c.stored(ctx, keyViews)
	return struct {
		Views members `json:"views"`
	}{views}, err
}

// sidebarSetView stores the view of a space as it is given; null removes it.
func sidebarSetView(ctx context.Context, c *call, p struct {
	Space string          `json:"space" jsonx:"required"`
	View  json.RawMessage `json:"view"`
}) (any, error) {
	if p.Space == "" || len(p.Space) > maxText {
		return nil, badField("space", "want 1 to %d bytes", maxText)
	}
	if p.View == nil {
		return nil, badField("view", "missing")
	}
	c.prefsMu.Lock()
	defer c.prefsMu.Unlock()
	views, err := c.stored(ctx, keyViews)
	if err != nil {
		return nil, err
	}
	if views[p.Space] = p.View; string(p.View) == "null" {
		delete(views, p.Space)
	}
	b := encode(views)
	if len(b) > maxPrefs || len(views) > maxSpaces {
		return nil, failed("The sidebar's views would be more than what is kept: %d spaces and %d bytes.", maxSpaces, maxPrefs)
	}
	return okResult{true}, c.kv.Set(ctx, keyViews, b)
}

func sidebarGetSpace(ctx context.Context, c *call, _ struct{}) (any, error) {
	out := struct {
		Space *string `json:"space"`
	}{}
	b, err := c.kv.Get(ctx, keySpace)
	switch {
	case err == nil:
		space := string(b)
		out.Space = &space
	case !errors.Is(err, store.ErrNotFound):
		return nil, err
	}
	return out, nil
}

func sidebarSetSpace(ctx context.Context, c *call, p struct {
	Space string `json:"space" jsonx:"required"`
}) (any, error) {
	if len(p.Space) > maxText {
		return nil, badField("space", "longer than %d bytes", maxText)
	}
	return okResult{true}, c.kv.Set(ctx, keySpace, []byte(p.Space))
}
