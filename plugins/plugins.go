// Package plugins holds the agents that are built into the gateway's binary.
// Each runs like any other plugin, in a process of its own: the same binary,
// started again with the agent's name. The boundary itself is in the packages
// below: wire, client, sdk, supervisor, discover.
package plugins

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/polyhost/polyhost/backends/acp"
	"github.com/polyhost/polyhost/backends/claude"
	"github.com/polyhost/polyhost/backends/codex"
	"github.com/polyhost/polyhost/backends/demo"
	"github.com/polyhost/polyhost/backends/pi"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/plugins/sdk"
)

// builtin is an agent of this binary.
type builtin struct {
	// open makes the agent's backend, in a plugin's process.
	open func() agent.Backend
	// missing is why the agent's program cannot be found, told without delay;
	// the function is nil for an agent that needs none.
	missing func() error
	// can is what it promises in the version that this was made for.
	can func() (agent.Capabilities, error)
}

func sure(can func() agent.Capabilities) func() (agent.Capabilities, error) {
	return func() (agent.Capabilities, error) { return can(), nil }
}

var builtins = map[string]builtin{
	codex.Name: {open: func() agent.Backend { return codex.New() }, missing: codex.Missing, can: sure(codex.Can)},
	"demo": {open: func() agent.Backend {
		return &demo.Backend{Crash: func() { os.Exit(demo.CrashStatus) }, Keep: os.Getenv(demo.KeepVar), MCP: os.Getenv(demo.MCPVar) != ""}
	}},
	pi.Name: {open: func() agent.Backend { return pi.New() }, missing: pi.Missing, can: sure(pi.Can)},

	claude.Name:       {open: func() agent.Backend { return claude.New() }, missing: claude.Missing, can: sure(claude.Can)},
	acp.Gemini.Name:   acpBuiltin(acp.Gemini),
	acp.OpenCode.Name: acpBuiltin(acp.OpenCode),
	acp.Claude.Name:   acpBuiltin(acp.Claude),
	acp.Codex.Name:    acpBuiltin(acp.Codex),
}

func acpBuiltin(a acp.Agent) builtin {
	return builtin{open: func() agent.Backend { return acp.New(a) }, missing: a.Missing, can: a.Can}
}

// Builtins are the names of the built-in agents: those whose program is
// installed, then those that need none, then the rest.
func Builtins() []string {
	names := slices.Sorted(maps.Keys(builtins))
	rank := map[string]int{}
	for name, b := range builtins {
		switch {
		case b.missing == nil:
			rank[name] = 1
		case b.missing() != nil:
			rank[name] = 2
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return rank[a] - rank[b] })
	return names
}

// Missing tells without delay why the program of a built-in agent cannot be
// found; the function is nil for an agent that needs none.
func Missing(name string) func() error { return builtins[name].missing }

// Can is what a built-in agent promises, in the version that this was made for
// and without anything started; nothing for the demo agent, which promises what
// its configuration says.
func Can(name string) (agent.Capabilities, error) {
	if can := builtins[name].can; can != nil {
		return can()
	}
	return agent.Capabilities{}, nil
}

// MissingACP is Missing for an agent that is only known by its command.
func MissingACP(name string, command []string) func() error {
	return acp.Custom(name, command).Missing
}

// ServeACP makes this process the plugin of an agent that speaks the Agent
// Client Protocol and is only known by its command.
func ServeACP(name string, command []string) error {
	return sdk.Serve(acp.New(acp.Custom(name, command)))
}

// ServeBuiltin makes this process the plugin of a built-in agent, until the
// gateway ends it.
func ServeBuiltin(name string) error {
	b, ok := builtins[name]
	if !ok {
		return fmt.Errorf("there is no built-in agent %q; there are: %s", name, strings.Join(Builtins(), ", "))
	}
	return sdk.Serve(b.open())
}
