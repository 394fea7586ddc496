package terminal

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/polyhost/polyhost/core/id"
)

// Errors of opening a terminal.
var (
	ErrFull   = fmt.Errorf("there are %d terminals already", MaxTerminals)
	ErrClosed = errors.New("the gateway is stopping")
)

// Options are what all terminals share.
type Options struct {
	// Files is a directory for the start-up files of shells, made when it is
	// needed; "" leaves shells as they are.
	Files string
	// Env is added to the environment of every shell.
	Env []string
	Log *slog.Logger
}

// Set owns terminals.
type Set struct {
	o    Options
	host string

	mu      sync.Mutex
	list    []*Terminal // in the order they were opened
	opening int
	closed  bool
	written bool // the start-up files are there

	watching sync.Mutex // held while watchers hear, so that all hear one order
	watchers []func(t *Terminal, open bool)
	told     []*Terminal // those that watchers know
}

// NewSet makes an empty set.
func NewSet(o Options) *Set { return &Set{o: o, host: hostname()} }

// Open says what a terminal is to be.
type Open struct {
	// Shell is an absolute path; "" is the user's.
	Shell string
	// Command is run by the shell in the place of a dialogue; "" is none.
	Command string
	// Dir is the directory to begin in, absolute.
	Dir string
	// Title is the shell's name or the command when it is "".
	Title string
	// Cols and Rows are the size in characters; 0 is the default.
	Cols, Rows int
	// Owner is whose it is.
	Owner Owner
	// ID is chosen by the set where it is Nil.
	ID id.ID
}

// Owner is the session whose end ends a terminal, with the call that it was
// opened for. The zero Owner is no session.
type Owner struct {
	Session, Chat id.ID
	// Turn and Call are the names of the turn and of the call.
	Turn, Call string
}

// Open starts a terminal. When the set is full, the oldest whose shell has
// ended makes room.
func (s *Set) Open(o Open) (*Terminal, error) {
	old, err := s.reserve()
	if err != nil {
		return nil, err
	}
	if old != nil {
		s.Remove(old)
	}
	t, err := s.start(o)
	s.mu.Lock()
	s.opening--
	if err != nil {
		s.mu.Unlock()
		return nil, err
	}
	closed := s.closed
	if !closed {
		s.list = append(s.list, t)
	}
	s.mu.Unlock()
	if closed {
		t.End()
		return nil, ErrClosed
	}
	s.tell(t)
	return t, nil
}

// reserve makes sure of a place; old is who must go for it.
func (s *Set) reserve() (old *Terminal, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	if len(s.list)+s.opening >= MaxTerminals {
		i := slices.IndexFunc(s.list, (*Terminal).over)
		if i < 0 {
			return nil, ErrFull
		}
		old = s.list[i]
	}
	s.opening++
	return old, nil
}

// files is the directory of the start-up files, once they are there.
func (s *Set) files() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.o.Files == "" || s.written {
		return s.o.Files
	}
	if err := writeIntegration(s.o.Files); err != nil {
		s.o.Log.Warn("Shells cannot be told to mark their commands", "err", err)
		return ""
	}
	s.written = true
	return s.o.Files
}

// Watch calls f for every terminal that is there, then for each that is opened
// or removed, one at a time. f must not block, and not open or remove.
func (s *Set) Watch(f func(t *Terminal, open bool)) {
	s.watching.Lock()
	defer s.watching.Unlock()
	for _, t := range s.told {
		f(t, true)
	}
	s.watchers = append(s.watchers, f)
}

// tell tells whether a terminal is there as it is now: who opened it and who
// removed it may come here in either order.
func (s *Set) tell(t *Terminal) {
	s.watching.Lock()
	defer s.watching.Unlock()
	open, at := slices.Contains(s.All(), t), slices.Index(s.told, t)
	switch {
	case open == (at >= 0):
		return
	case open:
		s.told = append(s.told, t)
	default:
		s.told = slices.Delete(s.told, at, at+1)
	}
	for _, f := range s.watchers {
		f(t, open)
	}
}

// All are the terminals that are there, the oldest first.
func (s *Set) All() []*Terminal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}

// Get finds a terminal.
func (s *Set) Get(x id.ID) (*Terminal, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.list, func(t *Terminal) bool { return t.ID == x }); i >= 0 {
		return s.list[i], true
	}
	return nil, false
}

// Remove takes a terminal out of the set and ends what runs in it. It returns
// once that is gone, within a few seconds.
func (s *Set) Remove(t *Terminal) {
	s.mu.Lock()
	i := slices.Index(s.list, t)
	if i >= 0 {
		s.list = slices.Delete(s.list, i, i+1)
	}
	s.mu.Unlock()
	if i >= 0 {
		s.tell(t)
	}
	t.End()
}

// RemoveOf removes the terminals of a session.
func (s *Set) RemoveOf(session id.ID) {
	var wg sync.WaitGroup
	for _, t := range s.All() {
		if t.Owner().Session == session {
			wg.Go(func() { s.Remove(t) })
		}
	}
	wg.Wait()
}

// Close removes all terminals and opens no more.
func (s *Set) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	var wg sync.WaitGroup
	for _, t := range s.All() {
		wg.Go(func() { s.Remove(t) })
	}
	wg.Wait()
}
