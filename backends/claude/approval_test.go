package claude

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/core/agent"
)

func TestServersThatAreWithheldAreTold(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ".mcp.json"), []byte(`{"mcpServers":{"docs":{"command":"docs"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	d := talk(t, standIn(t), agent.Open{Dirs: []string{dir}})
	for i, turn := range []string{"t1", "t2"} {
		d.Say(turn, "say hello")
		told := 0
		for _, f := range d.Until(agent.TurnEnd) {
			if f.Kind == agent.Notice && f.Notice.Code == "mcp_not_approved" && strings.Contains(f.Notice.Text, "docs") {
				told++
			}
		}
		if told != 1-i {
			t.Errorf("told %d times in %s", told, turn)
		}
	}
}
