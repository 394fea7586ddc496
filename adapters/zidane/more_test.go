package zidane

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/core/store"
)

func TestRuntimeCanBeReadAndSet(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.connect()
	session := c.newSession()
	ref := fmt.Sprintf(`{"sessionId":%q}`, session)
	r := c.ok("runtime.get", ref)
	if r["agentId"] != "build" || r["mode"] != "accept" || r["running"] != false || r["modelId"] == "" {
		t.Errorf("runtime %v", r)
	}
	if r := c.ok("runtime.set", fmt.Sprintf(`{"sessionId":%q,"mode":"auto"}`, session)); r["mode"] != "auto" {
		t.Errorf("runtime %v", r)
	}
	run := c.ok("chat.send", fmt.Sprintf(`{"sessionId":%q,"prompt":"sleep 60000"}`, session))["runId"]
	if r := c.ok("runtime.get", ref); r["running"] != true || r["runId"] != run {
		t.Errorf("runtime %v", r)
	}
	if r := c.ok("orchestration.stop", fmt.Sprintf(`{"runId":%q}`, run)); r["stopped"] != true {
		t.Errorf("stop %v", r)
	}
	c.until(session, "run:end")
	if r := c.ok("orchestration.stop", `{"runId":"x"}`); r["stopped"] != false {
		t.Errorf("stop %v", r)
	}
}

func TestModeChangeSettlesWhatIsPending(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.connect()
	session := c.newSession()
	c.ok("chat.send", fmt.Sprintf(`{"sessionId":%q,"prompt":"run touch made"}`, session))
	approval := c.nextKind("interaction:open")["interaction"].(map[string]any)["id"]
	c.ok("runtime.set", fmt.Sprintf(`{"sessionId":%q,"mode":"auto"}`, session))
	if closed := c.nextKind("interaction:closed"); closed["id"] != approval || closed["outcome"] != "allowed" {
		t.Errorf("closed %v", closed)
	}
	c.until(session, "run:end")
	c.fails(codeHandlerFailed, "approvals.answer", fmt.Sprintf(`{"id":%q,"decision":"deny"}`, approval))
	if _, err := os.Stat(g.root + "/made"); err != nil {
		t.Error(err)
	}
}

func TestAgentsModelsAndCommandsAreListed(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.connect()
	agents := c.ok("agents.list", "{}")["agents"].([]any)
	if agents[0].(map[string]any)["id"] != "build" {
		t.Errorf("agents %v", agents)
	}
	for _, a := range agents {
		agent := a.(map[string]any)["id"].(string)
		if s := c.ok("sessions.create", fmt.Sprintf(`{"cwd":"","agentId":%q}`, agent)); s["agentId"] != agent {
			t.Errorf("made with %s: %v", agent, s)
		}
	}
	models := c.ok("models.list", "{}")
	for _, m := range models["models"].([]any) {
		model := m.(map[string]any)["id"].(string)
		c.ok("models.setDefault", fmt.Sprintf(`{"modelId":%q}`, model))
		if s := c.ok("sessions.create", `{"cwd":""}`); s["modelId"] != model {
			t.Errorf("made with default %s: %v", model, s)
		}
	}
	c.fails(codeHandlerFailed, "models.setDefault", `{"modelId":"none"}`)
	c.ok("catalog.models", "{}")
	c.ok("catalog.providers", "{}")
	c.ok("commands.list", `{"cwd":""}`)
	session := c.newSession()
	c.fails(codeHandlerFailed, "commands.run", fmt.Sprintf(`{"sessionId":%q,"name":"none","args":""}`, session))
	envs := c.ok("environments.list", "{}")["environments"].([]any)
	if len(envs) != 1 || envs[0].(map[string]any)["id"] != "host" {
		t.Errorf("environments %v", envs)
	}
	c.ok("environments.select", fmt.Sprintf(`{"sessionId":%q,"id":"host"}`, session))
	c.fails(codeHandlerFailed, "environments.select", fmt.Sprintf(`{"sessionId":%q,"id":"moon"}`, session))
}

func TestHistoryAndSearch(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.connect()
	a, b := c.newSession(), c.newSession()
	c.send(a, "say the quick fox")
	c.send(b, "say lazy dog")
	c.send(b, "say the quick fox")
	prompts := func(params string) (out []string) {
		for _, p := range c.ok("history.list", params)["prompts"].([]any) {
			out = append(out, p.(map[string]any)["text"].(string))
		}
		return out
	}
	if got := prompts("{}"); !slices.Equal(got, []string{"say the quick fox", "say lazy dog"}) {
		t.Errorf("history %v", got)
	}
	if got := prompts(`{"query":"LAZY"}`); !slices.Equal(got, []string{"say lazy dog"}) {
		t.Errorf("history %v", got)
	}
	if got := prompts(`{"limit":1}`); len(got) != 1 {
		t.Errorf("history %v", got)
	}
	found := c.ok("search.sessions", `{"query":"Quick"}`)
	if hits := found["hits"].([]any); len(hits) != 2 || found["truncated"] != false || !strings.Contains(hits[0].(map[string]any)["snippet"].(string), "quick fox") {
		t.Errorf("found %v", found)
	}
	if found := c.ok("search.sessions", `{"query":"quick","limit":1}`); len(found["hits"].([]any)) != 1 || found["truncated"] != true {
		t.Errorf("found %v", found)
	}
	if found := c.ok("search.sessions", `{"query":"nowhere"}`); len(found["hits"].([]any)) != 0 {
		t.Errorf("found %v", found)
	}
	c.ok("history.clear", "{}")
	if got := prompts("{}"); len(got) != 0 {
		t.Errorf("after clear: %v", got)
	}
	if got := c.events(a); len(got) != 3 {
		t.Errorf("the transcript went too: %v", got)
	}
}

func TestPreferencesAreSharedAndLast(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c, other := g.connect(), g.connect()
	c.ok("prefs.set", `{"patch":{"theme":"dark","panel":{"left":1,"right":2}}}`)
	if p := other.ok("prefs.set", `{"patch":{"theme":null,"panel":{"left":3}}}`); fmt.Sprint(p["prefs"]) != "map[panel:map[left:3 right:2]]" {
		t.Errorf("prefs %v", p)
	}
	view := `{"sort":"name","session":"x","deep":[1,{"a":null}]}`
	c.ok("sidebar.setView", `{"space":"home","view":`+view+`}`)
	c.ok("sidebar.setView", `{"space":"gone","view":{}}`)
	c.ok("sidebar.setView", `{"space":"gone","view":null}`)
	if s := c.ok("sidebar.getSpace", "{}"); s["space"] != nil {
		t.Errorf("space %v", s)
	}
	c.ok("sidebar.setSpace", `{"space":"home"}`)
	c.fails(codeHandlerFailed, "prefs.set", `{"patch":{"big":"`+strings.Repeat("x", maxPrefs)+`"}}`)
	g.stop()
	g.start()
	c = g.connect()
	if p := c.ok("prefs.get", "{}"); fmt.Sprint(p["prefs"]) != "map[panel:map[left:3 right:2]]" {
		t.Errorf("prefs after a restart: %v", p)
	}
	if r := c.call("sidebar.getViews", "{}"); string(r.Result) != `{"views":{"home":`+view+`}}` {
		t.Errorf("views %s", r.Result)
	}
	if s := c.ok("sidebar.getSpace", "{}"); s["space"] != "home" {
		t.Errorf("space %v", s)
	}
}

func TestSettingsGovernFolders(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c, other := g.connect(), g.connect()
	if c.hello["createFolders"] != true {
		t.Errorf("hello %v", c.hello)
	}
	real, _ := filepath.EvalSymlinks(g.root)
	if r := c.ok("fs.createFolder", fmt.Sprintf(`{"path":%q}`, g.root+"/new folder")); r["path"] != real+"/new folder" {
		t.Errorf("made %v", r)
	}
	c.fails(codeHandlerFailed, "fs.createFolder", fmt.Sprintf(`{"path":%q}`, g.root+"/new folder"))
	for _, path := range []string{"/etc/x", g.root + "/../x", "x", "/"} {
		c.fails(codeHandlerFailed, "fs.createFolder", fmt.Sprintf(`{"path":%q}`, path))
	}
	c.ok("settings.set", `{"patch":{"allowCreateFolders":false,"mine":1}}`)
	if s := other.nextKind("settings:changed"); s["settings"].(map[string]any)["mine"] != 1.0 || s["$seq"] != nil {
		t.Errorf("signal %v", s)
	}
	c.fails(codeHandlerFailed, "fs.createFolder", fmt.Sprintf(`{"path":%q}`, g.root+"/another"))
	if again := g.connect(); again.hello["createFolders"] != nil {
		t.Errorf("hello %v", again.hello)
	}
	c.ok("settings.set", fmt.Sprintf(`{"cwd":%q,"patch":{"mine":2}}`, g.root))
	if s := c.ok("settings.get", fmt.Sprintf(`{"cwd":%q}`, g.root)); fmt.Sprint(s["settings"]) != "map[allowCreateFolders:false mine:2]" {
		t.Errorf("settings %v", s)
	}
	if s := c.ok("settings.set", `{"patch":{"allowCreateFolders":null}}`); fmt.Sprint(s["settings"]) != "map[allowCreateFolders:true mine:1]" {
		t.Errorf("settings %v", s)
	}
}

func TestFoldersCanBeListedAndSearched(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.connect()
	for _, d := range []string{"app/.git", "app/src", ".hidden/app", "lib/deep/apples"} {
		if err := os.MkdirAll(filepath.Join(g.root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	file(t, g.root+"/file.txt", "x")
	symlink(t, "/etc", g.root+"/etc")
	real, _ := filepath.EvalSymlinks(g.root)
	if r := c.ok("fs.roots", "{}"); fmt.Sprint(r["roots"]) != fmt.Sprint([]string{g.root}) {
		t.Errorf("roots %v", r)
	}
	r := c.call("fs.list", `{"path":""}`)
	want := fmt.Sprintf(`{"path":%q,"folders":[{"name":"app","path":%q,"git":true},{"name":"lib","path":%q,"git":false}]}`, real, real+"/app", real+"/lib")
	if string(r.Result) != want {
		t.Errorf("listed %s, want %s", r.Result, want)
	}
	for _, path := range []string{"/etc", g.root + "/etc", g.root + "/..", g.root + "/file.txt", g.root + "/none"} {
		c.fails(codeHandlerFailed, "fs.list", fmt.Sprintf(`{"path":%q}`, path))
	}
	found := c.ok("fs.search", `{"query":"APP"}`)
	var names []string
	for _, f := range found["folders"].([]any) {
		names = append(names, f.(map[string]any)["name"].(string))
	}
	if !slices.Equal(names, []string{"app", "apples"}) || found["truncated"] != false {
		t.Errorf("found %v", found)
	}
	if found := c.ok("fs.search", `{"query":"app","limit":1}`); found["truncated"] != true {
		t.Errorf("found %v", found)
	}
}

func TestMachineAndUsage(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.connect()
	info := c.ok("host.info", `{"refresh":true}`)
	if info["os"] == "" || info["arch"] == "" || info["tools"] == nil {
		t.Errorf("info %v", info)
	}
	if s := c.ok("server.update.status", "{}"); s["state"] != "off" || s["current"] != "1.2.3" {
		t.Errorf("update %v", s)
	}
	session := c.newSession()
	c.send(session, "usage 10 33")
	c.send(session, "usage 1 2")
	want := `"totals":{"tokensIn":11,"tokensOut":35,"runs":2}`
	if r := c.call("usage.summary", "{}"); !strings.Contains(string(r.Result), want) {
		t.Errorf("usage %s", r.Result)
	}
	ancient := usagePrefix + "2001-02-03"
	if err := g.front.kv.Set(t.Context(), ancient, []byte(`{"runs":9}`)); err != nil {
		t.Fatal(err)
	}
	g.stop()
	g.start()
	c = g.connect()
	c.send(session, "usage 100 0")
	want = `"totals":{"tokensIn":111,"tokensOut":35,"runs":3}`
	if r := c.call("usage.summary", `{"days":1}`); !strings.Contains(string(r.Result), want) {
		t.Errorf("usage after a restart %s", r.Result)
	}
	if _, err := g.front.kv.Get(t.Context(), ancient); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("counts of long ago: %v", err)
	}
}

func TestMediaOpenToATicketOfALiveConnection(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.connect()
	ticket := strings.Repeat("Ab3-_", 8)
	picture := bytes.Repeat([]byte("pixel"), 100)
	file(t, g.root+"/p.png", string(picture))
	file(t, g.root+"/notes.txt", "text")
	file(t, g.home+"/secret.png", "secret")
	symlink(t, g.home+"/secret.png", g.root+"/link.png")
	if err := os.Mkdir(g.root+"/dir.png", 0o755); err != nil {
		t.Fatal(err)
	}
	get := func(header, ticket, cwd, path string, more ...string) (*http.Response, string) {
		q := url.Values{"ticket": {ticket}, "cwd": {cwd}, "path": {path}}
		for i := 0; i < len(more); i += 2 {
			q.Set(more[i], more[i+1])
		}
		req, _ := http.NewRequest("GET", g.url+"/zidane/media?"+q.Encode(), nil)
		if header != "" {
			req.Header.Set("Range", header)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp, string(body)
	}
	if resp, _ := get("", ticket, g.root, "p.png"); resp.StatusCode != 401 {
		t.Errorf("before it was registered: %d", resp.StatusCode)
	}
	c.ok("files.mediaTicket", fmt.Sprintf(`{"ticket":%q}`, ticket))
	resp, body := get("", ticket, g.root, "p.png")
	if resp.StatusCode != 200 || body != string(picture) || resp.Header.Get("Content-Type") != "image/png" ||
		resp.Header.Get("X-Content-Type-Options") != "nosniff" || resp.Header.Get("Content-Security-Policy") != "sandbox" {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
	if resp, _ := get("", ticket, g.root, g.root+"/p.png"); resp.StatusCode != 200 {
		t.Errorf("by its whole path: %d", resp.StatusCode)
	}
	for _, row := range []struct {
		header, contentRange, body string
		status                     int
	}{
		{"bytes=0-4", "bytes 0-4/500", "pixel", 206},
		{"bytes=495-", "bytes 495-499/500", "pixel", 206},
		{"bytes=-5", "bytes 495-499/500", "pixel", 206},
		{"bytes=495-9999", "bytes 495-499/500", "pixel", 206},
		{"bytes=500-", "bytes */500", "Range Not Satisfiable", 416},
		{"bytes=5-1", "bytes */500", "Range Not Satisfiable", 416},
		{"bytes=-0", "bytes */500", "Range Not Satisfiable", 416},
		{"bytes=x", "bytes */500", "Range Not Satisfiable", 416},
	} {
		resp, body := get(row.header, ticket, g.root, "p.png")
		if resp.StatusCode != row.status || body != row.body || resp.Header.Get("Content-Range") != row.contentRange {
			t.Errorf("%s: %d %q %q", row.header, resp.StatusCode, body, resp.Header.Get("Content-Range"))
		}
	}
	for _, path := range []string{"notes.txt", "none.png", "dir.png", "link.png", "../secret.png", "/etc/logo.png", g.home + "/secret.png", ""} {
		if resp, body := get("", ticket, g.root, path); resp.StatusCode != 404 || body != "Not Found" {
			t.Errorf("%s: %d %q", path, resp.StatusCode, body)
		}
	}
	if resp, _ := get("", ticket, g.home, "secret.png"); resp.StatusCode != 404 {
		t.Errorf("a folder outside the roots: %d", resp.StatusCode)
	}
	if resp, _ := get("", g.front.token, g.root, "p.png"); resp.StatusCode != 401 {
		t.Errorf("the token is no ticket: %d", resp.StatusCode)
	}
	big, err := os.Create(g.root + "/big.mp4")
	if err != nil {
		t.Fatal(err)
	}
	if err := big.Truncate(maxMedia + 10); err != nil {
		t.Fatal(err)
	}
	big.Close()
	if resp, _ := get("", ticket, g.root, "big.mp4"); resp.StatusCode != 413 {
		t.Errorf("a large file whole: %d", resp.StatusCode)
	}
	if from, n, status := mediaRange("bytes=5-", maxMedia+10); from != 5 || n != maxMedia || status != 206 {
		t.Errorf("a long range: %d bytes from %d, %d", n, from, status)
	}
	c.close()
	again := g.connect()
	for range 200 {
		if resp, _ = get("", ticket, g.root, "p.png"); resp.StatusCode == 401 {
			break
		}
		again.ok("presence.get", "{}")
	}
	if resp.StatusCode != 401 {
		t.Errorf("after its connection dropped: %d", resp.StatusCode)
	}
}

func TestServerThatStopsSaysSo(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.connect()
	session := c.newSession()
	c.ok("chat.send", fmt.Sprintf(`{"sessionId":%q,"prompt":"say x\nsleep 60000"}`, session))
	stopped := make(chan struct{})
	go func() { g.stop(); close(stopped) }()
	end := c.nextKind("run:end")
	if end["ok"] != false {
		t.Errorf("end %v", end)
	}
	if code, reason := c.closeCode(); code != 1001 {
		t.Errorf("closed with %d %s", code, reason)
	}
	<-stopped
}
