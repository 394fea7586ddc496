package claude

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/polyhost/polyhost/backends/internal/agenttest"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// TestTapes plays what the real CLI said; see docs/testing.md.
func TestTapes(t *testing.T) {
	t.Parallel()
	pick := func(f agent.Frame) event.Resolution {
		return event.Resolution{Outcome: event.Answered, Answers: []event.Answer{{ID: f.Questions[0].ID, Selected: []string{"red"}}}}
	}
	agenttest.Deck{
		Open: func(t *testing.T, program string, env []string) agent.Backend {
			return &Backend{Path: program, Env: env}
		},
		Program: program.Find,
		Setup: func(_ *testing.T, home, model string) []string {
			return []string{"ANTHROPIC_BASE_URL=" + model, "ANTHROPIC_API_KEY=any", "CLAUDE_CONFIG_DIR=" + home + "/.claude", "CLAUDE_CODE_MAX_RETRIES=1"}
		},
		Drop: []string{"commands", "models", "agents", "output_style", "available_output_styles", "account", "pid", "slash_commands", "skills", "plugins", "memory_paths",
			"tools", "signature", "permission_suggestions", "capabilities", "subagent_stats", "owed_rows", "terminal_slash_commands", "messaging_socket_path",
			"model_usage_since_last_result", "user_message_uuids", "user_message_uuid"},
		Scenarios: []agenttest.Scenario{
			{Name: "question", Play: func(k *agenttest.Talk) {
				k.Play("t1", `tool: AskUserQuestion {"questions":[{"question":"Which colour?","header":"Colour","options":[{"label":"red","description":"r"},{"label":"blue","description":"b"}],"multiSelect":false}]}`, pick)
			}},
			{Name: "plan", Play: func(k *agenttest.Talk) {
				k.Settings.Model = "claude-sonnet-4-5" // its default one has no such tools
				k.Play("t1", `tool: ToolSearch {"query":"select:TaskCreate,TaskUpdate"}
tool: TaskCreate {"subject":"Look around","description":"See what there is"}
tool: TaskUpdate {"taskId":"1","status":"in_progress"}`, agenttest.Allow)
			}},
			{Name: "plan-mode", Play: func(k *agenttest.Talk) {
				k.Settings.Mode = event.ModePlan
				k.Play("t1", `tool: ToolSearch {"query":"select:ExitPlanMode"}
tool: ExitPlanMode {"plan":"Look, then tell."}`, agenttest.Allow)
			}},
			{Name: "servers-of-the-folder", Files: map[string]string{".mcp.json": `{"mcpServers":{"docs":{"command":"touch","args":["started"]}}}`}, Play: func(k *agenttest.Talk) {
				k.Play("t1", "say 2 words", nil)
				if _, err := os.Stat(filepath.Join(k.Dir, "started")); err == nil {
					k.T.Error("a server was started that nobody approved")
				}
			}},
			{Name: "subagent", Play: func(k *agenttest.Talk) { k.Play("t1", "agent: run: touch sub.txt", agenttest.Allow) }},
			{Name: "compact", Play: func(k *agenttest.Talk) {
				k.Play("t1", "say 5 words", nil)
				k.Play("t2", "/compact", nil)
			}},
		},
	}.Run(t)
}
