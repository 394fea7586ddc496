//go:build e2e

package pi

import (
	"os"
	"testing"

	"github.com/polyhost/polyhost/backends/contract"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// real is the installed pi, as POLYHOST_PI_REAL says, whose own configuration
// names the model server.
func real(t *testing.T) agent.Backend {
	t.Setenv("PI_CODING_AGENT_DIR", os.Getenv("HOME")+"/.pi/agent")
	return &Backend{path: os.Getenv("POLYHOST_PI_REAL")}
}

func TestRealContract(t *testing.T) {
	real(t) // its setting of the environment holds for all of them
	open := func(*testing.T) agent.Backend { return &Backend{path: os.Getenv("POLYHOST_PI_REAL")} }
	contract.Run(t, open, contract.Config{Text: "say 6 words", TextWant: "alpha bravo charlie", Forks: true, ForksAt: true})
}

func TestRealFailures(t *testing.T) {
	contract.Failures(t, real, "say 2 words", "alpha bravo", []contract.Failure{
		{Name: "401", Prompt: "fail 401", Code: event.CodeAuth},
		{Name: "429", Prompt: "fail 429 1", Code: event.CodeRateLimited, Retries: true},
		{Name: "529", Prompt: "fail 529", Code: event.CodeOverloaded},
		{Name: "400", Prompt: "fail 400", Code: event.CodeBadRequest},
		{Name: "cut", Prompt: "cut 3", Code: event.CodeCutStream, Retries: true},
		{Name: "refusal", Prompt: "refuse", Code: event.CodeRefusal},
		{Name: "overflow", Prompt: "overflow", Code: event.CodeOverflow},
		{Name: "max tokens", Prompt: "maxtok"},
	})
}
