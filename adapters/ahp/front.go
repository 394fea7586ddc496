package ahp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/polyhost/polyhost/adapters/ahp/otlp"
	shared "github.com/polyhost/polyhost/adapters/front"
	"github.com/polyhost/polyhost/core/devcontainer"
	"github.com/polyhost/polyhost/core/files"
	"github.com/polyhost/polyhost/core/forge"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/hosttools"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/logs"
	"github.com/polyhost/polyhost/core/store"
	"github.com/polyhost/polyhost/core/users"
	"github.com/polyhost/polyhost/transports/guard"
	"github.com/polyhost/polyhost/transports/ws"
)

// Front serves the Agent Host Protocol on one port.
type Front struct {
	host      *host.Host
	log       *slog.Logger
	version   string
	token     string
	door      guard.Rule
	journal   *journal
	root      *rootChannel
	files     *files.Files
	watches   *watchService
	telemetry *telemetry
	bundles   *bundles
	shutdown  func() // or nil
	// users are the people who may sign in, nil where there are none, and
	// rootPerson is who did not.
	users      *users.Directory
	rootPerson string
	// services serve the other channels.
	services    []service
	terminals   *terminals
	annotations *annotations
	automations *automations
	changesets  *changesets
	repos       *repos
	facts       *facts
	customs     *customizations
	plugins     *plugins
	forge       *forge.Client
	handovers   handovers
	tools       *hosttools.Set
	worktrees   *worktrees
	marks       chan uint64 // sequence numbers to reserve
	settings    settings
	// worktreesRoot is where sessions' own working trees are made; "" is beside
	// their repositories.
	worktreesRoot string
	containers    *devcontainer.Containers // nil: this host brings up none

	ctx    context.Context // of projections and connections
	cancel context.CancelFunc
	wg     sync.WaitGroup

	projecting sync.WaitGroup // of lives; grows under mu and not while stopping

	mu       sync.Mutex
	stopping bool
	accepted uint64 // connections so far
	lives    map[id.ID]*live
	conns    map[*conn]struct{}
	clients  map[string]*client
}

const seqKey = "server-seq"

// New prepares the front. Its token is in the file ahp.token of the home.
func New(d shared.Deps) (shared.Front, error) {
	token, err := guard.LoadOrCreateToken(filepath.Join(d.Home, "ahp.token"))
	if err != nil {
		return nil, fmt.Errorf("ahp: %w", err)
	}
	f := &Front{host: d.Host, log: d.Log, version: d.Version, token: token,
		files: files.New(d.Home), door: guard.All(guard.Hosts(d.Hosts...), guard.Origins(d.Origins...)), containers: d.Containers, worktreesRoot: d.WorktreesRoot,
		marks: make(chan uint64, 1), lives: map[id.ID]*live{}, conns: map[*conn]struct{}{}, clients: map[string]*client{}}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	start, err := f.firstSeq(f.ctx)
	if err != nil {
		return nil, fmt.Errorf("ahp: %w", err)
	}
	f.journal = newJournal(start, func(mark uint64) {
		select {
		case f.marks <- mark:
		default: // one is on its way; the next number asks again
		}
	})
	if err := f.loadSettings(f.ctx); err != nil {
		return nil, fmt.Errorf("ahp: %w", err)
	}
	f.journal.counts = d.Frames
	if people := users.In(d.Home); people.Exists() {
		f.users, f.rootPerson = people, rootPerson()
	}
	f.repos, f.facts, f.forge = newRepos(f), newFacts(f), d.Forge
	if f.forge == nil {
		f.forge = forge.New(forge.GitHub, forge.FromEnvironment)
	}
	if f.worktrees, err = newWorktrees(f.ctx, f); err != nil {
		return nil, fmt.Errorf("ahp: working trees: %w", err)
	}
	f.root = newRoot(f)
	f.terminals = newTerminals(f)
	f.watches = newWatches(f)
	if f.annotations, err = newAnnotations(f.ctx, f); err != nil {
		return nil, fmt.Errorf("ahp: %w", err)
	}
	if f.tools = d.Tools; f.tools == nil {
		f.tools = hosttools.New(d.Log) // that no agent is offered
	}
	f.lendTools(f.tools)
	f.automations = newAutomations(f, d.Automations)
	f.changesets = newChangesets(f)
	if d.Book == nil {
		d.Book = new(logs.Book) // that nobody writes to
	}
	source, err := otlp.New(otlp.Options{Host: d.Host, Book: d.Book, Log: d.Log, Version: d.Version})
	if err != nil {
		return nil, fmt.Errorf("ahp: %w", err)
	}
	f.telemetry, f.bundles, f.shutdown = newTelemetry(f, source), &bundles{book: d.Book}, d.Shutdown
	f.services = []service{f.terminals, f.watches, f.annotations, f.automations, f.changesets, f.telemetry}
	f.customs = newCustomizations(f)
	f.plugins = newPlugins(f)
	d.Automations.Watch(f.automations.changed)
	f.host.Terminals().Watch(f.terminals.changed)
	return f, nil
}

// firstSeq is a number above all that an earlier run gave out, with a block
// above it reserved.
func (f *Front) firstSeq(ctx context.Context) (uint64, error) {
	kv := f.host.KV(front)
	start := uint64(0)
	b, err := kv.Get(ctx, seqKey)
	switch {
	case err == nil:
		if start, err = strconv.ParseUint(string(b), 10, 64); err != nil {
			return 0, fmt.Errorf("stored sequence number: %w", err)
		}
	case !errors.Is(err, store.ErrNotFound):
		return 0, err
	}
	return start, f.reserve(ctx, start+seqBlock)
}

func (f *Front) reserve(ctx context.Context, mark uint64) error {
	return f.host.KV(front).Set(ctx, seqKey, strconv.AppendUint(nil, mark, 10))
}

// Name is "ahp".
func (f *Front) Name() string { return front }

// Listeners is the one port.
func (f *Front) Listeners() []shared.Listener {
	return []shared.Listener{{Handler: http.HandlerFunc(f.serve)}}
}

// Endpoint is the front's entry of endpoints.json.
type Endpoint struct {
	URL   string `json:"url"`
	Token string `json:"token"`
}

// Bound gives the address and the token.
func (f *Front) Bound(addrs map[string]string) (any, error) {
	return Endpoint{URL: "ws://" + addrs[""] + "/", Token: f.token}, nil
}

// Run projects until ctx ends, and returns when all goroutines have.
func (f *Front) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, f.cancel)
	defer stop()
	f.wg.Go(func() {
		f.root.agentsReady(f.ctx)
		f.customs.touch(id.Nil) // sessions show what their agents can do
	})
	f.wg.Go(func() { f.customs.run(f.ctx) })
	f.wg.Go(f.keepMarks)
	f.wg.Go(f.sweep)
	f.wg.Go(func() { f.facts.run(f.ctx) })
	f.wg.Go(func() { f.worktrees.sweep(f.ctx) })
	err := f.root.run(f.ctx)
	<-f.ctx.Done()
	f.mu.Lock()
	f.stopping = true
	f.mu.Unlock()
	f.projecting.Wait()
	f.wg.Wait()
	f.watches.close()
	f.telemetry.close()
	f.forge.Close()
	f.bundles.close()
	return err
}

// keepMarks stores the marks that the journal asks for.
func (f *Front) keepMarks() {
	for {
		select {
		case mark := <-f.marks:
			if err := f.reserve(f.ctx, mark); err != nil {
				f.log.Error("Sequence numbers could not be reserved", "mark", mark, "err", err)
				continue
			}
			f.journal.reserved(mark)
		case <-f.ctx.Done():
			return
		}
	}
}

// Drain closes all connections; their clients come back with reconnect.
func (f *Front) Drain(ctx context.Context) {
	f.mu.Lock()
	f.stopping = true
	conns := make([]*ws.Conn, 0, len(f.conns))
	var pipes []socket
	for c := range f.conns {
		if sock, ok := c.ws.(*ws.Conn); ok {
			conns = append(conns, sock)
		} else {
			pipes = append(pipes, c.ws)
		}
	}
	f.mu.Unlock()
	projected := make(chan struct{})
	go func() { f.projecting.Wait(); close(projected) }()
	shared.Settle(ctx, projected)
	for _, p := range pipes {
		p.Close(ws.CloseGoingAway, errStopping.Error())
	}
	ws.Goodbye(ctx, conns, errStopping.Error())
	for _, p := range pipes {
		select {
		case <-p.Done():
		case <-ctx.Done():
		}
	}
}

// serve is the door: host, origin and token are judged before the upgrade.
func (f *Front) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Access-Control-Allow-Origin", "*")
	if refusal := f.door.Check(r); refusal != nil {
		shared.LogRefusal(f.log, r, refusal)
		http.Error(w, refusal.Error(), http.StatusForbidden)
		return
	}
	given := r.URL.Query().Get("tkn")
	if bearer, ok := guard.BearerToken(r); ok && given == "" {
		given = bearer
	}
	if !guard.TokenEqual(given, f.token) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "a connection token is needed, as ?tkn= or Authorization: Bearer", http.StatusUnauthorized)
		return
	}
	if !isUpgrade(r) {
		w.Header().Set("Upgrade", "websocket")
		http.Error(w, "this is a WebSocket endpoint", http.StatusUpgradeRequired)
		return
	}
	f.accept(w, r)
}

func keys[K comparable, V any](m map[K]V) []K {
	out := make([]K, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	return out
}

// session is the session as it is in memory now.
func (l *live) session() *host.Session {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sess
}
