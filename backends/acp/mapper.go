package acp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/polyhost/polyhost/backends/internal/files"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// mapper turns what an agent says in a session into frames. It does no I/O but
// looking at files that are about to change. It is not for several goroutines.
type mapper struct {
	agent   *Agent
	dirs    files.Dirs
	servers []string // names of the MCP servers of the conversation

	active bool // a turn runs: its frames count
	serial int  // of parts
	part   openPart
	held   *agent.Frame // text that may be an error's

	calls    map[string]*call
	folders  int // questions about folders
	children map[string]bool

	model     string
	cost      float64 // of the conversation so far, in USD
	costKnown bool
	turnCost  float64
	commands  []agent.Command

	out []agent.Frame
}

// openPart is the text that grows.
type openPart struct {
	id, message, child string
	kind               agent.FrameKind
}

func newMapper(a *Agent, dirs []string) *mapper {
	return &mapper{agent: a, dirs: dirs, calls: map[string]*call{}, children: map[string]bool{}}
}

// begin opens a turn.
func (m *mapper) begin() {
	m.active, m.turnCost = true, 0
	clear(m.calls)
	clear(m.children)
}

func (m *mapper) put(f agent.Frame) { m.out = append(m.out, f) }

// take returns the frames since the last take; the slice is used again.
func (m *mapper) take() []agent.Frame {
	out := m.out
	m.out = m.out[:0]
	return out
}

// update maps one notification. Between turns only what belongs to the
// conversation itself counts: a replayed history is not told again.
func (m *mapper) update(u *update) {
	switch u.Kind {
	case "session_info_update":
		if u.Title != "" {
			m.put(agent.Frame{Kind: agent.Title, Text: u.Title})
		}
	case "usage_update":
		m.usage(u)
	case "available_commands_update":
		m.commands = commands(u.Commands)
	}
	if !m.active {
		return
	}
	switch u.Kind {
	case "agent_message_chunk":
		m.chunk(agent.TextDelta, u)
	case "agent_thought_chunk":
		m.chunk(agent.ReasoningDelta, u)
	case "tool_call", "tool_call_update":
		m.toolUpdate(&u.toolCall)
	case "plan":
		m.plan(u.Entries)
	}
}

func commands(list []command) []agent.Command {
	var out []agent.Command
	for _, c := range list {
		cmd := agent.Command{Name: c.Name, Description: c.Description}
		if c.Input != nil {
			cmd.Hint = c.Input.Hint
		}
		out = append(out, cmd)
	}
	return out
}

// chunk is a piece of a message, in whatever form.
func (m *mapper) chunk(kind agent.FrameKind, u *update) {
	var b block
	if decode(u.Content, &b) != nil {
		return
	}
	child := m.child(&u.toolCall)
	switch {
	case b.Type == "text":
		m.text(kind, child, u.MessageID, b.Text)
	case b.Type == "image" && len(b.Data) > 0:
		m.close()
		m.put(agent.Frame{Kind: agent.Image, Child: child, Image: &event.Attachment{
			Kind: event.AttachImage, MIME: b.MIME, Data: b.Data, Size: int64(len(b.Data))}})
	default:
		if text := blockText(&b); text != "" {
			m.text(kind, child, u.MessageID, text)
		}
	}
}

// blockText words content that is not text.
func blockText(b *block) string {
	switch {
	case b.Type == "text":
		return b.Text
	case b.Resource != nil && b.Resource.Text != "":
		return b.Resource.Text
	case b.Resource != nil:
		return b.Resource.URI
	}
	return b.URI
}

// modeNote is how Gemini says that its mode changed.
const modeNote = "[MODE_UPDATE] "

func (m *mapper) text(kind agent.FrameKind, child, message, text string) {
	if strings.HasPrefix(text, modeNote) && m.agent.NamesInIDs {
		return
	}
	m.release()
	p := &m.part
	fresh := p.id == "" || p.kind != kind || p.child != child || p.message != message
	if fresh {
		m.close()
		if kind == agent.ReasoningDelta {
			text = strings.TrimLeft(text, "\n")
		}
		if text == "" {
			return
		}
		m.serial++
		*p = openPart{id: fmt.Sprintf("part_%d", m.serial), message: message, child: child, kind: kind}
	}
	f := agent.Frame{Kind: kind, Child: child, Part: p.id, Text: text}
	if re := m.agent.ErrorsAsText; re != nil && fresh && kind == agent.TextDelta && re.MatchString(text) {
		m.held = &f
		return
	}
	m.put(f)
}

// release says text that was held back and was no error's.
func (m *mapper) release() {
	if m.held != nil {
		m.put(*m.held)
		m.held = nil
	}
}

// close ends the open part: the protocol has no end of a message.
func (m *mapper) close() {
	m.release()
	if m.part.id != "" {
		m.put(agent.Frame{Kind: agent.PartDone, Child: m.part.child, Part: m.part.id})
		m.part = openPart{}
	}
}

func (m *mapper) plan(entries []planEntry) {
	items := make([]event.PlanItem, len(entries))
	for i, e := range entries {
		items[i] = event.PlanItem{ID: fmt.Sprintf("step%d", i+1), Text: e.Content, Status: planStatus(e.Status), Priority: e.Priority}
	}
	m.put(agent.Frame{Kind: agent.Plan, Plan: items})
}

func planStatus(s string) string {
	switch s {
	case "in_progress":
		return event.PlanActive
	case "completed", "cancelled":
		return event.PlanDone
	}
	return event.PlanPending
}

// todos maps the to-do tool of agents that send no plan.
func (m *mapper) todos(input json.RawMessage) {
	if !bytes.Contains(input, []byte(`"todos"`)) {
		return
	}
	var in struct {
		Todos []planEntry `json:"todos"`
	}
	if decode(input, &in) == nil && len(in.Todos) > 0 {
		m.plan(in.Todos)
	}
}

// usage takes the context's fill and the conversation's cost.
func (m *mapper) usage(u *update) {
	if u.Meta.Model != "" {
		m.model = u.Meta.Model
	}
	if u.Cost != nil && u.Cost.Currency == "USD" && u.Cost.Amount > 0 {
		if m.costKnown && u.Cost.Amount > m.cost {
			m.turnCost += u.Cost.Amount - m.cost
		}
		m.cost, m.costKnown = u.Cost.Amount, true
	}
	if m.active && u.Used != nil && *u.Used > 0 {
		m.put(agent.Frame{Kind: agent.Context, Context: &event.ContextReported{Used: *u.Used, Window: u.Size}})
	}
}

// end closes what is open and says what the turn used. The end itself is the
// caller's: failed is its error, nil if there is none. What the agent said of it
// as text belongs to it, and is not to be said twice.
func (m *mapper) end(a *promptAnswer, failed *event.Error) {
	if m.held != nil && failed != nil {
		if said := strings.TrimSpace(m.held.Text); !strings.Contains(failed.Message, said) {
			failed.Message = said + " (" + failed.Message + ")"
		}
		m.held, m.part = nil, openPart{}
	}
	m.close()
	for child := range m.children {
		m.put(agent.Frame{Kind: agent.ChildEnd, Child: child})
	}
	u := event.Usage{Model: m.model, CostUSD: m.turnCost}
	if a != nil && a.Usage != nil {
		t := a.Usage
		u.Input, u.Output, u.CacheRead, u.CacheWrite, u.Reasoning = t.Input, t.Output, t.CacheRead, t.CacheWrite, t.Thought
	} else if a != nil && a.Meta.Quota != nil {
		u.Input, u.Output = a.Meta.Quota.Tokens.Input, a.Meta.Quota.Tokens.Output
		for _, one := range a.Meta.Quota.Models {
			if one.Model != "auto" { // that is no model, but who picks one
				u.Model = one.Model
			}
		}
	}
	if u.Input > 0 || u.Output > 0 || u.CostUSD > 0 {
		m.put(agent.Frame{Kind: agent.Usage, Usage: &u})
	}
	m.active = false
}
