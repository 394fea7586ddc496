package claude

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/core/agent"
)

func TestPluginsAndInstructionsReachTheProgram(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "args")
	b := &Backend{Path: "/bin/sh", Args: []string{"-c", `printf '%s ' "$@" > "$OUT"`, "claude"}, Env: []string{"OUT=" + out}}
	defer b.Close()
	if _, err := b.Open(t.Context(), agent.Open{Dirs: []string{t.TempDir()}, Plugins: []string{"/a/tools", "/b/my plugin"}, Instructions: "Note what you made."}); err == nil {
		t.Fatal("a program that says nothing was taken for the CLI")
	}
	if got, err := os.ReadFile(out); err != nil || !strings.Contains(string(got), "--plugin-dir /a/tools --plugin-dir /b/my plugin ") ||
		!strings.Contains(string(got), "--append-system-prompt Note what you made. ") {
		t.Errorf("the program got %q, %v", got, err)
	}
}
