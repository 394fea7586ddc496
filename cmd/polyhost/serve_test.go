package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/core/event"
)

// quick are the fronts that start fast.
const quick = "--fronts=snowpea"

func TestEndpointsAreWrittenWhenAllListensAndGoWithTheGateway(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.start()
	path := filepath.Join(h.place.Home, "endpoints.json")
	for file, want := range map[string]fs.FileMode{h.place.Home: 0o700, path: 0o600} {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", file, info.Mode().Perm(), want)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var e struct {
		PID     int
		Fronts  map[string]map[string]string
		Console map[string]string
	}
	if err := json.Unmarshal(text, &e); err != nil {
		t.Fatal(err)
	}
	if e.PID == 0 || !strings.HasPrefix(e.Console["url"], "http://127.0.0.1:") || e.Console["token"] == "" {
		t.Errorf("endpoints.json is %s", text)
	}
	for front, fields := range map[string][]string{
		"snowpea": {"url", "token"}, "ahp": {"url", "token"}, "zidane": {"url", "token"}, "cognitio": {"url", "username", "password"},
		"bae": {"url", "client_key", "admin_url", "admin_key"},
	} {
		for _, field := range fields {
			v := e.Fronts[front][field]
			if v == "" {
				t.Errorf("front %s has no %s", front, field)
			}
			if !strings.HasSuffix(field, "url") {
				continue
			}
			addr := strings.Split(strings.SplitN(v, "://", 2)[1], "/")[0]
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Errorf("front %s: %v", front, err)
				continue
			}
			_ = c.Close()
		}
	}
	h.stop()
	if _, err := os.Stat(path); err == nil {
		t.Error("endpoints.json outlives the gateway")
	}
}

func TestASecondGatewayIsRefusedWithThePidOfTheFirst(t *testing.T) {
	t.Parallel()
	h := newHome(t, quick)
	h.start()
	s, err := h.console().Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o := h.run("serve", "--port-base", "0", quick)
	if o.code != 3 || !strings.Contains(o.stderr, fmt.Sprintf("pid %d", s.PID)) {
		t.Errorf("exit code %d, %s", o.code, o.stderr)
	}
	if _, err := h.console().Status(t.Context()); err != nil {
		t.Errorf("the first gateway was disturbed: %v", err)
	}
}

func TestATakenPortIsNamedWithItsHolder(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	h := newHome(t)
	o := h.run("serve", quick, "--port-base", strconv.Itoa(port))
	if o.code != 1 || !strings.Contains(o.stderr, fmt.Sprintf(":%d is taken by pid %d", port, os.Getpid())) {
		t.Errorf("exit code %d, %s", o.code, o.stderr)
	}
	if _, err := os.Stat(filepath.Join(h.place.Home, "endpoints.json")); err == nil {
		t.Error("endpoints.json was written")
	}
}

func TestTermGivesTurnsTheGraceAndEndsThemAsInterrupted(t *testing.T) {
	t.Parallel()
	h := newHome(t, quick, "--grace=100ms")
	h.start()
	finished, cut := h.session(), h.session()
	h.prompt(finished, "say done")
	h.until(finished, "end", turnEnded)
	h.prompt(cut, "say begun\nsleep 60000")
	h.until(cut, "text", func(e *event.Event) bool { _, ok := e.Body.(*event.PartEnded); return ok })
	if len(h.processes()) == 0 {
		t.Error("no agent process is marked")
	}
	h.stop()
	if left := h.processes(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	h.start()
	for session, want := range map[string]event.TurnStatus{finished: event.TurnComplete, cut: event.TurnCancelled} {
		events := h.until(session, "end", turnEnded)
		if got := events[len(events)-1].Body.(*event.TurnEnded); got.Status != want || got.Synthetic {
			t.Errorf("the turn ended as %+v, want %s", got, want)
		}
	}
}

func TestARunningCommandIsGoneWhenTheGatewayIsKilled(t *testing.T) {
	t.Parallel()
	h := newHome(t, quick, "--mode=auto")
	h.start()
	s := h.session()
	h.prompt(s, "run trap '' TERM; touch running; setsid sleep 300 & sleep 300")
	eventually(t, "the command runs", func() bool {
		_, err := os.Stat(filepath.Join(h.place.Work, "running"))
		return err == nil
	})
	h.kill()
	eventually(t, "all processes are gone", func() bool { return len(h.processes()) == 0 })
}

func TestAShellIsGoneWhenTheGatewayIsKilled(t *testing.T) {
	t.Parallel()
	h := newHome(t, "--fronts=ahp")
	h.start()
	before := len(h.processes())
	h.ok("call", "ahp", "createTerminal", `{"channel":"ahp-terminal:/t","claim":{"kind":"client","clientId":"c"}}`)
	if len(h.processes()) <= before {
		t.Error("no shell runs")
	}
	h.kill()
	eventually(t, "all processes are gone", func() bool { return len(h.processes()) == 0 })
}

func TestAFrontStopsTheGatewayWhenAskedTo(t *testing.T) {
	t.Parallel()
	h := newHome(t, quick)
	h.start()
	h.ok("call", "snowpea", "system.shutdown")
	eventually(t, "the gateway is gone", func() bool {
		_, err := os.Stat(filepath.Join(h.place.Home, "polyhost.pid"))
		return os.IsNotExist(err)
	})
	h.stop()
}

func TestTheConsoleKeepsStrangersOut(t *testing.T) {
	t.Parallel()
	h := newHome(t, quick)
	h.start()
	url, token := h.at["console"]["url"], h.at["console"]["token"]
	for _, c := range []struct {
		name, path, token, host, origin string
		want                            int
	}{
		{name: "no token", path: "api/status", want: 401},
		{name: "wrong token", path: "api/status", token: "x", want: 401},
		{name: "the token", path: "api/status", token: token, want: 200},
		{name: "health needs none", path: "healthz", want: 200},
		{name: "foreign host", path: "healthz", host: "evil.example", want: 403},
		{name: "foreign origin", path: "api/status", token: token, origin: "https://evil.example", want: 403},
		{name: "metrics", path: "metrics", token: token, want: 200},
		{name: "nothing there", path: "api/nothing", token: token, want: 404},
		{name: "unknown session", path: "api/sessions/0190e0a0-0000-7000-8000-000000000000/events", token: token, want: 404},
		{name: "no session id", path: "api/sessions/..%2f..%2fetc/events", token: token, want: 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+c.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.token != "" {
				r.Header.Set("Authorization", "Bearer "+c.token)
			}
			if c.host != "" {
				r.Host = c.host
			}
			if c.origin != "" {
				r.Header.Set("Origin", c.origin)
			}
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.StatusCode != c.want {
				t.Errorf("status %d, want %d", resp.StatusCode, c.want)
			}
		})
	}
}

// TestTheLogNamesWhatToAllow: a page cannot read why it was refused, so its
// owner must find it in the log, whatever front it asked.
func TestTheLogNamesWhatToAllow(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.start()
	for name, entry := range h.at {
		r, err := http.NewRequest(http.MethodGet, strings.Replace(entry["url"], "ws://", "http://", 1), nil)
		if err != nil {
			t.Fatal(err)
		}
		page := "https://" + name + ".example"
		r.Header.Set("Origin", page)
		for header, value := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="} {
			r.Header.Set(header, value)
		}
		res, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusForbidden {
			t.Errorf("%s answered %d", name, res.StatusCode)
		}
		eventually(t, "the log tells of "+name, func() bool {
			for line := range strings.Lines(h.log()) {
				if strings.Contains(line, page) && strings.Contains(line, "allowed_origins") && strings.Count(line, "front="+name) == 1 {
					return true
				}
			}
			return false
		})
	}
	h.stop()
}
