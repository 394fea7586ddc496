package claude

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// The MCP servers of a folder's .mcp.json are programs that somebody else may
// have put there. In a terminal the CLI asks about each; with -p it starts them
// all. So those that its user has not approved there are turned off here.

// approvals is what the CLI's settings, and its record of a folder, say of the
// servers of .mcp.json.
type approvals struct {
	All     bool     `json:"enableAllProjectMcpServers"`
	Enabled []string `json:"enabledMcpjsonServers"`
	Trusted bool     `json:"hasTrustDialogAccepted"`
}

// withheld are the servers of dir's .mcp.json, and of those above it, that are
// not approved. An error means that a file is there and cannot be understood.
func (b *Backend) withheld(dir string) ([]string, error) {
	declared := map[string]bool{}
	for at := dir; ; at = filepath.Dir(at) {
		var file struct {
			Servers map[string]json.RawMessage `json:"mcpServers"`
		}
		if err := load(filepath.Join(at, ".mcp.json"), &file); err != nil {
			return nil, err
		}
		for name := range file.Servers {
			declared[name] = true
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	if len(declared) == 0 {
		return nil, nil
	}
	approved := b.approved(dir)
	maps.DeleteFunc(declared, func(name string, _ bool) bool {
		return slices.ContainsFunc(approved, func(a approvals) bool { return a.All || slices.Contains(a.Enabled, name) })
	})
	return slices.Sorted(maps.Keys(declared)), nil
}

// approved is what counts in dir: the user's own settings, and the folder's own
// once the user trusts it. What cannot be read approves nothing.
func (b *Backend) approved(dir string) []approvals {
	var user, shared, local approvals
	_ = load(filepath.Join(b.config(), "settings.json"), &user)
	var record struct {
		Projects map[string]approvals `json:"projects"`
	}
	path := filepath.Join(b.variable("HOME"), ".claude.json")
	if own := b.variable("CLAUDE_CONFIG_DIR"); own != "" {
		path = filepath.Join(own, ".claude.json")
	}
	_ = load(path, &record)
	trusted := false
	for at := dir; !trusted; at = filepath.Dir(at) {
		trusted = record.Projects[at].Trusted
		if at == filepath.Dir(at) {
			break
		}
	}
	list := []approvals{user, record.Projects[dir]}
	if trusted {
		_ = load(filepath.Join(dir, ".claude", "settings.json"), &shared)
		_ = load(filepath.Join(dir, ".claude", "settings.local.json"), &local)
		list = append(list, shared, local)
	}
	return list
}

// load reads a JSON file; one that is not there is empty.
func load(path string, into any) error {
	// Without O_NONBLOCK a named pipe would hold the conversation.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSettings+1))
	switch {
	case err != nil:
		return err
	case len(b) > maxSettings:
		return fmt.Errorf("%s is larger than %d MiB", path, maxSettings>>20)
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// withhold are the arguments that keep the servers of dir's .mcp.json from
// being started unless they are approved, and what to tell of it.
func (b *Backend) withhold(dir string) (args []string, note string) {
	names, err := b.withheld(dir)
	switch {
	case err != nil:
		// Which servers the CLI would find is not known: only the session's.
		return []string{"--strict-mcp-config"}, "MCP servers beside the session's are not started: " + err.Error()
	case len(names) == 0:
		return nil, ""
	}
	return []string{"--settings", string(marshal(map[string]any{"disabledMcpjsonServers": names}))},
		"not started, since nobody has approved them: the MCP servers " + strings.Join(names, ", ") + " of .mcp.json. To approve them, run claude once in " + dir
}
