// Package strict judges what a host of the Agent Host Protocol says by the
// protocol's shapes, closed: no key that is not declared, no required one
// missing, no null where a key should be absent, and each action on a channel
// of its kind. Clients that read loosely would not notice.
//
// The tests hold every frame of the front against it; nothing else uses it. It
// knows the protocol and not the gateway. The shapes are in shapes.txt, which
// says how it is read.
package strict

//go:generate sh -c "go run ./gen -schema $AHP_SCHEMA > shapes.txt.new && mv shapes.txt.new shapes.txt"

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

//go:embed shapes.txt
var text string

// shapes are the shapes by name.
var shapes = read(text)

// mostProblems bounds what is said of one value.
const mostProblems = 8

// Shape checks a decoded value (as encoding/json makes of it) against the named
// shape. The error lists what is wrong and where.
func Shape(name string, v any) error {
	c := checker{}
	c.check(&shape{kind: "name", name: name}, v, name, "")
	return c.err()
}

type checker struct{ problems []string }

func (c *checker) err() error {
	if len(c.problems) == 0 {
		return nil
	}
	return fmt.Errorf("%s", strings.Join(c.problems[:min(len(c.problems), mostProblems)], "; "))
}

func (c *checker) say(path, format string, args ...any) {
	c.problems = append(c.problems, path+": "+fmt.Sprintf(format, args...))
}

// check holds v against s; owner is the name of the nearest named shape.
func (c *checker) check(s *shape, v any, path, owner string) {
	switch s.kind {
	case "any":
	case "name":
		named := shapes[s.name]
		if named == nil {
			c.say(path, "there is no shape %s", s.name)
			return
		}
		c.check(named, v, path, s.name)
	case "literal":
		if v != s.value {
			c.say(path, "%s is not %s", show(v), show(s.value))
		}
	case "list":
		l, ok := v.([]any)
		if !ok {
			c.say(path, "%s is not a list", show(v))
		}
		for i, x := range l {
			c.check(s.of, x, fmt.Sprintf("%s[%d]", path, i), owner)
		}
	case "map":
		m, ok := v.(map[string]any)
		if !ok {
			c.say(path, "%s is not an object", show(v))
		}
		for _, k := range slices.Sorted(maps.Keys(m)) {
			c.check(s.of, m[k], path+"."+k, owner)
		}
	case "object":
		c.object(s, v, path, owner)
	case "union":
		c.union(s, v, path, owner)
	default:
		if kindOf(v) != s.kind {
			c.say(path, "%s is not a %s", show(v), s.kind)
		}
	}
}

func (c *checker) object(s *shape, v any, path, owner string) {
	m, ok := v.(map[string]any)
	if !ok {
		c.say(path, "%s is not an object", show(v))
		return
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if s.fields[k] == nil {
			c.say(path, "%s is not declared", k)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(s.fields)) {
		x, there := m[k]
		switch {
		case there:
			c.check(s.fields[k], x, path+"."+k, owner)
		case s.required[k]:
			c.say(path, "%s is missing", k)
		}
	}
	if meta, ok := m["_meta"].(map[string]any); ok && !theirs[owner] {
		for _, k := range slices.Sorted(maps.Keys(meta)) {
			if !strings.HasPrefix(k, "polyhost.") && !strings.HasPrefix(k, "ahpd.") && !strings.HasPrefix(k, "vscode.") && !strings.HasPrefix(k, "agentHost/") && !known[k] {
				c.say(path, "_meta.%s is neither ours (polyhost., ahpd.) nor known", k)
			}
		}
	}
}

// theirs are the shapes that clients fill and hosts repeat.
var theirs = map[string]bool{"Message": true, "SimpleMessageAttachment": true, "MessageEmbeddedResourceAttachment": true,
	"MessageResourceAttachment": true, "MessageAnnotationsAttachment": true, "MessageChatAttachment": true, "Annotation": true,
	"AnnotationEntry": true, "AutomationDefinition": true, "ToolDefinition": true, "ClientPluginCustomization": true}

// known are the keys of _meta that the protocol or its clients define.
var known = map[string]bool{"command": true, "description": true, "argumentHint": true, "uri": true, "isSkill": true, "toolKind": true,
	"subagentDescription": true, "subagentAgentName": true, "subagentChatUri": true, "progressMessage": true, "ui": true, "git": true, "github": true,
	"githubData": true, "workingDirectoryKeys": true}

// union takes the variants whose literals fit, so that what is said is about
// the variant that was meant.
func (c *checker) union(s *shape, v any, path, owner string) {
	var meant []*shape
	for _, o := range s.options {
		if o.fits(v) {
			meant = append(meant, o)
		}
	}
	var first checker
	for i, o := range meant {
		var try checker
		if try.check(o, v, path, owner); len(try.problems) == 0 {
			return
		}
		if i == 0 || len(try.problems) < len(first.problems) {
			first = try
		}
	}
	if len(meant) == 0 {
		c.say(path, "%s is none of the variants", show(v))
	}
	c.problems = append(c.problems, first.problems...)
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "string"
	case float64:
		return "number"
	case bool:
		return "boolean"
	}
	return ""
}

func show(v any) string {
	b, _ := json.Marshal(v)
	if len(b) > 120 {
		return string(b[:120]) + "…"
	}
	return string(b)
}
