package cognitio

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// schemas validates values against the protocol's own document. It knows the
// keywords that the document uses and fails on others.
type schemas struct {
	Paths map[string]map[string]struct {
		OperationID string `json:"operationId"`
		Responses   map[string]struct {
			Content map[string]struct {
				Schema any `json:"schema"`
			} `json:"content"`
		} `json:"responses"`
	} `json:"paths"`
	Components struct {
		Schemas map[string]any `json:"schemas"`
	} `json:"components"`
}

var loadSchemas = sync.OnceValues(func() (*schemas, error) {
	var s schemas
	err := json.Unmarshal(document, &s)
	return &s, err
})

func protocol(t testing.TB) *schemas {
	t.Helper()
	s, err := loadSchemas()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// response is the schema of an operation's 200 answer.
func (s *schemas) response(op string) any {
	for _, methods := range s.Paths {
		for _, o := range methods {
			if o.OperationID == op {
				return o.Responses["200"].Content["application/json"].Schema
			}
		}
	}
	return nil
}

func (s *schemas) check(name string, v any) error {
	schema, ok := s.Components.Schemas[name]
	if !ok {
		return fmt.Errorf("no schema %q", name)
	}
	return s.valid(schema, v, "")
}

// event checks an event against the schema of its own type, whose complaint
// says more than that of the union.
func (s *schemas) event(v map[string]any) error {
	kind, _ := v["type"].(string)
	return s.check("Event."+kind, v)
}

var knownKeywords = map[string]bool{"$ref": true, "type": true, "const": true, "enum": true, "pattern": true, "format": true, "properties": true,
	"required": true, "anyOf": true, "items": true, "additionalProperties": true, "propertyNames": true, "minimum": true, "maximum": true,
	"exclusiveMinimum": true, "default": true, "minItems": true, "maxItems": true, "minLength": true, "maxLength": true, "prefixItems": true, "description": true, "ref": true, "oneOf": true, "allOf": true, "not": true, "title": true}

func (s *schemas) valid(schema, v any, at string) error {
	m, ok := schema.(map[string]any)
	if !ok {
		return nil
	}
	for k := range m {
		if !knownKeywords[k] {
			return fmt.Errorf("%s: the validator does not know %q", at, k)
		}
	}
	if ref, ok := m["$ref"].(string); ok {
		name := strings.TrimPrefix(ref, "#/components/schemas/")
		return s.valid(s.Components.Schemas[name], v, at)
	}
	if any, ok := m["anyOf"].([]any); ok {
		var all []string
		for _, sub := range any {
			err := s.valid(sub, v, at)
			if err == nil {
				return nil
			}
			all = append(all, err.Error())
		}
		return fmt.Errorf("%s: fits none of: %s", at, strings.Join(all, " | "))
	}
	if c, ok := m["const"]; ok && !reflect.DeepEqual(c, v) {
		return fmt.Errorf("%s: want %v, got %v", at, c, v)
	}
	if e, ok := m["enum"].([]any); ok {
		found := false
		for _, c := range e {
			found = found || reflect.DeepEqual(c, v)
		}
		if !found {
			return fmt.Errorf("%s: %v is none of %v", at, v, e)
		}
	}
	switch m["type"] {
	case "object":
		return s.object(m, v, at)
	case "array":
		a, ok := v.([]any)
		if !ok {
			return fmt.Errorf("%s: want array, got %T", at, v)
		}
		for i, e := range a {
			if err := s.valid(m["items"], e, fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
	case "string":
		str, ok := v.(string)
		if !ok {
			return fmt.Errorf("%s: want string, got %T", at, v)
		}
		if p, ok := m["pattern"].(string); ok && !regexp.MustCompile(p).MatchString(str) {
			return fmt.Errorf("%s: %q does not match %s", at, str, p)
		}
	case "number", "integer":
		n, ok := v.(float64)
		if !ok || m["type"] == "integer" && n != math.Trunc(n) {
			return fmt.Errorf("%s: want %s, got %v", at, m["type"], v)
		}
		if lo, ok := m["minimum"].(float64); ok && n < lo {
			return fmt.Errorf("%s: %v is under %v", at, n, lo)
		}
	case "boolean":
		if _, ok := v.(bool); !ok {
			return fmt.Errorf("%s: want boolean, got %T", at, v)
		}
	case "null":
		if v != nil {
			return fmt.Errorf("%s: want null, got %T", at, v)
		}
	}
	return nil
}

func (s *schemas) object(m map[string]any, v any, at string) error {
	o, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("%s: want object, got %T", at, v)
	}
	props, _ := m["properties"].(map[string]any)
	if req, ok := m["required"].([]any); ok {
		for _, k := range req {
			if _, ok := o[k.(string)]; !ok {
				return fmt.Errorf("%s: %s is missing", at, k)
			}
		}
	}
	for k, val := range o {
		sub, known := props[k]
		if !known {
			if m["additionalProperties"] == false {
				return fmt.Errorf("%s: %s is not allowed", at, k)
			}
			sub = m["additionalProperties"]
		}
		if err := s.valid(sub, val, at+"."+k); err != nil {
			return err
		}
	}
	return nil
}
