package snowpea

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/transports/jsonrpc"
)

func systemHealth(context.Context, *conn, *jsonrpc.Request) (any, error) {
	return map[string]string{"status": "ok"}, nil
}

type systemInfoResult struct {
	Version         string         `json:"version"`
	ProtocolVersion string         `json:"protocolVersion"`
	PID             int            `json:"pid"`
	Port            int64          `json:"port"`
	StartedAt       string         `json:"startedAt"`
	Home            string         `json:"home"`
	Platform        string         `json:"platform"`
	RestartRequired bool           `json:"restartRequired"`
	Counters        map[string]int `json:"counters"`
	Lifecycle       lifecycle      `json:"lifecycle"`
}

// lifecycle says whether an idle daemon is about to leave. This one stays.
type lifecycle struct {
	WillExit         bool     `json:"willExit"`
	Reason           string   `json:"reason"`
	SecondsUntilExit *float64 `json:"secondsUntilExit"`
	Reasons          []string `json:"reasons"`
	Summary          string   `json:"summary"`
}

func systemInfo(_ context.Context, c *conn, _ *jsonrpc.Request) (any, error) {
	f := c.front
	f.mu.Lock()
	keep := 0
	for o := range f.conns {
		o.mu.Lock()
		if o.keepAlive && o.greeted.Load() {
			keep++
		}
		o.mu.Unlock()
	}
	f.mu.Unlock()
	sessions := len(f.host.List(host.Filter{}))
	life := lifecycle{Reason: "busy", Reasons: []string{}, Summary: "the gateway runs until it is stopped"}
	for _, n := range []struct {
		count int
		word  string
	}{{sessions, "session"}, {keep, "client"}} {
		if n.count == 1 {
			life.Reasons = append(life.Reasons, "1 "+n.word)
		} else if n.count > 1 {
			life.Reasons = append(life.Reasons, fmt.Sprintf("%d %ss", n.count, n.word))
		}
	}
	return systemInfoResult{Version: f.deps.Version, ProtocolVersion: surface.ProtocolVersion, PID: os.Getpid(), Port: f.port.Load(),
		StartedAt: f.started.Format(time.RFC3339), Home: f.deps.Home, Platform: platform(),
		Counters:  map[string]int{"sessions": sessions, "jobs": 0, "gateway_bindings": 0, "named_agents": 0, "keepalive_clients": keep},
		Lifecycle: life}, nil
}

// platform is the machine in the protocol's words.
func platform() string {
	if runtime.GOOS == "windows" {
		return "win32"
	}
	return runtime.GOOS
}

// systemShutdown answers first.
func systemShutdown(_ context.Context, c *conn, r *jsonrpc.Request) (any, error) {
	c.log.Info("A client asked the gateway to stop")
	stop := c.front.deps.Shutdown
	if stop == nil {
		return nil, unavailable("this gateway is stopped by whoever started it")
	}
	r.Then(func() {
		c.spawn(func(ctx context.Context) {
			wait, cancel := context.WithTimeout(ctx, shutdownDelay)
			defer cancel()
			_ = c.ws.Outbox().WaitBelow(wait, 1) // the answer has left, or time is up
			stop()
		})
	})
	return done, nil
}

func systemReload(_ context.Context, c *conn, _ *jsonrpc.Request) (any, error) {
	changed := c.front.settings.reload()
	c.front.tellSettings("", changed)
	return struct {
		Reloaded    bool     `json:"reloaded"`
		ChangedKeys []string `json:"changedKeys"`
	}{len(changed) > 0, changed}, nil
}

func systemCheckUpdate(_ context.Context, c *conn, _ *jsonrpc.Request) (any, error) {
	v := c.front.deps.Version
	return map[string]any{"available": false, "current": v, "latest": v, "cached": false, "channel": "git", "source": "",
		"checkedAt": stamp(time.Now()), "releaseUrl": nil, "error": noInstaller}, nil
}

func systemUpdate(context.Context, *conn, *jsonrpc.Request) (any, error) {
	return map[string]any{"started": false, "command": "", "log": "", "error": noInstaller}, nil
}

const noInstaller = "the gateway is updated by whoever installed it"
