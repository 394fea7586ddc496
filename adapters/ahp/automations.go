package ahp

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/polyhost/polyhost/core/automation"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/transports/jsonrpc"
)

const (
	automationsURI = "ahp-automations://"
	// automationsAlias is another spelling that some editors use.
	automationsAlias = "ahp-automations://catalog"
)

// automations serves the catalogue of automations, under both its spellings,
// and the channels of runs. They say what the set's watcher hears, under the
// set's lock, and their snapshots are made under it too. Locks are taken in
// this order: the set's, mu.
type automations struct {
	front *Front
	set   *automation.Set

	mu   sync.Mutex
	chs  map[string]*channel // those that somebody asked for, by URI
	asks map[id.ID]int       // how many runs an entry shows, where clients asked for more
	// uris are the sessions of runs as they were told: they are named once
	// more when they are gone.
	uris map[id.ID]string
}

func newAutomations(f *Front, set *automation.Set) *automations {
	return &automations{front: f, set: set, chs: map[string]*channel{}, asks: map[id.ID]int{}, uris: map[id.ID]string{}}
}

func isCatalogue(uri string) bool { return uri == automationsURI || uri == automationsAlias }

func (s *automations) owns(uri string) bool { return strings.HasPrefix(uri, automationScheme) }

// runOf finds the run that a channel names, or nil.
func runOf(list []*automation.Automation, uri string) (*automation.Automation, *automation.Run) {
	name, _ := strings.CutPrefix(uri, runScheme+":/")
	run, err := id.Parse(name)
	if err != nil || uri != runURI(run) {
		return nil, nil
	}
	for _, a := range list {
		if r := a.Run(run); r != nil {
			return a, r
		}
	}
	return nil, nil
}

func (s *automations) take(_ context.Context, uri string) (taken, error) {
	var out taken
	err := notFound(uri)
	s.set.View(func(list []*automation.Automation) {
		s.mu.Lock()
		defer s.mu.Unlock()
		var state any
		if isCatalogue(uri) {
			entries := make([]automationEntry, len(list))
			for i, a := range list {
				entries[i] = s.entry(a)
			}
			state = automationState{entries}
		} else if a, r := runOf(list, uri); r != nil {
			state = s.runState(a, r)
		} else {
			return
		}
		err = nil
		if s.chs[uri] == nil {
			s.chs[uri] = s.front.journal.open(uri)
		}
		out = taken{ch: s.chs[uri], held: held{ch: s.chs[uri]}}
		out.Resource, out.State = uri, state
		out.FromSeq, out.pos = s.front.journal.promise(out.ch)
	})
	if err != nil {
		return out, err
	}
	return out, nil
}

func (s *automations) opened(uri string) (held, error) {
	there := isCatalogue(uri)
	if !there {
		s.set.View(func(list []*automation.Automation) {
			_, r := runOf(list, uri)
			there = r != nil
		})
	}
	if !there {
		return held{}, notFound(uri)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return held{ch: s.chs[uri]}, nil
}

// released: what is kept of a channel is small, and goes with its run.
func (s *automations) released(string) {}

// entry is an automation in the catalogue; the caller holds both locks.
func (s *automations) entry(a *automation.Automation) automationEntry {
	e := automationEntry{Resource: automationURI(a.Name), Definition: definitionShape(&a.Definition), NextRunAt: stampOrNone(a.NextRunAt()),
		Runs: []automationRunIn{}, Operations: []string{"update", "remove", "run"}, CreatedAt: stamp(a.CreatedAt), ModifiedAt: stamp(a.ModifiedAt),
		Customizations: s.pluginShapes(a), Meta: personMeta(ownerKey, a.Definition.By.User)}
	if a.MaxRuns > 0 {
		e.RunCount = ptr(a.Counted)
	}
	shown := a.Runs[:min(s.shown(a), len(a.Runs))]
	for _, r := range shown {
		e.Runs = append(e.Runs, automationRunIn{s.runHead(a, r), len(r.Sessions)})
	}
	if len(shown) < len(a.Runs) {
		e.RunsNextCursor = shown[len(shown)-1].ID.String()
	}
	return e
}

// shown is how many runs the entry of an automation has.
func (s *automations) shown(a *automation.Automation) int { return max(runsShown, s.asks[a.ID]) }

func (s *automations) runHead(a *automation.Automation, r *automation.Run) automationRunHead {
	h := automationRunHead{Resource: runURI(r.ID), Automation: automationURI(a.Name), Origin: originShape(r), Lifecycle: lifecycleShape(r),
		Meta: personMeta(ownerKey, a.Definition.By.User)}
	if !r.Primary.IsNil() {
		h.PrimarySession = s.session(r.Primary)
	}
	return h
}

func (s *automations) runState(a *automation.Automation, r *automation.Run) automationRunState {
	st := automationRunState{s.runHead(a, r), []string{}}
	for _, sid := range r.Sessions {
		st.Sessions = append(st.Sessions, s.session(sid))
	}
	return st
}

// session names a session of a run.
func (s *automations) session(sid id.ID) string {
	if uri := s.uris[sid]; uri != "" {
		return uri
	}
	sum, ok := s.front.host.Summary(sid)
	if !ok { // it is being removed
		return sid.AHP(sessionAlias)
	}
	s.uris[sid] = sessionURI(&sum.Info)
	return s.uris[sid]
}

// runCause is the origin of what is said on a run's own channel.
type runCause struct{ *origin }

// changed tells what changed of an automation, under the set's lock.
func (s *automations) changed(c automation.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, _ := c.Cause.(*origin)
	asked, _ := c.Cause.(runCause)
	was, now := c.Was, c.Now
	if was == nil {
		was = &automation.Automation{}
	}
	if now == nil {
		now = &automation.Automation{}
		delete(s.asks, was.ID)
	}
	for _, r := range now.Runs {
		if old := was.Run(r.ID); old != nil && old != r {
			s.runChanged(old, r, asked.origin)
		}
	}
	if c.Now == nil {
		s.say(map[string]any{"type": "automation/removed", "resource": automationURI(c.Was.Name)}, o)
	} else {
		s.say(map[string]any{"type": "automation/set", "automation": s.entry(c.Now)}, o)
	}
	for _, r := range was.Runs {
		if now.Run(r.ID) == nil {
			s.forget(r)
		}
	}
}

// forget drops what is kept of a run that is kept no more.
func (s *automations) forget(r *automation.Run) {
	for _, sid := range r.Sessions {
		delete(s.uris, sid)
	}
	if ch := s.chs[runURI(r.ID)]; ch != nil {
		s.front.journal.close(ch)
		delete(s.chs, runURI(r.ID))
	}
}

// say says an action in the catalogue, under all spellings in use.
func (s *automations) say(action any, o *origin) {
	body := encode(action)
	for _, uri := range []string{automationsURI, automationsAlias} {
		if ch := s.chs[uri]; ch != nil {
			s.front.journal.publish(ch, ch.action(body), o)
		}
	}
}

// runChanged says on a run's channel what differs.
func (s *automations) runChanged(was, now *automation.Run, o *origin) {
	ch := s.chs[runURI(now.ID)]
	say := func(o *origin, action map[string]any) {
		if ch != nil {
			s.front.journal.publish(ch, ch.action(encode(action)), o)
		}
	}
	for _, sid := range now.Sessions {
		if !slices.Contains(was.Sessions, sid) {
			say(nil, map[string]any{"type": "automationRun/sessionSet", "session": s.session(sid)})
		}
	}
	primary := was.Primary
	for _, sid := range was.Sessions {
		if !slices.Contains(now.Sessions, sid) {
			say(nil, map[string]any{"type": "automationRun/sessionRemoved", "session": s.session(sid)})
			delete(s.uris, sid)
			if primary == sid {
				primary = id.Nil // the removal says that too
			}
		}
	}
	if primary != now.Primary {
		action := map[string]any{"type": "automationRun/primarySessionChanged"}
		if !now.Primary.IsNil() {
			action["primarySession"] = s.session(now.Primary)
		}
		say(nil, action)
	}
	if now.Status != was.Status {
		say(o, map[string]any{"type": "automationRun/lifecycleChanged", "lifecycle": lifecycleShape(now)})
	}
}

// automationActions are those that a client may say in the catalogue, and
// runActions on a run.
var (
	automationActions = map[string]func(s *automations, ctx context.Context, a *action) error{
		"automation/createRequested": (*automations).create,
		"automation/updateRequested": (*automations).update,
		"automation/removed":         (*automations).remove,
	}
	runActions = map[string]func(s *automations, ctx context.Context, a *action) error{
		"automationRun/cancelRequested": (*automations).cancel,
	}
)

func (s *automations) dispatch(ctx context.Context, a *action, typ string) error {
	if _, err := s.opened(a.uri); err != nil {
		return errNowhere
	}
	run := runActions[typ]
	if isCatalogue(a.uri) {
		run = automationActions[typ]
	}
	if run == nil {
		return refusal("this host does not take " + clip(typ) + " on that channel")
	}
	err := run(s, ctx, a)
	if errors.Is(err, automation.ErrUnchanged) {
		return errUnchanged
	}
	return err
}

func (s *automations) create(ctx context.Context, a *action) error {
	var p struct {
		Resource   string          `json:"resource" jsonx:"required"`
		Definition json.RawMessage `json:"definition" jsonx:"required"`
	}
	if err := decode(a.raw, &p, "action"); err != nil {
		return err
	}
	name, ok := automationName(p.Resource)
	if !ok || len(name) > automation.MaxName {
		return refusal("an automation is named " + automationScheme + ":/<id>")
	}
	d, err := s.front.readDefinition(p.Definition, true)
	if err != nil {
		return err
	}
	d.By = a.conn.actor()
	d.By.Client = "" // a run has no client
	copies, err := s.copyPlugins(ctx, a.conn, templatePlugins(&d))
	defer release(copies)
	if err != nil {
		return err
	}
	d.Session.Plugins = copiedPlugins(templatePlugins(&d), copies)
	return s.set.Create(ctx, name, d, &a.origin)
}

// update replaces the fields that the patch has, and leaves the others.
func (s *automations) update(ctx context.Context, a *action) error {
	var p struct {
		Resource string                     `json:"resource" jsonx:"required"`
		Changes  map[string]json.RawMessage `json:"changes" jsonx:"required"`
	}
	if err := decode(a.raw, &p, "action"); err != nil {
		return err
	}
	name, _ := automationName(p.Resource)
	named, anew, err := s.patchedPlugins(name, p.Changes["session"])
	if err != nil {
		return err
	}
	copies, err := s.copyPlugins(ctx, a.conn, named)
	defer release(copies)
	if err != nil {
		return err
	}
	return s.set.Update(ctx, name, &a.origin, func(d automation.Definition) (automation.Definition, error) {
		merged := map[string]json.RawMessage{}
		if err := decode(encode(definitionShape(&d)), &merged, "definition"); err != nil {
			return d, err
		}
		for key, value := range p.Changes {
			if string(value) != "null" {
				merged[key] = value
			}
		}
		if session := merged["session"]; p.Changes["session"] != nil && !anew {
			var err error
			if merged["session"], err = withPluginsOf(session, &d); err != nil {
				return d, err
			}
		}
		next, err := s.front.readDefinition(encode(merged), p.Changes["session"] != nil)
		if err != nil {
			return d, err
		}
		next.By, next.Session.Plugins = d.By, d.Session.Plugins
		if anew {
			next.Session.Plugins = copiedPlugins(named, copies)
		}
		return next, nil
	})
}

func (s *automations) remove(ctx context.Context, a *action) error {
	var p struct {
		Resource string `json:"resource" jsonx:"required"`
	}
	if err := decode(a.raw, &p, "action"); err != nil {
		return err
	}
	name, _ := automationName(p.Resource)
	err := s.set.Remove(ctx, name, &a.origin)
	if errors.Is(err, automation.ErrNotFound) {
		return errUnchanged // it is gone, as the client wants it
	}
	return err
}

func (s *automations) cancel(ctx context.Context, a *action) error {
	run, err := id.Parse(strings.TrimPrefix(a.uri, runScheme+":/"))
	if err != nil {
		return errNowhere
	}
	return s.set.Cancel(ctx, run, runCause{&a.origin})
}

// listTriggers gives the events that start runs: this host has none, and a
// schedule is none.
func (c *conn) listTriggers(_ context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		Provider           string                     `json:"provider"`
		WorkingDirectories []string                   `json:"workingDirectories"`
		SessionConfig      map[string]json.RawMessage `json:"sessionConfig"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	if _, err := c.schemaFor(p.Provider); err != nil {
		return nil, err
	}
	return map[string]any{"items": []struct{}{}}, nil
}

// runAutomation starts a run by hand. The same request gives the same run.
func (c *conn) runAutomation(ctx context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		Automation string `json:"automation" jsonx:"required"`
		RequestID  string `json:"requestId" jsonx:"required"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	if p.RequestID == "" || len(p.RequestID) > automation.MaxName {
		return nil, invalid("requestId: must have 1 to %d bytes", automation.MaxName)
	}
	name, _ := automationName(p.Automation)
	run, err := c.front.automations.set.Start(ctx, name, p.RequestID)
	if err != nil {
		return nil, err
	}
	return map[string]any{"resource": runURI(run)}, nil
}

// fetchRuns lets the entry of an automation show a page of older runs to
// everybody. The answer says nothing.
func (c *conn) fetchRuns(_ context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		Automation string  `json:"automation" jsonx:"required"`
		Cursor     *string `json:"cursor"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	s := c.front.automations
	var err error = automation.ErrNotFound
	s.set.View(func(list []*automation.Automation) {
		i := slices.IndexFunc(list, func(a *automation.Automation) bool { return automationURI(a.Name) == p.Automation })
		if i < 0 {
			return
		}
		err = s.grow(list[i], p.Cursor)
	})
	if err != nil {
		return nil, err
	}
	return struct{}{}, nil
}

// grow shows one page more after the run that a cursor names, under the set's
// lock.
func (s *automations) grow(a *automation.Automation, cursor *string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := min(s.shown(a), len(a.Runs))
	if cursor != nil {
		run, err := id.Parse(*cursor)
		from = slices.IndexFunc(a.Runs, func(r *automation.Run) bool { return err == nil && r.ID == run }) + 1
		if from == 0 {
			return invalid("cursor: this host did not give it")
		}
	}
	if to := from + runsShown; from < len(a.Runs) && to > s.shown(a) {
		s.asks[a.ID] = to
		s.say(map[string]any{"type": "automation/set", "automation": s.entry(a)}, nil)
	}
	return nil
}
