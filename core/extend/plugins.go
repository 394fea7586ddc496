package extend

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"slices"

	"github.com/polyhost/polyhost/core/addon"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/id"
)

// Plugin is one that was brought for the agent of a session.
type Plugin struct {
	// Thing is what it is called in decisions.
	Thing string
	// Copy names what the agent is given, as core/addon does; "" while there is
	// nothing.
	Copy string
	// Loading: the copy is on its way.
	Loading bool
	// Off: without a decision it is off.
	Off bool
	// Commands are its commands and skills as agents call them: behind the
	// plugin's name.
	Commands []agent.Command
}

// Copied is a plugin, by its source, that was copied.
func Copied(uri string, c *addon.Copy) Plugin {
	p := Plugin{Thing: PluginThing(uri), Copy: c.ID}
	name := filepath.Base(c.Dir)
	for _, i := range c.Contents.Items {
		if i.Kind == addon.Command || i.Kind == addon.Skill {
			p.Commands = append(p.Commands, agent.Command{Name: name + ":" + i.Name, Description: i.Description, Hint: i.Hint,
				Skill: i.Kind == addon.Skill, Kept: i.NotByUser})
		}
	}
	return p
}

// PluginThing is what a plugin is called in decisions, by its source.
func PluginThing(uri string) string {
	h := sha256.Sum256([]byte(uri))
	return "plugin/" + hex.EncodeToString(h[:16])
}

// brought are the plugins that one of those who bring them brought.
type brought struct {
	by   string
	list []Plugin
}

// Bring replaces the plugins that somebody brings to a session.
func (r *Registry) Bring(session id.ID, by string, list []Plugin) {
	r.mu.Lock()
	all := r.brought[session]
	i := slices.IndexFunc(all, func(b brought) bool { return b.by == by })
	if i < 0 && len(list) == 0 {
		r.mu.Unlock()
		return
	}
	next := slices.Clone(all)
	switch {
	case len(list) == 0:
		next = slices.Delete(next, i, i+1)
	case i < 0:
		next = append(next, brought{by, slices.Clone(list)})
	default:
		next[i].list = slices.Clone(list)
	}
	if len(next) > 0 {
		r.brought[session] = next
	} else {
		delete(r.brought, session)
	}
	if r.settled != nil {
		close(r.settled)
		r.settled = nil
	}
	watchers := r.watchers
	r.mu.Unlock()
	tell(watchers, session)
}

// Plugins are all that were brought to a session.
func (r *Registry) Plugins(session id.ID) (out []Plugin) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.plugins(session)
}

// plugins is Plugins for who holds mu.
func (r *Registry) plugins(session id.ID) (out []Plugin) {
	for _, b := range r.brought[session] {
		out = append(out, b.list...)
	}
	return out
}

// Copies are those of a session's plugins that are there and on, in a session
// that works in dir: each once, in their order.
func (r *Registry) Copies(session id.ID, dir string) (out []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.plugins(session) {
		if p.Copy != "" && p.on(pick(r.decided, session, dir, p.Thing)) && !slices.Contains(out, p.Copy) {
			out = append(out, p.Copy)
		}
	}
	return out
}

func (p *Plugin) on(ds []Decision) bool {
	if len(ds) == 0 {
		return !p.Off
	}
	return On(ds)
}

// PluginOn reports whether a plugin is on in a session that works in dir.
func (r *Registry) PluginOn(session id.ID, dir string, p Plugin) bool {
	return p.on(r.Decisions(session, dir, p.Thing))
}

// PluginsSettled waits until none of a session's plugins is on its way, or ctx
// ends.
func (r *Registry) PluginsSettled(ctx context.Context, session id.ID) {
	for {
		r.mu.Lock()
		if !slices.ContainsFunc(r.plugins(session), func(p Plugin) bool { return p.Loading }) {
			r.mu.Unlock()
			return
		}
		if r.settled == nil {
			r.settled = make(chan struct{})
		}
		settled := r.settled
		r.mu.Unlock()
		select {
		case <-settled:
		case <-ctx.Done():
			return
		}
	}
}
