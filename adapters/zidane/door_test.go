package zidane

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
)

func TestPlainRequests(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	for _, row := range []struct {
		method, path string
		status       int
		body         string
	}{
		{"GET", "/healthz", 200, "ok"},
		{"GET", "/", 404, "Not Found"},
		{"GET", "/index.html", 404, "Not Found"},
		{"POST", "/healthz", 405, "Method Not Allowed"},
		{"DELETE", "/x", 405, "Method Not Allowed"},
	} {
		req, _ := http.NewRequest(row.method, g.url+row.path, strings.NewReader(""))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != row.status || string(body) != row.body {
			t.Errorf("%s %s: %d %q", row.method, row.path, resp.StatusCode, body)
		}
	}
}

func TestDoorOpensToTheTokenAlone(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	right := g.front.token
	bearer := func(token string) []string { return []string{"Bearer " + token} }
	for _, row := range []struct {
		name    string
		path    string
		header  http.Header
		offer   []string
		status  int
		body    string
		refusal string
	}{
		{name: "no token", status: 401, body: "Unauthorized", refusal: "token"},
		{name: "wrong header", header: http.Header{"Authorization": bearer("wrong")}, status: 401, body: "Unauthorized", refusal: "token"},
		{name: "wrong subprotocol", offer: []string{"zidane", "zidane.bearer.wrong"}, status: 401, body: "Unauthorized", refusal: "token"},
		{name: "wrong header wins", header: http.Header{"Authorization": bearer("wrong")}, offer: []string{"zidane", "zidane.bearer." + right}, status: 401, body: "Unauthorized", refusal: "token"},
		{name: "another scheme", header: http.Header{"Authorization": {"Basic " + right}}, status: 401, body: "Unauthorized", refusal: "token"},
		{name: "query is no place for it", path: "/?token=" + right, status: 401, body: "Unauthorized", refusal: "token"},
		{name: "foreign origin", header: http.Header{"Authorization": bearer(right), "Origin": {"https://evil.example"}}, status: 403, body: "Forbidden: origin not allowed", refusal: "origin"},
		{name: "foreign origin, no token", header: http.Header{"Origin": {"https://evil.example"}}, status: 403, body: "Forbidden: origin not allowed", refusal: "origin"},
		{name: "foreign host", header: http.Header{"Authorization": bearer(right), "Host": {"evil.example"}}, status: 403, body: "Forbidden: host not allowed", refusal: "host"},
		{name: "header", header: http.Header{"Authorization": bearer(right)}, status: 101},
		{name: "header of any case", header: http.Header{"Authorization": {"bearer " + right}}, status: 101},
		{name: "subprotocol", offer: []string{"zidane", "zidane.bearer." + right}, status: 101},
		{name: "own origin", header: http.Header{"Authorization": bearer(right), "Origin": {g.url}}, status: 101},
		{name: "any path", path: "/any/thing", header: http.Header{"Authorization": bearer(right)}, status: 101},
		{name: "even the health path", path: "/healthz", header: http.Header{"Authorization": bearer(right)}, status: 101},
	} {
		d := websocket.Dialer{Subprotocols: row.offer}
		path := row.path
		if path == "" {
			path = "/"
		}
		ws, resp, err := d.Dial("ws"+strings.TrimPrefix(g.url, "http")+path, row.header)
		if err == nil {
			if chosen := ws.Subprotocol(); len(row.offer) > 0 && chosen != "zidane" {
				t.Errorf("%s: subprotocol %q was chosen", row.name, chosen)
			}
			ws.Close()
		}
		if resp == nil || resp.StatusCode != row.status {
			t.Errorf("%s: %v, %v", row.name, resp, err)
			continue
		}
		if row.status == 101 {
			continue
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(body) != row.body || resp.Header.Get(refusalHeader) != row.refusal {
			t.Errorf("%s: %q, refusal %q", row.name, body, resp.Header.Get(refusalHeader))
		}
		if strings.Contains(string(body), right) {
			t.Errorf("%s: the answer has the token", row.name)
		}
	}
}

func TestBeforeTheHandshakeOnlyItsMethodsAreAnswered(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.dial()
	for _, method := range []string{"sessions.list", "no.such", "machine.register"} {
		if m := c.fails(codeHandshakeRequired, method, "{}"); m != "Handshake required: send ipc.hello first." {
			t.Errorf("%s: %q", method, m)
		}
	}
	if r := c.call("$/ping", "{}"); string(r.Result) != "{}" {
		t.Errorf("ping: %s", r.Result)
	}
	if info := c.ok("daemon.info", "{}"); info["hostKind"] != "server" || info["hostId"] != g.front.hostID {
		t.Errorf("info: %v", info)
	}
	if r := c.call("daemon.shutdown", "{}"); string(r.Result) != `{"ok":false}` {
		t.Errorf("shutdown: %s", r.Result)
	}
	// What happens meanwhile is not pushed to a connection without a handshake.
	g.connect().newSession()
	if r := c.call("$/ping", "{}"); string(r.Result) != "{}" || len(c.pushed) > 0 {
		t.Errorf("got signals %v", c.pushed)
	}
}

func TestVersionsAreNegotiated(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	for _, row := range []struct {
		params  string
		want    int // the version, or the error code
		upgrade string
	}{
		{`{"protocolVersion":16}`, 16, ""},
		{`{"protocolVersion":15}`, 15, ""},
		{`{"protocolVersion":15,"minProtocolVersion":14}`, 15, ""},
		{`{"protocolVersion":20,"minProtocolVersion":13}`, 16, ""},
		{`{"protocolVersion":16,"minProtocolVersion":null}`, 16, ""},
		{`{"protocolVersion":18,"minProtocolVersion":17}`, codeVersionMismatch, "Upgrade the server."},
		{`{"protocolVersion":17}`, codeVersionMismatch, "Upgrade the server."},
		{`{"protocolVersion":12}`, codeVersionMismatch, "Upgrade the client."},
		{`{"protocolVersion":14,"minProtocolVersion":1}`, codeVersionMismatch, "Upgrade the client."},
		{`{"protocolVersion":15,"minProtocolVersion":16}`, -32602, ""},
		{`{}`, -32602, ""},
		{`{"protocolVersion":"16"}`, -32602, ""},
		{`{"protocolVersion":16.5}`, -32602, ""},
		{`[]`, -32602, ""},
	} {
		c := g.dial()
		r := c.call("ipc.hello", row.params)
		if row.want > 0 {
			if r.Error != nil {
				t.Errorf("%s: %+v", row.params, r.Error)
			} else if want := fmt.Sprintf(`"negotiatedProtocolVersion":%d,`, row.want); !strings.Contains(string(r.Result), want) {
				t.Errorf("%s: %s", row.params, r.Result)
			}
			continue
		}
		if r.Error == nil || r.Error.Code != row.want || !strings.HasSuffix(r.Error.Message, row.upgrade) {
			t.Errorf("%s: %s %+v", row.params, r.Result, r.Error)
			continue
		}
		if row.want == codeVersionMismatch && !strings.Contains(string(r.Error.Data), `{"daemon":{"protocolVersion":16,`) {
			t.Errorf("%s: data %s", row.params, r.Error.Data)
		}
		// The connection lives and may say it again.
		c.ok("ipc.hello", `{"protocolVersion":16}`)
	}
	c := g.dial()
	want := "Protocol version mismatch: the server speaks v16, the client v12. Upgrade the client."
	if m := c.fails(codeVersionMismatch, "ipc.hello", `{"protocolVersion":12,"appVersion":"t"}`); m != want {
		t.Errorf("message %q", m)
	}
}

func TestHostStaysTheSameAndTheEpochDoesNot(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	first := g.connect()
	session := first.newSession()
	g.stop()
	g.start()
	second := g.connect()
	if first.hello["hostId"] != second.hello["hostId"] {
		t.Errorf("host was %v, is %v", first.hello["hostId"], second.hello["hostId"])
	}
	if first.hello["signalEpoch"] == second.hello["signalEpoch"] {
		t.Error("the epoch survived")
	}
	for _, name := range []string{"protocolVersion", "minProtocolVersion", "appVersion", "pid", "startedAt", "buildId", "codeVersion", "hostName", "methods"} {
		if second.hello[name] == nil {
			t.Errorf("hello has no %s", name)
		}
	}
	r := second.ok("sessions.resume", fmt.Sprintf(`{"sessionId":%q,"epoch":%q,"afterSeq":0}`, session, first.hello["signalEpoch"]))
	if r["ok"] != false || r["reason"] != "epoch" {
		t.Errorf("resume in the old epoch: %v", r)
	}
	if r := second.ok("sessions.resume", fmt.Sprintf(`{"sessionId":%q,"epoch":%q,"afterSeq":0}`, session, second.hello["signalEpoch"])); r["ok"] != true {
		t.Errorf("resume of a session without signals: %v", r)
	}
}

func TestHelloAgainChangesNothing(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.connect()
	if again := c.ok("ipc.hello", `{"protocolVersion":15}`); again["signalEpoch"] != c.hello["signalEpoch"] {
		t.Errorf("epoch %v", again["signalEpoch"])
	}
	session := c.newSession()
	got := c.send(session, "say once")
	for i, s := range got {
		if s.seq() != i+1 {
			t.Fatalf("signal %d is numbered %d", i+1, s.seq())
		}
	}
}

func TestListedMethodsAreCallableAndOthersAreNot(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.connect()
	listed := c.hello["methods"].([]any)
	for _, m := range listed {
		if r := c.call(m.(string), "{}"); r.Error != nil && (r.Error.Code == -32601 || r.Error.Code == codeForbidden || r.Error.Code == codeMachineConnection) {
			t.Errorf("%s is listed and answers %d %s", m, r.Error.Code, r.Error.Message)
		}
	}
	if slices.Contains(listed, any("machine.register")) {
		t.Error("a machine method is listed")
	}
	if m := c.fails(-32601, "sessions.nope", "{}"); m != `Unknown method "sessions.nope".` {
		t.Errorf("%q", m)
	}
	want := `"machine.register" needs a machine connection (a machine-scoped token); this is a client connection.`
	if m := c.fails(codeMachineConnection, "machine.register", `{"name":"m"}`); m != want {
		t.Errorf("%q", m)
	}
}
