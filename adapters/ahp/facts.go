package ahp

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/forge"
	"github.com/polyhost/polyhost/core/git"
	"github.com/polyhost/polyhost/core/hosttools"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
)

// sessionMeta is _meta of a session and of its row: the host's own keys, and
// those that editors have.
type sessionMeta struct {
	Person     string                  `json:"ahpd.owner,omitempty"` // ownerKey
	Model      string                  `json:"ahpd.model,omitempty"` // of a session's state
	Git        *gitState               `json:"git,omitempty"`
	GitHub     *githubState            `json:"github,omitempty"`
	GitHubData map[string]*githubState `json:"githubData,omitempty"`
	Keys       map[string]string       `json:"workingDirectoryKeys,omitempty"`
	Artifacts  []hosttools.Artifact    `json:"agentHost/sessionArtifacts,omitempty"`
}

// gitState is how the working tree of a session stands. What is not known, or
// not so, is left out.
type gitState struct {
	HasGitHubRemote bool   `json:"hasGitHubRemote"`
	Branch          string `json:"branchName,omitempty"`
	Detached        bool   `json:"isDetachedHead,omitempty"`
	Base            string `json:"baseBranchName,omitempty"`
	Upstream        string `json:"upstreamBranchName,omitempty"`
	Incoming        *int   `json:"incomingChanges,omitempty"`
	Outgoing        *int   `json:"outgoingChanges,omitempty"`
	Uncommitted     int    `json:"uncommittedChanges"`
	Owner           string `json:"githubOwner,omitempty"`
	Repo            string `json:"githubRepo,omitempty"`
}

// githubState is what is known of the repository at the forge.
type githubState struct {
	Owner    string   `json:"owner"`
	Repo     string   `json:"repo"`
	Pulls    []string `json:"pullRequestUrls,omitempty"` // the newest of the branch
	Branch   string   `json:"pullRequestBranchName,omitempty"`
	State    string   `json:"pullRequestState,omitempty"`
	StateURL string   `json:"pullRequestStateUrl,omitempty"`
}

// facts are how the working trees of sessions stand. They are read by one
// goroutine, of the directories of sessions that somebody watches whenever
// something may have changed them, of others when a turn ended.
type facts struct {
	front *Front
	wake  chan struct{}

	mu    sync.Mutex       // the last one that is taken
	known map[string]*fact // by directory; replaced, never written to
	order []string         // of known, the oldest first
	asked map[string]bool  // directories to be read; true whether watched or not
}

// fact is what is known of a directory; its fields are nil for one that is in no
// working tree.
type fact struct {
	git    *gitState
	github *githubState
	// asked is when the forge said how the branch's pull request stands.
	asked time.Time
}

func newFacts(f *Front) *facts {
	return &facts{front: f, wake: make(chan struct{}, 1), known: map[string]*fact{}, asked: map[string]bool{}}
}

// of is what is known of a directory; nil when it was not looked at.
func (s *facts) of(dir string) *fact {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[dir]
}

// want has a directory read soon; unless always, only if somebody watches a
// session in it by then.
func (s *facts) want(dir string, always bool) {
	s.mu.Lock()
	if len(s.asked) < maxFacts {
		s.asked[dir] = s.asked[dir] || always
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// wantUnknown has a directory read that was not looked at yet.
func (s *facts) wantUnknown(dir string) {
	if s.of(dir) == nil {
		s.want(dir, true)
	}
}

// wrote has the directories read that a path may be in; "" is any.
func (s *facts) wrote(paths []string) {
	s.mu.Lock()
	var in []string
	for dir := range s.known {
		if slices.ContainsFunc(paths, func(p string) bool { return p == "" || inDir(p, dir) }) {
			in = append(in, dir)
		}
	}
	s.mu.Unlock()
	for _, dir := range in {
		s.want(dir, false)
	}
}

// run reads what is asked for until ctx ends.
func (s *facts) run(ctx context.Context) {
	for {
		select {
		case <-s.wake:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(factsSettle): // what comes together is read together
		case <-ctx.Done():
			return
		}
		s.mu.Lock()
		asked := s.asked
		s.asked = map[string]bool{}
		s.mu.Unlock()
		for dir, always := range asked {
			if always || s.front.watchedIn(dir) {
				s.read(ctx, dir, always)
			}
			if ctx.Err() != nil {
				return
			}
		}
	}
}

// read looks at a directory, and tells when it stands otherwise than before.
func (s *facts) read(ctx context.Context, dir string, anew bool) {
	now, err := s.look(ctx, dir)
	if err == nil {
		s.askForge(ctx, dir, s.of(dir), now, anew)
	}
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		s.front.log.Warn("It cannot be told how a working tree stands", "dir", dir, "err", err)
		return
	}
	s.mu.Lock()
	was, known := s.known[dir]
	if !known {
		if len(s.order) == maxFacts {
			delete(s.known, s.order[0])
			s.order = s.order[1:]
		}
		s.order = append(s.order, dir)
	}
	s.known[dir] = now
	s.mu.Unlock()
	if was == nil || !reflect.DeepEqual(was.git, now.git) || !reflect.DeepEqual(was.github, now.github) {
		s.front.standsOtherwise(dir)
	}
	if was == nil && now.github != nil || was != nil && !reflect.DeepEqual(was.github, now.github) { // other operations are offered
		s.front.changesets.again(func(c *changeset) bool { return c.dir == dir })
	}
}

// askForge notes how the pull request of a branch stands, if there is a token to
// ask with; unless anew, only once in a while.
func (s *facts) askForge(ctx context.Context, dir string, was, now *fact, anew bool) {
	if now.github == nil || now.git.Branch == "" {
		return
	}
	if was != nil && was.github != nil && was.github.Owner == now.github.Owner && was.github.Repo == now.github.Repo && was.git.Branch == now.git.Branch {
		now.github, now.asked = was.github, was.asked
		if !anew && time.Since(was.asked) < pullsAnew {
			return
		}
	}
	token := s.front.forge.Token(s.front.lentIn(dir))
	if token == "" {
		return
	}
	p, err := s.front.forge.Newest(ctx, token, forge.Repository{Owner: now.github.Owner, Name: now.github.Repo}, now.git.Branch)
	now.asked = time.Now()
	if err != nil {
		s.front.log.Info("It cannot be told how a pull request stands", "dir", dir, "err", err)
		return
	}
	now.github = &githubState{Owner: now.github.Owner, Repo: now.github.Repo}
	if p != nil {
		now.github.Pulls, now.github.Branch, now.github.State, now.github.StateURL = []string{p.URL}, p.Branch, p.State, p.URL
	}
}

func (s *facts) look(ctx context.Context, dir string) (*fact, error) {
	if !inRepository([]string{dir}) {
		return &fact{}, nil
	}
	f := s.front.repos.follow(dir, func() {})
	defer f.leave()
	tree, status, err := f.read(ctx)
	if errors.Is(err, git.ErrNoRepository) {
		return &fact{}, nil
	} else if err != nil {
		return nil, err
	}
	remotes, err := tree.Remotes(ctx)
	if err != nil {
		return nil, err
	}
	b := &status.Branch
	now := &fact{git: &gitState{Branch: b.Name, Detached: b.Name == "", Upstream: b.Upstream, Uncommitted: len(status.Files)}}
	if b.Tracked {
		now.git.Incoming, now.git.Outgoing = &b.Behind, &b.Ahead
	}
	if _, repo, ok := githubOf(remotes); ok {
		now.git.HasGitHubRemote, now.git.Owner, now.git.Repo = true, repo.Owner, repo.Name
		now.github = &githubState{Owner: repo.Owner, Repo: repo.Name}
	}
	return now, nil
}

// githubOf finds the remote that is the repository at GitHub: origin before the
// others.
func githubOf(remotes []git.Remote) (git.Remote, forge.Repository, bool) {
	var first git.Remote
	var found forge.Repository
	for _, r := range remotes {
		repo, ok := forge.Parse(r.URL, githubHost)
		if ok && (first.Name == "" || r.Name == "origin") {
			first, found = r, repo
		}
	}
	return first, found, first.Name != ""
}

// rowMeta is _meta of a session's row; nil when there is nothing to say.
func (f *Front) rowMeta(info *event.SessionInfo) *sessionMeta {
	m := f.metaOf(info)
	if reflect.ValueOf(m).IsZero() {
		return nil
	}
	return &m
}

// stateMeta is _meta of a session's state.
func (f *Front) stateMeta(st *state.State) *sessionMeta {
	m := f.metaOf(&st.Info)
	m.Model = f.modelOn(st)
	if reflect.ValueOf(m).IsZero() {
		return nil
	}
	return &m
}

// modelOn is the model that a session is on: what its newest message picked, or
// else the session's own, or what its agent said it used, or begins with.
func (f *Front) modelOn(st *state.State) string {
	var used string
	if c := st.DefaultChat(); c != nil {
		if t := newestTurn(c); t != nil {
			if m := t.Message.Settings.Model; m != "" && m != event.Inherit {
				return m
			}
			used = t.Usage.Model
		}
	}
	if m := st.Info.Settings.Model; m != "" && m != event.Inherit {
		return m
	}
	if a, ok := f.agentNamed(st.Info.Backend); ok && used == "" && len(a.Info.Models) > 0 {
		return a.Info.Models[0].ID
	}
	return used
}

func (f *Front) metaOf(info *event.SessionInfo) sessionMeta {
	m := sessionMeta{Person: info.Owner.User, Artifacts: hosttools.Artifacts(info)}
	if len(info.Dirs) == 0 {
		return m
	}
	known := f.facts.of(info.Dirs[0])
	if known == nil || known.git == nil {
		return m
	}
	m.Git = known.git
	if i := isolationOf(info); i != nil && i.Tree != nil && i.Tree.Fresh {
		own := *known.git
		own.Base = i.Branch
		m.Git = &own
	}
	if known.github != nil {
		key := fileURI(info.Dirs[0])
		m.GitHub = known.github
		m.GitHubData, m.Keys = map[string]*githubState{key: known.github}, map[string]string{key: key}
	}
	return m
}

// standsOtherwise tells of the sessions in a directory that their working tree
// stands otherwise.
func (f *Front) standsOtherwise(dir string) {
	for _, l := range f.livesIn(dir) {
		l.mu.Lock()
		l.sayMeta()
		l.mu.Unlock()
	}
	f.root.metaMoved(fileURI(dir))
}

func (f *Front) livesIn(dir string) []*live {
	return f.livesWhere(func(l *live) bool { return len(l.st.Info.Dirs) > 0 && l.st.Info.Dirs[0] == dir })
}

// livesWhere are projections; ok is asked under the lock of each.
func (f *Front) livesWhere(ok func(l *live) bool) []*live {
	f.mu.Lock()
	all := make([]*live, 0, len(f.lives))
	for _, l := range f.lives {
		all = append(all, l)
	}
	f.mu.Unlock()
	return slices.DeleteFunc(all, func(l *live) bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return !ok(l)
	})
}

// watchedIn reports whether somebody watches a session in a directory.
func (f *Front) watchedIn(dir string) bool {
	return slices.ContainsFunc(f.livesIn(dir), func(l *live) bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.watchedLocked()
	})
}

// watchedLocked reports whether somebody watches the session itself.
func (l *live) watchedLocked() bool {
	for _, s := range l.open {
		if s.chat.IsNil() && l.front.journal.watched(s.ch) {
			return true
		}
	}
	return false
}

// sayMeta tells _meta when it is not as it was last told; the caller holds mu.
func (l *live) sayMeta() {
	now := l.front.stateMeta(l.st)
	if reflect.DeepEqual(now, l.meta) {
		return
	}
	l.meta = now
	l.say(id.Nil, nil, func(*renderer) any {
		return struct {
			Type string       `json:"type"`
			Meta *sessionMeta `json:"_meta,omitempty"`
		}{"session/metaChanged", now}
	})
}

// followDir follows the session's first directory as long as somebody may watch
// the session; the caller holds mu.
func (l *live) followDir() {
	dir := ""
	for _, s := range l.open {
		if s.chat.IsNil() && !l.gone && len(l.st.Info.Dirs) > 0 {
			dir = l.st.Info.Dirs[0]
		}
	}
	if dir == l.followed {
		return
	}
	l.followed = dir
	if l.following != nil {
		l.following.leave()
		l.following = nil
	}
	if dir != "" {
		l.following = l.front.repos.follow(dir, func() { l.front.facts.want(dir, false) })
		l.front.facts.want(dir, true)
	}
}

// inDir reports whether a path is a directory or in it.
func inDir(path, dir string) bool {
	path, dir = filepath.Clean(path), filepath.Clean(dir)
	return path == dir || dir == "/" || len(path) > len(dir) && path[:len(dir)] == dir && path[len(dir)] == '/'
}
