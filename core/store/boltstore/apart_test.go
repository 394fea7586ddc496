package boltstore

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/polyhost/polyhost/core/store"
	"github.com/polyhost/polyhost/core/store/storetest"
)

// openApart opens a home where values of that many bytes are large; a record
// has some more than its data.
func openApart(dir string, apart int) (*Store, error) {
	s, err := Open(dir)
	if err == nil {
		s.apart = apart
	}
	return s, err
}

func apartHomes(apart int) func(t *testing.T) storetest.Home {
	return func(t *testing.T) storetest.Home {
		dir := t.TempDir()
		return func() store.Store {
			s, err := openApart(dir, apart)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
	}
}

func TestLargeValuesKeepTheContract(t *testing.T) { storetest.Run(t, apartHomes(1)) }

// The model's values are on both sides of the limit.
func TestModel(t *testing.T) { storetest.RunModel(t, apartHomes(8)) }

func TestKilledWriterKeepsTheLargeValuesItAcknowledged(t *testing.T) {
	storetest.RunCrash(t, func(dir string) (store.Store, error) { return openApart(dir, 1) })
}

func mustCommit(t *testing.T, s *Store, b store.Batch) {
	t.Helper()
	if err := store.Wait(t.Context(), s.Commit(b)); err != nil {
		t.Fatal(err)
	}
}

// checkFile looks at every page of the file.
func checkFile(t *testing.T, s *Store) {
	t.Helper()
	if err := s.db.View(func(tx *bolt.Tx) error {
		var errs []error
		for err := range tx.Check() {
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}); err != nil {
		t.Errorf("the file: %v", err)
	}
}

// sized is a record of a size that tells its number.
func sized(n uint64, size int) store.Record {
	return store.Record{First: n, Last: n, Data: bytes.Repeat([]byte{byte('a' + n%26)}, size)}
}

func TestALargeRecordIsNotWrittenAgainByLaterOnes(t *testing.T) {
	t.Parallel()
	const large, later = 1 << 20, 20
	s := openHome(t, t.TempDir())
	mustCommit(t, s, store.Batch{Log: "a", Records: []store.Record{sized(1, 100)}})
	mustCommit(t, s, store.Batch{Log: "a", Records: []store.Record{sized(2, large)}, Put: []store.KV{{Key: "turn/1", Value: make([]byte, large)}}})
	before := s.db.Stats()
	for n := uint64(3); n < 3+later; n++ {
		mustCommit(t, s, store.Batch{Log: "a", Records: []store.Record{sized(n, 100)}, Put: []store.KV{{Key: fmt.Sprint("turn/", n)}}})
	}
	after := s.db.Stats()
	if written := after.TxStats.GetPageAlloc() - before.TxStats.GetPageAlloc(); written > large {
		t.Errorf("%d small commits wrote %d KiB", later, written>>10)
	}
}

func TestLargeValuesOutliveARestartAndGoWithTheirLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openHome(t, dir)
	var all []store.Record
	for n, size := range []int{10, 1 << 20, largeValue - 2, largeValue - 1, largeValue, 10, 1 << 20} {
		all = append(all, sized(uint64(n+1), size))
	}
	for _, r := range all {
		r.Data = bytes.Clone(r.Data)
		mustCommit(t, s, store.Batch{Log: "a", Records: []store.Record{r}, Put: []store.KV{{Key: "k", Value: bytes.Clone(r.Data)}}})
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openHome(t, dir)
	for from := range all {
		got, err := s.Read(t.Context(), "a", uint64(from+1), math.MaxInt)
		if err != nil || len(got) != len(all)-from {
			t.Fatalf("%d records from %d, %v", len(got), from+1, err)
		}
		for i, r := range got {
			if want := all[from+i]; r.First != want.First || !bytes.Equal(r.Data, want.Data) {
				t.Errorf("record %d comes back as %d of %d bytes, want %d", want.First, r.First, len(r.Data), len(want.Data))
			}
		}
	}
	if v, err := s.Get(t.Context(), "k"); err != nil || len(v) != 1<<20 {
		t.Errorf("the large value has %d bytes, %v", len(v), err)
	}
	mustCommit(t, s, store.Batch{Put: []store.KV{{Key: "k", Value: []byte("small")}}})
	if v, err := s.Get(t.Context(), "k"); err != nil || string(v) != "small" {
		t.Errorf("the value that took its place: %q, %v", v, err)
	}
	mustCommit(t, s, store.Batch{DropLog: "a"})
	mustCommit(t, s, store.Batch{Delete: []string{"k"}}) // what the one before freed can be used now
	stats, size := s.db.Stats(), int64(0)
	if err := s.db.View(func(tx *bolt.Tx) error { size = tx.Size(); return nil }); err != nil {
		t.Fatal(err)
	}
	if used := size - int64(stats.FreePageN+stats.PendingPageN)*4096; used > 1<<20 {
		t.Errorf("%d KiB are in use after the log was dropped", used>>10)
	}
	checkFile(t, s)
}

// A home of before has all values among their neighbours.
func TestHomeOfTheFormatBeforeIsTakenOver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openHome(t, dir)
	s.apart = math.MaxInt
	mustCommit(t, s, store.Batch{Log: "a", Records: []store.Record{sized(1, 10), sized(2, 1<<20)},
		Put: []store.KV{{Key: "k", Value: make([]byte, 1<<20)}, {Key: "gone", Value: make([]byte, 1<<20)}}})
	if err := s.db.Update(func(tx *bolt.Tx) error { return tx.Bucket(metaBucket).Put(formatKey, []byte(formatBefore)) }); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s = openHome(t, dir)
		last, err := s.Last(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		mustCommit(t, s, store.Batch{Log: "a", Records: []store.Record{sized(last+1, 1<<20)}, Delete: []string{"gone"},
			Put: []store.KV{{Key: "k", Value: make([]byte, 1<<20+last)}}})
		got, err := s.Read(t.Context(), "a", 2, math.MaxInt)
		if err != nil || uint64(len(got)) != last || !bytes.Equal(got[0].Data, sized(2, 1<<20).Data) {
			t.Errorf("%d records, %v", len(got), err)
		}
		if kvs, err := s.Scan(t.Context(), "", "", 10, false); err != nil || len(kvs) != 1 || uint64(len(kvs[0].Value)) != 1<<20+last {
			t.Errorf("%d keys, %v", len(kvs), err)
		}
		checkFile(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
