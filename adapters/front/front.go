// Package front is what the five fronts share: how the program starts one,
// and the runner that turns every session's events into frames, once for each
// front however many clients listen. It knows no protocol.
package front

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/polyhost/polyhost/core/automation"
	"github.com/polyhost/polyhost/core/devcontainer"
	"github.com/polyhost/polyhost/core/forge"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/hosttools"
	"github.com/polyhost/polyhost/core/logs"
	"github.com/polyhost/polyhost/transports/fanout"
	"github.com/polyhost/polyhost/transports/guard"
)

// Deps is what every front is given.
type Deps struct {
	Host *host.Host
	// Automations are the prompts that run by themselves.
	Automations *automation.Set
	// Tools are those that the gateway runs for agents; nil is none.
	Tools *hosttools.Set
	Log   *slog.Logger
	// Book is what was logged, by all parts of the gateway.
	Book *logs.Book
	// Forge is where pull requests are; nil is GitHub, with a token from the
	// environment.
	Forge *forge.Client
	// Containers are the dev containers that clients may use; nil is none.
	Containers *devcontainer.Containers
	// WorktreesRoot is where working trees of sessions are made; "" is beside their
	// repositories.
	WorktreesRoot string
	// Home is the gateway's directory, mode 0700.
	Home string
	// Version is the gateway's, Instance the id of this process.
	Version  string
	Instance string
	// Origins and Hosts are allowed beside the loopback ones.
	Origins []string
	Hosts   []string
	// Frames counts what the front sends to whoever listens. Nil counts nothing.
	Frames *fanout.Counts
	// Shutdown asks the program to stop.
	Shutdown func()
}

// Listener is one port a front serves.
type Listener struct {
	// Name is "" for the main one.
	Name    string
	Handler http.Handler
}

// Front serves one protocol.
type Front interface {
	Name() string
	Listeners() []Listener
	// Bound is called once the listeners have addresses ("127.0.0.1:1234" by
	// listener name). It writes what the protocol's clients look for and
	// returns the front's entry of endpoints.json.
	Bound(addrs map[string]string) (endpoint any, err error)
	// Run runs the projections until ctx ends.
	Run(ctx context.Context) error
	// Drain tells the clients that the gateway stops, flushes and closes
	// their connections, within ctx.
	Drain(ctx context.Context)
}

// LogRefusal tells the operator whom the door turned away. A page cannot read
// why it was refused, so the log says what to allow.
func LogRefusal(log *slog.Logger, r *http.Request, why *guard.Refusal) {
	log.Warn("A request was refused at the door", "peer", r.RemoteAddr, "why", why.Error())
}
