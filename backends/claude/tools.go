package claude

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// gatewayServer is the MCP server by which the agent reaches clients' tools.
const gatewayServer = "polyhost"

// tags are what the CLI's own tools do. A tool that is not here runs only
// with the care of a command.
var tags = map[string]event.Tag{
	"Bash": event.TagExec, "BashOutput": event.TagRead, "KillShell": event.TagExec, "Monitor": event.TagExec, "PowerShell": event.TagExec,
	"Read": event.TagRead, "Glob": event.TagRead, "Grep": event.TagRead, "LS": event.TagRead, "NotebookRead": event.TagRead, "LSP": event.TagRead,
	"Write": event.TagWrite, "Edit": event.TagWrite, "MultiEdit": event.TagWrite, "NotebookEdit": event.TagWrite,
	"WebFetch": event.TagNetwork, "WebSearch": event.TagNetwork,
	"Agent": event.TagDelegate, "Task": event.TagDelegate, "SendMessage": event.TagDelegate,
	"TaskOutput": event.TagRead, "TaskStop": event.TagExec, "Skill": event.TagRead, "ToolSearch": event.TagRead,
	"TodoWrite": event.TagRead, "TaskCreate": event.TagRead, "TaskUpdate": event.TagRead, "TaskList": event.TagRead, "TaskGet": event.TagRead,
	"AskUserQuestion": event.TagRead, "EnterPlanMode": event.TagRead, "ExitPlanMode": event.TagConfig,
}

// toolInput has the fields of the CLI's tools that say what a call is about.
type toolInput struct {
	Command     string     `json:"command"`
	Description string     `json:"description"`
	FilePath    string     `json:"file_path"`
	Notebook    string     `json:"notebook_path"`
	Path        string     `json:"path"`
	Pattern     string     `json:"pattern"`
	Content     string     `json:"content"`
	Old         string     `json:"old_string"`
	New         string     `json:"new_string"`
	ReplaceAll  bool       `json:"replace_all"`
	Edits       []textEdit `json:"edits"`
	URL         string     `json:"url"`
	Query       string     `json:"query"`
	Prompt      string     `json:"prompt"`
	Subagent    string     `json:"subagent_type"`
	Subject     string     `json:"subject"`
	Skill       string     `json:"skill"`
}

type textEdit struct {
	Old        string `json:"old_string"`
	New        string `json:"new_string"`
	ReplaceAll bool   `json:"replace_all"`
}

// splitName takes an MCP tool's name apart.
func splitName(name string) (server, tool string) {
	if rest, ok := strings.CutPrefix(name, "mcp__"); ok {
		if server, tool, ok := strings.Cut(rest, "__"); ok && tool != "" {
			return server, tool
		}
	}
	return "", name
}

// describe says what a call is about; input may still be missing.
func describe(name string, input json.RawMessage) agent.Tool {
	server, short := splitName(name)
	t := agent.Tool{Name: short, Server: server, Input: input}
	switch {
	case server == gatewayServer:
	case server != "":
		t.Tag = event.TagNetwork
	default:
		var known bool
		if t.Tag, known = tags[short]; !known {
			t.Tag = event.TagExec
		}
	}
	if len(input) == 0 {
		return t
	}
	var in toolInput
	_ = json.Unmarshal(input, &in)
	if server != "" {
		return t
	}
	for _, p := range []string{in.FilePath, in.Notebook, in.Path} {
		if p != "" {
			t.Paths = append(t.Paths, p)
		}
	}
	switch short {
	case "Bash", "PowerShell", "Monitor":
		t.Command, t.Title = in.Command, in.Command
	case "Glob", "Grep":
		t.Title = in.Pattern
	case "WebFetch":
		t.Title = in.URL
	case "WebSearch", "ToolSearch":
		t.Title = in.Query
	case "Agent", "Task":
		t.Title = in.Description
	case "TaskCreate":
		t.Title = in.Subject
	case "Skill":
		t.Title = in.Skill
	case "ExitPlanMode":
		t.Title = "Leave plan mode and begin the work"
	default:
		if len(t.Paths) > 0 {
			t.Title = t.Paths[0]
		}
	}
	t.Title = clip(t.Title)
	return t
}

// clip shortens a title to one line.
func clip(s string) string {
	if i := strings.IndexByte(s, '\n'); i >= 0 {
		s = s[:i] + " …"
	}
	if len(s) <= maxTitle {
		return s
	}
	s = s[:maxTitle]
	for len(s) > 0 && !utf8.ValidString(s[max(0, len(s)-utf8.UTFMax):]) {
		s = s[:len(s)-1]
	}
	return s + "…"
}

// absolute makes a tool's path absolute.
func absolute(dirs []string, path string) string {
	if filepath.IsAbs(path) || len(dirs) == 0 {
		return filepath.Clean(path)
	}
	return filepath.Join(dirs[0], path)
}
