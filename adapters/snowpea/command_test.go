package snowpea

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCommands(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.hello()
	s := c.session(g.dir)
	for i, run := range []func() string{
		func() string { return c.prompt(s, "/mode plan") },
		func() string {
			return c.call("command.run", object("sessionId", s, "name", "mode", "args", "plan"))["turnId"].(string)
		},
		func() string {
			return c.call("command.run", object("sessionId", s, "name", "/plan"))["turnId"].(string)
		},
	} {
		events := c.turnOf(s, run())
		if got, want := kinds(events), "turn.started mode.changed message.done turn.done"; got != want {
			t.Errorf("%d: %s, want %s", i, got, want)
		}
		if i < 2 && events[0].text("prompt") != "/mode plan" || events[1].text("mode") != "plan" || events[3].text("reason") != "complete" {
			t.Errorf("%d: %v %v", i, events[0].Payload, events[1].Payload)
		}
	}
	if row := c.row(s); row["mode"] != "plan" || !strings.HasPrefix(row["lastPrompt"].(string), "/plan") || row["title"] != nil {
		t.Errorf("the row is %v", row)
	}
	events := c.turnOf(s, c.prompt(s, "/nonsense"))
	if find(t, events, "error").text("code") != "not_found" || events[len(events)-1].text("reason") != "error" {
		t.Errorf("an unknown command: %s", kinds(events))
	}
	c.done(c.prompt(s, "/mode save"))
	var doc map[string]any
	b, err := os.ReadFile(filepath.Join(g.dir, ".snowpea", "settings.json"))
	if err != nil || json.Unmarshal(b, &doc) != nil || doc["defaultMode"] != "plan" {
		t.Errorf("the project's settings are %s %v", b, err)
	}
	if row := c.row(c.session(g.dir)); row["mode"] != "plan" {
		t.Errorf("a new session starts in %v", row["mode"])
	}
	if row := c.row(c.session(g.dir, "mode", "accept")); row["mode"] != "accept" {
		t.Errorf("a session that asked for accept starts in %v", row["mode"])
	}
	events = c.turnOf(s, c.prompt(s, "/auto say now"))
	if k := kinds(events); !strings.HasSuffix(k, "turn.started message.user message.delta message.done context turn.done") {
		t.Errorf("a mode with a request: %s", k)
	}
	for _, line := range []string{"/help", "/tools", "/busy queue", "/busy sideways", "/approvals all", "/allow ^ls", "/allow tool:write --global",
		"/allow (", "/allowlist", "/allowlist remove x", "/model", "/model nope", "/effort", "/effort turbo", "/mode sideways"} {
		events := c.turnOf(s, c.prompt(s, line))
		if find(t, events, "message.done").text("text") == "" || events[len(events)-1].text("reason") != "complete" {
			t.Errorf("%s: %s", line, kinds(events))
		}
	}
	if events := c.turnOf(s, c.prompt(s, "/")); !strings.Contains(kinds(events), "message.user") {
		t.Errorf("a slash alone is text: %s", kinds(events))
	}
	names := map[string]bool{}
	for _, r := range c.call("command.list", object())["commands"].([]any) {
		row := r.(map[string]any)
		names[row["name"].(string)] = true
		if row["argsSchema"].(map[string]any)["type"] != "object" {
			t.Errorf("%v has no object schema", row)
		}
	}
	if !names["help"] || !names["mode"] || !names["allow"] {
		t.Errorf("the commands are %v", names)
	}

	// A command beside a running turn leaves it alone.
	turn := c.prompt(s, "ask Go on? | yes\nsay end")
	ask, _ := c.asked("question.request", 1)
	c.done(c.prompt(s, "/mode show"))
	c.reply(ask, object("answers", []any{object("selected", []string{"yes"})}))
	if e := c.done(turn); e.text("reason") != "complete" {
		t.Errorf("the turn ended as %v", e.Payload)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c, other := g.hello(), g.hello()
	get := func(p map[string]any, path ...string) any {
		var v any = p["settings"]
		for _, k := range path {
			v = v.(map[string]any)[k]
		}
		return v
	}
	r := c.call("settings.set", object("scope", "global", "patch", object("approvals", object("timeoutSec", 5))))
	if get(r, "approvals", "timeoutSec") != 5.0 || get(r, "questions", "timeoutSec") != 600.0 {
		t.Errorf("the answer is not the whole document: %v", r)
	}
	for _, who := range []*client{c, other} {
		if n := who.note("settings.changed", nil); n["scope"] != "global" || len(n["keys"].([]any)) != 1 || n["keys"].([]any)[0] != "approvals" {
			t.Errorf("settings.changed is %v", n)
		}
	}
	r = c.call("settings.set", object("patch", object("providers", object("x", object("api_key", "k")))))
	if get(r, "providers", "x", "api_key") != "***" {
		t.Errorf("a secret shows: %v", get(r, "providers"))
	}
	c.refused("settings.set", object("patch", object("providers", object("x", object("api_key", "***")))), "invalid_params")
	if b, err := os.ReadFile(filepath.Join(g.home, "settings.json")); err != nil || !strings.Contains(string(b), `"k"`) {
		t.Errorf("the file is %s %v", b, err)
	}
	if st, err := os.Stat(filepath.Join(g.home, "settings.json")); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v %v", st, err)
	}
	r = c.call("settings.set", object("patch", object("approvals", object("timeoutSec", nil))))
	if get(r, "approvals", "timeoutSec") != 300.0 {
		t.Errorf("a null does not bring the default back: %v", get(r, "approvals"))
	}
	c.refused("settings.set", object("patch", object("approvals", object("timeoutSec", "soon"))), "invalid_params")
	c.refused("settings.set", object("patch", object("approvals", 3)), "invalid_params")
	c.refused("settings.set", object("patch", object("agent", object("busy", "maybe"))), "invalid_params")
	if r := c.call("settings.get", object()); get(r, "approvals", "timeoutSec") != 300.0 || get(r, "unknown") != nil {
		t.Errorf("settings are %v", r)
	}
	c.refused("settings.get", object("scope", "project"), "invalid_params")
	r = c.call("settings.set", object("scope", "project", "workdir", g.dir, "patch", object("defaultMode", "plan", "mine", 1)))
	if get(r, "defaultMode") != "plan" || get(r, "mine") != 1.0 {
		t.Errorf("the project's document is %v", r)
	}
	if err := os.WriteFile(filepath.Join(g.home, "settings.json"), []byte(`{"agent":{"busy":"queue"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := c.call("system.reloadSettings", object()); r["reloaded"] != true {
		t.Errorf("an edit from outside is not seen: %v", r)
	}
	if r := c.call("system.reloadSettings", object()); r["reloaded"] != false {
		t.Errorf("nothing moved: %v", r)
	}
}

func TestAllowlist(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.hello()
	c.refused("permission.allowlist.add", object("pattern", "^ls", "scope", "project"), "invalid_params") // which project?
	s := c.session(g.dir)
	add := func(pattern, scope string) string {
		return c.call("permission.allowlist.add", object("pattern", pattern, "scope", scope))["patternId"].(string)
	}
	entry := add("^echo", "project")
	if again := add("^echo", "project"); again != entry {
		t.Errorf("the same entry has the ids %s and %s", entry, again)
	}
	add("tool:web_search", "always")
	c.refused("permission.allowlist.add", object("pattern", "(?=x)", "scope", "always"), "invalid_params")
	rows := c.call("permission.allowlist.list", object())["patterns"].([]any)
	if len(rows) != 2 || rows[0].(map[string]any)["scope"] != "project" || rows[1].(map[string]any)["tool"] != "web_search" {
		t.Errorf("the list is %v", rows)
	}
	c.done(c.prompt(s, "run echo allowed")) // does not ask
	c.call("permission.allowlist.remove", object("patternId", entry))
	c.refused("permission.allowlist.remove", object("patternId", entry), "not_found")
	c.prompt(s, "run echo asks")
	c.asked("approval.request", 1)
}
