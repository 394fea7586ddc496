// Package addon keeps copies of plugins for agents that clients bring: folders
// of commands, skills, subagents, rules and hooks. It knows no client, no
// protocol and no agent.
//
// A plugin is read through a Source and is hostile: its size, depth and time are
// bounded, its names are written through an os.Root, and links are refused.
// There is one copy of the same content, in a folder named by its hash. Whoever
// uses a copy holds it; the last one that lets go removes it. What a killed
// gateway left is removed by Sweep, once those whose use outlives the gateway
// hold theirs.
//
// Copy blocks for its source, at most CopyWithin; everything else blocks for the
// disk alone.
package addon

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// Errors. Their wrapped texts are fit for clients.
var (
	// ErrNotFound: there is no such copy.
	ErrNotFound = errors.New("there is no copy of the plugin")
	// ErrTooLarge: a limit of this package.
	ErrTooLarge = errors.New("the plugin is too large")
	// ErrFull: no more copies are kept, of anybody or of this client.
	ErrFull = errors.New("there is no room for the plugin")
	// ErrInvalid: what the source has is no plugin.
	ErrInvalid = errors.New("the plugin cannot be copied")
)

// Store keeps copies in a directory.
type Store struct {
	dir   string
	slots chan struct{}

	mu     sync.Mutex
	held   map[string]*kept
	shares map[string]int // how many copies were made for whom, of those held
}

// kept is a copy that is used.
type kept struct {
	users    int
	by       string // for whom it was made; "" after a restart
	contents *Contents
}

// Copy is a plugin's copy, held by one user.
type Copy struct {
	// ID names the copy, also after a restart.
	ID string
	// Dir is where it is. Its last part is the plugin's name.
	Dir string
	// Contents is what is in it. It does not change.
	Contents *Contents

	release func()
}

// Release lets go of the copy. It may be called more than once.
func (c *Copy) Release() { c.release() }

const (
	unfinished = "new-"
	discarded  = "old-"
)

// Open keeps copies in a directory, which it makes. Nothing else may be in it.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("keep copies of plugins: %w", err)
	}
	return &Store{dir: dir, slots: make(chan struct{}, copiesAtOnce), held: map[string]*kept{}, shares: map[string]int{}}, nil
}

var copyName = regexp.MustCompile(`^[0-9a-f]{64}/[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// Hold holds a copy that was made before. ErrNotFound: it is not there.
func (s *Store) Hold(id string) (*Copy, error) {
	if !copyName.MatchString(id) {
		return nil, ErrNotFound
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hold(id)
}

// hold is Hold for who holds mu.
func (s *Store) hold(id string) (*Copy, error) {
	dir := filepath.Join(s.dir, filepath.FromSlash(id))
	k := s.held[id]
	if k == nil {
		contents, err := read(dir)
		if errors.Is(err, os.ErrNotExist) {
			return nil, ErrNotFound
		}
		if err != nil {
			return nil, fmt.Errorf("read a copied plugin: %w", err)
		}
		k = &kept{contents: contents}
		s.held[id] = k
	}
	k.users++
	return &Copy{ID: id, Dir: dir, Contents: k.contents, release: sync.OnceFunc(func() { s.release(id) })}, nil
}

// release lets one user go. A copy that cannot be removed now is by Sweep.
func (s *Store) release(id string) {
	s.mu.Lock()
	k := s.held[id]
	k.users--
	if k.users > 0 {
		s.mu.Unlock()
		return
	}
	delete(s.held, id)
	if s.shares[k.by]--; s.shares[k.by] <= 0 {
		delete(s.shares, k.by)
	}
	gone := filepath.Join(s.dir, discarded+rand.Text())
	err := os.Rename(filepath.Join(s.dir, hashOf(id)), gone)
	s.mu.Unlock()
	if err == nil {
		_ = os.RemoveAll(gone)
	}
}

// hashOf is the folder of a copy.
func hashOf(id string) string {
	hash, _, _ := strings.Cut(id, "/")
	return hash
}

// Sweep removes what nobody holds and what was not finished. It is called before
// the first Copy.
func (s *Store) Sweep() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	used := map[string]bool{}
	for id := range s.held {
		used[hashOf(id)] = true
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("look through the copies of plugins: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if !used[e.Name()] {
			errs = append(errs, os.RemoveAll(filepath.Join(s.dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}
