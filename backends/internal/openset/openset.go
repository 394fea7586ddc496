// Package openset holds the open conversations of a backend and ends them
// together. It must not know an agent.
package openset

import (
	"errors"
	"maps"
	"slices"
	"sync"
)

// ErrClosed is returned by Add when the backend is closed.
var ErrClosed = errors.New("the agent is closed")

// Set holds conversations. The zero value is ready to use.
type Set[C interface {
	comparable
	Close() error
}] struct {
	mu     sync.Mutex
	open   map[C]struct{}
	closed bool
}

// Add takes a conversation in; it is to leave by Remove when it is closed.
func (s *Set[C]) Add(c C) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if s.open == nil {
		s.open = map[C]struct{}{}
	}
	s.open[c] = struct{}{}
	return nil
}

// Remove lets a conversation go; one that is not there too.
func (s *Set[C]) Remove(c C) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
}

// All are the open conversations, in no order.
func (s *Set[C]) All() []C {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.open))
}

// Close takes no more in and closes those that are open, all at once. It
// returns when they are closed.
func (s *Set[C]) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	all := s.All()
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, c := range all {
		wg.Go(func() { errs[i] = c.Close() })
	}
	wg.Wait()
	return errors.Join(errs...)
}
