package cognitio

import (
	"strings"
	"testing"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/transports/jsonx"
)

func TestRulesSettleWhatTheyName(t *testing.T) {
	t.Parallel()
	exec := func(command, pattern string) *event.Interaction {
		raw, _ := jsonx.Encode(map[string]string{"command": command})
		return &event.Interaction{Kind: event.Approval, Tool: "bash", Tag: event.TagExec, Input: raw, Pattern: pattern}
	}
	secret := exec("cat key", "cat *")
	secret.Tag = event.TagSecret
	edit := &event.Interaction{Kind: event.Approval, Tool: "write", Tag: event.TagWrite, Edits: []event.FileEdit{{Path: "/w/src/a.go"}, {Path: "/w/docs/b.md"}}}
	for _, c := range []struct {
		name  string
		rules ruleSet
		i     *event.Interaction
		want  event.Outcome
	}{
		{"nothing said", ruleSet{}, exec("ls", "ls *"), ""},
		{"allowed", ruleSet{rules: []rule{{"bash", "ls *", "allow"}}}, exec("ls -la", "ls *"), event.Allowed},
		{"allowed without arguments", ruleSet{rules: []rule{{"bash", "ls *", "allow"}}}, exec("ls", "ls *"), event.Allowed},
		{"another program", ruleSet{rules: []rule{{"bash", "ls *", "allow"}}}, exec("rm -r x", "rm *"), ""},
		{"a second program in the line", ruleSet{rules: []rule{{"bash", "ls *", "allow"}}}, exec("ls; rm -r x", ""), ""},
		{"everything, in so many words", ruleSet{rules: []rule{{"bash", "*", "allow"}}}, exec("ls; rm -r x", ""), event.Allowed},
		{"the last rule counts", ruleSet{rules: []rule{{"*", "*", "allow"}, {"bash", "rm *", "deny"}}}, exec("rm -r x", "rm *"), event.Denied},
		{"and may ask again", ruleSet{rules: []rule{{"*", "*", "allow"}, {"bash", "*", "ask"}}}, exec("ls", "ls *"), ""},
		{"secrets are never allowed", ruleSet{rules: []rule{{"*", "*", "allow"}}}, secret, ""},
		{"each file must be allowed", ruleSet{rules: []rule{{"edit", "docs/*", "allow"}}}, edit, ""},
		{"all files are", ruleSet{rules: []rule{{"edit", "*", "allow"}}}, edit, event.Allowed},
		{"one file is denied", ruleSet{rules: []rule{{"edit", "*", "allow"}, {"edit", "src/*", "deny"}}}, edit, event.Denied},
		{"allowed tool", ruleSet{allowed: []string{"Bash"}}, exec("ls", "ls *"), event.Allowed},
		{"disallowed tool", ruleSet{allowed: []string{"bash"}, disallowed: []string{"Bash"}}, exec("ls", "ls *"), event.Denied},
		{"without asking", ruleSet{refuse: true}, exec("ls", "ls *"), event.Denied},
	} {
		if got, _ := c.rules.decide(c.i, "/w"); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestWildcards(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{{"*", "", true}, {"a*c", "abbc", true}, {"a*c", "abbd", false}, {"a?c", "abc", true}, {"a?c", "ac", false}, {"", "", true}, {"", "a", false},
		{"*.env", "x/.env", true}, {"ls *", "ls", true}, {"ls *", "lsof", false}, {"**a*", "bca", true}} {
		if got := wildcard(c.pattern, c.s); got != c.want {
			t.Errorf("%q on %q: %v", c.pattern, c.s, got)
		}
	}
}

func TestASessionsRulesAnswerWithoutAsking(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	events := g.listen("/event")
	ses := g.session(map[string]any{"permission": []any{
		map[string]any{"permission": "bash", "pattern": "echo *", "action": "allow"}, map[string]any{"permission": "bash", "pattern": "rm *", "action": "deny"}}})
	g.prompt(ses, "run echo fine\nrun rm x\nsay done")
	turn := events.idle(ses)
	if all := types(turn); strings.Contains(all, "permission.") {
		t.Errorf("%s", all)
	}
	states := map[string]string{}
	for _, e := range turn {
		if e.str("part", "type") == "tool" {
			states[e.str("part", "state", "input", "command")] = e.str("part", "state", "status")
		}
	}
	if states["echo fine"] != "completed" || states["rm x"] != "error" {
		t.Errorf("%v", states)
	}
}

func TestControlChannelAsksAnSDKsCallback(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	events := g.listen("/event")
	ses := g.session(map[string]any{"runtimeConfig": map[string]any{"canUseTool": true}})
	respond := func(request, behavior string, more ...string) any {
		response := map[string]any{"behavior": behavior}
		if len(more) > 0 {
			response["message"] = more[0]
		}
		return g.must("POST", "/session/"+ses+"/control-response", map[string]any{"requestID": request, "subtype": "can_use_tool", "response": response}).(map[string]any)["resolved"]
	}
	g.prompt(ses, "run echo allowed")
	asked := last(events.until("control.request"))
	if asked.str("payload", "toolName") != "bash" || asked.str("payload", "input", "command") != "echo allowed" || asked.str("sessionID") != ses {
		t.Errorf("%v", asked.raw)
	}
	list := g.must("GET", "/session/"+ses+"/control-requests", nil).([]any)
	if len(list) != 1 {
		t.Fatalf("%v", list)
	}
	same(t, asked.Properties, list[0])
	if respond(asked.str("id"), "allow") != true || respond(asked.str("id"), "allow") != false {
		t.Error("the first answer counts, the second does not")
	}
	if all := types(events.idle(ses)); strings.Contains(all, "control.cancelled") || !strings.Contains(all, "permission.replied") {
		t.Errorf("%s", all)
	}
	g.prompt(ses, "run echo by-hand")
	asked = last(events.until("control.request"))
	per := g.must("GET", "/permission", nil).([]any)[0].(map[string]any)["id"].(string)
	g.must("POST", "/permission/"+per+"/reply", map[string]any{"reply": "reject"})
	if e := last(events.until("control.cancelled")); e.str("id") != asked.str("id") || e.str("reason") != "cancelled" {
		t.Errorf("%v", e.raw)
	}
	events.idle(ses)
}

func TestRuntimeConfigIsKeptAndApplied(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	ses := g.session()
	g.must("PATCH", "/session/"+ses+"/runtime-config", map[string]any{"permissionMode": "plan", "maxTurns": 5})
	got := g.must("PATCH", "/session/"+ses+"/runtime-config", map[string]any{"canUseTool": true}).(map[string]any)
	if got["permissionMode"] != "plan" || got["maxTurns"] != 5.0 || got["canUseTool"] != true {
		t.Errorf("%v", got)
	}
	if mode := g.core(ses).State().Info.Settings.Mode; mode != event.ModePlan {
		t.Errorf("mode %q", mode)
	}
	if agent := g.must("GET", "/session/"+ses, nil).(map[string]any)["agent"]; agent != "plan" {
		t.Errorf("agent %v", agent)
	}
	view := g.must("GET", "/session/"+ses+"/runtime-config", nil)
	if err := protocol(t).check("SessionRuntimeConfigView", view); err != nil {
		t.Error(err)
	}
	g.must("DELETE", "/session/"+ses+"/runtime-config", nil)
	if rc := g.must("GET", "/session/"+ses+"/runtime-config", nil).(map[string]any)["runtimeConfig"].(map[string]any); len(rc) != 0 {
		t.Errorf("%v", rc)
	}
}
