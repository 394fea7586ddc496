package devcontainer

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 3 * time.Minute

// machine has stand-ins for the programs: the container is this machine, and the
// gateway in it does what the test says.
type machine struct {
	t      *testing.T
	dir    string
	folder string
	*Containers
}

// newMachine makes a machine on which up and the gateway are these scripts.
func newMachine(t *testing.T, up, polyhost string) *machine {
	t.Helper()
	m := &machine{t: t, dir: t.TempDir(), folder: t.TempDir()}
	m.program("docker", `echo "$@" >> "$0.asked"; case $1 in ps) cat "$0.list" 2>/dev/null;; esac; exit 0`)
	m.program("devcontainer", `verb=$1; shift 3
case $verb in
up) `+up+`;;
exec) PATH=`+m.dir+`/inside:$PATH exec "$@";;
esac`)
	if polyhost != "" {
		m.program("inside/polyhost", polyhost)
	}
	m.Containers = New(filepath.Join(m.dir, "docker"), filepath.Join(m.dir, "devcontainer"))
	return m
}

func (m *machine) program(name, script string) {
	m.t.Helper()
	path := filepath.Join(m.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	syscall.ForkLock.RLock() // a program that another test starts now would hold it open, and it could not run
	err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		m.t.Fatal(err)
	}
}

const comesUp = `echo "building ü" >&2; echo '{"outcome":"success","containerId":"c0ffee","remoteWorkspaceFolder":"/workspaces/x"}'`

// echoes answers every line, until there are no more.
const echoes = `echo "polyhost is ready: pid 1" >&2; while read -r line; do echo "got $line"; done`

// heard is what a listener was told.
type heard struct {
	mu     sync.Mutex
	change *sync.Cond
	output string
	frames []string
}

func newHeard() *heard {
	h := new(heard)
	h.change = sync.NewCond(&h.mu)
	return h
}

func (h *heard) listener() Listener {
	return Listener{
		Output: func(text string) { h.mu.Lock(); defer h.mu.Unlock(); h.output += text; h.change.Broadcast() },
		Frame: func(f []byte) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.frames = append(h.frames, string(f))
			h.change.Broadcast()
		},
	}
}

func (h *heard) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	late := false
	timer := time.AfterFunc(patience, func() { h.mu.Lock(); defer h.mu.Unlock(); late = true; h.change.Broadcast() })
	defer timer.Stop()
	h.mu.Lock()
	defer h.mu.Unlock()
	for !ok() {
		if late {
			t.Fatalf("%s did not come; output %q, frames %q", what, h.output, h.frames)
		}
		h.change.Wait()
	}
}

func (m *machine) open(h *heard) (*Relay, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return m.Open(ctx, m.folder, h.listener())
}

func ended(t *testing.T, r *Relay) {
	t.Helper()
	select {
	case <-r.Done():
	case <-time.After(patience):
		t.Fatal("the relay does not end")
	}
}

func TestARelayPassesFramesBothWays(t *testing.T) {
	t.Parallel()
	m := newMachine(t, comesUp, echoes)
	if !m.Available() {
		t.Error("the programs are not found")
	}
	h := newHeard()
	r, err := m.open(h)
	if err != nil {
		t.Fatal(err)
	}
	if r.Container != "c0ffee" || r.Folder != "/workspaces/x" {
		t.Errorf("it is %s at %s", r.Container, r.Folder)
	}
	long := strings.Repeat("x", 1<<20)
	for _, frame := range []string{`{"a": 1}`, "{\n\"b\":\r2}", long} {
		if err := r.Send(frame); err != nil {
			t.Fatal(err)
		}
	}
	h.until(t, "three answers", func() bool { return len(h.frames) == 3 })
	if h.frames[0] != `got {"a": 1}` || h.frames[1] != `got { "b": 2}` || h.frames[2] != "got "+long {
		t.Errorf("the frames are %.200q", h.frames)
	}
	if !strings.Contains(h.output, "building ü") || !strings.Contains(h.output, "c0ffee") || !strings.Contains(h.output, "ready") {
		t.Errorf("the output is %q", h.output)
	}
	r.Close()
	ended(t, r)
	if err := r.Send("{}"); !errors.Is(err, ErrEnded) {
		t.Errorf("after its end: %v", err)
	}
}

func TestWhatKeepsAContainerFromComingUpIsTold(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ up, polyhost, words string }{
		"no configuration": {`echo '{"outcome":"error","message":"Dev container config not found."}'; exit 1`, echoes, "config not found"},
		"a program fails":  {`echo "no docker" >&2; exit 1`, echoes, "no docker"},
		"no answer":        {`echo hello`, echoes, "does not say"},
		"half an answer":   {`echo '{"outcome":"success","containerId":"x"}'`, echoes, "does not say"},
		"no gateway":       {comesUp, "", "there is no polyhost"},
		"a gateway fails":  {comesUp, `echo "the disk is full" >&2; exit 1`, "the disk is full"},
		"a gateway leaves": {comesUp, "exit 0", "without a word"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t, tc.up, tc.polyhost)
			_, err := m.open(newHeard())
			if !errors.Is(err, ErrFailed) || !strings.Contains(err.Error(), tc.words) {
				t.Errorf("%v", err)
			}
			if stopped, err := m.Stop(context.Background(), m.folder, false); !stopped || err != nil {
				t.Errorf("the folder is taken still: %v, %v", stopped, err)
			}
		})
	}
	none := New("no-such-docker", "no-such-devcontainer")
	if _, err := none.Open(context.Background(), "/", newHeard().listener()); none.Available() || !errors.Is(err, ErrMissing) {
		t.Errorf("without the programs: %v", err)
	}
}

func TestAGatewayThatEndsEndsItsRelay(t *testing.T) {
	t.Parallel()
	m := newMachine(t, comesUp, `echo "polyhost is ready" >&2; read -r line; echo bye`)
	h := newHeard()
	r, err := m.open(h)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Send("{}"); err != nil {
		t.Fatal(err)
	}
	ended(t, r)
	h.until(t, "the last frame", func() bool { return len(h.frames) == 1 })
}

// The gateway of the relay before has the home for a while.
func TestAGatewayWaitsForTheOneBefore(t *testing.T) {
	t.Parallel()
	m := newMachine(t, comesUp, `[ -e "$0.once" ] || { touch "$0.once"; exit 3; }; `+echoes)
	r, err := m.open(newHeard())
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	ended(t, r)
}

func TestAContainerInUseIsNotStopped(t *testing.T) {
	t.Parallel()
	m := newMachine(t, comesUp, echoes)
	if err := os.WriteFile(filepath.Join(m.dir, "docker.list"), []byte("c0ffee\nbeef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := m.open(newHeard())
	if err != nil {
		t.Fatal(err)
	}
	if stopped, err := m.Stop(context.Background(), m.folder, false); stopped || err != nil {
		t.Errorf("with a relay: %v, %v", stopped, err)
	}
	r.Close()
	ended(t, r)
	for _, remove := range []bool{false, true} {
		if stopped, err := m.Stop(context.Background(), m.folder, remove); !stopped || err != nil {
			t.Errorf("without: %v, %v", stopped, err)
		}
	}
	asked, err := os.ReadFile(filepath.Join(m.dir, "docker.asked"))
	find := "ps --all --quiet --filter label=devcontainer.local_folder=" + m.folder + "\n"
	if want := find + "stop c0ffee\nstop beef\n" + find + "rm --force c0ffee\nrm --force beef\n"; string(asked) != want || err != nil {
		t.Errorf("docker was asked\n%s, want\n%s", asked, want)
	}
}

func TestWhoGivesUpStopsTheBuild(t *testing.T) {
	t.Parallel()
	m := newMachine(t, `echo started >&2; exec sleep 600`, echoes)
	ctx, cancel := context.WithCancel(context.Background())
	l := newHeard().listener()
	l.Output = func(string) { cancel() }
	if _, err := m.Open(ctx, m.folder, l); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if stopped, err := m.Stop(context.Background(), m.folder, false); !stopped || err != nil {
		t.Errorf("the folder is taken still: %v, %v", stopped, err)
	}
}

func TestOutputIsNotCutWithinACharacter(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("añ€😀", outputChunk/4) + "\xff€\xe2\x82"
	var got string
	var kept tail
	pump(strings.NewReader(text), &kept, func(s string) { got += s })
	if want := strings.ToValidUTF8(text, "\ufffd"); got != want {
		t.Errorf("%d bytes became %d", len(want), len(got))
	}
	if len(kept.kept) > maxAnswer || !strings.HasSuffix(text, string(kept.kept)) {
		t.Errorf("%d bytes are kept", len(kept.kept))
	}
}
