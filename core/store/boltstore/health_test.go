package boltstore

import (
	"errors"
	"syscall"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/polyhost/polyhost/core/store"
)

// The sync that counts is the last one of a commit. A disk that fails just that
// one cannot be made, so the commit is made whole and then said to have failed.
func TestAStoreWhoseLastSyncFailedWritesNoMoreUntilItIsOpenedAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openHome(t, dir)
	mustCommit(t, s, store.Batch{Log: "a", Records: []store.Record{sized(1, 10)}})
	if err := s.Health(t.Context()); err != nil {
		t.Errorf("a healthy store: %v", err)
	}
	id := 0
	if err := s.db.Update(func(tx *bolt.Tx) error { id = tx.ID(); return nil }); err != nil {
		t.Fatal(err)
	}
	failure := s.afterFailure(id, syscall.EIO)
	s.failure.Store(&failure)
	select {
	case <-s.Broken():
	default:
		t.Error("nobody is told")
	}
	for what, err := range map[string]error{
		"a look at its health": s.Health(t.Context()),
		"a write":              store.Wait(t.Context(), s.Commit(store.Batch{Log: "a", Records: []store.Record{sized(2, 10)}})),
	} {
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if rs, err := s.Read(t.Context(), "a", 1, 1<<20); err != nil || len(rs) != 1 {
		t.Errorf("reads: %d records, %v", len(rs), err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openHome(t, dir)
	mustCommit(t, s, store.Batch{Log: "a", Records: []store.Record{sized(2, 10)}})
}
