//go:build e2e

package codex

import (
	"testing"

	"github.com/polyhost/polyhost/backends/contract"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// real is the installed CLI, as POLYHOST_CODEX says, whose own configuration
// names the model server.
func real(*testing.T) agent.Backend { return New() }

func TestRealContract(t *testing.T) {
	contract.Run(t, real, contract.Config{Text: "say 6 words", TextWant: "alpha bravo charlie", Forks: true, ForksAt: true})
}

func TestRealFailures(t *testing.T) {
	contract.Failures(t, real, "say 2 words", "alpha bravo", []contract.Failure{
		{Name: "401", Prompt: "fail 401", Code: event.CodeAuth, Retries: true},
		{Name: "429", Prompt: "fail 429 1", Code: event.CodeRateLimited, Retries: true},
		{Name: "529", Prompt: "fail 529", Code: event.CodeOverloaded, Retries: true},
		{Name: "400", Prompt: "fail 400", Code: event.CodeBadRequest},
		{Name: "cut", Prompt: "cut 3", Code: event.CodeCutStream, Retries: true},
		{Name: "refusal", Prompt: "refuse", Code: event.CodeRefusal, Retries: true},
		{Name: "overflow", Prompt: "overflow", Code: event.CodeOverflow},
		{Name: "max tokens", Prompt: "maxtok", Code: event.CodeMaxTokens},
	})
}
