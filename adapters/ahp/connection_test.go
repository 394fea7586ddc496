package ahp

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/polyhost/polyhost/adapters/ahp/strict"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
)

func TestVersions(t *testing.T) {
	t.Parallel()
	const bad = "malformed"
	for offer, want := range map[string]string{
		"1.0.0":                "1.0.0",
		"0.9.0":                "0.9.0",
		"0.9.0 1.0.0":          "1.0.0",
		"1.0.0 1.2.3":          "1.2.3",
		"1.9.0 1.10.0":         "1.10.0",
		"2.0.0":                "",
		"2.0.0 1.4.0":          "1.4.0",
		"0.9.7 0.9.0":          "0.9.7",
		"0.10.0":               "0.10.0",
		"0.8.0":                "",
		"0.9.0 0.10.0 0.8.0":   "0.10.0",
		"1.0.0 0.10.0 0.9.0":   "1.0.0",
		"":                     "",
		"1.0":                  bad,
		"v1.0.0":               bad,
		"1.0.0-beta.1":         bad,
		"1.0.0 nonsense":       bad,
		"01.0.0":               bad,
		"1.0.99999999999":      bad,
		"3.0.0 0.9.12 0.11.0":  "0.9.12",
		"0.9.0 0.7.0 0.6.0":    "0.9.0",
		"1.0.0 1.0.0 0.9.0":    "1.0.0",
		"1.0.4294967295 1.0.0": "1.0.4294967295",
	} {
		got, err := negotiate(strings.Fields(offer))
		if (err != nil) != (want == bad) || err == nil && got != want {
			t.Errorf("%q: got %q, %v; want %q", offer, got, err, want)
		}
	}
}

func TestDoor(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	token := g.front.token
	for _, c := range []struct {
		name, query, bearer, origin, host string
		upgrade                           bool
		want                              int
	}{
		{name: "plain with a token", query: "?tkn=" + token, want: http.StatusUpgradeRequired},
		{name: "plain without", want: http.StatusUnauthorized},
		{name: "wrong token", query: "?tkn=wrong", upgrade: true, want: http.StatusUnauthorized},
		{name: "no token", upgrade: true, want: http.StatusUnauthorized},
		{name: "header", bearer: token, upgrade: true, want: http.StatusSwitchingProtocols},
		{name: "query", query: "?tkn=" + token, upgrade: true, want: http.StatusSwitchingProtocols},
		{name: "foreign origin", query: "?tkn=" + token, origin: "https://evil.example", upgrade: true, want: http.StatusForbidden},
		{name: "foreign host", query: "?tkn=" + token, host: "evil.example", upgrade: true, want: http.StatusForbidden},
	} {
		r, err := http.NewRequest("GET", g.http.URL+"/"+c.query, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.upgrade {
			r.Header.Set("Connection", "Upgrade")
			r.Header.Set("Upgrade", "websocket")
			r.Header.Set("Sec-WebSocket-Version", "13")
			r.Header.Set("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
		}
		if c.bearer != "" {
			r.Header.Set("Authorization", "Bearer "+c.bearer)
		}
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		if c.host != "" {
			r.Host = c.host
		}
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("%s: got %d, want %d", c.name, resp.StatusCode, c.want)
		}
		if (c.want == 401 || c.want == 426) && resp.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: no Access-Control-Allow-Origin", c.name)
		}
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

func TestHandshake(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := g.dial("c")
	if f := p.request("ping", object{"channel": rootURI}); f["error"] != nil {
		t.Errorf("ping before the handshake: %v", f)
	} else if v, there := f["result"]; !there || v != nil {
		t.Errorf("ping must answer a literal null: %v", f)
	}
	p.fails(-32600, "listSessions", object{"channel": rootURI})
	p.fails(-32600, "subscribe", object{"channel": rootURI})
	p.fails(-32602, "initialize", object{"channel": rootURI, "clientId": "c"})
	p.fails(-32602, "initialize", object{"channel": rootURI, "clientId": 7, "protocolVersions": []string{"1.0.0"}})
	p.fails(-32602, "initialize", object{"channel": rootURI, "clientId": "c", "protocolVersions": []string{"1.0.0", "x"}})
	p.fails(-32008, "reconnect", object{"clientId": "nobody", "lastSeenServerSeq": 3, "subscriptions": []string{rootURI}})
	res := p.call("initialize", object{"channel": rootURI, "clientId": "c", "protocolVersions": []string{"0.9.0", "1.0.0"},
		"initialSubscriptions": []string{rootURI, "demo:/nowhere", rootURI}})
	if res["protocolVersion"] != "1.0.0" || len(res["snapshots"].([]any)) != 1 {
		t.Errorf("initialize: %v", res)
	}
	agent := res["snapshots"].([]any)[0].(object)["state"].(object)["agents"].([]any)[0].(object)
	if agent["provider"] != "demo" || len(agent["models"].([]any)) != 2 {
		t.Errorf("agent is %v", agent)
	}
	for _, r := range agent["protectedResources"].([]any) {
		if r.(object)["required"] != false { // an editor would ask for a sign-in first
			t.Errorf("the agent needs %v", r)
		}
	}
	p.fails(-32600, "initialize", object{"channel": rootURI, "clientId": "c", "protocolVersions": []string{"1.0.0"}})
	p.fails(-32601, "noSuchMethod", object{})
	p.fails(-32601, "resourceRename", object{"channel": rootURI, "uri": "file:///etc/passwd"})
	p.fails(-32602, "listSessions", object{"channel": "demo:/x"})
	p.fails(-32602, "authenticate", object{"channel": rootURI, "resource": "https://x", "token": "t"})

	q := g.dial("old")
	e := q.fails(-32005, "initialize", object{"channel": rootURI, "clientId": "old", "protocolVersions": []string{"0.8.0"}})
	if s := show(e["data"]); s != `{"supportedVersions":["1.0.0","0.10.0","0.9.0"]}` {
		t.Errorf("refusal data is %s", s)
	}
	deadline := time.Now().Add(patience)
	for q.end() == nil {
		if time.Now().After(deadline) {
			t.Fatal("a refused connection stays open")
		}
		time.Sleep(time.Millisecond)
	}
}

// end is how the connection ended, or nil.
func (p *peer) end() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// What is no message of the protocol gets an error, has no effect, and leaves
// the connection up.
func TestHostileMessages(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := g.connect("c")
	chat := p.session(g, sess)
	raw := func(s string) {
		if err := p.ws.WriteMessage(websocket.TextMessage, []byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		text string
		code float64
	}{
		{`{`, -32700},
		{`[]`, -32600},
		{`"x"`, -32600},
		{`{"jsonrpc":"2.0","id":900,"method":7}`, -32600},
		{`{"jsonrpc":"2.0","id":900}`, -32600},
		{`{"jsonrpc":"2.0","id":901,"method":"subscribe","params":[1]}`, -32602},
		{`{"jsonrpc":"2.0","id":902,"method":"subscribe","params":{"channel":{}}}`, -32602},
		{`{"jsonrpc":"2.0","id":903,"method":"subscribe","params":{"channel":"x` + strings.Repeat("y", 3000) + `"}}`, -32602},
		{`{"jsonrpc":"2.0","id":904,"method":"subscribe","params":{"channel":"ahp-terminal:/x"}}`, -32008},
		{`{"jsonrpc":"2.0","id":905,"method":"subscribe","params":{"channel":"demo:/nowhere"}}`, -32001},
		{`{"jsonrpc":"2.0","id":906,"method":"subscribe","params":{"channel":"ahp-chat://default/!!"}}`, -32008},
		{`{"jsonrpc":"2.0","id":907,"method":"subscribe","params":{"a":` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + `}}`, -32600},
	} {
		from := p.mark()
		raw(c.text)
		f, _ := p.wait(from, "an error for "+clip(c.text), func(f object) bool { return f["error"] != nil })
		if f["error"].(object)["code"] != c.code {
			t.Errorf("%s: got %v, want %v", clip(c.text), f["error"], c.code)
		}
	}
	// Notifications are never answered, and change nothing.
	for _, s := range []string{
		`{"jsonrpc":"2.0","method":"dispatchAction"}`,
		`{"jsonrpc":"2.0","method":"dispatchAction","params":{"channel":"` + chat + `","clientSeq":"x","action":{"type":"chat/turnStarted"}}}`,
		`{"jsonrpc":"2.0","method":"dispatchAction","params":{"channel":"` + chat + `","clientSeq":1,"action":[]}}`,
		`{"jsonrpc":"2.0","method":"setClientManagedSettingsPermissions","params":{"permissions":{}}}`,
		`{"jsonrpc":"2.0","id":77,"result":{}}`,
	} {
		raw(s)
	}
	for _, c := range []struct {
		uri, why string
		action   object
	}{
		{"demo:/nowhere", "no such channel", object{"type": "session/titleChanged", "title": "x"}},
		{"demo:/nowhere/annotations", "no such channel", object{"type": "annotations/removed", "annotationId": "x"}},
		{"ahp-chat:/nowhere", "no such channel", object{"type": "chat/turnCancelled", "turnId": "t", "duration": 1}},
		{"ahp-terminal:/nowhere", "no such channel", object{"type": "terminal/cleared"}},
		{chat, "only the host", object{"type": "chat/delta", "turnId": "t", "partId": "p", "content": "x"}},
		{chat, "knows no action", object{"type": "chat/nonsense"}},
		{chat, "does not belong", object{"type": "session/isReadChanged", "isRead": true}},
		{sess, "does not belong", object{"type": "chat/turnCancelled", "turnId": "t", "duration": 1}},
		{chat, "turnId", object{"type": "chat/turnStarted", "startedAt": "2026-01-01T00:00:00Z", "message": object{"text": "x", "origin": object{"kind": "user"}}}},
		{chat, "startedAt", object{"type": "chat/turnStarted", "turnId": "t", "startedAt": "yesterday", "message": object{"text": "x", "origin": object{"kind": "user"}}}},
		{chat, "message.text", object{"type": "chat/turnStarted", "turnId": "t", "startedAt": "2026-01-01T00:00:00Z", "message": object{"text": 7, "origin": object{"kind": "user"}}}},
		{chat, "attachment", object{"type": "chat/turnStarted", "turnId": "t", "startedAt": "2026-01-01T00:00:00Z", "message": object{"text": "x", "origin": object{"kind": "user"},
			"attachments": []any{object{"type": "resource", "label": "x", "uri": "http://x/y"}}}}},
		{chat, "duration", object{"type": "chat/turnCancelled", "turnId": "t"}},
		{chat, "not running", object{"type": "chat/toolCallConfirmed", "turnId": "t", "toolCallId": "c", "approved": true}},
		{chat, "draft.origin", object{"type": "chat/draftChanged", "draft": object{"text": "x"}}},
		{chat, "request", object{"type": "chat/inputCompleted", "requestId": "r", "response": "accept"}},
		{chat, "kind", object{"type": "chat/pendingMessageSet", "kind": "other", "id": "x", "message": object{"text": "x", "origin": object{"kind": "user"}}}},
		{chat, "name the last turn that stays", object{"type": "chat/truncated"}},
		{sess, "blank", object{"type": "session/titleChanged", "title": "  "}},
		{sess, "no setting", object{"type": "session/configChanged", "config": object{"colour": "red"}}},
		{sess, "must name", object{"type": "session/configChanged", "config": object{}, "replace": true}},
		{sess, "no value", object{"type": "session/configChanged", "config": object{"mode": "wild"}}},
		{rootURI, "no such setting", object{"type": "root/configChanged", "config": object{"colour": "red"}}},
	} {
		env := p.echo(p.dispatch(c.uri, c.action))
		reason, _ := env["rejectionReason"].(string)
		if !strings.Contains(reason, c.why) {
			t.Errorf("%v on %s: refused with %q, want something of %q", c.action, c.uri, reason, c.why)
		}
	}
	if turns := p.state(chat)["turns"].([]any); len(turns) != 0 {
		t.Errorf("there are turns: %v", turns)
	}
	p.dispatch(chat, started("t1", "say still here"))
	p.idle(chat, "t1")
}

func TestOversizedAndBrokenFramesCloseTheConnection(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	for name, c := range map[string]struct {
		data []byte
		code int
	}{
		"oversized": {[]byte(`{"jsonrpc":"2.0","method":"` + strings.Repeat("x", handshakeLimit) + `"}`), websocket.CloseMessageTooBig},
		"no UTF-8":  {[]byte("{\"a\":\"\xff\"}"), websocket.CloseInvalidFramePayloadData},
	} {
		p := g.dial(name)
		if err := p.ws.WriteMessage(websocket.TextMessage, c.data); err != nil {
			t.Fatal(err)
		}
		deadline := time.Now().Add(patience)
		for p.end() == nil && time.Now().Before(deadline) {
			time.Sleep(time.Millisecond)
		}
		if !websocket.IsCloseError(p.end(), c.code) {
			t.Errorf("%s: ended with %v, want %d", name, p.end(), c.code)
		}
	}
}

func TestSessionsByName(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := g.connect("c")
	v7 := id.New().String()
	p.call("createSession", object{"channel": "demo:/" + v7})
	p.fails(-32003, "createSession", object{"channel": "demo:/" + v7})
	p.fails(-32002, "createSession", object{"channel": "nobody:/x", "provider": "nobody"})
	p.fails(-32002, "createSession", object{"channel": "nobody:/x"})
	p.fails(-32602, "createSession", object{"channel": "ahp-chat:/x"})
	p.fails(-32602, "createSession", object{"channel": "demo:/bad", "workingDirectories": []string{"https://x"}})
	missing := filepath.Join(g.dir, "missing")
	if e := p.fails(-32602, "createSession", object{"channel": "demo:/bad", "workingDirectories": []string{fileURI(missing)}}); !strings.Contains(e["message"].(string), missing) {
		t.Errorf("the directory is not named: %v", e)
	}
	// A name under another scheme is echoed as it is spelt; the list has the
	// agent's scheme for everybody else.
	q := g.connect("other")
	chat := p.session(g, "ahp-session:/mine")
	if want := "ahp-chat://default/YWhwLXNlc3Npb246L21pbmU"; chat != want {
		t.Errorf("chat is %s, want %s", chat, want)
	}
	p.dispatch(chat, started("t1", "say hi"))
	p.idle(chat, "t1")
	for c, want := range map[*peer]string{p: "ahp-session:/mine", q: "demo:/mine"} {
		f, _ := c.wait(0, "root/sessionAdded", func(f object) bool { return f["method"] == "root/sessionAdded" })
		if got := f["params"].(object)["summary"].(object)["resource"]; got != want {
			t.Errorf("%s is told %v, want %s", c.id, got, want)
		}
		items := c.call("listSessions", object{"channel": rootURI})["items"].([]any)
		if len(items) != 1 || items[0].(object)["resource"] != want {
			t.Errorf("%s lists %v, want %s", c.id, items, want)
		}
	}
	q.subscribe("demo:/mine")
	q.subscribe("ahp-chat://default/ZGVtbzovbWluZQ")
	q.subscribe("ahp-chat:/mine")
	q.agree(g, "ahp-chat://default/ZGVtbzovbWluZQ")
	p.call("disposeSession", object{"channel": "ahp-session:/mine"})
	q.wait(0, "root/sessionRemoved", func(f object) bool { return f["method"] == "root/sessionRemoved" })
	p.fails(-32001, "disposeSession", object{"channel": "ahp-session:/mine"})
	p.fails(-32001, "subscribe", object{"channel": "demo:/mine"})
}

func TestListPages(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := g.connect("c")
	for n := range 5 {
		if _, err := g.host.CreateSession(t.Context(), host.CreateSession{By: event.Actor{Front: "test"}, Title: fmt.Sprint("s", n)}); err != nil {
			t.Fatal(err)
		}
	}
	var titles []string
	params := object{"channel": rootURI, "limit": 2}
	for range 4 {
		res := p.call("listSessions", params)
		for _, s := range res["items"].([]any) {
			titles = append(titles, s.(object)["title"].(string))
		}
		if res["nextCursor"] == nil {
			break
		}
		params["cursor"] = res["nextCursor"]
	}
	if got := strings.Join(titles, " "); got != "s4 s3 s2 s1 s0" {
		t.Errorf("pages give %s", got)
	}
	p.fails(-32602, "listSessions", object{"channel": rootURI, "cursor": "mine"})
	p.fails(-32602, "listSessions", object{"channel": rootURI, "limit": 0})
}

func TestReconnectReplaysWhatWasMissed(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p, q := g.connect("editor"), g.connect("other")
	chat := p.session(g, sess)
	q.subscribe(chat)
	p.dispatch(chat, started("t1", "say one"))
	p.idle(chat, "t1")
	last, states := p.hangUp()
	q.dispatch(chat, started("t2", "say two"))
	q.idle(chat, "t2")

	back := g.dial("editor")
	back.mu.Lock()
	back.states = states
	back.mu.Unlock()
	from := back.mark()
	res := back.call("reconnect", object{"clientId": "editor", "lastSeenServerSeq": last,
		"subscriptions": []string{rootURI, sess, chat, "demo:/gone"}})
	if res["type"] != "replay" || show(res["missing"]) != `["demo:/gone"]` {
		t.Fatalf("reconnect: %s", show(res))
	}
	back.mu.Lock()
	for _, f := range back.frames[from:] {
		if f["method"] == "action" {
			t.Errorf("an action came before or beside the answer: %v", f)
		}
	}
	back.mu.Unlock()
	back.idle(chat, "t2")
	back.dispatch(chat, started("t3", "say three"))
	back.idle(chat, "t3")
	back.agree(g, chat)
	back.agree(g, sess)

	// A number that the journal never had is answered with snapshots.
	third := g.dial("other")
	res = third.call("reconnect", object{"channel": rootURI, "clientId": "other", "lastSeenServerSeq": 1 << 50, "subscriptions": []string{chat}})
	if res["type"] != "snapshot" || len(res["snapshots"].([]any)) != 1 {
		t.Errorf("reconnect: %s", show(res))
	}
}

// After a restart nobody is known, numbers go on above all that were given
// out, and the session is there with its history.
func TestRestart(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := g.connect("editor")
	chat := p.session(g, sess)
	p.dispatch(chat, started("t1", "say one"))
	p.idle(chat, "t1")
	p.echo(p.dispatch(sess, object{"type": "session/activeClientSet", "activeClient": object{"clientId": "editor", "tools": []any{object{"name": "pick"}}}}))
	last := p.seen()
	g.stop()
	g.start()
	// The tools of a client that is gone are nobody's to run.
	w := g.connect("watcher")
	w.subscribe(sess)
	sid, _ := g.front.findSession(sess)
	for deadline := time.Now().Add(patience); ; {
		s, err := g.host.Session(t.Context(), sid)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.State().Tools) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("tools are left: %v", s.State().Tools)
		}
	}
	q := g.dial("editor")
	q.fails(-32008, "reconnect", object{"clientId": "editor", "lastSeenServerSeq": last, "subscriptions": []string{rootURI, chat}})
	res := q.call("initialize", object{"channel": rootURI, "clientId": "editor", "protocolVersions": []string{"1.0.0"},
		"initialSubscriptions": []string{rootURI, sess, chat}})
	if len(res["snapshots"].([]any)) != 3 || res["serverSeq"].(float64) < last {
		t.Errorf("initialize: %s", show(res))
	}
	q.dispatch(chat, started("t2", "say two"))
	q.idle(chat, "t2")
	q.idle(chat, "t1")
	q.agree(g, chat)
}

func TestChatsAndTurns(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := g.connect("c")
	chat := p.session(g, sess)
	side := "ahp-chat://6b3f/ZGVtbzovMzExYjliNjYtNjQyYy00MmFhLWEzMWQtNGNlNjRjYTAyOWY3"
	p.call("createChat", object{"channel": sess, "chat": side, "initialMessage": object{"text": "say aside", "origin": object{"kind": "user"}}})
	p.action(0, sess, "session/chatAdded")
	p.subscribe(side)
	p.until(side, "the first turn", func(s object) bool { return len(s["turns"].([]any)) == 1 })
	p.until(sess, "the chat's name", func(s object) bool { return s["chats"].([]any)[1].(object)["title"] == "say aside" })
	p.fails(-32010, "createChat", object{"channel": sess, "chat": side})
	p.fails(-32602, "createChat", object{"channel": sess, "chat": side + "x", "source": object{"kind": "fork", "chat": chat, "turnId": "t"}})
	p.echo(p.dispatch(side, object{"type": "session/titleChanged", "title": "Aside"}))
	p.echo(p.dispatch(side, object{"type": "chat/isReadChanged", "isRead": true}))
	p.echo(p.dispatch(side, object{"type": "chat/isArchivedChanged", "isArchived": true}))
	for range 2 { // the default chat's is the session's, also when nothing changes
		e := p.echo(p.dispatch(chat, object{"type": "chat/isArchivedChanged", "isArchived": true}))
		if e["channel"] != sess || e["action"].(object)["type"] != "session/isArchivedChanged" {
			t.Errorf("archiving the default chat was answered by %v", e)
		}
	}
	p.agree(g, sess)
	p.agree(g, chat)
	p.agree(g, side)
	p.call("disposeChat", object{"channel": side})
	p.action(0, sess, "session/chatRemoved")
	p.agree(g, sess)
	p.fails(-32602, "disposeChat", object{"channel": chat})

	p.fails(-32602, "fetchTurns", object{"channel": chat, "cursor": "mine"})
	for n := range 4 {
		turn := fmt.Sprint("t", n)
		p.dispatch(chat, started(turn, "say x"))
		p.idle(chat, turn)
	}
	q := g.connect("late")
	s := q.call("subscribe", object{"channel": chat, "view": object{"turns": 1}})["snapshot"].(object)
	st := s["state"].(object)
	if len(st["turns"].([]any)) != 1 || st["turnsNextCursor"] == nil {
		t.Fatalf("snapshot of one turn: %s", show(st))
	}
	q.call("fetchTurns", object{"channel": chat, "cursor": st["turnsNextCursor"]})
	if st := q.state(chat); len(st["turns"].([]any)) != 4 || st["turnsNextCursor"] != nil {
		t.Errorf("after the page: %s", show(st))
	}
}

func TestMarksTitlesDraftsAndConfig(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := g.connect("c")
	chat := p.session(g, sess)
	q := g.connect("other")
	q.subscribe(sess)
	q.subscribe(chat)
	for _, c := range []struct {
		uri    string
		action object
	}{
		{sess, object{"type": "session/titleChanged", "title": "By hand"}},
		{sess, object{"type": "session/isArchivedChanged", "isArchived": true}},
		{sess, object{"type": "session/isArchivedChanged", "isArchived": false}},
		{sess, object{"type": "session/isReadChanged", "isRead": false}},
		{sess, object{"type": "session/isReadChanged", "isRead": true}},
		{sess, object{"type": "session/configChanged", "config": object{"mode": "plan"}}},
		{sess, object{"type": "session/configChanged", "config": object{"model": "demo-large", "agent": "build"}}},
		{sess, object{"type": "session/configChanged", "config": object{"mode": "interactive", "model": "demo-small", "agent": "plan"}, "replace": true}},
		{chat, object{"type": "session/titleChanged", "title": "From the list"}},
		{chat, object{"type": "chat/draftChanged", "draft": object{"text": "hal", "origin": object{"kind": "user"}, "model": object{"id": "demo-large"}}}},
	} {
		for range 2 { // the second time nothing changes, and only the sender hears
			env := p.echo(p.dispatch(c.uri, c.action))
			if env["rejectionReason"] != nil || env["channel"] != c.uri || env["action"].(object)["type"] != c.action["type"] {
				t.Errorf("%v: %v", c.action, env)
			}
		}
	}
	for _, uri := range []string{sess, chat} {
		p.agree(g, uri)
		q.agree(g, uri)
	}
	if st := q.state(sess); st["title"] != "From the list" || st["config"].(object)["values"].(object)["model"] != "demo-small" {
		t.Errorf("session is %s", show(st))
	}
	var titles int
	q.mu.Lock()
	for _, f := range q.frames {
		if strings.Contains(show(f), `"session/titleChanged"`) {
			titles++
		}
	}
	q.mu.Unlock()
	if titles != 3 { // once by hand; from the list on the chat's and the session's channel
		t.Errorf("the other client heard of a title %d times", titles)
	}
	p.echo(p.dispatch(chat, object{"type": "chat/draftChanged"}))
	p.agree(g, chat)
}

func TestConfigAndCompletions(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := g.connect("c")
	if err := os.WriteFile(filepath.Join(g.dir, "README.md"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.session(g, sess)
	res := p.call("resolveSessionConfig", object{"channel": rootURI, "provider": "demo", "config": object{"mode": "plan", "voice": "calm"}})
	if v := res["values"].(object); v["mode"] != "plan" || v["voice"] != "calm" || v["model"] != "demo-small" {
		t.Errorf("values are %v", v)
	}
	if _, ok := res["schema"].(object)["properties"].(object)["mode"]; !ok {
		t.Errorf("schema is %v", res["schema"])
	}
	p.fails(-32002, "resolveSessionConfig", object{"provider": "nobody"})
	items := p.call("sessionConfigCompletions", object{"property": "model", "query": "LARGE"})["items"].([]any)
	if len(items) != 1 || items[0].(object)["value"] != "demo-large" {
		t.Errorf("completions of model are %v", items)
	}
	found := p.call("completions", object{"kind": "userMessage", "channel": sess, "text": "😀 look at @read", "offset": 16})["items"].([]any)
	if len(found) != 1 {
		t.Fatalf("completions are %v", found)
	}
	if it := found[0].(object); it["insertText"] != "@README.md" || it["rangeStart"] != float64(11) || it["rangeEnd"] != float64(16) {
		t.Errorf("completion is %v", it)
	}
	p.fails(-32602, "completions", object{"kind": "userMessage", "channel": sess, "text": "x", "offset": 9})
}

// Editors draw a picker for every setting with a list of values. The models
// have one of their own, which goes with each message.
func TestEditorShowsOneModelPicker(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := g.connect("c")
	res := p.call("resolveSessionConfig", object{"channel": rootURI, "provider": "demo"})
	p.session(g, sess)
	for _, config := range []object{res, p.state(sess)["config"].(object)} {
		model := config["schema"].(object)["properties"].(object)["model"].(object)
		if model["enum"] != nil || model["enumDynamic"] != nil {
			t.Errorf("an editor draws a second picker of models: %v", model)
		}
	}
	if env := p.echo(p.dispatch(sess, object{"type": "session/configChanged", "config": object{"model": "demo-large"}})); env["rejectionReason"] != nil {
		t.Errorf("a model of the agent was refused: %v", env)
	}
	if env := p.echo(p.dispatch(sess, object{"type": "session/configChanged", "config": object{"model": "nobody"}})); env["rejectionReason"] == nil {
		t.Errorf("a model that the agent does not have was taken: %v", env)
	}
}

// A client that dropped keeps its place for a while; then its tools go and the
// sessions it never used with them.
func TestDepartedClient(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p, q := g.connect("editor"), g.connect("other")
	p.session(g, sess)
	p.echo(p.dispatch(sess, object{"type": "session/activeClientSet", "activeClient": object{"clientId": "lie", "tools": []any{}}}))
	q.subscribe(sess)
	if c := q.state(sess)["activeClients"].([]any); len(c) != 1 || c[0].(object)["clientId"] != "editor" {
		t.Errorf("active clients are %v", c)
	}
	// Who watches the session by two names, or twice, leaves it with the last.
	alias := "ahp-session:/" + strings.TrimPrefix(sess, "demo:/")
	p.subscribe(alias)
	p.send(object{"jsonrpc": "2.0", "method": "unsubscribe", "params": object{"channel": alias}})
	p.call("ping", nil)
	p.echo(p.dispatch(sess, object{"type": "session/titleChanged", "title": "after the alias"}))
	if c := p.state(sess)["activeClients"].([]any); len(c) != 1 {
		t.Errorf("it left with one of two names: %v", c)
	}
	p.ws.Close()
	deadline := time.Now().Add(patience)
	for gone := false; !gone; {
		g.front.mu.Lock()
		gone = g.front.clients["editor"].conns == 0
		g.front.mu.Unlock()
		if time.Now().After(deadline) {
			t.Fatal("the connection is not noticed to be gone")
		}
	}
	g.front.sweepAt(time.Now())
	if c := q.state(sess)["activeClients"].([]any); len(c) != 1 {
		t.Errorf("it was taken out at once: %v", c)
	}
	g.front.sweepAt(time.Now().Add(clientGrace + time.Second))
	q.action(0, sess, "session/activeClientRemoved")
	q.fails(-32001, "subscribe", object{"channel": sess})
}

// A client that takes few frames is fed at its own pace and holds nobody up.
func TestSlowClient(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := g.connect("fast")
	chat := p.session(g, sess)
	small := websocket.Dialer{NetDial: func(network, addr string) (net.Conn, error) {
		c, err := net.Dial(network, addr)
		if err == nil {
			err = c.(*net.TCPConn).SetReadBuffer(64 << 10)
		}
		return c, err
	}}
	slow, _, err := small.Dial(g.url(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	var wire strict.Log
	say := func(v any) {
		wire.Sent([]byte(show(v)))
		if err := slow.WriteJSON(v); err != nil {
			t.Fatal(err)
		}
	}
	say(object{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": object{"clientId": "slow", "protocolVersions": []string{"1.0.0"},
		"initialSubscriptions": []string{chat}}})
	var f object
	if err := slow.ReadJSON(&f); err != nil {
		t.Fatal(err)
	}
	text, more := 0, true
	next := func() {
		var raw struct {
			Params struct {
				Action struct {
					Type    string `json:"type"`
					Content string `json:"content"`
					Part    struct {
						Content string `json:"content"`
					} `json:"part"`
				} `json:"action"`
			} `json:"params"`
		}
		_ = slow.SetReadDeadline(time.Now().Add(patience))
		_, data, err := slow.ReadMessage()
		if err == nil {
			err = errors.Join(json.Unmarshal(data, &raw), wire.Received(data))
		}
		if err != nil {
			t.Errorf("after %d bytes: %v", text, err)
			more = false
			return
		}
		text += len(raw.Params.Action.Content) + len(raw.Params.Action.Part.Content)
		more = raw.Params.Action.Type != "chat/turnComplete"
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for more { // one now and then: a client that takes nothing is cut in the end
			select {
			case <-time.After(100 * time.Millisecond):
				next()
			case <-stop:
				return
			}
		}
	}()
	p.send(object{"jsonrpc": "2.0", "method": "unsubscribe", "params": object{"channel": chat}})
	p.dispatch(chat, started("t1", "stream 1300 2000\nthink and\nstream 1300 2000"))
	p.wait(0, "the turn's end", func(f object) bool {
		params, _ := f["params"].(object)
		changes, _ := params["changes"].(object)
		row, _ := params["summary"].(object) // it may be announced when all is over
		return f["method"] == "root/sessionSummaryChanged" && changes["status"] == 1.0 || f["method"] == "root/sessionAdded" && row["status"] == 1.0
	})
	// Now it reads: all is there, in order and without a gap.
	close(stop)
	<-stopped
	for more {
		next()
	}
	if t.Failed() {
		return
	}
	if text != 2600*2000+len("and") {
		t.Errorf("it got %d bytes of text, want %d", text, 2600*2000+len("and"))
	}
}

// TestAClientConnectsUnderAnotherNameWhileItActs has the race detector watch a
// client that acts on one connection and changes its name on others.
func TestAClientConnectsUnderAnotherNameWhileItActs(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	a := g.connect("twin")
	for i := range 20 {
		a.send(object{"jsonrpc": "2.0", "id": 1000 + i, "method": "createSession",
			"params": object{"channel": "demo:/" + id.New().String(), "provider": "demo"}})
	}
	for i := range 5 {
		g.dial("twin").call("initialize", object{"channel": rootURI, "protocolVersions": []string{"1.0.0"}, "clientId": "twin",
			"clientInfo": object{"name": fmt.Sprint("name ", i)}})
	}
	a.wait(0, "the last session", func(f object) bool { return f["id"] == 1019.0 && f["error"] == nil })
}
