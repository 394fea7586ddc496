// Package mcpjson tells which MCP servers of a folder's .mcp.json must not be
// started. They are programs that somebody else may have put there. In a
// terminal Claude Code asks about each; started by another program it starts
// them all. So those that its user has not approved there are turned off.
//
// It reads the files as Claude Code does, or says that it cannot: a server that
// only the other one sees would run. It knows no driver.
package mcpjson

import (
	"bytes"
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
	"unicode/utf8"
)

// Withheld is what must not be started in a folder.
type Withheld struct {
	// Names are the servers to turn off.
	Names []string
	// All: no server of a file may be started, since one of the files cannot
	// be understood.
	All bool
	// Note tells people; "" if nothing is withheld.
	Note string
}

// approvals is what the CLI's settings, and its record of a folder, say of the
// servers of .mcp.json.
type approvals struct {
	All     bool     `json:"enableAllProjectMcpServers"`
	Enabled []string `json:"enabledMcpjsonServers"`
	Trusted bool     `json:"hasTrustDialogAccepted"`
}

// Withhold looks at the .mcp.json of dir and of the folders above it. The
// variables are those that Claude Code is started with.
func Withhold(dir string, variable func(string) string) Withheld {
	names, err := unapproved(dir, variable)
	switch {
	case err != nil:
		return Withheld{All: true, Note: "MCP servers beside the session's are not started: " + err.Error()}
	case len(names) == 0:
		return Withheld{}
	}
	return Withheld{Names: names, Note: "not started, since nobody has approved them: the MCP servers " +
		strings.Join(names, ", ") + " of .mcp.json. To approve them, run claude once in " + dir}
}

func unapproved(dir string, variable func(string) string) ([]string, error) {
	// A program's own name for where it runs has no links.
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	declared := map[string]bool{}
	for at := dir; ; at = filepath.Dir(at) {
		b, err := read(filepath.Join(at, ".mcp.json"))
		if err == nil && b != nil {
			err = servers(b, declared)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(at, ".mcp.json"), err)
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	if len(declared) == 0 {
		return nil, nil
	}
	approved := approved(dir, variable)
	maps.DeleteFunc(declared, func(name string, _ bool) bool {
		return slices.ContainsFunc(approved, func(a approvals) bool { return a.All || slices.Contains(a.Enabled, name) })
	})
	return slices.Sorted(maps.Keys(declared)), nil
}

// servers adds the names of the servers that a file declares. Of a member that
// is there twice all are taken, whichever the CLI reads. A name whose letters
// the CLI may read differently could not be turned off by it.
func servers(b []byte, declared map[string]bool) error {
	if !utf8.Valid(b) {
		return errors.New("it is not valid UTF-8")
	}
	return members(b, func(name string, value json.RawMessage) error {
		if name != "mcpServers" || string(value) == "null" {
			return nil
		}
		return members(value, func(name string, _ json.RawMessage) error {
			if strings.ContainsRune(name, utf8.RuneError) {
				return errors.New("the name of a server is no text")
			}
			declared[name] = true
			return nil
		})
	})
}

// members calls each for the members of an object, as they are spelled.
func members(b []byte, each func(name string, value json.RawMessage) error) error {
	if !json.Valid(b) {
		return errors.New("it is not JSON")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.New("an object is missing")
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		if err := each(name.(string), value); err != nil {
			return err
		}
	}
	return nil
}

// approved is what counts in dir: the user's own settings, and the folder's own
// once the user trusts it. What cannot be read approves nothing.
func approved(dir string, variable func(string) string) []approvals {
	config, record := filepath.Join(variable("HOME"), ".claude"), filepath.Join(variable("HOME"), ".claude.json")
	if own := variable("CLAUDE_CONFIG_DIR"); own != "" {
		config, record = own, filepath.Join(own, ".claude.json")
	}
	user := settings[approvals](filepath.Join(config, "settings.json"))
	projects := settings[struct {
		Projects map[string]approvals `json:"projects"`
	}](record).Projects
	list := []approvals{user, projects[dir]}
	for at := dir; ; at = filepath.Dir(at) {
		if projects[at].Trusted {
			return append(list, settings[approvals](filepath.Join(dir, ".claude", "settings.json")),
				settings[approvals](filepath.Join(dir, ".claude", "settings.local.json")))
		}
		if at == filepath.Dir(at) {
			return list
		}
	}
}

func settings[T any](path string) (s T) {
	var none T
	b, err := read(path)
	if err != nil || json.Unmarshal(b, &s) != nil {
		return none
	}
	return s
}

// read is nil for a file that is not there.
func read(path string) ([]byte, error) {
	// Without O_NONBLOCK a named pipe would hold the conversation.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, reason(err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, reason(err)
	case len(b) > maxFile:
		return nil, fmt.Errorf("it is larger than %d MiB", maxFile>>20)
	}
	return b, nil // not nil
}

// reason strips the operation and the path, which the caller names.
func reason(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
