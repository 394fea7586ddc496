package host_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/state"
	"github.com/polyhost/polyhost/core/store"
	"github.com/polyhost/polyhost/core/store/memstore"
)

// hindered is a store whose disk can be slow or full.
type hindered struct {
	store.Store
	// reads, if there is one, holds back reads of snapshots until it is closed.
	reads atomic.Pointer[chan struct{}]
	// waiting counts the reads that are held back.
	waiting atomic.Int64
	// slow: a batch takes writeTime to the disk.
	slow atomic.Bool
	full atomic.Bool

	mu   sync.Mutex
	last chan struct{} // closed when the batch before is written
}

const writeTime = 30 * time.Millisecond

var errFull = errors.New("no space left")

func (h *hindered) Get(ctx context.Context, key string) ([]byte, error) {
	if gate := h.reads.Load(); gate != nil && strings.HasPrefix(key, "snapshot/") {
		h.waiting.Add(1)
		<-*gate
	}
	return h.Store.Get(ctx, key)
}

func (h *hindered) Commit(b store.Batch) store.Ticket {
	if h.full.Load() {
		return refused{}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	before, t := h.last, &slowTicket{done: make(chan struct{})}
	h.last = t.done
	go func() {
		defer close(t.done)
		if before != nil {
			<-before
		}
		if h.slow.Load() {
			time.Sleep(writeTime)
		}
		t.err = store.Wait(context.Background(), h.Store.Commit(b))
	}()
	return t
}

type slowTicket struct {
	done chan struct{}
	err  error
}

func (t *slowTicket) Done() <-chan struct{} { return t.done }
func (t *slowTicket) Err() error            { return t.err }

type refused struct{}

func (refused) Done() <-chan struct{} { done := make(chan struct{}); close(done); return done }
func (refused) Err() error            { return errFull }

func hinderedFixture(t *testing.T, change ...func(*host.Options)) (*fixture, *hindered) {
	h := &hindered{Store: memstore.New()}
	f := &fixture{t: t, store: h, dir: t.TempDir()}
	f.open(change...)
	return f, h
}

func (f *fixture) untilOutOfMemory() {
	for f.host.List(host.Filter{})[0].Live {
		select {
		case <-f.ctx().Done():
			f.t.Fatal("the session stays in memory")
		case <-time.After(time.Millisecond):
		}
	}
}

func TestSessionOpenedWhileTheGatewayStopsIsRefused(t *testing.T) {
	t.Parallel()
	f, disk := hinderedFixture(t, func(o *host.Options) { o.IdleAfter = 10 * time.Millisecond })
	s := f.session()
	f.turn(s, "hello")
	f.untilOutOfMemory()
	gate := make(chan struct{})
	disk.reads.Store(&gate)
	opened := make(chan error, 1)
	go func() {
		_, err := f.host.Session(f.ctx(), s.ID())
		opened <- err
	}()
	for disk.waiting.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	if err := f.host.Close(f.ctx()); err != nil {
		t.Fatal(err)
	}
	close(gate)
	if err := <-opened; !errors.Is(err, host.ErrClosed) {
		t.Errorf("a session came into memory after the host had closed: %v", err)
	}
}

func TestPromptsWhileASessionLeavesMemoryAreKept(t *testing.T) {
	t.Parallel()
	f, disk := hinderedFixture(t, func(o *host.Options) { o.IdleAfter = 5 * time.Millisecond })
	sid := f.session().ID()
	disk.slow.Store(true)
	const prompts = 6
	var last host.Prompted
	for range prompts {
		s, err := f.host.Session(f.ctx(), sid)
		if err != nil {
			t.Fatal(err)
		}
		last = f.prompt(s, "hello")
	}
	disk.slow.Store(false)
	s, err := f.host.Session(f.ctx(), sid)
	if err != nil {
		t.Fatal(err)
	}
	f.wait(s, last.Turn)
	for _, turn := range s.State().DefaultChat().Turns {
		if turn.Status != event.TurnComplete || turn.Synthetic {
			t.Errorf("a turn that had run ended as %s, synthetic: %v", turn.Status, turn.Synthetic)
		}
	}
	if n := s.State().DefaultChat().Count; n != prompts {
		t.Errorf("%d of %d turns are left", n, prompts)
	}
}

func TestSessionWorksAgainOnceTheDiskHasRoom(t *testing.T) {
	t.Parallel()
	f, disk := hinderedFixture(t)
	s := f.session()
	f.turn(s, "say stored")
	disk.full.Store(true)
	if _, err := s.Prompt(f.ctx(), host.Prompt{Text: "say lost", By: tester}); !errors.Is(err, errFull) {
		t.Fatalf("a prompt that was not stored: %v", err)
	}
	seen := s.State().Seq
	f.untilOutOfMemory()
	disk.full.Store(false)
	again, err := f.host.Session(f.ctx(), s.ID())
	if err != nil {
		t.Fatal(err)
	}
	f.turn(again, "say after")
	chat := again.State().Chat(again.State().Default)
	if len(chat.Turns) != 2 || chat.Turns[0].Message.Text != "say stored" || chat.Turns[1].Message.Text != "say after" {
		t.Errorf("the history has %d turns", len(chat.Turns))
	}
	f.until(again, "the prompt that follows what was lost", func(e *event.Event) bool {
		start, ok := e.Body.(*event.TurnStarted)
		if ok && start.Message.Text == "say after" && e.Seq <= seen {
			t.Errorf("number %d was given out a second time", e.Seq)
		}
		return ok && start.Message.Text == "say after"
	})
}

func TestQueueThatOutlivedAStopRunsWithTheNextPrompt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.session()
	f.prompt(s, "sleep 60000")
	queued := f.prompt(s, "say queued")
	if err := f.host.Close(f.ctx()); err != nil {
		t.Fatal(err)
	}
	f.open()
	again, err := f.host.Session(f.ctx(), s.ID())
	if err != nil {
		t.Fatal(err)
	}
	after := f.prompt(again, "say after")
	for _, turn := range []*state.Turn{f.wait(again, queued.Turn), f.wait(again, after.Turn)} {
		if turn.Status != event.TurnComplete {
			t.Errorf("the turn of %q ended as %s", turn.Message.Text, turn.Status)
		}
	}
}

// A crash between the two would find a queued message with the agent, and in
// the queue still.
func TestNoPromptReachesItsAgentBeforeItsTurnIsOnDisk(t *testing.T) {
	t.Parallel()
	disk := &hindered{Store: memstore.New()}
	disk.slow.Store(true)
	f := &fixture{t: t, store: disk, dir: t.TempDir()}
	var session atomic.Value
	early := make(chan string, 3)
	release := make(chan struct{})
	r := &rogue{say: func(c *rogueTalk, turn string) {
		records, err := disk.Read(context.Background(), "session/"+session.Load().(string), 1, 1<<20)
		stored := slices.ContainsFunc(records, func(r store.Record) bool {
			return bytes.Contains(r.Data, []byte("turn.started")) && bytes.Contains(r.Data, []byte(turn))
		})
		if err != nil || !stored {
			early <- turn
		}
		<-release
		end(c, turn)
	}}
	f.open(func(o *host.Options) { o.Backends = []host.NamedBackend{{Name: "rogue", Backend: r}} })
	s := f.session()
	session.Store(s.ID().String())
	f.prompt(s, "first")
	f.prompt(s, "second")
	last := f.prompt(s, "third")
	close(release)
	f.wait(s, last.Turn)
	if len(early) > 0 {
		t.Errorf("%d of 3 prompts were with the agent before they were stored", len(early))
	}
}
