// Package store is the port to what outlives the process: append-only logs,
// key-values, blobs and leases. It knows nothing of sessions.
//
// Ordering: batches are applied in the order of Commit calls, each whole or
// not at all. Durability: a ticket is done once its batch, and every earlier
// one, is on disk. Loss: none for what a done ticket covers; a crash loses at
// most the batches whose tickets were not done. Bounds: the queue of waiting
// batches is bounded in bytes; Commit blocks while it is full. Reads see
// committed data, copy it out, and never hold up a commit.
package store

import (
	"context"
	"errors"
)

var (
	// ErrNotFound: no such key or blob.
	ErrNotFound = errors.New("not found")
	// ErrGap: a batch does not continue its log where the log ends.
	ErrGap = errors.New("log would get a gap")
	// ErrInvalid: a batch that no home would take.
	ErrInvalid = errors.New("invalid batch")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("store is closed")
	// ErrLocked is wrapped when another process holds the home.
	ErrLocked = errors.New("the home is in use by another process")
)

// Record is an entry of a log. It stands for the sequence numbers First to
// Last; records of a log follow each other without gap or overlap, the first
// one begins at 1.
type Record struct {
	First, Last uint64
	Data        []byte
}

// KV is a key with its value.
type KV struct {
	Key   string
	Value []byte
}

// Batch is what is written together: removals first, then records and values.
// The store owns its slices after Commit.
//
// Once a batch that names a log has failed, later batches that name it fail
// too, until one continues exactly where the stored log ends: its owner reads
// Last again and goes on from there, or drops the log.
type Batch struct {
	// Log names the log that Records are appended to; a batch without
	// records may name one to share its fate.
	Log     string
	Records []Record
	Put     []KV
	Delete  []string // keys
	// DropLog removes a whole log.
	DropLog string
	// Lazy batches wait for the flush window; others start a group commit.
	Lazy bool
}

// Ticket tells when a batch is on disk.
type Ticket interface {
	// Done is closed once the batch is on disk, or cannot be.
	Done() <-chan struct{}
	// Err is nil, or why the batch could not be written; valid after Done.
	Err() error
}

// Store is a home of data.
type Store interface {
	// Commit queues a batch.
	Commit(b Batch) Ticket
	// Read returns records of a log in order, from the one that holds
	// sequence number from, until about maxBytes are gathered; at least one
	// record if there is any. No records: the log ends before from.
	Read(ctx context.Context, log string, from uint64, maxBytes int) ([]Record, error)
	// Last is the last sequence number of a log, 0 for none.
	Last(ctx context.Context, log string) (uint64, error)
	// Get returns the value of a key, or ErrNotFound.
	Get(ctx context.Context, key string) ([]byte, error)
	// Scan returns at most limit pairs whose keys begin with prefix, in the
	// order of the keys, from the first key after `after` ("" for the
	// first of all). Reverse goes down from the last key before `after`
	// ("" for the last of all).
	Scan(ctx context.Context, prefix, after string, limit int, reverse bool) ([]KV, error)
	// PutBlob stores bytes under the name of their hash, on disk when it
	// returns.
	PutBlob(ctx context.Context, data []byte) (name string, err error)
	// Blob returns what PutBlob stored, or ErrNotFound.
	Blob(ctx context.Context, name string) ([]byte, error)
	// Health is nil while the home takes writes, else why it does not. After a
	// write that failed, it waits for one of its own.
	Health(ctx context.Context) error
	// Close writes what is queued and lets the home go.
	Close() error
}

// Wait waits for a ticket.
func Wait(ctx context.Context, t Ticket) error {
	select {
	case <-t.Done():
		return t.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
