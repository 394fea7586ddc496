package snowpea

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
)

func TestNothingBeforeHello(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.dial()
	c.refused("session.list", object(), "unauthorized")
	c.refused("no.such.method", object(), "unauthorized")
	c.sendRaw(`{"jsonrpc":"2.0","method":"session.list"}`) // a notification: not a word
	good := func(change ...any) map[string]any {
		p := object("token", g.token(), "clientVersion", "1", "protocolVersion", "1.0.0")
		for k, v := range object(change...) {
			p[k] = v
		}
		return p
	}
	for _, bad := range []string{"2.0.0", "0.9.0", "", "v1"} {
		c.refused("system.hello", good("protocolVersion", bad, "token", "x"), "protocol_incompatible")
	}
	c.refused("system.hello", good("token", "x"), "unauthorized")
	e := c.refused("system.hello", object("token", g.token(), "protocolVersion", "1.0.0"), "invalid_params")
	var details []violation
	if err := json.Unmarshal(e.Data.Details, &details); err != nil || len(details) != 1 || details[0].Loc[0] != "clientVersion" || details[0].Type != "missing" {
		t.Errorf("details are %s", e.Data.Details)
	}
	r := c.call("system.hello", good("protocolVersion", "1.99.0"))
	if r["protocolVersion"] != "1.25.0" || r["serverVersion"] != "0.0.1-test" {
		t.Errorf("hello answers %v", r)
	}
	var caps []string
	for _, x := range r["capabilities"].([]any) {
		if !slices.Contains(surface.Capabilities, x.(string)) || slices.Contains(caps, x.(string)) {
			t.Errorf("capability %v", x)
		}
		caps = append(caps, x.(string))
	}
	c.call("system.hello", good("protocolVersion", "1"))
	c.refused("no.such.method", object(), "method_not_found")
	c.refused("approval.request", object(), "method_not_found") // the other direction
	c.refused("session.close", object("sessionId", "nope"), "not_found")
	c.refused("mcp.list", object(), "not_implemented")
}

func TestBadMessages(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.hello()
	deep := strings.Repeat("[", 1000) + strings.Repeat("]", 1000)
	for i, tt := range []struct {
		send string
		id   string
		code int
		word string
	}{
		{`{`, "null", -32700, ""},
		{`hello`, "null", -32700, ""},
		{`[{"jsonrpc":"2.0","id":7,"method":"system.shutdown"}]`, "null", -32600, ""},
		{`[]`, "null", -32600, ""},
		{`"text"`, "null", -32600, ""},
		{`{"id":1000,"method":5}`, "1000", -32602, "invalid_params"},
		{`{"id":1001,"method":"system.health","params":[1]}`, "1001", -32602, "invalid_params"},
		{`{"id":1002,"method":"system.health","params":3}`, "1002", -32602, "invalid_params"},
		{`{"id":1003,"method":"session.close","params":{"sessionId":5}}`, "1003", -32602, "invalid_params"},
		{`{"id":1004,"method":"session.setMode","params":{"sessionId":"x","mode":"yolo"}}`, "1004", -32602, "invalid_params"},
		{`{"id":1005,"method":"session.resume","params":{"sessionId":"x","afterSeq":1.5}}`, "1005", -32602, "invalid_params"},
		{`{"id":1006,"method":"session.resume","params":{"sessionId":"x","afterSeq":"1"}}`, "1006", -32602, "invalid_params"},
		{`{"id":"a","method":"session.rename","params":{"sessionId":"x"}}`, `"a"`, -32602, "invalid_params"},
		{`{"id":1007,"method":"settings.set","params":{"patch":` + deep + `}}`, "null", -32600, ""},
	} {
		c.mu.Lock()
		before := len(c.got)
		c.mu.Unlock()
		c.sendRaw(tt.send)
		var m message
		c.wait("the answer to "+tt.send, func() bool {
			if len(c.got) > before {
				m = c.got[before]
				return true
			}
			return false
		})
		id := string(m.ID)
		if id == "" {
			id = "null"
		}
		if m.Error == nil || m.Error.Code != tt.code || m.Error.word() != tt.word || id != tt.id || tt.word == "" && m.Error.Data != nil {
			t.Errorf("%d: %.80s: id %s, error %+v", i, tt.send, id, m.Error)
		}
	}
	for _, quiet := range []string{
		`{}`, `{"id":99}`, `{"id":"s77","result":{}}`, `{"id":5,"error":{"code":1,"message":"x"}}`,
		`{"method":"no.such"}`, `{"method":"session.close","params":{"sessionId":"x"},"id":null}`,
	} {
		c.sendRaw(quiet)
	}
	c.mu.Lock()
	before := len(c.got)
	c.mu.Unlock()
	c.sendRaw(`{"id":"last","method":"system.health","params":null,"extra":1}`)
	var m message
	c.wait("the answer after quiet ones", func() bool {
		if len(c.got) > before {
			m = c.got[before]
		}
		return len(c.got) > before
	})
	if string(m.ID) != `"last"` || string(m.Result) != `{"status":"ok"}` {
		t.Errorf("something was said to what needs no answer: %+v", m)
	}
	select {
	case <-g.asked:
		t.Error("a batch ran")
	default:
	}
}

func TestOversizedMessageClosesWith1009(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.dial()
	c.sendRaw(`{"id":1,"method":"` + strings.Repeat("x", handshakeLimit) + `"}`)
	c.wait("the close", func() bool { return c.closed != nil })
	if !websocket.IsCloseError(c.closed, websocket.CloseMessageTooBig) {
		t.Errorf("closed with %v", c.closed)
	}
	big := g.hello()
	s := big.session(g.dir)
	events := big.turnOf(s, big.prompt(s, "say "+strings.Repeat("x", 2*handshakeLimit)))
	if n := len(find(t, events, "message.user").text("text")); n != 2*handshakeLimit+4 {
		t.Errorf("a long prompt has %d bytes", n)
	}
	if _, _, err := readAttachments([]string{g.dir}, []attachment{{Name: ptr("big"), Data: ptr(strings.Repeat("QUJD", attachmentLimit/3+1))}}); err == nil {
		t.Error("an attachment over the limit was taken")
	}
}

func TestDoor(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	get := func(path string, change func(*http.Request)) (int, string) {
		r, err := http.NewRequest("GET", g.http.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(r)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b)
	}
	defer http.DefaultClient.CloseIdleConnections()
	if code, body := get("/health", nil); code != 200 || body != `{"status":"ok"}` {
		t.Errorf("health: %d %s", code, body)
	}
	if code, body := get("/version", nil); code != 200 || body != `{"version":"0.0.1-test","protocolVersion":"1.25.0"}` {
		t.Errorf("version: %d %s", code, body)
	}
	if code, _ := get("/health", func(r *http.Request) { r.Host = "evil.example" }); code != 403 {
		t.Errorf("a foreign host got %d", code)
	}
	if code, _ := get("/ws", func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }); code != 403 {
		t.Errorf("a foreign origin got %d", code)
	}
	if code, _ := get("/elsewhere", nil); code != 404 {
		t.Errorf("an unknown path got %d", code)
	}
	if code, _ := get("/health", func(r *http.Request) { r.Method = "POST" }); code != 405 {
		t.Errorf("another verb got %d", code)
	}

	_, body := get("/protocol.json", nil)
	var doc struct {
		Version    string `json:"version"`
		Methods    map[string]methodData
		Events     map[string]json.RawMessage
		Kinds      map[string]json.RawMessage `json:"sessionEventKinds"`
		ErrorCodes []string                   `json:"errorCodes"`
	}
	if err := json.Unmarshal([]byte(body), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Version != "1.25.0" || len(doc.Methods) != 125 || len(doc.Events) != 16 || len(doc.Kinds) != 36 || len(doc.ErrorCodes) != 23 {
		t.Errorf("protocol.json: %s, %d methods, %d events, %d kinds, %d codes", doc.Version, len(doc.Methods), len(doc.Events), len(doc.Kinds), len(doc.ErrorCodes))
	}
	for name, m := range doc.Methods {
		if len(m.Params) == 0 || len(m.Result) == 0 || m.Direction != "c2s" && m.Direction != "s2c" {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

func TestDaemonFileNamesThisProcess(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	b, err := os.ReadFile(daemonPath(g.home))
	if err != nil {
		t.Fatal(err)
	}
	var d daemonFile
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	if d.PID != os.Getpid() || d.Token != g.token() || d.ProtocolVersion != "1.25.0" || !strings.HasSuffix(d.StartedAt, "Z") {
		t.Errorf("daemon.json is %+v", d)
	}
	for _, path := range []string{daemonPath(g.home), tokenPath(g.home)} {
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", path, st.Mode(), err)
		}
	}
	g.down()
	if _, err := os.Stat(daemonPath(g.home)); !os.IsNotExist(err) {
		t.Errorf("daemon.json is still there: %v", err)
	}
}

func TestShutdownAnswersFirst(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.hello("keepAlive", true)
	if info := c.call("system.info", object()); info["counters"].(map[string]any)["keepalive_clients"] != 1.0 || info["home"] != g.home {
		t.Errorf("info is %v", info)
	}
	c.call("system.shutdown", object())
	<-g.asked
	g.down()
	c.wait("the close", func() bool { return c.closed != nil })
	if !websocket.IsCloseError(c.closed, websocket.CloseGoingAway) {
		t.Errorf("closed with %v", c.closed)
	}
}

// Every method of the surface has a summary, and nothing else has; what is
// served is part of the surface.
func TestTablesMatchTheSurface(t *testing.T) {
	t.Parallel()
	for name, m := range surface.Methods {
		if summaries[name] == "" {
			t.Errorf("%s has no summary", name)
		}
		if m.Direction == "s2c" && handlers[name] != nil {
			t.Errorf("%s goes to the client", name)
		}
	}
	if len(summaries) != len(surface.Methods) {
		t.Errorf("%d summaries for %d methods", len(summaries), len(surface.Methods))
	}
	for name := range handlers {
		if _, ok := surface.Methods[name]; !ok {
			t.Errorf("%s is no method of the protocol", name)
		}
	}
}
