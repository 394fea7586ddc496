package boltstore

import (
	"encoding/binary"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/polyhost/polyhost/core/store"
)

// writer writes group after group until the queue is closed and empty.
func (s *Store) writer() {
	defer close(s.writerDone)
	for {
		group := s.queue.next()
		if len(group) == 0 {
			return
		}
		s.write(group)
	}
}

// write writes a group in one transaction, or if that fails each batch in one of
// its own, as a full disk may have room for some; it settles tickets in order.
func (s *Store) write(group []*ticket) {
	bytes := 0
	errs := make([]error, len(group))
	if err := s.transact(group, errs); err != nil {
		if len(group) > 1 && !s.isBroken() {
			for i := range group {
				s.write(group[i : i+1])
			}
			return
		}
		err = fmt.Errorf("write to the home: %w", err)
		s.failure.Store(&err)
		for i, t := range group {
			if errs[i] == nil {
				errs[i] = err
				s.gate.Failed(&t.batch, err)
			}
		}
	}
	for i, t := range group {
		bytes += t.bytes
		t.settle(errs[i])
	}
	s.queue.written(bytes)
}

// transact writes the batches that the gate admits; errs gets the refusals of
// the others. Its own error means that nothing of the group is written.
func (s *Store) transact(group []*ticket, errs []error) error {
	if s.isBroken() {
		return s.breaking
	}
	tx, err := s.db.Begin(true)
	if err != nil {
		return err
	}
	end := func(log string) uint64 { return logEnd(tx, log) }
	refused := 0
	for i, t := range group {
		if errs[i] = s.gate.Admit(&t.batch, end); errs[i] != nil {
			refused++
			continue
		}
		if err := s.apply(tx, &t.batch); err != nil {
			_ = tx.Rollback() // of an open transaction: cannot fail
			return err
		}
	}
	if refused == len(group) {
		return tx.Rollback()
	}
	stats := s.db.Stats()
	s.db.NoFreelistSync = stats.FreePageN+stats.PendingPageN > maxFreePages
	id := tx.ID()
	if err := tx.Commit(); err != nil {
		return s.afterFailure(id, err)
	}
	return nil
}

// afterFailure looks whether the failed transaction can be seen all the same:
// then only its last sync failed, and a crash may show it or not. Writing on
// could overwrite pages that the older state needs.
func (s *Store) afterFailure(id int, cause error) error {
	tx, err := s.db.Begin(false)
	if err == nil {
		seen := tx.ID()
		_ = tx.Rollback() // of an open transaction: cannot fail
		if seen < id {
			return cause
		}
	}
	s.breaking = fmt.Errorf("nothing is written until the home is opened again, since a sync failed: %w", cause)
	close(s.broken)
	return s.breaking
}

// apply writes one batch into a transaction: removals first.
func (s *Store) apply(tx *bolt.Tx, b *store.Batch) error {
	keys, logs := tx.Bucket(keysBucket), tx.Bucket(logsBucket)
	if b.DropLog != "" && logs.Bucket([]byte(b.DropLog)) != nil {
		if err := logs.DeleteBucket([]byte(b.DropLog)); err != nil {
			return err
		}
	}
	for _, k := range b.Delete {
		if err := remove(keys, []byte(k)); err != nil {
			return err
		}
	}
	for _, kv := range b.Put {
		if err := put(keys, []byte(kv.Key), kv.Value, s.apart); err != nil {
			return err
		}
	}
	if len(b.Records) == 0 {
		return nil
	}
	log, err := logs.CreateBucketIfNotExists([]byte(b.Log))
	if err != nil {
		return err
	}
	log.FillPercent = fill
	for _, r := range b.Records {
		if err := put(log, recordKey(r.First), encodeRecord(r), s.apart); err != nil {
			return err
		}
	}
	return nil
}

func recordKey(first uint64) []byte { return binary.BigEndian.AppendUint64(nil, first) }

// encodeRecord puts the number of sequence numbers after First before the data.
func encodeRecord(r store.Record) []byte {
	v := make([]byte, 0, binary.MaxVarintLen64+len(r.Data))
	v = binary.AppendUvarint(v, r.Last-r.First)
	return append(v, r.Data...)
}

// decodeRecord returns a record whose data lie in v.
func decodeRecord(k, v []byte) store.Record {
	first := binary.BigEndian.Uint64(k)
	more, n := binary.Uvarint(v)
	return store.Record{First: first, Last: first + more, Data: v[n:]}
}
