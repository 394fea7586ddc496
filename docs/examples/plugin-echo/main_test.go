package main

import (
	"log/slog"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/backends/contract"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/plugins/discover"
	"github.com/polyhost/polyhost/plugins/supervisor"
)

// The example is built, put into a plugin folder, pinned and run the way an
// operator would.
func TestContract(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, discover.Prefix+"echo")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	sum, err := discover.Sum(path)
	if err != nil {
		t.Fatal(err)
	}
	found, refused, err := discover.Find(dir, map[string]string{"echo": sum})
	if err != nil || len(refused) > 0 || len(found) != 1 {
		t.Fatalf("found %v, refused %v, %v", found, refused, err)
	}
	contract.Run(t, func(t *testing.T) agent.Backend {
		in, err := supervisor.Begin(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		return supervisor.New(supervisor.Options{Name: found[0].Name, Path: found[0].Path, SHA256: found[0].SHA256,
			Instance: in, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	}, contract.Config{
		Text: "hello out there", TextWant: "hello out there",
		Long: strings.Repeat("on and on ", 20_000),
	})
}
