package cognitio

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/polyhost/polyhost/core/event"
)

// ruleActor settles what a session's own rules decide.
var ruleActor = event.Actor{Front: Name, Client: "rules", Name: "the session's permission rules"}

// rule is one line of a session's rule set; the last that matches counts.
type rule struct {
	Permission string `json:"permission" jsonx:"required"`
	Pattern    string `json:"pattern" jsonx:"required"`
	Action     string `json:"action" jsonx:"required"`
}

const (
	actionAllow = "allow"
	actionDeny  = "deny"
	actionAsk   = "ask"
)

// checkRules refuses a rule set that could not be followed.
func checkRules(field string, rules []rule) error {
	if len(rules) > maxRules {
		return badPayload(field, "%s: at most %d rules", field, maxRules)
	}
	for n, r := range rules {
		if !slices.Contains([]string{actionAllow, actionDeny, actionAsk}, r.Action) {
			return badPayload(field, `%s[%d].action: want "allow", "deny" or "ask", got %.40q`, field, n, r.Action)
		}
	}
	return nil
}

// ruleSet is all that a session says of permissions here.
type ruleSet struct {
	rules []rule
	// allowed and disallowed are whole tools.
	allowed, disallowed []string
	// refuse: what would be asked is denied.
	refuse bool
	// callback: an SDK wants to be asked too.
	callback bool
}

func rulesOf(info *event.SessionInfo) ruleSet {
	var s ruleSet
	if raw := info.Meta[metaPermission]; raw != nil && json.Unmarshal(raw, &s.rules) != nil {
		s.rules = nil
	}
	rc := runtimeOf(info)
	s.allowed, s.disallowed = rc.AllowedTools, rc.DisallowedTools
	s.refuse, s.callback = rc.PermissionMode == modeDontAsk, rc.CanUseTool
	return s
}

// decide settles an approval by the rules, or gives "" where a person is to be
// asked. Rules never allow what touches settings or secrets.
func (s ruleSet) decide(i *event.Interaction, dir string) (event.Outcome, string) {
	action := s.action(i, dir)
	switch {
	case action == actionDeny:
		return event.Denied, "the session's rules deny it"
	case action == actionAllow && i.Tag != event.TagConfig && i.Tag != event.TagSecret:
		return event.Allowed, ""
	case s.refuse:
		return event.Denied, "the session runs without asking"
	}
	return "", ""
}

func (s ruleSet) action(i *event.Interaction, dir string) string {
	named := func(tools []string) bool {
		return slices.ContainsFunc(tools, func(t string) bool { return toolName(t) == toolName(i.Tool) })
	}
	if named(s.disallowed) {
		return actionDeny
	}
	// Each file or command must be allowed; one that is denied denies all.
	out := actionAllow
	for _, p := range patternsOf(i, dir) {
		switch s.last(i, p) {
		case actionDeny:
			return actionDeny
		case actionAllow:
		default:
			out = actionAsk
		}
	}
	if out == actionAsk && named(s.allowed) {
		return actionAllow
	}
	return out
}

// last is the action of the last rule that matches.
func (s ruleSet) last(i *event.Interaction, pattern string) string {
	for n := len(s.rules) - 1; n >= 0; n-- {
		r := s.rules[n]
		if !wildcard(r.Permission, permissionName(i)) && !wildcard(r.Permission, toolName(i.Tool)) || !wildcard(r.Pattern, pattern) {
			continue
		}
		// A pattern is about one program. The policy gives no pattern of its
		// own for a line that runs several, and then only "*" may allow it.
		if r.Action == actionAllow && i.Tag == event.TagExec && r.Pattern != "*" && i.Pattern == "" {
			return actionAsk
		}
		return r.Action
	}
	return actionAsk
}

// wildcard matches with "*" for any text and "?" for one character. A pattern
// that ends in " *" also matches without arguments.
func wildcard(pattern, s string) bool {
	if bare, ok := strings.CutSuffix(pattern, " *"); ok && bare == s {
		return true
	}
	star, mark := -1, 0
	i, j := 0, 0
	for j < len(s) {
		switch {
		case i < len(pattern) && pattern[i] == '*':
			star, mark = i, j
			i++
		case i < len(pattern) && (pattern[i] == '?' || pattern[i] == s[j]):
			i++
			j++
		case star >= 0:
			mark++
			i, j = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[i:], "*") == ""
}
