// Package procgroup runs a program as a process group of its own and ends it
// as a whole: politely, then by force, and never longer than a bound.
//
// A member can leave its group by starting a session of its own. Every group
// therefore carries a mark in its environment, which children inherit, and Stop
// ends what bears the mark wherever it went. The package knows no agent and no
// gateway; it works on Linux, whose /proc it reads.
package procgroup

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// MarkVar is the environment variable with the mark of a group. The mark of a
// group that was started from inside another one begins with the outer mark
// and a slash.
const MarkVar = "POLYHOST_GROUP"

// Group is a running program with what it started.
type Group struct {
	cmd  *exec.Cmd
	mark string
	done chan struct{}

	mu     sync.Mutex
	reaped bool // the group's id may belong to somebody else from now on
	err    error
}

// Start starts cmd as the leader of a new group, or of a new session where its
// SysProcAttr says Setsid. Its Stdout and Stderr must be nil or files, so that its
// end never waits for a pipe a grandchild holds. When the leader exits, what is
// left of its group is killed.
func Start(cmd *exec.Cmd) (*Group, error) {
	g := &Group{cmd: cmd, mark: newMark(), done: make(chan struct{})}
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	// The last value of a variable counts.
	cmd.Env = append(cmd.Env, MarkVar+"="+g.mark)
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = !cmd.SysProcAttr.Setsid // the leader of a session leads its group
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	go g.reap()
	return g, nil
}

func newMark() string {
	mark := strings.ToLower(rand.Text()[:16])
	if outer := os.Getenv(MarkVar); outer != "" {
		return outer + "/" + mark
	}
	return mark
}

// Mark is the value of MarkVar in the group's environment.
func (g *Group) Mark() string { return g.mark }

// PID is the leader's process id, which is also the group's.
func (g *Group) PID() int { return g.cmd.Process.Pid }

// Done is closed when the leader has exited and its group was killed.
func (g *Group) Done() <-chan struct{} { return g.done }

// Err is how the leader exited, as from exec.Cmd.Wait; valid after Done.
func (g *Group) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// reap owns the leader's end: it kills the rest of the group while the dead
// leader still holds the group's id, and only then gives the id back.
func (g *Group) reap() {
	defer close(g.done)
	for {
		err := unix.Waitid(unix.P_PID, g.PID(), nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	_ = unix.Kill(-g.PID(), unix.SIGKILL)
	g.err = g.cmd.Wait()
	g.reaped = true
}

// Signal sends sig to all members; a group that is over gets nothing.
func (g *Group) Signal(sig syscall.Signal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.reaped {
		_ = unix.Kill(-g.PID(), sig)
	}
}

// Stop ends the tree: TERM, after grace KILL, then whatever bears the mark. It
// returns within grace and a few seconds; an error says what would not end.
func (g *Group) Stop(grace time.Duration) error {
	if grace > 0 {
		g.Signal(syscall.SIGTERM)
	}
	var stuck error
	if !g.wait(grace) {
		g.Signal(syscall.SIGKILL)
		if !g.wait(reapBound) {
			stuck = fmt.Errorf("process group %d does not end", g.PID())
		}
	}
	_, err := KillMarked(MarkVar, g.mark)
	return errors.Join(stuck, err)
}

func (g *Group) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-g.done:
		return true
	case <-t.C:
		return false
	}
}
