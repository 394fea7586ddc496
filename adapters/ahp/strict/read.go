package strict

import (
	"encoding/json"
	"fmt"
	"strings"
)

// shape is one type of the table.
type shape struct {
	kind     string // any, string, number, boolean, null, name, literal, list, map, object, union
	name     string
	value    any
	of       *shape
	fields   map[string]*shape
	required map[string]bool
	options  []*shape
}

// fits reports whether v can be meant as s: of its kind, and with the literals
// that tell variants apart.
func (s *shape) fits(v any) bool {
	switch s.kind {
	case "any":
		return true
	case "name":
		return shapes[s.name] != nil && shapes[s.name].fits(v)
	case "literal":
		return v == s.value
	case "list":
		_, ok := v.([]any)
		return ok
	case "union":
		for _, o := range s.options {
			if o.fits(v) {
				return true
			}
		}
		return false
	case "map", "object":
		m, ok := v.(map[string]any)
		for k, f := range s.fields {
			if x, there := m[k]; s.required[k] && f.tells(there) && !f.fits(x) {
				return false
			}
		}
		return ok
	}
	return kindOf(v) == s.kind
}

// tells reports whether s tells variants apart: by one literal, or by one of
// several where the key is there.
func (s *shape) tells(there bool) bool {
	return s.kind == "literal" || there && s.kind == "union" && s.options[0].kind == "literal"
}

// read reads the table; it is part of the program, so what cannot be read is a
// fault of ours.
func read(text string) map[string]*shape {
	all := map[string]*shape{}
	for i, line := range strings.Split(text, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		name, rest, _ := strings.Cut(line, " = ")
		p := parser{rest: rest}
		all[name] = p.union()
		if p.rest != "" || p.failed {
			panic(fmt.Sprintf("strict: shapes.txt line %d is wrong before %q", i+1, p.rest))
		}
	}
	return all
}

type parser struct {
	rest   string
	failed bool
}

// take drops a token if it comes next.
func (p *parser) take(token string) bool {
	rest, ok := strings.CutPrefix(strings.TrimLeft(p.rest, " "), token)
	if ok {
		p.rest = strings.TrimLeft(rest, " ")
	}
	return ok
}

func (p *parser) want(token string) {
	if !p.take(token) {
		p.failed = true
	}
}

func (p *parser) union() *shape {
	s := p.one()
	if !strings.HasPrefix(p.rest, "|") {
		return s
	}
	u := &shape{kind: "union", options: []*shape{s}}
	for p.take("|") {
		u.options = append(u.options, p.one())
	}
	return u
}

func (p *parser) one() *shape {
	switch {
	case p.take("["):
		s := &shape{kind: "list", of: p.union()}
		p.want("]")
		return s
	case p.take("map<"):
		s := &shape{kind: "map", of: p.union()}
		p.want(">")
		return s
	case p.take("{"):
		return p.object()
	}
	word := p.word()
	switch word {
	case "any", "string", "number", "boolean", "null":
		return &shape{kind: word}
	}
	var v any
	if json.Unmarshal([]byte(word), &v) == nil {
		return &shape{kind: "literal", value: v}
	}
	return &shape{kind: "name", name: word}
}

// word reads up to what ends a type; a string may hold anything but quotes.
func (p *parser) word() string {
	end := strings.IndexAny(p.rest, ",]}>| ")
	if strings.HasPrefix(p.rest, `"`) {
		end = strings.Index(p.rest[1:], `"`) + 2
	}
	if end < 0 {
		end = len(p.rest)
	}
	word := p.rest[:end]
	p.rest = strings.TrimLeft(p.rest[end:], " ")
	p.failed = p.failed || word == ""
	return word
}

func (p *parser) object() *shape {
	s := &shape{kind: "object", fields: map[string]*shape{}, required: map[string]bool{}}
	for !p.take("}") {
		key, rest, ok := strings.Cut(p.rest, ": ")
		if !ok {
			p.failed = true
			return s
		}
		p.rest = rest
		name := strings.TrimSuffix(key, "?")
		s.fields[name], s.required[name] = p.union(), name == key
		p.take(",")
	}
	return s
}
