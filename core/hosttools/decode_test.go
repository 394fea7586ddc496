package hosttools

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
)

// FuzzArguments: whatever an agent sends, it is decoded or refused in words.
func FuzzArguments(f *testing.F) {
	for _, s := range []string{`{}`, `{"session":"x"}`, `{"status":["idle"],"createdAfter":"2025-01-31T00:00:00Z"}`, `{"session":null}`, `[]`, `null`, `{"a":1}x`,
		`{"relationship":"independent","prompt":"p","title":"t","workspace":"/","worktree":false,"model":"m"}`, `{"transcriptLimit":1e999}`,
		strings.Repeat(`{"status":`, 40), `{"Session":"x"}`, `{"type":"commit","label":"l","isArtifact":true,"link":"https://github.com/x","commitHash":"c"}`,
		`{"type":"file","label":"l","isArtifact":false,"uri":"file:///x"}`, `{"session":"a","session":"b"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, into := range []any{&listInput{}, &createInput{}, &contextInput{}, &artifactInput{}, &struct{}{}} {
			err := decode(raw, into)
			if err == nil && !json.Valid(raw) {
				t.Errorf("taken: %q", raw)
			}
			if err != nil {
				if _, meant := said(err); !meant {
					t.Errorf("%q: not in words: %v", raw, err)
				}
				continue
			}
			switch in := into.(type) {
			case *listInput:
				_ = in.check()
			case *createInput:
				_ = in.check()
			case *artifactInput:
				if a, err := in.artifact(); err == nil && a.Link == "" && a.URI == "" {
					t.Errorf("recorded without an address: %q", raw)
				}
			}
		}
	})
}

// TestEveryToolIsWhole: each has words, a schema of an object, and something
// that runs it.
func TestEveryToolIsWhole(t *testing.T) {
	t.Parallel()
	set := New(slog.New(slog.DiscardHandler))
	set.Lend(Lent{Comments: struct{ Comments }{}, Resources: struct{ Resources }{}})
	list := set.List()
	for _, tool := range list {
		var schema struct {
			Type       string                     `json:"type"`
			Properties map[string]json.RawMessage `json:"properties"`
			Required   []string                   `json:"required"`
		}
		if runners[tool.Name] == nil || tool.Title == "" || tool.Description == "" || tool.Tag == "" ||
			json.Unmarshal(tool.Schema, &schema) != nil || schema.Type != "object" || schema.Properties == nil {
			t.Errorf("%+v", tool)
		}
		for _, name := range schema.Required {
			if schema.Properties[name] == nil {
				t.Errorf("%s: %s is required and not described", tool.Name, name)
			}
		}
	}
	if len(list) != len(runners) {
		t.Errorf("%d tools and %d that run", len(list), len(runners))
	}
}
