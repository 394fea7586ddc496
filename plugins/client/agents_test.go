package client_test

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/polyhost/polyhost/backends/claude"
	claudefake "github.com/polyhost/polyhost/backends/claude/fake"
	"github.com/polyhost/polyhost/backends/codex"
	codexfake "github.com/polyhost/polyhost/backends/codex/fake"
	"github.com/polyhost/polyhost/backends/contract"
	"github.com/polyhost/polyhost/core/agent"
)

// TestMain: run under the name of an agent's program, the test binary is its
// stand-in.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "claude":
		claudefake.Main()
	case "codex":
		codexfake.Main()
	default:
		goleak.VerifyTestMain(m)
	}
}

// TestAgentsAcross plays the contract suite with two real drivers behind the
// boundary, one that takes other input for a call and one that does not, and
// stand-ins for their agents.
func TestAgentsAcross(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin, home := t.TempDir(), t.TempDir()
	for _, name := range []string{"claude", "codex"} {
		if err := os.Symlink(self, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv(codexfake.Var, home)
	for _, one := range []struct {
		name   string
		open   func(t *testing.T) agent.Backend
		script contract.Config
	}{
		{"claude", func(t *testing.T) agent.Backend {
			dir := t.TempDir()
			return &claude.Backend{Env: []string{claudefake.Var + "=" + dir, "CLAUDE_CONFIG_DIR=" + dir}}
		}, claudefake.Scripted},
		{"codex", func(*testing.T) agent.Backend { return codex.New() }, codexfake.Scripted},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			open := func(t *testing.T) agent.Backend {
				b, _ := across(t, one.open(t))
				return b
			}
			c := one.script
			c.Past = c.Remember(open)
			contract.Run(t, open, c)
		})
	}
}
