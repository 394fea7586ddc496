package snowpea

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// schema is the part of JSON Schema that the protocol uses.
type schema struct {
	Type       types              `json:"type"`
	Enum       []json.RawMessage  `json:"enum"`
	Const      json.RawMessage    `json:"const"`
	Properties map[string]*schema `json:"properties"`
	Required   []string           `json:"required"`
	Items      *schema            `json:"items"`
	AnyOf      []*schema          `json:"anyOf"`
	Additional *schema            `json:"additionalProperties"`
}

// types is one type name or a list of them.
type types []string

func (t *types) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '[' {
		return json.Unmarshal(b, (*[]string)(t))
	}
	var one string
	if err := json.Unmarshal(b, &one); err != nil {
		return err
	}
	*t = types{one}
	return nil
}

func mustSchema(b []byte) *schema {
	s := new(schema)
	if err := json.Unmarshal(b, s); err != nil {
		panic(fmt.Sprintf("snowpea: schema %.80s: %v", b, err))
	}
	return s
}

// violation is one entry of data.details of an invalid_params error.
type violation struct {
	Loc  []any  `json:"loc"`
	Msg  string `json:"msg"`
	Type string `json:"type"`
}

// check lists what is wrong with a JSON document of bounded depth that is
// known to be well formed; at most maxViolations entries.
func (s *schema) check(doc []byte) []violation {
	var value any
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	if err := d.Decode(&value); err != nil {
		return []violation{{Loc: []any{}, Msg: "not a JSON document", Type: "json_invalid"}}
	}
	c := checker{}
	c.value(s, value)
	return c.found
}

type checker struct {
	path  []any
	found []violation
}

func (c *checker) report(kind, format string, args ...any) {
	if len(c.found) < maxViolations {
		c.found = append(c.found, violation{Loc: append([]any{}, c.path...), Msg: fmt.Sprintf(format, args...), Type: kind})
	}
}

func (c *checker) value(s *schema, v any) {
	switch {
	case len(s.AnyOf) > 0:
		c.anyOf(s, v)
		return
	case s.Const != nil:
		c.literal([]json.RawMessage{s.Const}, v)
		return
	case s.Enum != nil:
		c.literal(s.Enum, v)
		return
	}
	if len(s.Type) > 0 && !slices.ContainsFunc(s.Type, func(t string) bool { return typeOf(v) == t }) {
		c.report(s.Type[0]+"_type", "must be %s, not %s", strings.Join(s.Type, " or "), typeOf(v))
		return
	}
	switch v := v.(type) {
	case map[string]any:
		c.object(s, v)
	case []any:
		if s.Items != nil {
			for i, e := range v {
				c.at(i, func() { c.value(s.Items, e) })
			}
		}
	}
}

func (c *checker) at(step any, f func()) {
	c.path = append(c.path, step)
	f()
	c.path = c.path[:len(c.path)-1]
}

func (c *checker) object(s *schema, v map[string]any) {
	for _, name := range s.Required {
		if _, ok := v[name]; !ok {
			c.at(name, func() { c.report("missing", "this field is required") })
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		field := s.Properties[name]
		if field == nil {
			field = s.Additional
		}
		if field != nil {
			c.at(name, func() { c.value(field, v[name]) })
		}
	}
}

// anyOf reports against the alternative that fits best: the protocol's
// alternatives are one shape, or null.
func (c *checker) anyOf(s *schema, v any) {
	var best []violation
	for i, alternative := range s.AnyOf {
		try := checker{path: slices.Clone(c.path)}
		try.value(alternative, v)
		if len(try.found) == 0 {
			return
		}
		if i == 0 {
			best = try.found
		}
	}
	for _, f := range best {
		if len(c.found) < maxViolations {
			c.found = append(c.found, f)
		}
	}
}

func (c *checker) literal(allowed []json.RawMessage, v any) {
	words := make([]string, len(allowed))
	for i, a := range allowed {
		var want any
		if json.Unmarshal(a, &want) == nil && want == v {
			return
		}
		words[i] = string(a)
	}
	c.report("literal_error", "must be one of %s", strings.Join(words, ", "))
}

func typeOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case json.Number:
		return "number"
	case []any:
		return "array"
	}
	return "object"
}
