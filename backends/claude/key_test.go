package claude

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/polyhost/polyhost/core/agent"
)

func TestAKeyThatAClientLentReachesTheProgram(t *testing.T) {
	t.Parallel()
	for lent, want := range map[string]string{"": "own", "lent": "lent"} {
		out := filepath.Join(t.TempDir(), "key")
		b := &Backend{Path: "/bin/sh", Args: []string{"-c", `printf %s "$ANTHROPIC_API_KEY" > "$OUT"`},
			Env: []string{"OUT=" + out, "ANTHROPIC_API_KEY=own"}}
		if _, err := b.Open(t.Context(), agent.Open{Dirs: []string{t.TempDir()}, Tokens: map[string]string{anthropicAPI: lent}}); err == nil {
			t.Fatal("a program that says nothing was taken for the CLI")
		}
		b.Close()
		if got, err := os.ReadFile(out); err != nil || string(got) != want {
			t.Errorf("the program got the key %q, %v; want %q", got, err, want)
		}
	}
}
