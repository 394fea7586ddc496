// Package policy decides what an agent may do before a person is asked.
//
// Decide is pure: the mode's row for the call's tag, the read-only rules, the
// documents a plan may write, and the allow-list. Only what these do not
// settle is asked. An allow-list turns "ask" into "allow" and never a denial,
// and never covers configuration or secrets.
package policy

import (
	"path"
	"path/filepath"
	"strings"

	"github.com/polyhost/polyhost/core/event"
)

// Verdict is what the policy says of a call.
type Verdict int

const (
	Ask Verdict = iota
	Allow
	Deny
)

// Call is what the policy looks at.
type Call struct {
	Mode event.Mode
	Tag  event.Tag
	// Tool is the tool's name.
	Tool string
	// Command is the shell line of an exec call.
	Command string
	// Paths are the files it touches, absolute.
	Paths []string
	// Dirs are the session's working directories.
	Dirs []string
	// MustAsk: the agent insists on a person.
	MustAsk bool
	// DenyExec: the session runs no commands.
	DenyExec bool
}

// BySession in Decision.By: the session's own rule settled it.
const BySession = "session"

// Decision is a verdict with its reason.
type Decision struct {
	Verdict Verdict
	// By is "read_only", "mode", "allowlist" or BySession for what was settled.
	By string
	// Why is for people, when a person is asked or the call is denied.
	Why string
	// Pattern is what a wider answer would allow, "" if it cannot be wider.
	Pattern string
}

// rows is the permission matrix. A tag or mode that is not listed asks.
var rows = map[event.Mode]map[event.Tag]Verdict{
	event.ModePlan: {event.TagRead: Allow, event.TagWrite: Deny, event.TagNetwork: Allow,
		event.TagSend: Deny, event.TagConfig: Deny, event.TagDelegate: Allow},
	event.ModeAccept: {event.TagRead: Allow, event.TagWrite: Allow, event.TagDelegate: Allow},
	event.ModeAuto: {event.TagRead: Allow, event.TagWrite: Allow, event.TagExec: Allow,
		event.TagNetwork: Allow, event.TagSend: Allow, event.TagDelegate: Allow},
}

// Decide settles a call or says that a person must. allowed reports whether
// the allow-list covers a pattern of Pattern's form; it may be nil.
func Decide(c Call, allowed func(Call) bool) Decision {
	if c.DenyExec && c.Tag == event.TagExec {
		return Decision{Verdict: Deny, By: BySession, Why: "this session runs no commands"}
	}
	d := Decision{Pattern: Pattern(c)}
	if settings(c) {
		c.Tag = event.TagConfig
		d.Pattern = ""
	}
	if c.Tag == event.TagConfig || c.Tag == event.TagSecret {
		d.Pattern = ""
	}
	switch rows[c.Mode][c.Tag] {
	case Allow:
		if c.MustAsk {
			break
		}
		d.Verdict, d.By = Allow, "mode"
		if c.Tag == event.TagRead {
			d.By = "read_only"
		}
		return d
	case Deny:
		if c.Tag == event.TagWrite && documents(c) {
			d.Verdict, d.By = Allow, "mode"
			return d
		}
		d.Verdict, d.By = Deny, "mode"
		d.Why = "mode " + string(c.Mode) + " does not allow " + string(c.Tag) + " calls"
		return d
	}
	if c.Mode == event.ModePlan && c.Tag == event.TagExec && !c.MustAsk && ReadOnlyCommand(c.Command) {
		d.Verdict, d.By = Allow, "read_only"
		return d
	}
	if d.Pattern != "" && !c.MustAsk && allowed != nil && allowed(c) {
		d.Verdict, d.By = Allow, "allowlist"
		return d
	}
	d.Why = "mode " + string(c.Mode) + " asks before " + string(c.Tag) + " calls"
	return d
}

// Pattern is what an answer wider than once covers: the first word of a plain
// shell line ("ls *"), else the tool's name. A line that does more than call
// one program cannot be remembered: "".
func Pattern(c Call) string {
	if c.Tag != event.TagExec {
		return "tool:" + c.Tool
	}
	if Compound(c.Command) {
		return ""
	}
	word, _, _ := strings.Cut(strings.TrimSpace(c.Command), " ")
	if word == "" || strings.ContainsAny(word, "=\"'\\*?[") {
		return ""
	}
	return word + " *"
}

// Matches reports whether a pattern of Pattern's form covers a call.
func Matches(pattern string, c Call) bool {
	if tool, ok := strings.CutPrefix(pattern, "tool:"); ok {
		return tool == c.Tool && c.Tag != event.TagExec
	}
	word, ok := strings.CutSuffix(pattern, " *")
	return ok && c.Tag == event.TagExec && Pattern(c) == word+" *"
}

// Risk is how much a call could do, for people: low, medium or high.
func Risk(t event.Tag) string {
	switch t {
	case event.TagRead, event.TagDelegate:
		return "low"
	case event.TagWrite, event.TagNetwork:
		return "medium"
	}
	return "high"
}

// documents reports whether all files of a call are documents inside the
// working directories: what a plan may write.
func documents(c Call) bool {
	if len(c.Paths) == 0 {
		return false
	}
	for _, p := range c.Paths {
		rel, ok := inside(c.Dirs, p)
		if !ok {
			return false
		}
		switch strings.ToLower(path.Ext(rel)) {
		case ".md", ".markdown", ".txt":
			continue
		}
		if !strings.HasPrefix(rel, "docs/") {
			return false
		}
	}
	return true
}

// settings reports whether a write lands on settings of an agent or of the
// gateway: that counts as configuration whatever the tool says.
func settings(c Call) bool {
	if c.Tag != event.TagWrite {
		return false
	}
	for _, p := range c.Paths {
		rel, ok := inside(c.Dirs, p)
		if !ok {
			continue
		}
		dir, _, _ := strings.Cut(rel, "/")
		switch dir {
		case ".snowpea", ".claude", ".codex", ".gemini", ".opencode", ".polyhost", ".vscode", ".git", ".mcp.json", "opencode.json":
			return !strings.HasPrefix(rel, ".snowpea/plans/")
		}
	}
	return false
}

// inside gives a path relative to the working directory that holds it, with
// slashes.
func inside(dirs []string, p string) (string, bool) {
	for _, d := range dirs {
		if rel, err := filepath.Rel(d, p); err == nil && filepath.IsLocal(rel) {
			return filepath.ToSlash(rel), true
		}
	}
	return "", false
}
