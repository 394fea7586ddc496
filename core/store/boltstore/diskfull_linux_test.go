package boltstore

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"

	"github.com/polyhost/polyhost/core/store"
)

const fullDisk = "BOLTSTORE_FULL_DISK"

// TestFullDiskFailsBatchesAndLeavesNoGap runs in a process of its own, because
// the limit on the size of files that stands for the end of the disk is the
// whole process's.
func TestFullDiskFailsBatchesAndLeavesNoGap(t *testing.T) {
	if dir := os.Getenv(fullDisk); dir != "" {
		fillDisk(t, dir)
		return
	}
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), fullDisk+"="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func fillDisk(t *testing.T, dir string) {
	signal.Ignore(syscall.SIGXFSZ)
	s := openHome(t, dir)
	var next uint64 = 1
	put := func(log string, first uint64) store.Ticket {
		return s.Commit(store.Batch{
			Log: log, Records: []store.Record{{First: first, Last: first, Data: make([]byte, 16<<10)}},
			Put: []store.KV{{Key: log, Value: fmt.Append(nil, first)}},
		})
	}
	try := func(log string, first uint64) error { return store.Wait(t.Context(), put(log, first)) }

	room := limitFiles(t, 1<<20)
	var err error
	for err == nil {
		if err = try("a", next); err == nil {
			next++
		}
	}
	if !errors.Is(err, syscall.EFBIG) {
		t.Fatalf("the failed batch %d says: %v", next, err)
	}
	if next < 3 {
		t.Fatalf("the disk was full after %d batches", next-1)
	}
	if _, err := s.Read(t.Context(), "a", 1, 1<<20); err != nil {
		t.Errorf("a read on the full disk: %v", err)
	}
	if err := s.Health(t.Context()); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("the health on the full disk: %v", err)
	}
	// The large one of these finds no room; the small ones are not to suffer.
	large := s.Commit(store.Batch{Lazy: true, Put: []store.KV{{Key: "large", Value: make([]byte, 2<<20)}}})
	small := s.Commit(store.Batch{Log: "small", Lazy: true, Records: []store.Record{{First: 1, Last: 1}}})
	behindSmall := s.Commit(store.Batch{Log: "small", Put: []store.KV{{Key: "small"}}})
	if err := store.Wait(t.Context(), large); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("the large batch: %v", err)
	}
	for _, ticket := range []store.Ticket{small, behindSmall} {
		if err := store.Wait(t.Context(), ticket); err != nil {
			t.Errorf("a small batch beside it: %v", err)
		}
	}
	room()
	if err := s.Health(t.Context()); err != nil {
		t.Errorf("the health, now that there is room: %v", err)
	}
	// What was on its way behind the failed batch must not be written now.
	if err := try("a", next+1); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("a batch after the failed one: %v", err)
	}
	behind := s.Commit(store.Batch{Log: "a", Put: []store.KV{{Key: "a", Value: []byte("behind")}}})
	if err := store.Wait(t.Context(), behind); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("a value that belongs to the log: %v", err)
	}
	if err := try("c", 1); err != nil {
		t.Errorf("another log, now that there is room: %v", err)
	}
	last, err := s.Last(t.Context(), "a")
	if err != nil || last != next-1 {
		t.Errorf("the log ends at %d, %v, want %d", last, err, next-1)
	}
	if v, err := s.Get(t.Context(), "a"); err != nil || string(v) != fmt.Sprint(last) {
		t.Errorf("the key of the log says %q, %v, want %d", v, err, last)
	}
	if err := try("a", next); err != nil {
		t.Errorf("the log continued: %v", err)
	}
	if err := try("a", next+1); err != nil {
		t.Errorf("the log continued: %v", err)
	}
	checkFile(t, s)
}

// limitFiles fails writes behind that many bytes of a file, as a full disk does
// in a file with holes; the function it returns lifts the limit.
func limitFiles(t *testing.T, bytes uint64) (lift func()) {
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	set := func(l syscall.Rlimit) {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &l); err != nil {
			t.Fatal(err)
		}
	}
	set(syscall.Rlimit{Cur: bytes, Max: old.Max})
	return func() { set(old) }
}
