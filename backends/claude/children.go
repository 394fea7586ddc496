package claude

import (
	"slices"
	"strings"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// A subagent's key is the call that spawned it: its records bear that.

// speaker is the subagent that a record is of, "" for the main conversation.
func (m *mapper) speaker(r *record) string {
	if r.Parent == "" || m.children[r.Parent] != nil {
		return r.Parent
	}
	m.startChild(r.Parent, r.SubagentType, "", false)
	return r.Parent
}

func (m *mapper) startChild(key, name, prompt string, background bool) {
	c := m.calls[key]
	if !m.open || m.children[key] != nil || len(m.children) >= maxCalls {
		return
	}
	m.children[key] = &child{background: background}
	f := agent.Frame{Kind: agent.ChildStart, Child: key, Call: key, Name: name, Text: prompt}
	if c != nil && !c.running && !c.asked {
		c.running = true
		m.put(agent.Frame{Kind: agent.ToolRun, Child: c.child, Call: key, Tool: c.about()})
	}
	if f.Name == "" {
		f.Name = "subagent"
	}
	m.put(f)
}

// taskStarted: a subagent or a command begins to work beside the turn. It runs,
// so nobody will be asked about the call any more.
func (m *mapper) taskStarted(r *record) {
	if r.ToolUseID == "" {
		return
	}
	if r.TaskType == "local_agent" {
		m.startChild(r.ToolUseID, r.SubagentType, r.Prompt, r.IsBackgrounded)
	}
}

func (m *mapper) taskEnded(r *record) {
	if m.children[r.ToolUseID] == nil {
		return
	}
	var failure *event.Error
	if r.Status == "failed" {
		failure = &event.Error{Code: event.CodeAgentError, Message: r.Summary}
	}
	m.endChild(r.ToolUseID, failure)
}

func (m *mapper) endChild(key string, failure *event.Error) {
	c := m.children[key]
	if c.ended {
		return
	}
	c.ended = true
	m.put(agent.Frame{Kind: agent.ChildEnd, Child: key, Error: failure})
}

// working counts the subagents that work in the background.
func (m *mapper) working() (n int) {
	for _, c := range m.children {
		if c.background && !c.ended {
			n++
		}
	}
	return n
}

// began notes what a task is: a command's line, or a subagent.
func (m *mapper) began(r *record) {
	w := agent.Work{ID: r.TaskID, Label: words(r.Description, r.TaskType)}
	switch r.TaskType {
	case "local_bash":
		w.Command = w.Label
		if c := m.calls[r.ToolUseID]; c != nil && c.tool.Command != "" {
			w.Command = c.tool.Command
		}
	case "local_agent":
		w.Child = r.ToolUseID
	default:
		return
	}
	if m.begun == nil {
		m.begun = map[string]agent.Work{}
	}
	if r.TaskID != "" && len(m.begun) < maxTasks {
		m.begun[r.TaskID] = w
	}
	if slices.ContainsFunc(m.tasks, func(t task) bool { return t.ID == r.TaskID }) {
		m.goesOn()
	}
}

// goesOn says what the CLI goes on with.
func (m *mapper) goesOn() {
	var names []string
	var work []agent.Work
	live := map[string]agent.Work{}
	for _, t := range m.tasks {
		names = append(names, words(t.Description, words(t.TaskType, "a task")))
		if w, ok := m.begun[t.ID]; ok {
			work, live[t.ID] = append(work, w), w
		}
	}
	if len(m.tasks) == 0 {
		m.begun = live
	}
	m.put(agent.Frame{Kind: agent.Background, Text: strings.Join(names, "; "), Work: work})
}
