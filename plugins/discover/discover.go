// Package discover finds agent plugins in a folder and holds them against the
// checksums that the operator pinned. It starts nothing.
package discover

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Prefix of a plugin's file name; the agent's name follows.
const Prefix = "polyhost-agent-"

// maxName is the length of an agent's name, in bytes: it is part of file
// names and of ids on the wire.
const maxName = 32

// Plugin is a binary that may be run.
type Plugin struct {
	Name   string
	Path   string
	SHA256 string
}

// Find lists the plugins of a folder, by name, whose sum is pinned; pins maps
// names to SHA-256 sums in hex. Each of refused says in words why one plugin
// is not among them. A folder that does not exist has no plugins.
func Find(dir string, pins map[string]string) (found []Plugin, refused []error, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("look for plugins: %w", err)
	}
	seen := map[string]bool{}
	for _, e := range entries {
		name, ok := strings.CutPrefix(e.Name(), Prefix)
		if !ok {
			continue
		}
		seen[name] = true
		p := Plugin{Name: name, Path: filepath.Join(dir, e.Name()), SHA256: pins[name]}
		if err := check(p); err != nil {
			refused = append(refused, fmt.Errorf("plugin %s: %w", name, err))
			continue
		}
		found = append(found, p)
	}
	for name := range pins {
		if !seen[name] {
			refused = append(refused, fmt.Errorf("plugin %s is pinned, but there is no %s", name, filepath.Join(dir, Prefix+name)))
		}
	}
	slices.SortFunc(refused, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return found, refused, nil
}

func check(p Plugin) error {
	if p.Name == "" || len(p.Name) > maxName || strings.Trim(p.Name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return errors.New("its name is not made of small letters, digits and hyphens")
	}
	info, err := os.Stat(p.Path)
	if err != nil {
		return err
	}
	switch mode := info.Mode(); {
	case !mode.IsRegular() || mode&0o111 == 0:
		return fmt.Errorf("%s is not an executable file", p.Path)
	case mode&0o022 != 0:
		return fmt.Errorf("%s can be changed by other users", p.Path)
	}
	if p.SHA256 == "" {
		sum, err := Sum(p.Path)
		if err != nil {
			return err
		}
		return fmt.Errorf("%s is not pinned; its sum is %s", p.Path, sum)
	}
	return Verify(p.Path, p.SHA256)
}

// Verify refuses a file whose SHA-256 is not the wanted one, naming both.
func Verify(path, want string) error {
	got, err := Sum(path)
	if err != nil {
		return err
	}
	if !strings.EqualFold(got, want) {
		return fmt.Errorf("%s has the sum %s, but %s is pinned: it is not run", path, got, want)
	}
	return nil
}

// Sum is the SHA-256 of a file, in hex.
func Sum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("sum a plugin: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("sum a plugin: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
