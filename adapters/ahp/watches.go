package ahp

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"

	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/watch"
	"github.com/polyhost/polyhost/transports/jsonrpc"
)

const watchPrefix = "ahp-resource-watch:/"

// watchService serves the channels of resource watches: those over files of
// this machine, and those over what a client has, which that client feeds.
type watchService struct {
	front *Front

	mu      sync.Mutex // held while something is said, so that snapshots agree
	watcher *watch.Watcher
	closed  bool
	open    map[string]*resourceWatch
}

// resourceWatch is one channel.
type resourceWatch struct {
	ch      *channel
	state   watchState
	maker   *client
	owner   *client      // who feeds it, or nil
	files   *watch.Watch // what feeds it otherwise
	claimed bool         // somebody subscribed
}

type watchState struct {
	Root      string    `json:"root"`
	Recursive bool      `json:"recursive"`
	Excludes  *patterns `json:"excludes,omitempty"`
	Includes  *patterns `json:"includes,omitempty"`
}

type patterns struct {
	Items []string `json:"items" jsonx:"required"`
}

func (p *patterns) list() []string {
	if p == nil {
		return nil
	}
	return p.Items
}

type watchChanged struct {
	Type    string `json:"type"`
	Changes struct {
		Items []resourceChange `json:"items" jsonx:"required"`
	} `json:"changes" jsonx:"required"`
}

type resourceChange struct {
	URI  string     `json:"uri" jsonx:"required"`
	Type watch.Kind `json:"type" jsonx:"required"`
}

func newWatches(f *Front) *watchService {
	return &watchService{front: f, open: map[string]*resourceWatch{}}
}

// createWatch begins to watch a resource. The channel is there until the last
// subscriber leaves it, or nobody ever came.
func (c *conn) createWatch(ctx context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		URI       string    `json:"uri" jsonx:"required"`
		Recursive bool      `json:"recursive"`
		Excludes  *patterns `json:"excludes"`
		Includes  *patterns `json:"includes"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	if len(r.Params) > maxWatchText {
		return nil, invalid("at most %d bytes say what is watched", maxWatchText)
	}
	at, err := c.front.locate("uri", p.URI)
	if err != nil {
		return nil, err
	}
	w := &resourceWatch{maker: c.who(), owner: at.owner, state: watchState{p.URI, p.Recursive, p.Excludes, p.Includes}}
	uri := watchPrefix + id.New().String()
	s := c.front.watches
	switch {
	case at.edit != nil:
		return nil, invalid("uri: %.200s never changes", p.URI)
	case at.owner != nil:
		answer, err := c.askOwner(ctx, r, at)
		if err != nil {
			return nil, err
		}
		var minted struct {
			Channel string `json:"channel" jsonx:"required"`
		}
		if err := decode(answer, &minted, "result"); err != nil || !s.owns(minted.Channel) || len(minted.Channel) > maxChannelURI {
			return nil, jsonrpc.Errorf(jsonrpc.CodeInternalError, "the client that has %.200s named no channel for the watch", p.URI)
		}
		uri = minted.Channel
	default:
		if err := s.watch(ctx, w, uri, at.path); err != nil {
			return nil, err
		}
	}
	if err := s.add(uri, w); err != nil {
		return nil, err
	}
	return struct {
		Channel string `json:"channel"`
	}{uri}, nil
}

// watch begins to watch a file or directory of this machine.
func (s *watchService) watch(ctx context.Context, w *resourceWatch, uri, path string) error {
	real, err := s.front.files.Resolve(path)
	if err != nil {
		return err
	}
	watcher, err := s.running()
	if err != nil {
		return err
	}
	s.mu.Lock()
	err = s.room(w) // before the walk, which takes its time
	s.mu.Unlock()
	if err != nil {
		return err
	}
	// Changes are told below the path as it was named, whatever links it has.
	w.files, err = watcher.Watch(ctx, watch.Options{Root: real, Most: clientDirs, For: w.maker, Share: dirsShare, Recursive: w.state.Recursive, Includes: w.state.Includes.list(), Excludes: w.state.Excludes.list(),
		Hidden: s.front.files.Fenced, Deliver: func(batch []watch.Change) {
			items := make([]resourceChange, len(batch))
			for i, c := range batch {
				items[i] = resourceChange{w.state.Root, c.Kind}
				if rel, err := filepath.Rel(real, c.Path); err == nil && rel != "." {
					items[i].URI = fileURI(filepath.Join(path, rel))
				}
			}
			s.say(uri, items, nil)
		}})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return jsonrpc.Errorf(codeNotFound, "there is no %.200s", path)
	case errors.Is(err, fs.ErrPermission):
		return denied("%.200s", path)
	}
	return err
}

// running starts the watcher with the first watch.
func (s *watchService) running() (*watch.Watcher, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInternalError, "the gateway is stopping")
	}
	if s.watcher == nil {
		w, err := watch.New(s.front.log)
		if err != nil {
			return nil, err
		}
		s.watcher = w
	}
	return s.watcher, nil
}

// close ends all watches.
func (s *watchService) close() {
	s.mu.Lock()
	s.closed = true
	w := s.watcher
	s.mu.Unlock()
	if w == nil {
		return
	}
	if err := w.Close(); err != nil {
		s.front.log.Warn("Watching files did not end well", "err", err)
	}
}

// room refuses a watch beyond what its client, or all of them, may have. The
// caller holds mu.
func (s *watchService) room(w *resourceWatch) error {
	mine := 0
	for _, other := range s.open {
		if other.maker == w.maker {
			mine++
		}
	}
	if len(s.open) >= watch.MaxWatches || mine >= maxWatches {
		return jsonrpc.Errorf(jsonrpc.CodeServerBusy, "too many watches: %d of one client", maxWatches)
	}
	return nil
}

func (s *watchService) add(uri string, w *resourceWatch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.open[uri]
	var err error
	switch {
	case old != nil && old.owner != w.owner:
		err = jsonrpc.Errorf(codeAlreadyExists, "the channel %.200s is another watch's", uri)
	case old != nil:
		return nil // its owner has one channel for several who ask
	default:
		err = s.room(w)
	}
	if err != nil {
		if w.files != nil {
			w.files.Close()
		}
		return err
	}
	w.ch = s.front.journal.open(uri)
	s.open[uri] = w
	return nil
}

// say tells of changes everybody who subscribed.
func (s *watchService) say(uri string, items []resourceChange, o *origin) {
	a := watchChanged{Type: "resourceWatch/changed"}
	a.Changes.Items = items
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.open[uri]; w != nil {
		s.front.journal.publish(w.ch, w.ch.action(encode(a)), o)
	}
}

func (s *watchService) owns(uri string) bool {
	return strings.HasPrefix(uri, watchPrefix) && len(uri) > len(watchPrefix)
}

func (s *watchService) take(_ context.Context, uri string) (taken, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.open[uri]
	if w == nil {
		return taken{}, notFound(uri)
	}
	w.claimed = true
	t := taken{ch: w.ch, held: held{ch: w.ch}}
	t.Resource, t.State = uri, w.state
	t.FromSeq, t.pos = s.front.journal.promise(t.ch)
	return t, nil
}

func (s *watchService) opened(uri string) (held, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.open[uri]
	if w == nil {
		return held{}, notFound(uri)
	}
	return held{ch: w.ch}, nil
}

// dispatch relays what a client says of its own resources.
func (s *watchService) dispatch(_ context.Context, a *action, typ string) error {
	if typ != "resourceWatch/changed" {
		return refusal("this host does not take " + clip(typ) + " on that channel")
	}
	s.mu.Lock()
	w := s.open[a.uri]
	s.mu.Unlock()
	switch {
	case w == nil:
		return refusal("nobody watches that any more")
	case w.owner == nil:
		return refusal("only the host may say " + typ + " of files of its machine")
	case w.owner != a.conn.who():
		return refusal("only the client that has the resource may say " + typ)
	}
	var p watchChanged
	if err := decode(a.raw, &p, "action"); err != nil {
		return err
	}
	items := p.Changes.Items
	if len(items) == 0 || len(items) > watch.MaxBatch || len(a.raw) > maxWatchText {
		return refusal("a batch has at least one change and not too many")
	}
	for _, c := range items {
		if c.Type != watch.Added && c.Type != watch.Updated && c.Type != watch.Deleted {
			return refusal("changes.items: a type is added, updated or deleted")
		}
	}
	s.say(a.uri, items, &a.origin)
	if !a.conn.watches(a.uri) { // it fed the channel without reading it
		a.conn.confirm(a.uri, a.raw, &a.origin)
	}
	return nil
}

// released lets the watch go with its last subscriber.
func (s *watchService) released(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.open[uri]; w != nil && !s.front.journal.watched(w.ch) {
		s.dropLocked(uri, w)
	}
}

func (s *watchService) dropLocked(uri string, w *resourceWatch) {
	delete(s.open, uri)
	s.front.journal.close(w.ch)
	if w.files != nil {
		w.files.Close()
	}
}

// forget lets go of the watches that a connection's client made and nobody
// ever subscribed to.
func (s *watchService) forget(maker *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uri, w := range s.open {
		if w.maker == maker && !w.claimed {
			s.dropLocked(uri, w)
		}
	}
}
