package cognitio

import (
	"encoding/json"
	"strings"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/transports/jsonx"
)

// Clients draw the well-known tools from fields of their input, and agents
// name those fields in their own ways. The input is shown with the names that
// clients look for added; what the agent sent stays.

// inputNames are, for a tool, a field and the names that agents have for it.
var inputNames = map[string]map[string][]string{
	"read":  {"filePath": {"file_path", "path", "file", "filename"}},
	"write": {"filePath": {"file_path", "path", "file", "filename"}, "content": {"text", "contents", "new_content"}},
	"edit":  {"filePath": {"file_path", "path", "file", "filename"}, "oldString": {"old_string", "old_text", "oldText"}, "newString": {"new_string", "new_text", "newText"}},
	"task":  {"description": {"title", "name"}, "prompt": {"text", "message", "task"}, "subagent_type": {"agent", "subagentType", "name"}},
	"list":  {"path": {"dir", "directory"}},
}

// inputOf is a call's input as clients read it: always a JSON object.
func inputOf(t *event.Tool) json.RawMessage {
	input := objectOf(t.Input)
	names := inputNames[toolName(t.Name)]
	if names == nil {
		return input
	}
	var have map[string]json.RawMessage
	if json.Unmarshal(input, &have) != nil {
		return input
	}
	added := false
	for field, others := range names {
		if _, ok := have[field]; ok {
			continue
		}
		for _, o := range others {
			if v, ok := have[o]; ok && len(v) > 0 && v[0] == '"' {
				have[field], added = v, true
				break
			}
		}
	}
	if _, ok := have["filePath"]; !ok && names["filePath"] != nil && len(t.Edits) > 0 {
		if v, err := jsonx.Encode(t.Edits[0].Path); err == nil {
			have["filePath"], added = v, true
		}
	}
	if !added {
		return input
	}
	out, err := jsonx.Encode(have)
	if err != nil {
		return input
	}
	return out
}

// objectOf makes sure that an input is a JSON object, as clients index it.
func objectOf(input json.RawMessage) json.RawMessage {
	s := strings.TrimSpace(string(input))
	switch {
	case s == "" || s == "null":
		return json.RawMessage("{}")
	case s[0] != '{':
		return json.RawMessage(`{"input":` + s + `}`)
	}
	return input
}
