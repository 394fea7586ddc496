package pi

import (
	"encoding/json"
	"strings"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// tags of pi's own tools; those of extensions may do anything.
var tags = map[string]event.Tag{
	"read": event.TagRead, "grep": event.TagRead, "find": event.TagRead, "ls": event.TagRead,
	"write": event.TagWrite, "edit": event.TagWrite,
	"bash": event.TagExec,
}

// clientServer is the server that clients' tools are shown under, as with
// agents that reach them over MCP.
const clientServer = "polyhost"

// toolInput is what pi's own tools take.
type toolInput struct {
	Command string `json:"command"`
	Path    string `json:"path"`
	Content string `json:"content"`
	Edits   []struct {
		Old string `json:"oldText"`
		New string `json:"newText"`
	} `json:"edits"`
	Pattern string `json:"pattern"`
}

// describe says what a call is about.
func (m *mapper) describe(name string, input json.RawMessage) agent.Tool {
	t := agent.Tool{Name: name, Title: name, Tag: tags[name], Input: input}
	if t.Tag == "" {
		t.Tag = event.TagExec
		if m.clients[name] {
			t.Server, t.Tag = clientServer, ""
		}
		return t
	}
	var in toolInput
	if json.Unmarshal(input, &in) != nil {
		return t
	}
	switch {
	case in.Command != "":
		t.Command, t.Title = in.Command, in.Command
	case in.Path != "":
		t.Paths, t.Title = []string{in.Path}, in.Path
	case in.Pattern != "":
		t.Title = in.Pattern
	}
	return t
}

// preview is what a call of pi's own tools would change.
func (m *mapper) preview(t agent.Tool) []event.FileEdit {
	var in toolInput
	if t.Tag != event.TagWrite || json.Unmarshal(t.Input, &in) != nil {
		return nil
	}
	after := in.Content
	if t.Name == "edit" {
		// pi looks for each text in the file as it was.
		b, err := m.dirs.Load(in.Path, maxEdited)
		if err != nil || len(b) > maxEdited {
			return nil
		}
		before := string(b)
		after = before
		for _, e := range in.Edits {
			if e.Old == "" || strings.Count(before, e.Old) != 1 {
				return nil // pi will refuse it
			}
			after = strings.Replace(after, e.Old, e.New, 1)
		}
	}
	e, err := m.dirs.Edit(in.Path, after)
	if err != nil {
		return nil
	}
	return []event.FileEdit{e}
}
