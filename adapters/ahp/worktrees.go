package ahp

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/polyhost/polyhost/core/git"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/store"
	"github.com/polyhost/polyhost/transports/jsonrpc"
)

const worktreesKey = "worktrees"

// worktrees are the working trees that sessions have of their own, and the
// handles that editors' windows hold of them. A tree is made before its session
// and taken away after it, unless somebody's work is in it. The list of trees is
// stored, so that a later run finds those whose sessions went without it.
type worktrees struct {
	front *Front

	leaving sync.Mutex // held while a tree is taken away; taken before mu

	mu      sync.Mutex
	trees   map[id.ID]*git.Added // by session
	handles map[string]*handle   // of this run
}

// handle is a window's hold of a tree. Once it is claimed the window says when
// the tree goes.
type handle struct {
	session id.ID
	tree    *git.Added
	claimed bool
	seen    time.Time
}

func newWorktrees(ctx context.Context, f *Front) (*worktrees, error) {
	w := &worktrees{front: f, trees: map[id.ID]*git.Added{}, handles: map[string]*handle{}}
	b, err := f.host.KV(front).Get(ctx, worktreesKey)
	if errors.Is(err, store.ErrNotFound) {
		return w, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &w.trees)
	}
	return w, err
}

// keep stores the list; the caller holds mu.
func (w *worktrees) keep(ctx context.Context) error {
	return w.front.host.KV(front).Set(ctx, worktreesKey, encode(w.trees))
}

// create makes a tree for a session that is about to be created in a directory,
// and gives the directory that is the same in the tree.
func (w *worktrees) create(ctx context.Context, session id.ID, dir string, i *isolation) (string, error) {
	w.mu.Lock()
	full := len(w.trees) >= maxWorktrees
	w.mu.Unlock()
	if full {
		return "", jsonrpc.Errorf(jsonrpc.CodeServerBusy, "sessions have %d working trees of their own already", maxWorktrees)
	}
	tree, err := w.front.repos.git.Open(ctx, dir)
	if err != nil {
		return "", err
	}
	name := session.String()
	name = "session-" + name[len(name)-8:]
	n := git.NewTree{Root: w.front.worktreesRoot, Name: name, Branch: i.Prefix + name, From: i.Branch, Fresh: i.Fresh, Track: i.Track, Include: i.Include, Link: i.Links}
	if i.Branch == "" {
		if i.Branch, err = tree.Head(ctx); err != nil {
			return "", err
		}
		if n.From = i.Branch; n.From == "" {
			return "", invalid("config.%s: no branch is checked out: name one", keyBranch)
		}
	}
	if !i.Fresh {
		n.Branch, n.From = i.Branch, ""
	}
	if i.Tree, err = tree.Add(ctx, n); err != nil {
		return "", err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trees[session] = i.Tree
	if err := w.keep(ctx); err != nil {
		delete(w.trees, session)
		_, dropErr := w.front.repos.git.Drop(context.WithoutCancel(ctx), i.Tree, git.AnyBranch)
		return "", errors.Join(err, dropErr)
	}
	return filepath.Join(i.Tree.Path, tree.Prefix), nil
}

// left takes the tree of a session away that is gone.
func (w *worktrees) left(ctx context.Context, session id.ID) {
	w.leaving.Lock()
	defer w.leaving.Unlock()
	w.mu.Lock()
	tree := w.trees[session]
	if tree == nil {
		w.mu.Unlock()
		return
	}
	delete(w.trees, session)
	heir := w.heir(tree, session)
	if !heir.IsNil() {
		w.trees[heir] = tree
	}
	branch, claimed := git.UnusedBranch, false
	for _, h := range w.handles {
		if h.session == session {
			branch, claimed = git.NoBranch, claimed || h.claimed
		}
	}
	w.mu.Unlock()
	log := w.front.log.With("session", session.String(), "path", tree.Path)
	if !claimed && heir.IsNil() {
		switch kept, err := w.front.repos.git.Drop(ctx, tree, branch); {
		case err != nil:
			log.Warn("The working tree of a session could not be taken away", "err", err)
		case kept:
			log.Warn("The working tree of a session was kept: somebody's work is in it")
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.keep(ctx); err != nil && ctx.Err() == nil {
		log.Warn("The list of working trees could not be stored", "err", err)
	}
}

// heir is a session that works in a tree beside the one it was made for, or Nil.
func (w *worktrees) heir(tree *git.Added, own id.ID) id.ID {
	for _, sum := range w.front.host.List(host.Filter{IncludeClosed: true, IncludeArchived: true, IncludePrivate: true}) {
		if sum.Info.ID != own && worksIn(&sum, tree.Path) {
			return sum.Info.ID
		}
	}
	return id.Nil
}

// worksIn reports whether a session, or a chat of it, has a directory in a tree.
func worksIn(sum *host.Summary, tree string) bool {
	in := func(dir string) bool { return inDir(dir, tree) }
	return slices.ContainsFunc(sum.Info.Dirs, in) ||
		slices.ContainsFunc(sum.Chats, func(c host.ChatSummary) bool { return slices.ContainsFunc(c.Info.Dirs, in) })
}

var errTreeInUse = jsonrpc.Errorf(codeTurnInProgress, "a session works in that tree")

// drop takes the tree of a handle away, unless another session works in it.
func (w *worktrees) drop(ctx context.Context, h *handle, branch git.Branches) (kept bool, err error) {
	w.leaving.Lock()
	defer w.leaving.Unlock()
	if !w.heir(h.tree, h.session).IsNil() {
		return false, errTreeInUse
	}
	return w.front.repos.git.Drop(ctx, h.tree, branch)
}

// sweep takes the trees away whose sessions went without them.
func (w *worktrees) sweep(ctx context.Context) {
	w.mu.Lock()
	sessions := keys(w.trees)
	w.mu.Unlock()
	for _, s := range sessions {
		if _, there := w.front.host.Summary(s); !there && ctx.Err() == nil {
			w.left(ctx, s)
		}
	}
}

// createDetached gives the window a handle of a session's tree.
func (c *conn) createDetached(_ context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		Session string `json:"session" jsonx:"required"`
		Prompt  string `json:"prompt"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	session, ok := c.front.findSession(p.Session)
	if !ok {
		return nil, sessionNotFound(p.Session)
	}
	w := c.front.worktrees
	w.mu.Lock()
	defer w.mu.Unlock()
	tree := w.trees[session]
	if tree == nil {
		return nil, invalid("session: it has no working tree of its own")
	}
	name := ""
	for n, h := range w.handles {
		if h.session == session {
			name = n
		}
	}
	if name == "" {
		if len(w.handles) >= maxWorktrees {
			return nil, jsonrpc.Errorf(jsonrpc.CodeServerBusy, "there are %d handles of working trees already", maxWorktrees)
		}
		name = id.New().String()
		w.handles[name] = &handle{session: session, tree: tree, seen: time.Now()}
	}
	return struct {
		Handle   string `json:"handle"`
		Resource string `json:"resource"`
	}{name, fileURI(tree.Path)}, nil
}

// held finds a handle that this host gave.
func (w *worktrees) held(name string) (*handle, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.handles[name]
	if h == nil {
		return nil, invalid("handle: Unknown detached worktree handle") // windows look for these words
	}
	return h, nil
}

// claimDetached makes a tree the window's to take away.
func (c *conn) claimDetached(_ context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		Handle string `json:"handle" jsonx:"required"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	w := c.front.worktrees
	h, err := w.held(p.Handle)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	h.claimed, h.seen = true, time.Now()
	return nil, nil
}

// archiveDetached takes a tree off the disk that nobody works in, and puts it
// back, on its branch.
func (c *conn) archiveDetached(ctx context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		Handle   string `json:"handle" jsonx:"required"`
		Archived *bool  `json:"archived" jsonx:"required"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	h, err := c.front.worktrees.held(p.Handle)
	if err != nil {
		return nil, err
	}
	if !*p.Archived {
		return nil, c.front.repos.git.Restore(ctx, h.tree)
	}
	if _, there := c.front.host.Summary(h.session); there {
		return nil, nil
	}
	_, err = c.front.worktrees.drop(ctx, h, git.NoBranch)
	return nil, err
}

// deleteDetached takes a tree and its branch away. One that nobody has is gone
// already.
func (c *conn) deleteDetached(ctx context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		Handle string `json:"handle" jsonx:"required"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	w := c.front.worktrees
	h, err := w.held(p.Handle)
	if err != nil {
		return nil, nil
	}
	if sum, there := c.front.host.Summary(h.session); there && (busy(&sum) || !sum.Info.Provisional) {
		return nil, errTreeInUse
	}
	kept, err := w.drop(ctx, h, git.AnyBranch)
	switch {
	case err != nil:
		return nil, err
	case kept:
		return nil, jsonrpc.Errorf(codeConflict, "somebody's work is in %.200s", h.tree.Path)
	}
	w.forget(p.Handle)
	return nil, nil
}

func (w *worktrees) forget(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.handles, name)
}

// reconcileDetached notes which handles a window still has, and lets go of what
// nobody named for a day.
func (c *conn) reconcileDetached(ctx context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		Scope  string   `json:"scope" jsonx:"required"`
		Active []string `json:"activeHandles" jsonx:"required"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	return nil, c.front.worktrees.reconcile(ctx, p.Active, time.Now())
}

func (w *worktrees) reconcile(ctx context.Context, active []string, now time.Time) error {
	w.mu.Lock()
	for _, name := range active {
		if h := w.handles[name]; h != nil {
			h.seen = now
		}
	}
	forgotten := map[string]*handle{}
	for name, h := range w.handles {
		if now.Sub(h.seen) > handleMemory {
			forgotten[name] = h
		}
	}
	w.mu.Unlock()
	var errs []error
	for name, h := range forgotten {
		if _, there := w.front.host.Summary(h.session); there {
			continue
		}
		kept, err := w.drop(ctx, h, git.NoBranch)
		if errors.Is(err, errTreeInUse) {
			continue
		}
		if errs = append(errs, err); err == nil && !kept {
			w.forget(name)
		}
	}
	return errors.Join(errs...)
}

// progress tells the client that asked how far its session is.
func (c *conn) progress(token string, n int, message string) {
	if token == "" {
		return
	}
	_ = c.send(notification("root/progress", struct {
		Channel  string `json:"channel"`
		Token    string `json:"progressToken"`
		Progress int    `json:"progress"`
		Total    int    `json:"total"`
		Message  string `json:"message"`
	}{rootURI, token, n, 2, message}))
}

// apart makes the working tree that somebody wants for a new session, and puts the
// session into it.
func (f *Front) apart(ctx context.Context, create *host.CreateSession, i *isolation) error {
	dir := f.host.DefaultDir()
	if len(create.Dirs) > 0 {
		dir = create.Dirs[0]
	}
	switch {
	case i.Kind != inFolder && i.Kind != inTree:
		return invalid("config.%s: want %s or %s", keyIsolation, inFolder, inTree)
	case !inRepository([]string{dir}) && i.Kind == inTree:
		return invalid("config.%s: %.200s is in no git working tree", keyIsolation, dir)
	case !inRepository([]string{dir}):
		return nil // editors say so everywhere
	case i.Kind == inTree:
		if create.ID.IsNil() {
			create.ID = id.New()
		}
		own, err := f.worktrees.create(ctx, create.ID, dir, i)
		if err != nil {
			return err
		}
		rest := create.Dirs
		if len(rest) > 0 {
			rest = rest[1:]
		}
		create.Dirs = append([]string{own}, rest...)
	default:
		i.Branch = ""
	}
	if create.Meta == nil {
		create.Meta = map[string]json.RawMessage{}
	}
	create.Meta[metaIsolation] = encode(i)
	return nil
}
