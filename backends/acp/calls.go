package acp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// call is a tool call as far as the agent has told: each message adds to it.
type call struct {
	key    string // the frames' id
	asks   int    // how often it was asked for
	child  string
	name   string
	server string
	// settled: name, server and input are known for good.
	settled bool
	folder  bool // it is only a question about folders
	title   string
	kind    string
	status  string
	input   json.RawMessage
	paths   []string
	diffs   []toolContent
	edits   []event.FileEdit // worked out before it ran
	said    string           // the output so far
	begun   bool
	ran     bool // it was allowed, or has shown output
	ended   bool
}

// child is the key of the subagent that a message belongs to.
func (m *mapper) child(t *toolCall) string {
	if t.Meta.Claude == nil || t.Meta.Claude.Parent == "" {
		return ""
	}
	parent := t.Meta.Claude.Parent
	if c := m.calls[parent]; c != nil && !m.children[parent] {
		m.close()
		m.children[parent] = true
		var in struct {
			Name   string `json:"subagent_type"`
			What   string `json:"description"`
			Prompt string `json:"prompt"`
		}
		_ = decode(c.input, &in) // what it does not say stays empty
		m.put(agent.Frame{Kind: agent.ChildStart, Child: parent, Call: c.key, Name: first(in.Name, in.What, "agent"), Text: in.Prompt})
	}
	if !m.children[parent] {
		return ""
	}
	return parent
}

func first(ss ...string) string {
	for _, s := range ss {
		if s != "" {
			return s
		}
	}
	return ""
}

// learn takes what a message says of a call, which may be the first of it.
func (m *mapper) learn(t *toolCall) *call {
	c := m.calls[t.ID]
	if c == nil {
		if len(m.calls) >= maxCalls || t.ID == "" {
			return nil
		}
		c = &call{key: t.ID, child: m.child(t)}
		m.calls[t.ID] = c
	}
	if m.serverCall(t, c) {
		c.title, c.kind, c.status = t.Title, t.ToolKind, t.Status
		return c
	}
	if c.settled { // what follows describes the question
		t.Title, t.ToolKind, t.Input = "", "", nil
	}
	if name := m.toolName(t, c); name != "" {
		c.name, c.server = name, ""
		for _, s := range m.servers {
			if rest, ok := ofServer(name, s); ok {
				c.name, c.server = rest, s
			}
		}
	}
	c.title, c.kind, c.status = first(t.Title, c.title), first(t.ToolKind, c.kind), first(t.Status, c.status)
	if in := object(t.Input); in != nil && string(in) != "{}" {
		c.input = plainInput(in)
	}
	if len(t.Locations) > 0 {
		c.paths = c.paths[:0:0]
		for _, l := range t.Locations {
			c.paths = append(c.paths, l.Path)
		}
	}
	if !c.ran && bytes.Contains(t.Content, []byte(`"diff"`)) {
		var list []toolContent
		if decode(t.Content, &list) == nil {
			c.diffs = c.diffs[:0:0]
			for _, d := range list {
				if d.Type == "diff" && d.Path != "" {
					c.diffs = append(c.diffs, d)
				}
			}
		}
	}
	return c
}

// serverCall reads the call of an MCP server's tool from an input that has
// everything, if the title, which is the agent's own, says the same.
func (m *mapper) serverCall(t *toolCall, c *call) bool {
	if !m.agent.ServersInInput || len(t.Input) == 0 {
		return false
	}
	var in struct {
		Server    string          `json:"server"`
		Tool      string          `json:"tool"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if decode(t.Input, &in) != nil || in.Tool == "" || t.Title != "Tool: "+in.Server+"/"+in.Tool {
		return false
	}
	if in.Server == clientServer && !slices.Contains(m.servers, clientServer) {
		return false // somebody else's server of that name
	}
	c.name, c.server, c.input, c.settled = in.Tool, in.Server, object(in.Arguments), true
	return true
}

// toolName is what the agent calls the tool, as far as a message tells.
func (m *mapper) toolName(t *toolCall, c *call) string {
	switch {
	case t.Name != "":
		return t.Name
	case t.Meta.Claude != nil && t.Meta.Claude.Tool != "":
		return t.Meta.Claude.Tool
	case c.name != "":
		return ""
	case m.agent.NamesInIDs:
		name, _, _ := strings.Cut(t.ID, "__")
		return name
	case m.agent.NamesInTitles && !c.begun && t.Status == "pending" && toolWord.MatchString(t.Title):
		return t.Title
	}
	return ""
}

// toolWord is a title that is a tool's name and no sentence for people.
var toolWord = regexp.MustCompile(`^[a-z][a-zA-Z0-9]*(_[a-zA-Z0-9-]+)*$`)

// ofServer tells whether a tool's name says that it is an MCP server's.
func ofServer(name, server string) (string, bool) {
	for _, prefix := range []string{"mcp__" + server + "__", "mcp_" + server + "_", server + "__", server + "_"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && rest != "" {
			return rest, true
		}
	}
	return "", false
}

// kinds are the protocol's kinds of tools: what they do, and what they are
// called when the agent gives no name.
var kinds = map[string]struct {
	tag  event.Tag
	name string
}{
	"read": {event.TagRead, "read"}, "search": {event.TagRead, "search"}, "think": {event.TagRead, "think"},
	"edit": {event.TagWrite, "edit"}, "delete": {event.TagWrite, "delete"}, "move": {event.TagWrite, "move"},
	"execute": {event.TagExec, "shell"}, "fetch": {event.TagNetwork, "fetch"}, "switch_mode": {event.TagConfig, "switch_mode"},
}

func (c *call) tag() event.Tag {
	switch {
	case c.server == clientServer:
		return ""
	case c.server != "":
		return event.TagNetwork
	}
	k, known := kinds[c.kind]
	if known && c.kind != "think" { // a name never makes a command harmless
		return k.tag
	}
	switch strings.ToLower(c.name) {
	case "task", "agent":
		return event.TagDelegate
	case "todowrite", "todoread", "update_plan":
		return event.TagRead
	}
	if known {
		return k.tag
	}
	return event.TagExec // what is not known may do anything
}

// clientServer is the name under which the gateway offers clients' tools.
const clientServer = "polyhost"

// tool describes the call as it stands.
func (m *mapper) tool(c *call) *agent.Tool {
	t := &agent.Tool{Name: first(c.name, kinds[c.kind].name, "tool"), Title: c.title, Tag: c.tag(), Server: c.server, Input: c.input}
	if t.Tag == event.TagExec {
		t.Command = c.command()
		return t
	}
	t.Paths = c.paths
	if len(t.Paths) == 0 {
		var in struct {
			A string `json:"file_path"`
			B string `json:"filePath"`
			C string `json:"path"`
		}
		if decode(c.input, &in) == nil && first(in.A, in.B, in.C) != "" {
			t.Paths = []string{first(in.A, in.B, in.C)}
		}
	}
	for _, d := range c.diffs {
		if !slices.Contains(t.Paths, d.Path) {
			t.Paths = append(t.Paths[:len(t.Paths):len(t.Paths)], d.Path)
		}
	}
	return t
}

// command is the shell line of a call.
func (c *call) command() string {
	var in struct {
		Command string `json:"command"`
		Cmd     string `json:"cmd"`
	}
	_ = decode(c.input, &in) // what it does not say stays empty
	return first(in.Command, in.Cmd, c.title)
}

// plainInput rewrites the input of an agent that gives the command as a list,
// among bookkeeping of its own, to what it means.
func plainInput(raw json.RawMessage) json.RawMessage {
	var in struct {
		Command []string `json:"command"`
		Dir     string   `json:"cwd"`
	}
	if json.Unmarshal(raw, &in) != nil || len(in.Command) == 0 {
		return raw
	}
	line := strings.Join(in.Command, " ")
	if len(in.Command) == 3 && (in.Command[1] == "-lc" || in.Command[1] == "-c") {
		line = in.Command[2]
	}
	plain := map[string]string{"command": line}
	if in.Dir != "" {
		plain["cwd"] = in.Dir
	}
	out, err := json.Marshal(plain)
	if err != nil {
		return raw
	}
	return out
}

// begin announces a call.
func (m *mapper) beginCall(c *call) {
	if c.begun {
		return
	}
	c.begun = true
	m.close()
	m.put(agent.Frame{Kind: agent.ToolStart, Child: c.child, Call: c.key, Tool: m.tool(c)})
}

// toolUpdate maps what is told of a call.
func (m *mapper) toolUpdate(t *toolCall) {
	c := m.learn(t)
	if c == nil || c.ended {
		return
	}
	m.beginCall(c)
	if t.Input != nil {
		m.todos(t.Input)
	}
	switch t.Status {
	case "in_progress":
		// That alone does not say that it runs: agents send it before they
		// ask. Output does.
		if c.tag() == event.TagExec && len(t.Content) > 0 {
			m.progress(c, contentText(t.Content))
		}
	case "completed", "failed":
		m.endCall(c, t)
	}
}

// progress streams what was added to the output.
func (m *mapper) progress(c *call, all string) {
	added, ok := strings.CutPrefix(all, c.said)
	if !ok || added == "" || c.asks > 0 && !c.ran {
		return
	}
	m.run(c)
	c.said = all
	m.put(agent.Frame{Kind: agent.ToolOutput, Child: c.child, Call: c.key, Text: added})
}

// run says that a call runs which nobody was asked for.
func (m *mapper) run(c *call) {
	if c.ran {
		return
	}
	c.ran = true
	if c.edits == nil {
		c.edits = m.edits(c)
	}
	t := m.tool(c)
	t.Edits = c.edits
	m.put(agent.Frame{Kind: agent.ToolRun, Child: c.child, Call: c.key, Tool: t})
}

// ask maps a request for permission and returns the frame without its
// Request, nil for a call that cannot be shown.
func (m *mapper) ask(t *toolCall) (*call, *agent.Frame) {
	if c, f := m.askFolder(t); f != nil {
		return c, f
	}
	c := m.learn(t)
	if c == nil || c.ended {
		return nil, nil
	}
	if c.asks > 0 {
		// A second question about one call: it is a call of its own, since
		// the first was settled.
		m.put(agent.Frame{Kind: agent.ToolEnd, Child: c.child, Call: c.key, Result: &agent.Result{}})
		c.key, c.begun, c.ran = fmt.Sprintf("%s#%d", t.ID, c.asks+1), false, false
	}
	c.asks++
	m.beginCall(c)
	c.edits = m.edits(c)
	tool := m.tool(c)
	tool.Edits = c.edits
	return c, &agent.Frame{Kind: agent.Permission, Child: c.child, Call: c.key, Tool: tool}
}

// askFolder maps the question whether a call may use folders outside of the
// working directories. It is a call of its own, which ends with the answer: the
// agent may still ask about the one that it belongs to.
func (m *mapper) askFolder(t *toolCall) (*call, *agent.Frame) {
	about := m.calls[t.ID]
	if !m.agent.AsksForFolders || about == nil || about.ended || t.ToolKind != "other" || about.kind == "other" {
		return nil, nil
	}
	var in struct {
		Folder  string   `json:"parentDir"`
		Folders []string `json:"directories"`
	}
	if decode(t.Input, &in) != nil {
		return nil, nil
	}
	if in.Folder != "" {
		in.Folders = append(in.Folders, in.Folder)
	}
	if len(in.Folders) == 0 {
		return nil, nil
	}
	m.folders++
	c := &call{key: fmt.Sprintf("%s#folder%d", t.ID, m.folders), child: about.child, name: "external_directory", kind: "edit", folder: true,
		title: "Use " + strings.Join(in.Folders, ", ") + " outside of the working directories", paths: in.Folders, input: object(t.Input), asks: 1}
	if kinds[about.kind].tag == event.TagRead {
		c.kind = about.kind
	}
	m.beginCall(c)
	return c, &agent.Frame{Kind: agent.Permission, Child: c.child, Call: c.key, Tool: m.tool(c)}
}

// deny ends a call that was not allowed: not every agent says so itself.
func (m *mapper) deny(c *call, reason string) {
	if c.ended {
		return
	}
	c.ended = true
	m.put(agent.Frame{Kind: agent.ToolEnd, Child: c.child, Call: c.key, Result: &agent.Result{Denied: true, Error: reason}})
}

// running tells whether a command may be running.
func (m *mapper) running() bool {
	for _, c := range m.calls {
		if !c.ended && c.tag() == event.TagExec {
			return true
		}
	}
	return false
}

// allowedWrite tells whether a call that runs, or has run, was allowed to
// change a file.
func (m *mapper) allowedWrite(path string) bool {
	for _, c := range m.calls {
		if c.asks == 0 || !c.ran {
			continue
		}
		for _, p := range m.tool(c).Paths {
			if m.same(p, path) && c.tag() == event.TagWrite {
				return true
			}
		}
	}
	return false
}

// same compares paths by the place they mean.
func (m *mapper) same(a, b string) bool {
	d1, n1, err1 := m.dirs.Locate(a)
	d2, n2, err2 := m.dirs.Locate(b)
	return err1 == nil && err2 == nil && d1 == d2 && n1 == n2
}
