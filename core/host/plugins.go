package host

import (
	"context"
	"slices"
	"sync"

	"github.com/polyhost/polyhost/core/addon"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/extend"
	"github.com/polyhost/polyhost/core/id"
)

// otherPlugins reports whether a chat's agent, which is between two turns, must
// start again because the session's plugins are not those that it was given. One
// that works on in the background is left alone until it has done.
func (s *Session) otherPlugins(r *run) bool {
	if r.conv == nil || r.background || !s.host.can(s.work.Info.Backend).Plugins {
		return false
	}
	c, given := s.work.Chat(r.chat), r.conv.plugins.Load()
	if c == nil || c.Conversation == "" || given == nil {
		return false
	}
	return !slices.Equal(*given, s.host.extended.Copies(s.id, s.work.Info.Dirs[0]))
}

// givePlugins has an agent that is to be opened load the session's plugins. Those
// that are on their way it waits for, within a bound, and for what the agent says
// that it can. The copies are held for as long as the agent may read them.
func (c *conversation) givePlugins(o *agent.Open, backend string) (held []*addon.Copy) {
	h, given := c.session.host, []string{}
	if h.opt.Addons != nil && len(h.extended.Plugins(c.session.id)) > 0 {
		ctx, cancel := context.WithTimeout(c.ctx, PluginsWithin)
		if !h.can(backend).Plugins {
			_ = h.AgentsReady(ctx) // the gateway may have started just now
		}
		h.extended.PluginsSettled(ctx, c.session.id)
		cancel()
	}
	if h.opt.Addons != nil && h.can(backend).Plugins {
		given = h.extended.Copies(c.session.id, c.session.State().Info.Dirs[0])
		for _, name := range given {
			one, err := h.opt.Addons.Hold(name)
			if err != nil { // it was taken away just now: the next prompt sees that
				c.session.log.Warn("An agent begins without a plugin", "chat", c.chat.String(), "plugin", name, "err", err)
				continue
			}
			held = append(held, one)
			o.Plugins = append(o.Plugins, one.Dir)
		}
	}
	c.plugins.Store(&given)
	return held
}

// adopted are the copies that sessions have for as long as they are.
type adopted struct {
	mu     sync.Mutex
	copies map[id.ID][]*addon.Copy
}

// adopt holds the plugins of a session, and brings them to it.
func (h *Host) adopt(info *event.SessionInfo) {
	if len(info.Plugins) == 0 || h.opt.Addons == nil {
		return
	}
	var list []extend.Plugin
	var held []*addon.Copy
	for _, p := range info.Plugins {
		c, err := h.opt.Addons.Hold(p.Copy)
		if err != nil {
			h.log.Warn("A session goes on without a plugin", "session", info.ID.String(), "plugin", p.Name, "err", err)
			continue
		}
		held = append(held, c)
		b := extend.Copied(p.URI, c)
		b.Off = p.Off
		list = append(list, b)
	}
	h.adopted.mu.Lock()
	if h.adopted.copies == nil {
		h.adopted.copies = map[id.ID][]*addon.Copy{}
	}
	h.adopted.copies[info.ID] = held
	h.adopted.mu.Unlock()
	h.extended.Bring(info.ID, ownPlugins, list)
}

// ownPlugins is who brings the plugins that a session has of its own.
const ownPlugins = "session"

// disown lets the plugins of a session that is gone go.
func (h *Host) disown(session id.ID) {
	h.adopted.mu.Lock()
	held := h.adopted.copies[session]
	delete(h.adopted.copies, session)
	h.adopted.mu.Unlock()
	for _, c := range held {
		c.Release()
	}
}
