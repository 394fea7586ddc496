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

	"github.com/polyhost/polyhost/backends/codex"
	"github.com/polyhost/polyhost/backends/demo"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/plugins/sdk"
)

var builtins = map[string]func() agent.Backend{
	codex.Name: func() agent.Backend { return codex.New() },
	"demo": func() agent.Backend {
		return &demo.Backend{Crash: func() { os.Exit(demo.CrashStatus) }, Keep: os.Getenv(demo.KeepVar)}
	},
}

// Builtins are the names of the built-in agents, sorted.
func Builtins() []string { return slices.Sorted(maps.Keys(builtins)) }

// ServeBuiltin makes this process the plugin of a built-in agent, until the
// gateway ends it.
func ServeBuiltin(name string) error {
	backend, ok := builtins[name]
	if !ok {
		return fmt.Errorf("there is no built-in agent %q; there are: %s", name, strings.Join(Builtins(), ", "))
	}
	return sdk.Serve(backend())
}
