package console

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
)

// Status is what the gateway says of itself.
type Status struct {
	Version   string    `json:"version"`
	PID       int       `json:"pid"`
	Instance  string    `json:"instance"`
	Home      string    `json:"home"`
	StartedAt time.Time `json:"started_at"`
	// UptimeSeconds is how long it has been running.
	UptimeSeconds float64 `json:"uptime_seconds"`
	// Failing is why the gateway cannot work, empty while it can.
	Failing  string          `json:"failing,omitempty"`
	Sessions SessionCounts   `json:"sessions"`
	Pending  Pending         `json:"pending"`
	Fronts   []FrontStatus   `json:"fronts"`
	Backends []BackendStatus `json:"backends"`
	// Processes are the ids of the agents' processes and what these run.
	Processes []int `json:"processes"`
}

// SessionCounts counts sessions, private ones left out.
type SessionCounts struct {
	Total int `json:"total"`
	// Live are those in memory.
	Live     int                 `json:"live"`
	ByStatus map[host.Status]int `json:"by_status"`
}

// Pending is what waits for somebody.
type Pending struct {
	Approvals int `json:"approvals"`
	Questions int `json:"questions"`
	// Queued are messages that wait for a turn to end.
	Queued int `json:"queued"`
}

// FrontStatus is a listener with its clients.
type FrontStatus struct {
	Name string `json:"name"`
	Addr string `json:"addr"`
	// Connections are the requests, streams and sockets that are open.
	Connections int `json:"connections"`
	// Encoded are the frames that were encoded for whoever listens, Delivered
	// how many times the queue of a connection took one.
	Encoded   uint64 `json:"frames_encoded"`
	Delivered uint64 `json:"frames_delivered"`
}

// BackendStatus is an agent backend.
type BackendStatus struct {
	Name    string `json:"name"`
	Title   string `json:"title,omitempty"`
	Version string `json:"version,omitempty"`
	// State is "unknown" until the agent was asked, then "ready" or "failed".
	State string `json:"state"`
	Error string `json:"error,omitempty"`
	// Problems are what stands in the agent's way, with their remedies.
	Problems []agent.Problem `json:"problems,omitempty"`
}

// Session is a session in the console's list.
type Session struct {
	ID         id.ID       `json:"id"`
	Title      string      `json:"title"`
	Backend    string      `json:"backend"`
	Status     host.Status `json:"status"`
	Dirs       []string    `json:"dirs"`
	CreatedAt  time.Time   `json:"created_at"`
	ModifiedAt time.Time   `json:"modified_at"`
	Seq        uint64      `json:"seq"`
	Chats      int         `json:"chats"`
	Turns      int         `json:"turns"`
	Pending    Pending     `json:"pending"`
	Live       bool        `json:"live"`
	Closed     bool        `json:"closed"`
	Archived   bool        `json:"archived"`
}

func (c *Console) status(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("probe") != "" {
		ctx, cancel := context.WithTimeout(r.Context(), probeWithin)
		c.deps.Host.ProbeAgents(ctx)
		cancel()
	}
	s := c.now()
	if err := c.deps.Host.Health(r.Context()); err != nil {
		s.Failing = err.Error()
	}
	s.Processes = append([]int{}, c.deps.Processes()...)
	answer(w, http.StatusOK, s)
}

func (c *Console) now() Status {
	s := Status{Version: c.deps.Version, PID: os.Getpid(), Instance: c.deps.Instance, Home: c.deps.Home,
		StartedAt: c.deps.Started.UTC(), UptimeSeconds: time.Since(c.deps.Started).Seconds(),
		Sessions: SessionCounts{ByStatus: map[host.Status]int{}}, Fronts: c.deps.Fronts(), Backends: []BackendStatus{}}
	for _, sum := range c.deps.Host.List(host.Filter{IncludeArchived: true, IncludeClosed: true}) {
		s.Sessions.Total++
		s.Sessions.ByStatus[sum.Status]++
		if sum.Live {
			s.Sessions.Live++
		}
		s.Pending.Approvals += sum.Approvals
		s.Pending.Questions += sum.Questions
		s.Pending.Queued += sum.Queued
	}
	for _, a := range c.deps.Host.AllAgents() {
		b := BackendStatus{Name: a.Name, Title: a.Info.Title, Version: a.Info.Version, State: "unknown", Problems: a.Problems}
		switch {
		case a.Err != nil:
			b.State, b.Error = "failed", a.Err.Error()
		case a.Known:
			b.State = "ready"
		}
		s.Backends = append(s.Backends, b)
	}
	return s
}

func (c *Console) sessions(w http.ResponseWriter, r *http.Request) {
	all := r.URL.Query().Get("all") == "true"
	list := []Session{}
	for _, sum := range c.deps.Host.List(host.Filter{IncludeClosed: all, IncludeArchived: all, IncludePrivate: all}) {
		s := Session{ID: sum.Info.ID, Title: sum.Info.Title, Backend: sum.Info.Backend, Status: sum.Status,
			Dirs: sum.Info.Dirs, CreatedAt: sum.Info.CreatedAt, ModifiedAt: sum.ModifiedAt, Seq: sum.Seq,
			Chats: len(sum.Chats), Pending: Pending{sum.Approvals, sum.Questions, sum.Queued},
			Live: sum.Live, Closed: sum.Info.Closed, Archived: sum.Info.Archived}
		for _, chat := range sum.Chats {
			s.Turns += chat.Turns
		}
		list = append(list, s)
	}
	answer(w, http.StatusOK, list)
}

// metrics answers in the Prometheus text format.
func (c *Console) metrics(w http.ResponseWriter, _ *http.Request) {
	s := c.now()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	gauge := func(name string, v int) { metrics.WriteGaugeUint64(w, name, uint64(v)) }
	gauge(fmt.Sprintf("polyhost_build_info{version=%q}", s.Version), 1)
	metrics.WriteGaugeFloat64(w, "polyhost_uptime_seconds", s.UptimeSeconds)
	for _, status := range []host.Status{host.Idle, host.Running, host.AwaitingApproval, host.AwaitingQuestion, host.Failed} {
		gauge(fmt.Sprintf("polyhost_sessions{status=%q}", status), s.Sessions.ByStatus[status])
	}
	gauge("polyhost_sessions_live", s.Sessions.Live)
	gauge("polyhost_pending_approvals", s.Pending.Approvals)
	gauge("polyhost_pending_questions", s.Pending.Questions)
	gauge("polyhost_queued_messages", s.Pending.Queued)
	for _, f := range s.Fronts {
		gauge(fmt.Sprintf("polyhost_connections{front=%q}", f.Name), f.Connections)
		metrics.WriteCounterUint64(w, fmt.Sprintf("polyhost_frames_encoded_total{front=%q}", f.Name), f.Encoded)
		metrics.WriteCounterUint64(w, fmt.Sprintf("polyhost_frames_delivered_total{front=%q}", f.Name), f.Delivered)
	}
	for _, b := range s.Backends {
		ready := 0
		if b.State == "ready" {
			ready = 1
		}
		gauge(fmt.Sprintf("polyhost_backend_ready{backend=%q}", b.Name), ready)
	}
	metrics.WriteProcessMetrics(w)
}
