package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/polyhost/polyhost/backends/demo"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
	"github.com/polyhost/polyhost/core/store"
	"github.com/polyhost/polyhost/core/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var tester = event.Actor{Front: "test", Client: "t1"}

// fixture is a host over a store, with the demo agent.
type fixture struct {
	t     *testing.T
	host  *host.Host
	store store.Store
	dir   string
}

func newFixture(t *testing.T, change ...func(*host.Options)) *fixture {
	t.Helper()
	f := &fixture{t: t, store: memstore.New(), dir: t.TempDir()}
	f.open(change...)
	return f
}

func (f *fixture) open(change ...func(*host.Options)) {
	f.t.Helper()
	o := host.Options{Store: f.store, Backends: []host.NamedBackend{{Name: "demo", Backend: demo.New()}},
		DefaultDir: f.dir, Log: slog.New(slog.NewTextHandler(f.t.Output(), nil)), Grace: 50 * time.Millisecond}
	for _, c := range change {
		c(&o)
	}
	if o.AgentIdleAfter == 0 {
		o.AgentIdleAfter = o.IdleAfter // a session leaves memory after its agent
	}
	h, err := host.Open(f.ctx(), o)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := h.AgentsReady(f.ctx()); err != nil {
		f.t.Fatal(err)
	}
	f.host = h
	f.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		if err := h.Close(ctx); err != nil {
			f.t.Error(err)
		}
		for _, b := range o.Backends {
			b.Backend.Close()
		}
	})
}

func (f *fixture) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	f.t.Cleanup(cancel)
	return ctx
}

func (f *fixture) session(change ...func(*host.CreateSession)) *host.Session {
	f.t.Helper()
	c := host.CreateSession{By: tester}
	for _, ch := range change {
		ch(&c)
	}
	s, err := f.host.CreateSession(f.ctx(), c)
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

func (f *fixture) prompt(s *host.Session, text string, change ...func(*host.Prompt)) host.Prompted {
	f.t.Helper()
	p := host.Prompt{Text: text, By: tester}
	for _, c := range change {
		c(&p)
	}
	got, err := s.Prompt(f.ctx(), p)
	if err != nil {
		f.t.Fatal(err)
	}
	return got
}

// turn prompts and waits for the end.
func (f *fixture) turn(s *host.Session, text string) *state.Turn {
	f.t.Helper()
	return f.wait(s, f.prompt(s, text).Turn)
}

func (f *fixture) wait(s *host.Session, turn id.ID) *state.Turn {
	f.t.Helper()
	if fresh, err := f.host.Session(f.ctx(), s.ID()); err == nil {
		s = fresh // it may have left memory before the prompt
	}
	t, err := s.WaitTurn(f.ctx(), s.State().Default, turn)
	if err != nil {
		f.t.Fatal(err)
	}
	return t
}

// until waits for the first event that the test picks, and checks the order
// on the way.
func (f *fixture) until(s *host.Session, what string, pick func(*event.Event) bool) *event.Event {
	f.t.Helper()
	sub := s.Subscribe(0)
	defer sub.Close()
	next := uint64(1)
	for {
		batch, err := sub.Next(f.ctx())
		if err != nil {
			f.t.Fatalf("waiting for %s: %v", what, err)
		}
		for _, e := range batch {
			if e.Seq != next {
				f.t.Fatalf("event %d came where %d was due", e.Seq, next)
			}
			next++
			if pick(e) {
				return e
			}
		}
	}
}

func (f *fixture) opened(s *host.Session, kind event.InteractionKind) event.Interaction {
	f.t.Helper()
	e := f.until(s, string(kind), func(e *event.Event) bool {
		o, ok := e.Body.(*event.InteractionOpened)
		return ok && o.Interaction.Kind == kind && s.State().Interaction(o.Interaction.ID) != nil
	})
	return e.Body.(*event.InteractionOpened).Interaction
}

func (f *fixture) kinds(s *host.Session) []string {
	f.t.Helper()
	events, err := s.Events(f.ctx(), 0, 0, 1<<30)
	if err != nil {
		f.t.Fatal(err)
	}
	var out []string
	for _, e := range events {
		k := string(e.Body.Kind())
		if n := len(out); n > 0 && out[n-1] == k && k == "part.delta" {
			continue
		}
		out = append(out, k)
	}
	return out
}

func TestATurnIsItsEventsInOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.session()
	turn := f.turn(s, "say one two three")
	if turn.Status != event.TurnComplete || turn.Text() != "one two three" {
		t.Fatalf("the turn is %s with %q", turn.Status, turn.Text())
	}
	got := strings.Join(f.kinds(s), " ")
	for _, want := range []string{"session.created turn.started session.updated", "part.started part.delta part.ended turn.ended"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	sum, _ := f.host.Summary(s.ID())
	if sum.Info.Title != "say one two three" || sum.Status != host.Idle || sum.Info.Provisional {
		t.Errorf("the summary is %+v", sum)
	}
}

func TestApprovalFirstAnswerWins(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.session()
	p := f.prompt(s, "run echo hi > out.txt")
	i := f.opened(s, event.Approval)
	if err := s.Resolve(f.ctx(), i.ID, event.Resolution{Outcome: event.Allowed, By: tester}); err != nil {
		t.Fatal(err)
	}
	if err := s.Resolve(f.ctx(), i.ID, event.Resolution{Outcome: event.Denied, By: tester}); !errors.Is(err, host.ErrResolved) {
		t.Errorf("the second answer got %v", err)
	}
	if err := s.Resolve(f.ctx(), id.New(), event.Resolution{Outcome: event.Denied, By: tester}); !errors.Is(err, host.ErrNotFound) {
		t.Errorf("an answer to nothing got %v", err)
	}
	f.wait(s, p.Turn)
	if b, err := os.ReadFile(filepath.Join(f.dir, "out.txt")); err != nil || string(b) != "hi\n" {
		t.Errorf("the command left %q, %v", b, err)
	}
}

func TestADeniedCallRunsNothingAndTheTurnGoesOn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.session()
	p := f.prompt(s, "run touch no.txt\nsay after")
	i := f.opened(s, event.Approval)
	if err := s.Resolve(f.ctx(), i.ID, event.Resolution{Outcome: event.Denied, By: tester, Reason: "not now"}); err != nil {
		t.Fatal(err)
	}
	turn := f.wait(s, p.Turn)
	if turn.Status != event.TurnComplete || turn.Text() != "after" {
		t.Errorf("the turn is %s with %q", turn.Status, turn.Text())
	}
	if call := turn.Parts[0].Tool; call.Status != event.CallDenied || call.Refused.Reason != "not now" {
		t.Errorf("the call is %+v", call)
	}
	if _, err := os.Stat(filepath.Join(f.dir, "no.txt")); err == nil {
		t.Error("the command ran")
	}
}

// Editors send an approval milliseconds after a cancel.
func TestAnApprovalAfterACancelIsVoid(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.session()
	p := f.prompt(s, "run touch no.txt")
	i := f.opened(s, event.Approval)
	if stopped, err := s.Interrupt(f.ctx(), host.Interrupt{By: tester}); err != nil || !stopped {
		t.Fatalf("interrupt: %v, %v", stopped, err)
	}
	if err := s.Resolve(f.ctx(), i.ID, event.Resolution{Outcome: event.Allowed, By: tester}); !errors.Is(err, host.ErrResolved) {
		t.Errorf("the approval got %v", err)
	}
	if turn := f.wait(s, p.Turn); turn.Status != event.TurnCancelled {
		t.Errorf("the turn is %s", turn.Status)
	}
	f.turn(s, "say next") // the agent is ready again
	if _, err := os.Stat(filepath.Join(f.dir, "no.txt")); err == nil {
		t.Error("the command ran")
	}
}

func TestModeChangeSettlesWhatIsPending(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.session()
	p := f.prompt(s, "run echo hi")
	f.opened(s, event.Approval)
	if err := s.Update(f.ctx(), &event.SessionUpdated{By: tester, Settings: &event.Settings{Mode: event.ModeAuto}}); err != nil {
		t.Fatal(err)
	}
	if turn := f.wait(s, p.Turn); turn.Parts[0].Tool.Status != event.CallDone {
		t.Errorf("the call is %+v", turn.Parts[0].Tool)
	}
}

func TestSessionScopeIsRememberedForTheProgramOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.session()
	p := f.prompt(s, "run echo 1")
	i := f.opened(s, event.Approval)
	if err := s.Resolve(f.ctx(), i.ID, event.Resolution{Outcome: event.Allowed, By: tester, Scope: event.ScopeSession}); err != nil {
		t.Fatal(err)
	}
	f.wait(s, p.Turn)
	if turn := f.turn(s, "run echo 2"); turn.Parts[0].Tool.Allowed != "allowlist" {
		t.Errorf("the second echo was allowed by %q", turn.Parts[0].Tool.Allowed)
	}
	f.prompt(s, "run echo 3; touch no.txt")
	f.opened(s, event.Approval)
}

func TestQueueRunsInOrderAndAnInterruptDropsIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.session()
	first := f.prompt(s, "sleep 60000")
	second, third := f.prompt(s, "say two"), f.prompt(s, "say three")
	if !second.Queued || second.Position != 1 || third.Position != 2 {
		t.Fatalf("queued as %+v and %+v", second, third)
	}
	if removed, err := s.RemoveQueued(f.ctx(), s.State().Default, second.Message, tester); err != nil || !removed {
		t.Fatalf("remove: %v, %v", removed, err)
	}
	if _, err := s.Interrupt(f.ctx(), host.Interrupt{By: tester, KeepQueue: true}); err != nil {
		t.Fatal(err)
	}
	if turn := f.wait(s, third.Turn); turn.Text() != "three" || f.wait(s, first.Turn).Status != event.TurnCancelled {
		t.Errorf("the queue gave %q", turn.Text())
	}
	f.prompt(s, "sleep 60000")
	gone := f.prompt(s, "say never")
	if _, err := s.Interrupt(f.ctx(), host.Interrupt{By: tester}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.WaitTurn(f.ctx(), s.State().Default, gone.Turn); !errors.Is(err, host.ErrNotFound) {
		t.Errorf("the dropped turn gave %v", err)
	}
}

func TestAKeyRunsOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.session()
	key := func(p *host.Prompt) { p.Key = "k" }
	first := f.prompt(s, "say once", key)
	again := f.prompt(s, "say once", key)
	if !again.Duplicate || again.Turn != first.Turn {
		t.Errorf("the retry got %+v, first was %+v", again, first)
	}
	f.wait(s, first.Turn)
	if n := s.State().DefaultChat().Count; n != 1 {
		t.Errorf("%d turns ran", n)
	}
}

func TestSteeringJoinsTheRunningTurn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.session()
	p := f.prompt(s, "ask Go on? | yes\nsay end")
	asked := f.opened(s, event.Question)
	st := f.prompt(s, "say steered", func(p *host.Prompt) { p.Busy = host.BusySteer })
	yes := event.Resolution{Outcome: event.Answered, By: tester, Answers: []event.Answer{{ID: asked.Questions[0].ID, Selected: []string{"yes"}}}}
	if err := s.Resolve(f.ctx(), asked.ID, yes); err != nil {
		t.Fatal(err)
	}
	if !st.Steering || st.Turn != p.Turn {
		t.Fatalf("steering gave %+v", st)
	}
	turn := f.wait(s, p.Turn)
	var got []string
	for _, p := range turn.Parts {
		if p.Kind == event.PartMessage {
			got = append(got, "message:"+p.Message.Text)
		} else {
			got = append(got, p.Text.String())
		}
	}
	if want := "yes|message:say steered|steered|end"; strings.Join(got, "|") != want {
		t.Errorf("the turn is %q", strings.Join(got, "|"))
	}
}

func TestSubagentIsAChildChat(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.session()
	turn := f.turn(s, "spawn scout say found it")
	st := s.State()
	if len(st.Chats) != 2 || st.Chats[1].Origin.Kind != event.OriginSubagent {
		t.Fatalf("the chats are %+v", st.Chats)
	}
	child := st.Chats[1]
	if child.Count != 1 || child.Turns[0].Text() != "found it" || child.Turns[0].Status != event.TurnComplete {
		t.Errorf("the child's turn is %+v", child.Turns)
	}
	if call := turn.Parts[0].Tool; call.Child != child.ID || call.Output.String() != "found it" {
		t.Errorf("the call is %+v", call)
	}
}

func TestQuestionAnsweredAndChecked(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.session()
	p := f.prompt(s, "ask Which? | red | blue")
	i := f.opened(s, event.Question)
	q := i.Questions[0].ID
	bad := event.Resolution{Outcome: event.Answered, By: tester, Answers: []event.Answer{{ID: q, Selected: []string{"green"}}}}
	if err := s.Resolve(f.ctx(), i.ID, bad); !errors.Is(err, host.ErrInvalid) {
		t.Errorf("an answer that is no option got %v", err)
	}
	good := event.Resolution{Outcome: event.Answered, By: tester, Answers: []event.Answer{{ID: q, Selected: []string{"blue"}}}}
	if err := s.Resolve(f.ctx(), i.ID, good); err != nil {
		t.Fatal(err)
	}
	if turn := f.wait(s, p.Turn); !strings.Contains(turn.Text(), "blue") {
		t.Errorf("the agent says %q", turn.Text())
	}
}

func TestClientToolRunsAtItsClient(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.session()
	set := &event.ClientToolsSet{Client: tester, Tools: []event.ClientTool{{Name: "lookup"}}}
	if err := s.SetTools(f.ctx(), set); err != nil {
		t.Fatal(err)
	}
	p := f.prompt(s, `call lookup {"q":1}`)
	i := f.opened(s, event.ClientCall)
	if i.Client.Client != "t1" || string(i.Input) != `{"q":1}` {
		t.Errorf("asked for %+v", i)
	}
	if tool := s.State().DefaultChat().Active.Part(i.Part).Tool; tool.Client.Client != "t1" {
		t.Errorf("the call does not say whose it is: %+v", tool)
	}
	if err := s.Resolve(f.ctx(), i.ID, event.Resolution{Outcome: event.Completed, By: tester, Output: "42"}); err != nil {
		t.Fatal(err)
	}
	if turn := f.wait(s, p.Turn); !strings.Contains(turn.Text(), "42") || turn.Parts[0].Tool.Status != event.CallDone {
		t.Errorf("the turn says %q", turn.Text())
	}
	p = f.prompt(s, `call lookup {"q":2}`)
	f.opened(s, event.ClientCall)
	if err := s.ClientGone(f.ctx(), tester); err != nil {
		t.Fatal(err)
	}
	if turn := f.wait(s, p.Turn); turn.Parts[0].Tool.Status != event.CallFailed {
		t.Errorf("a call whose client left is %+v", turn.Parts[0].Tool)
	}
}

func TestBadDirectoryIsNamed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	file := filepath.Join(f.dir, "file")
	os.WriteFile(file, nil, 0o600)
	for _, dir := range []string{filepath.Join(f.dir, "none"), file, "relative"} {
		_, err := f.host.CreateSession(f.ctx(), host.CreateSession{By: tester, Dirs: []string{dir}})
		if !errors.Is(err, host.ErrBadDir) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", dir, err)
		}
	}
	if n := len(f.host.List(host.Filter{IncludePrivate: true})); n != 0 {
		t.Errorf("%d sessions were left", n)
	}
}

func TestReopenedSessionIsTheSame(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.session(func(c *host.CreateSession) { c.Alias = "mine" })
	for range 60 { // more than the window keeps
		f.turn(s, "say hello\nthink hm")
	}
	f.turn(s, "write a.md text\nplan a; b\nusage 3 4")
	want := s.State()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if err := f.host.Close(ctx); err != nil {
		t.Fatal(err)
	}
	f.open()
	sid, _, ok := f.host.ByAlias("test", "mine")
	if !ok || sid != s.ID() {
		t.Fatal("the alias is lost")
	}
	again, err := f.host.Session(f.ctx(), sid)
	if err != nil {
		t.Fatal(err)
	}
	got := again.State()
	a, _ := json.Marshal(want)
	b, _ := json.Marshal(got)
	if string(a) != string(b) {
		t.Errorf("the state was\n%s\nand is\n%s", a, b)
	}
	if got.Seq != want.Seq || got.DefaultChat().Count != want.DefaultChat().Count || len(got.DefaultChat().Turns) != len(want.DefaultChat().Turns) {
		t.Errorf("seq %d count %d, want %d and %d", got.Seq, got.DefaultChat().Count, want.Seq, want.DefaultChat().Count)
	}
	if turn := f.turn(again, "say z"); turn.Text() != "z" {
		t.Errorf("the next turn says %q", turn.Text())
	}
}

func TestWatchTellsOfSessions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	w := f.host.Watch()
	defer w.Close()
	hidden := f.session(func(c *host.CreateSession) { c.Private = true })
	open := f.session()
	changes, err := w.Next(f.ctx())
	if err != nil || len(changes) != 1 || changes[0].Session != open.ID() || changes[0].Kind != host.Added {
		t.Fatalf("got %+v, %v", changes, err)
	}
	f.turn(hidden, "say hi")
	changes, err = w.Next(f.ctx())
	if err != nil || changes[0].Session != hidden.ID() || changes[0].Kind != host.Added {
		t.Fatalf("got %+v, %v", changes, err)
	}
	if err := f.host.DeleteSession(f.ctx(), open.ID(), tester); err != nil {
		t.Fatal(err)
	}
	for {
		changes, err = w.Next(f.ctx())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range changes {
			if c.Kind == host.Removed && c.Session == open.ID() {
				if _, err := f.host.Session(f.ctx(), open.ID()); !errors.Is(err, host.ErrNotFound) {
					t.Errorf("the deleted session gives %v", err)
				}
				return
			}
		}
	}
}

// Right after a restart clients see the models the agent had.
func TestAgentsAreKnownRightAfterARestart(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	want := f.host.Agents()[0].Info
	if len(want.Models) == 0 {
		t.Fatal("the agent has no models")
	}
	if err := f.host.Close(f.ctx()); err != nil {
		t.Fatal(err)
	}
	h, err := host.Open(f.ctx(), host.Options{Store: f.store, DefaultDir: f.dir,
		Backends: []host.NamedBackend{{Name: "demo", Backend: silentBackend{}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(f.ctx())
	if got := h.Agents()[0]; len(got.Info.Models) != len(want.Models) || got.Known {
		t.Errorf("before it answers the agent is %+v", got)
	}
}

// silentBackend never says what it is.
type silentBackend struct{ agent.Backend }

func (silentBackend) Info(ctx context.Context) (agent.Info, error) {
	<-ctx.Done()
	return agent.Info{}, ctx.Err()
}
