package codex

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// field is a field of the form that an MCP server shows.
type field struct {
	Type        string   `json:"type"`
	Title       string   `json:"title"`
	Description string   `json:"description"`
	Enum        []string `json:"enum"`
}

func formFields(schema json.RawMessage) map[string]field {
	var form struct {
		Properties map[string]field `json:"properties"`
	}
	if lenient(json.Unmarshal(schema, &form)) != nil {
		return nil
	}
	return form.Properties
}

// mcpApproval is in the meta of the program's own question whether a tool of an
// MCP server may be called.
type mcpApproval struct {
	Kind   string          `json:"codex_approval_kind"`
	Tool   string          `json:"tool_name"`
	Params json.RawMessage `json:"tool_params"`
}

// approvalOf returns it; its Kind is "" for another question.
func approvalOf(meta json.RawMessage) mcpApproval {
	var m mcpApproval
	if lenient(json.Unmarshal(meta, &m)) != nil {
		return mcpApproval{}
	}
	return m
}

// elicitation is a question of an MCP server, or the program's own question
// whether a tool of that server may be called.
func (c *conversation) elicitation(th *thread, r *request) []agent.Frame {
	a := &r.ask
	if p := approvalOf(a.Meta); p.Kind != "" {
		for id, call := range th.calls {
			it := &call.item
			if it.Type == "mcpToolCall" && !call.asked && it.Server == a.Server && it.Tool == p.Tool && sameJSON(object(it.Arguments), object(p.Params)) {
				call.asked = true
				tool := call.tool
				r.call, r.tool = id, tool
				return []agent.Frame{{Kind: agent.Permission, Call: id, Tool: &tool}}
			}
		}
		return nil // nobody could tell what would be allowed
	}
	fields := formFields(a.Schema)
	var items []event.QuestionItem
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		f := fields[name]
		q := event.QuestionItem{ID: name, Header: a.Server, Text: a.Message, FreeText: true}
		if f.Title != "" {
			q.Text = a.Message + "\n" + f.Title
		}
		if f.Description != "" {
			q.Text += ": " + f.Description
		}
		options := f.Enum
		if f.Type == "boolean" {
			options = []string{"true", "false"}
		}
		for _, o := range options {
			q.Options, q.FreeText = append(q.Options, event.QuestionOption{Label: o}), false
		}
		items = append(items, q)
	}
	if len(items) == 0 {
		text := a.Message
		if a.URL != "" {
			text += "\n" + a.URL
		}
		items = []event.QuestionItem{{ID: confirm, Header: a.Server, Text: text,
			Options: []event.QuestionOption{{Label: confirm}, {Label: "decline"}}}}
	}
	return []agent.Frame{{Kind: agent.Ask, Questions: items}}
}

// confirm is the question, and its answer, of a form without fields.
const confirm = "accept"

// elicited is the answer to an MCP server's question.
func elicited(a *ask, res event.Resolution) any {
	if approvalOf(a.Meta).Kind != "" && res.Outcome == event.Allowed {
		return map[string]any{"action": "accept", "content": map[string]any{}}
	}
	if res.Outcome != event.Answered {
		return map[string]any{"action": "decline"}
	}
	fields := formFields(a.Schema)
	content := map[string]any{}
	for _, x := range res.Answers {
		text := x.Text
		if len(x.Selected) > 0 {
			text = x.Selected[0]
		}
		if len(fields) == 0 && text != confirm {
			return map[string]any{"action": "decline"}
		}
		f, ok := fields[x.ID]
		if !ok || text == "" {
			continue
		}
		content[x.ID] = text
		switch f.Type {
		case "boolean":
			content[x.ID] = text == "true"
		case "number", "integer":
			if n, err := strconv.ParseFloat(text, 64); err == nil {
				content[x.ID] = n
			}
		}
	}
	return map[string]any{"action": "accept", "content": content}
}
