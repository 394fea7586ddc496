package contract

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/procgroup/proctest"
)

// Luck has the prompts that make an agent's program fail. All must be set.
type Luck struct {
	// Open opens a backend whose program obeys the prompts.
	Open func(t *testing.T) agent.Backend
	// Program opens a backend that runs another program. One that only starts
	// with the first turn gives it about a second.
	Program func(t *testing.T, path string) agent.Backend
	// Text makes the agent answer with TextWant.
	Text, TextWant string
	// Garbage makes the program print what is no record, Huge a record of
	// 40 MiB; then the turn goes on.
	Garbage, Huge string
	// Die makes the program end with DieWant, its status and last words.
	Die, DieWant string
	// Doomed makes the program end when there is a file "die" in the working
	// directory; then the turn goes on.
	Doomed string
	// Deaf makes the agent say something, and heed no interrupt from then on.
	Deaf string
	// Exec makes it run a shell command after asking for permission.
	Exec func(command string) string
}

// cancelBound is how long a process of a turn may be there after its cancel.
const cancelBound = 5500 * time.Millisecond

// deafBound is how long the end of a turn may take whose program must be
// stopped.
const deafBound = 8 * time.Second

// hangBound is how long the start of a program that hangs may take, which the
// caller gave a second, with the end of a program that ignores TERM.
const hangBound = 6 * time.Second

// BadLuck tests what becomes of a conversation when the agent's program fails:
// the clients are told, the next turn works, and nothing is left running.
func BadLuck(t *testing.T, l Luck) {
	s := suite{open: l.Open, c: Config{Exec: l.Exec}}
	for _, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"it hangs at its start", l.hangs},
		{"it prints garbage", func(t *testing.T) {
			k := s.begin(t)
			k.prompt("t1", l.Garbage+"\n"+l.Text)
			frames := k.until(agent.TurnEnd)
			k.ended(frames, "t1", event.TurnComplete)
			if got := spoken(frames); got != l.TextWant {
				t.Errorf("said %q", got)
			}
		}},
		{"it prints a line of 40 MiB", func(t *testing.T) {
			k := s.begin(t)
			k.prompt("t1", l.Huge+"\n"+l.Text)
			frames := k.until(agent.TurnEnd)
			k.ended(frames, "t1", event.TurnComplete)
			if got, n := spoken(frames), notices(frames); got != l.TextWant || n != "truncated" {
				t.Errorf("said %q, noticed %q", got, n)
			}
		}},
		{"it dies in a turn", func(t *testing.T) {
			k := s.begin(t)
			k.prompt("t1", l.Text)
			k.until(agent.TurnEnd)
			k.prompt("t2", l.Die)
			l.died(k, k.until(agent.TurnEnd), "t2", l.DieWant)
		}},
		{"it dies while an approval is open", func(t *testing.T) {
			k := s.begin(t)
			k.prompt("t1", l.Doomed+"\n"+l.Exec("touch ran"))
			f := k.permission()
			if err := os.WriteFile(filepath.Join(k.dir, "die"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			frames := k.until(agent.TurnEnd)
			taken := 0
			for _, w := range frames {
				if w.Kind == agent.Withdrawn && w.Request == f.Request {
					taken++
				}
			}
			if taken != 1 {
				t.Errorf("the request was taken back %d times", taken)
			}
			k.answer(f.Request, allow)
			_ = os.Remove(filepath.Join(k.dir, "die"))
			l.died(k, frames, "t1", "")
			k.never("ran")
		}},
		{"it ignores an interrupt", func(t *testing.T) {
			k := s.begin(t)
			k.prompt("t1", l.Text)
			k.until(agent.TurnEnd)
			k.prompt("t2", l.Deaf)
			k.until(agent.TextDelta)
			began := time.Now()
			if err := k.Interrupt(k.ctx); err != nil {
				t.Fatal(err)
			}
			k.ended(k.until(agent.TurnEnd), "t2", event.TurnCancelled)
			k.within(began, deafBound, "the end of the turn")
			l.usable(k)
		}},
		{"it leaves grandchildren", func(t *testing.T) {
			k := s.begin(t)
			k.prompt("t1", l.Exec(escaping))
			k.answer(k.permission().Request, allow)
			pids := append(k.pids("pids"), k.pids("escaped")...)
			began := time.Now()
			if err := k.Interrupt(k.ctx); err != nil {
				t.Fatal(err)
			}
			k.ended(k.until(agent.TurnEnd), "t1", event.TurnCancelled)
			k.gone(pids)
			k.within(began, cancelBound, "their end")
			l.usable(k)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t)
		})
	}
}

// escaping traps TERM, and has a child that left its session and traps it too.
const escaping = `trap '' TERM INT HUP; ` +
	`setsid sh -c 'trap "" TERM INT HUP; echo $$ > escaped.tmp; mv escaped.tmp escaped; while :; do sleep 1; done' & ` +
	`echo $$ > pids.tmp; mv pids.tmp pids; while :; do sleep 1; done`

// mute is a program that starts, has a child, and never says a word.
const mute = `#!/bin/sh
cd "$(dirname "$0")"
trap '' TERM
sleep 300 &
echo $$ $! > pids.tmp; mv pids.tmp pids
while :; do sleep 1; done
`

func (l Luck) hangs(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "agent")
	proctest.Script(t, path, mute)
	b := l.Program(t, path)
	defer b.Close()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	short, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	c, err := b.Open(short, agent.Open{Session: "s", Chat: "c", Dirs: []string{dir}})
	k := &talk{t: t, dir: dir, ctx: ctx, Conversation: c}
	var p *agent.Problem
	switch {
	case err == nil: // it only starts with the first turn
		k.prompt("t1", l.Text)
		end := last(k.until(agent.TurnEnd))
		if end.Status != event.TurnFailed || end.Error == nil || end.Error.Code != event.CodeAgentStart || !strings.Contains(end.Error.Message, "in time") {
			t.Errorf("the turn ended %s, %+v", end.Status, end.Error)
		}
	case !errors.As(err, &p) || p.Code != agent.ProblemBroken || !strings.Contains(p.Message, "in time") || p.Fix == "":
		t.Errorf("open: %v", err)
	}
	k.within(began, hangBound, "the failure")
	k.gone(k.pids("pids"))
}

// PrintHuge prints one line of more than 40 MiB, piece by piece: to put it
// together first takes a stand-in seconds.
func PrintHuge(head, tail string) {
	_, _ = os.Stdout.WriteString(head)
	piece := strings.Repeat("x", 64<<10)
	for range (40 << 20) / len(piece) {
		_, _ = os.Stdout.WriteString(piece)
	}
	_, _ = os.Stdout.WriteString(tail + "\n")
}

// died checks a turn in which the program ended, and the next one.
func (l Luck) died(k *talk, frames []agent.Frame, turn, want string) {
	k.t.Helper()
	end := k.ended(frames, turn, event.TurnFailed)
	if end.Error == nil || end.Error.Code != "agent_died" || !strings.Contains(end.Error.Message, want) {
		k.t.Errorf("the turn failed with %+v, want %q", end.Error, want)
	}
	l.usable(k)
}

// usable checks that the same conversation goes on.
func (l Luck) usable(k *talk) {
	k.t.Helper()
	k.prompt("after", l.Text)
	frames := k.until(agent.TurnEnd)
	k.ended(frames, "after", event.TurnComplete)
	if got := spoken(frames); got != l.TextWant {
		k.t.Errorf("afterwards it said %q", got)
	}
}

func notices(frames []agent.Frame) string {
	var codes []string
	for _, f := range frames {
		if f.Kind == agent.Notice {
			codes = append(codes, f.Notice.Code)
		}
	}
	return strings.Join(codes, " ")
}

// pids waits for a file of process ids.
func (k *talk) pids(name string) (pids []int) {
	k.t.Helper()
	k.eventually("there is "+name, func() bool {
		b, err := os.ReadFile(filepath.Join(k.dir, name))
		if err != nil {
			return false
		}
		for _, f := range strings.Fields(string(b)) {
			pid, err := strconv.Atoi(f)
			if err != nil {
				k.t.Fatalf("%s: %q", name, b)
			}
			pids = append(pids, pid)
		}
		return true
	})
	return pids
}
