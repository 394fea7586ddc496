// Package console is the operator's door: health, metrics, and what the
// gateway and its sessions are doing, over HTTP with one token. The gateway's
// own commands are its clients.
//
// It only watches: nothing here changes a session. The events of a session are
// server-sent, in order and without a gap, each with its sequence number as
// id; a reader that falls behind is fed from the log at its own pace, within
// the bound of one outbox, and holds up nobody. A stream ends when its session
// leaves memory; the reader asks again after the last id it got.
//
// The package must not know how the other fronts work: it is told their names,
// their addresses and how many clients they have.
package console

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"time"

	"github.com/polyhost/polyhost/adapters/front"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/transports/guard"
)

// Name is the console's, among the fronts.
const Name = "console"

// TokenFile is the name of the console's token in the home.
const TokenFile = "console.token"

// Deps is what the console is given.
type Deps struct {
	front.Deps
	// Started is when the gateway was.
	Started time.Time
	// Fronts tells of the other listeners.
	Fronts func() []FrontStatus
	// Processes are the ids of the agents' processes and what these run.
	Processes func() []int
}

// Console serves the operator.
type Console struct {
	deps  Deps
	token string
	door  guard.Rule // host and origin
}

var _ front.Front = (*Console)(nil)

// New makes a console; its token is in the home, and is made if need be.
func New(d Deps) (*Console, error) {
	token, err := guard.LoadOrCreateToken(filepath.Join(d.Home, TokenFile))
	if err != nil {
		return nil, err
	}
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	return &Console{deps: d, token: token,
		door: guard.All(guard.Hosts(d.Hosts...), guard.Origins(d.Origins...))}, nil
}

// Name is "console".
func (*Console) Name() string { return Name }

// Listeners are one.
func (c *Console) Listeners() []front.Listener {
	return []front.Listener{{Handler: c.routes()}}
}

// Endpoint is the console's entry of endpoints.json.
type Endpoint struct {
	URL   string `json:"url"`
	Token string `json:"token"`
}

// Bound returns the endpoint.
func (c *Console) Bound(addrs map[string]string) (any, error) {
	return Endpoint{URL: "http://" + addrs[""] + "/", Token: c.token}, nil
}

// Run waits for ctx: the console has nothing to do by itself.
func (*Console) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Drain has nothing to say: streams end with the listener, and their readers
// ask again.
func (*Console) Drain(context.Context) {}

func (c *Console) routes() http.Handler {
	open, guarded := http.NewServeMux(), http.NewServeMux()
	open.HandleFunc("GET /healthz", c.health)
	open.Handle("/", c.check(guard.Bearer(c.token), guarded))
	guarded.HandleFunc("GET /metrics", c.metrics)
	guarded.HandleFunc("GET /api/status", c.status)
	guarded.HandleFunc("GET /api/sessions", c.sessions)
	guarded.HandleFunc("POST /api/gc", c.collect)
	guarded.HandleFunc("GET /api/sessions/{id}/events", c.events)
	guarded.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		fail(w, http.StatusNotFound, "there is nothing here")
	})
	return c.check(c.door, open)
}

// check lets through what the rule does not refuse.
func (c *Console) check(rule guard.Rule, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refusal := rule.Check(r)
		switch {
		case refusal == nil:
			next.ServeHTTP(w, r)
		case refusal.Kind == guard.Token:
			w.Header().Set("WWW-Authenticate", "Bearer")
			fail(w, http.StatusUnauthorized, refusal.Error())
		default:
			front.LogRefusal(c.deps.Log, r, refusal)
			fail(w, http.StatusForbidden, refusal.Error())
		}
	})
}

func (c *Console) health(w http.ResponseWriter, r *http.Request) {
	body := map[string]string{"status": "ok", "version": c.deps.Version}
	code := http.StatusOK
	if err := c.deps.Host.Health(r.Context()); err != nil {
		code, body["status"], body["reason"] = http.StatusServiceUnavailable, "failing", err.Error()
	}
	answer(w, code, body)
}

// failure is the body of every error.
type failure struct {
	Error string `json:"error"`
}

func fail(w http.ResponseWriter, code int, text string) { answer(w, code, failure{text}) }

// failWith answers with what the host said, as far as it is for others.
func (c *Console) failWith(w http.ResponseWriter, err error) {
	for _, known := range []struct {
		err  error
		code int
		text string
	}{
		{host.ErrNotFound, http.StatusNotFound, "no such session"},
		{host.ErrClosed, http.StatusServiceUnavailable, "the gateway is stopping"},
	} {
		if errors.Is(err, known.err) {
			fail(w, known.code, known.text)
			return
		}
	}
	c.deps.Log.Error("The console could not answer", "err", err)
	fail(w, http.StatusInternalServerError, "internal error: the gateway's log says more")
}

func answer(w http.ResponseWriter, code int, body any) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the peer may be gone
}
