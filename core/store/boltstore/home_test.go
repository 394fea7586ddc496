package boltstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/polyhost/polyhost/core/store"
)

func openHome(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestSecondOpenIsRefusedWithThePidOfTheFirst(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := openHome(t, dir)
	_, err := Open(dir)
	if !errors.Is(err, store.ErrLocked) || !strings.Contains(err.Error(), fmt.Sprintf("pid %d", os.Getpid())) {
		t.Errorf("the second open: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, pidFile)); !os.IsNotExist(err) {
		t.Errorf("the pid of a closed home: %v", err)
	}
	openHome(t, dir)
}

func TestPidFileOfADeadProcessIsNoLock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, pidFile), []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	openHome(t, dir)
}

func TestHomeIsForItsOwnerOnly(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "home")
	s := openHome(t, dir)
	blob, err := s.PutBlob(t.Context(), []byte("private"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", dbFile, pidFile, blobDir, filepath.Join(blobDir, blob)} {
		info, err := os.Stat(filepath.Join(dir, path))
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%q: %v, %v", path, info.Mode(), err)
		}
	}
}

func TestHomeOfAnotherFormatIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openHome(t, dir)
	err := s.db.Update(func(tx *bolt.Tx) error { return tx.Bucket(metaBucket).Put(formatKey, []byte("3")) })
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), `format is "3"`) {
		t.Errorf("opened: %v", err)
	}
}

func TestHalfWrittenBlobsAreSwept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openHome(t, dir)
	blob, err := s.PutBlob(t.Context(), []byte("whole"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	half := filepath.Join(dir, blobDir, "123"+temporary)
	if err := os.WriteFile(half, []byte("ha"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = openHome(t, dir)
	if _, err := os.Stat(half); !os.IsNotExist(err) {
		t.Errorf("the half blob: %v", err)
	}
	if _, err := s.Blob(t.Context(), blob); err != nil {
		t.Errorf("the whole blob: %v", err)
	}
}

// With the usual small map, a commit that makes the file grow would wait for
// the reader to close.
func TestHeldReaderDoesNotStopCommits(t *testing.T) {
	t.Parallel()
	s := openHome(t, t.TempDir())
	reader, err := s.db.Begin(false)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Rollback()
	var last store.Ticket
	for i := uint64(1); i <= 300; i++ {
		last = s.Commit(store.Batch{Log: "a", Records: []store.Record{{First: i, Last: i, Data: make([]byte, 100<<10)}}})
	}
	select {
	case <-last.Done():
		if last.Err() != nil {
			t.Error(last.Err())
		}
	case <-time.After(time.Minute):
		_ = reader.Rollback() // or Close would wait for it too
		t.Fatal("commits wait for the reader")
	}
}

func TestLongListOfFreePagesIsNotWrittenWithEachCommit(t *testing.T) {
	t.Parallel()
	s := openHome(t, t.TempDir())
	commit := func(b store.Batch) {
		t.Helper()
		if err := store.Wait(t.Context(), s.Commit(b)); err != nil {
			t.Fatal(err)
		}
	}
	listed := func() bool {
		t.Helper()
		commit(store.Batch{Put: []store.KV{{Key: "k"}}})
		return !s.db.NoFreelistSync
	}
	big := make([]byte, 10<<20)
	commit(store.Batch{Log: "a", Records: []store.Record{{First: 1, Last: 1, Data: big}, {First: 2, Last: 2, Data: big}}})
	if !listed() {
		t.Error("a short list is not written, so opening has to read the whole file")
	}
	commit(store.Batch{DropLog: "a"})
	if listed() {
		t.Error("a long list is written with each commit")
	}
}
