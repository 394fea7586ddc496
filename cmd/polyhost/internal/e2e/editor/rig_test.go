//go:build e2e

package editor

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/polyhost/polyhost/core/procgroup"
	"github.com/polyhost/polyhost/transports/wiretest"
)

// artifactsVar names the folder for screenshots and logs, which a run empties.
const artifactsVar = "POLYHOST_E2E_ARTIFACTS"

// stopGrace is how long a program may take to end by itself.
const stopGrace = 10 * time.Second

// rig is a gateway with the demo agent, and an editor that is connected to it.
type rig struct {
	artifacts string
	program   *wiretest.Binary
	place     wiretest.Place
	at        wiretest.Endpoints
	wire      *wire
	page      *page
	address   string // of the page
}

func newRig(t *testing.T) *rig {
	t.Helper()
	in := install(t)
	r := &rig{artifacts: artifactsFolder(t)}
	dir := t.TempDir()
	var err error
	if r.program, err = wiretest.Build(t.Context(), "../../..", dir); err != nil {
		t.Fatal(err)
	}
	r.place = wiretest.Place{Home: filepath.Join(dir, "home"), Work: filepath.Join(dir, "project"), Args: []string{"--backend", "demo", "--log-level", "debug"}}
	r.workspace(t)
	t.Cleanup(func() {
		if err := r.program.Stop(r.place); err != nil {
			t.Errorf("the gateway's end: %v", err)
		}
		if b, err := os.ReadFile(r.place.Home + ".log"); err == nil {
			_ = os.WriteFile(filepath.Join(r.artifacts, "gateway.log"), b, 0o600)
		}
	})
	if r.at, err = r.program.Start(r.place); err != nil {
		t.Fatal(err)
	}
	r.wire = newWire(t, r.file(t, "wire.jsonl"))
	r.wire.to(r.at["ahp"]["url"])
	r.address = r.serveEditor(t, in, dir)
	r.page = r.browse(t, in, dir)
	return r
}

// artifactsFolder is made anew.
func artifactsFolder(t *testing.T) string {
	t.Helper()
	dir := os.Getenv(artifactsVar)
	if dir == "" {
		dir = "../../../../../artifacts/e2e-vscode"
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	old, err := filepath.Glob(filepath.Join(dir, "*.*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range old {
		if ext := filepath.Ext(f); ext == ".png" || ext == ".log" || ext == ".jsonl" {
			_ = os.Remove(f)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Logf("screenshots and logs are in %s", dir)
	return dir
}

// file is one of the artifacts.
func (r *rig) file(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(r.artifacts, name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// workspace makes the project that the editor opens.
func (r *rig) workspace(t *testing.T) {
	t.Helper()
	for name, text := range map[string]string{"README.md": "# A project\n", "main.go": "package main\n\nfunc main() {}\n"} {
		if err := os.MkdirAll(r.place.Work, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(r.place.Work, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=e2e", "-c", "user.email=e2e@localhost", "commit", "-q", "-m", "start"}} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = r.place.Work
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git: %v\n%s", err, out)
		}
	}
}

// run starts a program as a process group that ends with the test, after what
// was started later.
func run(t *testing.T, cmd *exec.Cmd) *procgroup.Group {
	t.Helper()
	g, err := procgroup.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Stop(stopGrace); err != nil {
			t.Errorf("%s: %v", cmd.Path, err)
		}
	})
	return g
}

// announced waits until a program has written something that matches to its log.
func announced(t *testing.T, g *procgroup.Group, log, pattern string) string {
	t.Helper()
	wanted := regexp.MustCompile(pattern)
	var found string
	until(t, fmt.Sprintf("%q in %s", pattern, log), func() (bool, string) {
		b, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		if m := wanted.FindSubmatch(b); m != nil {
			found = string(m[1])
			return true, ""
		}
		select {
		case <-g.Done():
			t.Fatalf("it ended: %v\n%s", g.Err(), b)
		default:
		}
		return false, string(b)
	})
	return found
}

// settings are the editor's: no dialogs, and nothing fetched from anywhere.
var settings = object{
	"security.workspace.trust.enabled":             false,
	"workbench.startupEditor":                      "none",
	"telemetry.telemetryLevel":                     "off",
	"remote.autoForwardPorts":                      false,
	"extensions.autoUpdate":                        false,
	"extensions.autoCheckUpdates":                  false,
	"update.mode":                                  "none",
	"git.openRepositoryInParentFolders":            "never",
	"workbench.secondarySideBar.defaultVisibility": "maximized", // the list of sessions beside the chat
}

// serveEditor starts the editor's server and returns the address of its page.
func (r *rig) serveEditor(t *testing.T, in tools, dir string) string {
	t.Helper()
	data := filepath.Join(dir, "editor")
	if err := os.MkdirAll(filepath.Join(data, "data/User"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "data/User/settings.json"), []byte(encode(settings)), 0o600); err != nil {
		t.Fatal(err)
	}
	bridge, err := url.Parse(r.wire.server.URL)
	if err != nil {
		t.Fatal(err)
	}
	log := r.file(t, "editor-server.log")
	cmd := exec.Command(in.node, "out/server-main.js", "--host", "127.0.0.1", "--port", "0", "--without-connection-token",
		"--accept-server-license-terms", "--telemetry-level", "off", "--server-data-dir", data,
		"--agent-host-bridge-host", bridge.Hostname(), "--agent-host-bridge-port", bridge.Port())
	cmd.Dir = in.vscode
	cmd.Env = append(os.Environ(), "HOME="+data, "VSCODE_AGENT_HOST_BRIDGE_CONNECTION_TOKEN="+r.at["ahp"]["token"])
	cmd.Stdout, cmd.Stderr = log, log
	port := announced(t, run(t, cmd), log.Name(), `agent listening on (\d+)`)
	return "http://127.0.0.1:" + port + "/?folder=" + url.QueryEscape(r.place.Work)
}

// browse opens the editor's page.
func (r *rig) browse(t *testing.T, in tools, dir string) *page {
	t.Helper()
	log := r.file(t, "browser.log")
	// The page is our own and on the loopback; root cannot have the sandbox.
	cmd := exec.Command(in.chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-breakpad", "--remote-debugging-port=0", "--user-data-dir="+filepath.Join(dir, "browser"), "about:blank")
	cmd.Env = append(os.Environ(), "HOME="+dir)
	cmd.Stdout, cmd.Stderr = log, log
	devtools := announced(t, run(t, cmd), log.Name(), `DevTools listening on (ws://\S+)`)

	driver := r.file(t, "driver.log")
	cmd = exec.Command(in.node, "drive.mjs", in.playwright, devtools)
	fromDriver, stdout, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = stdout, driver
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &page{in: stdin, shots: r.artifacts, waiting: map[int]chan reply{}}
	console := r.file(t, "console.log")
	var listening = make(chan struct{})
	t.Cleanup(func() { <-listening; _ = fromDriver.Close() }) // once the driver has ended
	run(t, cmd)
	_ = stdout.Close()
	go func() {
		defer close(listening)
		p.listen(fromDriver, console)
	}()
	p.do(t, "open", object{"url": r.address})
	return p
}

// restart ends the gateway and starts it again, at another port.
func (r *rig) restart(t *testing.T) {
	t.Helper()
	if err := r.program.Stop(r.place); err != nil {
		t.Fatalf("stop: %v\n%s", err, r.program.Log(r.place))
	}
	r.wire.to("")
	var err error
	if r.at, err = r.program.Start(r.place); err != nil {
		t.Fatal(err)
	}
	r.wire.to(r.at["ahp"]["url"])
}

// project is a file of the project's content; "" when it is not there.
func (r *rig) project(name string) string {
	b, _ := os.ReadFile(filepath.Join(r.place.Work, name))
	return string(b)
}
