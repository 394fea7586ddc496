// Package boltstore is the home on disk: one bbolt file, and a file for each
// blob. It knows nothing of sessions.
//
// Ordering: one goroutine writes, in the order of Commit calls. Group commit:
// whatever gathers while one transaction is synced becomes the next one; a
// durable batch that finds the writer idle starts one at once, lazy batches
// wait a bounded time for a durable one to go with. Tickets are done after the
// sync. Loss: nothing that a done ticket covers; a crash loses what is queued
// and the group being written, each batch whole.
//
// Failure: when a group cannot be written, each of its batches is tried alone;
// the tickets of those that fail have the cause, and later ones are tried; a
// log that missed a batch takes nothing until it is continued exactly where it
// ends on disk. If it cannot be known whether a group is on disk, the store
// writes nothing more until it is opened again.
//
// Bounds: batches that are not written yet are bounded in bytes. Blocking:
// Commit waits while that queue is full. Reads copy out in a transaction of
// their own and close it before they return; no iterator leaves the package,
// because an open transaction keeps old pages from being used again. A read may
// see a group while its last sync is under way.
//
// Ownership: the process that holds the lock of the database file owns the
// home. polyhost.pid only says who that is.
package boltstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/polyhost/polyhost/core/store"
	"github.com/polyhost/polyhost/core/store/internal/gate"
)

const (
	dbFile  = "polyhost.db"
	pidFile = "polyhost.pid"
	blobDir = "blobs"
	// format is the layout of the database file; others are refused, except for
	// the one before: it has no value on pages of its own.
	format       = "2"
	formatBefore = "1"
)

// The buckets of the database file. logsBucket holds one bucket for each log,
// with the big-endian First of a record as the key.
var (
	metaBucket = []byte("meta")
	keysBucket = []byte("keys")
	logsBucket = []byte("logs")
	formatKey  = []byte("format")
)

// Store is an open home.
type Store struct {
	dir   string
	db    *bolt.DB
	queue *queue
	apart int // the size from which values have pages of their own

	// Owned by the goroutine that writes.
	gate gate.Gate

	failure  atomic.Pointer[error] // of a write, until one of Health's succeeds
	broken   chan struct{}         // closed when nothing more is written
	breaking error                 // why; valid once broken is closed

	writerDone chan struct{}
	close      func() error
}

var _ store.Store = (*Store)(nil)

// Open opens the home in dir and makes it if need be. If another process has
// it, the error wraps store.ErrLocked and names that process.
func Open(dir string) (*Store, error) {
	s, err := open(dir)
	if err != nil {
		return nil, fmt.Errorf("open the home %s: %w", dir, err)
	}
	return s, nil
}

func open(dir string) (*Store, error) {
	if err := os.MkdirAll(filepath.Join(dir, blobDir), 0o700); err != nil {
		return nil, err
	}
	db, err := bolt.Open(filepath.Join(dir, dbFile), 0o600, &bolt.Options{
		Timeout:         openTimeout,
		FreelistType:    bolt.FreelistMapType,
		InitialMmapSize: initialMap,
	})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, locked(dir)
	}
	if err != nil {
		return nil, err
	}
	if err := prepare(dir, db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	s := &Store{dir: dir, db: db, queue: newQueue(), apart: largeValue, writerDone: make(chan struct{}),
		broken: make(chan struct{})}
	s.close = sync.OnceValue(s.shut)
	go s.writer()
	return s, nil
}

// prepare makes what a home consists of, now that the lock is held.
func prepare(dir string, db *bolt.DB) error {
	pid := strconv.Itoa(os.Getpid()) + "\n"
	if err := os.WriteFile(filepath.Join(dir, pidFile), []byte(pid), 0o600); err != nil {
		return err
	}
	if err := sweepBlobs(dir); err != nil {
		return err
	}
	var found string
	err := db.View(func(tx *bolt.Tx) error {
		if meta := tx.Bucket(metaBucket); meta != nil {
			found = string(meta.Get(formatKey))
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case found == format:
		return nil
	case found != "" && found != formatBefore:
		return fmt.Errorf("its format is %q, this program knows %q", found, format)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for _, name := range [][]byte{metaBucket, keysBucket, logsBucket} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		return tx.Bucket(metaBucket).Put(formatKey, []byte(format))
	})
	if err != nil {
		return err
	}
	// A new file survives a power cut only once its folder is synced too.
	return errors.Join(syncDir(dir), syncDir(filepath.Dir(dir)))
}

func locked(dir string) error {
	b, err := os.ReadFile(filepath.Join(dir, pidFile))
	pid, numErr := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || numErr != nil {
		return store.ErrLocked
	}
	return fmt.Errorf("%w (pid %d)", store.ErrLocked, pid)
}

// Commit queues a batch; it blocks while the queue is full.
func (s *Store) Commit(b store.Batch) store.Ticket {
	t := newTicket(b)
	if !s.queue.push(t) {
		t.settle(store.ErrClosed)
	}
	return t
}

// Close writes what is queued, waits for readers and lets the home go. Closing
// again returns what the first call did.
func (s *Store) Close() error { return s.close() }

func (s *Store) shut() error {
	s.queue.close()
	<-s.writerDone
	err := os.Remove(filepath.Join(s.dir, pidFile))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, s.db.Close())
}

// view runs a read in a transaction of its own.
func (s *Store) view(ctx context.Context, read func(tx *bolt.Tx)) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	err := s.db.View(func(tx *bolt.Tx) error {
		read(tx)
		return nil
	})
	if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		return store.ErrClosed
	}
	return err
}
