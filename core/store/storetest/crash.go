package storetest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/polyhost/polyhost/core/store"
)

// crashDir names the home in the child's environment.
const crashDir = "STORETEST_CRASH_DIR"

const (
	crashLogs = 8
	// crashAfter is the number of acknowledged batches before the kill, enough
	// to be in the middle of several groups.
	crashAfter = 300
)

// RunCrash kills a process that writes to a home, and expects that home to
// have every batch that was acknowledged and no half of one. It runs the
// calling test, which has to be a top-level one, again in that process.
func RunCrash(t *testing.T, open func(dir string) (store.Store, error)) {
	if dir := os.Getenv(crashDir); dir != "" {
		writeUntilKilled(t, dir, open)
		return
	}
	dir := t.TempDir()
	for range 3 {
		acknowledged := killWriter(t, dir)
		s, err := open(dir)
		must(t, err)
		for log, acked := range acknowledged {
			checkCrashed(t, s, log, acked)
		}
		must(t, s.Close())
	}
}

// writeUntilKilled goes on where the logs end and prints what is acknowledged.
func writeUntilKilled(t *testing.T, dir string, open func(dir string) (store.Store, error)) {
	s, err := open(dir)
	must(t, err)
	var wg sync.WaitGroup
	for n := range crashLogs {
		log := fmt.Sprint("log-", n)
		last := end(t, s, log)
		tickets := make(chan store.Ticket, 16) // as many are in flight
		wg.Go(func() {
			for acked := last + 1; ; acked++ {
				tk, ok := <-tickets
				if !ok {
					return
				}
				wait(t, tk)
				fmt.Printf("acknowledged %s %d\n", log, acked)
			}
		})
		wg.Go(func() {
			defer close(tickets)
			for i := last + 1; !t.Failed(); i++ {
				tickets <- s.Commit(store.Batch{
					Log: log, Records: []store.Record{rec(i, i)},
					Put:  []store.KV{{Key: log, Value: fmt.Append(nil, i)}},
					Lazy: i%5 == 0,
				})
			}
		})
	}
	wg.Wait()
}

// killWriter returns the last acknowledged number of each log.
func killWriter(t *testing.T, dir string) map[string]uint64 {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), crashDir+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	acknowledged := make(map[string]uint64)
	lines := bufio.NewScanner(out)
	n := 0
	for lines.Scan() {
		var log string
		var i uint64
		if _, err := fmt.Sscanf(lines.Text(), "acknowledged %s %d", &log, &i); err != nil {
			t.Errorf("the writer says %q", lines.Text())
			continue
		}
		acknowledged[log] = i
		if n++; n == crashAfter {
			must(t, cmd.Process.Kill())
		}
	}
	if err := cmd.Wait(); err == nil || n < crashAfter {
		t.Fatalf("the writer ended by itself after %d batches: %v", n, err)
	}
	return acknowledged
}

func checkCrashed(t *testing.T, s store.Store, log string, acknowledged uint64) {
	t.Helper()
	last := end(t, s, log)
	if last < acknowledged {
		t.Errorf("%s ends at %d, %d was acknowledged", log, last, acknowledged)
	}
	if v, err := s.Get(t.Context(), log); err != nil || string(v) != fmt.Sprint(last) {
		t.Errorf("%s ends at %d, the key written with it says %q, %v", log, last, v, err)
	}
	rs := read(t, s, log, 1, 1<<30)
	if uint64(len(rs)) != last {
		t.Errorf("%s has %d records and ends at %d", log, len(rs), last)
	}
	for i, r := range rs {
		if n := uint64(i) + 1; !sameRecord(r, rec(n, n)) {
			t.Fatalf("%s: record %d is %v", log, n, numbers([]store.Record{r}))
		}
	}
}
