package snowpea

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
	"github.com/polyhost/polyhost/transports/fanout"
	"github.com/polyhost/polyhost/transports/outbox"
	"github.com/polyhost/polyhost/transports/ws"
)

// track is this front's side of one core session: its numbering, a topic for
// each chat, and who is asked. It outlives the session's stay in memory while
// somebody is subscribed.
type track struct {
	front *Front
	id    id.ID

	mu      sync.Mutex
	session *host.Session // nil while the session is not in memory
	now     *projection   // of session
	fold    *fold
	topics  map[id.ID]*stream
	unsent  *stream // has messages that are not handed on; nil while mu is free
	origins map[id.ID]*conn
	// toolHost is the connection whose tools the session was offered.
	toolHost *conn
	// subs are all subscriptions; waiting are those that wait for the session
	// to come into memory.
	subs, waiting map[*sub]struct{}
	marked        uint64 // core event of the newest mark along the log
	notices       map[id.ID][]string
	system        map[id.ID]time.Time // last system start
	keys          map[string]bool     // idempotency keys of session.continue
}

// projection is a track while its session is in memory.
type projection struct {
	*track
	closed chan struct{}
}

// open begins to follow a session that came into memory.
func (f *Front) open(ctx context.Context, s *host.Session, st *state.State) (*projection, error) {
	x, err := f.foldTo(ctx, s, st.Seq)
	if err != nil {
		return nil, err
	}
	t := f.track(s.ID())
	t.mu.Lock()
	before := t.now
	t.mu.Unlock()
	if before != nil { // the session left memory and is back already
		select {
		case <-before.closed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	p := &projection{track: t, closed: make(chan struct{})}
	t.mu.Lock()
	x.publish, x.spent, x.catalogue = t.publish, f.spent(s.ID()), f.catalogue
	t.session, t.now, t.fold, t.marked = s, p, x, x.Seq
	for chat, c := range x.Chats {
		if t.topics[chat] == nil {
			t.topics[chat] = newStream(c.Seq, f.deps.Frames)
		}
	}
	for s := range t.waiting {
		s.attach(t.topic(s.chatIn(t)), t.last(s.chatIn(t)))
	}
	clear(t.waiting)
	t.mu.Unlock()
	for _, i := range st.Open {
		f.asks.opened(t, i)
	}
	f.signal()
	return p, nil
}

// stream is the topic of one chat. Its tape belongs to the track's mu.
type stream struct {
	*fanout.Topic
	tape outbox.Tape
}

func newStream(after uint64, counts *fanout.Counts) *stream {
	s := &stream{Topic: fanout.NewTopic(after, fanout.Retain{Frames: retainFrames, Bytes: retainBytes}),
		tape: outbox.Tape{Header: ws.TextHeader}}
	s.Count(counts)
	return s
}

// publish adds a message to the chat's topic, for flush to hand on; the caller
// holds mu.
func (t *track) publish(chat id.ID, seq uint64, message []byte) {
	s := t.topics[chat]
	if s == nil {
		s = newStream(seq-1, t.front.deps.Frames)
		t.topics[chat] = s
	}
	if t.unsent != s {
		t.flush()
	}
	s.Add(seq, s.tape.Add(message))
	t.unsent = s
}

// flush hands on what was published; the caller holds mu and calls it before
// letting go of it.
func (t *track) flush() {
	if t.unsent != nil {
		t.unsent.Flush()
		t.unsent = nil
	}
}

// Deltas follows deltas; they go out together.
func (p *projection) Deltas(events []*event.Event, st *state.State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range events {
		p.follow(e, st)
	}
	p.flush()
}

// Project follows one event.
func (p *projection) Project(e *event.Event, st *state.State) {
	t := p.track
	t.before(e, st)
	t.mu.Lock()
	t.follow(e, st)
	t.flush()
	t.mu.Unlock()
	t.after(e, st)
}

// follow folds an event and keeps the marks; the caller holds mu.
func (t *track) follow(e *event.Event, st *state.State) {
	t.fold.apply(e)
	if _, delta := e.Body.(*event.PartDelta); !delta && !st.Running() {
		t.front.keeper.put(lastKey(t.id), encodeMark(t.fold))
	}
	if e.Seq-t.marked >= markEvery {
		t.marked = e.Seq
		t.front.keeper.put(markKey(t.id, e.Seq), encodeMark(t.fold))
	}
}

// before tells every client what the event changes in lists; it goes out ahead
// of the event itself.
func (t *track) before(e *event.Event, st *state.State) {
	f := t.front
	switch b := e.Body.(type) {
	case *event.TurnStarted, *event.TurnResumed:
		f.changed(t, e.Chat, st, "turn")
	case *event.TurnEnded:
		if doneReason(b) == "error" {
			f.announce(t.surface(e.Chat, st), "turn", statusError)
			return
		}
		f.changed(t, e.Chat, st, "turn")
	case *event.MessageQueued:
		f.changed(t, e.Chat, st, "prompt")
	case *event.InteractionOpened:
		f.changed(t, e.Chat, st, askReason(b.Interaction.Kind))
	case *event.InteractionResolved:
		f.asks.resolved(t, e.Chat, b)
		f.changed(t, e.Chat, st, askReason(b.Of))
	}
}

// after asks, and tells of names and ends.
func (t *track) after(e *event.Event, st *state.State) {
	f := t.front
	switch b := e.Body.(type) {
	case *event.InteractionOpened:
		i := b.Interaction
		f.asks.opened(t, &i)
	case *event.SessionUpdated:
		switch {
		case b.Closed != nil && *b.Closed:
			f.changed(t, st.Default, st, "close")
		case b.Closed != nil:
			f.changed(t, st.Default, st, "create")
		case b.Title != nil:
			f.changed(t, st.Default, st, "renamed")
		case b.Meta[metaOwner] != nil:
			f.changed(t, st.Default, st, "host")
		}
	case *event.ChatAdded:
		f.changed(t, b.Info.ID, st, "create")
	case *event.ChatUpdated:
		if b.Title != nil {
			f.changed(t, e.Chat, st, "renamed")
		}
	case *event.ChatRemoved:
		f.changed(t, e.Chat, st, "deleted")
	}
}

// Close: the session leaves memory, or the front stops.
func (p *projection) Close() {
	t := p.track
	t.mu.Lock()
	defer t.mu.Unlock()
	t.front.keeper.put(lastKey(t.id), encodeMark(t.fold))
	t.session, t.now = nil, nil
	close(p.closed)
	t.shrink()
}

// shrink lets the rings go when nobody needs them; the caller holds mu.
func (t *track) shrink() {
	if t.session == nil && len(t.subs) == 0 {
		clear(t.topics)
	}
}

// live returns the track of a session that is in memory, opening it.
func (f *Front) live(ctx context.Context, session id.ID) (*track, *host.Session, error) {
	for {
		s, err := f.host.Session(ctx, session)
		if err != nil {
			return nil, nil, err
		}
		wait := f.signalled()
		t := f.track(session)
		t.mu.Lock()
		same := t.session == s
		t.mu.Unlock()
		if same {
			return t, s, nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		case <-f.ctx.Done():
			return nil, nil, fmt.Errorf("open session %s: %w", session, host.ErrClosed)
		}
	}
}

// lookup finds a session by the id a client uses for it.
func (f *Front) lookup(ctx context.Context, name string) (*track, *host.Session, id.ID, error) {
	x, err := id.Parse(name)
	if err != nil {
		return nil, nil, id.Nil, noSession(name)
	}
	s, chat, err := f.host.Lookup(ctx, x)
	if err != nil {
		return nil, nil, id.Nil, err
	}
	t, s, err := f.live(ctx, s.ID())
	return t, s, chat, err
}

func noSession(name string) error {
	return fail(codeNotFound, "no session %q", cut(name, 60))
}

// base is a mark of the numbering before an event of a chat.
func (t *track) base(ctx context.Context, chat id.ID, after uint64) (*fold, error) {
	return t.front.keeper.mark(ctx, t.id, func(m *fold) bool {
		c := m.Chats[chat]
		return c == nil || c.Seq <= after
	})
}

// last is the number of a chat's newest event; the caller holds mu.
func (t *track) last(chat id.ID) uint64 {
	if t.fold != nil {
		if c := t.fold.Chats[chat]; c != nil {
			return c.Seq
		}
	}
	return 0
}

// topic is the chat's stream; the caller holds mu.
func (t *track) topic(chat id.ID) *stream {
	topic := t.topics[chat]
	if topic == nil {
		topic = newStream(t.last(chat), t.front.deps.Frames)
		t.topics[chat] = topic
	}
	return topic
}

// origin is the open connection that a chat's questions go to, or nil. A
// subagent's go where its parent's do. The caller holds mu.
func (t *track) origin(chat id.ID) *conn {
	for range maxAncestors {
		if c := t.origins[chat]; c != nil && c.open() {
			return c
		}
		if t.fold == nil || t.fold.Chats[chat] == nil || t.fold.Chats[chat].Origin != event.OriginSubagent {
			return nil
		}
		chat = t.fold.Chats[chat].Parent
	}
	return nil
}

// own makes a connection the origin of a chat and asks it what is open there.
// Without force it does so only when there is no other.
func (t *track) own(chat id.ID, c *conn, force bool) {
	t.mu.Lock()
	if now := t.origin(chat); now != nil && now != c && !force {
		t.mu.Unlock()
		return
	}
	t.origins[chat] = c
	t.mu.Unlock()
	t.front.asks.moved(t)
}

// surfaceState is a chat as notifications show it.
type surfaceState struct {
	name, title, status, owner string
}

func (t *track) surface(chat id.ID, st *state.State) surfaceState {
	s := surfaceState{name: chat.String(), status: statusOf(st, chat)}
	if chat == st.Default {
		s.name, s.title = st.Info.ID.String(), st.Info.Title
	} else if c := st.Chat(chat); c != nil {
		s.title = c.Title
	}
	s.owner = metaString(st.Info.Meta, metaOwner)
	return s
}

// The states of a session in lists.
const (
	statusIdle     = "idle"
	statusRunning  = "running"
	statusApproval = "awaiting_approval"
	statusQuestion = "awaiting_question"
	statusError    = "error"
)

// statusOf is how a chat stands now, but for errors of its last turn.
func statusOf(st *state.State, chat id.ID) string {
	question := false
	for _, i := range st.Open {
		if i.Chat != chat {
			continue
		}
		switch i.Kind {
		case event.Approval:
			return statusApproval
		case event.Question:
			question = true
		}
	}
	switch c := st.Chat(chat); {
	case question:
		return statusQuestion
	case c != nil && c.Active != nil:
		return statusRunning
	}
	return statusIdle
}

func askReason(k event.InteractionKind) string {
	if k == event.Approval {
		return "approval"
	}
	return "question"
}
