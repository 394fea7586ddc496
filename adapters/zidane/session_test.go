package zidane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
)

func file(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func symlink(t *testing.T, to, at string) {
	t.Helper()
	if err := os.Symlink(to, at); err != nil {
		t.Fatal(err)
	}
}

func TestCreatedSessionIsWhatTheProtocolSays(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.connect()
	before := time.Now().Add(-time.Minute).UnixMilli()
	s := c.ok("sessions.create", `{"cwd":""}`)
	root, _ := filepath.EvalSymlinks(g.root)
	for name, want := range map[string]any{"title": "New session", "projectRoot": root, "cwd": root, "agentId": "build", "status": "idle",
		"archived": false, "hostId": c.hello["hostId"]} {
		if s[name] != want {
			t.Errorf("%s is %v, want %v", name, s[name], want)
		}
	}
	if _, err := id.Parse(s["id"].(string)); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"createdAt", "updatedAt"} {
		if at := int64(s[name].(float64)); at < before || at > before+2*60_000 {
			t.Errorf("%s is %d", name, at)
		}
	}
	created := c.nextKind("session:created")
	if created.seq() != 1 || fmt.Sprint(created["session"]) != fmt.Sprint(s) {
		t.Errorf("signal %v", created)
	}
	if err := os.Mkdir(g.root+"/sub", 0o755); err != nil {
		t.Fatal(err)
	}
	if sub := c.ok("sessions.create", fmt.Sprintf(`{"cwd":%q,"title":"Sub"}`, g.root+"/./sub/")); sub["cwd"] != root+"/sub" || sub["title"] != "Sub" {
		t.Errorf("in a folder: %v", sub)
	}
	for _, params := range []string{`{"cwd":"","agentId":"nobody"}`, `{"cwd":"","modelId":"none"}`} {
		c.fails(codeHandlerFailed, "sessions.create", params)
	}
}

func TestSessionsCanBeListedChangedAndDeleted(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c, other := g.connect(), g.connect()
	a, b := c.newSession(), c.newSession()
	ids := func(params string) (out []string) {
		for _, s := range c.ok("sessions.list", params)["sessions"].([]any) {
			out = append(out, s.(map[string]any)["id"].(string))
		}
		slices.Sort(out)
		return out
	}
	if got := ids(`{}`); !slices.Equal(got, sorted(a, b)) {
		t.Errorf("listed %v", got)
	}
	if s := c.ok("sessions.rename", fmt.Sprintf(`{"sessionId":%q,"title":"Mine"}`, a)); s["title"] != "Mine" {
		t.Errorf("renamed: %v", s)
	}
	if s := other.nextKind("session:updated"); s.session() != a || s["session"].(map[string]any)["title"] != "Mine" {
		t.Errorf("signal %v", s)
	}
	if s := c.ok("sessions.archive", fmt.Sprintf(`{"sessionId":%q}`, a)); s["archived"] != true {
		t.Errorf("archived: %v", s)
	}
	if got := ids(`{}`); !slices.Equal(got, []string{b}) {
		t.Errorf("listed %v", got)
	}
	if got := ids(`{"archived":true}`); !slices.Equal(got, []string{a}) {
		t.Errorf("archived are %v", got)
	}
	if s := c.ok("sessions.update", fmt.Sprintf(`{"sessionId":%q,"archived":false,"title":"Back"}`, a)); s["archived"] != false || s["title"] != "Back" {
		t.Errorf("updated: %v", s)
	}
	if got := ids(fmt.Sprintf(`{"cwd":%q}`, g.root)); len(got) != 2 {
		t.Errorf("of the folder: %v", got)
	}
	if got := ids(`{"cwd":"/elsewhere"}`); len(got) != 0 {
		t.Errorf("of another folder: %v", got)
	}
	if r := c.ok("sessions.delete", fmt.Sprintf(`{"sessionId":%q}`, a)); r["ok"] != true {
		t.Errorf("delete: %v", r)
	}
	if s := other.nextKind("session:deleted"); s.session() != a {
		t.Errorf("signal %v", s)
	}
	c.fails(codeHandlerFailed, "sessions.get", fmt.Sprintf(`{"sessionId":%q}`, a))
	if got := ids(`{}`); !slices.Equal(got, []string{b}) {
		t.Errorf("listed %v", got)
	}
}

func sorted(s ...string) []string { slices.Sort(s); return s }

func TestForkIsASessionOfItsOwnWithTheHistory(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.connect()
	s := c.newSession()
	c.fails(codeHandlerFailed, "sessions.fork", fmt.Sprintf(`{"sessionId":%q}`, s)) // it has said nothing yet
	first := c.send(s, "say one")
	c.send(s, "say two")
	fork := c.ok("sessions.fork", fmt.Sprintf(`{"sessionId":%q}`, s))["id"].(string)
	if fork == s {
		t.Fatal("it is the same session")
	}
	turns := func(session string) []any {
		return c.ok("sessions.getTurns", fmt.Sprintf(`{"sessionId":%q}`, session))["turns"].([]any)
	}
	before := len(turns(s))
	if a, b := turns(s), turns(fork); before == 0 || len(b) != before || fmt.Sprint(a[0]) == fmt.Sprint(b[0]) {
		t.Errorf("turns %v, in the fork %v", a, b)
	}
	c.send(fork, "say three")
	if a, b := turns(s), turns(fork); len(a) != before || len(b) <= before {
		t.Errorf("later, turns %v, in the fork %v", a, b)
	}
	run, _ := first[len(first)-1]["runId"].(string)
	early := c.ok("sessions.fork", fmt.Sprintf(`{"sessionId":%q,"turnId":%q}`, s, run))["id"].(string)
	if a := turns(early); len(a) == 0 || len(a) >= before {
		t.Errorf("at an earlier turn there are %v", a)
	}
	for _, turn := range []string{"x", s} {
		if m := c.fails(codeHandlerFailed, "sessions.fork", fmt.Sprintf(`{"sessionId":%q,"turnId":%q}`, s, turn)); !strings.Contains(fmt.Sprint(m), "not found") {
			t.Errorf("at %s: %v", turn, m)
		}
	}
}

func TestFailedRunSaysWhy(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.connect()
	got := c.send(c.newSession(), "say first\nfail boom")
	end := got[len(got)-1]
	if end["ok"] != false || end["reason"] == nil || !strings.Contains(fmt.Sprint(end["message"]), "boom") {
		t.Errorf("end %v", end)
	}
	if !slices.ContainsFunc(got, func(s signal) bool {
		ev, ok := s["event"].(map[string]any)
		return ok && ev["kind"] == "error" && strings.Contains(ev["text"].(string), "boom")
	}) {
		t.Errorf("no error event in %v", got)
	}
}

func TestStopEndsTheRunAndTheQueue(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.connect()
	session := c.newSession()
	run := c.ok("chat.send", fmt.Sprintf(`{"sessionId":%q,"prompt":"say a\nsleep 60000"}`, session))["runId"]
	waiting := c.begin("chat.send", fmt.Sprintf(`{"sessionId":%q,"prompt":"say queued"}`, session))
	c.nextKind("queue:changed")
	if r := c.ok("chat.stop", fmt.Sprintf(`{"sessionId":%q,"runId":%q}`, session, id.New())); r["stopped"] != false {
		t.Errorf("another run was stopped: %v", r)
	}
	if r := c.ok("chat.interrupt", fmt.Sprintf(`{"sessionId":%q,"runId":%q}`, session, run)); r["stopped"] != true {
		t.Errorf("stop: %v", r)
	}
	end := c.nextKind("run:end")
	if end["ok"] != false || end["reason"] != "stopped" {
		t.Errorf("end %v", end)
	}
	if r := c.await(waiting); r.Error == nil || r.Error.Code != codeHandlerFailed {
		t.Errorf("the queued prompt's answer: %+v", r)
	}
	if r := c.ok("chat.stop", fmt.Sprintf(`{"sessionId":%q}`, session)); r["stopped"] != false {
		t.Errorf("stop with nothing running: %v", r)
	}
}

func TestQueuedPromptIsAnsweredWhenItsRunStarts(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.connect()
	session := c.newSession()
	first := c.begin("chat.send", fmt.Sprintf(`{"sessionId":%q,"prompt":"sleep 2000\nsay first"}`, session))
	second := c.begin("chat.send", fmt.Sprintf(`{"sessionId":%q,"prompt":"say second"}`, session))
	third := c.begin("chat.send", fmt.Sprintf(`{"sessionId":%q,"prompt":"say third"}`, session))
	var got []string
	for _, want := range []string{first, second, third} {
		r := c.await(want)
		if r.Error != nil {
			t.Fatalf("%+v", r.Error)
		}
	}
	for range 3 {
		got = append(got, text(c.until(session, "run:end")))
	}
	if !slices.Equal(got, []string{"first", "second", "third"}) {
		t.Errorf("ran %v", got)
	}
}

func TestQueueCanBeEdited(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.connect()
	session := c.newSession()
	c.ok("chat.send", fmt.Sprintf(`{"sessionId":%q,"prompt":"sleep 60000"}`, session))
	var ids []string
	for _, p := range []string{"say a", "say b", "say c"} {
		ids = append(ids, c.ok("queue.add", fmt.Sprintf(`{"sessionId":%q,"prompt":%q}`, session, p))["id"].(string))
	}
	prompts := func() (out []string) {
		for _, i := range c.ok("queue.list", fmt.Sprintf(`{"sessionId":%q}`, session))["items"].([]any) {
			out = append(out, i.(map[string]any)["prompt"].(string))
		}
		return out
	}
	c.ok("queue.move", fmt.Sprintf(`{"sessionId":%q,"id":%q,"index":0}`, session, ids[2]))
	c.ok("queue.update", fmt.Sprintf(`{"sessionId":%q,"id":%q,"prompt":"say B"}`, session, ids[1]))
	if got := prompts(); !slices.Equal(got, []string{"say c", "say a", "say B"}) {
		t.Errorf("queue %v", got)
	}
	if r := c.ok("queue.remove", fmt.Sprintf(`{"sessionId":%q,"id":%q}`, session, ids[0])); r["removed"] != true {
		t.Errorf("%v", r)
	}
	if r := c.ok("queue.remove", fmt.Sprintf(`{"sessionId":%q,"id":%q}`, session, ids[0])); r["removed"] != false {
		t.Errorf("%v", r)
	}
	c.fails(codeHandlerFailed, "queue.update", fmt.Sprintf(`{"sessionId":%q,"id":%q,"prompt":"x"}`, session, ids[0]))
	if got := prompts(); !slices.Equal(got, []string{"say c", "say B"}) {
		t.Errorf("queue %v", got)
	}
}

func TestApprovalIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c, other := g.connect(), g.connect()
	session := c.newSession()
	c.ok("chat.send", fmt.Sprintf(`{"sessionId":%q,"prompt":"run echo out; touch made"}`, session))
	open := other.nextKind("interaction:open")
	asked := open["interaction"].(map[string]any)
	approval := asked["id"].(string)
	if asked["kind"] != "approval" || asked["tool"] != "bash" || asked["sessionId"] != session {
		t.Errorf("asked %v", asked)
	}
	for _, method := range []string{"approvals.list", "interactions.list"} {
		for _, params := range []string{"{}", fmt.Sprintf(`{"sessionId":%q}`, session)} {
			r := c.ok(method, params)
			for _, rows := range r {
				if l := rows.([]any); len(l) != 1 || l[0].(map[string]any)["id"] != approval {
					t.Errorf("%s %s: %v", method, params, r)
				}
			}
		}
	}
	if s := c.ok("sessions.get", fmt.Sprintf(`{"sessionId":%q}`, session)); s["status"] != "waiting" {
		t.Errorf("session %v", s)
	}
	other.ok("approvals.answer", fmt.Sprintf(`{"id":%q,"decision":"allow"}`, approval))
	if m := c.fails(codeHandlerFailed, "approvals.answer", fmt.Sprintf(`{"id":%q,"decision":"deny"}`, approval)); !strings.Contains(m, "already answered") {
		t.Errorf("second answer: %q", m)
	}
	got := c.until(session, "run:end")
	var closed, calls int
	for _, s := range got {
		if s.kind() == "interaction:closed" {
			closed++
			if s["outcome"] != "allowed" || s["id"] != approval {
				t.Errorf("closed %v", s)
			}
		}
		ev, _ := s["event"].(map[string]any)
		switch ev["kind"] {
		case "tool-call":
			calls++
		case "tool-result":
			if ev["ok"] != true || !strings.Contains(ev["output"].(string), "out") || ev["exitCode"] != 0.0 {
				t.Errorf("result %v", ev)
			}
		}
	}
	if closed != 1 || calls != 1 {
		t.Errorf("closed %d times, %d calls", closed, calls)
	}
	if _, err := os.Stat(g.root + "/made"); err != nil {
		t.Error(err)
	}
	c.fails(codeHandlerFailed, "approvals.answer", `{"id":"nonsense","decision":"deny"}`)
	decisions := c.ok("decisions.list", fmt.Sprintf(`{"sessionId":%q}`, session))["decisions"].([]any)
	if len(decisions) != 1 || decisions[0].(map[string]any)["decision"] != "allow" {
		t.Errorf("decisions %v", decisions)
	}
}

func TestDeniedCallNeverRuns(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.connect()
	session := c.newSession()
	c.ok("chat.send", fmt.Sprintf(`{"sessionId":%q,"prompt":"run touch made"}`, session))
	approval := c.nextKind("interaction:open")["interaction"].(map[string]any)["id"]
	c.ok("interactions.answer", fmt.Sprintf(`{"id":%q,"answers":[{"selected":["deny"],"text":"not now"}]}`, approval))
	got := c.until(session, "run:end")
	if !slices.ContainsFunc(got, func(s signal) bool {
		ev, _ := s["event"].(map[string]any)
		return ev["kind"] == "tool-result" && ev["ok"] == false && ev["status"] == "denied"
	}) {
		t.Errorf("no refused call in %v", got)
	}
	if _, err := os.Stat(g.root + "/made"); err == nil {
		t.Error("it ran")
	}
}

func TestAlwaysAllowIsRemembered(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.connect()
	session := c.newSession()
	c.ok("chat.send", fmt.Sprintf(`{"sessionId":%q,"prompt":"run touch a"}`, session))
	approval := c.nextKind("interaction:open")["interaction"].(map[string]any)["id"]
	c.ok("approvals.answer", fmt.Sprintf(`{"id":%q,"decision":"allow","always":true}`, approval))
	c.until(session, "run:end")
	entries := c.ok("safelist.list", `{"cwd":""}`)["entries"].([]any)
	if len(entries) != 1 || entries[0].(map[string]any)["tool"] != "bash" {
		t.Fatalf("entries %v", entries)
	}
	for _, s := range c.send(session, "run touch b") {
		if s.kind() == "interaction:open" {
			t.Errorf("asked again: %v", s)
		}
	}
	entry := entries[0].(map[string]any)["id"]
	for _, want := range []bool{true, false} {
		if r := c.ok("safelist.revoke", fmt.Sprintf(`{"cwd":"","id":%q}`, entry)); r["removed"] != want {
			t.Errorf("revoke: %v, want %v", r, want)
		}
	}
}

func TestQuestionIsAnsweredByOption(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.connect()
	session := c.newSession()
	c.ok("chat.send", fmt.Sprintf(`{"sessionId":%q,"prompt":"ask Which? | red | blue"}`, session))
	asked := c.nextKind("interaction:open")["interaction"].(map[string]any)
	question := asked["questions"].([]any)[0].(map[string]any)
	if asked["kind"] != "question" || question["text"] != "Which?" || len(question["options"].([]any)) != 2 {
		t.Errorf("asked %v", asked)
	}
	if m := c.fails(-32602, "interactions.answer", fmt.Sprintf(`{"id":%q,"answers":[{"selected":["green"]}]}`, asked["id"])); !strings.Contains(m, "answers[0].selected[0]") {
		t.Errorf("%q", m)
	}
	c.fails(codeHandlerFailed, "approvals.answer", fmt.Sprintf(`{"id":%q,"decision":"allow"}`, asked["id"]))
	c.ok("interactions.answer", fmt.Sprintf(`{"id":%q,"answers":[{"selected":["blue"]}]}`, asked["id"]))
	if got := text(c.until(session, "run:end")); !strings.Contains(got, "blue") {
		t.Errorf("the agent says %q", got)
	}
	c.fails(codeHandlerFailed, "interactions.answer", fmt.Sprintf(`{"id":%q,"answers":[]}`, asked["id"]))
}

func TestCancelThenApproveRunsNothing(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.connect()
	session := c.newSession()
	c.ok("chat.send", fmt.Sprintf(`{"sessionId":%q,"prompt":"run touch made"}`, session))
	approval := c.nextKind("interaction:open")["interaction"].(map[string]any)["id"]
	stop := c.begin("chat.stop", fmt.Sprintf(`{"sessionId":%q}`, session))
	if r := c.await(stop); r.Error != nil {
		t.Fatal(r.Error)
	}
	c.fails(codeHandlerFailed, "approvals.answer", fmt.Sprintf(`{"id":%q,"decision":"allow"}`, approval))
	c.until(session, "run:end")
	if _, err := os.Stat(g.root + "/made"); err == nil {
		t.Error("it ran")
	}
}

func TestPlanAndSubagentAreShown(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.connect()
	session := c.newSession()
	c.ok("chat.send", fmt.Sprintf(`{"sessionId":%q,"prompt":"plan one; two\nspawn helper say from below"}`, session))
	var child string
	var snapshots int
	var childText strings.Builder
	for {
		s := c.next("run:end", func(signal) bool { return true })
		if s.kind() == "session:created" && s.session() != session {
			child = s.session()
			if parent := s["session"].(map[string]any)["parentSessionId"]; parent != session {
				t.Errorf("parent %v", parent)
			}
		}
		if s.session() == child {
			childText.WriteString(text([]signal{s}))
		}
		if s.kind() == "plans:snapshot" && s.session() == session {
			snapshots++
		}
		if s.kind() == "run:end" && s.session() == session {
			break
		}
	}
	if snapshots < 4 {
		t.Errorf("%d snapshots of the plan", snapshots)
	}
	if childText.String() != "from below" {
		t.Errorf("the subagent says %q", childText.String())
	}
	plan := c.ok("plans.get", fmt.Sprintf(`{"sessionId":%q}`, session))
	if steps := plan["plans"].([]any)[0].(map[string]any)["steps"].([]any); len(steps) != 2 || plan["active"] != nil {
		t.Errorf("plan %v", plan)
	}
	runs := c.ok("orchestration.list", fmt.Sprintf(`{"sessionId":%q}`, session))["runs"].([]any)
	if len(runs) != 2 {
		t.Errorf("runs %v", runs)
	}
	if events := c.call("sessions.loadEvents", fmt.Sprintf(`{"sessionId":%q}`, child)); !strings.Contains(string(events.Result), "from below") {
		t.Errorf("transcript of the subagent: %s", events.Result)
	}
}

func TestSessionOfAnotherFrontIsLiveHere(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.connect()
	ctx := context.Background()
	s, err := g.host.CreateSession(ctx, host.CreateSession{By: elsewhere, Title: "Theirs"})
	if err != nil {
		t.Fatal(err)
	}
	wire := s.ID().String()
	if created := c.nextKind("session:created"); created.session() != wire || created["session"].(map[string]any)["title"] != "Theirs" {
		t.Errorf("signal %v", created)
	}
	if _, err := s.Prompt(ctx, host.Prompt{Text: "run touch made\nsay done", By: elsewhere}); err != nil {
		t.Fatal(err)
	}
	approval := c.nextKind("interaction:open")["interaction"].(map[string]any)["id"]
	c.ok("approvals.answer", fmt.Sprintf(`{"id":%q,"decision":"allow"}`, approval))
	if got := text(c.until(wire, "run:end")); got != "done" {
		t.Errorf("text %q", got)
	}
	if got := text(c.send(wire, "say driven from here")); got != "driven from here" {
		t.Errorf("text %q", got)
	}
}

func TestPrivateSessionIsAnnouncedWithItsFirstTurn(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.connect()
	ctx := context.Background()
	s, err := g.host.CreateSession(ctx, host.CreateSession{By: elsewhere, Private: true})
	if err != nil {
		t.Fatal(err)
	}
	mine := c.newSession()
	if created := c.nextKind("session:created"); created.session() != mine {
		t.Errorf("announced %v", created)
	}
	if list := c.ok("sessions.list", "{}")["sessions"].([]any); len(list) != 1 {
		t.Errorf("listed %v", list)
	}
	if _, err := s.Prompt(ctx, host.Prompt{Text: "say hi", By: elsewhere}); err != nil {
		t.Fatal(err)
	}
	got := c.until(s.ID().String(), "run:end")
	if got[0].kind() != "session:created" || got[0].seq() != 1 || text(got) != "hi" {
		t.Errorf("signals %v", got)
	}
}

func TestDraftReachesTheOtherConnections(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c, other := g.connect(), g.connect()
	session := c.newSession()
	for i := range 50 {
		c.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"drafts.set","params":{"sessionId":%q,"text":"draft %d"}}`, session, i))
	}
	last := other.next("the last draft", func(s signal) bool { return s.kind() == "draft:changed" && s["text"] == "draft 49" })
	if last["$seq"] != nil || last.session() != session {
		t.Errorf("draft %v", last)
	}
	if d := other.ok("drafts.get", fmt.Sprintf(`{"sessionId":%q}`, session)); d["text"] != "draft 49" || d["updatedAt"].(float64) == 0 {
		t.Errorf("draft %v", d)
	}
	for _, s := range c.send(session, "say x") {
		if s.kind() == "draft:changed" {
			t.Errorf("the writer got its own draft: %v", s)
		}
	}
}

func TestPresenceCountsWindowsRunsAndAttention(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c, other := g.connect(), g.connect()
	session := c.newSession()
	row := func(windows int, running, attention bool) func(signal) bool {
		return func(s signal) bool {
			if s.kind() != "presence:changed" {
				return false
			}
			if s["$seq"] != nil {
				t.Errorf("presence has a number: %v", s)
			}
			for _, r := range s["sessions"].([]any) {
				if fmt.Sprint(r) == fmt.Sprint(map[string]any{"sessionId": session, "windows": windows, "running": running, "attention": attention}) {
					return true
				}
			}
			return false
		}
	}
	c.ok("presence.report", fmt.Sprintf(`{"windows":[{"sessionId":%q,"focused":true},{"sessionId":null,"focused":false}]}`, session))
	other.next("a window", row(1, false, false))
	c.ok("chat.send", fmt.Sprintf(`{"sessionId":%q,"prompt":"run true\nsay x"}`, session))
	other.next("attention", row(1, true, true))
	if p := other.ok("presence.get", "{}"); len(p["sessions"].([]any)) != 1 {
		t.Errorf("presence %v", p)
	}
	approval := c.nextKind("interaction:open")["interaction"].(map[string]any)["id"]
	c.ok("approvals.answer", fmt.Sprintf(`{"id":%q,"decision":"allow"}`, approval))
	other.next("the end of the run", row(1, false, false))
	c.close()
	other.next("nobody", func(s signal) bool { return s.kind() == "presence:changed" && len(s["sessions"].([]any)) == 0 })
}

func TestSteeringTextGoesIntoTheRun(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.connect()
	session := c.newSession()
	if r := c.ok("chat.steer", fmt.Sprintf(`{"sessionId":%q,"text":"say steered"}`, session)); r["accepted"] != false {
		t.Errorf("with nothing running: %v", r)
	}
	c.ok("chat.send", fmt.Sprintf(`{"sessionId":%q,"prompt":"ask Go on? | yes\nsay b"}`, session))
	asked := c.nextKind("interaction:open")["interaction"].(map[string]any)
	if r := c.ok("chat.steer", fmt.Sprintf(`{"sessionId":%q,"text":"say steered"}`, session)); r["accepted"] != true {
		t.Errorf("steer: %v", r)
	}
	c.ok("interactions.answer", fmt.Sprintf(`{"id":%q,"answers":[{"selected":["yes"]}]}`, asked["id"]))
	got := c.until(session, "run:end")
	if !strings.Contains(text(got), "steered") {
		t.Errorf("signals %v", got)
	}
}
