package zidane

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
)

func TestBadMessagesAreAnsweredAndTheConnectionLives(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.connect()
	for _, row := range []struct {
		text string
		id   string
		code int
	}{
		{`not json`, "null", -32700},
		{`{"jsonrpc":"2.0","id":1,`, "null", -32700},
		{`[{"jsonrpc":"2.0","id":1,"method":"$/ping"}]`, "null", -32600},
		{`7`, "null", -32600},
		{`{"jsonrpc":"2.0","id":"a","method":7}`, `"a"`, -32600},
		{`{"jsonrpc":"2.0","id":{},"method":"$/ping"}`, "null", -32600},
		{`{"jsonrpc":"2.0","id":"deep","method":"sessions.list","params":{"cwd":` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + `}}`, "null", -32600},
		{`{"jsonrpc":"2.0","id":"b","method":"sessions.list","params":[]}`, `"b"`, -32602},
		{`{"jsonrpc":"2.0","id":"c","method":"sessions.list","params":"x"}`, `"c"`, -32602},
		{`{"jsonrpc":"2.0","id":"d","method":"sessions.list","params":null}`, `"d"`, -32602},
		{`{"jsonrpc":"2.0","id":1.5,"method":"sessions.nope"}`, `1.5`, -32601},
	} {
		c.write(row.text)
		r := c.await(row.id)
		if r.Error == nil || r.Error.Code != row.code {
			t.Errorf("%.80s: %s %+v", row.text, r.Result, r.Error)
		}
		if row.code == -32602 && r.Error.Message != "params must be an object." {
			t.Errorf("%s: %q", row.text, r.Error.Message)
		}
	}
	c.write(`{"jsonrpc":"2.0","id":"last","method":"sessions.list"}`)
	if r := c.await(`"last"`); r.Error != nil {
		t.Errorf("params may be left out: %+v", r.Error)
	}
}

func TestWrongFieldIsNamed(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.connect()
	session := c.newSession()
	for _, row := range []struct{ method, params, names string }{
		{"sessions.create", `{}`, "cwd"},
		{"sessions.create", `{"cwd":7}`, "cwd"},
		{"chat.send", `{"prompt":"x"}`, "sessionId"},
		{"chat.send", `{"sessionId":"%s","prompt":7}`, "prompt"},
		{"chat.send", `{"sessionId":"%s","prompt":"  "}`, "prompt"},
		{"chat.send", `{"sessionId":"%s","prompt":"x","attachments":[{"name":"a"}]}`, "attachments[0]"},
		{"chat.send", `{"sessionId":"%s","prompt":"x","attachments":[{"data":"###"}]}`, "attachments[0].data"},
		{"sessions.loadEvents", `{"sessionId":"%s","limit":0}`, "limit"},
		{"sessions.loadEvents", `{"sessionId":"%s","limit":"2"}`, "limit"},
		{"sessions.loadEvents", `{"sessionId":"%s","before":-1}`, "before"},
		{"sessions.resume", `{"sessionId":"%s","epoch":"x","afterSeq":-1}`, "afterSeq"},
		{"sessions.rename", `{"sessionId":"%s","title":""}`, "title"},
		{"approvals.answer", `{"id":"x","decision":"perhaps"}`, "decision"},
		{"runtime.set", `{"sessionId":"%s","mode":"wild"}`, "mode"},
		{"presence.report", `{"windows":[{"sessionId":7}]}`, "windows[0].sessionId"},
		{"files.mediaTicket", `{"ticket":"short"}`, "ticket"},
		{"prefs.set", `{"patch":[]}`, "patch"},
		{"queue.move", `{"sessionId":"%s","id":"x","index":-1}`, "index"},
	} {
		if m := c.fails(-32602, row.method, strings.ReplaceAll(row.params, "%s", session)); !strings.Contains(m, row.names) {
			t.Errorf("%s %s: %q does not name %s", row.method, row.params, m, row.names)
		}
	}
}

func TestUnknownSessionIsAFailedHandler(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.connect()
	for _, id := range []string{"no-such-session", "7f6b2bc1-27b2-4052-a2b7-de05d2538178", "01931234-0000-7000-8000-000000000000"} {
		want := fmt.Sprintf(`Session "%s" not found. Create the session before sending a prompt.`, id)
		for method, more := range map[string]string{"chat.send": `,"prompt":"x"`, "sessions.get": "", "sessions.loadEvents": "", "sessions.resume": `,"epoch":"` + g.front.signals.epoch + `","afterSeq":0`,
			"runtime.get": "", "queue.list": "", "drafts.get": "", "plans.get": "", "approvals.list": "", "sessions.delete": ""} {
			if m := c.fails(codeHandlerFailed, method, fmt.Sprintf(`{"sessionId":%q%s}`, id, more)); m != want {
				t.Errorf("%s: %q", method, m)
			}
		}
	}
}

func TestNotificationsAreNeverAnswered(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.connect()
	session := c.newSession()
	c.write(`{"jsonrpc":"2.0","method":"sessions.nope","params":{}}`)
	c.write(`{"jsonrpc":"2.0","method":"chat.send","params":{"sessionId":"no"}}`)
	c.write(`{"jsonrpc":"2.0","method":"sessions.rename","params":{"sessionId":"` + session + `","title":"renamed"}}`)
	updated := c.nextKind("session:updated")
	if title := updated["session"].(map[string]any)["title"]; title != "renamed" {
		t.Errorf("title %v", title)
	}
	if r := c.call("$/ping", "{}"); string(r.Result) != "{}" { // await fails on any other answer
		t.Errorf("ping: %s", r.Result)
	}
}

func TestFoldersOutsideTheRootsAreRefused(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.connect()
	symlink(t, "/etc", g.root+"/link")
	file(t, g.root+"/file", "x")
	for _, cwd := range []string{"/etc", g.root + "/../..", g.root + "/..", g.root + "/link", g.root + "/link/ssl", "relative", g.root + "x",
		g.root + "/none", g.root + "/file", "/\x00"} {
		m := c.fails(codeHandlerFailed, "sessions.create", string(encode(map[string]string{"cwd": cwd})))
		if !strings.Contains(m, shown(cwd)) {
			t.Errorf("%s: %q does not name it", cwd, m)
		}
	}
	if list := c.ok("sessions.list", "{}")["sessions"].([]any); len(list) != 0 {
		t.Errorf("created %v", list)
	}
}

func TestFramesThatCannotBeTakenCloseTheConnection(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	for _, row := range []struct {
		name  string
		hello bool
		kind  int
		data  []byte
		code  int
	}{
		{"binary", true, websocket.BinaryMessage, []byte("{}"), 1003},
		{"not UTF-8", true, websocket.TextMessage, []byte("\"\xff\""), 1007},
		{"large before hello", false, websocket.TextMessage, make([]byte, readLimitBefore+1), 1009},
	} {
		c := g.dial()
		if row.hello {
			c.ok("ipc.hello", `{"protocolVersion":16}`)
		}
		if err := c.ws.WriteMessage(row.kind, row.data); err != nil {
			t.Fatal(err)
		}
		if code, reason := c.closeCode(); code != row.code {
			t.Errorf("%s: closed with %d %s", row.name, code, reason)
		}
	}
	c := g.connect()
	r := c.call("sessions.list", `{"cwd":"`+strings.Repeat("x", 1<<20)+`"}`)
	if r.Error != nil {
		t.Errorf("a large message after hello: %+v", r.Error)
	}
}

func TestManyQuickReconnectsLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	for range 300 {
		c := g.dial()
		c.write(`{"jsonrpc":"2.0","id":1,"method":"ipc.hello","params":{"protocolVersion":16}}`)
		c.close()
	}
	g.emptied()
	if got := g.connect().newSession(); got == "" {
		t.Fatal("no session")
	}
}

func TestFloodOfPromptsIsRefusedAndTheNextOnesRun(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.connect()
	session := c.newSession()
	c.ok("chat.send", fmt.Sprintf(`{"sessionId":%q,"prompt":"sleep 60000"}`, session))
	var waiting []string
	for range 2 * maxInFlight {
		waiting = append(waiting, c.begin("chat.send", fmt.Sprintf(`{"sessionId":%q,"prompt":"say x"}`, session)))
	}
	if r := c.ok("chat.stop", fmt.Sprintf(`{"sessionId":%q}`, session)); r["stopped"] != true {
		t.Errorf("stop: %v", r)
	}
	for _, id := range waiting {
		c.await(id) // each has its answer, good or bad
	}
	c.ok("chat.send", fmt.Sprintf(`{"sessionId":%q,"prompt":"say after the flood"}`, session))
	c.next("the next run", func(s signal) bool { return text([]signal{s}) == "flood" })
}
