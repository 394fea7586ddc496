package plugins

import (
	"slices"

	"github.com/polyhost/polyhost/backends/acp"
	"github.com/polyhost/polyhost/backends/demo"
	"github.com/polyhost/polyhost/backends/pi"
)

// PassVar names, separated by commas, the variables that a built-in plugin
// passes on to its agent's program beside those it knows of.
const PassVar = "POLYHOST_PASS_ENV"

// builtinEnv are the variables that the agents of the built-in plugins read,
// beside the usual ones; a name that ends in * is a prefix.
var builtinEnv = map[string][]string{
	"demo":   {demo.KeepVar, demo.MCPVar},
	"claude": {"POLYHOST_CLAUDE*", "ANTHROPIC_*", "CLAUDE_*", "AWS_*", "GOOGLE_*", "CLOUD_ML_REGION", "API_TIMEOUT_MS", "MAX_THINKING_TOKENS", "BASH_*"},
	"codex":  {"POLYHOST_CODEX*", "OPENAI_*", "CODEX_*"},
	pi.Name:  pi.Variables,

	acp.Gemini.Name:   acp.Gemini.Inherit,
	acp.OpenCode.Name: acp.OpenCode.Inherit,
	acp.Claude.Name:   acp.Claude.Inherit,
	acp.Codex.Name:    acp.Codex.Inherit,
}

// BuiltinEnv are the names, or prefixes that end in *, of the variables that a
// built-in agent gets from the gateway's environment beside the usual ones.
func BuiltinEnv(name string) []string { return slices.Clone(builtinEnv[name]) }
