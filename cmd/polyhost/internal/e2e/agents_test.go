//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// cli is an agent's program and how it is pointed at the model.
type cli struct {
	backend  string
	packages []string // pinned, from the npm registry
	program  string
	// setup writes the program's settings into its home and returns its
	// environment.
	setup func(t *testing.T, home, model string) []string
	// search is what a model plays to find the client's tool "lookup", which
	// then has the name in found; "" if it is offered at once.
	search, found   string
	noFork, noUsage bool // what the program lacks
	forkAt          bool // it goes back to a turn
	plugins         bool // it takes those of clients
	shellInit       bool // it takes scripts of windows
	// compact makes it shorten the conversation, if a prompt can do that.
	compact string
	// failures are the codes of those that the program tells as something else
	// than what they are: "" for a turn that ends well.
	failures map[string]string
}

// silent is the code of failures for which a program tries again for longer
// than is waited here.
const silent = "silent"

var clis = []cli{
	{
		backend: "claude", packages: []string{"@anthropic-ai/claude-code@2.1.332"}, program: "claude",
		setup: claudeSetup, search: `tool: ToolSearch {"query":"select:mcp__polyhost__lookup"}`, found: "mcp__polyhost__lookup",
		forkAt: true, plugins: true, shellInit: true, compact: "/compact",
	},
	{
		backend: "codex", packages: []string{"@openai/codex@0.171.0"}, program: "codex",
		setup: codexSetup, search: `tool: tool_search {"query":"lookup"}`, found: "mcp__polyhost.lookup",
		forkAt: true, compact: "/compact",
	},
	{
		backend: "pi", packages: []string{"@mariozechner/pi-coding-agent@0.73.1"}, program: "pi",
		setup: func(t *testing.T, home, model string) []string {
			write(t, filepath.Join(home, ".pi/agent/models.json"), encode(object{"providers": object{"stub": object{
				"baseUrl": model + "/v1", "api": "openai-completions", "apiKey": "any", "models": []any{object{
					"id": "stub-large", "name": "Stub", "reasoning": true, "input": []string{"text", "image"}, "contextWindow": 200000, "maxTokens": 8000}}}}}))
			write(t, filepath.Join(home, ".pi/agent/settings.json"), `{"defaultProvider":"stub","defaultModel":"stub-large","retry":{"maxRetries":1,"baseDelayMs":100}}`)
			return []string{"PI_OFFLINE=1"}
		},
		forkAt: true,
	},
	{
		backend: "gemini", packages: []string{"@google/gemini-cli@0.61.0"}, program: "gemini", noFork: true,
		failures: map[string]string{"fail 529": silent, "cut 5": silent, "fail 429 1": silent, "refuse": ""},
		setup: func(t *testing.T, home, model string) []string {
			write(t, filepath.Join(home, ".gemini/settings.json"), `{"security":{"auth":{"selectedType":"gemini-api-key"}},"general":{"enableAutoUpdate":false,"enableAutoUpdateNotification":false},
				"privacy":{"usageStatisticsEnabled":false},"telemetry":{"enabled":false}}`)
			return []string{"GOOGLE_GEMINI_BASE_URL=" + model, "GEMINI_API_KEY=any", "GEMINI_CLI_TRUST_WORKSPACE=true", "GEMINI_CLI_NO_RELAUNCH=true", "NO_BROWSER=true"}
		},
	},
	{
		backend: "opencode", packages: []string{"opencode-ai@1.18.33"}, program: "opencode",
		failures: map[string]string{"fail 529": silent, "overflow": ""},
		setup: func(t *testing.T, home, model string) []string {
			write(t, filepath.Join(home, ".config/opencode/opencode.json"), encode(object{"autoupdate": false, "share": "disabled", "model": "stub/stub-large",
				"small_model": "stub/stub-small", "permission": object{"bash": "ask", "edit": "ask"},
				"provider": object{"stub": object{"npm": "@ai-sdk/openai-compatible", "name": "Stub", "options": object{"baseURL": model + "/v1", "apiKey": "any"},
					"models": object{"stub-large": object{"name": "Stub large", "attachment": true, "reasoning": true, "modalities": object{"input": []string{"text", "image"}, "output": []string{"text"}}},
						"stub-small": object{"name": "Stub small"}}}}}))
			return []string{"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1", "OPENCODE_DISABLE_DEFAULT_PLUGINS=1"}
		},
	},
	{
		backend: "claude-acp", packages: []string{"@agentclientprotocol/claude-agent-acp@0.101.0"}, program: "claude-agent-acp",
		setup: claudeSetup, search: `tool: ToolSearch {"query":"select:mcp__polyhost__lookup"}`, found: "mcp__polyhost__lookup",
	},
	{
		backend: "codex-acp", packages: []string{"@zed-industries/codex-acp@0.16.0"}, program: "codex-acp", noFork: true, noUsage: true,
		setup: codexSetup,
	},
}

// claudeSetup points Claude Code at the model.
func claudeSetup(_ *testing.T, _, model string) []string {
	return []string{"ANTHROPIC_BASE_URL=" + model, "ANTHROPIC_API_KEY=any", "CLAUDE_CODE_MAX_RETRIES=1", "IS_SANDBOX=1"}
}

// codexSetup points Codex at the model.
func codexSetup(t *testing.T, home, model string) []string {
	write(t, filepath.Join(home, ".codex/config.toml"), fmt.Sprintf(`model = "gpt-5.5" # the tools depend on the model
model_provider = "stub"
model_reasoning_summary = "detailed"
model_supports_reasoning_summaries = true
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.stub]
name = "stub"
base_url = "%s/v1"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
`, model))
	return nil
}

type object = map[string]any

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// cacheVar names the folder that keeps the installed CLIs between runs.
const cacheVar = "POLYHOST_E2E_CACHE"

// installWithin is how long an installation may take.
const installWithin = 3 * time.Minute

func cache(t *testing.T) string {
	t.Helper()
	dir := os.Getenv(cacheVar)
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(base, "polyhost-e2e")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// install puts the program into the cache unless it is there, and returns the
// folder of its executables.
func (c *cli) install(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(cache(t), c.backend+"-"+strings.NewReplacer("/", "-", "@", "-").Replace(strings.Join(c.packages, "+")))
	bin := filepath.Join(dir, "node_modules", ".bin")
	if _, err := os.Stat(filepath.Join(bin, c.program)); err == nil {
		return bin
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), installWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", append([]string{"install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix", dir}, c.packages...)...)
	cmd.WaitDelay = 10 * time.Second // for what npm has started
	if out, err := cmd.CombinedOutput(); err != nil {
		_ = os.RemoveAll(dir)
		t.Fatalf("install %v: %v\n%s", c.packages, err, out)
	}
	return bin
}
