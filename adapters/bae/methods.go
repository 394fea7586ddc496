package bae

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/transports/outbox"
)

// registerDriver lets the caller's client key send messages.
func (f *Front) registerDriver(ctx context.Context, rq *request) (any, error) {
	if err := rq.room.open(); err != nil {
		return nil, err
	}
	lists, err := f.registry.lists(ctx, rq.ses, rq.key.ID)
	if err != nil {
		return nil, err
	}
	if f.addDriver(rq.ses, rq.key.ID, lists) {
		events := []noted{{"session.driver.register", rq.key.ID, json.RawMessage("{}")}}
		if p, ok := f.registry.profile(rq.key.Profile); ok && len(p.Sandboxes) > 0 {
			events = append(events, noted{"session.sandbox.available", rq.key.ID, mustJSON(imagesOf(p))})
		}
		if err := rq.room.write(ctx, rq.key.ID, events...); err != nil {
			f.removeDriver(rq.ses, rq.key.ID)
			return nil, err
		}
	}
	return struct {
		Registered bool `json:"registered"`
	}{true}, nil
}

// driver is a client key that may send messages to a session.
type driver struct {
	key string
	// tools are the stand-in tools that it declared.
	tools []string
}

// addDriver reports whether the key was not registered before.
func (f *Front) addDriver(ses id.ID, key string, l lists) bool {
	var standIns []string
	for _, t := range l.Tools {
		if t.Name == toolPermission || t.Name == toolQuestion {
			standIns = append(standIns, t.Name)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, d := range f.drivers[ses] {
		if d.key == key {
			f.drivers[ses][i].tools = standIns
			return false
		}
	}
	f.drivers[ses] = append(f.drivers[ses], driver{key, standIns})
	return true
}

func (f *Front) removeDriver(ses id.ID, key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drivers[ses] = slices.DeleteFunc(f.drivers[ses], func(d driver) bool { return d.key == key })
}

func (f *Front) isDriver(ses id.ID, key string) bool {
	return slices.Contains(f.driverKeys(ses), key)
}

// driverKeys are the registered client keys, sorted.
func (f *Front) driverKeys(ses id.ID) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	keys := []string{}
	for _, d := range f.drivers[ses] {
		keys = append(keys, d.key)
	}
	slices.Sort(keys)
	return keys
}

// driverWith is the first registered driver that declared a tool, or "".
func (f *Front) driverWith(ses id.ID, tool string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range f.drivers[ses] {
		if slices.Contains(d.tools, tool) {
			return d.key
		}
	}
	return ""
}

// clearDrivers forgets the drivers of a session that is over.
func (f *Front) clearDrivers(ses id.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.drivers, ses)
}

// subscribe streams the session's events, from an event on or from now on.
func (f *Front) subscribe(ctx context.Context, rq *request) (func(context.Context, *feed), error) {
	var since *string
	if isObject(rq.params) {
		var p struct {
			Since json.RawMessage `json:"since_event_id"`
		}
		if err := rq.decode(&p); err != nil {
			return nil, err
		}
		var s string
		if len(p.Since) > 0 && p.Since[0] == '"' && json.Unmarshal(p.Since, &s) == nil {
			since = &s
		}
	}
	if err := rq.room.sync(ctx); err != nil {
		return nil, err
	}
	return func(ctx context.Context, out *feed) { f.watch(ctx, rq, since, out) }, nil
}

// watch feeds a subscription: what is stored, then what happens.
func (f *Front) watch(ctx context.Context, rq *request, since *string, out *feed) {
	r := rq.room
	r.mu.Lock()
	cur, upto := r.attachLocked(true), r.proj.seq
	r.mu.Unlock()
	defer cur.detach()
	if since != nil {
		after, _ := parseEventID(rq.ses, *since) // unknown: from the start
		if err := f.stored(ctx, r, after, upto, out); err != nil {
			return
		}
	}
	for {
		entries, err := cur.wait(ctx)
		for i := range entries {
			if entries[i].kind != "" && err == nil {
				err = out.pushEntry(ctx, &entries[i])
			}
		}
		if err != nil {
			f.endWatch(ctx, out, err)
			return
		}
	}
}

// stored feeds a subscription from the log, up to the session event upto. While
// it waits for its peer it holds nothing of what it has read: many peers may be
// slow at the same time, and a turn may be long.
func (f *Front) stored(ctx context.Context, r *room, after position, upto uint64, out *feed) error {
	for mark := out.out.Limit() / 2; ; {
		select {
		case f.replays <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		var pushed error
		from := after
		err := r.replay(ctx, after, upto, func(e *entry) bool {
			if e.kind != "" {
				if pushed = out.out.Push(e.frame); pushed == nil {
					out.frames.Delivered(1)
				}
			}
			if pushed == nil {
				after = e.pos
			}
			return pushed == nil
		})
		<-f.replays
		if err != nil || !errors.Is(pushed, outbox.ErrFull) {
			return errors.Join(err, pushed)
		}
		if after == from { // a large event needs more room
			mark = max(1, mark/2)
		}
		if err := out.out.WaitBelow(ctx, mark); err != nil {
			return err
		}
	}
}

// endWatch says why a subscription ends, where the protocol does.
func (f *Front) endWatch(ctx context.Context, out *feed, err error) {
	if errors.Is(err, errLagged) {
		_ = out.push(ctx, lagged) // the peer may have gone
	}
}

func (f *Front) unsubscribe(_ context.Context, rq *request) (any, error) {
	rq.room.unsubscribe()
	return struct {
		Unsubscribed bool `json:"unsubscribed"`
	}{true}, nil
}

// updateTools replaces the caller's tools.
func (f *Front) updateTools(ctx context.Context, rq *request) (any, error) {
	if err := rq.room.open(); err != nil {
		return nil, err
	}
	var p struct {
		Tools []toolDecl `json:"tools" jsonx:"required"`
	}
	if err := rq.decode(&p); err != nil {
		return nil, err
	}
	if err := checkTools("params: tools", p.Tools); err != nil {
		return nil, fail(codeParams, "%s", err)
	}
	profile, _ := f.registry.profile(rq.key.Profile)
	for _, t := range p.Tools {
		if t.Name == toolStatus {
			return nil, slug(codeTool, "tool_not_allowed", "%q is the server's own tool", t.Name)
		}
	}
	for _, t := range p.Tools {
		if !profile.allows(t.Name) {
			return nil, slug(codeTool, "tool_not_allowed", "%q is not in the profile's allowed_tools", t.Name)
		}
	}
	l, err := f.registry.lists(ctx, rq.ses, rq.key.ID)
	if err != nil {
		return nil, err
	}
	l.Tools = p.Tools
	if err := l.count(); err != nil {
		return nil, fail(codeParams, "params: tools: %s", err)
	}
	if err := f.registry.setLists(ctx, rq.ses, rq.key.ID, l); err != nil {
		return nil, err
	}
	f.addDriver(rq.ses, rq.key.ID, l)
	return struct {
		Updated bool `json:"updated"`
	}{true}, nil
}
