package claude

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/core/agent"
)

func TestServersOfAFolderNeedApproval(t *testing.T) {
	t.Parallel()
	const servers = `{"mcpServers":{"b":{"command":"b"},"a":{"command":"a"}}}`
	const off = `--settings {"disabledMcpjsonServers":["a","b"]}`
	for name, test := range map[string]struct {
		files map[string]string // HOME is the user's home, DIR the working directory
		want  string
	}{
		"none":            {nil, ""},
		"not approved":    {map[string]string{"DIR/.mcp.json": servers}, off},
		"above":           {map[string]string{"DIR/../.mcp.json": servers}, off},
		"no file of ours": {map[string]string{"DIR/.mcp.json": `{"mcpServers":[]}`}, "--strict-mcp-config"},
		"no JSON":         {map[string]string{"DIR/.mcp.json": "{}}"}, "--strict-mcp-config"},
		"all by the user": {map[string]string{"DIR/.mcp.json": servers, "HOME/.claude/settings.json": `{"enableAllProjectMcpServers":true}`}, ""},
		"one by the user": {map[string]string{"DIR/.mcp.json": servers, "HOME/.claude/settings.json": `{"enabledMcpjsonServers":["a"]}`},
			`--settings {"disabledMcpjsonServers":["b"]}`},
		"in the record of the folder": {map[string]string{"DIR/.mcp.json": servers, "HOME/.claude.json": `{"projects":{"DIR":{"enabledMcpjsonServers":["a","b"]}}}`}, ""},
		"by the folder itself": {map[string]string{"DIR/.mcp.json": servers,
			"DIR/.claude/settings.json":       `{"enableAllProjectMcpServers":true}`,
			"DIR/.claude/settings.local.json": `{"enabledMcpjsonServers":["a","b"]}`}, off},
		"by a folder that is trusted": {map[string]string{"DIR/.mcp.json": servers,
			"DIR/.claude/settings.local.json": `{"enabledMcpjsonServers":["a","b"]}`,
			"HOME/.claude.json":               `{"projects":{"DIR":{"hasTrustDialogAccepted":true}}}`}, ""},
		"trusted, not approved": {map[string]string{"DIR/.mcp.json": servers, "HOME/.claude.json": `{"projects":{"DIR":{"hasTrustDialogAccepted":true}}}`}, off},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home, dir := t.TempDir(), filepath.Join(t.TempDir(), "w")
			places := strings.NewReplacer("HOME", home, "DIR", dir)
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			for path, text := range test.files {
				path = places.Replace(path)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(places.Replace(text)), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			b := &Backend{Env: []string{"HOME=" + home, "CLAUDE_CONFIG_DIR="}}
			args, note := b.withhold(dir)
			if got := strings.Join(args, " "); got != test.want || (note == "") != (got == "") {
				t.Errorf("%s (%s), want %s", got, note, test.want)
			}
		})
	}
}

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
