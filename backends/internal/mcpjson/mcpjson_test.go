package mcpjson

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestServersOfAFolderNeedApproval(t *testing.T) {
	t.Parallel()
	const servers = `{"mcpServers":{"b":{"command":"b"},"a":{"command":"a"}}}`
	const off, all = "a b", "all"
	for name, test := range map[string]struct {
		files map[string]string // HOME is the user's home, DIR the working directory
		want  string
	}{
		"none":                 {nil, ""},
		"not approved":         {map[string]string{"DIR/.mcp.json": servers}, off},
		"above":                {map[string]string{"DIR/../.mcp.json": servers}, off},
		"no file of ours":      {map[string]string{"DIR/.mcp.json": `{"mcpServers":[]}`}, all},
		"twice, then nothing":  {map[string]string{"DIR/.mcp.json": `{"mcpServers":{"a":{}},"mcpServers":null}`}, "a"},
		"spelled differently":  {map[string]string{"DIR/.mcp.json": `{"mcpServers":{"a":{}},"MCPSERVERS":null}`}, "a"},
		"twice":                {map[string]string{"DIR/.mcp.json": `{"mcpServers":{"a":{}},"mcpServers":{"b":{}}}`}, off},
		"half a character":     {map[string]string{"DIR/.mcp.json": "{\"mcpServers\":{\"a\xe2\x82\":{}}}"}, all},
		"half a pair":          {map[string]string{"DIR/.mcp.json": `{"mcpServers":{"a\ud800":{}}}`}, all},
		"a name that is a key": {map[string]string{"DIR/.mcp.json": `{"mcpServers":{"__proto__":{}}}`}, "__proto__"},
		"no object":            {map[string]string{"DIR/.mcp.json": `[]`}, all},
		"nothing":              {map[string]string{"DIR/.mcp.json": ``}, all},
		"two values":           {map[string]string{"DIR/.mcp.json": `{} ` + servers}, all},
		"no JSON":              {map[string]string{"DIR/.mcp.json": "{}}"}, all},
		"all by the user":      {map[string]string{"DIR/.mcp.json": servers, "HOME/.claude/settings.json": `{"enableAllProjectMcpServers":true}`}, ""},
		"one by the user": {map[string]string{"DIR/.mcp.json": servers, "HOME/.claude/settings.json": `{"enabledMcpjsonServers":["a"]}`},
			"b"},
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
			// A link to the folder is the folder: the CLI looks where it runs.
			link := filepath.Join(t.TempDir(), "link")
			if err := os.Symlink(dir, link); err != nil {
				t.Fatal(err)
			}
			for _, at := range []string{dir, link} {
				w := Withhold(at, func(name string) string { return map[string]string{"HOME": home}[name] })
				got := strings.Join(w.Names, " ")
				if w.All {
					got = all
				}
				if got != test.want || (w.Note == "") != (got == "") {
					t.Errorf("in %s: %s (%s), want %s", at, got, w.Note, test.want)
				}
			}
		})
	}
}
