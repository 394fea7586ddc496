// Package watch tells of changes to files, by the kernel's notifications and
// never by looking again and again: watched files that rest cost nothing.
//
// One goroutine reads all events, gathers them for a moment and tells each
// watch in batches; Deliver is called by it and must not block. A directory
// that appears in a recursive watch is watched from then on, and what it holds
// is told as added.
//
// Loss: a notification queue that overflows, or a batch that grows beyond its
// bound, is told as one change of the watch's root, which means: look for
// yourself. A file that is replaced by renaming another one over it is told as
// added, as the kernel does not say that there was one.
package watch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
)

var (
	// ErrInvalid: a pattern or path that cannot be watched for.
	ErrInvalid = errors.New("cannot be watched")
	// ErrTooMany: a limit of this package or of the kernel.
	ErrTooMany = errors.New("too much is watched already")
	// ErrClosed: the watcher was closed.
	ErrClosed = errors.New("watcher is closed")
)

// Kind is what happened to a file.
type Kind string

const (
	Added   Kind = "added"
	Updated Kind = "updated"
	Deleted Kind = "deleted"
)

// Change is one of a file or directory.
type Change struct {
	// Path is the watch's root, or below it.
	Path string
	Kind Kind
}

// Options say what is watched.
type Options struct {
	// Root is an absolute path of a file or directory, without links in it.
	Root string
	// Recursive watches everything below Root; otherwise Root itself and, if
	// it is a directory, what is directly in it.
	Recursive bool
	// Includes, if any, are what alone is told, Excludes what is not: globs or
	// paths relative to Root. One that names a directory means all in it.
	Includes, Excludes []string
	// Most is how many directories all watches together may have with this one;
	// 0 is MaxDirs. It keeps room for those that are allowed more.
	Most int
	// For, if it is not nil, is whom the watch is for, and Share how many
	// directories the watches of one and the same may have, each counted by
	// itself.
	For   any
	Share int
	// Hidden paths are neither watched nor told.
	Hidden func(path string) bool
	// Deliver gets the changes in batches, never an empty one. It must not
	// block. A call that has begun may end after Watch.Close.
	Deliver func([]Change)
}

// Watcher holds all watches.
type Watcher struct {
	fs   *fsnotify.Watcher
	log  *slog.Logger
	done chan struct{}

	mu      sync.Mutex
	closed  bool
	watches map[*Watch]struct{}
	dirs    map[string]map[*Watch]struct{} // who watches a directory
	shares  map[any]int                    // how many directories those have that watches are for
	due     *time.Timer                    // runs while a batch is gathered
	waking  bool                           // it does
	stats   Stats
}

// Stats count what a watcher does.
type Stats struct {
	// Watches and Dirs are there now.
	Watches, Dirs int
	// Wakes is how often the goroutine had something to do.
	Wakes uint64
	// Rescans is how often a watch was told to look for itself.
	Rescans uint64
}

// New makes a watcher. Close must be called.
func New(log *slog.Logger) (*Watcher, error) {
	n, err := fsnotify.NewBufferedWatcher(0)
	if err != nil {
		return nil, fmt.Errorf("watch files: %w", err)
	}
	w := &Watcher{fs: n, log: log, done: make(chan struct{}), watches: map[*Watch]struct{}{}, dirs: map[string]map[*Watch]struct{}{}, shares: map[any]int{}}
	w.due = time.NewTimer(time.Hour)
	w.due.Stop()
	go w.run()
	return w, nil
}

// Close ends all watches and waits for the last delivery.
func (w *Watcher) Close() error {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	err := w.fs.Close()
	<-w.done
	return err
}

// Stats returns the counters.
func (w *Watcher) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.stats
	s.Watches, s.Dirs = len(w.watches), len(w.dirs)
	return s
}

// Watch is one of them.
type Watch struct {
	w    *Watcher
	o    Options
	only string // the one file that is watched, or ""

	// Under the watcher's lock.
	over    bool
	rescan  bool
	order   []string
	changes map[string]Kind
}

// Watch begins to watch. What happens after it returns is told. It looks for
// directories until ctx ends.
func (w *Watcher) Watch(ctx context.Context, o Options) (*Watch, error) {
	if o.Most == 0 {
		o.Most = MaxDirs
	}
	for _, list := range [][]string{o.Includes, o.Excludes} {
		if err := checkPatterns(list); err != nil {
			return nil, err
		}
	}
	info, err := os.Lstat(o.Root)
	if err != nil {
		return nil, err
	}
	t := &Watch{w: w, o: o, changes: map[string]Kind{}}
	w.mu.Lock()
	switch {
	case w.closed:
		err = ErrClosed
	case len(w.watches) >= MaxWatches:
		err = fmt.Errorf("%w: %d watches", ErrTooMany, MaxWatches)
	default:
		w.watches[t] = struct{}{}
	}
	w.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		err = t.add(ctx, o.Root, false)
	} else {
		t.only = o.Root
		err = t.addDir(filepath.Dir(o.Root))
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// Close ends the watch.
func (t *Watch) Close() {
	w := t.w
	w.mu.Lock()
	defer w.mu.Unlock()
	t.over = true
	delete(w.watches, t)
	for dir, users := range w.dirs {
		if _, ok := users[t]; ok {
			w.dropLocked(dir, t)
		}
	}
}

// add watches a directory and, in a recursive watch, those below it. With
// tell, what is in them is told: they have just appeared.
func (t *Watch) add(ctx context.Context, dir string, tell bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if t.hides(dir) || dir != t.o.Root && t.prunes(dir) {
		return nil
	}
	// First the watch, then the look: what comes in between is told twice
	// rather than never.
	if err := t.addDir(dir); err != nil {
		return err
	}
	if !t.o.Recursive && !tell {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // it went, or nobody may look into it
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if tell {
			t.note(path, Added)
		}
		if t.o.Recursive && e.IsDir() {
			if err := t.add(ctx, path, tell); err != nil {
				return err
			}
		}
	}
	return nil
}

// addDir asks the kernel for a directory. One that went meanwhile, or that
// nobody may look into, is passed over, unless it is the root.
func (t *Watch) addDir(dir string) error {
	w := t.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.over || w.closed {
		return ErrClosed
	}
	users := w.dirs[dir]
	if _, has := users[t]; has {
		return nil
	}
	if t.o.For != nil && w.shares[t.o.For] >= t.o.Share {
		return fmt.Errorf("%w: %d directories for one", ErrTooMany, t.o.Share)
	}
	if users == nil {
		if len(w.dirs) >= t.o.Most {
			return fmt.Errorf("%w: %d directories", ErrTooMany, t.o.Most)
		}
		err := w.fs.Add(dir)
		switch {
		case errors.Is(err, syscall.ENOSPC):
			return fmt.Errorf("%w: the system's limit of watches is reached", ErrTooMany)
		case err != nil && dir == t.o.Root:
			return err
		case err != nil:
			return nil
		}
		users = map[*Watch]struct{}{}
		w.dirs[dir] = users
	}
	users[t] = struct{}{}
	if t.o.For != nil {
		w.shares[t.o.For]++
	}
	return nil
}

// givenBackLocked counts one directory less.
func (w *Watcher) givenBackLocked(t *Watch) {
	if t.o.For == nil {
		return
	}
	if w.shares[t.o.For]--; w.shares[t.o.For] == 0 {
		delete(w.shares, t.o.For)
	}
}

// dropLocked ends a watch's interest in a directory.
func (w *Watcher) dropLocked(dir string, t *Watch) {
	users := w.dirs[dir]
	delete(users, t)
	w.givenBackLocked(t)
	if len(users) == 0 {
		delete(w.dirs, dir)
		_ = w.fs.Remove(dir) // it may be gone, and the kernel's watch with it
	}
}

// run reads events until the watcher is closed.
func (w *Watcher) run() {
	defer close(w.done)
	defer w.due.Stop()
	for {
		select {
		case e, ok := <-w.fs.Events:
			if !ok {
				return
			}
			w.woke()
			w.event(e)
		case err, ok := <-w.fs.Errors:
			if !ok {
				return
			}
			w.woke()
			w.failed(err)
		case <-w.due.C:
			w.woke()
			w.deliver()
		}
	}
}

func (w *Watcher) woke() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stats.Wakes++
}

// event tells those concerned of one event.
func (w *Watcher) event(e fsnotify.Event) {
	path := filepath.Clean(e.Name)
	kind := Updated
	switch {
	case e.Has(fsnotify.Create):
		kind = Added
	case e.Has(fsnotify.Remove), e.Has(fsnotify.Rename):
		kind = Deleted
	case !e.Has(fsnotify.Write):
		return
	}
	w.mu.Lock()
	var concerned []*Watch
	for t := range w.dirs[filepath.Dir(path)] {
		concerned = append(concerned, t)
	}
	if kind == Deleted {
		w.forgetLocked(path)
	}
	w.mu.Unlock()
	for _, t := range concerned {
		t.note(path, kind)
		if kind != Added || !t.o.Recursive || t.only != "" {
			continue
		}
		if info, err := os.Lstat(path); err == nil && info.IsDir() {
			if err := t.add(context.Background(), path, true); err != nil && !errors.Is(err, ErrClosed) {
				w.log.Warn("A new directory cannot be watched", "path", path, "err", err)
			}
		}
	}
}

// forgetLocked drops a directory that is not there any more, and those below:
// one that was moved away would tell under a name that it no longer has. It
// tells the watches whose roots went with it.
func (w *Watcher) forgetLocked(path string) {
	if _, ok := w.dirs[path]; !ok {
		return
	}
	below := path + "/"
	for dir := range w.dirs {
		if dir == path || strings.HasPrefix(dir, below) {
			for t := range w.dirs[dir] {
				w.givenBackLocked(t)
				if t.o.Root == dir || t.only != "" {
					t.noteLocked(t.o.Root, Deleted)
				}
			}
			delete(w.dirs, dir)
			_ = w.fs.Remove(dir) // it may be gone, and the kernel's watch with it
		}
	}
}

// failed is told of lost events, after which nothing is sure.
func (w *Watcher) failed(err error) {
	if !errors.Is(err, fsnotify.ErrEventOverflow) {
		w.log.Warn("Watching files met an error", "err", err)
		return
	}
	w.log.Warn("Changes of files came faster than they were read")
	w.mu.Lock()
	watches := make([]*Watch, 0, len(w.watches))
	for t := range w.watches {
		watches = append(watches, t)
	}
	w.mu.Unlock()
	for _, t := range watches {
		t.lost()
		if t.only != "" {
			continue
		}
		// Directories that appeared in between are not known yet.
		if err := t.add(context.Background(), t.o.Root, false); err != nil && !errors.Is(err, ErrClosed) && !errors.Is(err, fs.ErrNotExist) {
			w.log.Warn("A directory cannot be watched any more", "path", t.o.Root, "err", err)
		}
	}
}
