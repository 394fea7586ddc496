package boltstore

import (
	"context"

	"github.com/polyhost/polyhost/core/store"
)

// probeKey is what a look at the home's health writes.
const probeKey = "health"

// Health implements store.Store.
func (s *Store) Health(ctx context.Context) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	failure := s.failure.Load()
	if failure == nil {
		return nil
	}
	if s.isBroken() {
		return s.breaking
	}
	// A full disk may have room again. That others write says little: what is
	// small may fit where the large still does not.
	probe := s.Commit(store.Batch{Put: []store.KV{{Key: probeKey, Value: make([]byte, probeSize)}}})
	if err := store.Wait(ctx, probe); err != nil {
		return err
	}
	s.failure.CompareAndSwap(failure, nil)
	return store.Wait(ctx, s.Commit(store.Batch{Delete: []string{probeKey}}))
}

// Broken is closed once nothing more will be written until the home is opened
// again; Health says why.
func (s *Store) Broken() <-chan struct{} { return s.broken }

func (s *Store) isBroken() bool {
	select {
	case <-s.broken:
		return true
	default:
		return false
	}
}
