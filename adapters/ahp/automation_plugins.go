package ahp

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/polyhost/polyhost/core/addon"
	"github.com/polyhost/polyhost/core/automation"
	"github.com/polyhost/polyhost/core/event"
)

// automationClient is the client that brings the plugins of an automation to the
// sessions of its runs.
const automationClient = "Automation"

// judgeTemplate refuses the plugins of a template in words, before anything is
// copied.
func (f *Front) judgeTemplate(list []announcedPlugin) error {
	if err := judgePlugins(list); err != nil {
		return err
	}
	if len(list) > 0 && f.plugins.store == nil {
		return refusal(noPlugins + ": an automation cannot name any")
	}
	return nil
}

// copyPlugins copies the plugins of a template while the client that names them
// is there: their runs have nobody to read them from. What it gives must be
// released, also with an error.
func (s *automations) copyPlugins(ctx context.Context, c *conn, list []announcedPlugin) (copies []*addon.Copy, err error) {
	for _, p := range list {
		src, err := s.front.plugins.source(c.who(), p.URI)
		if err != nil {
			return copies, err
		}
		copied, err := s.front.plugins.inTurn(ctx, c.who(), p, src)
		if err != nil {
			c.log.Info("A plugin of an automation could not be copied", "plugin", clip(p.URI), "err", err)
			return copies, refusal("the plugin " + clip(p.ID) + " could not be copied: " + s.front.copyTrouble(err))
		}
		copies = append(copies, copied)
	}
	return copies, nil
}

func release(copies []*addon.Copy) {
	for _, c := range copies {
		c.Release()
	}
}

// copiedPlugins are a template's plugins with their copies, in the same order.
func copiedPlugins(list []announcedPlugin, copies []*addon.Copy) (out []event.Plugin) {
	for i, p := range list {
		out = append(out, event.Plugin{ID: p.ID, URI: p.URI, Name: p.Name, Version: p.Version, Copy: copies[i].ID,
			Off: len(p.Enablement) > 0 && !p.Enablement[0].Enabled && p.Enablement[0].Kind != "workspace"})
	}
	return out
}

// templatePlugins are the plugins that a definition names.
func templatePlugins(d *automation.Definition) []announcedPlugin {
	var s automationShape
	_ = json.Unmarshal(d.Rich, &s) // we wrote it
	return s.Session.Customizations
}

// patchedPlugins are the plugins that a patch of the template names, judged; anew
// is false when it says nothing about them.
func (s *automations) patchedPlugins(name string, session json.RawMessage) (named []announcedPlugin, anew bool, err error) {
	if len(session) == 0 || string(session) == "null" {
		return nil, false, nil
	}
	var t struct {
		Customizations *[]announcedPlugin `json:"customizations"`
	}
	if err := decode(session, &t, "definition.session"); err != nil || t.Customizations == nil {
		return nil, false, err
	}
	if err := s.front.judgeTemplate(*t.Customizations); err != nil {
		return nil, false, err
	}
	there := false
	s.set.View(func(list []*automation.Automation) {
		there = slices.ContainsFunc(list, func(a *automation.Automation) bool { return a.Name == name })
	})
	if !there {
		return nil, false, automation.ErrNotFound
	}
	for i := range *t.Customizations {
		if p := &(*t.Customizations)[i]; p.Name == "" {
			p.Name = p.ID
		}
	}
	return *t.Customizations, true, nil
}

// withPluginsOf is a template with the plugins of a definition.
func withPluginsOf(session json.RawMessage, d *automation.Definition) (json.RawMessage, error) {
	t := map[string]json.RawMessage{}
	if err := decode(session, &t, "definition.session"); err != nil {
		return nil, err
	}
	delete(t, "customizations")
	if list := templatePlugins(d); len(list) > 0 {
		t["customizations"] = encode(list)
	}
	return encode(t), nil
}

// pluginShapes are the copies of an automation's plugins.
func (s *automations) pluginShapes(a *automation.Automation) (out []customization) {
	for _, p := range a.Session.Plugins {
		c := customization{Type: typePlugin, ID: p.ID, URI: p.URI, Name: p.Name, Version: p.Version, Load: &loadState{"error", "its copy is gone"}}
		if store := s.front.plugins.store; store != nil {
			if copied, err := store.Hold(p.Copy); err == nil {
				c.loaded(copied)
				copied.Release()
			}
		}
		out = append(out, c)
	}
	return out
}

// meetAutomation makes the automation that a session is of one of its clients, if
// it brings plugins. The caller holds mu, or nobody else knows the projection yet.
func (l *live) meetAutomation() {
	list := l.st.Info.Plugins
	if len(list) == 0 {
		return
	}
	c := activeClient{id: automationClient}
	said := []announcedPlugin{}
	for _, p := range list {
		one := announcedPlugin{Type: typePlugin, ID: p.ID, URI: p.URI, Name: p.Name, Version: p.Version}
		if p.Off {
			one.Enablement = []enablement{{Kind: "session"}}
		}
		said = append(said, one)
		out := &plug{said: one, why: "its copy is gone"}
		if store := l.front.plugins.store; store == nil {
			out.why = noPlugins
		} else if copied, err := store.Hold(p.Copy); err == nil {
			out.kept, out.why = copied, ""
		}
		c.plugs = append(c.plugs, out)
	}
	c.raw = encode(map[string]any{"clientId": automationClient, "displayName": automationClient, "tools": []struct{}{}, "customizations": said})
	l.clients = append(l.clients, c)
}
