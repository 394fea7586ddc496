package ahp

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"

	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/transports/jsonrpc"
)

// rootChannel tells of agents and of the list of sessions.
type rootChannel struct {
	front *Front
	ch    *channel
	watch *host.Watch

	mu   sync.Mutex // held while something is said, so that snapshots agree
	rows map[id.ID]sessionRow
	// What follows is as it was last said: the front may be ahead of it. All are
	// replaced, never written to.
	agents    []agentInfo
	terminals []terminalInfo
	settings  values
}

// newRoot begins to watch, before the front has clients: they would not hear
// of the sessions that were made until it did.
func newRoot(f *Front) *rootChannel {
	r := &rootChannel{front: f, ch: f.journal.open(rootURI), watch: f.host.Watch(), rows: map[id.ID]sessionRow{},
		agents: f.agents(), terminals: []terminalInfo{}, settings: f.settings.values}
	for _, sum := range f.host.List(host.Filter{IncludeClosed: true, IncludeArchived: true}) {
		r.rows[sum.Info.ID] = f.row(&sum, sessionURI(&sum.Info))
	}
	return r
}

func (r *rootChannel) take() taken {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := taken{ch: r.ch, held: held{ch: r.ch}}
	t.Resource = rootURI
	t.State = rootState{Agents: r.agents, ActiveSessions: len(r.rows), Terminals: r.terminals,
		Config: rootConfig{declared, r.settings}}
	t.FromSeq, t.pos = r.front.journal.promise(t.ch)
	return t
}

// run tells of every change until ctx ends or the host stops, and ends the
// watch.
func (r *rootChannel) run(ctx context.Context) error {
	defer r.watch.Close()
	for {
		changes, err := r.watch.Next(ctx)
		if err != nil {
			if errors.Is(err, host.ErrClosed) || ctx.Err() != nil {
				return nil
			}
			return err
		}
		for i := range changes {
			r.changed(&changes[i])
		}
	}
}

// agentsReady tells what the agents said of themselves, once they have.
func (r *rootChannel) agentsReady(ctx context.Context) {
	if r.front.host.AgentsReady(ctx) != nil {
		return
	}
	for _, l := range r.front.livesWhere(func(*live) bool { return true }) {
		l.mu.Lock()
		l.learnAgent()
		l.sayMeta() // it is known now what model a session begins with
		l.mu.Unlock()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.agents = r.front.agents()
	r.say(map[string]any{"type": "root/agentsChanged", "agents": r.agents})
}

// terminalsChanged tells the list of terminals.
func (r *rootChannel) terminalsChanged() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.terminals = r.front.terminals.infos()
	r.say(map[string]any{"type": "root/terminalsChanged", "terminals": r.terminals})
}

// settingsChanged tells what was pushed of the settings that all share.
func (r *rootChannel) settingsChanged(now values, action settingsAction, o *origin) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settings = now
	r.front.journal.publish(r.ch, r.ch.action(encode(action)), o)
}

func (r *rootChannel) say(action any) {
	r.front.journal.publish(r.ch, r.ch.action(encode(action)), nil)
}

func (r *rootChannel) changed(c *host.Change) {
	if c.Kind == host.Removed {
		r.front.changesets.removed(c.Session)
	} else {
		r.front.changesets.touched(c.Session)
	}
	if c.Kind != host.Removed && !r.knows(c.Session) {
		if c.Summary.Info.Making {
			return // told once it is ready
		}
		if l := r.front.projected(c.Session); l != nil {
			l.catchUp(r.front.ctx, c.Summary.Seq) // who watches it hears that first
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	old, known := r.rows[c.Session]
	if c.Kind == host.Removed {
		gone := c.Session
		r.front.wg.Go(func() { r.front.annotations.removed(r.front.ctx, gone) })
		r.front.wg.Go(func() { r.front.worktrees.left(r.front.ctx, gone) })
	}
	before := len(r.rows)
	switch {
	case c.Kind == host.Removed && !known:
		return
	case c.Kind == host.Removed:
		delete(r.rows, c.Session)
		r.tell(c.Session, old.Resource, "root/sessionRemoved", func(uri string) any {
			return struct {
				Channel string `json:"channel"`
				Session string `json:"session"`
			}{rootURI, uri}
		})
	default:
		now := r.front.row(&c.Summary, sessionURI(&c.Summary.Info))
		if dirs := c.Summary.Info.Dirs; len(dirs) > 0 {
			r.front.facts.want(dirs[0], !known || old.Status&statusRuns != now.Status&statusRuns)
		}
		r.rows[c.Session] = now
		if !known {
			r.tell(c.Session, now.Resource, "root/sessionAdded", func(uri string) any {
				return struct {
					Channel string     `json:"channel"`
					Summary sessionRow `json:"summary"`
				}{rootURI, r.front.row(&c.Summary, uri)}
			})
			break
		}
		if reflect.DeepEqual(old, now) {
			break
		}
		r.moved(c.Session, now.Resource, func(uri string) map[string]any {
			return rowChanges(&old, &now, r.front.row(&c.Summary, uri))
		})
	}
	if len(r.rows) != before {
		r.say(map[string]any{"type": "root/activeSessionsChanged", "activeSessions": len(r.rows)})
	}
}

func (r *rootChannel) knows(session id.ID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, known := r.rows[session]
	return known
}

// metaMoved tells how the working tree of the sessions in a directory stands.
func (r *rootChannel) metaMoved(dir string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for session, old := range r.rows {
		if len(old.WorkingDirectories) == 0 || old.WorkingDirectories[0] != dir {
			continue
		}
		sum, ok := r.front.host.Summary(session)
		if !ok {
			continue
		}
		now := old
		if now.Meta = r.front.rowMeta(&sum.Info); reflect.DeepEqual(old, now) {
			continue
		}
		r.rows[session] = now
		r.moved(session, now.Resource, func(string) map[string]any { return map[string]any{"_meta": saidMeta(now.Meta)} })
	}
}

// moved tells that the row of a session changed.
func (r *rootChannel) moved(session id.ID, uri string, changes func(uri string) map[string]any) {
	r.tell(session, uri, "root/sessionSummaryChanged", func(uri string) any {
		return struct {
			Channel string         `json:"channel"`
			Session string         `json:"session"`
			Changes map[string]any `json:"changes"`
		}{rootURI, uri, changes(uri)}
	})
}

// rowChanges is what differs, in the words of a client's own spelling.
func rowChanges(old, now *sessionRow, spelt sessionRow) map[string]any {
	changes := map[string]any{}
	if old.Title != now.Title {
		changes["title"] = now.Title
	}
	if old.Status != now.Status {
		changes["status"] = now.Status
	}
	if old.Activity != now.Activity {
		changes["activity"] = saidActivity(now.Activity)
	}
	if old.ModifiedAt != now.ModifiedAt {
		changes["modifiedAt"] = now.ModifiedAt
	}
	if !slices.Equal(old.WorkingDirectories, now.WorkingDirectories) {
		changes["workingDirectories"] = now.WorkingDirectories
	}
	if now.Project != nil && !reflect.DeepEqual(old.Project, now.Project) {
		changes["project"] = now.Project
	}
	if !reflect.DeepEqual(old.Chats, now.Chats) {
		changes["chats"] = spelt.Chats
	}
	if !reflect.DeepEqual(old.Meta, now.Meta) {
		changes["_meta"] = saidMeta(now.Meta)
	}
	return changes
}

// saidMeta is what takes the place of a row's _meta: a key that is left out of what
// changed has not moved.
func saidMeta(m *sessionMeta) *sessionMeta {
	if m == nil {
		return &sessionMeta{}
	}
	return m
}

// tell sends a notification to everyone on the root channel. A connection that
// calls the session by another name hears that name.
func (r *rootChannel) tell(session id.ID, uri, method string, params func(uri string) any) {
	own := r.front.spellings(session, uri)
	r.front.journal.notify(r.ch, notification(method, params(uri)), own)
	for c, name := range own {
		if c.watches(rootURI) {
			_ = c.send(notification(method, params(name)))
		}
	}
}

func notification(method string, params any) []byte {
	f, err := jsonrpc.Notification(method, params)
	if err != nil {
		panic("ahp: encode: " + err.Error()) // our own shapes hold only what encodes
	}
	return f
}
