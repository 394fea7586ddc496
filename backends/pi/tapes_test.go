package pi

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/polyhost/polyhost/backends/internal/agenttest"
	"github.com/polyhost/polyhost/core/agent"
)

// stubModels are the models of a model server.
const stubModels = `{"providers": {"stub": {"baseUrl": "%s/v1", "api": "openai-completions", "apiKey": "any", "models": [
	{"id": "stub-large", "name": "Stub", "reasoning": true, "input": ["text", "image"], "contextWindow": 200000, "maxTokens": 8000}]}}}`

// TestTapes plays what the real CLI said; see docs/testing.md.
func TestTapes(t *testing.T) {
	t.Parallel()
	agenttest.Deck{
		Open: func(_ *testing.T, program string, env []string) agent.Backend {
			return &Backend{path: program, env: env}
		},
		Program: func() (string, []string, error) {
			b := &Backend{path: cmp.Or(installed, Program.Name)}
			return b.find()
		},
		Setup: func(t *testing.T, home, model string) []string {
			dir := filepath.Join(home, ".pi", "agent")
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{
				"models.json":   fmt.Sprintf(stubModels, model),
				"settings.json": `{"defaultProvider":"stub","defaultModel":"stub-large","retry":{"maxRetries":1,"baseDelayMs":100},"compaction":{"keepRecentTokens":1}}`,
			} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			return []string{"PI_CODING_AGENT_DIR=" + dir, "PI_OFFLINE=1"}
		},
		Made: regexp.MustCompile(`\b[a-z0-9]{10}-\d+-\d+\b`), // ids of parts
		Drop: []string{"systemPrompt", "tools", "commands"},
		Scenarios: []agenttest.Scenario{
			{Name: "plan"}, // it has no such tool
			{Name: "compact", Play: func(k *agenttest.Talk) {
				k.Play("t1", "say 5 words", nil)
				k.Play("t2", "overflow", nil)
			}},
		},
	}.Run(t)
}
