//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/polyhost/polyhost/adapters/console"
	"github.com/polyhost/polyhost/cmd/modelstub/stub"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/transports/wiretest"
)

// patience is how long a real agent may take for one thing on a busy machine.
// Nothing waits longer, so that what hangs is told.
const patience = 4 * time.Minute

// program is the gateway under test.
var program *wiretest.Binary

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "polyhost-e2e-*")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := 1
	if program, err = wiretest.Build(context.Background(), "../..", dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// rig is a gateway with one agent and the model behind it.
type rig struct {
	t       *testing.T
	cli     *cli
	model   *httptest.Server
	place   wiretest.Place
	at      wiretest.Endpoints
	watched *watch
	kept    *talk // the chat of the scenarios
}

func newRig(t *testing.T, c *cli) *rig {
	t.Helper()
	bin := c.install(t)
	// Some agents do not work in a home under the directory for temporary files.
	dir, err := os.MkdirTemp(cache(t), "home-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	model := httptest.NewServer(stub.New(stub.Options{Dir: filepath.Join(dir, "work"), Pause: time.Millisecond}))
	t.Cleanup(model.Close)
	r := &rig{t: t, cli: c, model: model, place: wiretest.Place{Home: filepath.Join(dir, "home"), Work: filepath.Join(dir, "work")}}
	if err := os.Mkdir(r.place.Work, 0o755); err != nil {
		t.Fatal(err)
	}
	r.place.Env = append([]string{"HOME=" + dir, "PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH")}, c.setup(t, dir, model.URL)...)
	for _, git := range [][]string{{"init", "-q"}, {"-c", "user.name=e2e", "-c", "user.email=e2e@localhost", "commit", "-q", "--allow-empty", "-m", "start"}} {
		cmd := exec.CommandContext(t.Context(), "git", git...)
		cmd.Dir = r.place.Work
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git: %v\n%s", err, out)
		}
	}
	t.Cleanup(func() { _ = program.Kill(r.place) })
	r.start()
	return r
}

func (r *rig) start() {
	r.t.Helper()
	var err error
	if r.at, err = program.Start(r.place); err != nil {
		r.t.Fatal(err)
	}
	r.watched = r.watch()
	r.known()
}

// known waits until the agent has said what it can do: before, the gateway
// promises nothing.
func (r *rig) known() {
	r.t.Helper()
	c := r.console()
	var last console.BackendStatus
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		ask := c.Status
		if last.State == "failed" { // it was too slow: the gateway asks again later
			ask = c.Probe
		}
		status, err := ask(r.t.Context())
		if err != nil {
			r.t.Fatal(err)
		}
		for _, b := range status.Backends {
			if b.Name == r.cli.backend {
				last = b
			}
		}
		if last.State == "ready" {
			return
		}
	}
	r.t.Fatalf("the agent is not ready: %s\n%s", encode(last), program.Log(r.place))
}

func (r *rig) console() *console.Client {
	return console.NewClient(console.Endpoint{URL: r.at["console"]["url"], Token: r.at["console"]["token"]})
}

func (r *rig) restart() {
	r.t.Helper()
	r.watched.end()
	if err := program.Stop(r.place); err != nil {
		r.t.Fatalf("stop: %v\n%s", err, program.Log(r.place))
	}
	r.start()
}

// call calls a method of Snowpea, as a client of its own.
func (r *rig) call(t *testing.T, method string, params any) json.RawMessage {
	t.Helper()
	b, err := r.tryCall(t, method, params)
	if err != nil {
		t.Fatalf("%s: %v\n%s", method, err, program.Log(r.place))
	}
	return b
}

func (r *rig) tryCall(t *testing.T, method string, params any) (json.RawMessage, error) {
	t.Helper()
	return r.run(t.Context(), "call", "snowpea", method, encode(params))
}

// run runs a command of the program.
func (r *rig) run(ctx context.Context, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program.Path(), append(args, "--home", r.place.Home)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, errs.String())
	}
	return out.Bytes(), nil
}

// open opens a session of the agent.
func (r *rig) open(t *testing.T) string {
	t.Helper()
	var s struct{ SessionID string }
	if err := json.Unmarshal(r.call(t, "session.create", object{"workdir": r.place.Work, "provider": r.cli.backend}), &s); err != nil || s.SessionID == "" {
		t.Fatalf("session.create: %v", err)
	}
	return s.SessionID
}

// talk follows one session on the console.
type talk struct {
	*rig
	t   *testing.T
	id  string
	seq uint64
}

// talk returns the chat that the scenarios share, since to start an agent for
// each costs some of them many seconds. One that failed leaves it to nobody.
func (r *rig) talk(t *testing.T) *talk {
	t.Helper()
	k := r.kept
	if k == nil {
		k = &talk{rig: r, id: r.open(t)}
		r.kept = k
	}
	k.t = t
	t.Cleanup(func() {
		if t.Failed() && r.kept == k {
			r.kept = nil
			k.close(t)
		}
	})
	return k
}

// other follows another session, which is closed in the end.
func (r *rig) other(t *testing.T, session string) *talk {
	k := &talk{rig: r, t: t, id: session}
	t.Cleanup(func() { k.close(t) })
	return k
}

func (k *talk) close(t *testing.T) {
	if _, err := k.run(context.Background(), "call", "snowpea", "session.close", encode(object{"sessionId": k.id})); err != nil {
		t.Logf("close the session: %v", err)
	}
}

func (k *talk) prompt(text string, more object) {
	k.t.Helper()
	params := object{"sessionId": k.id, "text": text}
	for name, v := range more {
		params[name] = v
	}
	k.call(k.t, "session.prompt", params)
}

// until returns the events up to one that is wanted.
func (k *talk) until(what string, wanted func(*event.Event) bool) (seen []*event.Event) {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), patience)
	defer cancel()
	found := errors.New("found")
	err := k.console().Tail(ctx, k.id, k.seq, true, func(e *event.Event, _ []byte) error {
		seen, k.seq = append(seen, e), e.Seq
		if wanted(e) {
			return found
		}
		return nil
	})
	if !errors.Is(err, found) {
		for _, e := range seen {
			k.t.Logf("%d %s %s", e.Seq, e.Body.Kind(), encode(e.Body))
		}
		k.t.Fatalf("no %s among %d events: %v\n%s", what, len(seen), err, program.Log(k.place))
	}
	return seen
}

// ended waits for the end of a turn and returns all events before it.
func (k *talk) ended() ([]*event.Event, *event.TurnEnded) {
	k.t.Helper()
	seen := k.until("end of the turn", func(e *event.Event) bool { _, ok := e.Body.(*event.TurnEnded); return ok })
	return seen, seen[len(seen)-1].Body.(*event.TurnEnded)
}

// play prompts and waits for a turn that ends well.
func (k *talk) play(text string) []*event.Event {
	k.t.Helper()
	k.prompt(text, nil)
	seen, end := k.ended()
	if end.Status != event.TurnComplete {
		k.t.Fatalf("%q ended %s: %s", text, end.Status, encode(end.Error))
	}
	return seen
}

// goOn is play in a fork, whose events begin with those of its past turns.
func (k *talk) goOn(text string) {
	k.t.Helper()
	k.prompt(text, nil)
	k.until("turn after the past ones", func(e *event.Event) bool {
		b, ok := e.Body.(*event.TurnStarted)
		return ok && b.Message.Text == text
	})
	if _, end := k.ended(); end.Status != event.TurnComplete {
		k.t.Errorf("%q ended %s: %s", text, end.Status, encode(end.Error))
	}
}

// asked waits for an approval and answers it over Snowpea.
func (k *talk) answer(decision string) *event.Interaction {
	k.t.Helper()
	seen := k.until("approval", func(e *event.Event) bool {
		o, ok := e.Body.(*event.InteractionOpened)
		return ok && o.Interaction.Kind == event.Approval
	})
	i := &seen[len(seen)-1].Body.(*event.InteractionOpened).Interaction
	k.call(k.t, "approval.respond", object{"requestId": i.ID.String(), "decision": decision})
	return i
}

// text is what the agent said.
func text(seen []*event.Event) string {
	var b strings.Builder
	for _, e := range seen {
		if p, ok := e.Body.(*event.PartEnded); ok {
			b.WriteString(p.Text + "\n")
		}
	}
	return b.String()
}

func bodies[T any](seen []*event.Event) (all []T) {
	for _, e := range seen {
		if b, ok := e.Body.(T); ok {
			all = append(all, b)
		}
	}
	return all
}

// watch is a client of cognitio that hears of everything.
type watch struct {
	cancel context.CancelFunc
	done   chan struct{}
	mu     sync.Mutex
	heard  strings.Builder
}

func (r *rig) watch() *watch {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &watch{cancel: cancel, done: make(chan struct{})}
	r.t.Cleanup(w.end)
	req, err := http.NewRequestWithContext(ctx, "GET", r.at["cognitio"]["url"]+"/global/event", nil)
	if err != nil {
		r.t.Fatal(err)
	}
	req.SetBasicAuth(r.at["cognitio"]["username"], r.at["cognitio"]["password"])
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		r.t.Fatalf("cognitio: %v", err)
	}
	go func() {
		defer close(w.done)
		defer resp.Body.Close()
		lines := bufio.NewReader(resp.Body)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			w.mu.Lock()
			w.heard.WriteString(line)
			w.mu.Unlock()
		}
	}()
	return w
}

func (w *watch) end() {
	w.cancel()
	<-w.done
}

// cognitio asks something of a session on cognitio.
func (r *rig) cognitio(t *testing.T, method, session, path string, body any) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	at := r.at["cognitio"]
	req, err := http.NewRequestWithContext(ctx, method, at["url"]+"/session/"+session+path, strings.NewReader(encode(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.SetBasicAuth(at["username"], at["password"])
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s, %v", path, resp.StatusCode, b, err)
	}
	return b
}

// ses is the name of a session on cognitio.
func ses(t *testing.T, session string) string {
	t.Helper()
	u, err := id.Parse(session)
	if err != nil {
		t.Fatal(err)
	}
	return u.CognitioDescending("ses")
}

// fork forks a session on cognitio, at a message if one is named, and returns
// the new one's id.
func (r *rig) fork(t *testing.T, session, message string) string {
	t.Helper()
	body := object{}
	if message != "" {
		body["messageID"] = message
	}
	name := ses(t, session)
	b := r.cognitio(t, "POST", name, "/fork", body)
	var made struct{ ID, ForkedFrom string }
	if err := json.Unmarshal(b, &made); err != nil || made.ForkedFrom != name {
		t.Errorf("the fork is %s, %v", b, err)
	}
	u, err := id.ParseCognitioDescending("ses", made.ID)
	if err != nil {
		t.Fatal(err)
	}
	return u.String()
}

// ends are the last messages of a session's turns, as cognitio has them.
func (r *rig) ends(t *testing.T, session string) (ends []string) {
	t.Helper()
	var all []struct{ Info struct{ ID, Role string } }
	if err := json.Unmarshal(r.cognitio(t, "GET", ses(t, session), "/message", object{}), &all); err != nil {
		t.Fatal(err)
	}
	for i, m := range all {
		if i+1 == len(all) || all[i+1].Info.Role == "user" {
			ends = append(ends, m.Info.ID)
		}
	}
	return ends
}

// heard waits until the other front has told a text.
func (r *rig) heard(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		r.watched.mu.Lock()
		told := strings.Contains(r.watched.heard.String(), text)
		r.watched.mu.Unlock()
		if told {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("cognitio never told %q", text)
		}
	}
}
