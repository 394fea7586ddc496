//go:build linux

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/polyhost/polyhost/adapters/console"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/plugins/discover"
	"github.com/polyhost/polyhost/plugins/wire"
	"github.com/polyhost/polyhost/transports/fanout"
	"github.com/polyhost/polyhost/transports/wiretest"
)

// patience bounds every wait.
const patience = 3 * time.Minute

// TestMain lets the test binary be the agent that writes clock readings: as a
// plugin of the gateway or at the end of a pipe, and the bare loop.
func TestMain(m *testing.M) {
	name := filepath.Base(os.Args[0])
	switch {
	case standIns[name] != nil:
		speak(name)
	case os.Getenv(wire.Handshake.MagicCookieKey) != "":
		serveClock()
	case os.Getenv(pipeVar) != "":
		pipeClock(os.Getenv(pipeVar))
	case os.Getenv(relayVar) != "":
		relay(os.Getenv(relayVar))
	case os.Getenv(loopVar) != "":
		loop()
	default:
		code := m.Run()
		if built.dir != "" {
			_ = os.RemoveAll(built.dir)
		}
		os.Exit(code)
	}
}

// built is the program, compiled by the first benchmark.
var built struct {
	once sync.Once
	dir  string
	bin  *wiretest.Binary
	err  error
}

func compiled(b testing.TB) *wiretest.Binary {
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "polyhost-bench-"); built.err == nil {
			built.bin, built.err = wiretest.Build(context.Background(), "github.com/polyhost/polyhost/cmd/polyhost", built.dir)
		}
	})
	if built.err != nil {
		b.Fatal(built.err)
	}
	return built.bin
}

// gateway is a running polyhost. Sessions are made and prompted through its
// cognitio front, which costs no connection that takes part.
type gateway struct {
	b     testing.TB
	bin   *wiretest.Binary
	place wiretest.Place
	at    wiretest.Endpoints
	pid   int
	agent string
	key   string // of one BAE session, for all who watch it
	epoch string // of zidane's signals

	frames fanout.Counts // of the front that inside runs
}

// start runs a gateway in a fresh home until the benchmark ends. Its agent is
// "demo", the clock, or one of the stand-ins that putStandIns made.
func start(b testing.TB, agent string) *gateway {
	b.Helper()
	dir, err := os.MkdirTemp("", "polyhost-bench-home-") // b.TempDir's path is too long for a unix socket
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	g := &gateway{b: b, bin: compiled(b), agent: agent, place: wiretest.Place{Home: filepath.Join(dir, "home"), Work: filepath.Join(dir, "work")}}
	plugins := filepath.Join(g.place.Home, "plugins")
	for _, d := range []string{g.place.Work, plugins} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			b.Fatal(err)
		}
	}
	g.place.Args = []string{"--backend", agent, "--log-level", "warn", "--grace", "100ms"}
	if agent == clockName {
		g.place.Args = append(g.place.Args, "--plugin-pins", installClock(b, plugins))
	}
	if agent == acpName {
		program, err := exec.LookPath(agent)
		if err != nil {
			b.Fatal(err)
		}
		g.place.Args = append(g.place.Args, "--acp-agents", agent+"="+program)
	}
	g.run()
	b.Cleanup(g.stop)
	return g
}

// installClock puts this binary into the plugin folder.
func installClock(b testing.TB, dir string) (pin string) {
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	data, err := os.ReadFile(self)
	if err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(dir, discover.Prefix+clockName)
	if err := os.WriteFile(path, data, 0o700); err != nil {
		b.Fatal(err)
	}
	sum, err := discover.Sum(path)
	if err != nil {
		b.Fatal(err)
	}
	return clockName + "=" + sum
}

func (g *gateway) run() {
	g.b.Helper()
	var err error
	if g.at, err = g.bin.Start(g.place); err != nil {
		g.b.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(g.place.Home, "endpoints.json"))
	var e struct{ PID int }
	if err != nil || json.Unmarshal(raw, &e) != nil {
		g.b.Fatalf("endpoints.json: %v %s", err, raw)
	}
	g.pid = e.PID
}

func (g *gateway) stop() {
	if err := g.bin.Stop(g.place); err != nil {
		g.b.Errorf("stop: %v\n%s", err, g.bin.Log(g.place))
	}
}

// session makes a session.
func (g *gateway) session() id.ID {
	g.b.Helper()
	raw := g.post("/session", struct{}{})
	var s struct{ ID string }
	if err := json.Unmarshal(raw, &s); err != nil {
		g.b.Fatalf("session: %s", raw)
	}
	sid, err := id.ParseCognitioDescending("ses", s.ID)
	if err != nil {
		g.b.Fatal(err)
	}
	return sid
}

// prompt says something; it returns once the prompt is stored.
func (g *gateway) prompt(s id.ID, text string) {
	g.b.Helper()
	g.post("/session/"+s.CognitioDescending("ses")+"/prompt_async",
		map[string]any{"parts": []any{map[string]string{"type": "text", "text": text}}})
}

func (g *gateway) post(path string, body any) []byte {
	g.b.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		g.b.Fatal(err)
	}
	return g.ask(http.MethodPost, path, bytes.NewReader(raw))
}

func (g *gateway) get(path string) []byte { return g.ask(http.MethodGet, path, nil) }

// ask sends a request to the cognitio front.
func (g *gateway) ask(method, path string, body io.Reader) []byte {
	g.b.Helper()
	req, err := http.NewRequest(method, g.at["cognitio"]["url"]+path, body)
	if err != nil {
		g.b.Fatal(err)
	}
	g.authorise(req)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		g.b.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode >= 300 {
		g.b.Fatalf("%s %s: %s %s %v", method, path, res.Status, answer, err)
	}
	return answer
}

func (g *gateway) authorise(req *http.Request) {
	req.SetBasicAuth(g.at["cognitio"]["username"], g.at["cognitio"]["password"])
}

// processes are the gateway and its plugins.
func (g *gateway) processes() []int {
	pids := []int{g.pid}
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", g.pid))
	for _, t := range tasks {
		data, _ := os.ReadFile(t)
		for _, f := range strings.Fields(string(data)) {
			if pid, err := strconv.Atoi(f); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// cpu is the processor time of the gateway, its plugins and this process.
func (g *gateway) cpu() time.Duration {
	sum := selfCPU()
	for _, pid := range g.processes() {
		sum += cpuOf(g.b, pid)
	}
	return sum
}

// own is the processor time of the gateway and its plugins alone.
func (g *gateway) own() time.Duration { return g.cpu() - selfCPU() }

// resident is the resident memory of the gateway alone, in bytes.
func (g *gateway) resident() int64 { return residentOf(g.b, g.pid) }

// memory has the gateway collect its garbage and give back what it does not
// use, and returns the bytes in use on its heap and its anonymous resident
// memory: with the stacks, and without the database, which is mapped from its file.
func (g *gateway) memory() (heap, resident int64) {
	g.b.Helper()
	m, err := g.console().Memory(context.Background())
	if err != nil {
		g.b.Fatal(err)
	}
	return int64(m.Objects), anonymousOf(g.b, g.pid)
}

// resting is memory once it has stopped to fall: a front may still be at work on
// what was said.
func (g *gateway) resting() (heap, resident int64) {
	heap, resident = g.memory()
	for quiet := 0; quiet < 5; quiet++ {
		time.Sleep(20 * time.Millisecond)
		h, r := g.memory()
		if h < heap-64<<10 {
			quiet = -1
		}
		heap, resident = min(heap, h), min(resident, r)
	}
	return heap, resident
}

// clients is how many connections and requests a front has.
func (g *gateway) clients(front string) int {
	g.b.Helper()
	s, err := g.console().Status(context.Background())
	if err != nil {
		g.b.Fatal(err)
	}
	for _, f := range s.Fronts {
		if f.Name == front {
			return f.Connections
		}
	}
	g.b.Fatalf("no front %s", front)
	return 0
}

func (g *gateway) console() *console.Client {
	return console.NewClient(console.Endpoint{URL: g.at["console"]["url"], Token: g.at["console"]["token"]})
}

// lowest is the resident memory once it has stopped to fall.
func (g *gateway) lowest() int64 {
	low := g.resident()
	for since := time.Now(); time.Since(since) < settleFor; time.Sleep(settleFor / 20) {
		if r := g.resident(); r < low-low/100 {
			low, since = r, time.Now()
		}
	}
	return low
}

// idle waits until no turn of a session runs.
func (g *gateway) idle(s id.ID) {
	name := s.CognitioDescending("ses")
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		var status map[string]struct{ Type string }
		if err := json.Unmarshal(g.get("/session/status"), &status); err != nil {
			g.b.Fatal(err)
		}
		if t := status[name].Type; t == "" || t == "idle" {
			return
		}
		if time.Since(began) > patience {
			g.b.Fatalf("%s still runs", name)
		}
	}
}

// settleFor is how long a resident size must not fall to count as settled.
const settleFor = 3 * time.Second
