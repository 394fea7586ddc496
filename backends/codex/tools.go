package codex

import (
	"encoding/json"
	"path/filepath"
	"strings"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// The names of the program's own tools, as people see them.
const (
	toolShell  = "shell"
	toolPatch  = "apply_patch"
	toolSearch = "web_search"
	toolView   = "view_image"
	toolPaint  = "image_generation"
	toolGrant  = "request_permissions"
	toolSpawn  = "spawn_agent"

	// gateway is the name of the gateway's own MCP server, whose tools
	// clients run.
	gateway = "polyhost"
)

// startCall announces a tool call. One that runs already is said to run.
func (m *mapper) startCall(t *thread, it *item) []agent.Frame {
	if it.ID == "" || t.calls[it.ID] != nil || len(t.calls) >= maxOpenItems {
		return nil
	}
	tool, ok := m.tool(it)
	if !ok {
		m.log.Debug("codex began an item that is not shown", "type", it.Type)
		return nil
	}
	c := &callState{item: *it, tool: tool}
	t.calls[it.ID] = c
	announced := tool
	announced.Edits = nil
	frames := append(m.closeText(t), agent.Frame{Kind: agent.ToolStart, Call: it.ID, Tool: &announced})
	switch it.Type {
	case "commandExecution":
		if it.ProcessID == "" {
			return frames // it may be asked about
		}
	case "fileChange":
		return frames
	case "mcpToolCall":
		if it.Server != gateway {
			return frames // the same
		}
	}
	return append(frames, c.run()...)
}

// run says once that a call runs without having been asked about.
func (c *callState) run() []agent.Frame {
	if c.running {
		return nil
	}
	c.running = true
	if c.asked {
		return nil
	}
	return []agent.Frame{{Kind: agent.ToolRun, Call: c.item.ID, Tool: &c.tool}}
}

// output streams what a call writes.
func (m *mapper) output(t *thread, n *note) []agent.Frame {
	c := t.calls[n.ItemID]
	if c == nil || n.Delta == "" {
		return nil
	}
	frames := c.run()
	c.streamed = c.streamed || c.item.Type == "commandExecution"
	return append(frames, agent.Frame{Kind: agent.ToolOutput, Call: n.ItemID, Text: n.Delta})
}

// endCall ends a call; one that was never announced is announced first.
func (m *mapper) endCall(t *thread, it *item) []agent.Frame {
	var frames []agent.Frame
	c := t.calls[it.ID]
	if c == nil {
		frames = m.startCall(t, it)
		if c = t.calls[it.ID]; c == nil {
			return frames
		}
	}
	delete(t.calls, it.ID)
	result := m.result(c, it)
	if !result.Denied {
		frames = append(frames, c.run()...)
	}
	if it.Type == "collabAgentToolCall" && it.Tool == "spawnAgent" && !c.receivers {
		for _, id := range it.Receivers {
			if m.threads[id] == nil && len(m.threads) <= maxChildren {
				frames = append(frames, m.begin(id, t, c, "", it.Prompt)...)
			}
		}
	}
	frames = append(frames, agent.Frame{Kind: agent.ToolEnd, Call: it.ID, Result: &result})
	if it.Type == "imageGeneration" {
		frames = append(frames, painted(it)...)
	}
	return frames
}

// activity is how newer models tell of subagents: no call, but a remark.
func (m *mapper) activity(t *thread, it *item) []agent.Frame {
	if it.Kind != "started" || it.AgentThread == "" || m.threads[it.AgentThread] != nil || len(m.threads) > maxChildren {
		return nil
	}
	return append(m.closeText(t), m.begin(it.AgentThread, t, nil, filepath.Base(it.AgentPath), "")...)
}

// tool describes an item that is a call.
func (m *mapper) tool(it *item) (agent.Tool, bool) {
	switch it.Type {
	case "commandExecution":
		return commandTool(it.Command, it.Cwd, it.Actions), true
	case "fileChange":
		return m.patchTool(it), true
	case "mcpToolCall":
		return mcpTool(it), true
	case "dynamicToolCall":
		return agent.Tool{Name: it.Tool, Title: it.Tool, Tag: event.TagNetwork, Input: object(it.Arguments)}, true
	case "collabAgentToolCall":
		name := snake(it.Tool)
		if it.Tool == "spawnAgent" {
			name = toolSpawn
		}
		return agent.Tool{Name: name, Title: firstLine(it.Prompt, name), Tag: event.TagDelegate,
			Input: marshal(map[string]any{"prompt": it.Prompt, "agents": it.Receivers})}, true
	case "webSearch":
		return agent.Tool{Name: toolSearch, Title: firstLine(it.Query, "search the web"), Tag: event.TagNetwork,
			Input: marshal(map[string]any{"query": it.Query})}, true
	case "imageView":
		return agent.Tool{Name: toolView, Title: it.Path, Tag: event.TagRead, Paths: []string{it.Path},
			Input: marshal(map[string]any{"path": it.Path})}, true
	case "imageGeneration":
		return agent.Tool{Name: toolPaint, Title: "make an image", Tag: event.TagNetwork, Input: json.RawMessage(`{}`)}, true
	}
	return agent.Tool{}, false
}

func commandTool(command, cwd string, actions []commandAction) agent.Tool {
	line := shellLine(command)
	t := agent.Tool{Name: toolShell, Title: line, Tag: event.TagExec, Command: line,
		Input: marshal(map[string]any{"command": line, "cwd": cwd})}
	for _, a := range actions {
		if a.Path != "" {
			t.Paths = append(t.Paths, a.Path)
		}
	}
	return t
}

func mcpTool(it *item) agent.Tool {
	t := agent.Tool{Name: it.Tool, Title: it.Tool, Tag: event.TagNetwork, Server: it.Server, Input: object(it.Arguments)}
	if it.ReadOnly && it.Server != gateway {
		t.Tag = event.TagRead
	}
	return t
}

// patchTool describes a change of files, with the texts before and after as
// far as they can be had: the files still are as they were.
func (m *mapper) patchTool(it *item) agent.Tool {
	t := agent.Tool{Name: toolPatch, Tag: event.TagWrite, Input: marshal(map[string]any{"changes": it.Changes})}
	var names []string
	for i := range it.Changes {
		c := &it.Changes[i]
		t.Paths = append(t.Paths, c.Path)
		if c.Kind.Move != "" {
			t.Paths = append(t.Paths, c.Kind.Move)
		}
		if len(names) < 3 {
			names = append(names, filepath.Base(c.Path))
		}
		if len(t.Edits) < maxEdits {
			t.Edits = append(t.Edits, m.edits(c)...)
		}
	}
	if len(it.Changes) > len(names) {
		names = append(names, "…")
	}
	t.Title = strings.Join(names, ", ")
	return t
}

// result is how a call ended.
func (m *mapper) result(c *callState, it *item) agent.Result {
	r := agent.Result{ExitCode: it.ExitCode}
	switch it.Status {
	case "declined":
		return agent.Result{Denied: true}
	case "failed":
		r.Failed = true
	}
	switch it.Type {
	case "commandExecution":
		if !c.streamed {
			r.Output = it.Output
		}
		if r.ExitCode != nil && *r.ExitCode != 0 {
			r.Failed = true
		}
	case "fileChange":
		if !r.Failed {
			r.Edits = c.tool.Edits
		}
	case "mcpToolCall":
		var failed bool
		r.Output, failed = mcpOutput(it.Result)
		r.Failed = r.Failed || failed
		if it.Error != nil {
			r.Failed, r.Error = true, it.Error.Message
		}
	case "collabAgentToolCall":
		for _, s := range it.States {
			if s.Message != "" {
				r.Output += s.Message + "\n"
			}
		}
	case "webSearch":
		r.Output = it.Query
	}
	return r
}

// mcpOutput joins the texts of a tool's result.
func mcpOutput(raw json.RawMessage) (text string, failed bool) {
	var r struct {
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
		Structured json.RawMessage `json:"structuredContent"`
		IsError    bool            `json:"isError"`
	}
	if json.Unmarshal(raw, &r) != nil {
		return "", false
	}
	var parts []string
	for _, c := range r.Content {
		switch {
		case c.Text != "":
			parts = append(parts, c.Text)
		case c.Type != "" && c.Type != "text":
			parts = append(parts, "["+c.Type+"]")
		}
	}
	if len(parts) == 0 && len(r.Structured) > 0 && string(r.Structured) != "null" {
		return string(r.Structured), r.IsError
	}
	return strings.Join(parts, "\n"), r.IsError
}

// painted is the image that was made.
func painted(it *item) []agent.Frame {
	var data []byte // decoded from base64
	if json.Unmarshal(it.Result, &data) != nil || len(data) == 0 {
		return nil
	}
	return []agent.Frame{{Kind: agent.Image, Image: &event.Attachment{Kind: event.AttachImage, MIME: "image/png",
		Name: filepath.Base(it.SavedPath), Data: data, Size: int64(len(data))}}}
}

// object is raw if it is a JSON object, and an empty one else.
func object(raw json.RawMessage) json.RawMessage {
	var o map[string]json.RawMessage
	if json.Unmarshal(raw, &o) != nil || o == nil {
		return json.RawMessage(`{}`)
	}
	return raw
}

// marshal encodes what is known to have a JSON form.
func marshal(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

func firstLine(text, fallback string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if line == "" {
		return fallback
	}
	return line
}

// snake writes sendInput as send_input, like the names of the other tools.
func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if r >= 'A' && r <= 'Z' {
			if i > 0 {
				b.WriteByte('_')
			}
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}
