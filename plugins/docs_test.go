package plugins

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/docs/doctest"

	"github.com/polyhost/polyhost/core/agent"
)

// told are the agents of the table.
var told = []string{"claude", "codex", "pi", "gemini", "opencode", "claude-acp", "codex-acp"}

// abilities are the capabilities in words, by field.
var abilities = map[string]string{
	"Steer":         "messages into a running turn",
	"Resume":        "resume in a new process",
	"Images":        "pictures in prompts",
	"Reasoning":     "reasoning",
	"Plan":          "plans and to-do lists",
	"Subagents":     "subagents as chats",
	"Questions":     "questions to people",
	"ClientTools":   "clients' tools",
	"Approvals":     "approvals",
	"Usage":         "usage",
	"SetModel":      "choice of the model",
	"SetMode":       "plan mode of its own",
	"MCP":           "MCP servers of the session",
	"ResumeTurn":    "going on with a turn that failed",
	"Fork":          "fork",
	"ForkAt":        "going back to a turn",
	"Catalogue":     "past conversations",
	"Background":    "work after a turn",
	"Compact":       "compaction that is told",
	"Dirs":          "several working directories",
	"SwitchServers": "MCP servers switched at work",
	"StartServers":  "MCP servers connected to anew",
	"ServerTokens":  "clients' tokens for MCP servers",
	"Plugins":       "plugins of clients",
	"ShellInit":     "scripts before shell commands",
}

// The table in the docs is made from what the drivers promise, so that neither
// drifts.
func TestDocsShowWhatAgentsCan(t *testing.T) {
	t.Parallel()
	doctest.Table(t, "../docs/backends.md", "table", abilityTable(t))
}

func abilityTable(t *testing.T) string {
	lacks := map[string][]string{}
	var b strings.Builder
	fmt.Fprintf(&b, "| | %s |\n|%s\n", strings.Join(told, " | "), strings.Repeat(" --- |", len(told)+1))
	shape := reflect.TypeFor[agent.Capabilities]()
	for i := range shape.NumField() {
		field := shape.Field(i).Name
		words := abilities[field]
		if words == "" {
			t.Fatalf("no words for %s", field)
		}
		fmt.Fprintf(&b, "| %s |", words)
		for _, name := range told {
			can, err := Can(name)
			if err != nil {
				t.Fatal(err)
			}
			able := reflect.ValueOf(can).Field(i).Bool()
			if field == "ClientTools" {
				able = able || can.MCP // they reach it over MCP
			}
			mark := "yes"
			if !able {
				mark = "no"
				lacks[name] = append(lacks[name], words)
			}
			fmt.Fprintf(&b, " %s |", mark)
		}
		b.WriteString("\n")
	}
	b.WriteString("\nWhat it cannot:\n\n")
	for _, name := range told {
		none := strings.Join(lacks[name], ", ")
		if none == "" {
			none = "nothing of the above"
		}
		fmt.Fprintf(&b, "- `%s`: %s.\n", name, none)
	}
	return b.String()
}
