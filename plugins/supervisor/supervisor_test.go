package supervisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/polyhost/polyhost/backends/contract"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/procgroup"
	"github.com/polyhost/polyhost/plugins"
	"github.com/polyhost/polyhost/plugins/client"
	"github.com/polyhost/polyhost/plugins/discover"
	"go.uber.org/goleak"
)

// The test binary is also the plugin, as the gateway's binary is, and a
// gateway that can be killed.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 {
		var err error
		switch os.Args[1] {
		case "backend":
			err = plugins.ServeBuiltin(os.Args[2])
		case "gateway":
			err = gateway(os.Args[2])
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// demo describes the demo agent as a plugin of a new instance.
func demo(t testing.TB) Options {
	t.Helper()
	in, err := Begin(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { none(t, in.ID) })
	return Options{Name: "demo", Path: os.Args[0], Args: []string{"backend", "demo"}, Instance: in,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}
}

// none waits until no process bears an instance's mark.
func none(t testing.TB, id string) {
	t.Helper()
	var pids []int
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		var err error
		if pids, err = procgroup.Marked(InstanceVar, id); err != nil {
			t.Fatal(err)
		}
		if len(pids) == 0 {
			return
		}
	}
	for _, pid := range pids {
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		t.Errorf("left: %d %q", pid, bytes.ReplaceAll(cmdline, []byte{0}, []byte{' '}))
	}
}

func TestContract(t *testing.T) {
	t.Parallel()
	contract.Run(t, func(t *testing.T) agent.Backend { return New(demo(t)) }, contract.Scripted)
}

func start(t testing.TB, o Options) agent.Backend {
	t.Helper()
	b := New(o)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func converse(t testing.TB, b agent.Backend) agent.Conversation {
	t.Helper()
	c, err := b.Open(t.Context(), agent.Open{Session: "s", Dirs: []string{t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// play prompts and returns all output and text of the turn; commands are
// allowed. Without an end of the turn it returns the error of Recv.
func play(ctx context.Context, c agent.Conversation, script string) (string, error) {
	if err := c.Prompt(ctx, agent.Prompt{Turn: "t", Text: script}); err != nil {
		return "", err
	}
	var said strings.Builder
	for {
		frames, err := c.Recv(ctx)
		if err != nil {
			return said.String(), err
		}
		for _, f := range frames {
			switch f.Kind {
			case agent.Permission:
				_ = c.Answer(ctx, agent.Answer{Request: f.Request, Resolution: event.Resolution{Outcome: event.Allowed}})
			case agent.TextDelta, agent.ToolOutput:
				said.WriteString(f.Text)
			case agent.TurnEnd:
				return said.String(), nil
			}
		}
	}
}

func pid(t testing.TB, b agent.Backend) int {
	t.Helper()
	p, err := b.(*supervisor).running(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p.group.PID()
}

func TestTheNextOpenReplacesADeadPlugin(t *testing.T) {
	t.Parallel()
	b := start(t, demo(t))
	c := converse(t, b)
	said, err := play(t.Context(), c, "say bye\nrun true\ncrash")
	if said != "bye" || !errors.Is(err, client.ErrLost) || !strings.Contains(err.Error(), "plugin demo died (exit status 3)") {
		t.Errorf("%q, %v", said, err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("close a dead conversation: %v", err)
	}
	if said, err := play(t.Context(), converse(t, b), "say back again"); said != "back again" || err != nil {
		t.Errorf("%q, %v", said, err)
	}
}

func TestAKilledPluginLeavesNoTools(t *testing.T) {
	t.Parallel()
	o := demo(t)
	b := start(t, o)
	c := converse(t, b)
	plugin := pid(t, b)
	done := make(chan error, 1)
	go func() {
		_, err := play(t.Context(), c, `run trap '' TERM; setsid sleep 300 & sleep 300`)
		done <- err
	}()
	running(t, o.Instance.ID, 4)
	if err := syscall.Kill(plugin, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, client.ErrLost) {
		t.Errorf("%v", err)
	}
	none(t, o.Instance.ID)
}

// running waits until an instance has at least n processes.
func running(t testing.TB, id string, n int) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		pids, err := procgroup.Marked(InstanceVar, id)
		if err != nil {
			t.Fatal(err)
		}
		if len(pids) >= n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d processes, want %d", len(pids), n)
		}
	}
}

func TestClosingEndsAPluginThatHangs(t *testing.T) {
	t.Parallel()
	b := New(demo(t))
	halt(t, pid(t, b))
	begin := time.Now()
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if d := time.Since(begin); d > patience {
		t.Errorf("took %v", d)
	}
}

func TestClosingEndsAPluginThatWorks(t *testing.T) {
	t.Parallel()
	o := demo(t)
	b := New(o)
	c := converse(t, b)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = play(context.Background(), c, "run sleep 300 & sleep 300")
	}()
	running(t, o.Instance.ID, 3)
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	none(t, o.Instance.ID)
	<-done
	if _, err := b.Open(t.Context(), agent.Open{Dirs: []string{"/"}}); err == nil {
		t.Error("a closed backend opens conversations")
	}
}

func TestAPluginThatHangsIsReplaced(t *testing.T) {
	t.Parallel()
	o := demo(t)
	o.healthEvery, o.healthBound = 10*time.Millisecond, time.Second
	b := start(t, o)
	c := converse(t, b)
	first := pid(t, b)
	// A stopped process answers nothing; the health check waits its bound.
	halt(t, first)
	for {
		if _, err := c.Recv(t.Context()); err != nil {
			break
		}
	}
	if second := pid(t, b); second == first {
		t.Error("the hung plugin is still used")
	}
}

func TestStartingAgainBacksOff(t *testing.T) {
	t.Parallel()
	o := demo(t)
	o.Args = []string{"backend", "nosuch"}
	b := start(t, o)
	begin := time.Now()
	for range 4 {
		if _, err := b.Info(t.Context()); err == nil || !strings.Contains(err.Error(), "start plugin demo: it ended before it was ready (exit status 1)") {
			t.Fatalf("%v", err)
		}
	}
	if d := time.Since(begin); d < backoffFirst*(1+2+4) {
		t.Errorf("four starts in %v", d)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Info(ctx); err == nil || !strings.Contains(err.Error(), "4 times in a row") {
		t.Errorf("while it backs off: %v", err)
	}
	log, err := os.ReadFile(o.Instance.logPath("demo"))
	if err != nil || !strings.Contains(string(log), `no built-in agent "nosuch"`) {
		t.Errorf("log %q, %v", log, err)
	}
}

func TestOnlyThePinnedBinaryRuns(t *testing.T) {
	t.Parallel()
	o := demo(t)
	o.SHA256 = strings.Repeat("0", 64)
	sum, err := discover.Sum(o.Path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := start(t, o).Info(t.Context()); err == nil || !strings.Contains(err.Error(), sum) || !strings.Contains(err.Error(), o.SHA256) {
		t.Errorf("a wrong pin: %v", err)
	}
	o.SHA256 = strings.ToUpper(sum)
	if info, err := start(t, o).Info(t.Context()); err != nil || info.Name != "demo" {
		t.Errorf("the right pin: %+v, %v", info, err)
	}
}

func TestThePluginsEnvironmentIsAllowListed(t *testing.T) {
	t.Setenv("POLYHOST_TEST_SECRET", "hunter2")
	t.Setenv("POLYHOST_TEST_PASSED", "yes")
	o := demo(t)
	o.PassEnv, o.Env = []string{"POLYHOST_TEST_PASSED"}, []string{"POLYHOST_TEST_MORE=also"}
	said, err := play(t.Context(), converse(t, start(t, o)), "run env; ls -l /proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"POLYHOST_TEST_PASSED=yes", "POLYHOST_TEST_MORE=also", "PATH=", InstanceVar + "=" + o.Instance.ID} {
		if !strings.Contains(said, want) {
			t.Errorf("no %s in %s", want, said)
		}
	}
	if strings.Contains(said, "hunter2") {
		t.Error("the gateway's own variables reach the agent")
	}
	if !strings.Contains(said, " 0 -> /dev/null") || strings.Contains(said, "socket:") {
		t.Errorf("descriptors of a command:\n%s", said)
	}
}

func TestALogIsBounded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "logs", "x.log")
	l, err := openLog(path)
	if err != nil {
		t.Fatal(err)
	}
	line := bytes.Repeat([]byte("x"), 1000)
	for range 5 * maxLog / len(line) {
		if n, err := l.Write(line); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
	}
	if n, err := l.Write(make([]byte, 3*maxLog)); n != 3*maxLog || err != nil {
		t.Fatal(n, err)
	}
	l.Close()
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Size() > maxLog {
			t.Errorf("%s has %d bytes", f.Name(), info.Size())
		}
	}
}

// BenchmarkFrames is the throughput of one conversation with a real process.
func BenchmarkFrames(b *testing.B) {
	backend := start(b, demo(b))
	c := converse(b, backend)
	for left := b.N; left > 0; {
		n := min(left, 1_000_000)
		left -= n
		if err := c.Prompt(b.Context(), agent.Prompt{Turn: "t", Text: fmt.Sprintf("stream %d 16", n)}); err != nil {
			b.Fatal(err)
		}
		for done := false; !done; {
			frames, err := c.Recv(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			done = frames[len(frames)-1].Kind == agent.TurnEnd
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "frames/s")
}

// BenchmarkRoundTrip is the time from a prompt to the end of its short turn in
// another process, 100 turns a second: the boundary is crossed once each way.
func BenchmarkRoundTrip(b *testing.B) {
	c := converse(b, start(b, demo(b)))
	took := make([]time.Duration, 0, b.N)
	for range b.N {
		time.Sleep(10 * time.Millisecond)
		begin := time.Now()
		if _, err := play(b.Context(), c, "usage 1 1"); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}
