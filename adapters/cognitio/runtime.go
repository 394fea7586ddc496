package cognitio

import (
	"encoding/json"
	"maps"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/transports/jsonx"
)

// runtimeConfig is what this front understands of a session's runtime
// configuration; the rest is kept and given back.
type runtimeConfig struct {
	Model           *modelRef `json:"model"`
	Effort          string    `json:"effort"`
	PermissionMode  string    `json:"permissionMode"`
	CanUseTool      bool      `json:"canUseTool"`
	AllowedTools    []string  `json:"allowedTools"`
	DisallowedTools []string  `json:"disallowedTools"`
}

// modeDontAsk denies what would be asked.
const modeDontAsk = "dontAsk"

// modes maps permission modes to the core's; "" leaves the session's own.
var modes = map[string]event.Mode{"": "", "default": "", modeDontAsk: "", "acceptEdits": event.ModeAccept, "plan": event.ModePlan,
	"auto": event.ModeAuto, "bypassPermissions": event.ModeAuto}

func runtimeOf(info *event.SessionInfo) runtimeConfig {
	var rc runtimeConfig
	if raw := info.Meta[metaRuntime]; raw != nil && json.Unmarshal(raw, &rc) != nil {
		return runtimeConfig{}
	}
	return rc
}

// parseRuntime checks a runtime configuration.
func parseRuntime(field string, raw json.RawMessage) (rc runtimeConfig, err error) {
	if len(raw) == 0 || string(raw) == "null" {
		return rc, nil
	}
	if len(raw) > maxMeta {
		return rc, badPayload(field, "%s: at most %d bytes", field, maxMeta)
	}
	if kind := jsonx.Kind(raw); kind != "object" {
		return rc, badPayload(field, "%s: want object, got %s", field, kind)
	}
	if err := jsonx.DecodeChecked(raw, &rc); err != nil {
		return rc, badPayload(field, "%s.%s", field, err.Error())
	}
	if _, ok := modes[rc.PermissionMode]; !ok {
		return rc, badPayload(field, "%s.permissionMode: %.40q is not known", field, rc.PermissionMode)
	}
	return rc, nil
}

// apply puts a runtime configuration into settings.
func (rc runtimeConfig) apply(s event.Settings) event.Settings {
	if rc.Model != nil && rc.Model.ModelID != "" {
		s.Model = chosenModel(rc.Model.ModelID)
	}
	if rc.Effort != "" {
		s.Effort = rc.Effort
	}
	if m := modes[rc.PermissionMode]; m != "" {
		s.Mode = m
	}
	return s
}

func getRuntime(c *call) (any, error) {
	s, err := c.session()
	if err != nil {
		return nil, err
	}
	info := &s.State().Info
	rc := runtimeOf(info)
	raw := info.Meta[metaRuntime]
	if raw == nil {
		raw = json.RawMessage("{}")
	}
	effective := map[string]any{"systemPrompt": map[string]any{"mode": "default", "hasAppend": false}, "settingSources": []string{},
		"tools": map[string]any{"allowed": orEmpty(rc.AllowedTools), "disallowed": orEmpty(rc.DisallowedTools)}, "agents": map[string]any{},
		"skills": []any{}, "commands": []any{}, "plugins": []any{}, "permissionMode": modeName(info.Settings.Mode, rc),
		"model":      modelRef{info.Backend, c.f.modelOf(info.Backend, info.Settings.Model)},
		"canUseTool": map[string]bool{"registered": rc.CanUseTool}}
	return map[string]any{"sessionID": sessionID(info.ID), "runtimeConfig": raw, "effective": effective}, nil
}

func modeName(m event.Mode, rc runtimeConfig) string {
	switch {
	case rc.PermissionMode == modeDontAsk:
		return modeDontAsk
	case m == event.ModePlan:
		return "plan"
	case m == event.ModeAuto:
		return "auto"
	}
	return "acceptEdits"
}

func orEmpty(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// patchRuntime replaces the keys that are present.
func patchRuntime(c *call) (any, error) {
	s, err := c.session()
	if err != nil {
		return nil, err
	}
	var change map[string]json.RawMessage
	if err := c.body(&change); err != nil {
		return nil, err
	}
	info := &s.State().Info
	whole := map[string]json.RawMessage{}
	if raw := info.Meta[metaRuntime]; raw != nil && json.Unmarshal(raw, &whole) != nil {
		whole = map[string]json.RawMessage{}
	}
	maps.Copy(whole, change)
	raw, err := jsonx.Encode(whole)
	if err != nil {
		return nil, err
	}
	rc, err := parseRuntime("runtimeConfig", raw)
	if err != nil {
		return nil, err
	}
	if rc.Model != nil && rc.Model.ProviderID != info.Backend {
		return nil, wrongProvider("model.providerID", rc.Model.ProviderID, info.Backend)
	}
	settings := rc.apply(info.Settings)
	err = s.Update(c.ctx(), &event.SessionUpdated{By: c.by(), Settings: &settings, Meta: map[string]json.RawMessage{metaRuntime: raw}})
	return json.RawMessage(raw), err
}

func clearRuntime(c *call) (any, error) {
	s, err := c.session()
	if err != nil {
		return nil, err
	}
	err = s.Update(c.ctx(), &event.SessionUpdated{By: c.by(), Meta: map[string]json.RawMessage{metaRuntime: json.RawMessage("null")}})
	return true, err
}

func wrongProvider(field, got, want string) *apiError {
	return badPayload(field, "%s: the session runs on %q and cannot change to %.100q", field, want, got)
}
