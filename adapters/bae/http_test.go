package bae

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestUtilityRoutesNeedNoKey(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	h := g.do("GET", g.url+"/healthz", "", nil)
	want(t, "healthz", []any{h.status, len(h.body)}, "[200 0]")
	m := g.do("GET", g.url+"/api/v1/meta", "", nil)
	want(t, "meta", string(m.body), `{"version":"1.2.3","api_versions":["v1"]}`)
}

func TestTheKindOfAKeyIsLookedUp(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	c := g.open(nil)
	other := g.open(nil)
	zero := "ses_" + strings.Repeat("0", 32)
	for _, r := range []struct {
		method, url, key string
		status           int
	}{
		{"POST", g.url + "/api/v1/sessions", "", 401},
		{"POST", g.url + "/api/v1/sessions", "bae_" + strings.Repeat("0", 48), 401},
		{"POST", g.url + "/api/v1/sessions", c.key, 401},
		{"POST", g.url + "/api/v1/sessions", g.f.defaults.Admin, 401},
		{"GET", c.path("/events"), g.f.defaults.Client, 401},
		{"GET", c.path("/events"), other.key, 401},
		{"POST", c.path("/rpc"), other.key, 401},
		{"DELETE", c.path(""), other.key, 401},
		{"GET", g.url + "/api/v1/sessions/" + zero + "/participants", c.key, 401},
		{"GET", g.url + "/api/v1/sessions/ses_x/participants", c.key, 401},
		{"POST", g.url + "/api/v1/sessions/" + zero + "/join", g.f.defaults.Client, 404},
		{"POST", g.url + "/api/v1/sessions/x/join", g.f.defaults.Client, 404},
		{"GET", c.path(""), c.key, 405},
		{"GET", g.url + "/admin/v1/profiles", g.f.defaults.Admin, 404},
		{"GET", g.admin + "/api/v1/meta", "", 404},
		{"GET", g.admin + "/admin/v1/profiles", g.f.defaults.Client, 401},
		{"GET", g.admin + "/admin/v1/profiles", "", 401},
	} {
		a := g.do(r.method, r.url, r.key, nil)
		if a.status != r.status || a.header.Get("Content-Type") != "application/json" || a.json(t)["status"] != float64(r.status) {
			t.Errorf("%s %s: %d %s, want %d", r.method, r.url, a.status, a.body, r.status)
		}
	}
	if !regexp.MustCompile(`^bae_ses_[0-9a-f]{48}$`).MatchString(c.key) || !regexp.MustCompile(`^ses_[0-9a-f]{32}$`).MatchString(c.ses) ||
		!regexp.MustCompile(`^bae_[0-9a-f]{48}$`).MatchString(g.f.defaults.Client) || !regexp.MustCompile(`^bae_admin_[0-9a-f]{48}$`).MatchString(g.f.defaults.Admin) {
		t.Errorf("spelling: %s %s %s %s", c.key, c.ses, g.f.defaults.Client, g.f.defaults.Admin)
	}
}

func TestTheSchemeIsBearerWithOneSpace(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	for header, status := range map[string]int{"Bearer ": 201, "bearer ": 201, "BEARER ": 401, "Bearer  ": 401, "Basic ": 401, "": 401} {
		req, _ := http.NewRequest("POST", g.url+"/api/v1/sessions", nil)
		req.Header.Set("Authorization", header+g.f.defaults.Client)
		req.Header.Set("traceparent", "nonsense")
		res, err := g.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		want(t, header, res.StatusCode, status)
	}
}

func TestStrangersAtTheDoor(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	for _, set := range []func(*http.Request){
		func(r *http.Request) { r.Host = "evil.example" },
		func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
	} {
		for _, url := range []string{g.url + "/api/v1/meta", g.admin + "/admin/v1/keys"} {
			req, _ := http.NewRequest("GET", url, nil)
			set(req)
			res, err := g.http.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			want(t, url, res.StatusCode, 403)
			want(t, "no CORS", res.Header.Get("Access-Control-Allow-Origin"), "")
		}
	}
}

func TestOpenChecksItsBodyInOrder(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	p := g.do("POST", g.admin+"/admin/v1/profiles", g.f.defaults.Admin, obj{"name": "strict", "primary_provider": "demo", "allowed_tools": []string{"ok"}}).json(t)["id"].(string)
	k := g.do("POST", g.admin+"/admin/v1/keys", g.f.defaults.Admin, obj{"name": "k", "profile_id": p}).json(t)["key"].(string)
	sub := func(change obj) any {
		s := obj{"harness": "h", "command_template": "run {model}"}
		d := obj{"name": "launch", "image": "i", "subagents": []obj{s}}
		for k, v := range change {
			if _, inner := s[k]; inner || k == "prompt_via" || k == "timeout_secs" {
				s[k] = v
			} else {
				d[k] = v
			}
		}
		return obj{"subagent_tools": []obj{d}}
	}
	for _, c := range []struct {
		body any
		kind string
	}{
		{`{`, "bad_request"}, {`[]`, "bad_request"}, {`{"tools":{}}`, "bad_request"}, {`{"tools":[{}]}`, "bad_request"},
		{`{"tools":[{"name":"ok","input_schema":1}]}`, "bad_request"}, {`{"client_version":1}`, "bad_request"},
		{strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200), "bad_request"}, {"{\"x\":\"\xff\"}", "bad_request"},
		{obj{"tools": tool("no")}, "tool_not_allowed"},
		{obj{"tools": tool("no", toolStatus)}, "reserved_tool_name"},
		{obj{"sandbox_tools": tool(toolStatus)}, "reserved_tool_name"},
		{sub(obj{"name": toolStatus}), "invalid_subagent_tools"}, {sub(obj{"image": " "}), "invalid_subagent_tools"},
		{sub(obj{"subagents": []obj{}}), "invalid_subagent_tools"}, {sub(obj{"harness": ""}), "invalid_subagent_tools"},
		{sub(obj{"command_template": "{x}"}), "invalid_subagent_tools"}, {sub(obj{"command_template": "a}"}), "invalid_subagent_tools"},
		{sub(obj{"command_template": "{prompt}"}), "invalid_subagent_tools"}, {sub(obj{"prompt_via": "arg"}), "invalid_subagent_tools"},
		{sub(obj{"timeout_secs": 0}), "invalid_subagent_tools"},
		{obj{"tools": tool("ok"), "sandbox_tools": tool("any"), "unknown": 1}, ""},
		{sub(obj{"prompt_via": "arg", "command_template": "x {prompt} {model}"}), ""},
		{nil, ""},
	} {
		a := g.do("POST", g.url+"/api/v1/sessions", k, c.body)
		if kind, _ := a.json(t)["type"].(string); kind != c.kind || (kind == "") != (a.status == 201) {
			t.Errorf("%.80v: %d %s", c.body, a.status, a.body)
		}
	}
	big := g.do("POST", g.url+"/api/v1/sessions", k, `{"x":"`+strings.Repeat("a", maxBody)+`"}`)
	want(t, "too long", big.status, 413)
	c := g.opened(g.do("POST", g.url+"/api/v1/sessions", k, obj{"tools": tool("ok")}), "")
	mismatch := g.do("POST", c.path("/join"), g.f.defaults.Client, nil)
	want(t, "other profile", []any{mismatch.status, mismatch.json(t)["type"]}, "[403 profile_mismatch]")
	want(t, "log", types(c.log()), "[session.open]")
	c.register()
	for _, u := range []struct {
		tools any
		code  int
	}{{nil, codeParams}, {5, codeParams}, {[]obj{{}}, codeParams}, {tool(""), codeParams}, {tool("no"), codeTool}, {tool(toolStatus), codeTool}} {
		want(t, "updateClientTools", c.code("session.updateClientTools", obj{"tools": u.tools}), u.code)
	}
	want(t, "updated", c.result("session.updateClientTools", obj{"tools": []obj{}}), obj{"updated": true})
	r := c.send("call ok {}")
	want(t, "a tool that was taken back", len(uses(r["message"])), 0)
	c.result("session.updateClientTools", obj{"tools": tool("ok")})
	want(t, "a tool that was added", len(uses(c.send("call ok {}")["message"])), 1)
}

func TestAnAgentThatIsNotThereLeavesAnAuditRow(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	p := g.do("POST", g.admin+"/admin/v1/profiles", g.f.defaults.Admin, obj{"name": "p", "primary_provider": "nope"}).json(t)["id"]
	k := g.do("POST", g.admin+"/admin/v1/keys", g.f.defaults.Admin, obj{"name": "k", "profile_id": p}).json(t)["key"].(string)
	for range 2 {
		a := g.do("POST", g.url+"/api/v1/sessions", k, nil)
		want(t, "open", []any{a.status, a.json(t)["type"]}, "[422 primary_provider_unavailable]")
	}
	rows := g.do("GET", g.admin+"/admin/v1/sessions?state=error", g.f.defaults.Admin, nil).json(t)["items"].([]any)
	if len(rows) != 2 {
		t.Fatalf("rows: %v", rows)
	}
	id := rows[0].(obj)["id"].(string)
	ev := g.do("GET", g.admin+"/admin/v1/sessions/"+id+"/events", g.f.defaults.Admin, nil).json(t)["items"].([]any)
	want(t, "event", []any{len(ev), ev[0].(obj)["payload"]}, []any{1, obj{"reason": "primary_provider_unavailable", "profile_id": p, "primary_provider": "nope"}})
}

func TestAdminProfilesAndKeys(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	ask := func(method, path string, body any) answer {
		return g.do(method, g.admin+"/admin/v1"+path, g.f.defaults.Admin, body)
	}
	made := ask("POST", "/profiles", obj{"name": "a", "primary_provider": "demo", "available_sandboxes": []string{"py"}})
	id := made.json(t)["id"].(string)
	want(t, "made", made.status, 201)
	got := ask("GET", "/profiles/"+id, nil).json(t)
	want(t, "lists", []any{got["allowed_tools"], got["mcp_servers"], got["fallback_providers"], got["available_sandboxes"]}, "[[] [] [] [py]]")
	want(t, "default", []any{got["permission_timeout"], got["permission_default"]}, "[60 deny]")
	want(t, "name twice", ask("POST", "/profiles", obj{"name": "a", "primary_provider": "x"}).json(t)["type"], "duplicate_name")
	for _, bad := range []any{`{`, `[]`, obj{}, obj{"name": " ", "primary_provider": "x"}, obj{"name": "b", "primary_provider": ""},
		obj{"name": "b", "primary_provider": "x", "allowed_tools": "x"}, obj{"name": "b", "primary_provider": "x", "mcp_servers": []int{1}},
		obj{"name": "b", "primary_provider": "x", "permission_timeout": 0}, obj{"name": "b", "primary_provider": "x", "permission_default": "?"}} {
		want(t, string(mustJSON(bad)), ask("POST", "/profiles", bad).status, 400)
	}
	want(t, "replaced", ask("PUT", "/profiles/"+id, obj{"name": "a2", "primary_provider": "demo"}).json(t)["available_sandboxes"], []any{})
	want(t, "put unknown", ask("PUT", "/profiles/pro_x", obj{"name": "x", "primary_provider": "y"}).status, 404)

	want(t, "blank key name", ask("POST", "/keys", obj{"name": "", "profile_id": id}).status, 400)
	want(t, "key without profile", ask("POST", "/keys", obj{"name": "k", "profile_id": "pro_x"}).json(t)["type"], "profile_unavailable")
	k := ask("POST", "/keys", obj{"name": "k", "profile_id": id}).json(t)
	want(t, "prefix", k["prefix"], k["key"].(string)[:8])
	want(t, "in use", ask("DELETE", "/profiles/"+id, nil).json(t)["type"], "profile_in_use")
	key := k["key"].(string)
	c := g.opened(g.do("POST", g.url+"/api/v1/sessions", key, nil), k["id"].(string)).register()
	watch := c.begin("session.subscribe", obj{})
	for _, row := range ask("GET", "/keys", nil).json(t)["items"].([]any) {
		if row := row.(obj); row["id"] == k["id"] && (row["last_used_at"] == nil || row["key"] != nil || row["hash"] != nil) {
			t.Errorf("row: %v", row)
		}
	}
	want(t, "revoke", ask("DELETE", "/keys/"+k["id"].(string), nil).status, 204)
	want(t, "again", ask("DELETE", "/keys/"+k["id"].(string), nil).status, 404)
	want(t, "the admin key is not one of them", ask("DELETE", "/keys/"+g.f.defaults.AdminID, nil).status, 404)
	want(t, "its session key", g.do("GET", c.path("/events"), c.key, nil).status, 401)
	closed := watch.rest()
	want(t, "close", []any{types(closed), closed[0]["params"].(obj)["payload"], closed[0]["params"].(obj)["client_key_id"]},
		[]any{[]string{"session.close"}, obj{"reason": "client_key_revoked"}, k["id"]})
	want(t, "deleted", ask("DELETE", "/profiles/"+id, nil).status, 204)
	want(t, "gone", ask("GET", "/profiles/"+id, nil).status, 404)

	for _, path := range []string{"/profiles", "/keys", "/sessions", "/mcp-servers", "/providers", "/sandbox-status", "/config"} {
		want(t, path, ask("GET", path, nil).status, 200)
	}
	for range 3 {
		g.clientKey("more")
	}
	first := ask("GET", "/keys?limit=2", nil).json(t)
	second := ask("GET", "/keys?limit=2&cursor="+first["next_cursor"].(string), nil).json(t)
	want(t, "pages", []any{len(first["items"].([]any)), len(second["items"].([]any)), second["next_cursor"]}, "[2 2 <nil>]")
	want(t, "bad state", ask("GET", "/sessions?state=x", nil).status, 400)
	want(t, "unknown session", ask("GET", "/sessions/ses_"+strings.Repeat("0", 32)+"/events", nil).status, 404)
}

func TestARevokedKeyLeavesASharedSessionToTheOthers(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	id, key := g.clientKey("first")
	a := g.opened(g.do("POST", g.url+"/api/v1/sessions", key, nil), id).register()
	b := g.join(a.ses, nil).register()
	g.do("DELETE", g.admin+"/admin/v1/keys/"+id, g.f.defaults.Admin, nil)
	want(t, "first", g.do("GET", a.path("/events"), a.key, nil).status, 401)
	want(t, "second", text(b.send("say hi")["message"]), "hi")
}

func TestReports(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	c := g.open(nil)
	want(t, "driver first", c.code("session.reportLocalSandbox", obj{}), codeDriver)
	c.register()
	for _, ok := range []obj{{"state": "running", "image": "i", "container_id": "c"}, {"state": "stopped", "image": "", "unsandboxed": false},
		{"state": "error", "image": nil, "unsandboxed": true, "detail": "d"}} {
		want(t, string(mustJSON(ok)), c.result("session.reportLocalSandbox", ok), obj{"reported": true})
	}
	for _, bad := range []obj{{}, {"state": "x", "image": "i"}, {"state": "running"}, {"state": "running", "image": 1},
		{"state": "running", "image": "i", "unsandboxed": true}, {"state": "running", "image": "i", "unsandboxed": "no"},
		{"state": "running", "image": strings.Repeat("x", maxDetail+1)}} {
		want(t, string(mustJSON(bad))[:min(60, len(mustJSON(bad)))], c.code("session.reportLocalSandbox", bad), codeParams)
	}
	sub := func(state string, more obj) obj {
		o := obj{"state": state, "subagent_id": "sba_1", "harness": "claude", "model": "m", "detail": nil, "reason": nil, "exit_code": nil}
		for k, v := range more {
			o[k] = v
		}
		return o
	}
	for _, s := range []string{"start", "running", "completed", "failed", "cancelled"} {
		c.result("session.reportLocalSubagent", sub(s, nil))
	}
	for _, bad := range []obj{sub("x", nil), sub("start", obj{"model": ""}), sub("start", obj{"exit_code": "1"}), sub("start", obj{"harness": 5})} {
		want(t, string(mustJSON(bad)), c.code("session.reportLocalSubagent", bad), codeParams)
	}
	log := c.log()[2:]
	want(t, "log", types(log), "[session.sandbox.running session.sandbox.stopped session.sandbox.error session.subagent.start session.subagent.running session.subagent.completed session.subagent.failed session.subagent.cancelled]")
	want(t, "local", log[0]["payload"], obj{"dispatch": "local", "image": "i", "unsandboxed": false, "container_id": "c", "detail": nil})

	want(t, "no image", c.code("session.startRemoteSandbox", obj{}), codeParams)
	want(t, "image", c.code("session.startRemoteSandbox", obj{"image": "i"}), codeImage)
	want(t, "stop", c.code("session.stopRemoteSandbox", obj{}), codeSandboxStopped)
	want(t, "exec", c.code("session.execRemoteSandbox", obj{"command": "ls"}), codeSandboxStopped)
	want(t, "exec without", c.code("session.execRemoteSandbox", obj{}), codeParams)
}

func TestOnlyHashesOfKeysAreStored(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	c := g.open(nil)
	kvs, err := g.f.registry.kv.List(t.Context(), "", "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range kvs {
		for _, key := range []string{c.key, g.f.defaults.Client, g.f.defaults.Admin} {
			if strings.Contains(string(kv.Value), key) || strings.Contains(kv.Key, key) {
				t.Errorf("%s holds a key", kv.Key)
			}
		}
	}
	info, err := os.Stat(filepath.Join(g.home, KeysFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("default keys: %v %v", info.Mode(), err)
	}
	stored := hashKey("secret", cost{8, 1})
	for key, ok := range map[string]bool{"secret": true, "Secret": false, "": false} {
		want(t, key, verifyKey(key, stored), ok)
	}
	for _, bad := range []string{"", "$", "$argon2id$v=19$m=99999999,t=1,p=1$AA$AA", "$argon2id$v=19$m=8,t=0,p=1$AA$AA", strings.Replace(stored, "argon2id", "x", 1)} {
		want(t, bad, verifyKey("secret", bad), false)
	}
}

func TestHundredsOfQuickReconnectsLeaveNothing(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	c := g.open(nil).register()
	for range 300 {
		s := c.begin("session.subscribe", obj{})
		s.close()
	}
	r, err := g.f.room(t.Context(), mustSession(t, c))
	if err != nil {
		t.Fatal(err)
	}
	defer g.f.release(r)
	eventually(t, "no stream left", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.ring.streams) == 0 && len(r.ring.entries) == 0
	})
	want(t, "still there", text(c.send("say hi")["message"]), "hi")
}
