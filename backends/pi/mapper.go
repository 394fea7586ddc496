package pi

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/polyhost/polyhost/backends/internal/files"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// mapper turns the events of one process into frames. What concerns the
// turn's beginning and end is the conversation's.
type mapper struct {
	dirs files.Dirs
	key  string // makes part ids unique across processes

	mu sync.Mutex

	messages  int            // assistant messages so far
	parts     []int          // of the message, which have not ended
	streaming map[int]string // calls whose input is being made, by their place in the message
	calls     map[string]*call
	clients   map[string]bool // names of clients' tools that were offered
	stopped   string          // the last message's reason to stop
	failure   string          // its error
}

// call is a tool call in progress.
type call struct {
	tool   agent.Tool
	denied bool   // the gateway refused it
	reason string // of the refusal
	output string // streamed so far
}

func newMapper(dirs []string, key string) *mapper {
	return &mapper{dirs: dirs, key: key, streaming: map[int]string{}, calls: map[string]*call{}}
}

// frames says what an event means.
func (m *mapper) frames(r *record) []agent.Frame {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch r.Type {
	case "message_start":
		if msg := r.message(); msg != nil && msg.Role == "assistant" {
			m.messages++
			clear(m.streaming)
		}
	case "message_update":
		return m.update(r.Update)
	case "message_end":
		return m.ended(r.message())
	case "tool_execution_start":
		return m.begin(r.ToolCallID, r.ToolName, r.Args)
	case "tool_execution_update":
		return m.output(r)
	case "tool_execution_end":
		return m.end(r)
	case "auto_retry_start":
		return notice("warning", "retry", fmt.Sprintf("try %d of %d in %.1f s: %s", r.Attempt, r.MaxAttempts, float64(r.DelayMs)/1000, r.ErrorMessage))
	case "compaction_end":
		if r.Aborted || r.ErrorMessage != "" {
			return notice("warning", "compaction_failed", strings.TrimSuffix("the conversation was not shortened: "+r.ErrorMessage, ": "))
		}
		if len(r.Result) == 0 {
			return nil // there was nothing to leave out
		}
		return notice("info", "compacted", "the conversation was shortened")
	case "session_info_changed":
		return []agent.Frame{{Kind: agent.Title, Text: r.Name}}
	}
	return nil
}

func notice(level, code, text string) []agent.Frame {
	return []agent.Frame{{Kind: agent.Notice, Notice: &event.Notice{Level: level, Code: code, Text: text}}}
}

func (r *record) message() *message {
	var m message
	if json.Unmarshal(r.Message, &m) != nil {
		return nil
	}
	return &m
}

func (m *mapper) part(index int) string { return fmt.Sprintf("%s-%d-%d", m.key, m.messages, index) }

func (m *mapper) update(u *update) []agent.Frame {
	if u == nil {
		return nil
	}
	switch u.Type {
	case "text_delta":
		return []agent.Frame{m.piece(agent.TextDelta, u)}
	case "thinking_delta":
		return []agent.Frame{m.piece(agent.ReasoningDelta, u)}
	case "text_end", "thinking_end":
		m.parts = slices.DeleteFunc(m.parts, func(i int) bool { return i == u.Index })
		return []agent.Frame{{Kind: agent.PartDone, Part: m.part(u.Index)}}
	case "toolcall_start":
		if u.Partial == nil || u.Index < 0 || u.Index >= len(u.Partial.Content) {
			return nil
		}
		if p := u.Partial.Content[u.Index]; p.ID != "" && p.Name != "" {
			m.streaming[u.Index] = p.ID
			return m.begin(p.ID, p.Name, nil)
		}
	case "toolcall_delta":
		if id := m.streaming[u.Index]; id != "" && u.Delta != "" {
			return []agent.Frame{{Kind: agent.ToolInput, Call: id, Text: u.Delta}}
		}
	case "toolcall_end":
		delete(m.streaming, u.Index)
		if u.Call != nil {
			return m.begin(u.Call.ID, u.Call.Name, u.Call.Arguments)
		}
	}
	return nil
}

// piece is more of a part.
func (m *mapper) piece(kind agent.FrameKind, u *update) agent.Frame {
	if !slices.Contains(m.parts, u.Index) && len(m.parts) < maxParts {
		m.parts = append(m.parts, u.Index)
	}
	return agent.Frame{Kind: kind, Part: m.part(u.Index), Text: u.Delta}
}

// begin notes a call and says that it began, once.
func (m *mapper) begin(id, name string, input json.RawMessage) []agent.Frame {
	c := m.calls[id]
	if c != nil {
		if c.tool.Input == nil {
			c.tool = m.describe(name, input)
		}
		return nil
	}
	c = &call{tool: m.describe(name, input)}
	m.calls[id] = c
	shown := c.tool
	return []agent.Frame{{Kind: agent.ToolStart, Call: id, Tool: &shown}}
}

// permission is the gate's question for a call, under the dialog's id.
func (m *mapper) permission(request string, d *dialog) []agent.Frame {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.begin(d.Call, d.Tool, d.Input)
	c := m.calls[d.Call]
	c.tool = m.describe(d.Tool, d.Input)
	c.tool.Edits = m.preview(c.tool)
	tool := c.tool
	return append(out, agent.Frame{Kind: agent.Permission, Call: d.Call, Request: request, Tool: &tool})
}

// clientCall is a call of a client's tool.
func (m *mapper) clientCall(request string, d *dialog) []agent.Frame {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.begin(d.Call, d.Tool, d.Input)
	return append(out, agent.Frame{Kind: agent.ClientCall, Call: d.Call, Request: request, Tool: &agent.Tool{Name: d.Tool, Server: clientServer, Input: d.Input}})
}

// offer notes the tools of clients.
func (m *mapper) offer(tools []event.ClientTool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clients = map[string]bool{}
	for _, t := range tools {
		m.clients[t.Name] = true
	}
}

// decided notes how the gateway settled a call.
func (m *mapper) decided(id string, r event.Resolution) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.calls[id]
	switch {
	case c == nil:
	case r.Outcome != event.Allowed:
		c.denied, c.reason = true, r.Reason
	case r.Input != nil:
		c.tool = m.describe(c.tool.Name, r.Input)
		c.tool.Edits = m.preview(c.tool)
	}
}

// why tells why the last message ended, and its error.
func (m *mapper) why() (stopped, failure string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stopped, m.failure
}

// answered tells whether the model has said anything yet: from then on pi
// keeps the conversation.
func (m *mapper) answered() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.messages > 0
}

// output streams what a tool wrote since the update before, which repeats it.
// Once pi shows the end of a long output only, nothing is streamed until the
// result.
func (m *mapper) output(r *record) []agent.Frame {
	c := m.calls[r.ToolCallID]
	if c == nil || r.Partial == nil {
		return nil
	}
	more, ok := strings.CutPrefix(r.Partial.Content.text(), c.output)
	if !ok || more == "" {
		return nil
	}
	c.output += more
	return []agent.Frame{{Kind: agent.ToolOutput, Call: r.ToolCallID, Text: more}}
}

// exitStatus is how pi words the end of a command that failed.
var exitStatus = regexp.MustCompile(`\n*Command exited with code (\d+)\s*$`)

func (m *mapper) end(r *record) []agent.Frame {
	out := m.begin(r.ToolCallID, r.ToolName, r.Args)
	c := m.calls[r.ToolCallID]
	delete(m.calls, r.ToolCallID)
	var res content
	_ = json.Unmarshal(r.Result, &res) // no text: what was streamed stays
	text := res.Content.text()
	result := &agent.Result{Failed: r.IsError}
	switch {
	case c.denied:
		result.Denied, result.Error = true, c.reason
		text = ""
	case r.IsError:
		result.Error = text
		if found := exitStatus.FindStringSubmatchIndex(text); found != nil && c.tool.Tag == event.TagExec {
			code, _ := strconv.Atoi(text[found[2]:found[3]])
			result.ExitCode, result.Error = &code, ""
			text = text[:found[0]]
		}
	case c.tool.Tag == event.TagExec:
		zero := 0
		result.ExitCode = &zero
	default:
		result.Edits = c.tool.Edits
	}
	if strings.TrimRight(text, "\n") != strings.TrimRight(c.output, "\n") {
		result.Output = text
	}
	for i := range res.Content {
		if p := &res.Content[i]; p.Type == "image" {
			out = append(out, agent.Frame{Kind: agent.Image, Image: &event.Attachment{Kind: event.AttachImage, MIME: p.MIME, Data: p.Data, Size: int64(len(p.Data))}})
		}
	}
	return append(out, agent.Frame{Kind: agent.ToolEnd, Call: r.ToolCallID, Result: result})
}

// ended is the end of a message: its figures and why it ended.
func (m *mapper) ended(msg *message) (out []agent.Frame) {
	if msg == nil || msg.Role != "assistant" {
		return nil
	}
	m.stopped, m.failure = msg.StopReason, msg.Error
	for _, i := range m.parts { // the stream was cut, and pi may begin anew
		out = append(out, agent.Frame{Kind: agent.PartDone, Part: m.part(i)})
	}
	m.parts = m.parts[:0]
	u := msg.Usage
	if u.Input+u.Output+u.CacheRead+u.CacheWrite > 0 {
		out = append(out, agent.Frame{Kind: agent.Usage, Usage: &event.Usage{Input: u.Input, Output: u.Output, CacheRead: u.CacheRead,
			CacheWrite: u.CacheWrite, CostUSD: u.Cost.Total, Model: modelName(msg.Provider, msg.Model)}},
			agent.Frame{Kind: agent.Context, Context: &event.ContextReported{Used: u.Input + u.CacheRead + u.CacheWrite + u.Output}})
	}
	if msg.StopReason == "length" {
		out = append(out, notice("warning", "max_tokens", "the answer reached the limit of tokens")...)
	}
	return out
}

func modelName(provider, model string) string {
	if provider == "" {
		return model
	}
	return provider + "/" + model
}
