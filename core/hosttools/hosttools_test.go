package hosttools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/polyhost/polyhost/backends/demo"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/hosttools"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/store"
	"github.com/polyhost/polyhost/core/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 3 * time.Minute

var tester = event.Actor{Front: "test", Client: "t1"}

// world is a host whose demo agent is offered the gateway's own tools.
type world struct {
	t     *testing.T
	store store.Store
	ctx   context.Context
	host  *host.Host
	set   *hosttools.Set
	stop  func()
	dir   string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	w := &world{t: t, ctx: ctx, set: hosttools.New(log), dir: t.TempDir(), store: memstore.New()}
	w.stop = w.start()
	t.Cleanup(func() { w.stop() })
	return w
}

// start opens the host, and gives what closes it.
func (w *world) start() (stop func()) {
	w.t.Helper()
	log := slog.New(slog.NewTextHandler(w.t.Output(), nil))
	b := demo.New()
	closed := filepath.Join(w.dir, "closed")
	var err error
	w.host, err = host.Open(w.ctx, host.Options{Store: w.store, DefaultDir: w.dir, Own: w.set, Grace: 50 * time.Millisecond,
		Fenced:   func(real string) bool { return strings.HasPrefix(real, closed) },
		Backends: []host.NamedBackend{{Name: "demo", Backend: b}}, Log: log})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.host.AgentsReady(w.ctx); err != nil {
		w.t.Fatal(err)
	}
	h := w.host
	return sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := h.Close(ctx); err != nil {
			w.t.Error(err)
		}
		_ = b.Close()
	})
}

func (w *world) session(mode event.Mode, change ...func(*host.CreateSession)) *host.Session {
	w.t.Helper()
	c := host.CreateSession{By: tester, Settings: event.Settings{Mode: mode}}
	for _, f := range change {
		f(&c)
	}
	s, err := w.host.CreateSession(w.ctx, c)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) prompt(s *host.Session, text string) id.ID {
	w.t.Helper()
	p, err := s.Prompt(w.ctx, host.Prompt{Text: text, By: tester})
	if err != nil {
		w.t.Fatal(err)
	}
	return p.Turn
}

func (w *world) ended(s *host.Session, turn id.ID) *event.Tool {
	w.t.Helper()
	t, err := s.WaitTurn(w.ctx, s.State().Default, turn)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, p := range t.Parts {
		if p.Tool != nil {
			return p.Tool
		}
	}
	w.t.Fatalf("no tool was called: %+v", t)
	return nil
}

// call has the session's agent call a tool, and gives the call as it ended.
func (w *world) call(s *host.Session, tool string, input any) *event.Tool {
	w.t.Helper()
	return w.ended(s, w.prompt(s, "call "+tool+" "+encode(w.t, input)))
}

// gives is call for one that succeeds.
func (w *world) gives(s *host.Session, tool string, input any) map[string]any {
	w.t.Helper()
	c := w.call(s, tool, input)
	var out map[string]any
	if c.Status != event.CallDone || json.Unmarshal([]byte(c.Output.String()), &out) != nil {
		w.t.Fatalf("%s %v: %s %q %q", tool, input, c.Status, c.Error, c.Output.String())
	}
	return out
}

// fails is call for one that fails, and says why.
func (w *world) fails(s *host.Session, tool string, input any, why string) {
	w.t.Helper()
	c := w.call(s, tool, input)
	if said := c.Error + c.Output.String(); c.Status == event.CallDone || !strings.Contains(said, why) {
		w.t.Errorf("%s %v: %s %q, want %q", tool, input, c.Status, said, why)
	}
}

// asked waits until somebody is asked about a call.
func (w *world) asked(s *host.Session) event.Interaction {
	w.t.Helper()
	sub := s.Subscribe(0)
	defer sub.Close()
	for {
		if open := s.State().Open; len(open) > 0 {
			return *open[0]
		}
		if _, err := sub.Next(w.ctx); err != nil {
			w.t.Fatal(err)
		}
	}
}

type object = map[string]any

func encode(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func spelled(s *host.Session) string { return s.ID().AHP("demo") }

func TestAnAgentLooksAtSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me, other := w.session(event.ModePlan), w.session(event.ModePlan)
	title := "The other one"
	if err := other.Update(w.ctx, &event.SessionUpdated{By: tester, Title: &title}); err != nil {
		t.Fatal(err)
	}
	archived := w.session(event.ModePlan)
	yes := true
	if err := archived.Update(w.ctx, &event.SessionUpdated{By: tester, Archived: &yes}); err != nil {
		t.Fatal(err)
	}
	names := func(input object) string {
		var out []string
		for _, v := range w.gives(me, "list_sessions", input)["sessions"].([]any) {
			out = append(out, v.(object)["session"].(string))
		}
		return strings.Join(out, " ")
	}
	if got := names(object{}); !strings.Contains(got, spelled(me)) || !strings.Contains(got, spelled(other)) || strings.Contains(got, spelled(archived)) {
		t.Errorf("all: %s", got)
	}
	for _, c := range []struct {
		input object
		want  string
	}{
		{object{"session": spelled(other)}, spelled(other)},
		{object{"session": "agent-host-session://demo/" + other.ID().String()}, spelled(other)},
		{object{"status": []string{"archived"}}, spelled(archived)},
		{object{"status": []string{"inProgress"}}, spelled(me)},
		{object{"workspace": "/nowhere"}, ""},
		{object{"withChanges": true}, ""},
		{object{"createdAfter": "2999-01-01T00:00:00Z"}, ""},
		{object{"workspace": filepath.Base(w.dir), "status": []string{"idle"}}, spelled(other)},
	} {
		if got := names(c.input); got != c.want {
			t.Errorf("%v: %s", c.input, got)
		}
	}
	if now := w.gives(me, "get_current_session", object{}); now["session"] != spelled(me) || now["status"] != "inProgress" ||
		now["chatLink"] != "agent-host-session://demo/"+me.ID().String() {
		t.Errorf("now: %v", now)
	}
	w.call(other, "get_session_context", object{"session": spelled(me)})
	got := w.gives(me, "get_session_context", object{"session": spelled(other), "detail": "full", "transcriptLimit": 1000})
	turn := got["turns"].([]any)[0].(object)
	if got["title"] != title || !strings.Contains(turn["message"].(string), "call get_session_context") ||
		turn["tools"].([]any)[0].(object)["input"] != `{"session":"`+spelled(me)+`"}` {
		t.Errorf("context: %v", got)
	}
}

func TestAnAgentIsToldWhatIsWrongWithItsArguments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.session(event.ModeAuto)
	for _, c := range []struct {
		tool  string
		input any
		why   string
	}{
		{"list_sessions", object{"colour": "red"}, `no argument "colour"`},
		{"list_sessions", object{"Status": []string{"idle"}}, `no argument "Status"`},
		{"list_sessions", object{"status": "idle"}, "status cannot be a string"},
		{"list_sessions", object{"status": []string{"asleep"}}, "status is none of"},
		{"list_sessions", object{"createdAfter": "yesterday"}, "is no time"},
		{"list_sessions", object{"session": nil}, "session is null"},
		{"get_current_session", object{"x": 1}, "no argument"},
		{"get_session_context", object{}, "session is missing"},
		{"get_session_context", object{"session": "demo:/nothing"}, "there is no session"},
		{"get_session_context", object{"session": spelled(s), "detail": "all"}, "detail is none of"},
		{"get_session_context", object{"session": "agent-host-session://demo/" + s.ID().String() + "?chat=nobody"}, "has no chat"},
		{"send_message", object{"session": spelled(s), "message": "hello"}, "this conversation"},
		{"send_message", object{"session": spelled(s), "message": " "}, "message is empty"},
		{"create_session", object{"relationship": "sibling", "prompt": "x", "title": "x"}, "relationship is none of"},
		{"create_session", object{"relationship": "currentSession", "prompt": "x", "title": "x", "workspace": "/tmp"}, "leave workspace"},
		{"create_session", object{"relationship": "independent", "prompt": "x", "title": "x"}, "workspace is missing"},
		{"create_session", object{"relationship": "independent", "prompt": "x", "title": "x", "workspace": "nothing"}, "no session works"},
		{"create_session", object{"relationship": "independent", "prompt": "x", "title": "x", "workspace": w.dir, "worktree": true}, "makes no working trees"},
		{"create_session", object{"relationship": "independent", "prompt": "x", "title": "x", "workspace": w.dir, "model": "gpt-1"}, "no agent has a model"},
		{"create_session", object{"relationship": "independent", "prompt": "x", "title": "x", "workspace": w.dir + "/none"}, "does not exist"},
		{"create_session", object{"relationship": "currentSession", "prompt": "x", "title": strings.Repeat("x", 201)}, "more than 200"},
	} {
		w.fails(s, c.tool, c.input, c.why)
	}
}

func TestAnAgentHandsWorkOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.session(event.ModeAuto)
	out := w.gives(s, "create_session", object{"relationship": "independent", "prompt": "say well", "title": "Child", "workspace": "file://" + w.dir, "model": "Demo Large"})
	_, child, err := id.ParseAHP(out["session"].(string))
	if err != nil || out["status"] != "started" {
		t.Fatal(out, err)
	}
	c, err := w.host.Session(w.ctx, child)
	if err != nil {
		t.Fatal(err)
	}
	st := c.State()
	if st.Info.Title != "Child" || st.Info.Settings.Mode != event.ModeAuto || st.Info.Settings.Model != "demo-large" || st.Info.Owner.Front != "agent" {
		t.Errorf("%+v", st.Info)
	}
	// A chat beside this one, and then a message to it, by its link.
	out = w.gives(s, "create_session", object{"relationship": "currentSession", "prompt": "ask Go on? | yes | no", "title": "Beside"})
	link := out["openLink"].(string)
	if out["session"] != spelled(s) || !strings.Contains(link, "?chat=") {
		t.Fatal(out)
	}
	w.asked(s)
	out = w.gives(s, "send_message", object{"session": link, "message": "say later"})
	if out["status"] != "queued" || out["position"] != 1.0 {
		t.Errorf("to a busy chat: %v", out)
	}
	beside := s.State().Chats[1]
	if beside.Title != "Beside" || len(beside.Queue) != 1 || beside.Queue[0].By.Front != "agent" {
		t.Errorf("%+v", beside.Queue)
	}
}

func TestAPersonIsAskedBeforeAnAgentSetsOthersToWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	create := `call create_session {"relationship":"independent","prompt":"say x","title":"x","workspace":"` + w.dir + `"}`
	plan := w.session(event.ModePlan)
	if c := w.ended(plan, w.prompt(plan, create)); c.Status != event.CallDenied || c.Refused.Code != event.RefusedByMode {
		t.Errorf("in plan: %s %+v", c.Status, c.Refused)
	}
	s := w.session(event.ModeAccept)
	turn := w.prompt(s, create)
	i := w.asked(s)
	if i.Kind != event.Approval || i.Tool != "create_session" || i.Title != "Create Session" || len(w.host.List(host.Filter{})) != 2 {
		t.Errorf("asked: %+v", i)
	}
	if err := s.Resolve(w.ctx, i.ID, event.Resolution{Outcome: event.Denied, By: tester, Reason: "not now"}); err != nil {
		t.Fatal(err)
	}
	if c := w.ended(s, turn); c.Status != event.CallDenied || len(w.host.List(host.Filter{})) != 2 {
		t.Errorf("denied: %s", c.Status)
	}
	turn = w.prompt(s, create)
	if err := s.Resolve(w.ctx, w.asked(s).ID, event.Resolution{Outcome: event.Allowed, By: tester, Scope: event.ScopeSession}); err != nil {
		t.Fatal(err)
	}
	if c := w.ended(s, turn); c.Status != event.CallDone || c.Allowed != "person" {
		t.Errorf("allowed: %s %s", c.Status, c.Allowed)
	}
	// What was allowed for the session is not asked again.
	if c := w.ended(s, w.prompt(s, create)); c.Status != event.CallDone || len(w.host.List(host.Filter{})) != 4 {
		t.Errorf("remembered: %s", c.Status)
	}
	// A turn that ends takes its question back, and nothing is made.
	turn = w.prompt(s, `call send_message {"session":"`+spelled(plan)+`","message":"say y"}`)
	w.asked(s)
	if _, err := s.Interrupt(w.ctx, host.Interrupt{By: tester}); err != nil {
		t.Fatal(err)
	}
	if c := w.ended(s, turn); c.Status != event.CallCancelled || plan.State().Chats[0].Count != 1 {
		t.Errorf("interrupted: %s", c.Status)
	}
}

func TestAnAgentDeletesNothingUnasked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, other := w.session(event.ModeAuto), w.session(event.ModeAuto)
	for range 2 { // nor the second time
		turn := w.prompt(s, `call delete_session {"session":"`+spelled(other)+`"}`)
		i := w.asked(s)
		if i.Kind != event.Approval || len(i.Scopes) != 1 {
			t.Errorf("asked: %+v", i)
		}
		if err := s.Resolve(w.ctx, i.ID, event.Resolution{Outcome: event.Allowed, By: tester, Scope: event.ScopeAlways}); err != nil {
			t.Fatal(err)
		}
		if c := w.ended(s, turn); c.Status != event.CallDone {
			t.Errorf("%s %s", c.Status, c.Error)
		}
		if _, there := w.host.Summary(other.ID()); there {
			t.Error("it is still there")
		}
		other = w.session(event.ModeAuto)
	}
	turn := w.prompt(s, `call delete_session {"session":"`+spelled(s)+`"}`)
	if err := s.Resolve(w.ctx, w.asked(s).ID, event.Resolution{Outcome: event.Allowed, By: tester}); err != nil {
		t.Fatal(err)
	}
	if c := w.ended(s, turn); c.Status == event.CallDone || !strings.Contains(c.Error+c.Output.String(), "from inside") {
		t.Errorf("its own: %s %q", c.Status, c.Error)
	}
}

func TestAnAgentStaysWithItsPerson(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	of := func(user string) func(*host.CreateSession) {
		return func(c *host.CreateSession) { c.By.User = user }
	}
	ann, bob := w.session(event.ModeAuto, of("user:ann")), w.session(event.ModeAuto, of("user:bob"))
	w.fails(ann, "get_session_context", object{"session": spelled(bob)}, "there is no session")
	w.fails(ann, "send_message", object{"session": spelled(bob), "message": "hi"}, "there is no session")
	if got := w.gives(ann, "list_sessions", object{})["sessions"].([]any); len(got) != 1 {
		t.Errorf("listed: %v", got)
	}
	out := w.gives(ann, "create_session", object{"relationship": "independent", "prompt": "x", "title": "x", "workspace": w.dir})
	_, child, _ := id.ParseAHP(out["session"].(string))
	if sum, _ := w.host.Summary(child); sum.Info.Owner.User != "user:ann" {
		t.Errorf("owner: %+v", sum.Info.Owner)
	}
	// Nor does it learn what nobody has used yet.
	hidden := w.session(event.ModeAuto, of("user:ann"), func(c *host.CreateSession) { c.Private = true })
	w.fails(ann, "get_session_context", object{"session": spelled(hidden)}, "there is no session")
}

func TestWhatOneMessageMayNotDoItsAgentDoesNotPassOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, other := w.session(event.ModeAuto), w.session(event.ModeAuto)
	p, err := s.Prompt(w.ctx, host.Prompt{By: tester, Settings: event.Settings{Mode: event.ModeAccept, DenyExec: true},
		Text: `call send_message {"session":"` + spelled(other) + `","message":"run true"}`})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Resolve(w.ctx, w.asked(s).ID, event.Resolution{Outcome: event.Allowed, By: tester}); err != nil {
		t.Fatal(err)
	}
	w.ended(s, p.Turn)
	sub := other.Subscribe(0)
	defer sub.Close()
	for other.State().Chats[0].Count == 0 {
		if _, err := sub.Next(w.ctx); err != nil {
			t.Fatal(err)
		}
	}
	turn := other.State().Chats[0].Turns[0]
	if turn.Message.Settings.Most != event.ModeAccept || turn.Parts[0].Tool.Status != event.CallDenied || turn.Parts[0].Tool.Refused.Code != event.RefusedExec {
		t.Errorf("%+v, %+v", turn.Message.Settings, turn.Parts[0].Tool)
	}
}

// A message that waits is held to what its sender might do, also where more is allowed
// by the time it starts.
func TestAMessageThatWaitsIsHeldToItsSendersMode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, other := w.session(event.ModeAccept), w.session(event.ModePlan)
	busy := w.prompt(other, "ask Wait?")
	question := w.asked(other)
	p := w.prompt(s, `call send_message {"session":"`+spelled(other)+`","message":"run true"}`)
	if err := s.Resolve(w.ctx, w.asked(s).ID, event.Resolution{Outcome: event.Allowed, By: tester}); err != nil {
		t.Fatal(err)
	}
	if call := w.ended(s, p); call.Status != event.CallDone {
		t.Fatalf("%+v", call)
	}
	if err := other.Update(w.ctx, &event.SessionUpdated{By: tester, Settings: &event.Settings{Mode: event.ModeAuto}}); err != nil {
		t.Fatal(err)
	}
	if err := other.Resolve(w.ctx, question.ID, event.Resolution{Outcome: event.Answered, By: tester,
		Answers: []event.Answer{{ID: question.Questions[0].ID, Text: "no more"}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := other.WaitTurn(w.ctx, other.State().Default, busy); err != nil {
		t.Fatal(err)
	}
	if i := w.asked(other); i.Kind != event.Approval { // in mode auto nobody would be
		t.Errorf("%+v", i)
	}
}

func TestAgentsDoNotMultiply(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.session(event.ModeAuto)
	independent := object{"relationship": "independent", "prompt": "say x", "title": "x", "workspace": w.dir}
	var child id.ID
	for range 16 {
		_, child, _ = id.ParseAHP(w.gives(s, "create_session", independent)["session"].(string))
	}
	w.fails(s, "create_session", independent, "a person has to delete some")
	c, err := w.host.Session(w.ctx, child)
	if err != nil {
		t.Fatal(err)
	}
	w.fails(c, "create_session", independent, "a person has to delete some") // nor by another's hand
	for range 15 {
		w.gives(s, "create_session", object{"relationship": "currentSession", "prompt": "say x", "title": "x"})
	}
	w.fails(s, "create_session", object{"relationship": "currentSession", "prompt": "say x", "title": "x"}, "add none beyond")
}

func TestAgentsDoNotSetEachOtherToWorkForEver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, other := w.session(event.ModeAuto), w.session(event.ModeAuto)
	ping := "say done"
	for i := range 9 {
		to := s
		if i%2 == 0 {
			to = other
		}
		ping = "call send_message " + encode(t, object{"session": spelled(to), "message": ping})
	}
	w.prompt(s, ping)
	for {
		all := append(s.State().Chats[0].Turns[:len(s.State().Chats[0].Turns):len(s.State().Chats[0].Turns)], other.State().Chats[0].Turns...)
		for _, turn := range all {
			for _, p := range turn.Parts {
				if p.Tool != nil && p.Tool.Status == event.CallFailed {
					if said := p.Tool.Error + p.Tool.Output.String(); !strings.Contains(said, "a person has to go on") || len(all) < 5 {
						t.Errorf("after %d turns: %s", len(all), said)
					}
					return
				}
			}
		}
		if w.ctx.Err() != nil {
			t.Fatal("they went on")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestOneMessageDoesNotSetAgentsToWorkForEver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, other := w.session(event.ModeAuto), w.session(event.ModeAuto)
	one := "call send_message " + encode(t, object{"session": spelled(other), "message": "say x"})
	turn := w.prompt(s, strings.TrimSpace(strings.Repeat(one+"\n", 101)))
	ended, err := s.WaitTurn(w.ctx, s.State().Default, turn)
	if err != nil {
		t.Fatal(err)
	}
	last := ended.Parts[len(ended.Parts)-1]
	for _, p := range ended.Parts {
		if p.Tool != nil {
			last = p
		}
	}
	if said := last.Tool.Error + last.Tool.Output.String(); last.Tool.Status != event.CallFailed || !strings.Contains(said, "because of one message") {
		t.Errorf("%s %q", last.Tool.Status, said)
	}
	w.gives(s, "send_message", object{"session": spelled(other), "message": "say x"}) // a person went on
}

// What an agent made is taken away again when its first message cannot be sent: here
// because others used up meanwhile how often agents may set each other to work.
func TestNothingEmptyStaysOfWorkThatCannotBeHandedOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, other := w.session(event.ModeAuto), w.session(event.ModeAuto)
	from := host.Caller{Session: s.ID(), Chat: s.State().Default, Turn: id.New()}
	run := func(tool string, input any) error {
		_, err := w.set.Run(w.ctx, w.host, from, tool, json.RawMessage(encode(t, input)))
		return err
	}
	for range 98 {
		if err := run("send_message", object{"session": spelled(other), "message": "say x"}); err != nil {
			t.Fatal(err)
		}
	}
	here := object{"relationship": "currentSession", "prompt": "say x", "title": "x"}
	away := object{"relationship": "independent", "prompt": "say x", "title": "x", "workspace": w.dir}
	errs := make([]error, 12)
	var wg sync.WaitGroup
	for i := range errs {
		input := []object{here, away}[i%2]
		wg.Go(func() { errs[i] = run("create_session", input) })
	}
	wg.Wait()
	done := 0
	for _, err := range errs {
		if err == nil {
			done++
		} else if !strings.Contains(err.Error(), "because of one message") {
			t.Error(err)
		}
	}
	if chats, sessions := len(s.State().Chats)-1, len(w.host.List(host.Filter{}))-2; done != 2 || chats+sessions != 2 {
		t.Errorf("%d calls succeeded, and there are %d more chats and %d more sessions", done, chats, sessions)
	}
}

func TestFencesHoldForAgents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.session(event.ModeAuto)
	closed := filepath.Join(w.dir, "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	w.fails(s, "create_session", object{"relationship": "independent", "prompt": "x", "title": "x", "workspace": closed}, "closed to sessions")
	w.set.Lend(hosttools.Lent{Session: func(i *event.SessionInfo) string { return i.ID.AHP("demo") }, Apart: func(context.Context, *host.CreateSession) error {
		t.Error("a working tree was made of it")
		return nil
	}})
	w.fails(s, "create_session", object{"relationship": "independent", "prompt": "x", "title": "x", "workspace": closed, "worktree": true}, "closed to sessions")
}

func TestToolsThatAreSwitchedOffAreGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.session(event.ModeAuto)
	w.gives(s, "get_current_session", object{})
	if !w.host.OfferOwnTools(false) || w.host.OfferOwnTools(false) || len(w.host.OwnTools()) != 0 {
		t.Error("not switched off once")
	}
	w.fails(s, "get_current_session", object{}, "no client offers")
	if !w.host.OfferOwnTools(true) {
		t.Error("not switched on")
	}
	w.gives(s, "get_current_session", object{})
}

func TestAClientsToolOfTheSameNameComesFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.session(event.ModeAuto)
	if err := s.SetTools(w.ctx, &event.ClientToolsSet{Client: tester, Tools: []event.ClientTool{{Name: "get_current_session"}}}); err != nil {
		t.Fatal(err)
	}
	turn := w.prompt(s, "call get_current_session {}")
	i := w.asked(s)
	if i.Kind != event.ClientCall || i.Client != tester {
		t.Errorf("asked: %+v", i)
	}
	if err := s.Resolve(w.ctx, i.ID, event.Resolution{Outcome: event.Completed, By: tester, Output: "mine"}); err != nil {
		t.Fatal(err)
	}
	if c := w.ended(s, turn); c.Output.String() != "mine" {
		t.Errorf("%+v", c)
	}
}

func TestListsAndContextsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.session(event.ModeAuto)
	for i := range 55 {
		w.session(event.ModeAuto, func(c *host.CreateSession) { c.Title = fmt.Sprint(i) })
	}
	out := w.gives(s, "list_sessions", object{})
	if n := len(out["sessions"].([]any)); n != 50 || out["more"] != 6.0 {
		t.Errorf("%d listed, %v more", n, out["more"])
	}
	long := strings.Repeat("word ", 4000)
	for range 12 {
		w.call(s, "get_current_session", object{})
		if _, err := s.WaitTurn(w.ctx, s.State().Default, w.prompt(s, "say "+long)); err != nil {
			t.Fatal(err)
		}
	}
	c := w.call(s, "get_session_context", object{"session": spelled(s), "detail": "full", "transcriptLimit": 50})
	if n := c.Output.Len(); n > 80<<10 {
		t.Errorf("a context of %d bytes", n)
	}
}

func TestWhatAnAgentRecordsStaysWithItsSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.session(event.ModePlan)
	pull := object{"type": "pullRequest", "label": "The fix", "isArtifact": false, "link": "https://github.com/a/b/pull/1"}
	page := object{"type": "website", "label": "The page", "isArtifact": true, "link": "http://localhost:1/"}
	out := w.gives(s, "add_artifact_or_reference", object{"items": []object{pull, page}})["recorded"].([]any)
	first := out[0].(object)["id"]
	if len(out) != 2 || out[0].(object)["status"] != "added" {
		t.Fatal(out)
	}
	pull["isArtifact"] = true
	commit := object{"type": "commit", "label": "c", "isArtifact": false, "link": "https://example.com/c", "commitHash": "abc"}
	file := object{"type": "file", "label": "Report", "isArtifact": true, "uri": "file:///project/report.md"}
	out = w.gives(s, "add_artifact_or_reference", object{"items": []object{pull, page, commit, file}})["recorded"].([]any)
	var status []string
	for _, v := range out {
		status = append(status, v.(object)["status"].(string))
	}
	if strings.Join(status, " ") != "promoted known added added" || out[0].(object)["id"] != first {
		t.Errorf("%v", out)
	}
	w.gives(s, "remove_artifact_or_reference", object{"id": out[1].(object)["id"]})
	w.fails(s, "remove_artifact_or_reference", object{"id": "nothing"}, "there is none")
	w.stop()
	w.stop = w.start()
	s, err := w.host.Session(w.ctx, s.ID())
	if err != nil {
		t.Fatal(err)
	}
	list := w.gives(s, "list_artifacts_and_references", object{})["items"].([]any)
	if len(list) != 3 || list[0].(object)["id"] != first || list[0].(object)["isArtifact"] != true || list[0].(object)["isGitHub"] != true ||
		list[1].(object)["commitHash"] != "abc" || list[2].(object)["uri"] != "file:///project/report.md" {
		t.Errorf("after a restart: %v", list)
	}
	for i := range list {
		w.gives(s, "remove_artifact_or_reference", object{"id": list[i].(object)["id"]})
	}
	if info := s.State().Info; len(info.Meta) != 0 {
		t.Errorf("left: %v", info.Meta)
	}
}

func TestOnlyWhatClientsCanOpenIsRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.session(event.ModeAuto)
	add := func(item object, why string) {
		t.Helper()
		w.fails(s, "add_artifact_or_reference", object{"items": []object{item}}, why)
	}
	add(object{"type": "website", "label": "x", "isArtifact": true, "link": "file:///etc/passwd"}, "http or https")
	add(object{"type": "website", "label": "x", "isArtifact": true}, "http or https")
	add(object{"type": "file", "label": "x", "isArtifact": true, "uri": "/etc/passwd"}, "absolute URI")
	add(object{"type": "file", "label": "x", "isArtifact": true, "uri": `C:\x`}, "absolute URI")
	add(object{"type": "resource", "label": "x", "isArtifact": true, "uri": "agent-host-session://demo/x"}, "not recorded")
	for _, uri := range []string{"javascript:alert(1)", "JavaScript:alert(1)", "command:workbench.action.quit", "data:text/html,x"} {
		add(object{"type": "resource", "label": "x", "isArtifact": true, "uri": uri}, "does something")
	}
	add(object{"type": "commit", "label": "x", "isArtifact": true, "link": "https://a.b/c"}, "commitHash is missing")
	add(object{"type": "song", "label": "x", "isArtifact": true}, "type is none of")
	add(object{"type": "website", "label": " ", "isArtifact": true, "link": "https://a.b"}, "label is empty")
	add(object{"type": "website", "label": "x", "link": "https://a.b"}, "isArtifact is missing")
	add(object{"type": "website", "label": "x", "isArtifact": "yes", "link": "https://a.b"}, "isArtifact cannot be a string")
	add(object{"type": "website", "label": "x", "isArtifact": true, "link": "https://a.b/" + strings.Repeat("x", 2000)}, "more than 1024")
	w.fails(s, "add_artifact_or_reference", object{"items": []object{}}, "1 to 20")
	for i := range 6 {
		var items []object
		for j := range 20 {
			items = append(items, object{"type": "website", "label": "x", "isArtifact": true, "link": fmt.Sprintf("https://a.b/%d/%d", i, j)})
		}
		if i < 5 {
			w.gives(s, "add_artifact_or_reference", object{"items": items})
		} else {
			w.fails(s, "add_artifact_or_reference", object{"items": items}, "at most")
		}
	}
	if n := len(w.gives(s, "list_artifacts_and_references", object{})["items"].([]any)); n != 100 {
		t.Errorf("%d recorded", n)
	}
}

func TestAnAgentNamesTheChatsOfItsSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, other := w.session(event.ModeAuto), w.session(event.ModeAuto)
	w.gives(s, "rename_chat", object{"title": " First "})
	out := w.gives(s, "create_session", object{"relationship": "currentSession", "prompt": "say x", "title": "Beside"})
	w.gives(s, "rename_chat", object{"title": "Second", "chat": out["openLink"]})
	if st := s.State(); st.Info.Title != "First" || st.Chats[1].Title != "Second" {
		t.Errorf("%q and %q", st.Info.Title, st.Chats[1].Title)
	}
	w.fails(s, "rename_chat", object{"title": "x", "chat": spelled(other)}, "another session's")
	w.fails(s, "rename_chat", object{"title": " "}, "title is empty")
	w.fails(s, "rename_chat", object{"title": strings.Repeat("x", 201)}, "more than 200")
}
