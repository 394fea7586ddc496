package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/polyhost/polyhost/adapters/console"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/procgroup"
	"github.com/polyhost/polyhost/plugins/supervisor"
	"github.com/polyhost/polyhost/transports/wiretest"
)

// polyhost is the binary as users run it, built once for all tests.
var polyhost *wiretest.Binary

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "polyhost-test-*")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := 1
	if polyhost, err = wiretest.Build(context.Background(), ".", dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// patience bounds what a test waits for.
const patience = 3 * time.Minute

// home is a home with a working directory beside it, and perhaps a gateway.
type home struct {
	t     *testing.T
	place wiretest.Place
	at    wiretest.Endpoints
}

func newHome(t *testing.T, args ...string) *home {
	t.Helper()
	dir := t.TempDir()
	h := &home{t: t, place: wiretest.Place{Home: filepath.Join(dir, "home"), Work: filepath.Join(dir, "work"), Args: args}}
	if err := os.Mkdir(h.place.Work, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = polyhost.Kill(h.place) })
	return h
}

// start runs a gateway.
func (h *home) start() {
	h.t.Helper()
	var err error
	if h.at, err = polyhost.Start(h.place); err != nil {
		h.t.Fatal(err)
	}
}

func (h *home) stop() {
	h.t.Helper()
	if err := polyhost.Stop(h.place); err != nil {
		h.t.Fatalf("stop: %v\n%s", err, h.log())
	}
}

// log is all that the gateway has logged.
func (h *home) log() string { return polyhost.Log(h.place) }

func (h *home) kill() {
	h.t.Helper()
	if err := polyhost.Kill(h.place); err != nil {
		h.t.Fatal(err)
	}
}

// outcome is how a command ended.
type outcome struct {
	code           int
	stdout, stderr string
}

// run runs a command on the home.
func (h *home) run(args ...string) outcome {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, polyhost.Path(), append(args, "--home", h.place.Home)...)
	cmd.Dir = h.place.Work
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(h.place.Home), "TMPDIR=" + os.TempDir()}
	cmd.Env = append(cmd.Env, h.place.Env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		h.t.Fatalf("polyhost %s: %v, %v\n%s", strings.Join(args, " "), err, ctx.Err(), stderr.String())
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// ok runs a command that must succeed and returns what it prints.
func (h *home) ok(args ...string) string {
	h.t.Helper()
	o := h.run(args...)
	if o.code != 0 {
		h.t.Fatalf("polyhost %s: exit code %d\n%s", strings.Join(args, " "), o.code, o.stderr)
	}
	return o.stdout
}

// read runs a command that prints JSON.
func read[T any](h *home, args ...string) T {
	h.t.Helper()
	var v T
	text := h.ok(args...)
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		h.t.Fatalf("polyhost %s printed %s: %v", strings.Join(args, " "), text, err)
	}
	return v
}

// console is a client of the running gateway.
func (h *home) console() *console.Client {
	return console.NewClient(console.Endpoint{URL: h.at["console"]["url"], Token: h.at["console"]["token"]})
}

// session opens one over Snowpea.
func (h *home) session() string {
	h.t.Helper()
	params, _ := json.Marshal(map[string]string{"workdir": h.place.Work})
	return read[struct{ SessionID string }](h, "call", "snowpea", "session.create", string(params)).SessionID
}

// prompt sends one over Snowpea.
func (h *home) prompt(session, text string) {
	h.t.Helper()
	params, _ := json.Marshal(map[string]string{"sessionId": session, "text": text})
	h.ok("call", "snowpea", "session.prompt", string(params))
}

// until follows a session until an event is as wanted, and returns all up to
// it.
func (h *home) until(session, what string, wanted func(*event.Event) bool) []*event.Event {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var seen []*event.Event
	found := errors.New("found")
	err := h.console().Tail(ctx, session, 0, true, func(e *event.Event, _ []byte) error {
		seen = append(seen, e)
		if wanted(e) {
			return found
		}
		return nil
	})
	if !errors.Is(err, found) {
		h.t.Fatalf("no %s among %d events: %v\n%s", what, len(seen), err, polyhost.Log(h.place))
	}
	return seen
}

func turnEnded(e *event.Event) bool { _, ok := e.Body.(*event.TurnEnded); return ok }

func approvalOpened(e *event.Event) bool {
	o, ok := e.Body.(*event.InteractionOpened)
	return ok && o.Interaction.Kind == event.Approval
}

// processes are those that gateways on the home have started.
func (h *home) processes() []int {
	h.t.Helper()
	ids, err := supervisor.Instances(h.place.Home)
	if err != nil {
		h.t.Fatal(err)
	}
	var all []int
	for _, id := range ids {
		pids, err := procgroup.Marked(supervisor.InstanceVar, id)
		if err != nil {
			h.t.Fatal(err)
		}
		all = append(all, pids...)
	}
	return all
}

// eventually polls until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}
