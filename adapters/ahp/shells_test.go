package ahp

import (
	"slices"
	"strings"
	"testing"
)

// The scripts that a window pushes for a session's shells are kept as they were
// sent, and the agent's commands begin with the one for its shell.
func TestTheScriptsOfAWindowPrecedeTheAgentsCommands(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	a, b := g.connect("a"), g.connect("b")
	const uri = "demo:/shells"
	script := func(shell, text string) object { return object{"shell": shell, "script": text} }
	first := []object{script("powershell", "exit 9"), script("bash", "echo noise >&2; greet() { echo \"$1 one\"; }\n")}
	declared := a.call("resolveSessionConfig", object{"channel": rootURI, "provider": "demo"})["schema"].(object)["properties"].(object)["shellInitScripts"]
	if got := show(declared); !strings.Contains(got, `"enum":["bash","powershell"]`) || !strings.Contains(got, `"required":["shell","script"]`) ||
		!strings.Contains(got, `"readOnly":true,"sessionMutable":true,"title":"Shell scripts","type":"array"`) {
		t.Errorf("the setting is declared as %s", got)
	}
	a.call("createSession", object{"channel": uri, "provider": "demo", "workingDirectories": []string{fileURI(g.dir)},
		"config": object{"mode": "autopilot", "shellInitScripts": first}})
	chat := a.subscribe(uri)["state"].(object)["defaultChat"].(string)
	a.subscribe(chat)
	b.subscribe(uri)
	values := func() string { return show(a.state(uri)["config"].(object)["values"].(object)["shellInitScripts"]) }
	if got := values(); got != show(first) {
		t.Errorf("the scripts are %s, want %s", got, show(first))
	}
	run := func(turn string) string {
		return show(a.says(chat, turn, "run greet hello; echo ran")["responseParts"])
	}
	if got := run("t1"); !strings.Contains(got, `hello one\nran`) || strings.Contains(got, "noise") || strings.Contains(got, "init.sh") {
		t.Errorf("with the first script: %s", got)
	}

	push := func(scripts any) object {
		return a.echo(a.dispatch(uri, object{"type": "session/configChanged", "config": object{"shellInitScripts": scripts}}))
	}
	second := []object{script("bash", "greet() { echo \"$1 two\"; }; return 4")}
	push(second)
	b.until(uri, "the second script", func(s object) bool {
		return show(s["config"].(object)["values"].(object)["shellInitScripts"]) == show(second)
	})
	if got := run("t2"); !strings.Contains(got, `status 4\nhello two\nran`) {
		t.Errorf("with the second script: %s", got)
	}
	for why, bad := range map[string]any{
		"longer than":          []object{script("bash", strings.Repeat("#", maxShellInit))},
		"more than":            slices.Repeat([]object{script("bash", "true")}, 1000),
		`the shell \"../x\"`:   []object{script("../x", "true")},
		"script: missing":      []object{{"shell": "bash"}},
		"also":                 []object{{"shell": "bash", "script": "true", "also": 1}},
		"want array":           "true",
		"want object":          []string{"true"},
		"a script has no NUL":  []object{script("bash", "\x00")},
		"[0].script: want str": []object{{"shell": "bash", "script": 1}},
	} {
		env := push(bad)
		if got := show(env["rejectionReason"]); !strings.Contains(got, "shellInitScripts") || !strings.Contains(got, why) {
			t.Errorf("%s: %s", why, got)
		}
		a.fails(-32602, "createSession", object{"channel": "demo:/bad", "config": object{"shellInitScripts": bad}})
	}
	if got := values(); got != show(second) {
		t.Errorf("after the refusals the scripts are %s", got)
	}
	push([]object{script("powershell", "exit 9")})
	if got := run("t3"); strings.Contains(got, "hello one") || strings.Contains(got, "hello two") {
		t.Errorf("with a script for another shell: %s", got)
	}
	push(second)
	a.agree(g, uri, chat)

	g.stop()
	g.start()
	a = g.connect("late")
	a.subscribe(uri)
	a.subscribe(chat)
	if got := values(); got != show(second) {
		t.Errorf("after a restart the scripts are %s", got)
	}
	if got := run("t4"); !strings.Contains(got, `hello two\nran`) {
		t.Errorf("after a restart: %s", got)
	}
	push([]object{})
	if got := values(); got != "[]" {
		t.Errorf("taken back, the scripts are %s", got)
	}
	if got := run("t5"); strings.Contains(got, "hello two") {
		t.Errorf("taken back: %s", got)
	}
	a.agree(g, uri)
}
