package demo

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/polyhost/polyhost/backends/contract"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	t.Parallel()
	c := contract.Scripted
	c.Past = c.Remember(func(t *testing.T) agent.Backend { return &Backend{Keep: t.TempDir()} })
	contract.Run(t, func(*testing.T) agent.Backend { return New() }, c)
}

// run plays a script, allowing everything, and returns all frames of it.
func run(t *testing.T, dir, script string) []agent.Frame {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	b := New()
	t.Cleanup(func() { _ = b.Close() })
	c, err := b.Open(ctx, agent.Open{Dirs: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Prompt(ctx, agent.Prompt{Turn: "t", Text: script}); err != nil {
		t.Fatal(err)
	}
	var all []agent.Frame
	for {
		frames, err := c.Recv(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range frames {
			all = append(all, f)
			if f.Kind == agent.Permission {
				_ = c.Answer(ctx, agent.Answer{Request: f.Request, Resolution: event.Resolution{Outcome: event.Allowed}})
			}
			if f.Kind == agent.TurnEnd {
				return all
			}
		}
	}
}

func pick(frames []agent.Frame, kind agent.FrameKind) []agent.Frame {
	return slices.DeleteFunc(slices.Clone(frames), func(f agent.Frame) bool { return f.Kind != kind })
}

func texts(frames []agent.Frame) []string {
	var out []string
	for _, f := range frames {
		out = append(out, f.Text)
	}
	return out
}

func TestTextIsStreamedWordByWord(t *testing.T) {
	t.Parallel()
	for script, want := range map[string][]string{
		"say one two":              {"one ", "two"},
		"one two":                  {"one ", "two"},
		"  one\r\n\n\ntwo":         {" ", " ", "one", "two"},
		"stream lots of it":        {"stream ", "lots ", "of ", "it"},
		"crash course":             {"crash ", "course"},
		"run":                      {"run"},
		"sleep well":               {"sleep ", "well"},
		"stream 3 2":               {"ab", "ab", "ab"},
		"stream 2 40":              {"abcdefghijklmnopqrstuvwxyz012345abcdefgh", "abcdefghijklmnopqrstuvwxyz012345abcdefgh"},
		"stream 1 1 1\nusage 1 -2": {"a", "usage ", "1 ", "-2"},
	} {
		frames := run(t, t.TempDir(), script)
		if got := texts(pick(frames, agent.TextDelta)); !slices.Equal(got, want) {
			t.Errorf("%q: %q", script, got)
		}
	}
	if got := texts(pick(run(t, t.TempDir(), "think so hard"), agent.ReasoningDelta)); !slices.Equal(got, []string{"so ", "hard"}) {
		t.Errorf("think: %q", got)
	}
}

func TestAResumedScriptGoesOnBehindItsFailure(t *testing.T) {
	t.Parallel()
	lines := scriptLines("say a\nfail x\nsay b\ncrash\nsay c\nfail and more")
	for failures, want := range []int{6, 4, 2, 0, 6} {
		if got := after(lines, failures); len(got) != want {
			t.Errorf("%d failures: %q", failures, got)
		}
	}
}

func TestWriteShowsItsDiffBeforeItRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := pick(run(t, dir, "write sub/new.txt hello"), agent.Permission)
	if len(first) != 1 || len(first[0].Tool.Edits) != 1 {
		t.Fatalf("permission: %+v", first)
	}
	if e := first[0].Tool.Edits[0]; e.Kind != "create" || e.Before != nil || *e.After != "hello\n" || e.Added != 1 || e.Removed != 0 ||
		e.Path != filepath.Join(dir, "sub/new.txt") {
		t.Errorf("create: %+v", e)
	}
	frames := run(t, dir, "write sub/new.txt -- bye")
	for _, e := range []event.FileEdit{pick(frames, agent.Permission)[0].Tool.Edits[0], pick(frames, agent.ToolEnd)[0].Result.Edits[0]} {
		if e.Kind != "edit" || *e.Before != "hello\n" || *e.After != "-- bye\n" || e.Added != 1 || e.Removed != 1 ||
			!strings.Contains(e.Patch, "\n-hello\n+-- bye\n") || !strings.HasPrefix(e.Patch, "--- a/sub/new.txt\n+++ b/sub/new.txt\n@@") {
			t.Errorf("edit: %+v", e)
		}
	}
	got := pick(run(t, dir, "read sub/new.txt"), agent.ToolEnd)
	if got[0].Result.Output != "-- bye\n" {
		t.Errorf("read: %+v", got[0].Result)
	}
}

func TestFilesOutsideAreRefusedInWords(t *testing.T) {
	t.Parallel()
	dir, secret := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"read " + secret, "read ../secret", "read link", "write ../new x", "write " + secret + " x", "write link x", "read a/../../x",
	} {
		frames := run(t, dir, line+"\nsay on")
		if n := len(pick(frames, agent.Permission)); n != 0 {
			t.Errorf("%s: asked %d times", line, n)
		}
		end := pick(frames, agent.ToolEnd)
		if len(end) != 1 || !end[0].Result.Failed || !strings.Contains(end[0].Result.Error, "is outside of the working directories") {
			t.Errorf("%s: %+v", line, end[0].Result)
		}
		if got := texts(pick(frames, agent.TextDelta)); !slices.Equal(got, []string{"on"}) {
			t.Errorf("%s: then %q", line, got)
		}
	}
	for _, line := range []string{"read nosuch", "read .", "write . x"} {
		if end := pick(run(t, dir, line), agent.ToolEnd); !end[0].Result.Failed || end[0].Result.Error == "" {
			t.Errorf("%s: %+v", line, end[0].Result)
		}
	}
}

func TestOutputIsWholeCharacters(t *testing.T) {
	t.Parallel()
	// 40,000 three-byte characters cross every chunk; the tail is no text.
	frames := run(t, t.TempDir(), `run i=0; s=$(printf '%0100d' 0 | sed 's/0/€/g'); while [ $i -lt 400 ]; do printf %s "$s"; i=$((i+1)); done; printf '\377'`)
	var b strings.Builder
	for _, f := range pick(frames, agent.ToolOutput) {
		b.WriteString(f.Text)
	}
	if got := b.String(); got != strings.Repeat("€", 40_000)+"\ufffd" {
		t.Errorf("%d bytes, ends %q", len(got), got[max(0, len(got)-10):])
	}
}

func TestABackgroundChildDoesNotHoldTheTurn(t *testing.T) {
	t.Parallel()
	for _, script := range []string{"run sleep 300 & echo started", "run setsid sleep 300 & echo started"} {
		begin := time.Now()
		frames := run(t, t.TempDir(), script)
		if end := pick(frames, agent.ToolEnd); *end[0].Result.ExitCode != 0 {
			t.Errorf("%+v", end[0].Result)
		}
		if d := time.Since(begin); d > time.Minute {
			t.Errorf("%s: took %v", script, d)
		}
	}
}

func TestPlanIsCompletedStepByStep(t *testing.T) {
	t.Parallel()
	var got []string
	for _, f := range pick(run(t, t.TempDir(), "plan dig; plant"), agent.Plan) {
		got = append(got, f.Plan[0].Status+" "+f.Plan[1].Status)
	}
	if want := []string{"pending pending", "active pending", "done pending", "done active", "done done"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestASubagentRunsItsOwnScript(t *testing.T) {
	t.Parallel()
	frames := run(t, t.TempDir(), "spawn scout run echo found\nspawn cook fail burnt\nspawn poet say a rose\nsay back")
	starts, ends, tools := pick(frames, agent.ChildStart), pick(frames, agent.ChildEnd), pick(frames, agent.ToolEnd)
	if len(starts) != 3 || len(ends) != 3 || len(tools) != 4 {
		t.Fatalf("%d starts, %d ends, %d calls", len(starts), len(ends), len(tools))
	}
	if starts[0].Name != "scout" || starts[0].Text != "run echo found" || starts[0].Call == "" || starts[0].Child == starts[1].Child {
		t.Errorf("start: %+v", starts[0])
	}
	if out := pick(frames, agent.ToolOutput); out[0].Child != starts[0].Child || out[0].Text != "found\n" {
		t.Errorf("output: %+v", out[0])
	}
	if ends[1].Error == nil || ends[1].Error.Message != "burnt" || !tools[2].Result.Failed {
		t.Errorf("failed child: %+v, %+v", ends[1], tools[2].Result)
	}
	if tools[3].Result.Output != "a rose" || tools[3].Call != starts[2].Call || tools[3].Child != "" {
		t.Errorf("result: %+v", tools[3])
	}
	if end := frames[len(frames)-1]; end.Status != event.TurnComplete {
		t.Errorf("%+v", end)
	}
	deep := pick(run(t, t.TempDir(), strings.Repeat("spawn x ", 20)+"say x"), agent.ToolEnd)
	if !deep[0].Result.Failed {
		t.Error("subagents nest without a bound")
	}
}

func TestUsageIsReported(t *testing.T) {
	t.Parallel()
	u := pick(run(t, t.TempDir(), "usage 12 34"), agent.Usage)
	if len(u) != 1 || *u[0].Usage != (event.Usage{Input: 12, Output: 34, Model: "demo-small"}) {
		t.Errorf("%+v", u)
	}
}

func TestACrashBreaksTheConversation(t *testing.T) {
	t.Parallel()
	b := New()
	defer b.Close()
	c, err := b.Open(t.Context(), agent.Open{Dirs: []string{t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Prompt(t.Context(), agent.Prompt{Turn: "t", Text: "say bye\ncrash\nsay no more"}); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := c.Recv(t.Context()); err != nil {
			if !errors.Is(err, ErrCrashed) || errors.Is(err, io.EOF) {
				t.Errorf("%v", err)
			}
			return
		}
	}
}

func BenchmarkStream(b *testing.B) {
	backend := New()
	defer backend.Close()
	ctx := context.Background()
	c, err := backend.Open(ctx, agent.Open{Dirs: []string{b.TempDir()}})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for left := b.N; left > 0; {
		n := min(left, maxStream)
		left -= n
		if err := c.Prompt(ctx, agent.Prompt{Turn: "t", Text: "stream " + strconv.Itoa(n) + " 16"}); err != nil {
			b.Fatal(err)
		}
		for done := false; !done; {
			frames, err := c.Recv(ctx)
			if err != nil {
				b.Fatal(err)
			}
			done = frames[len(frames)-1].Kind == agent.TurnEnd
		}
	}
}

func TestALockedServerIsOpenedByAToken(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	b := New()
	t.Cleanup(func() { _ = b.Close() })
	c, err := b.Open(ctx, agent.Open{Dirs: []string{t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	const script = "use docs search x\nserver docs locked https://x/docs\nuse docs search found\nuse docs search again\nserver docs off\nuse docs search x"
	if err := c.Prompt(ctx, agent.Prompt{Turn: "t", Text: script}); err != nil {
		t.Fatal(err)
	}
	var states, results []string
	for tokens := []string{badToken, "good"}; ; {
		frames, err := c.Recv(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range frames {
			switch f.Kind {
			case agent.Servers:
				states = append(states, string(f.Servers[0].State))
				if f.Servers[0].State == agent.ServerSignIn {
					if err := c.(agent.ServerSwitcher).SwitchServer(ctx, agent.ServerSwitch{Name: "docs", On: true, Token: tokens[0]}); err != nil {
						t.Fatal(err)
					}
					tokens = tokens[1:]
				}
			case agent.ToolEnd:
				results = append(results, f.Result.Output+f.Result.Error)
			case agent.TurnEnd:
				if want := []string{"ready", "sign_in", "starting", "sign_in", "starting", "ready", "off"}; !slices.Equal(states, want) {
					t.Errorf("the server was %q", states)
				}
				const no = "the MCP server docs cannot be used now"
				if want := []string{no, "found", "again", no}; !slices.Equal(results, want) {
					t.Errorf("the calls gave %q", results)
				}
				return
			}
		}
	}
}
