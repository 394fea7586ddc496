// Package gateway puts the program together: it opens the home, starts the
// host, its agents and its fronts, says where they listen, and takes it all
// down again in an order that loses nothing.
package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/polyhost/polyhost/adapters/console"
	"github.com/polyhost/polyhost/adapters/front"
	"github.com/polyhost/polyhost/adapters/toolserver"
	"github.com/polyhost/polyhost/cmd/polyhost/internal/endpoints"
	"github.com/polyhost/polyhost/cmd/polyhost/internal/settings"
	"github.com/polyhost/polyhost/core/addon"
	"github.com/polyhost/polyhost/core/automation"
	"github.com/polyhost/polyhost/core/devcontainer"
	"github.com/polyhost/polyhost/core/files"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/hosttools"
	"github.com/polyhost/polyhost/core/logs"
	"github.com/polyhost/polyhost/core/procgroup"
	"github.com/polyhost/polyhost/core/store/boltstore"
	"github.com/polyhost/polyhost/core/terminal"
	"github.com/polyhost/polyhost/plugins/supervisor"
	"github.com/polyhost/polyhost/transports/fanout"
	"github.com/polyhost/polyhost/transports/listen"
)

// Options say what to run.
type Options struct {
	settings.Settings
	Version string
	Log     *slog.Logger
	// Book is where Log is kept.
	Book *logs.Book
	// Ready is called once everything listens and endpoints.json is written.
	Ready func(endpoints.Endpoints)
	// In and Out, if set, serve one client of the front ahp; the gateway ends
	// with it.
	In  io.ReadCloser
	Out io.Writer
}

// gateway is what runs. Fields are filled as it starts; stop takes down what
// is there.
type gateway struct {
	o        Options
	log      *slog.Logger
	instance *supervisor.Instance
	started  time.Time

	store  *boltstore.Store
	tools  *listen.Server // clients' tools for the agents
	own    *hosttools.Set // nil unless agents are offered them
	agents []host.NamedBackend
	addons *addon.Store // nil: clients bring no plugins
	// containers are those that clients may use, or nil.
	containers *devcontainer.Containers
	host       *host.Host
	services   []*service
	// automations run until stopAutomations, before the host closes.
	automations     *automation.Set
	stopAutomations func()
	written         bool // endpoints.json

	runs    sync.WaitGroup // the fronts' Run
	stopRun context.CancelFunc
	end     chan error // why to stop, from inside
}

// service is one front with its ports.
type service struct {
	entry
	sockets map[string]net.Listener // by listener name, until they are served
	addrs   map[string]string
	front   front.Front
	frames  fanout.Counts
	servers []*listen.Server
}

// Run runs a gateway until ctx ends, a client asks it to stop or a part of it
// fails, and stops it. A home that another gateway has gives an error that
// wraps store.ErrLocked.
func Run(ctx context.Context, o Options) (err error) {
	g := &gateway{o: o, log: o.Log, started: time.Now(), end: make(chan error, 1)}
	defer func() { err = errors.Join(err, g.stop()) }()
	e, err := g.start(ctx)
	if err != nil {
		return err
	}
	g.log.Info("The gateway is ready", "pid", e.PID, "home", o.Home, "console", e.Console.URL,
		"after", time.Since(g.started).Round(time.Millisecond))
	if o.Ready != nil {
		o.Ready(e)
	}
	if o.In != nil {
		if err := g.servePipe(); err != nil {
			return err
		}
	}
	select {
	case <-ctx.Done():
		g.log.Info("The gateway stops", "reason", "signal")
		return nil
	case err := <-g.end:
		g.log.Info("The gateway stops", "reason", cmp.Or(err, errAsked))
		return err
	}
}

// servePipe serves the client at the pipes and stops with it.
func (g *gateway) servePipe() error {
	for _, s := range g.services {
		if f, ok := s.front.(interface {
			ServePipe(in io.ReadCloser, out io.Writer) error
		}); ok {
			g.runs.Go(func() { g.fail(f.ServePipe(g.o.In, g.o.Out)) })
			return nil
		}
	}
	return errors.New("the front ahp serves clients at standard input and output: add it to --fronts")
}

var errAsked = errors.New("a client asked for it")

func (g *gateway) start(ctx context.Context) (endpoints.Endpoints, error) {
	var none endpoints.Endpoints
	if err := g.prepareHome(); err != nil {
		return none, err
	}
	var err error
	if g.store, err = boltstore.Open(g.o.Home); err != nil {
		return none, err
	}
	// What a gateway that was killed wrote is not true any more.
	if err := endpoints.Remove(g.o.Home); err != nil {
		return none, err
	}
	if err := g.bind(ctx); err != nil {
		return none, err
	}
	if g.instance, err = supervisor.Begin(g.o.Home); err != nil {
		return none, err
	}
	if g.instance.Swept > 0 {
		g.log.Warn("Processes that the last gateway left behind were ended", "processes", g.instance.Swept)
	}
	if g.agents, err = Backends(g.o.Settings, g.instance, g.log); err != nil {
		return none, err
	}
	if err := checkDefault(g.o.Settings, g.agents[0]); err != nil {
		return none, err
	}
	tools, err := g.serveTools(ctx)
	if err != nil {
		return none, err
	}
	if g.o.ClientPlugins {
		if g.addons, err = addon.Open(filepath.Join(g.o.Home, "client-plugins")); err != nil {
			return none, err
		}
	}
	if g.o.DevContainers {
		g.containers = devcontainer.New("docker", "devcontainer", supervisor.InstanceVar+"="+g.instance.ID)
	}
	g.host, err = host.Open(ctx, host.Options{Store: g.store, Addons: g.addons, Backends: g.agents, DefaultDir: g.o.Workspace, Fenced: files.New(g.o.Home).Fenced,
		DefaultMode: g.o.Mode, Log: g.log, ApprovalTimeout: g.o.ApprovalTimeout, QuestionTimeout: g.o.QuestionTimeout,
		IdleAfter: g.o.IdleAfter, AgentIdleAfter: noneIfZero(g.o.AgentIdleAfter), Past: noneIfZero(g.o.AgentHistory), Tools: tools, Own: g.ownTools(), Grace: g.o.Grace,
		Terminals: terminal.Options{Files: filepath.Join(g.o.Home, "shell"), Env: []string{supervisor.InstanceVar + "=" + g.instance.ID}}})
	if err != nil {
		return none, err
	}
	if err := g.openAutomations(ctx); err != nil {
		return none, err
	}
	if g.addons != nil { // all that use copies of an earlier run hold them by now
		if err := g.addons.Sweep(); err != nil {
			g.log.Warn("Copies of plugins that nobody uses are left", "err", err)
		}
	}
	e, err := g.serve()
	if err != nil {
		return none, err
	}
	g.written = true
	return e, endpoints.Write(g.o.Home, e)
}

// openAutomations lets the automations run. Clients may see them from then on.
func (g *gateway) openAutomations(ctx context.Context) error {
	var err error
	if g.automations, err = automation.Open(ctx, g.host, g.host.KV("automation"), g.log.With("part", "automations")); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); g.automations.Run(ctx) }()
	g.stopAutomations = func() { cancel(); <-done }
	return nil
}

// serveTools listens for the agents, on a port that only they are told.
func (g *gateway) serveTools(ctx context.Context) (host.ToolServer, error) {
	l, err := listen.Open(ctx, listen.Options{})
	if err != nil {
		return nil, fmt.Errorf("serve clients' tools to agents: %w", err)
	}
	log := g.log.With("part", "toolserver")
	s := toolserver.New(l.Addr().String(), g.o.Version, log)
	g.tools = listen.Serve(l, s, log)
	return s, nil
}

// ownTools are the gateway's own tools for agents, if they are offered.
func (g *gateway) ownTools() host.OwnTools {
	if !g.o.HostTools {
		return nil
	}
	g.own = hosttools.New(g.log.With("part", "hosttools"))
	return g.own
}

// noneIfZero is a setting that can be switched off as the host takes it.
func noneIfZero[N ~int | ~int64](n N) N {
	if n == 0 {
		return -1
	}
	return n
}

// prepareHome makes the home, or closes it to other users.
func (g *gateway) prepareHome() error {
	if err := os.MkdirAll(g.o.Home, 0o700); err != nil {
		return fmt.Errorf("make the home: %w", err)
	}
	info, err := os.Stat(g.o.Home)
	if err != nil {
		return fmt.Errorf("look at the home: %w", err)
	}
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	if err := os.Chmod(g.o.Home, 0o700); err != nil {
		return fmt.Errorf("the home %s is open to other users: %w", g.o.Home, err)
	}
	g.log.Warn("The home was open to other users and is closed now", "home", g.o.Home, "mode", info.Mode().Perm().String())
	return nil
}

// bind opens the sockets of all fronts, before anything slow, so that a port
// that is taken is known at once. Connections wait until they are served.
func (g *gateway) bind(ctx context.Context) error {
	for _, f := range fronts {
		if !f.wanted(g.o.Settings) {
			continue
		}
		s := &service{entry: f, sockets: map[string]net.Listener{}, addrs: map[string]string{}}
		g.services = append(g.services, s)
		for i, name := range f.listeners {
			port, err := listen.Port(g.o.PortBase, f.port+i)
			if err != nil {
				return err
			}
			l, err := listen.Open(ctx, listen.Options{Port: port})
			if err != nil {
				return fmt.Errorf("front %s: %w: free the port, or choose another --port-base", f.name, err)
			}
			s.sockets[name], s.addrs[name] = l, l.Addr().String()
		}
	}
	return nil
}

// serve opens the fronts and begins to answer on their sockets.
func (g *gateway) serve() (endpoints.Endpoints, error) {
	e := endpoints.Endpoints{PID: os.Getpid(), Fronts: map[string]json.RawMessage{}}
	for _, s := range g.services {
		entry, err := g.open(s)
		if err != nil {
			return e, fmt.Errorf("front %s: %w", s.name, err)
		}
		if s.name == console.Name {
			e.Console = entry.(console.Endpoint)
			continue
		}
		if e.Fronts[s.name], err = json.Marshal(entry); err != nil {
			return e, fmt.Errorf("front %s: %w", s.name, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	g.stopRun = cancel
	g.runs.Go(func() { g.watchStore(ctx) })
	for _, s := range g.services {
		for _, l := range s.front.Listeners() {
			srv := listen.Serve(s.sockets[l.Name], l.Handler, g.log.With("front", s.name))
			delete(s.sockets, l.Name)
			s.servers = append(s.servers, srv)
		}
		g.runs.Go(func() {
			if err := s.front.Run(ctx); err != nil && ctx.Err() == nil {
				g.fail(fmt.Errorf("front %s: %w", s.name, err))
			}
		})
		for _, srv := range s.servers {
			g.runs.Go(func() {
				select {
				case <-srv.Failed():
					g.fail(fmt.Errorf("front %s: its listener ended", s.name))
				case <-ctx.Done():
				}
			})
		}
	}
	return e, nil
}

// watchStore ends a gateway that can store nothing any more until it is started
// again. One that may recover, as from a full disk, goes on.
func (g *gateway) watchStore(ctx context.Context) {
	select {
	case <-g.store.Broken():
		err := fmt.Errorf("%w: start the gateway again", g.store.Health(ctx))
		g.log.Error("The gateway can store nothing more", "home", g.o.Home, "err", err)
		g.fail(err)
	case <-ctx.Done():
	}
}

// open makes a front and tells it where it listens.
func (g *gateway) open(s *service) (entry any, err error) {
	deps := front.Deps{Host: g.host, Automations: g.automations, Log: g.log.With("front", s.name), Book: g.o.Book, Home: g.o.Home, Version: g.o.Version,
		Instance: g.instance.ID, Origins: g.o.AllowedOrigins, Hosts: g.o.AllowedHosts, Frames: &s.frames, Tools: g.own, Containers: g.containers, WorktreesRoot: g.o.WorktreesRoot, Shutdown: func() { g.fail(nil) }}
	if s.name == console.Name {
		s.front, err = console.New(console.Deps{Deps: deps, Started: g.started, Fronts: g.connections, Processes: g.processes})
	} else {
		s.front, err = s.entry.open(deps)
	}
	if err != nil {
		return nil, err
	}
	return s.front.Bound(s.addrs)
}

// connections tells the console of the other fronts.
func (g *gateway) connections() []console.FrontStatus {
	list := []console.FrontStatus{}
	for _, s := range g.services {
		if s.name == console.Name {
			continue
		}
		f := console.FrontStatus{Name: s.name, Addr: s.addrs[""]}
		f.Encoded, f.Delivered = s.frames.Read()
		for _, srv := range s.servers {
			f.Connections += srv.Active()
		}
		list = append(list, f)
	}
	return list
}

// processes are those of the agents and what they run.
func (g *gateway) processes() []int {
	pids, err := procgroup.Marked(supervisor.InstanceVar, g.instance.ID)
	if err != nil {
		g.log.Warn("The agents' processes cannot be listed", "err", err)
	}
	return pids
}

// fail asks for a stop; nil is no failure. The first reason counts.
func (g *gateway) fail(err error) {
	select {
	case g.end <- err:
	default:
	}
}
