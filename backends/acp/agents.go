package acp

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/polyhost/polyhost/backends/internal/cli"
	"github.com/polyhost/polyhost/core/agent"
)

// Agent says how to drive one agent that speaks the protocol.
type Agent struct {
	// Name is the backend's, Title what people call the agent.
	Name  string
	Title string
	// Program finds it; Args follow its path.
	Program cli.Program
	Args    func() []string
	// Env are settings, Inherit the variables that reach the agent beside the
	// usual ones.
	Env     []string
	Inherit []string
	// Says is what the version that this was made for answers to initialize as
	// its capabilities. It is for the documentation: the answer of the one that
	// runs is what counts.
	Says string
	// SignIn is the command that signs in, or what to do.
	SignIn string
	// Keys are sign-in methods that need no person: by method, the variable
	// that holds the key.
	Keys []Key

	// AskMode is the mode in which the agent asks before it acts, where it
	// does not start in it; PlanMode the one in which it only plans.
	AskMode  string
	PlanMode string
	// Personas: the agent's modes are its ways to work, not how much it asks.
	Personas bool
	// NamesInIDs: call ids begin with the tool's name and two underscores.
	NamesInIDs bool
	// NamesInTitles: a call's first title is the tool's name.
	NamesInTitles bool
	// ServersInInput: the input of a call of an MCP server's tool has the
	// server, the tool and its arguments, and the title says the first two.
	ServersInInput bool
	// FolderServers: it starts the servers of a folder's .mcp.json, and takes
	// the settings of Claude Code that turn them off.
	FolderServers bool
	// AsksForFolders: before a call leaves the working directories it is asked
	// about their folders, as a question of no kind about the same call.
	AsksForFolders bool
	// ErrorsAsText: a model error comes as text first, which begins so.
	ErrorsAsText *regexp.Regexp
	// NoTokens: it never says how many tokens a turn took.
	NoTokens bool
	// Minute is the minute in which a conversation began, zero if it is not
	// known; nil unless loading one within that minute destroys it.
	Minute func(id string) time.Time
	// Keeps are patterns of the files in which the agent keeps conversations;
	// nil if nobody knows.
	Keeps func() []string
	// Subagents and Plans say what the agent was seen to report.
	Subagents, Plans bool
}

// Key is a sign-in method and the variable it needs.
type Key struct{ Method, Var string }

// under is a pattern below the directory that a variable names, or else below
// a directory of the home.
func under(variable, otherwise string, pattern ...string) func() []string {
	return func() []string {
		dir := os.Getenv(variable)
		if dir == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				return nil
			}
			dir = filepath.Join(home, otherwise)
		}
		return []string{filepath.Join(append([]string{dir}, pattern...)...)}
	}
}

// geminiMinute reads the minute off the name of the file that Gemini keeps a
// conversation in. The rest of the name is the beginning of the id.
func geminiMinute(id string) time.Time {
	id, _, ok := strings.Cut(id, "-")
	if !ok || strings.ContainsAny(id, `*?[\/`) {
		return time.Time{}
	}
	for _, pattern := range under("GEMINI_CLI_HOME", "", ".gemini", "tmp", "*", "chats", "session-*-"+id+".jsonl")() {
		found, _ := filepath.Glob(pattern) // one that cannot be read finds nothing
		for _, path := range found {
			name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "session-"), "-"+id+".jsonl")
			if at, err := time.Parse("2006-01-02T15-04", name); err == nil {
				return at
			}
		}
	}
	return time.Time{}
}

func fixed(args ...string) func() []string { return func() []string { return args } }

// Gemini is the Gemini CLI.
var Gemini = Agent{
	Name: "gemini", Title: "Gemini CLI",
	Program: cli.Program{Title: "Gemini CLI", Name: "gemini", Var: "GEMINI_CLI_PATH", Install: "npm install -g @google/gemini-cli"},
	Args:    fixed("--acp"),
	Env:     []string{"GEMINI_CLI_NO_RELAUNCH=true", "GEMINI_TELEMETRY_ENABLED=false", "NO_BROWSER=true"},
	Inherit: []string{"GEMINI_*", "GOOGLE_*"},
	SignIn:  "run gemini once and sign in, or set GEMINI_API_KEY",
	Keys:    []Key{{"gemini-api-key", "GEMINI_API_KEY"}},
	AskMode: "default", PlanMode: "plan", NamesInIDs: true, Minute: geminiMinute,
	Says: `{"loadSession":true,"promptCapabilities":{"image":true},"mcpCapabilities":{"http":true}}`,
}

// OpenCode is opencode.
var OpenCode = Agent{
	Name: "opencode", Title: "opencode",
	Program: cli.Program{Title: "opencode", Name: "opencode", Var: "OPENCODE_PATH", Install: "npm install -g opencode-ai"},
	Args:    fixed("acp"),
	Env: []string{"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_AUTO_SHARE=0",
		`OPENCODE_PERMISSION={"edit":"ask","bash":"ask","webfetch":"ask","external_directory":"ask"}`},
	Inherit: []string{"OPENCODE_*", "ANTHROPIC_*", "OPENAI_*", "GEMINI_*", "GOOGLE_*", "AZURE_*", "AWS_*",
		"OPENROUTER_*", "MISTRAL_*", "GROQ_*", "XAI_*", "DEEPSEEK_*"},
	SignIn:   "opencode auth login",
	PlanMode: "plan", Personas: true, NamesInTitles: true, AsksForFolders: true, Plans: true,
	Keeps: under("XDG_DATA_HOME", ".local/share", "opencode", "opencode*.db*"),
	Says:  `{"loadSession":true,"promptCapabilities":{"image":true},"mcpCapabilities":{"http":true},"sessionCapabilities":{"fork":{},"list":{},"resume":{}}}`,
}

// claudeError is how Claude words a model error.
var claudeError = regexp.MustCompile(`^(API Error|Failed to authenticate)`)

// Claude is Claude Code behind its adapter.
var Claude = Agent{
	Name: "claude-acp", Title: "Claude Code (ACP adapter)",
	Program: cli.Program{Title: "The Claude adapter", Name: "claude-agent-acp", Var: "CLAUDE_ACP_PATH",
		Install: "npm install -g @agentclientprotocol/claude-agent-acp"},
	Args:    fixed(),
	Env:     []string{"DISABLE_AUTOUPDATER=1", "DISABLE_TELEMETRY=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1"},
	Inherit: []string{"ANTHROPIC_*", "CLAUDE_*", "AWS_*", "GOOGLE_*", "IS_SANDBOX"},
	SignIn:  "claude /login",
	AskMode: "default", PlanMode: "plan", ErrorsAsText: claudeError, FolderServers: true, Subagents: true, Plans: true,
	Keeps: under("CLAUDE_CONFIG_DIR", ".claude", "projects", "*", "*.jsonl"),
	Says:  `{"loadSession":true,"promptCapabilities":{"image":true},"mcpCapabilities":{"http":true},"sessionCapabilities":{"fork":{},"list":{},"resume":{}}}`,
}

// Codex is Codex behind its adapter.
var Codex = Agent{
	Name: "codex-acp", Title: "Codex (ACP adapter)",
	Program: cli.Program{Title: "The Codex adapter", Name: "codex-acp", Var: "CODEX_ACP_PATH",
		Install: "npm install -g @zed-industries/codex-acp"},
	Args: func() []string {
		args := []string{"-c", `approval_policy="untrusted"`, "-c", "check_for_update_on_startup=false", "-c", "analytics.enabled=false"}
		// Its sandbox needs this program; without it every command fails.
		if _, err := exec.LookPath("bwrap"); err != nil {
			args = append(args, "-c", `sandbox_mode="danger-full-access"`)
		}
		return args
	},
	Inherit: []string{"OPENAI_*", "CODEX_*"},
	SignIn:  "codex login",
	Keys:    []Key{{"codex-api-key", "CODEX_API_KEY"}, {"openai-api-key", "OPENAI_API_KEY"}},
	Plans:   true, ServersInInput: true, NoTokens: true,
	Keeps: under("CODEX_HOME", ".codex", "sessions", "*", "*", "*", "*.jsonl"),
	Says:  `{"loadSession":true,"promptCapabilities":{"image":true},"mcpCapabilities":{"http":true},"sessionCapabilities":{"list":{},"resume":{}}}`,
}

// Missing is why the agent's program cannot be found, an *agent.Problem, found without
// delay; nil when it can.
func (a Agent) Missing() error {
	_, _, err := a.Program.Find()
	return err
}

// Can is what the agent promises in the version that this was made for.
func (a Agent) Can() (agent.Capabilities, error) {
	var init initializeAnswer
	if err := json.Unmarshal([]byte(a.Says), &init.Capabilities); err != nil {
		return agent.Capabilities{}, fmt.Errorf("what %s says: %w", a.Name, err)
	}
	can := a.describe(&init).Capabilities
	can.SetModel, can.SetMode = true, a.PlanMode != "" // the sessions of all of them list both
	return can, nil
}

// Custom is an agent that is only known by its command.
func Custom(name string, command []string) Agent {
	return Agent{
		Name: name, Title: name,
		Program: cli.Program{Title: name, Name: command[0], Install: "correct the command of " + name + " in the configuration"},
		Args:    fixed(command[1:]...),
		SignIn:  "sign in with " + strings.Join(command, " "),
		AskMode: "default", PlanMode: "plan", Plans: true,
	}
}

func (a *Agent) offers(init *initializeAnswer, method string) bool {
	return slices.ContainsFunc(init.AuthMethods, func(m authMethod) bool { return m.ID == method })
}

// object is raw if it is a JSON object of a size that may go on.
func object(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || raw[0] != '{' || len(raw) > maxText {
		return nil
	}
	return raw
}
