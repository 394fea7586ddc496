package ahp

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"github.com/polyhost/polyhost/core/addon"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/extend"
	"github.com/polyhost/polyhost/core/host"
)

// decided is what the client says was decided of its plugin, as far as that can
// be said here.
func (p *plug) decided(dir string) []enablement {
	ds, err := decisions(p.said.Enablement, dir)
	if err != nil {
		return nil
	}
	return enablements(ds, dir)
}

func (p *plug) off(dir string) bool {
	ds := p.decided(dir)
	return len(ds) > 0 && !ds[0].Enabled
}

// shownPlugin is a plugin under the id that it has in the session.
type shownPlugin struct {
	*plug
	id     string
	client string
}

// shownPlugins are the plugins of the session's clients, in the order in which
// these came. The same one of two clients is shown once; another one of the same
// id gets an id of its own. The caller holds mu.
func (l *live) shownPlugins() (out []shownPlugin) {
	for i := range l.clients {
		c := &l.clients[i]
		for _, p := range c.plugs {
			id := p.said.ID
			same, taken := false, ownIDs[id] || strings.HasPrefix(id, serverID(""))
			for _, o := range out {
				if o.id != p.said.ID {
					continue
				}
				taken = true
				same = o.said.URI == p.said.URI && o.said.Nonce == p.said.Nonce && p.said.Nonce != ""
			}
			if same {
				continue
			}
			if taken {
				id = c.id + "/" + id
			}
			out = append(out, shownPlugin{p, id, c.id})
		}
	}
	return out
}

// ownIDs are those of the host's own containers.
var ownIDs = map[string]bool{typePrompt + "s": true, typeSkill + "s": true, typeAgent + "s": true}

// pluginShapes are the plugins as clients see them; the caller holds mu.
func (l *live) pluginShapes(a *host.AgentInfo) (out []customization) {
	dir := l.st.Info.Dirs[0]
	for _, p := range l.shownPlugins() {
		copied, loading, why := l.front.plugins.stateOf(p.plug)
		c := customization{Type: typePlugin, ID: p.id, URI: p.said.URI, Name: p.said.Name, ClientID: p.client, Version: p.said.Version}
		c.Enablement = enablements(l.front.host.Extensions().Decisions(l.id, dir, extend.PluginThing(p.said.URI)), dir)
		if c.Enablement == nil {
			c.Enablement = p.decided(dir)
		}
		switch {
		case why == "" && a.Known && !a.Info.Capabilities.Plugins:
			c.Load = &loadState{"error", a.Info.Title + " takes no plugins from clients: this one has no effect here"}
		case copied != nil:
			c.loaded(copied)
		case loading:
			c.Load = &loadState{Kind: "loading"}
		default:
			c.Load = &loadState{"error", why}
		}
		out = append(out, c)
	}
	return out
}

// loaded shows a plugin with what is in its copy.
func (c *customization) loaded(copied *addon.Copy) {
	c.Load = &loadState{Kind: "loaded"}
	c.Version = cmp.Or(copied.Contents.Version, c.Version)
	children := pluginChildren(c, &ownedPlugin{uri: c.URI}, copied.Contents.Items)
	c.Children = &children
}

var childTypes = map[addon.ItemKind]string{addon.Command: typePrompt, addon.Skill: typeSkill, addon.Subagent: typeAgent, addon.Rule: typeRule, addon.Hook: typeHook}

// pluginChildren are the things in a plugin, at the places where its client has
// them.
func pluginChildren(of *customization, at *ownedPlugin, items []addon.Item) []customization {
	out := make([]customization, 0, len(items))
	for _, i := range items {
		c := customization{Type: childTypes[i.Kind], ID: of.ID + "/" + i.Path, URI: at.at(i.Path), Name: i.Name}
		if i.Kind != addon.Hook {
			c.Description = i.Description
		}
		switch i.Kind {
		case addon.Skill:
			c.DisableModelInvocation, c.DisableUserInvocation = i.NotByModel, i.NotByUser
		case addon.Subagent:
			c.Model, c.Tools, c.DisableModelInvocation, c.DisableUserInvocation = i.Model, i.Tools, i.NotByModel, i.NotByUser
		case addon.Rule:
			c.AlwaysApply, c.Globs = i.Always, i.Globs
		}
		if i.Hint != "" {
			c.Meta = map[string]string{metaArgumentHint: i.Hint}
		}
		out = append(out, c)
	}
	return out
}

// ownOffer is what the agent has without what it has from the session's plugins,
// which is shown in these; the caller holds mu.
func (l *live) ownOffer(o *agent.Offer) *agent.Offer {
	var names []string
	for i := range l.clients {
		for _, p := range l.clients[i].plugs {
			if copied, _, _ := l.front.plugins.stateOf(p); copied != nil {
				names = append(names, filepath.Base(copied.Dir)+":")
			}
		}
	}
	if names == nil {
		return o
	}
	of := func(name string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(name, n) })
	}
	return &agent.Offer{
		Commands:  slices.DeleteFunc(slices.Clone(o.Commands), func(c agent.Command) bool { return of(c.Name) }),
		Subagents: slices.DeleteFunc(slices.Clone(o.Subagents), func(s agent.Persona) bool { return of(s.Name) }),
	}
}

// withPlugins are commands and those of a session's plugins, without those of the
// ones that are off.
func (f *Front) withPlugins(commands []agent.Command, info *event.SessionInfo) []agent.Command {
	known := f.host.Extensions()
	for _, p := range known.Plugins(info.ID) {
		commands = slices.DeleteFunc(slices.Clone(commands), func(c agent.Command) bool {
			return slices.ContainsFunc(p.Commands, func(o agent.Command) bool { return o.Name == c.Name })
		})
		if known.PluginOn(info.ID, info.Dirs[0], p) {
			commands = append(commands, p.Commands...)
		}
	}
	return commands
}
