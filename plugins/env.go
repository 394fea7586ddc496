package plugins

import (
	"slices"

	"github.com/polyhost/polyhost/backends/demo"
)

// providers are the variables by which agents of any model take their keys and
// addresses.
var providers = []string{"ANTHROPIC_*", "OPENAI_*", "GEMINI_*", "GOOGLE_*", "AZURE_*", "AWS_*", "OPENROUTER_*", "MISTRAL_*", "GROQ_*", "XAI_*", "DEEPSEEK_*"}

// builtinEnv are the variables that the agents of the built-in plugins read,
// beside the usual ones; a name that ends in * is a prefix.
var builtinEnv = map[string][]string{
	"demo":   {demo.KeepVar},
	"claude": {"POLYHOST_CLAUDE*", "ANTHROPIC_*", "CLAUDE_*", "AWS_*", "GOOGLE_*"},
	"codex":  {"OPENAI_*", "CODEX_*"},
	"acp":    append([]string{"CLAUDE_*", "CODEX_*", "OPENCODE_*"}, providers...),
	"pi":     append([]string{"PI_*"}, providers...),
}

// BuiltinEnv are the names, or prefixes that end in *, of the variables that a
// built-in agent gets from the gateway's environment beside the usual ones.
func BuiltinEnv(name string) []string { return slices.Clone(builtinEnv[name]) }
