//go:build e2e

package codex

import (
	"testing"

	"github.com/polyhost/polyhost/backends/contract"
	"github.com/polyhost/polyhost/core/agent"
)

// real is the installed CLI, as POLYHOST_CODEX says, whose own configuration
// names the model server.
func real(*testing.T) agent.Backend { return New() }

func TestRealFailures(t *testing.T) {
	contract.Failures(t, real, "say 2 words", "alpha bravo", []contract.Failure{
		{Name: "401", Prompt: "fail 401", Code: codeAuth, Retries: true},
		{Name: "429", Prompt: "fail 429 1", Code: codeRateLimited, Retries: true},
		{Name: "529", Prompt: "fail 529", Code: codeOverloaded, Retries: true},
		{Name: "400", Prompt: "fail 400", Code: codeBadRequest},
		{Name: "cut", Prompt: "cut 3", Code: codeCutStream, Retries: true},
		{Name: "refusal", Prompt: "refuse", Code: codeRefusal, Retries: true},
		{Name: "overflow", Prompt: "overflow", Code: codeOverflow},
		{Name: "max tokens", Prompt: "maxtok", Code: codeTokens},
	})
}
