package cognitio

import (
	"context"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
)

// other is somebody on another front.
var other = event.Actor{Front: "other", Client: "c1"}

func (g *gateway) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	g.t.Cleanup(cancel)
	return ctx
}

// core is the core's session that a spelled id names.
func (g *gateway) core(spelled string) *host.Session {
	g.t.Helper()
	p, err := g.f.find(g.ctx(), spelled)
	if err != nil {
		g.t.Fatal(err)
	}
	return p.Session
}

func ids(list any) []string {
	var out []string
	for _, s := range list.([]any) {
		out = append(out, s.(map[string]any)["id"].(string))
	}
	return out
}

func TestSessionsAreListedByDirectory(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	elsewhere := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(elsewhere, link); err != nil {
		t.Fatal(err)
	}
	here := g.session()
	there := g.must("POST", "/session?directory="+url.QueryEscape(elsewhere), nil).(map[string]any)["id"].(string)
	header := g.must("POST", "/session", nil, "X-Opencode-Directory", url.PathEscape(elsewhere)).(map[string]any)
	if header["directory"] != elsewhere {
		t.Errorf("directory by header: %v", header["directory"])
	}
	for _, c := range []struct {
		query string
		want  int
	}{{"", 3}, {"?directory=", 3}, {"?directory=" + url.QueryEscape(g.dir), 1}, {"?directory=" + url.QueryEscape(elsewhere+"/"), 2},
		{"?directory=" + url.QueryEscape(link), 2}, {"?directory=/nonexistent", 0}, {"?limit=1", 1}, {"?roots=true", 3}, {"?search=nothing", 0}} {
		if got := ids(g.must("GET", "/session"+c.query, nil)); len(got) != c.want {
			t.Errorf("%q lists %v", c.query, got)
		}
	}
	if got := ids(g.must("GET", "/session", nil, "X-Cognitio-Directory", url.PathEscape(g.dir))); len(got) != 1 || got[0] != here {
		t.Errorf("by header: %v", got)
	}
	streamHere, streamThere, all := g.listen("/event?directory="+url.QueryEscape(g.dir)), g.listen("/event?directory="+url.QueryEscape(link)), g.listen("/global/event")
	g.prompt(here, "say here")
	g.prompt(there, "say there")
	streamHere.idle(here)
	streamThere.idle(there)
	for _, s := range []*stream{streamHere, streamThere} {
		for _, e := range s.seen {
			if ses := e.str("sessionID"); ses != "" && (ses == here) != (s == streamHere) {
				t.Errorf("a stream has %v", e.raw)
			}
		}
	}
	done := map[string]bool{}
	for !done[here] || !done[there] {
		done[last(all.until("session.idle")).str("sessionID")] = true
	}
}

func TestSessionIsRenamedTaggedArchivedAndDeleted(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	events := g.listen("/event")
	ses := g.session()
	events.until("session.created")
	got := g.must("PATCH", "/session/"+ses, map[string]any{"title": "New name", "tags": []string{"a", "b"}}).(map[string]any)
	if got["title"] != "New name" || len(got["tags"].([]any)) != 2 {
		t.Errorf("%v", got)
	}
	if e := last(events.until("session.updated")); e.str("info", "title") != "New name" {
		t.Errorf("%v", e.raw)
	}
	if found := ids(g.must("GET", "/session?tag=b&search=NEW", nil)); len(found) != 1 {
		t.Errorf("by tag: %v", found)
	}
	g.must("PATCH", "/session/"+ses, map[string]any{"time": map[string]any{"archived": 1700000000000}})
	if e := last(events.until("session.updated")); e.Properties["info"].(map[string]any)["time"].(map[string]any)["archived"] != 1700000000000.0 {
		t.Errorf("%v", e.raw)
	}
	if found := ids(g.must("GET", "/session", nil)); len(found) != 1 {
		t.Errorf("an archived session is not listed")
	}
	if found := ids(g.must("GET", "/experimental/session", nil)); len(found) != 0 {
		t.Errorf("an archived session is listed as active")
	}
	if g.must("DELETE", "/session/"+ses, nil) != true {
		t.Error("delete did not say true")
	}
	if e := last(events.until("session.deleted")); e.str("info", "id") != ses {
		t.Errorf("%v", e.raw)
	}
	if status, _ := g.do("GET", "/session/"+ses, nil); status != 404 {
		t.Errorf("deleted session: %d", status)
	}
}

func TestSessionsOfOtherFrontsAreSeenAndDriven(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	events := g.listen("/global/event")
	s, err := g.host.CreateSession(g.ctx(), host.CreateSession{By: other, Title: "from elsewhere"})
	if err != nil {
		t.Fatal(err)
	}
	ses := sessionID(s.ID())
	if e := last(events.until("session.created")); e.str("info", "id") != ses || e.str("info", "title") != "from elsewhere" {
		t.Errorf("%v", e.raw)
	}
	if _, err := s.Prompt(g.ctx(), host.Prompt{Text: "run echo theirs", By: other, MessageAlias: "their-name"}); err != nil {
		t.Fatal(err)
	}
	user := last(events.until("message.updated"))
	if !strings.HasPrefix(user.str("info", "id"), "msg_") {
		t.Errorf("another front's name is shown: %v", user.raw)
	}
	asked := last(events.until("permission.asked"))
	if asked.str("sessionID") != ses {
		t.Errorf("%v", asked.raw)
	}
	g.must("POST", "/permission/"+asked.str("id")+"/reply", map[string]any{"reply": "once"})
	events.idle(ses)

	// And the other way round: asked here, answered there.
	g.prompt(ses, "run echo ours")
	events.until("permission.asked")
	var open id.ID
	for _, i := range s.State().Open {
		open = i.ID
	}
	if err := s.Resolve(g.ctx(), open, event.Resolution{Outcome: event.Denied, By: other, Reason: "not now"}); err != nil {
		t.Fatal(err)
	}
	if e := last(events.until("permission.replied")); e.str("reply") != "reject" {
		t.Errorf("%v", e.raw)
	}
	for _, e := range events.idle(ses) {
		if e.str("part", "type") == "tool" && !strings.Contains(e.str("part", "state", "error"), "not now") {
			t.Errorf("the reason is lost: %v", e.raw)
		}
	}
	if list := g.must("GET", "/session/"+ses+"/message", nil).([]any); len(list) != 4 {
		t.Errorf("%d messages", len(list))
	}
	if err := g.host.DeleteSession(g.ctx(), s.ID(), other); err != nil {
		t.Fatal(err)
	}
	events.until("session.deleted")
}

func TestPrivateSessionIsToldOfWithItsFirstTurn(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	events := g.listen("/event")
	s, err := g.host.CreateSession(g.ctx(), host.CreateSession{By: other, Private: true})
	if err != nil {
		t.Fatal(err)
	}
	mark := g.session(map[string]any{"title": "mark"})
	if e := last(events.until("session.created")); e.str("info", "id") != mark {
		t.Errorf("a private session was told of: %v", e.raw)
	}
	if _, err := s.Prompt(g.ctx(), host.Prompt{Text: "say hi", By: other}); err != nil {
		t.Fatal(err)
	}
	seen := events.idle(sessionID(s.ID()))
	if seen[0].Type != "session.created" || strings.Count(types(seen), "session.created") != 1 {
		t.Errorf("%s", types(seen))
	}
}

func TestSubagentIsASessionWithAParent(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	events := g.listen("/event")
	ses := g.session()
	g.prompt(ses, "spawn helper say from inside")
	turn := events.idle(ses)
	var child string
	for _, e := range turn {
		switch e.Type {
		case "session.created":
			if e.str("info", "parentID") != "" {
				child = e.str("info", "id")
			}
		case "subagent.started", "subagent.stopped":
			if e.str("sessionID") != ses || e.str("childSessionID") != child {
				t.Errorf("%v", e.raw)
			}
		}
	}
	all := types(turn)
	if child == "" || !strings.Contains(all, "subagent.started") || !strings.Contains(all, "subagent.stopped") {
		t.Fatalf("%s", all)
	}
	if got := ids(g.must("GET", "/session/"+ses+"/children", nil)); len(got) != 1 || got[0] != child {
		t.Errorf("children: %v", got)
	}
	if got := ids(g.must("GET", "/session?roots=true", nil)); len(got) != 1 || got[0] != ses {
		t.Errorf("roots: %v", got)
	}
	if got := ids(g.must("GET", "/session", nil)); len(got) != 2 {
		t.Errorf("sessions: %v", got)
	}
	list := g.must("GET", "/session/"+child+"/message", nil).([]any)
	if len(list) != 2 || !strings.Contains(jsonOf(list[1]), "from inside") {
		t.Errorf("the child's history: %s", jsonOf(list))
	}
}

func jsonOf(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

func TestAbortEndsTheTurnOnce(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	events := g.listen("/event")
	ses := g.session()
	if g.must("POST", "/session/"+ses+"/abort", nil) != true {
		t.Error("abort of an idle session did not say true")
	}
	g.prompt(ses, "stream 10000 5 5")
	events.until("message.part.delta")
	g.must("POST", "/session/"+ses+"/abort", nil)
	turn := events.idle(ses)
	all := types(turn)
	if strings.Count(all, "session.error") != 1 || strings.Count(all, "session.result") != 1 || strings.Index(all, "session.error") > strings.Index(all, "session.result") {
		t.Errorf("%s", all)
	}
	for _, e := range turn {
		if e.Type == "session.result" && e.str("subtype") != "error_aborted" || e.Type == "session.error" && e.str("error", "name") != "MessageAbortedError" {
			t.Errorf("%v", e.raw)
		}
	}
	list := g.must("GET", "/session/"+ses+"/message", nil).([]any)
	if !strings.Contains(jsonOf(list[1]), "MessageAbortedError") {
		t.Errorf("%s", jsonOf(list[1]))
	}
	g.prompt(ses, "say alive")
	events.idle(ses)
}

// Editors send an approval milliseconds after a cancel.
func TestApprovalAfterAnAbortRunsNothing(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	events := g.listen("/event")
	ses := g.session()
	g.prompt(ses, "run touch ran")
	asked := last(events.until("permission.asked"))
	g.must("POST", "/session/"+ses+"/abort", nil)
	status, _ := g.do("POST", "/permission/"+asked.str("id")+"/reply", map[string]any{"reply": "once"})
	if status != 404 {
		t.Errorf("the late approval: %d", status)
	}
	turn := events.idle(ses)
	if !strings.Contains(types(turn), "permission.replied") {
		t.Errorf("nobody heard that the permission is gone: %s", types(turn))
	}
	if _, err := os.Stat(filepath.Join(g.dir, "ran")); err == nil {
		t.Error("the command ran")
	}
	if list := g.must("GET", "/permission", nil).([]any); len(list) != 0 {
		t.Errorf("still pending: %v", list)
	}
}

func TestFailedTurnSaysErrorThenResultThenIdle(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	events := g.listen("/event")
	ses := g.session()
	g.prompt(ses, "say before\nfail the model is away")
	all := types(events.idle(ses))
	if !strings.HasSuffix(all, "session.error message.part.updated message.updated session.updated session.result session.status session.idle") {
		t.Errorf("%s", all)
	}
}

func TestPromptsWaitForTheirTurnAndEachHasAnAnswer(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	events := g.listen("/event")
	ses := g.session()
	g.prompt(ses, "say first\nrun echo wait")
	asked := last(events.until("permission.asked"))
	var wg sync.WaitGroup
	answers := make([]any, 2)
	for n, text := range []string{"say second", "say third"} {
		wg.Go(func() { _, answers[n] = g.do("POST", "/session/"+ses+"/message", say(text)) })
		events.until("message.updated", func(e wireEvent) bool { return e.str("info", "role") == "user" })
	}
	if list := g.must("GET", "/session/"+ses+"/message", nil).([]any); len(list) != 4 {
		t.Errorf("waiting prompts are not in the history: %d messages", len(list))
	}
	g.must("POST", "/permission/"+asked.str("id")+"/reply", map[string]any{"reply": "once"})
	turns := events.idle(ses)
	if n := strings.Count(types(turns), "session.result"); n != 3 {
		t.Errorf("%d results before idle: %s", n, types(turns))
	}
	wg.Wait()
	for n, text := range []string{"second", "third"} {
		if !strings.Contains(jsonOf(answers[n]), `"text":"`+text+`"`) {
			t.Errorf("answer %d: %s", n, jsonOf(answers[n]))
		}
	}
}

// A message that another front puts into the running turn is a user message,
// and what follows answers it; both prompts get a result.
func TestSteeringMessageSplitsTheAnswer(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	events := g.listen("/event")
	ses := g.session()
	g.prompt(ses, "say first\nrun echo wait\nsay last")
	asked := last(events.until("permission.asked"))
	s := g.core(ses)
	if _, err := s.Prompt(g.ctx(), host.Prompt{Text: "say steered", By: other, Busy: host.BusySteer}); err != nil {
		t.Fatal(err)
	}
	steering := last(events.until("message.updated", func(e wireEvent) bool { return e.str("info", "role") == "user" })).str("info", "id")
	g.must("POST", "/permission/"+asked.str("id")+"/reply", map[string]any{"reply": "once"})
	turn := events.idle(ses)
	results, answers := 0, map[string]any{}
	for _, e := range turn {
		switch e.Type {
		case "session.result":
			results++
		case "message.updated":
			if e.str("info", "parentID") == steering {
				answers[e.str("info", "id")] = e.Properties["info"]
			}
		}
	}
	if results != 2 || len(answers) == 0 {
		t.Errorf("%d results, %d answers: %s", results, len(answers), types(turn))
	}
	for _, m := range g.must("GET", "/session/"+ses+"/message", nil).([]any) {
		info := m.(map[string]any)["info"].(map[string]any)
		if want, ok := answers[info["id"].(string)]; ok {
			same(t, want, info)
			delete(answers, info["id"].(string))
		}
	}
	if len(answers) > 0 {
		t.Errorf("not in the history: %v", answers)
	}
}

func TestDroppedPromptIsTakenBackAndAnswered(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	events := g.listen("/event")
	ses := g.session()
	g.prompt(ses, "run echo wait")
	events.until("permission.asked")
	answered := make(chan any, 1)
	go func() {
		_, a := g.do("POST", "/session/"+ses+"/message", say("say never"))
		answered <- a
	}()
	waiting := last(events.until("message.updated", func(e wireEvent) bool { return e.str("info", "role") == "user" }))
	g.must("POST", "/session/"+ses+"/abort", nil)
	if e := last(events.until("message.removed")); e.str("messageID") != waiting.str("info", "id") {
		t.Errorf("%v", e.raw)
	}
	events.idle(ses)
	if a := jsonOf(<-answered); !strings.Contains(a, "MessageAbortedError") {
		t.Errorf("the dropped prompt was answered %s", a)
	}
}

func TestSamePromptSentAgainRunsOnce(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	ses := g.session()
	body := say("say once")
	body["messageID"] = "msg_0123456789ab00000000000001"
	var first, again any
	_, first = g.do("POST", "/session/"+ses+"/message", body)
	_, again = g.do("POST", "/session/"+ses+"/message", body)
	same(t, first, again)
	if list := g.must("GET", "/session/"+ses+"/message", nil).([]any); len(list) != 2 {
		t.Errorf("%d messages", len(list))
	}
}

func TestHistoryComesInPages(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	ses := g.session()
	for n := range 60 {
		g.must("POST", "/session/"+ses+"/message", say("say turn "+string(rune('a'+n%26))))
	}
	whole := g.must("GET", "/session/"+ses+"/message", nil).([]any)
	if len(whole) != 120 {
		t.Fatalf("%d messages", len(whole))
	}
	var paged []any
	next := ""
	for range 100 {
		res := g.request("GET", "/session/"+ses+"/message?limit=23&before="+next, nil)
		var page []any
		if err := json.NewDecoder(res.Body).Decode(&page); err != nil {
			t.Fatal(err)
		}
		paged = append(page, paged...)
		next = res.Header.Get("X-Next-Cursor")
		if (next != "") != strings.Contains(res.Header.Get("Link"), `rel="next"`) {
			t.Fatalf("headers: %v", res.Header)
		}
		if next == "" {
			break
		}
	}
	same(t, whole, paged)
}

func TestOutputThatStopsIsStillShown(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	events := g.listen("/event")
	ses := g.session(map[string]any{"runtimeConfig": map[string]any{"permissionMode": "auto"}})
	g.prompt(ses, "run echo one; sleep 0.05; echo two; while [ ! -e go ]; do sleep 0.05; done")
	events.until("message.part.updated", func(e wireEvent) bool {
		return strings.Contains(e.str("part", "state", "metadata", "output"), "two") && e.str("part", "state", "status") == "running"
	})
	if err := os.WriteFile(filepath.Join(g.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	events.idle(ses)
}

func TestAttachmentsAreKeptAsTheyWereSent(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	file := filepath.Join(g.dir, "a.txt")
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	ses := g.session()
	big := strings.Repeat("QUJD", 40_000) // larger than the core keeps inline
	parts := []any{
		map[string]any{"type": "text", "text": "say look"},
		map[string]any{"type": "file", "mime": "text/plain", "filename": "a.txt", "url": "file://" + file, "source": map[string]any{"type": "file", "path": "a.txt", "text": map[string]any{"start": 0, "end": 3, "value": "@a"}}},
		map[string]any{"type": "file", "mime": "image/png", "url": "data:image/png;base64," + big},
		map[string]any{"type": "agent", "name": "plan"},
	}
	g.must("POST", "/session/"+ses+"/message", map[string]any{"parts": parts})
	got := g.must("GET", "/session/"+ses+"/message", nil).([]any)[0].(map[string]any)["parts"].([]any)
	if len(got) != len(parts) {
		t.Fatalf("%s", jsonOf(got))
	}
	for n := range parts {
		for k, want := range parts[n].(map[string]any) {
			same(t, want, got[n].(map[string]any)[k])
		}
	}
}

func TestFilesStayInsideTheDirectory(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("s"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(outside, "secret"), filepath.Join(g.dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(g.dir, "sub", "deep"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(g.dir, "sub", "note.md"), []byte("# hi"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path   string
		status int
	}{
		{"/file/content?path=sub/note.md", 200}, {"/file/content?path=" + g.dir + "/sub/note.md", 200},
		{"/file/content?path=../" + filepath.Base(outside) + "/secret", 400}, {"/file/content?path=" + outside + "/secret", 400},
		{"/file/content?path=link", 400}, {"/file/content?path=sub", 400}, {"/file/content?path=none", 404}, {"/file/content?path=%00", 400},
		{"/file?path=..", 400}, {"/file?path=sub", 200}, {"/file?path=.&directory=" + outside, 400}, {"/file?path=.&directory=/etc", 400},
	} {
		if status, answer := g.do("GET", c.path, nil); status != c.status {
			t.Errorf("%s: %d %v", c.path, status, answer)
		}
	}
	found := g.must("GET", "/find/file?query=nte", nil).([]any)
	if len(found) != 1 || found[0] != "sub/note.md" {
		t.Errorf("found %v", found)
	}
}

func TestAnswersWaitWithTheConnectionOpen(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	ses := g.session()
	res := make(chan int, 1)
	go func() {
		r := g.request("POST", "/session/"+ses+"/message", say("run echo x"))
		res <- r.StatusCode
	}()
	select {
	case status := <-res:
		if status != 200 {
			t.Errorf("%d", status)
		}
	case <-time.After(patience):
		t.Error("no headers while the turn runs")
	}
}
