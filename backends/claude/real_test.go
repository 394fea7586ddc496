//go:build e2e

package claude

import (
	"os"
	"testing"

	"github.com/polyhost/polyhost/backends/contract"
	"github.com/polyhost/polyhost/core/agent"
)

// real is the installed CLI, as POLYHOST_CLAUDE says, against the model server
// at ANTHROPIC_BASE_URL.
func real(t *testing.T) agent.Backend {
	return &Backend{Env: []string{"CLAUDE_CODE_MAX_RETRIES=1", "CLAUDE_CONFIG_DIR=" + os.Getenv("HOME") + "/.claude"}}
}

func TestRealContract(t *testing.T) {
	c := contract.Config{
		Text: "say 6 words", TextWant: "alpha bravo charlie",
		Long: "slow 4000 20",
		Slow: "slow 5 50",
		Fail: "fail 400", FailWant: "400",
		Ask:  `tool: AskUserQuestion {"questions":[{"question":"Which colour?","header":"Colour","options":[{"label":"red","description":"r"},{"label":"blue","description":"b"}],"multiSelect":false}]}`,
		Exec: func(command string) string { return "run: touch .asked; " + command },
	}
	c.Past = c.Remember(real)
	contract.Run(t, real, c)
}
