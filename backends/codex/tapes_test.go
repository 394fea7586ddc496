package codex

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/polyhost/polyhost/backends/internal/agenttest"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// stubConfig points the CLI at a model server.
const stubConfig = `model = "gpt-5.5" # the tools depend on the model
model_provider = "stub"
model_reasoning_summary = "detailed"
[model_providers.stub]
name = "stub"
base_url = "%s/v1"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 1
`

// TestTapes plays what the real CLI said; see docs/testing.md.
func TestTapes(t *testing.T) {
	t.Parallel()
	pick := func(f agent.Frame) event.Resolution {
		return event.Resolution{Outcome: event.Answered, Answers: []event.Answer{{ID: f.Questions[0].ID, Selected: []string{"red"}}}}
	}
	agenttest.Deck{
		Open: func(_ *testing.T, program string, env []string) agent.Backend {
			b := quiet()
			b.find = func() (string, []string, []string, error) { return program, nil, env, nil }
			return b
		},
		Program: program.Find,
		Setup: func(t *testing.T, home, model string) []string {
			dir := filepath.Join(home, ".codex")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "config.toml"), fmt.Appendf(nil, stubConfig, model), 0o600); err != nil {
				t.Fatal(err)
			}
			return []string{"CODEX_HOME=" + dir}
		},
		Drop: []string{"skills", "instructionSources", "serverName", "developer_instructions", "sandbox", "activePermissionProfile", "gitInfo", "encrypted_content", "proposedExecpolicyAmendment", "availableDecisions"},
		Scenarios: []agenttest.Scenario{
			{Name: "edit", Files: map[string]string{"hello.txt": "hello from the stub\nsecond line\n"}, Play: func(k *agenttest.Talk) {
				k.Play("t1", "edit: hello.txt", agenttest.Allow)
			}},
			{Name: "question", Play: func(k *agenttest.Talk) {
				k.Play("t1", `tool: request_user_input {"questions":[{"id":"q1","question":"Which colour?","header":"Colour","options":[{"label":"red","description":"r"},{"label":"blue","description":"b"}]}]}`, pick)
			}},
			{Name: "subagent", Play: func(k *agenttest.Talk) {
				k.Settings.Model = "stub-large" // the other has no such tool
				k.Play("t1", "agent: run: touch sub.txt", agenttest.Allow)
			}},
			{Name: "compact", Play: func(k *agenttest.Talk) {
				k.Play("t1", "say 5 words", nil)
				k.Play("t2", "/compact", nil)
			}},
		},
	}.Run(t)
}
