package boltstore

import (
	"bytes"
	"context"

	bolt "go.etcd.io/bbolt"

	"github.com/polyhost/polyhost/core/store"
)

// Read implements store.Store.
func (s *Store) Read(ctx context.Context, log string, from uint64, maxBytes int) ([]store.Record, error) {
	var out []store.Record
	err := s.view(ctx, func(tx *bolt.Tx) {
		b := openLog(tx, log)
		if b == nil {
			return
		}
		c := b.Cursor()
		size := 0
		for k, v := seekRecord(c, from); k != nil; k, v = c.Next() {
			r := decodeRecord(k, valueOf(b, k, v))
			if r.Last < from {
				continue
			}
			if size += len(r.Data); len(out) > 0 && size > maxBytes {
				return
			}
			r.Data = bytes.Clone(r.Data)
			out = append(out, r)
		}
	})
	return out, err
}

// seekRecord goes to the last record that begins at or before from, or else to
// the first one.
func seekRecord(c *bolt.Cursor, from uint64) (k, v []byte) {
	want := recordKey(from)
	switch k, v = c.Seek(want); {
	case bytes.Equal(k, want):
		return k, v
	case k == nil:
		return c.Last()
	}
	if k, v = c.Prev(); k != nil {
		return k, v
	}
	return c.First()
}

// Last implements store.Store.
func (s *Store) Last(ctx context.Context, log string) (last uint64, err error) {
	err = s.view(ctx, func(tx *bolt.Tx) { last = logEnd(tx, log) })
	return last, err
}

func openLog(tx *bolt.Tx, log string) *bolt.Bucket {
	return tx.Bucket(logsBucket).Bucket([]byte(log))
}

func logEnd(tx *bolt.Tx, log string) uint64 {
	b := openLog(tx, log)
	if b == nil {
		return 0
	}
	k, v := b.Cursor().Last()
	if k == nil {
		return 0
	}
	return decodeRecord(k, valueOf(b, k, v)).Last
}

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	var value []byte
	found := false
	err := s.view(ctx, func(tx *bolt.Tx) {
		v := get(tx.Bucket(keysBucket), []byte(key))
		found = v != nil
		value = bytes.Clone(v)
	})
	if err == nil && !found {
		err = store.ErrNotFound
	}
	return value, err
}

// Scan implements store.Store.
func (s *Store) Scan(ctx context.Context, prefix, after string, limit int, reverse bool) ([]store.KV, error) {
	var out []store.KV
	err := s.view(ctx, func(tx *bolt.Tx) {
		b := tx.Bucket(keysBucket)
		c := b.Cursor()
		start, next := seekUp, c.Next
		if reverse {
			start, next = seekDown, c.Prev
		}
		p := []byte(prefix)
		for k, v := start(c, p, []byte(after)); k != nil && len(out) < limit && bytes.HasPrefix(k, p); k, v = next() {
			out = append(out, store.KV{Key: string(k), Value: bytes.Clone(valueOf(b, k, v))})
		}
	})
	return out, err
}

// seekUp goes to the first key of the prefix that lies after after.
func seekUp(c *bolt.Cursor, prefix, after []byte) (k, v []byte) {
	if bytes.Compare(after, prefix) < 0 {
		return c.Seek(prefix)
	}
	if k, v = c.Seek(after); len(after) > 0 && bytes.Equal(k, after) {
		return c.Next()
	}
	return k, v
}

// seekDown goes to the last key of the prefix that lies before after.
func seekDown(c *bolt.Cursor, prefix, after []byte) (k, v []byte) {
	limit := prefixEnd(prefix)
	if len(after) > 0 && (limit == nil || bytes.Compare(after, limit) < 0) {
		limit = after
	}
	if limit != nil {
		if k, _ = c.Seek(limit); k != nil {
			return c.Prev()
		}
	}
	return c.Last()
}

// prefixEnd is the first key after all that begin with prefix, nil if there is
// no such key.
func prefixEnd(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < 0xff {
			end := bytes.Clone(prefix[:i+1])
			end[i]++
			return end
		}
	}
	return nil
}
