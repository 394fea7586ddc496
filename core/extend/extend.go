// Package extend keeps what extends the agents of sessions beside their
// settings: the commands, skills and subagents that an agent has in a session,
// the MCP servers it is connected to, the plugins that were brought for it, and
// what people decided to switch off. It knows no front and no agent.
//
// What agents say is kept in memory: they say it again when they run. Decisions
// are stored before Decide returns. Nothing here blocks but for that; watchers
// are called without a lock held, on the goroutine that caused the change, and
// must not wait.
package extend

import (
	"slices"
	"strings"
	"sync"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/id"
)

// View is what a session has. It never changes.
type View struct {
	// Offer is nil while the session's agent has said nothing.
	Offer   *agent.Offer
	Servers []agent.ServerStatus
}

// Server returns the server of that name, or nil.
func (v *View) Server(name string) *agent.ServerStatus {
	for i := range v.Servers {
		if v.Servers[i].Name == name {
			return &v.Servers[i]
		}
	}
	return nil
}

// Registry keeps the views of all sessions, and the decisions.
type Registry struct {
	save func([]byte) error

	deciding sync.Mutex // held while decisions are stored, in order

	mu       sync.Mutex
	views    map[id.ID]*View
	order    []id.ID // of views, the oldest first
	brought  map[id.ID][]brought
	settled  chan struct{} // closed when a plugin changed; nil while nobody waits
	offer    *agent.Offer
	decided  []decided
	watchers []func(id.ID)
}

// Watch calls f after what a session has, or what was decided for it, changed;
// id.Nil stands for all sessions.
func (r *Registry) Watch(f func(session id.ID)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watchers = append(r.watchers, f)
}

// Of is what a session has.
func (r *Registry) Of(session id.ID) View {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v := r.views[session]; v != nil {
		return *v
	}
	return View{}
}

// Offered takes what an agent has in a session.
func (r *Registry) Offered(session id.ID, o *agent.Offer) {
	o = tidy(o)
	r.change(session, func(v *View) bool {
		if v.Offer != nil && sameOffer(v.Offer, o) {
			return false
		}
		if r.offer == nil || !sameOffer(r.offer, o) { // most sessions have the same
			r.offer = o
		}
		v.Offer = r.offer
		return true
	})
}

// Reported takes the servers of a session's agent.
func (r *Registry) Reported(session id.ID, servers []agent.ServerStatus) {
	var kept []agent.ServerStatus
	for _, s := range servers {
		if s.Name == "" || len(s.Name) > MaxName || len(kept) == MaxThings ||
			slices.ContainsFunc(kept, func(k agent.ServerStatus) bool { return k.Name == s.Name }) {
			continue
		}
		s.Error, s.URL = clip(s.Error), clip(s.URL)
		kept = append(kept, s)
	}
	r.change(session, func(v *View) bool {
		if slices.Equal(v.Servers, kept) {
			return false
		}
		v.Servers = kept
		return true
	})
}

// Forget drops all that is known of a session and was decided for it alone.
func (r *Registry) Forget(session id.ID) error {
	r.mu.Lock()
	if r.views[session] != nil {
		delete(r.views, session)
		r.order = slices.DeleteFunc(r.order, func(x id.ID) bool { return x == session })
	}
	delete(r.brought, session)
	r.mu.Unlock()
	return r.dropSession(session)
}

func (r *Registry) change(session id.ID, f func(v *View) bool) {
	r.mu.Lock()
	var next View
	old := r.views[session]
	if old != nil {
		next = *old
	}
	if !f(&next) {
		r.mu.Unlock()
		return
	}
	if old == nil {
		if len(r.order) == maxSessions {
			delete(r.views, r.order[0])
			r.order = r.order[1:]
		}
		r.order = append(r.order, session)
	}
	r.views[session] = &next
	watchers := r.watchers
	r.mu.Unlock()
	tell(watchers, session)
}

func tell(watchers []func(id.ID), session id.ID) {
	for _, w := range watchers {
		w(session)
	}
}

// tidy is an offer with each name once, and nothing too long.
func tidy(o *agent.Offer) *agent.Offer {
	out := &agent.Offer{}
	seen := map[string]bool{}
	fresh := func(kind, name string) bool {
		key := kind + name
		if name == "" || len(name) > MaxName || seen[key] {
			return false
		}
		seen[key] = true
		return true
	}
	for _, c := range o.Commands {
		if len(out.Commands) < MaxThings && fresh("/", c.Name) {
			c.Description, c.Hint = clip(c.Description), clip(c.Hint)
			out.Commands = append(out.Commands, c)
		}
	}
	for _, s := range o.Subagents {
		if len(out.Subagents) < MaxThings && fresh("@", s.Name) {
			s.Description = clip(s.Description)
			out.Subagents = append(out.Subagents, s)
		}
	}
	return out
}

func sameOffer(a, b *agent.Offer) bool {
	return slices.Equal(a.Commands, b.Commands) && slices.Equal(a.Subagents, b.Subagents)
}

func clip(s string) string {
	if len(s) > MaxText {
		s = s[:MaxText]
	}
	return strings.ToValidUTF8(s, "")
}
