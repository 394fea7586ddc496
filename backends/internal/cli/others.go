package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/polyhost/polyhost/core/procgroup"
)

// Process is a process that cannot be mistaken for a later one of its id.
type Process struct {
	PID   int
	begun string // in clock ticks since the machine's start
}

// Processes lists the program and all that it started and that still runs.
func (p *Proc) Processes() ([]Process, error) {
	pids, err := procgroup.Marked(procgroup.MarkVar, p.group.Mark())
	if err != nil {
		return nil, err
	}
	var all []Process
	for _, pid := range pids {
		if begun, ok := begun(pid); ok {
			all = append(all, Process{pid, begun})
		}
	}
	return all, nil
}

// EndOthers kills what the program started, but for those in keep and the
// program itself: for a command that outlived the turn it ran in. Keep is what
// Processes said before the turn.
//
// With marks, NAME=value settings, only those that were started with all of
// them are meant.
func (p *Proc) EndOthers(keep []Process, marks ...string) error {
	for range strayRounds {
		all, err := p.Processes()
		if err != nil {
			return err
		}
		others := slices.DeleteFunc(all, func(q Process) bool { return q.PID == p.PID() || slices.Contains(keep, q) || !q.has(marks) })
		if len(others) == 0 {
			return nil
		}
		for _, q := range others {
			if err := q.kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
				return fmt.Errorf("end process %d: %w", q.PID, err)
			}
		}
		time.Sleep(strayPause)
	}
	return fmt.Errorf("what %d started does not end", p.PID())
}

// has tells whether the process was started with all the settings.
func (q Process) has(settings []string) bool {
	if len(settings) == 0 {
		return true
	}
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", q.PID))
	if err != nil {
		return false
	}
	all := strings.Split(string(env), "\x00")
	return !slices.ContainsFunc(settings, func(s string) bool { return !slices.Contains(all, s) })
}

// kill opens a handle before it looks at the process again, so that an id that
// was given to another one meanwhile is not mistaken.
func (q Process) kill() error {
	h, err := os.FindProcess(q.PID)
	if err != nil {
		return nil
	}
	defer h.Release()
	if now, ok := begun(q.PID); !ok || now != q.begun {
		return nil
	}
	return h.Signal(syscall.SIGKILL)
}

// begun is when a process started; false for one that is gone or dead.
func begun(pid int) (string, bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", false
	}
	// The name may contain anything; after its bracket come the state and,
	// as the 20th field, the start time.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 || string(fields[0]) == "Z" {
		return "", false
	}
	return string(fields[19]), true
}
