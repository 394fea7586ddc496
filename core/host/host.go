// Package host runs the sessions of the gateway: it takes commands, drives
// agents, appends events and tells who watches. It knows no protocol, no
// agent CLI and no socket.
//
// Each live session is one goroutine that takes commands and agent frames in
// order and appends events; readers take frozen states and never wait for it.
// A command returns once its events are on disk. Interrupts and answers
// overtake everything that waits. Subscribers see an end (of a turn, of an
// interaction) only once it is on disk. Nobody can block a session but the
// store, whose queue is bounded, and then only until the disk moves on; a
// session whose agent is faster than its events can be stored slows the agent.
package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/polyhost/polyhost/core/addon"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/extend"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/policy"
	"github.com/polyhost/polyhost/core/store"
	"github.com/polyhost/polyhost/core/terminal"
)

// Options configure a host.
type Options struct {
	// Store is the home; the host does not close it.
	Store store.Store
	// Backends are the agents, in the order lists show them. The first is
	// the default.
	Backends []NamedBackend
	// DefaultDir is the working directory of sessions that name none.
	DefaultDir string
	// Fenced says of a directory, links resolved, that no session works in it:
	// what is read there is nobody's business. Nil fences nothing.
	Fenced func(real string) bool
	// DefaultMode is the mode of sessions that name none; accept if empty.
	DefaultMode event.Mode
	Log         *slog.Logger

	ApprovalTimeout time.Duration
	QuestionTimeout time.Duration
	IdleAfter       time.Duration
	// AgentIdleAfter is how long an agent that can resume is kept without a
	// turn; negative is for ever. A session whose agent runs stays in memory.
	AgentIdleAfter time.Duration
	// Tools serves clients' tools to agents that connect to MCP servers; nil
	// serves none.
	Tools ToolServer
	// Addons has the copies of the plugins that are brought to sessions; nil for
	// none.
	Addons *addon.Store
	// Own are the tools that the gateway itself runs for agents; nil is none.
	Own OwnTools
	// Past is how many past conversations of each agent are listed; negative
	// is none.
	Past  int
	Grace time.Duration
	// Terminals is how shells are started.
	Terminals terminal.Options
}

// NamedBackend is an agent backend and the name sessions refer to it by.
type NamedBackend struct {
	Name    string
	Backend agent.Backend
	// Missing is why the program of the agent is not there, told without delay;
	// nil leaves that to the backend.
	Missing func() error
}

// Host is the neutral gateway.
type Host struct {
	opt   Options
	log   *slog.Logger
	store store.Store
	allow *policy.Allowlist

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.RWMutex
	index   map[id.ID]*Summary
	moving  sync.Mutex         // one chat at a time changes its session
	chats   map[id.ID]id.ID    // chat -> session, for all but default chats' sessions
	aliases map[string]aliased // front + "\x00" + alias
	keys    map[string]id.ID   // idempotency keys of creations
	keyRing []string           // their order, for the bound
	live    map[id.ID]*Session
	opening map[id.ID]chan struct{} // on the way into memory, or out of it; closed when done
	// beyond is how far clients have seen sessions whose log fell short of it.
	beyond  map[id.ID]uint64
	closing bool
	opened  bool // Open is done

	watchers  map[*Watch]struct{}
	lives     map[*LiveWatch]struct{}
	agents    *agents
	past      pastList
	terminals *terminal.Set
	counters  counters
	ownOff    atomic.Bool // the gateway's own tools are not offered
	extended  *extend.Registry
	adopted   adopted
}

type aliased struct{ session, chat id.ID }

// Open starts a host on a store: it reads the summaries, closes what a crash
// left open, and goes on in the background with the messages that waited.
func Open(ctx context.Context, o Options) (*Host, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	setDefault(&o.DefaultMode, event.ModeAccept)
	setDefault(&o.ApprovalTimeout, DefaultApprovalTimeout)
	setDefault(&o.QuestionTimeout, DefaultQuestionTimeout)
	setDefault(&o.IdleAfter, DefaultIdleAfter)
	setDefault(&o.AgentIdleAfter, DefaultAgentIdleAfter)
	setDefault(&o.Past, DefaultPast)
	setDefault(&o.Grace, DefaultGrace)
	if o.Terminals.Log == nil {
		o.Terminals.Log = o.Log
	}
	if len(o.Backends) == 0 {
		return nil, fmt.Errorf("open host: %w: none is configured", ErrNoBackend)
	}
	h := &Host{opt: o, log: o.Log, store: o.Store,
		index: map[id.ID]*Summary{}, chats: map[id.ID]id.ID{}, aliases: map[string]aliased{}, keys: map[string]id.ID{},
		live: map[id.ID]*Session{}, opening: map[id.ID]chan struct{}{}, beyond: map[id.ID]uint64{},
		watchers: map[*Watch]struct{}{}, lives: map[*LiveWatch]struct{}{}, past: newPastList(),
		terminals: terminal.NewSet(o.Terminals)}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	stored, err := o.Store.Get(ctx, allowlistKey)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("open host: %w", err)
	}
	h.allow, err = policy.NewAllowlist(stored, func(b []byte) error {
		return store.Wait(context.WithoutCancel(ctx), o.Store.Commit(store.Batch{Put: []store.KV{{Key: allowlistKey, Value: b}}}))
	})
	if err != nil {
		return nil, fmt.Errorf("open host: %w", err)
	}
	stored, err = o.Store.Get(ctx, decisionsKey)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("open host: %w", err)
	}
	h.extended, err = extend.New(stored, func(b []byte) error {
		return store.Wait(context.WithoutCancel(ctx), o.Store.Commit(store.Batch{Put: []store.KV{{Key: decisionsKey, Value: b}}}))
	})
	if err != nil {
		return nil, fmt.Errorf("open host: %w", err)
	}
	if err := h.loadIndex(ctx); err != nil {
		return nil, fmt.Errorf("open host: %w", err)
	}
	h.agents = newAgents(ctx, h)
	if err := h.loadBuried(ctx); err != nil {
		return nil, fmt.Errorf("open host: %w", err)
	}
	if err := h.discardPrivate(ctx); err != nil {
		return nil, fmt.Errorf("open host: %w", err)
	}
	for _, s := range h.index {
		h.adopt(&s.Info)
	}
	if err := h.recoverRunning(ctx); err != nil {
		return nil, fmt.Errorf("open host: %w", err)
	}
	if err := h.finishMoves(ctx); err != nil {
		return nil, fmt.Errorf("open host: %w", err)
	}
	h.wg.Go(h.watchPast)
	h.resumeQueues()
	return h, nil
}

func setDefault[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// DefaultDir is the working directory of sessions that name none.
func (h *Host) DefaultDir() string { return h.opt.DefaultDir }

// ApprovalTimeout is how long an approval waits for a person.
func (h *Host) ApprovalTimeout() time.Duration { return h.opt.ApprovalTimeout }

// QuestionTimeout is how long a question waits for a person.
func (h *Host) QuestionTimeout() time.Duration { return h.opt.QuestionTimeout }

// Terminals are the host's shells. Those of a session end with it, all with the
// host.
func (h *Host) Terminals() *terminal.Set { return h.terminals }

// Extensions are the commands, skills, subagents and MCP servers of sessions,
// and what was decided of them.
func (h *Host) Extensions() *extend.Registry { return h.extended }

// Addons has the copies of plugins that are brought to sessions; nil for none.
func (h *Host) Addons() *addon.Store { return h.opt.Addons }

// Allowlist is the lasting list of calls that need no asking.
func (h *Host) Allowlist() *policy.Allowlist { return h.allow }

// Blob returns the bytes of a large attachment.
func (h *Host) Blob(ctx context.Context, name string) ([]byte, error) {
	return h.store.Blob(ctx, name)
}

// indexLocked puts a summary into the index and its names beside it. The
// caller holds mu, or nobody else knows the host yet.
func (h *Host) indexLocked(s *Summary) {
	h.unindexNames(s.Info.ID)
	h.index[s.Info.ID] = s
	for front, name := range s.Info.Aliases {
		h.aliases[front+"\x00"+name] = aliased{s.Info.ID, s.Default}
	}
	for _, c := range s.Chats {
		h.chats[c.Info.ID] = s.Info.ID
		if c.Info.Conversation != "" {
			h.past.owner[conversationKey(s.Info.Backend, c.Info.Conversation)] = s.Info.ID
		}
		for front, name := range c.Info.Aliases {
			h.aliases[front+"\x00"+name] = aliased{s.Info.ID, c.Info.ID}
		}
	}
}

func (h *Host) unindexNames(s id.ID) {
	old := h.index[s]
	if old == nil {
		return
	}
	h.unname(s, old.Info.Aliases)
	for _, c := range old.Chats {
		h.unindexChat(s, c.Info.ID, c.Info.Aliases)
		if k := conversationKey(old.Info.Backend, c.Info.Conversation); h.past.owner[k] == s {
			delete(h.past.owner, k)
		}
	}
}

// unindexChat forgets a chat, unless another session has it by now.
func (h *Host) unindexChat(s, chat id.ID, aliases map[string]string) {
	if h.chats[chat] == s {
		delete(h.chats, chat)
	}
	h.unname(s, aliases)
}

func (h *Host) unname(s id.ID, aliases map[string]string) {
	for front, name := range aliases {
		if k := front + "\x00" + name; h.aliases[k].session == s {
			delete(h.aliases, k)
		}
	}
}

// meetChat indexes a chat under its names before anybody hears of it; the
// session's summary, which brings them too, follows a moment later.
func (h *Host) meetChat(s, chat id.ID, aliases map[string]string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.chats[chat] = s
	for front, name := range aliases {
		h.aliases[front+"\x00"+name] = aliased{s, chat}
	}
}

// partChat takes it out of the index.
func (h *Host) partChat(s, chat id.ID, aliases map[string]string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unindexChat(s, chat, aliases)
}

// SessionOf returns the session of a chat, without opening it. It knows every
// chat that anybody can have heard of; the summaries may be a moment behind.
func (h *Host) SessionOf(chat id.ID) (session id.ID, ok bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	session, ok = h.chats[chat]
	return session, ok
}

// Lookup finds a session by its own id, or by the id of one of its chats, and
// opens it. For a session id the chat is its default one.
func (h *Host) Lookup(ctx context.Context, x id.ID) (*Session, id.ID, error) {
	h.mu.RLock()
	sid, isChat := h.chats[x]
	h.mu.RUnlock()
	if !isChat {
		sid = x
	}
	s, err := h.Session(ctx, sid)
	if err != nil {
		return nil, id.Nil, err
	}
	if isChat {
		return s, x, nil
	}
	return s, s.State().Default, nil
}

// ByAlias finds the session and chat that a client of a front named so.
func (h *Host) ByAlias(front, alias string) (session, chat id.ID, ok bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	a, ok := h.aliases[front+"\x00"+alias]
	return a.session, a.chat, ok
}

// Session returns a session, opening it from the store if it is not live.
func (h *Host) Session(ctx context.Context, sid id.ID) (*Session, error) {
	for {
		h.mu.Lock()
		if s := h.live[sid]; s != nil {
			h.mu.Unlock()
			return s, nil
		}
		if h.index[sid] == nil {
			h.mu.Unlock()
			return nil, fmt.Errorf("session %s: %w", sid, ErrNotFound)
		}
		if h.closing {
			h.mu.Unlock()
			return nil, ErrClosed
		}
		if wait := h.opening[sid]; wait != nil {
			h.mu.Unlock()
			select {
			case <-wait:
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		done := make(chan struct{})
		h.opening[sid] = done
		h.mu.Unlock()

		s, err := h.loadOrImport(ctx, sid)

		h.mu.Lock()
		delete(h.opening, sid)
		close(done)
		if err == nil && h.index[sid] == nil {
			err = fmt.Errorf("session %s: %w", sid, ErrNotFound) // deleted meanwhile
		}
		if err == nil && h.closing {
			err = ErrClosed // Close knows the live sessions and would miss this one
		}
		if err == nil {
			h.startLocked(s)
		}
		h.mu.Unlock()
		if err != nil {
			return nil, err
		}
		return s, nil
	}
}

// startLocked makes a session live. The caller holds mu.
func (h *Host) startLocked(s *Session) {
	h.live[s.id] = s
	delete(h.beyond, s.id)
	sum := summarise(s.work, s.private)
	h.indexLocked(&sum)
	s.counted = true
	frozen := s.State()
	for w := range h.lives {
		w.push(Live{Session: s, State: frozen})
	}
	h.wg.Go(s.run)
}

// Close stops the host: it takes no new prompts, gives running turns the
// grace period, ends what still runs as cancelled, and stores everything.
func (h *Host) Close(ctx context.Context) error {
	h.mu.Lock()
	h.closing = true
	sessions := make([]*Session, 0, len(h.live))
	for _, s := range h.live {
		sessions = append(sessions, s)
	}
	h.mu.Unlock()
	grace, cancel := context.WithTimeout(ctx, h.opt.Grace)
	var wg sync.WaitGroup
	for _, s := range sessions {
		wg.Go(func() { s.stop(grace) })
	}
	wg.Wait()
	cancel()
	h.terminals.Close()
	h.cancel()
	h.agents.close()
	h.mu.Lock()
	for w := range h.watchers {
		w.end()
	}
	for w := range h.lives {
		w.end()
	}
	h.mu.Unlock()
	done := make(chan struct{})
	go func() { h.wg.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close host: %w", ctx.Err())
	}
}

// idleTick is how often sessions look whether they and their agents are idle.
func (o *Options) idleTick() time.Duration {
	tick := min(o.IdleAfter, time.Minute)
	if o.AgentIdleAfter > 0 {
		tick = min(tick, o.AgentIdleAfter)
	}
	return tick
}
