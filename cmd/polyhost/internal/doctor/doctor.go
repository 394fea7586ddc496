// Package doctor looks for what is wrong with a gateway's home and machine. A
// running gateway is asked; one that is not running is examined in its place,
// under the home's lock.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/polyhost/polyhost/adapters/console"
	"github.com/polyhost/polyhost/cmd/polyhost/internal/endpoints"
	"github.com/polyhost/polyhost/cmd/polyhost/internal/gateway"
	"github.com/polyhost/polyhost/cmd/polyhost/internal/settings"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/procgroup"
	"github.com/polyhost/polyhost/core/store"
	"github.com/polyhost/polyhost/core/store/boltstore"
	"github.com/polyhost/polyhost/core/users"
	"github.com/polyhost/polyhost/plugins/discover"
	"github.com/polyhost/polyhost/plugins/supervisor"
	"github.com/polyhost/polyhost/transports/listen"
)

// State is how a thing stands.
type State string

// The states of findings.
const (
	Good  State = "ok"
	Wary  State = "warn"
	Wrong State = "wrong"
)

// Finding is what one look showed.
type Finding struct {
	Check  string `json:"check"`
	State  State  `json:"state"`
	Detail string `json:"detail"`
	// Fix is a command that mends it.
	Fix string `json:"fix,omitempty"`
}

// examination gathers findings.
type examination struct {
	settings.Settings
	self     string // how this program is called for the home
	findings []Finding
}

func (x *examination) note(check string, s State, fix, format string, args ...any) {
	x.findings = append(x.findings, Finding{check, s, fmt.Sprintf(format, args...), fix})
}

// Examine looks at everything. badSettings is why the settings could not be
// read, nil if they could; self is how this program is called for the home.
func Examine(ctx context.Context, s settings.Settings, badSettings error, self string) []Finding {
	x := &examination{Settings: s, self: self}
	if badSettings != nil {
		x.note("config", Wrong, self+" config defaults", "%v", badSettings)
		return x.findings
	}
	x.note("config", Good, "", "read")
	if !x.home() {
		return x.findings
	}
	x.plugins()
	x.disk()
	st, err := boltstore.Open(s.Home)
	switch {
	case errors.Is(err, store.ErrLocked):
		x.running(ctx, err)
	case err != nil:
		x.note("store", Wrong, "", "%v", err)
	default:
		x.stopped(ctx, st)
	}
	return x.findings
}

// home looks at the directory; false says that there is nothing more to see.
func (x *examination) home() bool {
	info, err := os.Stat(x.Home)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		x.note("home", Good, "", "%s is made at the first start", x.Home)
		x.ports(context.Background())
		return false
	case err != nil:
		x.note("home", Wrong, "", "%v", err)
		return false
	case !info.IsDir():
		x.note("home", Wrong, "", "%s is not a directory", x.Home)
		return false
	case info.Mode().Perm()&0o077 != 0:
		x.note("home", Wrong, "chmod 700 "+x.Home, "%s is open to other users (%v)", x.Home, info.Mode().Perm())
	default:
		x.note("home", Good, "", "%s, closed to other users", x.Home)
	}
	for _, name := range x.secrets() {
		path := filepath.Join(x.Home, name)
		if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
			x.note("secrets", Wrong, "chmod 600 "+path, "%s is open to other users (%v)", path, info.Mode().Perm())
		}
	}
	x.people()
	return true
}

// people looks whether those who may sign in can.
func (x *examination) people() {
	d := users.In(x.Home)
	if !d.Exists() {
		return
	}
	all, err := d.Users()
	if err != nil {
		x.note("people", Wrong, "$EDITOR "+filepath.Join(x.Home, users.File), "nobody can sign in: %v", err)
		return
	}
	granted := 0
	for _, u := range all {
		if len(u.Grants) > 0 {
			granted++
		}
	}
	x.note("people", Good, "", "%d may sign in, %d with grants", len(all), granted)
}

func (x *examination) secrets() []string {
	names := []string{endpoints.File, users.File, gateway.SecretFile(console.Name)}
	for _, front := range settings.Fronts {
		if name := gateway.SecretFile(front); name != "" {
			names = append(names, name)
		}
	}
	return names
}

func (x *examination) plugins() {
	found, refused, err := discover.Find(x.PluginDir, x.PluginPins)
	if err != nil {
		x.note("plugins", Wrong, "", "%v", err)
		return
	}
	for _, why := range refused {
		x.note("plugins", Wrong, "$EDITOR "+filepath.Join(x.Home, settings.FileName), "%v", why)
	}
	x.note("plugins", Good, "", "%d in %s", len(found), x.PluginDir)
}

// running asks the gateway that has the home.
func (x *examination) running(ctx context.Context, locked error) {
	e, err := endpoints.Read(x.Home)
	if err != nil {
		x.note("gateway", Wary, "", "%v, and has no %s yet: it is starting or stopping", locked, endpoints.File)
		return
	}
	s, err := console.NewClient(e.Console).Probe(ctx)
	if err != nil {
		x.note("gateway", Wrong, fmt.Sprintf("kill %d && %s serve", e.PID, x.self), "pid %d has the home and does not answer: %v", e.PID, err)
		return
	}
	x.note("gateway", Good, "", "polyhost %s runs, pid %d", s.Version, s.PID)
	if s.Failing != "" {
		x.note("store", Wrong, "df -h "+x.Home, "%s", s.Failing)
	} else {
		x.note("store", Good, "", "%d sessions", s.Sessions.Total)
	}
	for _, b := range s.Backends {
		switch {
		case b.State == "ready":
			x.ready(b.Name, b.Version, b.Problems)
		case len(b.Problems) > 0:
			x.problem(b.Name, b.Problems[0])
		case b.State == "failed":
			x.note("agent", Wrong, x.logOf(b.Name), "%s does not start: %s", b.Name, b.Error)
		default:
			x.note("agent", Wary, "", "%s has not said yet what it is", b.Name)
		}
	}
	x.leftovers(s.Instance)
}

// stopped examines a home that no gateway has; st is its store and with it its
// lock.
func (x *examination) stopped(ctx context.Context, st *boltstore.Store) {
	defer st.Close()
	x.note("gateway", Good, "", "none is running")
	if _, err := os.Stat(filepath.Join(x.Home, endpoints.File)); err == nil {
		x.note("endpoints", Wary, "rm "+filepath.Join(x.Home, endpoints.File), "%s is of a gateway that was killed; the next start removes it", endpoints.File)
	}
	if _, err := st.Scan(ctx, "", "", 1000, false); err != nil {
		x.note("store", Wrong, "", "%v", err)
	} else {
		x.note("store", Good, "", "readable")
	}
	x.ports(ctx)
	x.leftovers("")
	x.agents(ctx)
}

func (x *examination) ports(ctx context.Context) {
	taken := false
	ports := gateway.Ports(x.Settings)
	for port, name := range ports {
		l, err := listen.Open(ctx, listen.Options{Port: port})
		if err != nil {
			taken = true
			x.note("ports", Wrong, x.self+" serve --port-base 0", "port %d for %s: %v", port, name, err)
			continue
		}
		_ = l.Close()
	}
	if !taken {
		x.note("ports", Good, "", "%d are free", len(ports))
	}
}

// leftovers looks for processes of gateways that are gone; current is the one
// that runs.
func (x *examination) leftovers(current string) {
	ids, err := supervisor.Instances(x.Home)
	if err != nil {
		x.note("processes", Wrong, "", "%v", err)
		return
	}
	var left []string
	for _, id := range ids {
		if id == current {
			continue
		}
		pids, err := procgroup.Marked(supervisor.InstanceVar, id)
		if err != nil {
			x.note("processes", Wrong, "", "%v", err)
			return
		}
		for _, pid := range pids {
			left = append(left, fmt.Sprint(pid))
		}
	}
	if len(left) > 0 {
		x.note("processes", Wrong, "kill -9 "+strings.Join(left, " "), "%d are left of a gateway that is gone", len(left))
		return
	}
	x.note("processes", Good, "", "none is left of earlier gateways")
}

// agents starts each and asks what it is.
func (x *examination) agents(ctx context.Context) {
	if i := slices.IndexFunc(x.findings, func(f Finding) bool { return f.Check == "processes" && f.State == Wrong }); i >= 0 {
		return // a start would end them before they were seen to
	}
	in, err := supervisor.Begin(x.Home)
	if err != nil {
		x.note("agent", Wrong, "", "%v", err)
		return
	}
	list, err := gateway.Backends(x.Settings, in, slog.New(slog.DiscardHandler))
	if err != nil {
		x.note("agent", Wrong, "", "%v", err)
	}
	for _, b := range list {
		info, err := x.ask(ctx, b)
		var p *agent.Problem
		switch {
		case err == nil:
			x.ready(b.Name, info.Version, info.Problems)
		case errors.As(err, &p):
			x.problem(b.Name, *p)
		default:
			x.note("agent", Wrong, x.logOf(b.Name), "%s does not start: %v", b.Name, err)
		}
		if err := b.Backend.Close(); err != nil {
			x.note("agent", Wary, "", "%s did not end well: %v", b.Name, err)
		}
	}
}

// ask starts an agent whose program is there.
func (x *examination) ask(ctx context.Context, b host.NamedBackend) (agent.Info, error) {
	if b.Missing != nil {
		if err := b.Missing(); err != nil {
			return agent.Info{}, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, agentWithin)
	defer cancel()
	return b.Backend.Info(ctx)
}

// ready notes an agent that starts, and what it lacks nevertheless.
func (x *examination) ready(name, version string, problems []agent.Problem) {
	x.note("agent", Good, "", "%s %s starts", name, version)
	for _, p := range problems {
		x.note("agent", Wary, p.Fix, "%s: %s", name, p.Message)
	}
}

// problem notes why there is no agent. One that nobody has installed is
// nothing wrong, unless it is to be the default one.
func (x *examination) problem(name string, p agent.Problem) {
	state := Wrong
	if p.Code == agent.ProblemMissing && name != x.Backend {
		state = Good
	}
	x.note("agent", state, p.Fix, "%s: %s", name, p.Message)
}

func (x *examination) logOf(backend string) string {
	return "tail " + filepath.Join(x.Home, "logs", backend+".log")
}
