package ahp

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/hub"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
)

// projectionLimits keep, beside running turns, the last finished one: a chat's
// status and time follow from it.
var projectionLimits = state.Limits{Turns: 1}

// live is the projection of one session: it follows the session's events and
// says them on the channels that are open. It exists while somebody watches,
// and as long as the session stays in memory.
type live struct {
	front *Front
	id    id.ID

	mu    sync.Mutex
	sess  *host.Session
	st    *state.State // at the position of what was said
	calls map[id.ID]*callView
	asks  map[id.ID]*askView
	chats map[id.ID]*chatView
	// clients are the active clients of this front, in the order they came.
	clients     []activeClient
	open        map[string]*stream
	resumes     bool            // see renderer
	repository  bool            // the catalogue of changesets has one of git
	read        bool            // the session's read mark as clients have it
	customized  []customization // as clients have them
	tokensAsked map[string]bool // resources of servers that a token was asked for
	made        string          // how far the session's making is, as clients have it
	doing       string          // what the session does in one line, the same
	// Names that an event takes away with what they name.
	leaving        map[id.ID]string // of a message that leaves the queue
	steeringName   map[id.ID]string // of the steering message, by chat
	removedAliases map[string]string
	config         values       // before the event
	dirs           []string     // the same
	work           []event.Work // the same
	chatDirs       []string     // the same, of the event's chat
	expect         map[string][]expected
	waiting        int // in expect
	gone           bool
	meta           *sessionMeta // as it was last told
	tools          []serverTool // the same
	following      *follower    // of the directory followed
	followed       string
	moved          chan struct{} // closed when more was said; nil while nobody waits
	pieces         []string      // of texts, used again
}

// stream is one channel of the session in one spelling.
type stream struct {
	ch      *channel
	chat    id.ID // Nil for the session's own
	speller speller
	heads   map[id.ID][]byte // the beginnings of deltas, by part
	first   int              // the turn that every watcher has seen from on, by number
}

// chatView is what clients have of a chat beside what the core says.
type chatView struct {
	head     chatHead // in the session's own spelling, for comparing
	read     bool
	steering id.ID
}

type activeClient struct {
	id    string
	raw   json.RawMessage // whole entry
	plugs []*plug
}

// expected is a dispatched action whose event has not come by yet.
type expected struct {
	*action
	at time.Time
}

// project returns the projection of a session, starting it if need be.
func (f *Front) project(ctx context.Context, sid id.ID) (*live, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopping {
		return nil, host.ErrClosed
	}
	if l := f.lives[sid]; l != nil {
		return l, nil
	}
	// Opening reads the session from disk: rare, and bounded by its snapshot.
	s, err := f.host.Session(ctx, sid)
	if err != nil {
		return nil, err
	}
	l := &live{front: f, id: sid, sess: s, st: s.State().Thaw(projectionLimits),
		calls: map[id.ID]*callView{}, asks: map[id.ID]*askView{}, chats: map[id.ID]*chatView{},
		open: map[string]*stream{}, expect: map[string][]expected{}, leaving: map[id.ID]string{}, steeringName: map[id.ID]string{}}
	l.repository = inRepository(l.st.Info.Dirs)
	l.resumes = l.agentResumes()
	l.read = !l.st.Info.Unread
	l.made, _ = lifecycle(&l.st.Info)
	l.meetAutomation()
	l.customized, l.meta = l.customizationsNow(), f.stateMeta(l.st)
	l.askSignIn() // who comes sees it
	l.tools = f.serverTools()
	for _, c := range l.st.Chats {
		l.meet(c)
	}
	l.doing = l.st.Doing()
	f.lives[sid] = l
	f.projecting.Go(func() { l.run(f.ctx) })
	f.dismissAbsent(l.st.Tools, s)
	return l, nil
}

// agentResumes is whether the agent can take up a conversation again, as far as
// it has said.
func (l *live) agentResumes() bool {
	a, ok := l.front.agentNamed(l.st.Info.Backend)
	return ok && a.Info.Capabilities.Resume
}

// learnAgent takes what the agent has said since the projection began; the
// caller holds mu.
func (l *live) learnAgent() {
	if can := l.agentResumes(); can != l.resumes {
		l.resumes = can
		for _, c := range l.st.Chats {
			l.settleChat(c)
		}
	}
}

// projected is the projection of a session, if there is one.
func (f *Front) projected(sid id.ID) *live {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lives[sid]
}

// dismissAbsent takes back the tools of clients that an earlier run of the
// gateway left in a session; the caller holds mu.
func (f *Front) dismissAbsent(tools []event.ClientToolsSet, s *host.Session) {
	for _, t := range tools {
		if c := f.clients[t.Client.Client]; t.Client.Front != front || c != nil {
			continue
		}
		f.wg.Go(func() {
			ctx, cancel := context.WithTimeout(f.ctx, leaveWithin)
			defer cancel()
			if err := s.ClientGone(ctx, t.Client); err != nil && !errors.Is(err, host.ErrNotFound) {
				f.log.Warn("The tools of a client could not be taken back", "session", s.ID().String(), "err", err)
			}
		})
	}
}

// renderer makes shapes in a spelling; the caller holds mu.
func (l *live) renderer(s speller) *renderer {
	return &renderer{speller: s, st: l.st, calls: l.calls, asks: l.asks, resumes: l.resumes}
}

// plain is the renderer of the session's own spelling.
func (l *live) plain() *renderer { return l.renderer(speller{sessionURI(&l.st.Info)}) }

// meet begins to follow a chat.
func (l *live) meet(c *state.Chat) *chatView {
	v := &chatView{read: !c.Unread && c.Active == nil}
	if n := len(c.Steering); n > 0 {
		v.steering = c.Steering[n-1].ID
		l.steeringName[c.ID] = messageID(&c.Steering[n-1])
	}
	v.head = l.plain().head(c, v.read)
	l.chats[c.ID] = v
	return v
}

// run follows the session until it is deleted, or leaves memory unwatched.
func (l *live) run(ctx context.Context) {
	for {
		err := l.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !errors.Is(err, hub.ErrClosed) {
			l.front.log.Error("A session's events cannot be followed", "session", l.id.String(), "err", err)
		}
		if !l.reopen(ctx) {
			return
		}
	}
}

// reopen takes the session up again after it left memory. Without anybody
// watching, or when the session is deleted, the projection ends.
func (l *live) reopen(ctx context.Context) bool {
	l.front.mu.Lock()
	defer l.front.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	watched := false
	for _, s := range l.open {
		watched = watched || l.front.journal.watched(s.ch)
	}
	if watched {
		s, err := l.front.host.Session(ctx, l.id)
		if err == nil {
			l.sess = s
			return true
		}
		if !errors.Is(err, host.ErrNotFound) && !errors.Is(err, host.ErrClosed) {
			l.front.log.Warn("A watched session cannot be opened again", "session", l.id.String(), "err", err)
		}
	}
	l.gone = true
	for i := range l.clients {
		l.unplug(&l.clients[i])
	}
	l.followDir()
	l.wake()
	for _, s := range l.open {
		l.front.journal.close(s.ch)
	}
	delete(l.front.lives, l.id)
	return false
}

// follow projects events until the session leaves memory.
func (l *live) follow(ctx context.Context) error {
	l.mu.Lock()
	sub := l.sess.Subscribe(l.st.Seq)
	l.mu.Unlock()
	defer sub.Close()
	for {
		wait, cancel := ctx, func() {}
		if l.behindOutput() {
			wait, cancel = context.WithTimeout(ctx, outputEvery)
		}
		events, err := sub.Next(wait)
		late := wait.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case err != nil && late:
			l.mu.Lock()
			l.showOutput(time.Now(), true)
			l.mu.Unlock()
			continue
		case err != nil:
			return err
		}
		l.mu.Lock()
		l.applyAll(events)
		l.wake()
		l.mu.Unlock()
	}
}

// catchUp waits until everything up to an event was said.
func (l *live) catchUp(ctx context.Context, seq uint64) {
	for {
		l.mu.Lock()
		if l.gone || l.st.Seq >= seq {
			l.mu.Unlock()
			return
		}
		if l.moved == nil {
			l.moved = make(chan struct{})
		}
		moved := l.moved
		l.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
			return
		}
	}
}

// wake tells who waits in catchUp; the caller holds mu.
func (l *live) wake() {
	if l.moved != nil {
		close(l.moved)
		l.moved = nil
	}
}

// stream returns the channel of that name, opening it; the caller holds mu.
func (l *live) stream(uri string, p place) *stream {
	s := l.open[uri]
	if s == nil {
		s = &stream{ch: l.front.journal.open(uri), chat: p.chat, speller: p.speller, heads: map[id.ID][]byte{}}
		l.open[uri] = s
		l.followDir()
	}
	return s
}

// forget closes a channel that nobody watches.
func (l *live) forget(uri string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.open[uri]; s != nil && !l.front.journal.watched(s.ch) {
		l.front.journal.close(s.ch)
		delete(l.open, uri)
		l.followDir()
	}
}

// say publishes an action on the channels of a chat, or of the session itself
// when chat is Nil. It is made once for each spelling.
func (l *live) say(chat id.ID, o *origin, make func(r *renderer) any) {
	for _, s := range l.open {
		if s.chat == chat {
			l.front.journal.publish(s.ch, s.ch.action(encode(make(l.renderer(s.speller)))), o)
		}
	}
}

// expecting notes that an event is to come whose action has an origin. It is
// called before the command, and unexpect when the command failed.
func (l *live) expecting(key string, a *action) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.waiting >= maxExpected {
		for k, q := range l.expect {
			q = slices.DeleteFunc(q, func(e expected) bool { return now.Sub(e.at) > expectFor })
			if l.expect[k] = q; len(q) == 0 {
				delete(l.expect, k)
			}
		}
		l.waiting = 0
		for _, q := range l.expect {
			l.waiting += len(q)
		}
		if l.waiting >= maxExpected {
			return
		}
	}
	l.expect[key] = append(l.expect[key], expected{a, now})
	l.waiting++
}

// unexpect reports whether the event had not come.
func (l *live) unexpect(key string, o origin) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.expect[key]
	i := slices.IndexFunc(q, func(e expected) bool { return e.origin == o })
	if i < 0 {
		return false
	}
	l.setExpect(key, slices.Delete(q, i, i+1))
	l.waiting--
	return true
}

// void refuses the actions that wait under a key: their event cannot come any
// more. The caller holds mu.
func (l *live) void(key, reason string) {
	for _, e := range l.expect[key] {
		e.conn.refuse(e.uri, e.raw, &e.origin, reason)
		l.waiting--
	}
	delete(l.expect, key)
}

func (l *live) setExpect(key string, q []expected) {
	if len(q) == 0 {
		delete(l.expect, key)
	} else {
		l.expect[key] = q
	}
}

// take returns the origin that waits under a key, if any; the caller holds mu.
func (l *live) take(key string) *origin {
	for q := l.expect[key]; len(q) > 0; q = l.expect[key] {
		e := q[0]
		l.setExpect(key, q[1:])
		l.waiting--
		if time.Since(e.at) <= expectFor {
			return &e.origin
		}
	}
	return nil
}

// applyAll folds events and says what follows from them; consecutive texts of
// one part go out together.
func (l *live) applyAll(events []*event.Event) {
	for len(events) > 0 {
		n := sameText(events)
		if n > 0 {
			l.texts(events[:n])
		} else {
			l.apply(events[0])
			n = 1
		}
		events = events[n:]
	}
}

// sameText counts the events at the beginning that add to one part's text.
func sameText(events []*event.Event) (n int) {
	var first *event.PartDelta
	for n < len(events) {
		d, ok := events[n].Body.(*event.PartDelta)
		if !ok || d.Field != event.FieldText || first != nil && d.Part != first.Part {
			break
		}
		first = d
		n++
	}
	return n
}

// apply folds an event and says what follows from it.
func (l *live) apply(e *event.Event) {
	if d, ok := e.Body.(*event.PartDelta); ok {
		l.toolDelta(e, d)
		return
	}
	l.before(e)
	if err := l.st.Apply(e); err != nil {
		l.front.log.Error("An event does not follow", "session", l.id.String(), "err", err)
		return
	}
	l.after(e)
	l.settle(e)
}
