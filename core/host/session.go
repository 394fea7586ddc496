package host

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/hub"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
	"github.com/polyhost/polyhost/core/store"
)

// Session is a live session. Its methods may be called by any goroutine.
type Session struct {
	host *Host
	id   id.ID
	log  *slog.Logger
	hub  *hub.Hub

	// mu guards work's folding against Freeze; only run writes.
	mu     sync.Mutex
	work   *state.State
	frozen atomic.Pointer[state.State]
	seq    atomic.Uint64 // of work

	urgent  chan func() // overtakes commands and frames
	cmds    chan func()
	frames  chan received
	tickets chan *ticketed // held by reference: a session has room for many, and uses few
	lost    chan struct{}  // events could not be stored
	gone    chan struct{}  // closed when run has ended

	// The rest belongs to run's goroutine.
	w         writer
	at        time.Time // of the events being made: one reading a round
	pubMu     sync.Mutex
	held      []*event.Event // published once a barrier among them is stored
	chats     map[id.ID]*run
	settled   map[id.ID]bool
	settledAt []id.ID
	remember  []string // patterns allowed for this session
	keys      map[string]Prompted
	keyOrder  []string
	private   bool
	autoTitle string // the title, if no person gave it
	reason    string // of the summary's next announcement; "" for none
	reserved  uint64
	idleSince time.Time
	stopping  bool
	deleted   bool
	resumes   bool                              // run begins with what waits
	expiry    time.Time                         // of the expiry timer
	tellAt    time.Time                         // when it is told what the session does; zero: it was
	told      string                            // what it does, as it was last told
	late      int64                             // frames that came after their turn's end
	lent      atomic.Pointer[map[string]string] // for agents that start
	silent    bool                              // nobody hears of what is imported
	counted   bool                              // what happens is counted: the session is live
}

// received is a batch of frames of one conversation, or its end.
type received struct {
	conv   *conversation
	frames []agentFrame
	err    error
}

// ticketed is a commit on its way to the disk.
type ticketed struct {
	ticket store.Ticket
	last   uint64
	// change is what the watchers hear once the batch is stored.
	change   Change
	announce bool
}

func newSession(h *Host, st *state.State, private bool) *Session {
	s := &Session{
		host: h, id: st.Info.ID, work: st, private: private,
		log:    h.log.With("session", st.Info.ID.String()),
		urgent: make(chan func(), inbox), cmds: make(chan func(), inbox), frames: make(chan received, inbox),
		tickets: make(chan *ticketed, maxTickets), lost: make(chan struct{}, 1), gone: make(chan struct{}),
		chats: map[id.ID]*run{}, settled: map[id.ID]bool{}, keys: map[string]Prompted{}, idleSince: time.Now(),
	}
	s.w = writer{store: h.store, log: logName(s.id), last: st.Seq}
	s.seq.Store(st.Seq)
	s.frozen.Store(st.Freeze())
	s.hub = hub.New(sessionLog{s}, st.Seq)
	return s
}

// ID is the session's id.
func (s *Session) ID() id.ID { return s.id }

// Lend gives tokens for resources to the agents that the session starts from now
// on, in place of those lent before. They are kept in memory alone.
func (s *Session) Lend(tokens map[string]string) { s.lent.Store(&tokens) }

// State is the session as it is now: frozen, to be shared freely.
func (s *Session) State() *state.State {
	if f := s.frozen.Load(); f.Seq == s.seq.Load() {
		return f
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.frozen.Load()
	if f.Seq != s.work.Seq {
		f = s.work.Freeze()
		s.frozen.Store(f)
	}
	return f
}

// Subscribe begins after a sequence number; 0 is the beginning.
func (s *Session) Subscribe(after uint64) *hub.Subscription { return s.hub.Subscribe(after) }

// run is the session's goroutine.
func (s *Session) run() {
	defer s.over()
	var waiter sync.WaitGroup
	waiter.Go(s.awaitTickets)
	flush := time.NewTimer(time.Hour)
	expire := time.NewTimer(time.Hour)
	idle := time.NewTicker(s.host.opt.idleTick())
	defer flush.Stop()
	defer expire.Stop()
	defer idle.Stop()
	flushing := false
	if s.resumes {
		s.round(s.resume)
	}
	for {
		// Interrupts and answers first, whatever waits.
		select {
		case <-s.lost:
			s.abandon()
		case f := <-s.urgent:
			s.round(f)
		default:
			select {
			case f := <-s.urgent:
				s.round(f)
			case f := <-s.cmds:
				s.round(f)
			case r := <-s.frames:
				s.round(func() { s.receive(r) })
			case <-flush.C:
				flushing = false
				s.commit()
			case <-expire.C:
				s.expiry = time.Time{}
				s.round(s.due)
			case <-s.lost:
				s.abandon()
			case <-idle.C:
				s.restAgents()
				if s.unused() {
					s.leave()
				}
			}
		}
		if s.w.waiting() && !flushing {
			flushing = true
			flush.Reset(flushEvery)
		}
		if next := s.nextDue(); !next.Equal(s.expiry) {
			s.expiry = next
			if !next.IsZero() {
				expire.Reset(time.Until(next))
			}
		}
		if s.stopping {
			break
		}
	}
	for _, r := range s.chats {
		r.drop()
	}
	close(s.tickets)
	waiter.Wait()
	s.hub.Close()
}

// over lets those go on who wait for the session to be out of memory.
func (s *Session) over() {
	s.host.mu.Lock()
	if s.host.opening[s.id] == s.gone {
		delete(s.host.opening, s.id)
	}
	s.host.mu.Unlock()
	close(s.gone)
}

// round runs one command or batch and hands what it caused to the store.
func (s *Session) round(f func()) {
	s.at = now()
	f()
	if s.reason != "" || s.w.durable || s.w.full() {
		s.commit()
	}
}

// restAgents stops the agents that had nothing to do for a while and can take
// their conversation up again.
func (s *Session) restAgents() {
	after := s.host.opt.AgentIdleAfter
	if after < 0 || !s.host.can(s.work.Info.Backend).Resume {
		return
	}
	for _, r := range s.chats {
		c := s.work.Chat(r.chat)
		if r.conv == nil || c == nil || c.Conversation == "" || !r.turn.IsNil() || r.draining || r.background ||
			len(c.Queue)+len(c.Steering) > 0 || time.Since(r.since) < after {
			continue
		}
		s.log.Info("An agent without a turn is stopped until the next prompt", "chat", r.chat.String())
		r.drop()
	}
}

// unused reports whether the session may leave memory.
func (s *Session) unused() bool {
	busy := s.work.Running() || len(s.work.Open) > 0
	for _, c := range s.work.Chats {
		busy = busy || len(c.Queue)+len(c.Steering) > 0
	}
	if busy {
		s.idleSince = time.Now()
		return false
	}
	for _, r := range s.chats {
		if r.conv != nil { // it would lose its agent
			return false
		}
	}
	return time.Since(s.idleSince) >= s.host.opt.IdleAfter
}

// leave takes the session out of memory. Commands on their way find it again,
// once all that it wrote is on disk: whoever reads it before that goes on from
// an older end.
func (s *Session) leave() {
	if b, err := snapshot(s.State()); err == nil && !s.deleted {
		s.w.put = append(s.w.put, store.KV{Key: snapshotKey(s.id), Value: b})
	}
	s.w.del = append(s.w.del, reservedKey(s.id))
	s.commit()
	if s.late > 0 {
		s.log.Info("Agents said things after their turns had ended", "frames", s.late)
	}
	s.host.mu.Lock()
	delete(s.host.live, s.id)
	s.host.opening[s.id] = s.gone
	if sum := s.host.index[s.id]; sum != nil {
		sum.Live = false
	}
	s.host.mu.Unlock()
	s.stopping = true
}

// abandon takes a session out of memory that is ahead of its log: nothing more
// of it can be stored. Its turns fail, its agents stop, and whoever needs it
// next reads again what is on disk. The numbers that clients have seen are not
// given out a second time.
func (s *Session) abandon() {
	s.cutOff(event.TurnFailed, &event.Error{Code: event.CodeInterrupted, Message: "the gateway could not store what happened"})
	s.host.mu.Lock()
	s.host.beyond[s.id] = s.work.Seq
	s.host.mu.Unlock()
	s.leave()
}

// cutOff ends the running turns; nothing follows them.
func (s *Session) cutOff(status event.TurnStatus, failure *event.Error) {
	s.at = now()
	for _, c := range s.running() {
		if r := s.chatRun(c.ID); r.parent == nil {
			if r.conv != nil && !r.draining {
				s.silence(r)
			}
			s.finish(r, status, failure, event.Gateway, false)
		}
	}
}

// do runs f on the session's goroutine and waits until what it caused is
// stored. A session that left memory is opened again.
func (s *Session) do(ctx context.Context, urgent bool, f func(*Session) error) error {
	type result struct {
		err  error
		last uint64
	}
	done := make(chan result, 1)
	call := func() {
		s.idleSince = time.Now()
		before := s.work.Seq
		err := f(s)
		last := s.work.Seq
		if last == before {
			last = 0 // nothing to wait for
		}
		done <- result{err, last}
	}
	lane := s.cmds
	if urgent {
		lane = s.urgent
	}
	select {
	case lane <- call:
	case <-s.gone:
		return s.again(ctx, urgent, f)
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case r := <-done:
		if r.err != nil {
			return r.err
		}
		return s.Durable(ctx, r.last)
	case <-s.gone:
		select { // it may have run as the last one
		case r := <-done:
			if r.err != nil {
				return r.err
			}
			return s.Durable(ctx, r.last)
		default:
		}
		return s.again(ctx, urgent, f)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Session) again(ctx context.Context, urgent bool, f func(*Session) error) error {
	fresh, err := s.host.Session(ctx, s.id)
	if err != nil {
		return err
	}
	return fresh.do(ctx, urgent, f)
}

// Durable waits until everything up to a sequence number is on disk.
func (s *Session) Durable(ctx context.Context, seq uint64) error {
	return s.hub.WaitStored(ctx, seq)
}
