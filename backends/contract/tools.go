package contract

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

var (
	allow = event.Resolution{Outcome: event.Allowed}
	deny  = event.Resolution{Outcome: event.Denied, Reason: "not today"}
)

// permission reads on to the request for a call and checks it.
func (k *talk) permission() agent.Frame {
	k.t.Helper()
	frames := k.until(agent.Permission)
	f := last(frames)
	if f.Request == "" || f.Call == "" || f.Tool == nil || f.Tool.Tag != event.TagExec || f.Tool.Command == "" {
		k.t.Fatalf("permission request: %+v, tool %+v", f, f.Tool)
	}
	for _, before := range frames {
		if before.Kind == agent.ToolStart && before.Call == f.Call {
			return f
		}
	}
	k.t.Fatal("permission was asked for a call that had not started")
	return f
}

func (s suite) allowed(t *testing.T) {
	k := s.begin(t)
	k.prompt("t1", s.c.Exec("pwd; echo done >&2"))
	f := k.permission()
	k.answer(f.Request, allow)
	frames := k.until(agent.ToolEnd)
	end := last(frames)
	if end.Call != f.Call || end.Result == nil || end.Result.Failed || end.Result.Denied || end.Result.ExitCode == nil || *end.Result.ExitCode != 0 {
		t.Errorf("result: %+v", end.Result)
	}
	if got := output(frames); !strings.Contains(got, k.dir+"\n") || !strings.Contains(got, "done\n") {
		t.Errorf("output %q, want %s", got, k.dir)
	}
	k.ended(k.until(agent.TurnEnd), "t1", event.TurnComplete)
}

func (s suite) denied(t *testing.T) {
	k := s.begin(t)
	k.prompt("t1", s.c.Exec("touch ran"))
	f := k.permission()
	k.answer(f.Request, deny)
	if end := last(k.until(agent.ToolEnd)); end.Call != f.Call || end.Result == nil || !end.Result.Denied {
		t.Errorf("result: %+v", end.Result)
	}
	k.ended(k.until(agent.TurnEnd), "t1", event.TurnComplete)
	k.never("ran")
}

func (s suite) changed(t *testing.T) {
	k := s.begin(t)
	k.prompt("t1", s.c.Exec("touch first"))
	f := k.permission()
	k.answer(f.Request, event.Resolution{Outcome: event.Allowed, Input: raw(map[string]string{"command": "touch second"})})
	k.ended(k.until(agent.TurnEnd), "t1", event.TurnComplete)
	if _, err := os.Stat(filepath.Join(k.dir, "second")); err != nil && !s.c.FixedInput {
		t.Errorf("the changed command did not run: %v", err)
	}
	k.never("first")
}

// shellInit: the script counts from the next command on, whether it came with the
// conversation, a change or a prompt, and what is asked about is the command alone.
func (s suite) shellInit(t *testing.T) {
	b := s.backend(t)
	if info, err := b.Info(t.Context()); err != nil || !info.Capabilities.ShellInit {
		return
	}
	packed := func(shell, script string) event.Settings {
		return event.Settings{ShellInit: event.PackScripts([]event.Script{{Shell: "powershell", Text: "exit 9"}, {Shell: shell, Text: script}})}
	}
	first := packed(event.Bash, "echo noise >&2; greet() { echo \"$1 one\"; }\n")
	k := begin(t, b, agent.Open{Settings: first})
	run := func(turn string, settings event.Settings) string {
		t.Helper()
		const command = "greet hello; echo ran"
		if err := k.Prompt(k.ctx, agent.Prompt{Turn: turn, Message: "m-" + turn, Text: s.c.Exec(command), Settings: settings}); err != nil {
			t.Fatal(err)
		}
		f := k.permission()
		if !strings.HasSuffix(f.Tool.Command, command) || strings.Contains(f.Tool.Command, "init") {
			t.Errorf("asked about %q, want %q", f.Tool.Command, command)
		}
		k.answer(f.Request, allow)
		frames := k.until(agent.ToolEnd)
		if r := last(frames).Result; r == nil || r.ExitCode == nil || *r.ExitCode != 0 {
			t.Errorf("result: %+v", r)
		}
		k.ended(k.until(agent.TurnEnd), turn, event.TurnComplete)
		return output(frames)
	}
	if got := run("t1", first); !strings.Contains(got, "hello one\nran") || strings.Contains(got, "noise") {
		t.Errorf("the first script: %q", got)
	}
	second := packed(event.Bash, "greet() { echo \"$1 two\"; }\nreturn 4")
	if err := k.Conversation.(agent.Configurer).Configure(k.ctx, second); err != nil {
		t.Fatal(err)
	}
	if got := run("t2", second); !strings.Contains(got, "status 4\nhello two\nran") {
		t.Errorf("the second script: %q", got)
	}
	if got := run("t3", packed("powershell", "exit 8")); strings.Contains(got, "hello") || !strings.Contains(got, "ran") {
		t.Errorf("no script: %q", got)
	}
	if got := run("t4", first); !strings.Contains(got, "hello one\nran") {
		t.Errorf("the script of a prompt: %q", got)
	}
}

func (s suite) exit(t *testing.T) {
	k := s.begin(t)
	k.prompt("t1", s.c.Exec("exit 3"))
	k.answer(k.permission().Request, allow)
	if r := last(k.until(agent.ToolEnd)).Result; r == nil || !r.Failed || r.ExitCode == nil || *r.ExitCode != 3 {
		t.Errorf("result: %+v", r)
	}
	k.ended(k.until(agent.TurnEnd), "t1", event.TurnComplete)
}

// stubborn ignores TERM, has a child of its own that holds its output, and
// writes both process ids to a file.
const stubborn = `trap '' TERM INT; sleep 300 & echo $$ $! > pids.tmp; mv pids.tmp pids; while :; do sleep 1; done`

// runStubborn starts it and returns its processes.
func (s suite) runStubborn(k *talk) []int {
	k.t.Helper()
	k.prompt("t1", s.c.Exec(stubborn))
	k.answer(k.permission().Request, allow)
	return k.pids("pids")
}

func (s suite) interruptTool(t *testing.T) {
	k := s.begin(t)
	pids := s.runStubborn(k)
	begin := time.Now()
	if err := k.Interrupt(k.ctx); err != nil {
		t.Fatal(err)
	}
	k.ended(k.until(agent.TurnEnd), "t1", event.TurnCancelled)
	k.gone(pids)
	k.within(begin, cancelBound, "the end of the command")
	k.prompt("t2", s.c.Exec("true"))
	k.answer(k.permission().Request, allow)
	k.ended(k.until(agent.TurnEnd), "t2", event.TurnComplete)
}

func (s suite) interruptPermission(t *testing.T) {
	k := s.begin(t)
	k.prompt("t1", s.c.Exec("touch ran"))
	f := k.permission()
	if err := k.Interrupt(k.ctx); err != nil {
		t.Fatal(err)
	}
	k.answer(f.Request, allow)
	k.ended(k.until(agent.TurnEnd), "t1", event.TurnCancelled)
	k.answer(f.Request, allow)
	k.prompt("t2", s.c.Exec("touch second"))
	g := k.permission()
	if g.Request == f.Request || g.Call == f.Call {
		t.Errorf("ids come twice: %s %s", g.Request, g.Call)
	}
	k.answer(f.Request, allow)
	k.answer(g.Request, deny)
	k.ended(k.until(agent.TurnEnd), "t2", event.TurnComplete)
	k.never("ran")
	k.never("second")
}

func (s suite) closeTool(t *testing.T) {
	k := s.begin(t)
	pids := s.runStubborn(k)
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	k.gone(pids)
	k.closesEventually()
}

func (s suite) ask(t *testing.T) {
	k := s.begin(t)
	k.prompt("t1", s.c.Ask)
	f := last(k.until(agent.Ask))
	if len(f.Questions) != 1 || len(f.Questions[0].Options) != 2 || f.Questions[0].Options[1].Label != "blue" {
		t.Fatalf("questions: %+v", f.Questions)
	}
	k.answer(f.Request, event.Resolution{Outcome: event.Answered,
		Answers: []event.Answer{{ID: f.Questions[0].ID, Selected: []string{"blue"}}}})
	frames := k.until(agent.TurnEnd)
	k.ended(frames, "t1", event.TurnComplete)
	if got := spoken(frames); !strings.Contains(got, "blue") {
		t.Errorf("said %q", got)
	}
}

func (s suite) declined(t *testing.T) {
	k := s.begin(t)
	k.prompt("t1", s.c.Ask)
	k.answer(last(k.until(agent.Ask)).Request, event.Resolution{Outcome: event.Declined})
	frames := k.until(agent.TurnEnd)
	k.ended(frames, "t1", event.TurnComplete)
	if got := spoken(frames); strings.Contains(got, "red") || strings.Contains(got, "blue") {
		t.Errorf("said %q", got)
	}
}

func (s suite) clientTool(t *testing.T) {
	k := s.begin(t)
	k.prompt("t1", s.c.ClientTool("lookup", `{"word":"sea"}`), event.ClientTool{Name: "lookup"})
	f := last(k.until(agent.ClientCall))
	if f.Tool == nil || f.Tool.Name != "lookup" || string(f.Tool.Input) != `{"word":"sea"}` {
		t.Fatalf("call: %+v", f.Tool)
	}
	k.answer(f.Request, event.Resolution{Outcome: event.Completed, Output: "salt water"})
	frames := k.until(agent.TurnEnd)
	k.ended(frames, "t1", event.TurnComplete)
	if got := spoken(frames); !strings.Contains(got, "salt water") {
		t.Errorf("said %q", got)
	}
}

func (s suite) unknownTool(t *testing.T) {
	k := s.begin(t)
	k.prompt("t1", s.c.ClientTool("nosuch", `{}`))
	if r := last(k.until(agent.ToolEnd)).Result; r == nil || !r.Failed || !strings.Contains(r.Error, "nosuch") {
		t.Errorf("result: %+v", r)
	}
	k.ended(k.until(agent.TurnEnd), "t1", event.TurnComplete)
}

// never checks that no command made the file.
func (k *talk) never(name string) {
	k.t.Helper()
	if _, err := os.Lstat(filepath.Join(k.dir, name)); err == nil {
		k.t.Errorf("%s exists: the command ran", name)
	}
}

// gone waits for processes to end. A dead one whose parent has not looked yet
// counts as ended.
func (k *talk) gone(pids []int) {
	k.t.Helper()
	for _, pid := range pids {
		k.eventually("process "+strconv.Itoa(pid)+" is gone", func() bool {
			stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
			return err != nil && syscall.Kill(pid, 0) != nil || strings.Contains(string(stat), ") Z ")
		})
	}
}

func (k *talk) eventually(what string, ok func() bool) {
	k.t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			k.t.Fatalf("not in time: %s", what)
		}
	}
}

func (s suite) servers(t *testing.T) {
	k := s.begin(t)
	switcher, ok := k.Conversation.(agent.ServerSwitcher)
	if !ok {
		t.Fatal("the conversation switches no servers")
	}
	until := func(want agent.ServerState) {
		t.Helper()
		for {
			if f := last(k.until(agent.Servers)); len(f.Servers) == 1 && f.Servers[0].Name == "docs" && f.Servers[0].State == want {
				return
			}
		}
	}
	k.prompt("t1", s.c.Servers("docs"))
	until(agent.ServerReady)
	k.ended(k.until(agent.TurnEnd), "t1", event.TurnComplete)
	for on, want := range map[bool]agent.ServerState{false: agent.ServerOff, true: agent.ServerReady} {
		if err := switcher.SwitchServer(k.ctx, agent.ServerSwitch{Name: "docs", On: on}); err != nil {
			t.Fatal(err)
		}
		until(want)
	}
}
