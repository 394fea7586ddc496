package ahp

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/polyhost/polyhost/core/git"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/transports/jsonrpc"
)

// A changeset's channel is the session's name with the scope behind it.
const changesetInfix = "/changeset/"

// The scopes. The last two are followed by what turns they are of.
const (
	scopeUncommitted = "uncommitted" // what git says of the session's directory
	scopeSession     = "session"     // what the agents edited, as the record of their calls has it
	scopeTurn        = "turn"        // the same, in one turn
	scopeCompare     = "compare"     // the same, after one turn and up to another
)

// changesets serves the channels of changesets. Each that is watched has a
// goroutine, which reads it again when something may have changed it; what
// nobody watches costs nothing.
type changesets struct {
	front *Front

	mu   sync.Mutex // held while something is said, so that snapshots agree
	open map[string]*changeset
}

// scoped is what the name of a changeset says.
type scoped struct {
	uri        string
	sessionURI string
	session    id.ID
	scope      string
	turns      []string // that the scope names
	dir        string
}

// changeset is one channel. Files and operations are replaced as a whole and
// never changed, as snapshots hold them too.
type changeset struct {
	scoped
	ch     *channel
	state  changesetState
	kick   chan struct{}
	took   time.Time // when it was last subscribed to
	ctx    context.Context
	cancel context.CancelFunc
}

func newChangesets(f *Front) *changesets {
	return &changesets{front: f, open: map[string]*changeset{}}
}

// split takes the name of a changeset apart.
func splitChangeset(uri string) (session, scope string, ok bool) {
	session, scope, ok = strings.Cut(uri, changesetInfix)
	if !ok {
		return "", "", false
	}
	_, _, ok = splitSession(session)
	return session, scope, ok
}

func (s *changesets) owns(uri string) bool {
	_, _, ok := splitChangeset(uri)
	return ok
}

// find resolves the name of a changeset that there is.
func (s *changesets) find(ctx context.Context, uri string) (scoped, error) {
	session, scope, ok := splitChangeset(uri)
	if !ok || len(uri) > maxChannelURI {
		return scoped{}, notFound(uri)
	}
	sid, ok := s.front.findSession(session)
	if !ok {
		return scoped{}, sessionNotFound(session)
	}
	sum, ok := s.front.host.Summary(sid)
	if !ok || len(sum.Info.Dirs) == 0 {
		return scoped{}, sessionNotFound(session)
	}
	c := scoped{uri: uri, sessionURI: session, session: sid, dir: sum.Info.Dirs[0]}
	c.scope, c.turns, ok = splitScope(scope)
	switch {
	case !ok, c.scope == scopeUncommitted && !inRepository(sum.Info.Dirs):
		return scoped{}, notFound(uri)
	case len(c.turns) > 0:
		if _, err := s.stretch(ctx, &c); err != nil {
			return scoped{}, err
		}
	}
	return c, nil
}

// inRepository reports whether the first directory looks like one of a git
// working tree.
func inRepository(dirs []string) bool {
	if len(dirs) == 0 {
		return false
	}
	for dir := filepath.Clean(dirs[0]); ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return true
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
}

// catalogue lists the changesets of a session, in the spelling of its name.
func catalogue(session string, repository bool) []changesetInfo {
	at := session + changesetInfix
	list := []changesetInfo{{Label: "Changes of this session", URITemplate: at + scopeSession, ChangeKind: scopeSession}}
	if repository {
		list = append(list, changesetInfo{Label: "Uncommitted changes", URITemplate: at + scopeUncommitted, ChangeKind: scopeUncommitted})
	}
	return append(list,
		changesetInfo{Label: "Changes of this turn", URITemplate: at + scopeTurn + "/{turnId}", ChangeKind: scopeTurn},
		changesetInfo{Label: "Changes between two turns", URITemplate: at + scopeCompare + "/{originalTurnId}/{modifiedTurnId}", ChangeKind: "compare-turns"})
}

func (s *changesets) take(ctx context.Context, uri string) (taken, error) {
	found, err := s.find(ctx, uri)
	if err != nil {
		return taken{}, err
	}
	s.mu.Lock()
	c := s.open[uri]
	fresh := c == nil
	if fresh {
		if len(s.open) >= maxChangesets {
			s.mu.Unlock()
			return taken{}, jsonrpc.Errorf(jsonrpc.CodeServerBusy, "too many changesets are watched: %d", maxChangesets)
		}
		c = &changeset{scoped: found, ch: s.front.journal.open(uri), kick: make(chan struct{}, 1),
			state: changesetState{Status: changesComputing, Files: []changesetFile{}}}
		c.ctx, c.cancel = context.WithCancel(s.front.ctx)
		s.open[uri] = c
	}
	c.took = time.Now()
	t := taken{ch: c.ch, held: held{ch: c.ch}}
	t.Resource, t.State = uri, c.state
	t.FromSeq, t.pos = s.front.journal.promise(t.ch)
	s.mu.Unlock()
	if fresh && !s.start(c) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.drop(c)
		return taken{}, host.ErrClosed
	}
	return t, nil
}

// start begins to follow a changeset; false when the front stops.
func (s *changesets) start(c *changeset) bool {
	s.front.mu.Lock()
	defer s.front.mu.Unlock()
	if s.front.stopping {
		return false
	}
	s.front.wg.Go(func() { s.follow(c.ctx, c) })
	return true
}

// opened: a changeset that is there and not watched has no history.
func (s *changesets) opened(uri string) (held, error) {
	if _, err := s.find(s.front.ctx, uri); err != nil {
		return held{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.open[uri]; c != nil {
		return held{ch: c.ch}, nil
	}
	return held{}, nil
}

// dispatch does the one thing that clients say: which files were reviewed.
func (s *changesets) dispatch(ctx context.Context, a *action, typ string) error {
	if typ != "changeset/filesReviewChanged" {
		return refusal("this host does not take " + clip(typ) + " on that channel")
	}
	var p filesReviewed
	if err := decode(a.raw, &p, "action"); err != nil {
		return err
	}
	if len(p.Files) > git.MaxFiles {
		return refusal("too many files")
	}
	s.mu.Lock()
	c := s.open[a.uri]
	if c == nil {
		s.mu.Unlock()
		if _, err := s.find(ctx, a.uri); err != nil {
			return errNowhere
		}
		return refusal("subscribe to the changeset first")
	}
	defer s.mu.Unlock()
	if !c.review(&p) {
		return errUnchanged
	}
	s.front.journal.publish(c.ch, c.ch.action(encode(p)), &a.origin)
	return nil
}

// review marks files; false when that changes nothing.
func (c *changeset) review(p *filesReviewed) bool {
	named := map[string]bool{}
	for _, f := range p.Files {
		named[f] = true
	}
	files, changed := slices.Clone(c.state.Files), false
	for i := range files {
		if named[files[i].ID] && files[i].Reviewed != p.Reviewed {
			files[i].Reviewed, changed = p.Reviewed, true
		}
	}
	c.state.Files = files
	return changed
}

// released lets go of a changeset that nobody watches any more.
func (s *changesets) released(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.open[uri]; c != nil && !s.front.journal.watched(c.ch) {
		s.drop(c)
	}
}

// abandon lets go of a changeset whose subscriber left before it was one.
func (s *changesets) abandon(c *changeset) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(c.took) >= changesUnwatched && s.open[c.uri] == c && !s.front.journal.watched(c.ch) {
		s.drop(c)
	}
}

func (s *changesets) drop(c *changeset) {
	c.cancel()
	delete(s.open, c.uri)
	s.front.journal.close(c.ch)
}

// removed ends the changesets of a session that is gone.
func (s *changesets) removed(session id.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.open {
		if c.session == session {
			if len(c.state.Files) > 0 {
				s.say(c, changesetAction{Type: "changeset/cleared"})
			}
			s.drop(c)
		}
	}
}

// touched has the changesets of a session read again.
func (s *changesets) touched(session id.ID) {
	s.again(func(c *changeset) bool { return c.session == session })
}

// wrote has the changesets read again that a path may be in; "" is any.
func (s *changesets) wrote(paths ...string) {
	s.front.facts.wrote(paths)
	s.again(func(c *changeset) bool {
		return slices.ContainsFunc(paths, func(p string) bool {
			return p == "" || c.scope != scopeUncommitted || inDir(p, c.dir)
		})
	})
}

func (s *changesets) again(which func(*changeset) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.open {
		if which(c) {
			c.wake()
		}
	}
}

func (c *changeset) wake() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// follow reads a changeset, and again whenever it is woken, until ctx ends.
func (s *changesets) follow(ctx context.Context, c *changeset) {
	var repo *follower
	if c.scope == scopeUncommitted {
		repo = s.front.repos.follow(c.dir, c.wake)
		defer repo.leave()
	}
	for {
		if _, err := s.front.project(ctx, c.session); err != nil && ctx.Err() == nil { // its calls wake us
			s.front.log.Debug("The session of a changeset cannot be followed", "session", c.session.String(), "err", err)
		}
		files, ops, err := s.read(ctx, c, repo)
		if ctx.Err() != nil {
			return
		}
		s.settle(c, files, ops, err)
		if !s.woken(ctx, c) {
			return
		}
		s.mu.Lock()
		if c.state.Status != changesComputing {
			c.state.Status, c.state.Error = changesRecomputing, nil
			s.say(c, changesetAction{Type: "changeset/statusChanged", Status: changesRecomputing})
		}
		s.mu.Unlock()
	}
}

// woken waits until a changeset is to be read again; false when it is over.
func (s *changesets) woken(ctx context.Context, c *changeset) bool {
	for asleep := true; asleep; {
		select {
		case <-c.kick:
			asleep = false
		case <-time.After(changesUnwatched):
			s.abandon(c)
		case <-ctx.Done():
			return false
		}
	}
	select {
	case <-time.After(changesSettle):
	case <-ctx.Done():
		return false
	}
	select {
	case <-c.kick: // what comes together is read together
	default:
	}
	return true
}

// say publishes an action of a changeset; the caller holds mu.
func (s *changesets) say(c *changeset, a any) {
	s.front.journal.publish(c.ch, c.ch.action(encode(a)), nil)
}

// settle says what a reading brought.
func (s *changesets) settle(c *changeset, files []changesetFile, ops []changesetOperation, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := changesetAction{Type: "changeset/statusChanged", Status: changesReady}
	if err != nil {
		status.Status, status.Error = stateError, &errorInfo{ErrorType: "unreadable", Message: refusalText(err)}
		s.front.log.Warn("A changeset cannot be read", "session", c.session.String(), "scope", c.scope, "err", err)
	} else {
		s.sayFiles(c, files)
		s.sayOperations(c, ops)
	}
	if err == nil && c.state.Status == changesReady {
		return // its files were said before their lines were counted
	}
	c.state.Status, c.state.Error = status.Status, status.Error
	s.say(c, status)
}

// sayFiles says how the files changed, in the smaller of two ways. What it
// keeps is what a client makes of it, in that order.
func (s *changesets) sayFiles(c *changeset, files []changesetFile) {
	old := map[string]*changesetFile{}
	for i := range c.state.Files {
		old[c.state.Files[i].ID] = &c.state.Files[i]
	}
	fresh := map[string]bool{}
	var set []changesetFile
	for i := range files {
		f := &files[i]
		fresh[f.ID] = true
		was := old[f.ID]
		if was != nil {
			f.Reviewed = was.Reviewed
			if reflect.DeepEqual(*was, *f) {
				continue
			}
			f.Reviewed = false
		}
		set = append(set, *f)
	}
	var gone []string
	for i := range c.state.Files {
		if x := c.state.Files[i].ID; !fresh[x] {
			gone = append(gone, x)
		}
	}
	switch moved := len(set) + len(gone); {
	case moved == 0:
	case len(files) == 0:
		c.state.Files = []changesetFile{}
		s.say(c, changesetAction{Type: "changeset/cleared"})
	case moved > maxFileActions || moved >= len(files):
		c.state.Files = files
		s.say(c, changesetAction{Type: "changeset/contentChanged", Files: files})
	default:
		next := slices.Clone(c.state.Files)
		for _, x := range gone {
			next = slices.DeleteFunc(next, func(f changesetFile) bool { return f.ID == x })
			s.say(c, changesetAction{Type: "changeset/fileRemoved", FileID: x})
		}
		for i := range set {
			if at := slices.IndexFunc(next, func(f changesetFile) bool { return f.ID == set[i].ID }); at >= 0 {
				next[at] = set[i]
			} else {
				next = append(next, set[i])
			}
			s.say(c, changesetAction{Type: "changeset/fileSet", File: &set[i]})
		}
		c.state.Files = next
	}
}

// sayOperations says what may be done. How an operation failed stays to be
// seen until it runs again.
func (s *changesets) sayOperations(c *changeset, ops []changesetOperation) {
	for i := range ops {
		for _, was := range c.state.Operations {
			if was.ID == ops[i].ID && (was.Status == stateRunning || was.Status == stateError && ops[i].Status == stateIdle) {
				ops[i].Status, ops[i].Error = was.Status, was.Error
			}
		}
	}
	if !reflect.DeepEqual(ops, c.state.Operations) {
		c.state.Operations = ops
		s.say(c, changesetAction{Type: "changeset/operationsChanged", Operations: &ops})
	}
}
