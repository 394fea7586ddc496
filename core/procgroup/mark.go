package procgroup

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// Marked lists the processes of this user, other than this one, that have the
// environment variable name with the given value, or with a value that goes on
// after it with a slash.
func Marked(name, value string) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if hasMark(pid, name, value) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// KillMarked kills the processes that Marked lists, and what they start
// meanwhile, and returns how many there were.
func KillMarked(name, value string) (int, error) {
	killed := map[int]bool{}
	for range markRounds {
		pids, err := Marked(name, value)
		if err != nil {
			return len(killed), err
		}
		if len(pids) == 0 {
			return len(killed), nil
		}
		for _, pid := range pids {
			if kill(pid, name, value) {
				killed[pid] = true
			}
		}
		time.Sleep(markPause)
	}
	return len(killed), fmt.Errorf("processes marked %s=%s do not end", name, value)
}

// kill ends one process. The handle is opened before the mark is looked at
// again, so a process id that was reused in between is not mistaken.
func kill(pid int, name, value string) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer p.Release()
	return hasMark(pid, name, value) && p.Signal(syscall.SIGKILL) == nil
}

func hasMark(pid int, name, value string) bool {
	// Unreadable means another user's or gone: not ours either way.
	env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return false
	}
	for v := range bytes.SplitSeq(env, []byte{0}) {
		rest, ok := bytes.CutPrefix(v, []byte(name+"="+value))
		if ok && (len(rest) == 0 || rest[0] == '/') {
			return true
		}
	}
	return false
}
