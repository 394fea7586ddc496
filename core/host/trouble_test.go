package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/store/memstore"
)

// rogue is an agent that misbehaves as the test says: no real one can be made
// to do so on demand.
type rogue struct {
	open func() error
	// say is what it says after a prompt; interrupt after an interrupt.
	say, interrupt func(c *rogueTalk, turn string)
	// able is what it promises beside approvals.
	able          agent.Capabilities
	mu            sync.Mutex
	opens, closes int
	asked         []agent.Open
	all           []*rogueTalk
}

type rogueTalk struct {
	r      *rogue
	frames chan agent.Frame
	end    chan error
	turn   string
	mu     sync.Mutex
}

func (r *rogue) Info(context.Context) (agent.Info, error) {
	able := r.able
	able.Approvals = true
	return agent.Info{Capabilities: able}, nil
}
func (r *rogue) Close() error { return nil }
func (r *rogue) Open(_ context.Context, o agent.Open) (agent.Conversation, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opens++
	r.asked = append(r.asked, o)
	if r.open != nil {
		if err := r.open(); err != nil {
			return nil, err
		}
	}
	c := &rogueTalk{r: r, frames: make(chan agent.Frame, 64), end: make(chan error, 1)}
	r.all = append(r.all, c)
	return c, nil
}

func (r *rogue) talks() []*rogueTalk {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all
}

// count is how many were opened and closed.
func (r *rogue) count() (opens, closes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.opens, r.closes
}

// resumes is the conversation that each was opened with.
func (r *rogue) resumes() (out []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range r.asked {
		out = append(out, o.Resume)
	}
	return out
}

func (c *rogueTalk) Prompt(_ context.Context, p agent.Prompt) error {
	c.mu.Lock()
	c.turn = p.Turn
	c.mu.Unlock()
	c.r.say(c, p.Turn)
	return nil
}
func (c *rogueTalk) Interrupt(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.r.interrupt != nil {
		c.r.interrupt(c, c.turn)
	}
	return nil
}
func (c *rogueTalk) Answer(context.Context, agent.Answer) error { return nil }
func (c *rogueTalk) Close() error {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	c.r.closes++
	return nil
}
func (c *rogueTalk) Recv(ctx context.Context) ([]agent.Frame, error) {
	select {
	case f := <-c.frames:
		return []agent.Frame{f}, nil
	default:
	}
	select {
	case f := <-c.frames:
		return []agent.Frame{f}, nil
	case err := <-c.end:
		return nil, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// openOver opens a host over one agent, for fake time.
func (f *fixture) openOver(b agent.Backend) {
	f.t.Helper()
	f.store = memstore.New()
	var err error
	f.host, err = host.Open(context.Background(), host.Options{Store: f.store, DefaultDir: f.dir,
		Backends: []host.NamedBackend{{Name: "rogue", Backend: b}}})
	if err != nil {
		f.t.Fatal(err)
	}
}

// bubble runs a test on fake time, with a host over the rogue.
func bubble(t *testing.T, r *rogue, test func(f *fixture, s *host.Session)) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{t: t, dir: t.TempDir()}
		f.openOver(r)
		h := f.host
		s, err := h.CreateSession(t.Context(), host.CreateSession{By: tester})
		if err != nil {
			t.Fatal(err)
		}
		test(f, s)
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if r.closes > r.opens {
			t.Errorf("%d conversations were closed of %d", r.closes, r.opens)
		}
	})
}

func promptOn(t *testing.T, s *host.Session, text string) host.Prompted {
	t.Helper()
	p, err := s.Prompt(context.Background(), host.Prompt{Text: text, By: tester})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func end(c *rogueTalk, turn string) {
	c.frames <- agent.Frame{Kind: agent.TurnEnd, Turn: turn, Status: event.TurnComplete}
}

// An agent that goes on after a cancel is stopped, and the next prompt has a
// fresh one.
func TestAgentThatIgnoresACancelIsStopped(t *testing.T) {
	r := &rogue{}
	answered := false
	r.say = func(c *rogueTalk, turn string) {
		if answered {
			end(c, turn)
		}
	}
	bubble(t, r, func(f *fixture, s *host.Session) {
		p := promptOn(t, s, "go")
		synctest.Wait()
		began := time.Now()
		if _, err := s.Interrupt(context.Background(), host.Interrupt{By: tester}); err != nil {
			t.Fatal(err)
		}
		turn, err := s.WaitTurn(context.Background(), s.State().Default, p.Turn)
		if err != nil || turn.Status != event.TurnCancelled || time.Since(began) > 10*time.Millisecond {
			t.Fatalf("after %v: %+v, %v", time.Since(began), turn, err)
		}
		answered = true
		p = promptOn(t, s, "again")
		turn, err = s.WaitTurn(context.Background(), s.State().Default, p.Turn)
		if err != nil || turn.Status != event.TurnComplete {
			t.Fatalf("the next turn: %+v, %v", turn, err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the agent was stopped after %v", took)
		}
		if r.opens != 2 {
			t.Errorf("%d conversations were opened", r.opens)
		}
	})
}

// What an agent says after its turn was cancelled is nobody's any more: one
// end a turn.
func TestLateFramesAreDropped(t *testing.T) {
	r := &rogue{}
	first := true
	r.say = func(c *rogueTalk, turn string) {
		if !first {
			c.frames <- agent.Frame{Kind: agent.TextDelta, Part: "p", Text: "mine"}
			end(c, turn)
		}
		first = false
	}
	r.interrupt = func(c *rogueTalk, turn string) {
		c.frames <- agent.Frame{Kind: agent.TextDelta, Part: "q", Text: "late"}
		c.frames <- agent.Frame{Kind: agent.ToolStart, Call: "late", Tool: &agent.Tool{Name: "bash"}}
		c.frames <- agent.Frame{Kind: agent.TurnEnd, Turn: turn, Status: event.TurnComplete}
	}
	bubble(t, r, func(f *fixture, s *host.Session) {
		p := promptOn(t, s, "go")
		synctest.Wait()
		s.Interrupt(context.Background(), host.Interrupt{By: tester})
		next := promptOn(t, s, "again")
		turn, err := s.WaitTurn(context.Background(), s.State().Default, next.Turn)
		if err != nil || turn.Text() != "mine" || len(turn.Parts) != 1 {
			t.Fatalf("the next turn: %+v, %v", turn, err)
		}
		turn, _ = s.WaitTurn(context.Background(), s.State().Default, p.Turn)
		if turn.Status != event.TurnCancelled || len(turn.Parts) != 0 {
			t.Errorf("the cancelled turn: %+v", turn)
		}
	})
}

func TestAgentThatDoesNotStartSaysWhy(t *testing.T) {
	r := &rogue{open: func() error { return errors.New("exec: demo: not found") }, say: end}
	bubble(t, r, func(f *fixture, s *host.Session) {
		p := promptOn(t, s, "go")
		turn, err := s.WaitTurn(context.Background(), s.State().Default, p.Turn)
		if err != nil || turn.Status != event.TurnFailed || turn.Error.Code != event.CodeAgentStart ||
			!strings.Contains(turn.Error.Message, "not found") {
			t.Fatalf("the turn: %+v %+v, %v", turn, turn.Error, err)
		}
		r.open = nil
		p = promptOn(t, s, "again")
		if turn, _ := s.WaitTurn(context.Background(), s.State().Default, p.Turn); turn.Status != event.TurnComplete {
			t.Errorf("the next turn: %+v", turn)
		}
	})
}

// An agent that dies in the middle of a turn ends it; what was open is closed
// with it, and the next prompt starts a new one.
func TestAgentThatDiesEndsItsTurn(t *testing.T) {
	r := &rogue{}
	dies := true
	r.say = func(c *rogueTalk, turn string) {
		if !dies {
			end(c, turn)
			return
		}
		c.frames <- agent.Frame{Kind: agent.TextDelta, Part: "p", Text: "hal"}
		c.frames <- agent.Frame{Kind: agent.ToolStart, Call: "1", Tool: &agent.Tool{Name: "bash", Tag: event.TagExec, Command: "ls"}}
		c.frames <- agent.Frame{Kind: agent.Permission, Call: "1", Request: "r"}
	}
	bubble(t, r, func(f *fixture, s *host.Session) {
		p := promptOn(t, s, "go")
		queued := promptOn(t, s, "waits")
		synctest.Wait()
		if len(s.State().Open) != 1 {
			t.Fatalf("%d interactions are open", len(s.State().Open))
		}
		dies = false
		for _, c := range r.talks() {
			c.end <- io.ErrUnexpectedEOF
		}
		turn, err := s.WaitTurn(context.Background(), s.State().Default, p.Turn)
		if err != nil || turn.Status != event.TurnFailed || turn.Error.Code != event.CodeAgentCrashed {
			t.Fatalf("the turn: %+v, %v", turn, err)
		}
		for _, part := range turn.Parts {
			if !part.Ended() {
				t.Errorf("part %+v is still open", part)
			}
		}
		if turn, _ := s.WaitTurn(context.Background(), s.State().Default, queued.Turn); turn.Status != event.TurnComplete {
			t.Errorf("the queued turn: %+v", turn)
		}
		if len(s.State().Open) != 0 {
			t.Error("the approval is still open")
		}
	})
}

// An agent that asks about a call again, once it may run, asks about something
// else: nobody has allowed that.
func TestAFurtherQuestionAboutAnAllowedCallIsAsked(t *testing.T) {
	r := &rogue{}
	r.say = func(c *rogueTalk, turn string) {
		c.frames <- agent.Frame{Kind: agent.ToolStart, Call: "1", Tool: &agent.Tool{Name: "bash", Tag: event.TagExec, Command: "make"}}
		c.frames <- agent.Frame{Kind: agent.Permission, Call: "1", Request: "r"}
	}
	bubble(t, r, func(f *fixture, s *host.Session) {
		promptOn(t, s, "go")
		synctest.Wait()
		if err := s.Resolve(context.Background(), s.State().Open[0].ID, event.Resolution{Outcome: event.Allowed, By: tester}); err != nil {
			t.Fatal(err)
		}
		r.talks()[0].frames <- agent.Frame{Kind: agent.Permission, Call: "1", Request: "r2",
			Tool: &agent.Tool{Name: "bash", Tag: event.TagExec, Command: "rm -r build", Input: []byte(`{"command":"rm -r build"}`)}}
		synctest.Wait()
		open := s.State().Open
		if len(open) != 1 || string(open[0].Input) != `{"command":"rm -r build"}` {
			t.Fatalf("asked: %+v", open)
		}
		if err := s.Resolve(context.Background(), open[0].ID, event.Resolution{Outcome: event.Denied, By: tester}); err != nil {
			t.Fatal(err)
		}
		if tool := s.State().DefaultChat().Active.Parts[0].Tool; tool.Status != event.CallDenied {
			t.Errorf("the call is %+v", tool)
		}
	})
}

func TestApprovalExpires(t *testing.T) {
	r := &rogue{}
	r.say = func(c *rogueTalk, turn string) {
		c.frames <- agent.Frame{Kind: agent.ToolStart, Call: "1", Tool: &agent.Tool{Name: "bash", Tag: event.TagExec, Command: "ls"}}
		c.frames <- agent.Frame{Kind: agent.Permission, Call: "1", Request: "r"}
	}
	bubble(t, r, func(f *fixture, s *host.Session) {
		promptOn(t, s, "go")
		synctest.Wait()
		open := s.State().Open
		if len(open) != 1 {
			t.Fatalf("%d interactions are open", len(open))
		}
		time.Sleep(host.DefaultApprovalTimeout - time.Second)
		if sum, _ := f.host.Summary(s.ID()); sum.Status != host.AwaitingApproval || sum.Approvals != 1 {
			t.Errorf("before its time the session is %s", sum.Status)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		tool := s.State().DefaultChat().Active.Parts[0].Tool
		if tool.Status != event.CallDenied || tool.Refused.Code != event.RefusedTimeout {
			t.Errorf("the call is %+v", tool)
		}
		err := s.Resolve(context.Background(), open[0].ID, event.Resolution{Outcome: event.Allowed, By: tester})
		if !errors.Is(err, host.ErrResolved) {
			t.Errorf("a late answer got %v", err)
		}
	})
}

// An unused session leaves memory and comes back when somebody speaks.
func TestIdleSessionLeavesMemoryAndComesBack(t *testing.T) {
	r := &rogue{say: named, able: agent.Capabilities{Resume: true}}
	bubble(t, r, func(f *fixture, s *host.Session) {
		p := promptOn(t, s, "go")
		if _, err := s.WaitTurn(context.Background(), s.State().Default, p.Turn); err != nil {
			t.Fatal(err)
		}
		time.Sleep(host.DefaultAgentIdleAfter + 2*time.Minute)
		synctest.Wait()
		if sum, _ := f.host.Summary(s.ID()); sum.Live {
			t.Fatal("the session is still in memory")
		}
		if r.closes != 1 {
			t.Errorf("%d conversations were closed", r.closes)
		}
		if _, err := s.Prompt(context.Background(), host.Prompt{Text: "again", By: tester}); err != nil {
			t.Fatal(err)
		}
		fresh, err := f.host.Session(context.Background(), s.ID())
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if c := fresh.State().DefaultChat(); c.Count != 2 {
			t.Errorf("%d turns", c.Count)
		}
		if got := r.resumes(); !slices.Equal(got, []string{"", "the conversation"}) {
			t.Errorf("the agents were opened with %q", got)
		}
	})
}

// The third refused call ends a turn that asked for it.
func TestTooManyRefusalsEndTheTurn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.session(func(c *host.CreateSession) { c.Settings.Mode = event.ModePlan })
	p := f.prompt(s, "write a.go x\nwrite b.go x\nwrite c.go x\nsay never", func(p *host.Prompt) { p.Refusals = 3 })
	turn := f.wait(s, p.Turn)
	if turn.Status != event.TurnFailed || turn.Error.Code != event.CodeRefusals || turn.Text() != "" {
		t.Errorf("the turn: %+v %+v", turn, turn.Error)
	}
}

// A session without commands refuses them whatever the mode, and not as the
// fault of the agent.
func TestSessionWithoutCommandsRunsNone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.session(func(c *host.CreateSession) { c.Settings = event.Settings{Mode: event.ModeAuto, DenyExec: true} })
	p := f.prompt(s, "run touch a\nrun touch b\nsay done", func(p *host.Prompt) { p.Refusals = 1 })
	turn := f.wait(s, p.Turn)
	if turn.Status != event.TurnComplete || turn.Text() != "done" {
		t.Errorf("the turn: %+v %+v", turn, turn.Error)
	}
	if tool := turn.Parts[0].Tool; tool.Status != event.CallDenied || tool.Refused.Code != event.RefusedExec {
		t.Errorf("the call: %+v", tool)
	}
	if _, err := os.Stat(filepath.Join(f.dir, "a")); !os.IsNotExist(err) {
		t.Errorf("the command ran: %v", err)
	}
}

// A wait can be ended before its time, once.
func TestApprovalExpiresEarly(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.session()
	p := f.prompt(s, "run touch a")
	i := f.opened(s, event.Approval)
	if err := s.Expire(f.ctx(), i.ID); err != nil {
		t.Fatal(err)
	}
	if err := s.Expire(f.ctx(), i.ID); !errors.Is(err, host.ErrResolved) {
		t.Errorf("the second time: %v", err)
	}
	if tool := f.wait(s, p.Turn).Parts[0].Tool; tool.Refused == nil || tool.Refused.Code != event.RefusedTimeout {
		t.Errorf("the call: %+v", tool)
	}
}

// A pick can be taken back.
func TestPickIsTakenBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.session(func(c *host.CreateSession) { c.Settings = event.Settings{Model: "m", Effort: "low"} })
	if err := s.Update(f.ctx(), &event.SessionUpdated{By: tester, Settings: &event.Settings{Model: event.Inherit}}); err != nil {
		t.Fatal(err)
	}
	if got := s.State().Info.Settings; got.Model != "" || got.Effort != "low" || got.Mode != event.ModeAccept {
		t.Errorf("the settings are %+v", got)
	}
}

// A crash in the middle of a stream, with an approval open: what was finished
// is there, the turn is closed as synthetic, numbers go on without a gap and
// none that a client may have seen is given out twice.
func TestCrashInTheMiddleOfATurn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.session()
	f.turn(s, "say kept")
	f.prompt(s, "say before\nstream 200 8\nrun touch no.txt")
	i := f.opened(s, event.Approval)
	seen := s.State().Seq
	f.store.Close() // from here on nothing reaches the disk: as if killed
	f.store = f.store.(*memstore.Store).Reopen()
	f.open()
	again, err := f.host.Session(f.ctx(), s.ID())
	if err != nil {
		t.Fatal(err)
	}
	st := again.State()
	c := st.DefaultChat()
	if c.Active != nil || len(st.Open) != 0 {
		t.Fatalf("the turn is still open: %+v %+v", c.Active, st.Open)
	}
	last := c.Turns[len(c.Turns)-1]
	if last.Status != event.TurnCancelled || !last.Synthetic || last.Error.Code != event.CodeInterrupted {
		t.Errorf("the turn: %+v", last)
	}
	if text := last.Parts[0].Text.String(); text != "before" {
		t.Errorf("the finished part says %q", text)
	}
	if err := again.Resolve(f.ctx(), i.ID, event.Resolution{Outcome: event.Allowed, By: tester}); err == nil {
		t.Error("the approval of before the crash was taken")
	}
	if st.Seq <= seen {
		t.Errorf("numbers up to %d had been seen, the session goes on at %d", seen, st.Seq)
	}
	f.kinds(again) // checks that the log can be read from its beginning
	f.until(again, "the end", func(e *event.Event) bool { return e.Seq == st.Seq })
	if turn := f.turn(again, "say next"); turn.Text() != "next" {
		t.Errorf("the next turn says %q", turn.Text())
	}
}

func TestPromptBounds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.session()
	_, err := s.Prompt(f.ctx(), host.Prompt{Text: strings.Repeat("x", host.MaxPrompt+1), By: tester})
	if !errors.Is(err, host.ErrTooLarge) {
		t.Errorf("a huge prompt got %v", err)
	}
	f.prompt(s, "sleep 60000")
	for range host.MaxQueue {
		f.prompt(s, "say x")
	}
	if _, err := s.Prompt(f.ctx(), host.Prompt{Text: "one more", By: tester}); !errors.Is(err, host.ErrTooLarge) {
		t.Errorf("a prompt to a full queue got %v", err)
	}
	if _, err := s.Prompt(f.ctx(), host.Prompt{Text: "no", By: tester, Busy: host.BusyRefuse}); !errors.Is(err, host.ErrBusy) {
		t.Errorf("a prompt that refuses to wait got %v", err)
	}
}

func TestHugeOutputIsCutInTheMiddle(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.session(func(c *host.CreateSession) { c.Settings.Mode = event.ModeAuto })
	turn := f.turn(s, `run head -c 3000000 /dev/zero | tr '\0' x; echo the end`)
	tool := turn.Parts[0].Tool
	out := tool.Output.String()
	if len(out) > host.MaxToolOutput+16 || !strings.HasSuffix(out, "the end\n") || tool.Dropped < 1_900_000 {
		t.Errorf("%d bytes are kept, %d dropped, the end is %q", len(out), tool.Dropped, out[max(0, len(out)-20):])
	}
}

func TestAttachmentsStayInsideTheWorkingDirectory(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	outside := t.TempDir()
	for name, target := range map[string]string{"link": outside, "up": ".."} {
		if err := os.Symlink(target, filepath.Join(f.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(f.dir, "in.txt"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := f.session()
	attach := func(path string) error {
		_, err := s.Prompt(f.ctx(), host.Prompt{Text: "say x", By: tester,
			Attachments: []event.Attachment{{Kind: event.AttachFile, Path: path}}})
		return err
	}
	for _, path := range []string{"/etc/passwd", "../x", "link", "up", "up/x", filepath.Join(outside, "x"), "missing"} {
		if err := attach(path); !errors.Is(err, host.ErrInvalid) {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, path := range []string{"in.txt", filepath.Join(f.dir, "in.txt")} {
		if err := attach(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// An agent that takes no commands and ends its turn with a question open is given
// up once that turn is closed: the next one, which waited, is not touched.
func TestAStuckAgentsEndLeavesTheNextTurnAlone(t *testing.T) {
	const room = 256 // commands that may wait for an agent
	r := &rogue{}
	bubble(t, r, func(f *fixture, s *host.Session) {
		stuck := make(chan struct{})
		r.say = func(c *rogueTalk, turn string) {
			if len(r.talks()) > 1 {
				end(c, turn)
				return
			}
			c.frames <- agent.Frame{Kind: agent.Ask, Request: "q", Questions: []event.QuestionItem{{ID: "a", Text: "which?"}}}
			<-stuck
		}
		first := promptOn(t, s, "ask")
		f.opened(s, event.Question)
		for i := range room {
			update := event.SessionUpdated{By: tester, Settings: &event.Settings{Model: fmt.Sprint("model ", i)}}
			if err := s.Update(context.Background(), &update); err != nil {
				t.Fatal(err)
			}
		}
		next := promptOn(t, s, "go on")
		if !next.Queued {
			t.Fatal("the second prompt did not wait")
		}
		end(r.talks()[0], first.Turn.String())
		for _, p := range []host.Prompted{first, next} {
			turn, err := s.WaitTurn(context.Background(), s.State().Default, p.Turn)
			if err != nil {
				t.Fatal(err)
			}
			if turn.Status != event.TurnComplete {
				t.Errorf("turn %d ended as %s: %v", turn.Number, turn.Status, turn.Error)
			}
		}
		if n := len(r.talks()); n != 2 {
			t.Errorf("%d conversations were opened: the first was not given up", n)
		}
		close(stuck)
	})
}

func TestNamesThatAreTooLongAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.session()
	names := map[string]string{tester.Front: strings.Repeat("n", host.MaxName+1)}
	_, added := s.AddChat(t.Context(), event.ChatInfo{Aliases: names}, tester)
	for what, err := range map[string]error{
		"a session's":  s.Update(t.Context(), &event.SessionUpdated{By: tester, Aliases: names}),
		"a chat's":     s.UpdateChat(t.Context(), s.State().Default, &event.ChatUpdated{By: tester, Aliases: names}),
		"a new chat's": added,
	} {
		if !errors.Is(err, host.ErrTooLarge) {
			t.Errorf("%s name: %v", what, err)
		}
	}
}

// deletes is a tool of the gateway's own that must not run unasked.
type deletes struct{ runs atomic.Int32 }

func (d *deletes) List() []host.OwnTool {
	return []host.OwnTool{{Name: "delete", Tag: event.TagWrite, Destructive: true, AlwaysAsk: true}}
}

func (d *deletes) Instructions() string { return "" }

func (d *deletes) Run(context.Context, *host.Host, host.Caller, string, json.RawMessage) (string, error) {
	d.runs.Add(1)
	return "", nil
}

// Plan mode lets documents be written: what the gateway's own tools do is no
// document, though an agent reads a path in the input.
func TestAToolOfTheGatewayIsNoDocumentInPlanMode(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	own := &deletes{}
	answered := make(chan struct{})
	r := &rogue{able: agent.Capabilities{ClientTools: true}, say: func(c *rogueTalk, _ string) {
		tool := &agent.Tool{Name: "delete", Tag: event.TagWrite, Paths: []string{filepath.Join(f.dir, "notes.md")}}
		c.frames <- agent.Frame{Kind: agent.ToolStart, Call: "one", Tool: tool}
		c.frames <- agent.Frame{Kind: agent.ClientCall, Call: "one", Request: "r", Tool: tool}
		c.frames <- agent.Frame{Kind: agent.TurnEnd, Turn: c.turn, Status: event.TurnComplete}
		close(answered)
	}}
	var err error
	f.host, err = host.Open(context.Background(), host.Options{Store: memstore.New(), DefaultDir: f.dir, Own: own,
		Backends: []host.NamedBackend{{Name: "rogue", Backend: r}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.host.AgentsReady(f.ctx()); err != nil {
		t.Fatal(err)
	}
	s, err := f.host.CreateSession(f.ctx(), host.CreateSession{By: tester, Settings: event.Settings{Mode: event.ModePlan}})
	if err != nil {
		t.Fatal(err)
	}
	turn := f.wait(s, f.prompt(s, "go").Turn)
	<-answered
	if err := f.host.Close(context.Background()); err != nil { // waits for what runs
		t.Error(err)
	}
	if c := turn.Parts[0].Tool; c.Status != event.CallDenied || own.runs.Load() != 0 {
		t.Errorf("%s, it ran %d times", c.Status, own.runs.Load())
	}
}
