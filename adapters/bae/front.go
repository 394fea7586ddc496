package bae

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/polyhost/polyhost/adapters/front"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
)

// Front serves the BAE protocol.
type Front struct {
	deps     front.Deps
	set      settings
	host     *host.Host
	log      *slog.Logger
	registry *registry
	defaults defaults

	ctx      context.Context // of the rooms
	cancel   context.CancelFunc
	wg       sync.WaitGroup
	draining context.Context // ends the streams
	cut      context.CancelFunc
	streams  sync.WaitGroup

	replays chan struct{} // holds one for each log that is being replayed

	mu       sync.Mutex
	rooms    map[id.ID]*room
	drivers  map[id.ID][]driver // by session, in the order they registered
	stopping bool
}

// New prepares the front: its default profile and keys exist afterwards.
func New(d front.Deps) (front.Front, error) { return newFront(d, defaultSettings) }

func newFront(d front.Deps, s settings) (*Front, error) {
	f := &Front{deps: d, set: s, host: d.Host, log: d.Log,
		rooms: map[id.ID]*room{}, drivers: map[id.ID][]driver{}, replays: make(chan struct{}, maxReplays)}
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	var err error
	if f.registry, err = openRegistry(ctx, d.Host.KV(frontName), s); err != nil {
		return nil, err
	}
	if f.defaults, err = loadDefaults(d.Home); err != nil {
		return nil, err
	}
	if err := f.registry.ensure(ctx, f.defaults); err != nil {
		return nil, fmt.Errorf("make the default BAE profile and keys: %w", err)
	}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.draining, f.cut = context.WithCancel(context.Background())
	return f, nil
}

// Name is the front's name.
func (f *Front) Name() string { return frontName }

// adminListener is the name of the second listener.
const adminListener = "admin"

// Listeners are the client and the admin listener.
func (f *Front) Listeners() []front.Listener {
	return []front.Listener{{Handler: f.clientRoutes()}, {Name: adminListener, Handler: f.adminRoutes()}}
}

// endpoint is the front's entry of endpoints.json.
type endpoint struct {
	URL       string `json:"url"`
	ClientKey string `json:"client_key"`
	AdminURL  string `json:"admin_url"`
	AdminKey  string `json:"admin_key"`
}

// Bound says where the front is.
func (f *Front) Bound(addrs map[string]string) (any, error) {
	e := endpoint{"http://" + addrs[""], f.defaults.Client, "http://" + addrs[adminListener], f.defaults.Admin}
	if _, ok := f.registry.key(f.defaults.ClientID); !ok {
		e.ClientKey = ""
	}
	return e, nil
}

// Run forgets the keys of deleted sessions until ctx ends, then ends the rooms.
func (f *Front) Run(ctx context.Context) error {
	watch := f.host.Watch()
	var err error
	for err == nil {
		var changes []host.Change
		changes, err = watch.Next(ctx)
		for _, c := range changes {
			if c.Kind == host.Removed {
				f.forget(ctx, c.Summary)
			}
		}
	}
	watch.Close()
	if errors.Is(err, host.ErrClosed) {
		<-ctx.Done()
	}
	f.mu.Lock()
	f.stopping = true
	f.mu.Unlock()
	f.cut()
	f.cancel()
	f.wg.Wait()
	f.streams.Wait()
	return nil
}

// forget removes what the front keeps of a deleted session and its chats.
func (f *Front) forget(ctx context.Context, s host.Summary) {
	ids := []id.ID{s.Info.ID}
	for _, c := range s.Chats {
		ids = append(ids, c.Info.ID)
	}
	for _, ses := range ids {
		f.clearDrivers(ses)
		if err := f.registry.forget(ctx, ses); err != nil {
			f.log.Error("The keys of a deleted session could not be removed", "session", ses.String(), "err", err)
		}
	}
}

// Drain ends the streams that watch, gives the turns a moment to give their
// results, and ends what is left.
func (f *Front) Drain(ctx context.Context) {
	f.mu.Lock()
	f.stopping = true
	rooms := make([]*room, 0, len(f.rooms))
	for _, r := range f.rooms {
		rooms = append(rooms, r)
	}
	f.mu.Unlock()
	for _, r := range rooms {
		r.unsubscribe()
	}
	done := make(chan struct{})
	go func() { f.streams.Wait(); close(done) }()
	grace := time.NewTimer(drainGrace)
	defer grace.Stop()
	select {
	case <-done:
		return
	case <-grace.C:
	case <-ctx.Done():
	}
	f.cut()
	select {
	case <-done:
	case <-ctx.Done(): // Run waits for what is left: each ends within its write timeout
	}
}

// room returns a session's room, opening it; release must follow.
func (f *Front) room(ctx context.Context, ses id.ID) (*room, error) {
	if r := f.openRoom(ses); r != nil {
		return r, nil
	}
	hs, chat, err := f.host.Lookup(ctx, ses)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopping {
		return nil, host.ErrClosed
	}
	r := f.rooms[ses]
	if r == nil {
		r = newRoom(f, ses, hs, chat)
		f.rooms[ses] = r
		f.wg.Go(func() { r.run(f.ctx) })
	}
	r.holds++
	return r, nil
}

func (f *Front) openRoom(ses id.ID) *room {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.rooms[ses]
	if r != nil {
		r.holds++
	}
	return r
}

// release gives a room back.
func (f *Front) release(r *room) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r.holds--
}

// dropRoom takes a room away unless somebody uses it; force does so anyway.
func (f *Front) dropRoom(r *room, force bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.holds > 0 && !force {
		return false
	}
	if f.rooms[r.ses] == r {
		delete(f.rooms, r.ses)
	}
	return true
}

// addStream counts a stream that Drain waits for; false: the front stops.
func (f *Front) addStream() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopping {
		return false
	}
	f.streams.Add(1)
	return true
}

// revokeClient closes the sessions that a revoked key leaves without any live
// participant.
func (f *Front) revokeClient(ctx context.Context, key clientKey) error {
	var failed error
	for _, s := range f.host.List(host.Filter{IncludeArchived: true, IncludePrivate: true}) {
		ses := s.Info.ID
		mine, others, err := f.registry.clients(ctx, ses, key.ID)
		if err != nil {
			return err
		}
		f.removeDriver(ses, key.ID)
		if !mine || others {
			continue
		}
		hs, err := f.host.Session(ctx, ses)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		st := hs.State()
		if o, ok := openingOf(&st.Info); !ok || o.Key != key.ID || stateOf(&st.Info, st.DefaultChat()) != stateOpen {
			continue // other fronts have it too, or it is over
		}
		u := noteMeta(actorOf(key), note{Chat: st.Default, Events: []noted{{typeClose, key.ID, mustJSON(reasonPayload{reasonKeyRevoked})}}})
		u.Closed = ptr(true)
		failed = errors.Join(failed, hs.Update(ctx, u))
		f.clearDrivers(ses)
	}
	return failed
}
