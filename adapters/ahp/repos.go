package ahp

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/polyhost/polyhost/core/git"
	"github.com/polyhost/polyhost/core/watch"
)

// repos are the directories in working trees that somebody follows. What several
// want to know of one is read once, and one watch tells them all.
type repos struct {
	front *Front
	git   *git.Git

	mu   sync.Mutex
	open map[string]*repo
}

// repo is one directory.
type repo struct {
	repos *repos
	dir   string
	turn  chan struct{} // held while it is read

	mu        sync.Mutex
	followers map[*follower]struct{}
	next      *reading // has not begun
	tree      *git.Tree
	watch     *watch.Watch
	closed    bool
}

// reading is what one look at a directory brought; it is read only once done is
// closed.
type reading struct {
	done   chan struct{}
	left   bool // whoever was to look has left
	tree   *git.Tree
	status *git.Status
	err    error
}

// follower is somebody who wants to know when a directory must be read again.
type follower struct {
	repo *repo
	wake func()
}

func newRepos(f *Front) *repos { return &repos{front: f, git: git.New(), open: map[string]*repo{}} }

// follow begins to follow a directory, from its first reading on; wake must not
// block.
func (s *repos) follow(dir string, wake func()) *follower {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.open[dir]
	if r == nil {
		r = &repo{repos: s, dir: dir, turn: make(chan struct{}, 1), followers: map[*follower]struct{}{}}
		s.open[dir] = r
	}
	f := &follower{r, wake}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.followers[f] = struct{}{}
	return f
}

// leave ends it; with the last follower goes the watch.
func (f *follower) leave() {
	s, r := f.repo.repos, f.repo
	s.mu.Lock()
	defer s.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.followers, f)
	if len(r.followers) == 0 && !r.closed {
		r.closed = true
		delete(s.open, r.dir)
		if r.watch != nil {
			r.watch.Close()
		}
	}
}

// again wakes those who follow the directory.
func (r *repo) again() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for f := range r.followers {
		f.wake()
	}
}

// read gives a reading that began after the call, shared with whoever asks
// before it begins.
func (f *follower) read(ctx context.Context) (*git.Tree, *git.Status, error) {
	r := f.repo
	for {
		r.mu.Lock()
		x, mine := r.next, r.next == nil
		if mine {
			x = &reading{done: make(chan struct{})}
			r.next = x
		}
		r.mu.Unlock()
		if mine {
			r.look(ctx, x)
		}
		select {
		case <-x.done:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
		switch {
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		case x.left:
			continue
		case x.err != nil:
			return nil, nil, x.err
		}
		own := *x.status
		own.Files = slices.Clone(own.Files)
		return x.tree, &own, nil
	}
}

// look reads the directory when its turn comes.
func (r *repo) look(ctx context.Context, x *reading) {
	defer close(x.done)
	held := false
	select {
	case r.turn <- struct{}{}:
		held = true
		defer func() { <-r.turn }()
	case <-ctx.Done():
	}
	r.mu.Lock()
	r.next = nil
	x.tree = r.tree
	r.mu.Unlock()
	if held && x.tree == nil {
		if x.tree, x.err = r.repos.git.Open(ctx, r.dir); x.err == nil {
			r.found(x.tree)
		}
	}
	if held && x.err == nil {
		x.status, x.err = x.tree.Status(ctx, false)
	}
	x.left = ctx.Err() != nil
	if x.err != nil && !x.left { // it may be another repository now
		r.mu.Lock()
		r.tree = nil
		r.mu.Unlock()
	}
}

// found keeps the working tree of the directory, and watches the files of the
// repository that change when something is staged, committed, checked out, fetched
// or configured.
func (r *repo) found(t *git.Tree) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tree = t
	if r.closed || r.watch != nil {
		return
	}
	watcher, err := r.repos.front.watches.running()
	if err == nil {
		r.watch, err = watcher.Watch(r.repos.front.ctx, watch.Options{Root: t.Dir, Includes: []string{"index", "HEAD", "ORIG_HEAD", "FETCH_HEAD", "COMMIT_EDITMSG", "config"},
			Deliver: func([]watch.Change) { r.again() }})
	}
	if err != nil && !errors.Is(err, watch.ErrClosed) {
		r.repos.front.log.Warn("A git directory cannot be watched", "dir", t.Dir, "err", err)
	}
}
