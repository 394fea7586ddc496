package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/lines"
	"github.com/polyhost/polyhost/core/procgroup/proctest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sh starts a shell script as the program.
func sh(t *testing.T, script string, change ...func(*Spec)) *Proc {
	t.Helper()
	s := Spec{Path: "/bin/sh", Args: []string{"-c", script}, Dir: t.TempDir()}
	for _, c := range change {
		c(&s)
	}
	p, err := Start(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		p.Release()
	})
	return p
}

func soon(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

func next(t *testing.T, p *Proc) string {
	t.Helper()
	line, err := p.Next()
	if err != nil {
		t.Fatalf("next: %v; %s", err, p.Tail())
	}
	return string(line)
}

func TestRecordsGoBothWaysInOrder(t *testing.T) {
	t.Parallel()
	p := sh(t, "cat")
	for _, r := range []string{`{"a":1}`, `{"b":"` + strings.Repeat("x", 200_000) + `"}`, `{"c":3}`} {
		if err := p.Write([]byte(r)); err != nil {
			t.Fatal(err)
		}
		if got := next(t, p); got != r {
			t.Errorf("%.40s came back as %.40s", r, got)
		}
	}
	p.CloseInput()
	if _, err := p.Next(); err != io.EOF {
		t.Errorf("after the end: %v", err)
	}
	<-p.Done()
	if p.Code() != 0 {
		t.Errorf("ended with %s", p.Exit())
	}
}

func TestNoiseAndHugeRecordsAreStepsNotEnds(t *testing.T) {
	t.Parallel()
	p := sh(t, `echo 'Loading sk-abcdefghijklmnop'; echo '{"n":1}'; head -c 5000 /dev/zero | tr '\0' '{'; echo; echo '{"n":2}'`,
		func(s *Spec) { s.Limit = 1000 })
	if got := next(t, p); got != `{"n":1}` {
		t.Error(got)
	}
	_, err := p.Next()
	if long := new(lines.TooLongError); !errors.As(err, &long) || long.Length != 5000 {
		t.Errorf("a huge record gave %v", err)
	}
	if got := next(t, p); got != `{"n":2}` {
		t.Error(got)
	}
	if tail := p.Tail(); !strings.Contains(tail, "Loading") || strings.Contains(tail, "abcdefgh") {
		t.Errorf("tail %q", tail)
	}
}

func TestAnEndIsToldWithItsReasonAndWithoutSecrets(t *testing.T) {
	t.Parallel()
	p := sh(t, `printf '\033[31mbad key %s and hdr-secret\033[0m\n' "$MY_TOKEN" >&2; exit 7`, func(s *Spec) {
		s.Env = []string{"MY_TOKEN=correct-horse"}
		s.Secrets = []string{"hdr-secret"}
	})
	if _, err := p.Next(); err != io.EOF {
		t.Fatal(err)
	}
	<-p.Done()
	if got, want := p.Exit(), "exit status 7: bad key [hidden] and [hidden]"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	soon(t, "writes fail", func() bool { return errors.Is(p.Write([]byte("{}")), ErrEnded) })
}

func TestWriteNeverBlocks(t *testing.T) {
	t.Parallel()
	p := sh(t, "exec sleep 300")
	big := bytes.Repeat([]byte("x"), 8<<20)
	var err error
	for range 20 {
		if err = p.Write(big); err != nil {
			break
		}
	}
	if !errors.Is(err, ErrFull) {
		t.Errorf("a program that does not read: %v", err)
	}
}

const stubborn = `trap '' TERM; (setsid sh -c 'trap "" TERM; echo $$ > escaped; while :; do sleep 1; done') & echo '{}'; while :; do sleep 1; done`

func TestCloseEndsTheWholeTreeInTime(t *testing.T) {
	t.Parallel()
	var dir string
	p := sh(t, stubborn, func(s *Spec) { dir = s.Dir })
	next(t, p)
	soon(t, "the child escapes", func() bool { b, _ := os.ReadFile(filepath.Join(dir, "escaped")); return len(b) > 0 })
	begin := time.Now()
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(begin); d > inputGrace+termGrace+2*time.Second {
		t.Errorf("took %v", d)
	}
	if left, err := p.Processes(); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
	if _, err := p.Next(); err != io.EOF {
		t.Errorf("after close: %v", err)
	}
}

func TestAPipeThatAStrangerHoldsIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	// Without the mark nobody finds it; it is let go at the end of the test.
	dir := t.TempDir()
	p := sh(t, `echo '{"last":1}'; env -i setsid /bin/sh -c 'until [ -e stop ]; do /bin/sleep 0.05; done' & exit 0`, func(s *Spec) { s.Dir = dir })
	defer os.WriteFile(filepath.Join(dir, "stop"), nil, 0o600)
	if got := next(t, p); got != `{"last":1}` {
		t.Error(got)
	}
	if _, err := p.Next(); err != io.EOF {
		t.Error(err)
	}
}

func TestWhatWasSaidLastIsReadByASlowReader(t *testing.T) {
	t.Parallel()
	p := sh(t, `for i in 1 2 3 4 5 6 7 8 9; do echo "{\"i\":$i}"; done`)
	<-p.Done()
	for i := 1; i <= 9; i++ {
		next(t, p)
	}
	if _, err := p.Next(); err != io.EOF {
		t.Error(err)
	}
}

func TestEndOthersSparesTheProgramAndWhatWasThere(t *testing.T) {
	t.Parallel()
	p := sh(t, `sleep 300 & echo '{"server":1}'; read line; setsid sh -c 'trap "" TERM INT; while :; do sleep 1; done' & echo '{"tool":1}'; read line; echo '{"alive":1}'`)
	next(t, p)
	var keep []Process
	soon(t, "the first child runs", func() bool { keep, _ = p.Processes(); return len(keep) == 2 })
	_ = p.Write([]byte("go"))
	next(t, p)
	soon(t, "the tool runs", func() bool { all, _ := p.Processes(); return len(all) > 2 })
	if err := p.EndOthers(keep); err != nil {
		t.Fatal(err)
	}
	if all, _ := p.Processes(); len(all) != 2 {
		t.Errorf("there are %v, want %v", all, keep)
	}
	_ = p.Write([]byte("go on"))
	if got := next(t, p); got != `{"alive":1}` {
		t.Error(got)
	}
}

func TestFindAndVersionSayWhatToDo(t *testing.T) {
	dir := t.TempDir()
	tool := filepath.Join(dir, "tool")
	write := func(script string) { proctest.Script(t, tool, "#!/bin/sh\n"+script) }
	prog := Program{Title: "Tool", Name: "no-such-tool", Var: "TOOL_PATH", Install: "get tool", Oldest: "1.20"}
	problem := func(err error) agent.Problem {
		t.Helper()
		p := new(agent.Problem)
		if !errors.As(err, &p) {
			t.Fatalf("error %v", err)
		}
		return *p
	}
	_, _, err := prog.Find()
	if p := problem(err); p.Code != agent.ProblemMissing || p.Fix != "get tool" {
		t.Error(p)
	}
	t.Setenv("TOOL_PATH", tool)
	_, _, err = prog.Find()
	if p := problem(err); p.Code != agent.ProblemMissing || !strings.Contains(p.Error(), "TOOL_PATH") {
		t.Error(p)
	}
	write("echo tool v1.20.3 '(build)'")
	t.Setenv("TOOL_PATH_ARGS", " --x  y ")
	path, args, err := prog.Find()
	if err != nil || path != tool || !slices.Equal(args, []string{"--x", "y"}) {
		t.Fatal(path, args, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if v, err := prog.Version(ctx, Spec{Path: path}); v != "1.20.3" || err != nil {
		t.Error(v, err)
	}
	write("echo 1.3")
	v, err := prog.Version(ctx, Spec{Path: path})
	if p := problem(err); v != "1.3" || p.Code != agent.ProblemTooOld {
		t.Error(v, p)
	}
	write("echo no libc >&2; exit 1")
	_, err = prog.Version(ctx, Spec{Path: path})
	if p := problem(err); p.Code != agent.ProblemBroken || !strings.Contains(p.Message, "no libc") {
		t.Error(p)
	}
	write("exec sleep 300")
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = prog.Version(short, Spec{Path: path})
	if p := problem(err); p.Code != agent.ProblemBroken {
		t.Error(p)
	}
}
