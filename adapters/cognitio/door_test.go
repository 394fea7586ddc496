package cognitio

import (
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestTheDoorLetsInOnlyWithThePassword(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	token := func(s string) string { return "?auth_token=" + base64.StdEncoding.EncodeToString([]byte(s)) }
	basic := func(user, pass string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+pass))
	}
	for _, c := range []struct {
		name, path, auth string
		status           int
	}{
		{"own name", "/global/health", basic("cognitio", g.f.password), 200},
		{"the family's name", "/global/health", basic("opencode", g.f.password), 200},
		{"another name", "/global/health", basic("root", g.f.password), 401},
		{"wrong password", "/global/health", basic("cognitio", g.f.password+"x"), 401},
		{"no password", "/global/health", basic("cognitio", ""), 401},
		{"nothing", "/global/health", "", 401},
		{"bearer", "/global/health", "Bearer " + g.f.password, 401},
		{"in the query", "/global/health" + token("opencode:"+g.f.password), "", 200},
		{"wrong in the query", "/global/health" + token("opencode:no"), "", 401},
		{"not base64 in the query", "/global/health?auth_token=%%%", "", 401},
		{"streams too", "/event", "", 401},
		{"unknown paths too", "/nothing", "", 401},
	} {
		req, err := http.NewRequest("GET", g.url+c.path, nil)
		if err != nil {
			if c.name == "not base64 in the query" {
				req, err = http.NewRequest("GET", g.url+"/global/health?auth_token=!!", nil)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if c.auth != "" {
			req.Header.Set("Authorization", c.auth)
		}
		res, err := g.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		raw, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != c.status || res.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %s", c.name, res.StatusCode, raw)
		}
		if strings.Contains(string(raw), g.f.password) {
			t.Errorf("%s: the answer holds the password", c.name)
		}
	}
}

func TestForeignHostsAndPagesAreTurnedAway(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	for _, c := range []struct {
		name, header, value string
		status              int
	}{
		{"rebound name", "Host", "evil.example", 403},
		{"foreign page", "Origin", "https://evil.example", 403},
		{"no page", "Origin", "null", 403},
		{"local page", "Origin", "http://localhost:5173", 200},
		{"local page by address", "Origin", "http://127.0.0.1:9", 200},
		{"looks local", "Origin", "http://localhost.evil.example", 403},
	} {
		res := g.request("POST", "/session", nil, c.header, c.value)
		if res.StatusCode != c.status {
			t.Errorf("%s: %d", c.name, res.StatusCode)
		}
		if allowed := res.Header.Get("Access-Control-Allow-Origin"); c.header == "Origin" && (allowed != "") != (c.status == 200) {
			t.Errorf("%s: allows %q", c.name, allowed)
		}
	}
	if got := len(g.must("GET", "/session", nil).([]any)); got != 2 {
		t.Errorf("%d sessions were made", got)
	}
	req, _ := http.NewRequest("OPTIONS", g.url+"/session", nil)
	req.Header.Set("Origin", "http://localhost:5173")
	req.Header.Set("Access-Control-Request-Headers", "authorization, content-type")
	res, err := g.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != 204 || res.Header.Get("Access-Control-Allow-Headers") != "authorization, content-type" {
		t.Errorf("preflight: %d %v", res.StatusCode, res.Header)
	}
}

func TestBadInputIsRefusedByName(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	ses := g.session()
	before := len(g.must("GET", "/session", nil).([]any))
	deep := `{"parts":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}`
	for _, c := range []struct {
		name, method, path string
		body               any
		status             int
		says               string
	}{
		{"no parts", "POST", "/session/" + ses + "/message", map[string]any{"nonsense": true}, 400, "parts"},
		{"parts of the wrong kind", "POST", "/session/" + ses + "/prompt_async", map[string]any{"parts": "x"}, 400, "parts: want array"},
		{"empty parts", "POST", "/session/" + ses + "/prompt_async", map[string]any{"parts": []any{}}, 400, "parts"},
		{"unknown part", "POST", "/session/" + ses + "/prompt_async", map[string]any{"parts": []any{map[string]any{"type": "smoke"}}}, 400, "parts[0].type"},
		{"text of the wrong kind", "POST", "/session/" + ses + "/prompt_async", `{"parts":[{"type":"text","text":5}]}`, 400, "parts[0].text"},
		{"bad message id", "POST", "/session/" + ses + "/prompt_async", `{"messageID":"usr_1","parts":[{"type":"text","text":"x"}]}`, 400, "messageID"},
		{"broken JSON", "POST", "/session", "{broken", 400, "JSON"},
		{"not an object", "POST", "/session", `"text"`, 400, "object"},
		{"not UTF-8", "POST", "/session", "{\"title\":\"\xff\"}", 400, "UTF-8"},
		{"too deep", "POST", "/session/" + ses + "/prompt_async", deep, 400, "deep"},
		{"title of the wrong kind", "POST", "/session", `{"title":[]}`, 400, "title"},
		{"unknown action", "POST", "/session", `{"permission":[{"permission":"*","pattern":"*","action":"maybe"}]}`, 400, "permission[0].action"},
		{"unknown mode", "POST", "/session", `{"runtimeConfig":{"permissionMode":"wild"}}`, 400, "permissionMode"},
		{"unknown provider", "POST", "/session", `{"model":{"providerID":"nope","id":"x"}}`, 400, "nope"},
		{"other provider", "POST", "/session/" + ses + "/prompt_async", `{"model":{"providerID":"nope","modelID":"x"},"parts":[{"type":"text","text":"x"}]}`, 400, "model.providerID"},
		{"missing directory", "POST", "/session?directory=/nonexistent/dir", nil, 400, "/nonexistent/dir"},
		{"session id of another kind", "GET", "/session/notanid", nil, 400, "sessionID"},
		{"unknown session", "GET", "/session/ses_doesnotexist", nil, 404, "ses_doesnotexist"},
		{"unknown session's messages", "GET", "/session/ses_doesnotexist/message", nil, 404, "ses_doesnotexist"},
		{"prompt to nobody", "POST", "/session/ses_doesnotexist/message", say("x"), 404, "ses_doesnotexist"},
		{"async prompt to nobody", "POST", "/session/ses_doesnotexist/prompt_async", say("x"), 404, "ses_doesnotexist"},
		{"delete nothing", "DELETE", "/session/ses_doesnotexist", nil, 404, "ses_doesnotexist"},
		{"unknown message", "GET", "/session/" + ses + "/message/msg_none", nil, 404, "msg_none"},
		{"unknown permission", "POST", "/permission/per_doesnotexist/reply", `{"reply":"once"}`, 404, "per_doesnotexist"},
		{"permission id of another kind", "POST", "/permission/bad/reply", `{"reply":"once"}`, 400, "requestID"},
		{"unknown reply", "POST", "/permission/per_doesnotexist/reply", `{"reply":"maybe"}`, 400, "reply"},
		{"no reply", "POST", "/permission/per_doesnotexist/reply", `{}`, 400, "reply"},
		{"unknown question", "POST", "/question/que_doesnotexist/reply", `{"answers":[]}`, 404, "que_doesnotexist"},
		{"older form, unknown", "POST", "/session/" + ses + "/permissions/per_x", `{"response":"once"}`, 404, "per_x"},
		{"cursor of nobody", "GET", "/session/" + ses + "/message?before=x", nil, 400, "before"},
		{"limit of letters", "GET", "/session/" + ses + "/message?limit=x", nil, 400, "limit"},
		{"file outside", "POST", "/session/" + ses + "/prompt_async", `{"parts":[{"type":"file","mime":"text/plain","url":"file:///etc/passwd"}]}`, 400, "parts[0].url"},
		{"file by http", "POST", "/session/" + ses + "/prompt_async", `{"parts":[{"type":"file","mime":"text/plain","url":"http://x/"}]}`, 400, "parts[0].url"},
		{"broken data URL", "POST", "/session/" + ses + "/prompt_async", `{"parts":[{"type":"file","mime":"text/plain","url":"data:text/plain;base64,@@"}]}`, 400, "parts[0].url"},
		{"silent prompt", "POST", "/session/" + ses + "/message", `{"noReply":true,"parts":[{"type":"text","text":"x"}]}`, 501, "noReply"},
		{"unknown command", "POST", "/session/" + ses + "/command", `{"command":"nope","arguments":""}`, 400, "command"},
		{"toast of no kind", "POST", "/tui/show-toast", `{"message":"x","variant":"loud"}`, 400, "variant"},
		{"event of another kind", "POST", "/tui/publish", `{"type":"session.idle","properties":{}}`, 400, "type"},
	} {
		status, answer := g.do(c.method, c.path, c.body)
		m, _ := answer.(map[string]any)
		data, _ := m["data"].(map[string]any)
		message, _ := data["message"].(string)
		if status != c.status || !strings.Contains(message, c.says) {
			t.Errorf("%s: %d %v", c.name, status, answer)
			continue
		}
		if status == 400 {
			if err := protocol(t).check("BadRequestError", answer); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}
		if status == 404 {
			if err := protocol(t).check("NotFoundError", answer); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	}
	if after := len(g.must("GET", "/session", nil).([]any)); after != before {
		t.Errorf("%d sessions, before %d", after, before)
	}
	if list := g.must("GET", "/session/"+ses+"/message", nil).([]any); len(list) != 0 {
		t.Errorf("messages were stored: %v", list)
	}
}

func TestABodyThatNeverEndsHoldsNothing(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.f.bodyWithin = 100 * time.Millisecond
	ses := g.session()
	for _, path := range []string{"/session", "/session/" + ses + "/message"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		auth := base64.StdEncoding.EncodeToString([]byte("cognitio:" + g.f.password))
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Basic %s\r\nContent-Length: 100\r\n\r\n{", path, conn.RemoteAddr(), auth)
		conn.SetReadDeadline(time.Now().Add(patience))
		answer, err := io.ReadAll(conn)
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 400") {
			t.Errorf("%s: %q, %v", path, answer, err)
		}
	}
}

func TestAnOversizedBodyIsRefusedBeforeItIsRead(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	ses := g.session()
	for _, path := range []string{"/session", "/session/" + ses + "/message"} {
		status, answer := g.do("POST", path, `{"x":"`+strings.Repeat("a", maxBody)+`"}`)
		if status != 413 {
			t.Errorf("%s: %d %v", path, status, answer)
		}
	}
}
