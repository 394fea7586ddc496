package terminal

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/procgroup"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 60 * time.Second

func newSet(t *testing.T) *Set {
	t.Helper()
	s := NewSet(Options{Files: filepath.Join(t.TempDir(), "shell"), Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(s.Close)
	return s
}

// screen follows a terminal.
type screen struct {
	*Terminal
	t *testing.T

	mu     sync.Mutex
	change *sync.Cond
	all    string // data, and other events in angle brackets
	folded State
}

func open(t *testing.T, s *Set, o Open) *screen {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	term, err := s.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	c := &screen{Terminal: term, t: t}
	c.change = sync.NewCond(&c.mu)
	term.Watch(func(st *State) {
		c.folded = *st
		c.folded.Parts = nil
		for _, p := range st.Parts {
			p.Text = append([]byte(nil), p.Text...)
			c.folded.Parts = append(c.folded.Parts, p)
			c.all += string(p.Text)
		}
	}, func(e *Event) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.folded.apply(e)
		code := "?"
		if e.Code != nil {
			code = fmt.Sprint(*e.Code)
		}
		switch e.Kind {
		case Data:
			c.all += e.Text
		case Executed:
			c.all += "<run " + e.Text + ">"
		case Finished:
			c.all += "<end " + code + ">"
		case Moved:
			c.all += "<in " + e.Text + ">"
		case Exited:
			c.all += "<exit " + code + ">"
		case Detects:
			c.all += "<detects>"
		}
		c.change.Broadcast()
	})
	return c
}

// until waits for what is shown to hold a text, and forgets it up to there.
func (c *screen) until(text string) (before string) {
	c.t.Helper()
	timeout := time.AfterFunc(patience, func() { c.mu.Lock(); c.change.Broadcast(); c.mu.Unlock() })
	defer timeout.Stop()
	deadline := time.Now().Add(patience)
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if i := strings.Index(c.all, text); i >= 0 {
			before, c.all = c.all[:i], c.all[i+len(text):]
			return before
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("%q did not come; shown: %q", text, c.all[max(0, len(c.all)-2000):])
		}
		c.change.Wait()
	}
}

func (c *screen) typed(s string) {
	c.t.Helper()
	if err := c.Input(s, func() {}); err != nil {
		c.t.Fatal(err)
	}
}

func bash(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal("these tests need bash")
	}
	return path
}

func TestBashMarksItsCommands(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	rc := "PS1='ready> '; PROMPT_COMMAND='seen=$?'; export FROM_RC=yes\n"
	if err := os.WriteFile(filepath.Join(os.Getenv("HOME"), ".bashrc"), []byte(rc), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "a b é")
	if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sub", "notes"), []byte("up\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := open(t, newSet(t), Open{Shell: bash(t), Dir: dir})
	c.until("ready> ")
	c.typed("echo rc=$FROM_RC\r")
	c.until("<run echo rc=$FROM_RC>")
	if out := c.until("<end 0>"); out != "rc=yes\r\n" {
		t.Errorf("output %q", out)
	}
	c.until("ready> ")
	c.typed("(exit 3)\r")
	c.until("<run (exit 3)><end 3>")
	c.until("ready> ")
	c.typed("echo seen=$seen\r") // the user's own prompt command sees the real code
	c.until("<run echo seen=$seen>seen=3\r\n<end 0>")
	c.until("ready> ")
	c.typed("cd sub\r")
	c.until("<run cd sub><end 0><in " + dir + "/sub>")
	c.until("ready> ")
	c.typed("\r") // no command
	if out := c.until("ready> "); strings.Contains(out, "<run") {
		t.Errorf("an empty line ran something: %q", out)
	}
	c.typed("echo 'two\rlines é'\r")
	c.until("<run echo 'two\nlines é'>two\r\nlines é\r\n<end 0>")
	c.until("ready> ")
	c.typed("HISTCONTROL=ignorespace\r")
	c.until("ready> ")
	c.typed(" echo secret x\b\x7f\x7fed\r") // not in the history: read off the screen
	c.until("<end 0>")
	c.until("ready> ")
	// bash announces a command before it starts it, and loses a ^C in between; so
	// does a shell between its own words and what it executes.
	c.typed("tail -f notes\r")
	c.until("<run tail -f notes>up\r\n")
	c.typed("\x03")
	c.until("<end 130>")
	c.until("ready> ")
	c.typed("exit 5\r")
	c.until("<exit 5>")
	<-c.Done()
	c.View(func(st *State) {
		if !st.Detects || !st.Exited || *st.Code != 5 || st.Dir != dir+"/sub" || st.Title != "bash" {
			t.Errorf("state %+v", st)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if a, b := shown(st), shown(&c.folded); a != b {
			t.Errorf("the state and the folded events differ:\n%q\n%q", a, b)
		}
	})
	if err := c.Input("x", func() { t.Error("taken") }); err != ErrOver {
		t.Errorf("input after the end: %v", err)
	}
	if b, err := os.ReadFile(filepath.Join(os.Getenv("HOME"), ".bashrc")); err != nil || string(b) != rc {
		t.Errorf("the user's file is %q, %v", b, err)
	}
}

func TestAPlainShellMarksNothing(t *testing.T) {
	t.Parallel()
	c := open(t, newSet(t), Open{Shell: "/bin/sh"})
	c.typed("echo o''k; exit\r")
	if out := c.until("ok\r\n<exit 0>"); strings.Contains(out, "<") {
		t.Errorf("shown: %q", out)
	}
	if c.folded.Detects {
		t.Error("detects commands")
	}
}

func TestTheShellIsToldOfTheSize(t *testing.T) {
	t.Parallel()
	c := open(t, newSet(t), Open{Shell: "/bin/sh", Command: "stty size; trap 'stty size; exit' WINCH; echo wai''ting; while :; do sleep 0.05; done", Cols: 100, Rows: 30})
	c.until("30 100\r\n")
	c.until("waiting")
	if c.Resize(100, 30, nil) || !c.Resize(120, 40, nil) {
		t.Error("changes are told wrongly")
	}
	c.until("40 120\r\n<exit 0>")
}

func TestTheExitComesAfterAllOutput(t *testing.T) {
	t.Parallel()
	c := open(t, newSet(t), Open{Shell: "/bin/sh", Command: `i=0; while [ $i -lt 5000 ]; do i=$((i+1)); echo "line $i"; done; kill -9 $$`})
	if out := c.until("<exit 137>"); !strings.HasSuffix(out, "line 5000\r\n") {
		t.Errorf("the end of the output: %q", out[max(0, len(out)-40):])
	}
}

func TestInputThatTheShellDoesNotReadIsRefused(t *testing.T) {
	t.Parallel()
	c := open(t, newSet(t), Open{Shell: "/bin/sh", Command: "stty raw -echo; echo go; sleep 1000"})
	c.until("go")
	for range 1000 {
		if err := c.Input(strings.Repeat("x", MaxInput/16), func() {}); err != nil {
			if err != ErrBusy {
				t.Error(err)
			}
			return
		}
	}
	t.Error("all was taken")
}

// left are the processes of a terminal.
func left(t *testing.T, c *screen) []int {
	t.Helper()
	pids, err := procgroup.Marked(procgroup.MarkVar, c.group.Mark())
	if err != nil {
		t.Fatal(err)
	}
	return pids
}

func TestRemovingEndsTheWholeTree(t *testing.T) {
	t.Parallel()
	for name, command := range map[string]string{
		"jobs":                       "sleep 1000 & sleep 1000 & echo rea''dy; wait",
		"a session of its own":       "setsid sleep 1000 & echo rea''dy; wait",
		"HUP and TERM are ignored":   "trap '' HUP TERM; echo rea''dy; while :; do sleep 1; done",
		"ignored by a child as well": "trap '' HUP TERM INT; sh -c 'while :; do sleep 1; done' & echo rea''dy; exec sleep 1000",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSet(t)
			c := open(t, s, Open{Shell: bash(t), Command: command})
			c.until("ready")
			begin := time.Now()
			s.Remove(c.Terminal)
			if d := time.Since(begin); d > patience/2 {
				t.Errorf("took %v", d)
			}
			if pids := left(t, c); len(pids) > 0 {
				t.Errorf("left: %v", pids)
			}
			if _, there := s.Get(c.ID); there {
				t.Error("still in the set")
			}
			c.until("<exit ")
		})
	}
}

func TestWhatAShellStartedEndsWithIt(t *testing.T) {
	t.Parallel()
	c := open(t, newSet(t), Open{Shell: "/bin/sh", Command: "setsid sleep 1000 & echo out; exit 4"})
	c.until("out\r\n<exit 4>")
	<-c.Done()
	if pids := left(t, c); len(pids) > 0 {
		t.Errorf("left: %v", pids)
	}
}

func TestAFloodIsBoundedAndBlocksNobody(t *testing.T) {
	s := newSet(t)
	flood := open(t, s, Open{Shell: "/bin/sh", Command: "yes 'a line of a flood'"})
	flood.until("a line")
	total := func() (n int) {
		flood.mu.Lock()
		defer flood.mu.Unlock()
		n, flood.all = len(flood.all), ""
		return n
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for seen := 0; seen < 4*scrollback; {
		seen += total()
		time.Sleep(time.Millisecond)
	}
	quick := open(t, s, Open{Shell: "/bin/sh", Command: "echo quick"})
	quick.until("quick\r\n<exit 0>")
	flood.View(func(st *State) {
		if st.size > scrollback+scrollbackOver+readSize {
			t.Errorf("%d bytes are kept", st.size)
		}
	})
	total()
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 16*scrollback {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	s.Remove(flood.Terminal)
}

func TestTheEnvironmentIsAllowListed(t *testing.T) {
	t.Setenv("SOME_SECRET", "hidden")
	s := NewSet(Options{Env: []string{"MARK=here"}, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(s.Close)
	c := open(t, s, Open{Shell: "/bin/sh", Command: `echo "[$SOME_SECRET][$MARK][$TERM]"`})
	c.until("[][here][xterm-256color]")
}

func TestBadShellsAndFullSets(t *testing.T) {
	t.Parallel()
	s := newSet(t)
	for _, shell := range []string{"bash", "/no/such/shell", t.TempDir(), "./x"} {
		if _, err := s.Open(Open{Shell: shell, Dir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), ErrShell.Error()) {
			t.Errorf("%s: %v", shell, err)
		}
	}
	if _, err := s.Open(Open{Shell: "/bin/sh", Dir: "/no/such/dir"}); err == nil {
		t.Error("no error for a missing directory")
	}
	first := open(t, s, Open{Shell: "/bin/sh", Command: "exit 0", Owner: Owner{Session: id.New()}})
	<-first.Done()
	s.mu.Lock()
	s.opening = MaxTerminals - 1
	s.mu.Unlock()
	second := open(t, s, Open{Shell: "/bin/sh", Command: "sleep 1000", Owner: Owner{Session: id.New()}})
	if _, there := s.Get(first.ID); there {
		t.Error("the ended terminal did not make room")
	}
	if _, err := s.Open(Open{Shell: "/bin/sh", Dir: t.TempDir()}); err != ErrFull {
		t.Errorf("a full set: %v", err)
	}
	s.RemoveOf(first.Owner().Session)
	if _, there := s.Get(second.ID); !there {
		t.Error("another session's terminal is gone")
	}
	s.RemoveOf(second.Owner().Session)
	if len(s.All()) != 0 {
		t.Error("the session's terminal is there")
	}
	s.Close()
	if _, err := s.Open(Open{Shell: "/bin/sh", Dir: t.TempDir()}); err != ErrClosed {
		t.Errorf("a closed set: %v", err)
	}
}
