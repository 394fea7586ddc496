package codex

import (
	"log/slog"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/polyhost/polyhost/backends/codex/fake"
	"github.com/polyhost/polyhost/backends/contract"
	"github.com/polyhost/polyhost/backends/internal/agenttest"
	"github.com/polyhost/polyhost/core/agent"
)

func TestMain(m *testing.M) {
	agenttest.Main()
	if os.Getenv(fake.Var) != "" {
		fake.Main()
		return
	}
	goleak.VerifyTestMain(m)
}

// quiet is a backend that logs nothing.
func quiet() *Backend {
	b := New()
	b.log = slog.New(slog.DiscardHandler)
	return b
}

// fakeBackend drives the stand-in.
func fakeBackend(t *testing.T, env ...string) *Backend {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	b := quiet()
	b.find = func() (string, []string, []string, error) {
		return self, nil, append([]string{fake.Var + "=" + home}, env...), nil
	}
	return b
}

func TestContract(t *testing.T) {
	t.Parallel()
	open := func(t *testing.T) agent.Backend { return fakeBackend(t) }
	c := fake.Scripted
	c.Past = c.Remember(open)
	c.Missing = func(*testing.T) agent.Backend {
		b := New()
		b.find = func() (string, []string, []string, error) {
			p := program
			p.Name = "codex-that-nobody-has"
			p.Var = ""
			path, _, err := p.Find()
			return path, nil, nil, err
		}
		return b
	}
	contract.Run(t, open, c)
}

// begin opens a conversation; the backend ends with the test.
func begin(t *testing.T, b *Backend, o agent.Open) *agenttest.Talk {
	t.Helper()
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return agenttest.Begin(t, b, o)
}
