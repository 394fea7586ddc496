package claude

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// user is a message on the model's other side: of interest are the results of
// calls.
func (m *mapper) user(r *record) {
	var msg message
	if !m.open || r.IsReplay || json.Unmarshal(r.Message, &msg) != nil {
		return
	}
	m.speaker(r)
	for _, b := range blocks(msg.Content) {
		if b.Type == "tool_result" {
			m.toolEnd(r, &b)
		}
	}
}

func (m *mapper) toolEnd(r *record, b *block) {
	c := m.calls[b.ToolUseID]
	if c == nil {
		return
	}
	for _, meta := range r.ToolMeta {
		if d := meta.Decision.Decision; meta.ID == c.id && d != "" && d != "accept" {
			c.denied = true
		}
	}
	if m.interrupted && b.IsError {
		return // the end of the turn cancels what was running
	}
	delete(m.calls, c.id)
	res := &agent.Result{Output: resultText(b.Content)}
	switch {
	case c.denied:
		res.Denied, res.Error, res.Output = true, c.reason, ""
		if res.Error == "" {
			res.Error = resultText(b.Content)
		}
	case b.IsError:
		m.failed(c, res)
	default:
		m.succeeded(c, r.ToolUseResult, res)
	}
	if !c.denied && !c.running && !c.asked {
		m.put(agent.Frame{Kind: agent.ToolRun, Child: c.child, Call: c.id, Tool: c.about()})
	}
	m.put(agent.Frame{Kind: agent.ToolEnd, Child: c.child, Call: c.id, Result: res})
	if s := m.children[c.id]; s != nil && !s.background {
		m.endChild(c.id, nil)
	}
}

// exitCode is how the shell tool words the exit status of a command.
var exitCode = regexp.MustCompile(`^(?:Error: )?Exit code (\d+)(?:\n|$)`)

func (m *mapper) failed(c *call, res *agent.Result) {
	res.Failed = true
	if m := exitCode.FindStringSubmatch(res.Output); m != nil && c.tool.Tag == event.TagExec {
		if code, err := strconv.Atoi(m[1]); err == nil {
			res.ExitCode, res.Error = &code, "exit status "+m[1]
			res.Output = endLine(res.Output[len(m[0]):])
			return
		}
	}
	res.Error = strings.TrimSuffix(strings.TrimPrefix(res.Output, "<tool_use_error>"), "</tool_use_error>")
	if c.tool.Server == "" {
		res.Output = ""
	}
}

// toolUseResult is the CLI's own form of a result.
type toolUseResult struct {
	Stdout     string `json:"stdout"`
	Stderr     string `json:"stderr"`
	Background string `json:"backgroundTaskId"`
	Task       struct {
		ID string `json:"id"`
	} `json:"task"`
}

func (m *mapper) succeeded(c *call, raw json.RawMessage, res *agent.Result) {
	var tr toolUseResult
	if len(raw) > 0 && raw[0] == '{' {
		_ = json.Unmarshal(raw, &tr)
	}
	switch c.name {
	case "Bash", "PowerShell":
		if tr.Background == "" {
			code := 0
			res.ExitCode = &code
		}
		if tr.Stdout != "" || tr.Stderr != "" {
			res.Output = endLine(tr.Stdout) + endLine(tr.Stderr)
		} else if strings.Contains(res.Output, "completed with no output") {
			res.Output = ""
		}
	case "Write", "Edit", "MultiEdit", "NotebookEdit":
		res.Edits = c.edits
	case "TodoWrite", "TaskCreate", "TaskUpdate":
		if items := m.plan.take(c.name, c.tool.Input, tr.Task.ID); items != nil {
			m.put(agent.Frame{Kind: agent.Plan, Child: c.child, Plan: items})
		}
	}
}

// endLine gives a command's output the line end that the CLI takes off.
func endLine(s string) string {
	if s == "" || strings.HasSuffix(s, "\n") {
		return s
	}
	return s + "\n"
}

// resultText is what a result says in text.
func resultText(content json.RawMessage) string {
	var out strings.Builder
	for _, b := range blocks(content) {
		switch {
		case b.Type == "text":
			out.WriteString(b.Text)
		case b.Type == "image":
			out.WriteString("[picture]")
		case b.Type == "tool_reference":
			out.WriteString(b.ToolName + "\n")
		}
	}
	return out.String()
}
