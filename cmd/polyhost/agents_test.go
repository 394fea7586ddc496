package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/cmd/polyhost/internal/doctor"
	"github.com/polyhost/polyhost/core/procgroup/proctest"
)

// The programs of agents, each with something that is wrong.
var ill = map[string]string{
	"codex": `echo codex-cli 0.1.0`,
	"pi":    `echo "no such module" >&2; exit 3`,
	"claude": `case "$*" in *--version*) echo "2.1.332 (Claude Code)"; exit;; esac
read -r line
id=$(printf %s "$line" | sed 's/.*"request_id":"\([^"]*\)".*/\1/')
echo '{"type":"control_response","response":{"subtype":"success","request_id":"'$id'","response":{"commands":[],"models":[],"account":{}}}}'
cat >/dev/null`,
}

// illHome is a home on whose path there are only these programs.
func illHome(t *testing.T) *home {
	t.Helper()
	h := newHome(t, quick)
	bin := filepath.Join(filepath.Dir(h.place.Home), "bin")
	for _, dir := range []string{bin, h.place.Home} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, script := range ill {
		proctest.Script(t, filepath.Join(bin, name), "#!/bin/sh\n"+script+"\n")
	}
	h.place.Env = []string{"PATH=" + bin + ":/usr/bin:/bin"}
	return h
}

func TestDoctorSaysWhatEachAgentLacksAndHowItIsMended(t *testing.T) {
	t.Parallel()
	h := illHome(t)
	check := func(when string) {
		t.Helper()
		o := h.run("doctor", "--json", "--port-base", "0")
		if o.code != 1 {
			t.Errorf("%s: exit code %d", when, o.code)
		}
		var findings []doctor.Finding
		if err := json.Unmarshal([]byte(o.stdout), &findings); err != nil {
			t.Fatalf("%v in %s %s", err, o.stdout, o.stderr)
		}
		for _, want := range []struct {
			state      doctor.State
			words, fix string
		}{
			{doctor.Good, "demo", ""},
			{doctor.Good, "gemini: Gemini CLI is not installed", "npm install -g @google/gemini-cli"},
			{doctor.Wrong, "codex: Codex 0.1.0 is too old", "npm install -g @openai/codex"},
			{doctor.Wary, "claude: Claude Code is not signed in", "claude auth login"},
			{doctor.Wrong, "pi: pi does not start", "npm install -g"},
		} {
			if !slices.ContainsFunc(findings, func(f doctor.Finding) bool {
				return f.Check == "agent" && f.State == want.state && strings.Contains(f.Detail, want.words) && strings.HasPrefix(f.Fix, want.fix)
			}) {
				t.Errorf("%s: no finding %+v in %+v", when, want, findings)
			}
		}
	}
	check("without a gateway")
	if left := h.processes(); len(left) > 0 {
		t.Errorf("the doctor left processes %v", left)
	}
	h.start()
	check("of a running gateway")
	var plugins []string
	for _, pid := range h.processes() {
		if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil {
			plugins = append(plugins, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	if slices.ContainsFunc(plugins, func(line string) bool { return strings.Contains(line, "backend gemini") }) {
		t.Errorf("a plugin runs for an agent that is not there: %q", plugins)
	}
	if text := h.run("doctor").stdout; !strings.Contains(text, "mend it with: claude auth login") || !strings.Contains(text, "if you want it: npm install -g @google/gemini-cli") {
		t.Errorf("doctor prints\n%s", text)
	}
	h.stop()
}

func TestADefaultAgentThatIsNotInstalledIsRefused(t *testing.T) {
	t.Parallel()
	h := illHome(t)
	for _, args := range [][]string{
		{"serve", "--backend", "gemini"},
		{"serve", "--backend", "mine", "--acp-agents", "mine=no-such-program --acp"},
	} {
		o := h.run(append(args, "--port-base", "0")...)
		if o.code != 1 || !strings.Contains(o.stderr, "is not installed") || !strings.Contains(o.stderr, args[2]) {
			t.Errorf("%v: exit code %d, %s", args, o.code, o.stderr)
		}
	}
	if o := h.run("serve", "--backend", "gemini", "--port-base", "0"); !strings.Contains(o.stderr, "npm install -g @google/gemini-cli") {
		t.Errorf("it is not said how: %s", o.stderr)
	}
	if o := h.run("doctor", "--json", "--backend", "gemini", "--port-base", "0"); !strings.Contains(o.stdout, `"state":"wrong","detail":"gemini: `) {
		t.Errorf("doctor finds nothing wrong: %s", o.stdout)
	}
}
