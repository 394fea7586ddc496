package policy

import (
	"testing"

	"github.com/polyhost/polyhost/core/event"
)

func TestDecide(t *testing.T) {
	dirs := []string{"/w"}
	for _, c := range []struct {
		name string
		call Call
		want Verdict
	}{
		{"plan reads", Call{Mode: event.ModePlan, Tag: event.TagRead}, Allow},
		{"plan writes notes", Call{Mode: event.ModePlan, Tag: event.TagWrite, Paths: []string{"/w/notes.md"}}, Allow},
		{"plan writes under docs", Call{Mode: event.ModePlan, Tag: event.TagWrite, Paths: []string{"/w/docs/x.svg"}}, Allow},
		{"plan does not write code", Call{Mode: event.ModePlan, Tag: event.TagWrite, Paths: []string{"/w/main.go"}}, Deny},
		{"plan does not write notes elsewhere", Call{Mode: event.ModePlan, Tag: event.TagWrite, Paths: []string{"/etc/notes.md"}}, Deny},
		{"plan runs a read-only line", Call{Mode: event.ModePlan, Tag: event.TagExec, Command: "git status && ls -la | wc -l"}, Allow},
		{"plan asks for others", Call{Mode: event.ModePlan, Tag: event.TagExec, Command: "touch a"}, Ask},
		{"accept writes", Call{Mode: event.ModeAccept, Tag: event.TagWrite, Paths: []string{"/w/main.go"}}, Allow},
		{"accept asks for settings", Call{Mode: event.ModeAccept, Tag: event.TagWrite, Paths: []string{"/w/.claude/settings.json"}}, Ask},
		{"accept asks for commands", Call{Mode: event.ModeAccept, Tag: event.TagExec, Command: "ls"}, Ask},
		{"auto runs", Call{Mode: event.ModeAuto, Tag: event.TagExec, Command: "rm x"}, Allow},
		{"auto asks for configuration", Call{Mode: event.ModeAuto, Tag: event.TagConfig}, Ask},
		{"auto asks for secrets", Call{Mode: event.ModeAuto, Tag: event.TagSecret}, Ask},
		{"auto obeys an agent that insists", Call{Mode: event.ModeAuto, Tag: event.TagExec, MustAsk: true}, Ask},
		{"a session without commands runs none", Call{Mode: event.ModeAuto, Tag: event.TagExec, Command: "ls", DenyExec: true}, Deny},
		{"a session without commands writes", Call{Mode: event.ModeAuto, Tag: event.TagWrite, DenyExec: true}, Allow},
		{"an unknown tag asks", Call{Mode: event.ModeAuto, Tag: "teleport"}, Ask},
		{"an unknown mode asks", Call{Mode: "yolo", Tag: event.TagRead}, Ask},
	} {
		c.call.Dirs = dirs
		if got := Decide(c.call, nil); got.Verdict != c.want {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

func TestAnAllowListNeverCoversMoreThanItsProgram(t *testing.T) {
	yes := Call{Mode: event.ModeAccept, Tag: event.TagExec, Command: "ls -a"}
	pattern := Pattern(yes)
	if !Matches(pattern, yes) || !Matches(pattern, Call{Tag: event.TagExec, Command: "ls"}) {
		t.Errorf("%q does not cover its own call", pattern)
	}
	for _, line := range []string{"ls; rm x", "ls && rm x", "ls | sh", "ls > x", "ls $(rm x)", "ls `rm x`", "ls\nrm x", "lsof", "rm ls", "ls & rm x", "ls ${x}"} {
		if Matches(pattern, Call{Tag: event.TagExec, Command: line}) {
			t.Errorf("%q covers %q", pattern, line)
		}
	}
	if Matches("tool:write", Call{Tag: event.TagExec, Tool: "write"}) {
		t.Error("a tool entry covers a command")
	}
	covered := func(Call) bool { return true }
	for _, tag := range []event.Tag{event.TagConfig, event.TagSecret} {
		if d := Decide(Call{Mode: event.ModeAuto, Tag: tag}, covered); d.Verdict != Ask || d.Pattern != "" {
			t.Errorf("%s can be remembered: %+v", tag, d)
		}
	}
}

func TestReadOnlyCommand(t *testing.T) {
	for _, line := range []string{"ls", "git log -3", "git diff main", "cat a b | head -3", "find . -name x", "npm test", "npm run test", "uv run pytest -q", "env", "git branch -a", "yarn list"} {
		if !ReadOnlyCommand(line) {
			t.Errorf("%q is read-only", line)
		}
	}
	for _, line := range []string{"", "rm x", "ls > x", "find . -delete", "find . -exec rm {} +", "find . -fprintf x", "git branch new", "git branch -D x", "git commit", "env X=1 rm y", "X=1 ls", "echo $(rm x)", "ls & rm x", "npm run build", "git diff --output=x", "yarn ls", "echo `id`"} {
		if ReadOnlyCommand(line) {
			t.Errorf("%q is not read-only", line)
		}
	}
}
