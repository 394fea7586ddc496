package boltstore

import (
	"errors"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// A page of the file holds two entries at least, however large they are, and is
// written again whenever one of its entries is. A large value is therefore kept
// in a bucket of its own under its key, alone on its pages, and the page that
// its neighbours share has only the address of it. It is written, read and
// deleted like any other.

// aloneKey is the key of the value in such a bucket.
var aloneKey = []byte("v")

// put writes a value, on pages of its own if it is as large as apart.
func put(b *bolt.Bucket, key, value []byte, apart int) error {
	if len(value) < apart {
		err := b.Put(key, value)
		if errors.Is(err, bolterrors.ErrIncompatibleValue) { // what was there is large
			if err = b.DeleteBucket(key); err == nil {
				err = b.Put(key, value)
			}
		}
		return err
	}
	if err := remove(b, key); err != nil {
		return err
	}
	alone, err := b.CreateBucket(key)
	if err != nil {
		return err
	}
	return alone.Put(aloneKey, value)
}

// remove deletes a value; one that is not there does not matter.
func remove(b *bolt.Bucket, key []byte) error {
	err := b.Delete(key)
	if errors.Is(err, bolterrors.ErrIncompatibleValue) {
		return b.DeleteBucket(key)
	}
	return err
}

// valueOf is the value that a cursor on b found at k: v, or for a large one
// what its bucket holds.
func valueOf(b *bolt.Bucket, k, v []byte) []byte {
	if v != nil || k == nil {
		return v
	}
	return b.Bucket(k).Get(aloneKey)
}

// get returns the value of a key, nil if there is none.
func get(b *bolt.Bucket, key []byte) []byte {
	if v := b.Get(key); v != nil {
		return v
	}
	if alone := b.Bucket(key); alone != nil {
		return alone.Get(aloneKey)
	}
	return nil
}
