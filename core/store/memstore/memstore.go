// Package memstore is the home in memory, for tests and for hosts that keep
// nothing. It knows nothing of sessions.
//
// Ordering and refusals are those of the port. Durability: a batch is as safe
// as it will be when Commit returns; what was stored lasts as long as the
// process, across Close and Reopen. Bounds: none but memory. Blocking: Commit
// waits for readers that copy out, nothing else.
package memstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/polyhost/polyhost/core/store"
	"github.com/polyhost/polyhost/core/store/internal/gate"
)

// Store is an open memory home.
type Store struct {
	data *data

	mu     sync.Mutex
	closed bool
}

// data outlives the Store that wrote it, as a directory would.
type data struct {
	mu    sync.RWMutex
	gate  gate.Gate
	logs  map[string][]store.Record
	kvs   []store.KV // sorted by key
	blobs map[string][]byte
}

var _ store.Store = (*Store)(nil)

// New returns an empty home.
func New() *Store {
	return &Store{data: &data{
		logs:  make(map[string][]store.Record),
		blobs: make(map[string][]byte),
	}}
}

// Reopen returns a store over what this one holds, as if a new process had
// opened the same home. Close this one first.
func (s *Store) Reopen() *Store {
	s.data.mu.Lock()
	defer s.data.mu.Unlock()
	s.data.gate = gate.Gate{}
	return &Store{data: s.data}
}

// ticket is born done.
type ticket struct{ err error }

var done = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func (ticket) Done() <-chan struct{} { return done }
func (t ticket) Err() error          { return t.err }

// Commit applies a batch at once.
func (s *Store) Commit(b store.Batch) store.Ticket {
	if err := s.usable(context.Background()); err != nil {
		return ticket{err}
	}
	d := s.data
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.gate.Admit(&b, d.end); err != nil {
		return ticket{err}
	}
	d.apply(&b)
	return ticket{}
}

func (d *data) apply(b *store.Batch) {
	delete(d.logs, b.DropLog)
	for _, k := range b.Delete {
		if i, ok := d.find(k); ok {
			d.kvs = slices.Delete(d.kvs, i, i+1)
		}
	}
	if len(b.Records) > 0 {
		d.logs[b.Log] = append(d.logs[b.Log], b.Records...)
	}
	for _, kv := range b.Put {
		i, ok := d.find(kv.Key)
		if ok {
			d.kvs[i] = kv
		} else {
			d.kvs = slices.Insert(d.kvs, i, kv)
		}
	}
}

// Read implements store.Store.
func (s *Store) Read(ctx context.Context, log string, from uint64, maxBytes int) ([]store.Record, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	s.data.mu.RLock()
	defer s.data.mu.RUnlock()
	rs := s.data.logs[log]
	i := sort.Search(len(rs), func(i int) bool { return rs[i].Last >= from })
	var out []store.Record
	size := 0
	for _, r := range rs[i:] {
		if size += len(r.Data); len(out) > 0 && size > maxBytes {
			break
		}
		r.Data = bytes.Clone(r.Data)
		out = append(out, r)
	}
	return out, nil
}

// Last implements store.Store.
func (s *Store) Last(ctx context.Context, log string) (uint64, error) {
	if err := s.usable(ctx); err != nil {
		return 0, err
	}
	s.data.mu.RLock()
	defer s.data.mu.RUnlock()
	return s.data.end(log), nil
}

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	s.data.mu.RLock()
	defer s.data.mu.RUnlock()
	i, ok := s.data.find(key)
	if !ok {
		return nil, store.ErrNotFound
	}
	return bytes.Clone(s.data.kvs[i].Value), nil
}

// Scan implements store.Store.
func (s *Store) Scan(ctx context.Context, prefix, after string, limit int, reverse bool) ([]store.KV, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	s.data.mu.RLock()
	defer s.data.mu.RUnlock()
	kvs := s.data.kvs
	lo, _ := s.data.find(prefix)
	hi := lo + sort.Search(len(kvs)-lo, func(i int) bool { return !strings.HasPrefix(kvs[lo+i].Key, prefix) })
	kvs = kvs[lo:hi]
	if after != "" {
		i, found := slices.BinarySearchFunc(kvs, after, byKey)
		switch {
		case reverse:
			kvs = kvs[:i]
		case found:
			kvs = kvs[i+1:]
		default:
			kvs = kvs[i:]
		}
	}
	n := min(max(limit, 0), len(kvs))
	var out []store.KV
	for i := range n {
		kv := kvs[i]
		if reverse {
			kv = kvs[len(kvs)-1-i]
		}
		kv.Value = bytes.Clone(kv.Value)
		out = append(out, kv)
	}
	return out, nil
}

// PutBlob implements store.Store.
func (s *Store) PutBlob(ctx context.Context, b []byte) (string, error) {
	if err := s.usable(ctx); err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	name := hex.EncodeToString(sum[:])
	s.data.mu.Lock()
	defer s.data.mu.Unlock()
	s.data.blobs[name] = bytes.Clone(b)
	return name, nil
}

// Blob implements store.Store.
func (s *Store) Blob(ctx context.Context, name string) ([]byte, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	s.data.mu.RLock()
	defer s.data.mu.RUnlock()
	b, ok := s.data.blobs[name]
	if !ok {
		return nil, store.ErrNotFound
	}
	return bytes.Clone(b), nil
}

// Close refuses what comes after it. Closing again does nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// Health implements store.Store.
func (s *Store) Health(ctx context.Context) error { return s.usable(ctx) }

func (s *Store) usable(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return store.ErrClosed
	}
	return context.Cause(ctx)
}

func (d *data) end(log string) uint64 {
	rs := d.logs[log]
	if len(rs) == 0 {
		return 0
	}
	return rs[len(rs)-1].Last
}

func (d *data) find(key string) (int, bool) {
	return slices.BinarySearchFunc(d.kvs, key, byKey)
}

func byKey(kv store.KV, key string) int { return strings.Compare(kv.Key, key) }
