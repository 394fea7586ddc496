package zidane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/polyhost/polyhost/adapters/front"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
	"github.com/polyhost/polyhost/core/store"
	"github.com/polyhost/polyhost/transports/guard"
	"github.com/polyhost/polyhost/transports/ws"
)

// Name is the front's name in settings, actors and endpoints.
const Name = "zidane"

// Front serves the protocol.
type Front struct {
	deps      front.Deps
	host      *host.Host
	lives     *host.LiveWatch
	log       *slog.Logger
	kv        host.KV
	token     string
	hostID    string
	hostName  string
	startedAt time.Time
	hosts     guard.Rule
	origins   guard.Rule

	ctx    context.Context // ends with Drain: connections are told 1001
	cancel context.CancelFunc

	signals  *signals
	asked    *asked
	drafts   *drafts
	presence *presence
	usage    *usage
	tickets  *tickets
	counts   *turnCounts
	tools    hostTools

	projected chan struct{} // closed when no session is projected any more
	prefsMu   sync.Mutex    // one change of stored preferences at a time

	mu       sync.Mutex
	conns    map[*conn]struct{}
	draining bool
	wg       sync.WaitGroup // connections
}

// New makes the front. It reads or creates the token and the host's identity.
func New(d front.Deps) (front.Front, error) {
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	f := &Front{
		deps: d, host: d.Host, log: d.Log, kv: d.Host.KV(Name), startedAt: time.Now().Truncate(time.Millisecond),
		hosts: guard.Hosts(d.Hosts...), origins: guard.Origins(d.Origins...),
		signals: newSignals(id.New().String(), keptSignals), asked: newAsked(), presence: newPresence(),
		tickets: newTickets(), counts: newTurnCounts(),
		conns: map[*conn]struct{}{}, projected: make(chan struct{}),
	}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.drafts = newDrafts(f)
	f.usage = newUsage(f.kv, f.log)
	var err error
	if f.token, err = guard.LoadOrCreateToken(filepath.Join(d.Home, "zidane.token")); err != nil {
		return nil, fmt.Errorf("zidane: %w", err)
	}
	if f.hostID, err = lasting(f.ctx, f.kv, "host-id", func() string { return id.New().String() }); err != nil {
		return nil, fmt.Errorf("zidane: %w", err)
	}
	if f.hostName, err = os.Hostname(); err != nil {
		f.hostName = "localhost"
	}
	f.signals.topic.Count(d.Frames)
	f.lives = d.Host.WatchLive()
	return f, nil
}

// lasting reads a value, or makes and stores it.
func lasting(ctx context.Context, kv host.KV, key string, make func() string) (string, error) {
	b, err := kv.Get(ctx, key)
	if err == nil {
		return string(b), nil
	}
	if !errors.Is(err, store.ErrNotFound) {
		return "", fmt.Errorf("read %s: %w", key, err)
	}
	v := make()
	if err := kv.Set(ctx, key, []byte(v)); err != nil {
		return "", fmt.Errorf("store %s: %w", key, err)
	}
	return v, nil
}

// Name is the front's name.
func (f *Front) Name() string { return Name }

// Listeners is the one port: upgrades on any path, and a few plain requests.
func (f *Front) Listeners() []front.Listener {
	return []front.Listener{{Handler: http.HandlerFunc(f.serveHTTP)}}
}

// endpoint is the front's entry of endpoints.json.
type endpoint struct {
	URL   string `json:"url"`
	Token string `json:"token"`
}

// Bound returns where the front is found.
func (f *Front) Bound(addrs map[string]string) (any, error) {
	return endpoint{URL: "ws://" + addrs[""] + "/", Token: f.token}, nil
}

// Run projects the sessions until ctx ends.
func (f *Front) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wg.Go(func() { f.presence.run(ctx, f.signals) })
	wg.Go(func() { f.drafts.run(ctx) })
	wg.Go(func() { f.usage.run(ctx) })
	err := front.Project(ctx, f.lives, func(s *host.Session, st *state.State) front.Projection { return f.open(s.ID(), st) })
	close(f.projected)
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("zidane: %w", err)
	}
	return nil
}

// Drain refuses new connections, tells the others that the server goes away
// and waits for them.
func (f *Front) Drain(ctx context.Context) {
	f.mu.Lock()
	f.draining = true
	conns := make([]*ws.Conn, 0, len(f.conns))
	for c := range f.conns {
		conns = append(conns, c.ws)
	}
	f.mu.Unlock()
	front.Settle(ctx, f.projected)
	ws.Goodbye(ctx, conns, stopping)
	f.cancel()
	f.wg.Wait()
}
