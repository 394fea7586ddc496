package snowpea

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/polyhost/polyhost/adapters/front"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
	"github.com/polyhost/polyhost/transports/guard"
	"github.com/polyhost/polyhost/transports/jsonrpc"
	"github.com/polyhost/polyhost/transports/jsonx"
	"github.com/polyhost/polyhost/transports/listen"
	"github.com/polyhost/polyhost/transports/ws"
)

// frontName is this front's name in actors, metadata and endpoints.
const frontName = "snowpea"

// Front serves the Snowpea protocol.
type Front struct {
	deps     front.Deps
	host     *host.Host
	lives    *host.LiveWatch
	log      *slog.Logger
	token    string
	started  time.Time
	document []byte // GET /protocol.json
	door     guard.Rule
	settings *settings
	keeper   *keeper
	asks     *asks
	port     atomic.Int64

	ctx  context.Context // ends when the front stops
	stop context.CancelFunc
	wg   sync.WaitGroup

	projected chan struct{} // closed when no session is projected any more

	mu       sync.Mutex
	tracks   map[id.ID]*track
	conns    map[*conn]struct{}
	readied  chan struct{} // closed when a session came into memory
	draining bool
	stopped  bool // Run no longer takes goroutines
}

// New makes the front; nothing runs until its handler and Run are used.
func New(d front.Deps) (front.Front, error) {
	token, err := guard.LoadOrCreateToken(tokenPath(d.Home))
	if err != nil {
		return nil, fmt.Errorf("snowpea: %w", err)
	}
	document, err := surface.served(d.Version)
	if err != nil {
		return nil, fmt.Errorf("snowpea: %w", err)
	}
	f := &Front{deps: d, host: d.Host, log: d.Log, token: token,
		started: time.Now().UTC().Truncate(time.Second), document: document,
		door:     guard.All(guard.Hosts(d.Hosts...), guard.Origins(d.Origins...)),
		settings: newSettings(d.Home), tracks: map[id.ID]*track{}, conns: map[*conn]struct{}{},
		readied: make(chan struct{}), projected: make(chan struct{})}
	f.ctx, f.stop = context.WithCancel(context.Background())
	f.keeper = newKeeper(d.Host.KV(frontName), f.log)
	f.asks = newAsks(f)
	f.lives = d.Host.WatchLive()
	return f, nil
}

// Name is the front's name.
func (f *Front) Name() string { return frontName }

// Listeners is the one listener.
func (f *Front) Listeners() []front.Listener {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ws", f.serveWS)
	mux.HandleFunc("GET /health", f.serveHealth)
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, r *http.Request) {
		b := jsonx.AppendString([]byte(`{"version":`), f.deps.Version)
		b = jsonx.AppendString(append(b, `,"protocolVersion":`...), surface.ProtocolVersion)
		f.serveJSON(w, append(b, '}'))
	})
	mux.HandleFunc("GET /protocol.json", func(w http.ResponseWriter, r *http.Request) { f.serveJSON(w, f.document) })
	return []front.Listener{{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refusal := f.door.Check(r); refusal != nil {
			front.LogRefusal(f.log, r, refusal)
			http.Error(w, refusal.Error(), http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})}}
}

func (f *Front) serveHealth(w http.ResponseWriter, r *http.Request) {
	if err := f.deps.Host.Health(r.Context()); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	f.serveJSON(w, []byte(`{"status":"ok"}`))
}

func (f *Front) serveJSON(w http.ResponseWriter, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	_, _ = w.Write(body) // the client may be gone
}

// Bound writes daemon.json and gives the endpoint.
func (f *Front) Bound(addrs map[string]string) (any, error) {
	_, port, err := net.SplitHostPort(addrs[""])
	if err != nil {
		return nil, fmt.Errorf("snowpea: address: %w", err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return nil, fmt.Errorf("snowpea: port: %w", err)
	}
	f.port.Store(int64(n))
	if err := f.writeDaemon(n); err != nil {
		return nil, fmt.Errorf("snowpea: %w", err)
	}
	return struct {
		URL   string `json:"url"`
		Token string `json:"token"`
	}{"ws://" + addrs[""] + "/ws", f.token}, nil
}

// Run follows the host's sessions until ctx ends and every goroutine did.
func (f *Front) Run(ctx context.Context) error {
	defer f.removeDaemon()
	watch := f.host.Watch()
	f.wg.Go(func() { f.follow(ctx, watch) })
	keep, stopKeeping := context.WithCancel(context.WithoutCancel(ctx))
	var keeping sync.WaitGroup
	keeping.Go(func() { f.keeper.run(keep) })
	err := front.Project(ctx, f.lives, func(s *host.Session, st *state.State) front.Projection {
		p, err := f.open(ctx, s, st)
		if err != nil {
			f.log.Error("A session cannot be shown on this front", "session", s.ID().String(), "err", err)
			return nil
		}
		return p
	})
	close(f.projected)
	f.stop()
	watch.Close()
	f.closeAll(ws.CloseGoingAway, "shutting down")
	f.mu.Lock()
	f.stopped = true
	f.mu.Unlock()
	f.wg.Wait()
	stopKeeping()
	keeping.Wait()
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("snowpea: %w", err)
	}
	return nil
}

// Drain tells the clients that the gateway stops and lets what is queued go out.
func (f *Front) Drain(ctx context.Context) {
	f.mu.Lock()
	f.draining = true
	conns := make([]*ws.Conn, 0, len(f.conns))
	for c := range f.conns {
		conns = append(conns, c.ws)
	}
	f.mu.Unlock()
	front.Settle(ctx, f.projected)
	ws.Goodbye(ctx, conns, "shutting down")
}

func (f *Front) closeAll(code int, reason string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.draining = true
	for c := range f.conns {
		c.ws.Close(code, reason)
	}
}

// follow tells clients of sessions that came and went.
func (f *Front) follow(ctx context.Context, w *host.Watch) {
	for {
		changes, err := w.Next(ctx)
		if err != nil {
			return
		}
		for _, c := range changes {
			s := surfaceState{name: c.Session.String(), title: c.Summary.Info.Title,
				owner: metaString(c.Summary.Info.Meta, metaOwner), status: listStatus(&c.Summary, defaultChat(&c.Summary))}
			switch c.Kind {
			case host.Added:
				f.announce(s, "create", s.status)
			case host.Removed:
				f.announce(s, "deleted", "")
				f.keeper.drop(c.Session)
				f.forget(c.Session)
			}
		}
	}
}

// changed tells every client that a chat's row in lists moved.
func (f *Front) changed(t *track, chat id.ID, st *state.State, reason string) {
	s := t.surface(chat, st)
	f.announce(s, reason, s.status)
}

type sessionsChanged struct {
	SessionID       string  `json:"sessionId"`
	Reason          string  `json:"reason"`
	Status          *string `json:"status"`
	Title           *string `json:"title"`
	HostToolsFrom   *string `json:"hostToolsFrom"`
	BrowserProvider *string `json:"browserProvider"`
}

func (f *Front) announce(s surfaceState, reason, status string) {
	f.broadcast("sessions.changed", sessionsChanged{SessionID: s.name, Reason: reason, Status: ptr(status),
		Title: ptr(s.title), HostToolsFrom: ptr(s.owner)}, nil)
}

// broadcast sends a notification to every authenticated connection but those
// to skip. It never waits.
func (f *Front) broadcast(method string, params any, skip func(*conn) bool) {
	frame, err := jsonrpc.Notification(method, params)
	if err != nil {
		f.log.Error("A notification could not be encoded", "method", method, "err", err)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		if c.greeted.Load() && (skip == nil || !skip(c)) {
			_ = c.send(frame)
		}
	}
}

// track returns the record of a session, which may not be in memory.
func (f *Front) track(session id.ID) *track {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.tracks[session]
	if t == nil {
		t = &track{front: f, id: session, topics: map[id.ID]*stream{}, origins: map[id.ID]*conn{},
			subs: map[*sub]struct{}{}, waiting: map[*sub]struct{}{}, notices: map[id.ID][]string{}, system: map[id.ID]time.Time{}, keys: map[string]bool{}}
		f.tracks[session] = t
	}
	return t
}

// forget drops the record of a session that is gone.
func (f *Front) forget(session id.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.tracks, session)
}

// signalled is closed when the next session has come into memory.
func (f *Front) signalled() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.readied
}

func (f *Front) signal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.readied)
	f.readied = make(chan struct{})
}

// spent makes the usage sink of a session.
func (f *Front) spent(session id.ID) func(string, uint64, time.Time, event.Usage, string, string) {
	return func(chat string, seq uint64, at time.Time, u event.Usage, provider, model string) {
		f.keeper.spend(session, usageRow{Seq: seq, At: at, Chat: chat, Input: u.Input, Output: u.Output,
			Provider: provider, Model: model})
	}
}

// catalogue is what a backend offers, as far as it is known by now.
func (f *Front) catalogue(backend string) agent.Info {
	for _, a := range f.host.Agents() {
		if a.Name == backend {
			return a.Info
		}
	}
	return agent.Info{}
}

// background runs f on a goroutine that Run waits for.
func (f *Front) background(work func(ctx context.Context)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.stopped {
		f.wg.Go(func() { work(f.ctx) })
	}
}

// serveWS runs one connection.
func (f *Front) serveWS(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	if f.stopped || f.draining {
		f.mu.Unlock()
		http.Error(w, "shutting down", http.StatusServiceUnavailable)
		return
	}
	f.wg.Add(1)
	f.mu.Unlock()
	socket, err := ws.Upgrade(w, r, ws.Options{ReadLimit: handshakeLimit, OutboxLimit: outboxLimit, Binary: ws.AsText, Logger: f.log})
	if err != nil {
		f.log.Debug("A WebSocket handshake failed", "peer", r.RemoteAddr, "err", err)
		f.wg.Done()
		return
	}
	c := newConn(f, socket)
	f.mu.Lock()
	f.conns[c] = struct{}{}
	if f.draining {
		socket.Close(ws.CloseGoingAway, "shutting down")
	}
	f.mu.Unlock()
	listen.Detach(r, func(context.Context) {
		defer f.wg.Done()
		c.serve(f.ctx)
	})
}

func (f *Front) removeConn(c *conn) {
	f.mu.Lock()
	delete(f.conns, c)
	tracks := make([]*track, 0, len(f.tracks))
	for _, t := range f.tracks {
		tracks = append(tracks, t)
	}
	f.mu.Unlock()
	for _, t := range tracks {
		t.mu.Lock()
		for chat, o := range t.origins {
			if o == c {
				delete(t.origins, chat)
			}
		}
		t.mu.Unlock()
	}
	f.asks.left(c)
}

// newSurface makes the opaque id of a connection.
func newSurface() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
