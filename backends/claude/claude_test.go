package claude

import (
	"errors"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/polyhost/polyhost/backends/claude/fake"
	"github.com/polyhost/polyhost/backends/contract"
	"github.com/polyhost/polyhost/backends/internal/agenttest"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

func TestMain(m *testing.M) {
	agenttest.Main()
	if os.Getenv(fake.Var) != "" {
		fake.Main()
		return
	}
	goleak.VerifyTestMain(m)
}

// standIn drives the stand-in.
func standIn(t *testing.T, env ...string) *Backend {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	return &Backend{Path: self, Env: append([]string{fake.Var + "=" + home, "CLAUDE_CONFIG_DIR=" + home}, env...)}
}

func TestContract(t *testing.T) {
	t.Parallel()
	open := func(t *testing.T) agent.Backend { return standIn(t) }
	c := fake.Scripted
	c.Past = c.Remember(open)
	c.Missing = func(*testing.T) agent.Backend { return &Backend{Path: "/no/such/claude"} }
	contract.Run(t, open, c)
}

// talk opens a conversation; the backend ends with the test.
func talk(t *testing.T, b *Backend, o agent.Open) *agenttest.Talk {
	t.Helper()
	t.Cleanup(func() { _ = b.Close() })
	return agenttest.Begin(t, b, o)
}

func TestBadLuck(t *testing.T) {
	t.Parallel()
	contract.BadLuck(t, contract.Luck{
		Open:    func(t *testing.T) agent.Backend { return standIn(t) },
		Program: func(_ *testing.T, path string) agent.Backend { return &Backend{Path: path} },
		Text:    fake.Scripted.Text, TextWant: fake.Scripted.TextWant, Exec: fake.Scripted.Exec,
		Garbage: "noise Downloading...", Huge: "huge", Die: "die out of memory", DieWant: "exit status 9: out of memory",
		Doomed: "doomed", Deaf: "deaf",
	})
}

func TestAnInterruptRightAfterThePromptEndsTheTurn(t *testing.T) {
	t.Parallel()
	d := talk(t, standIn(t), agent.Open{})
	for _, turn := range []string{"t1", "t2", "t3"} {
		d.Say(turn, "stream 1000000 10 1")
		if err := d.Interrupt(d.Ctx); err != nil {
			t.Fatal(err)
		}
		frames := d.Until(agent.TurnEnd)
		if end := frames[len(frames)-1]; end.Status != event.TurnCancelled || end.Turn != turn {
			t.Errorf("%s ended with %+v", turn, end)
		}
	}
}

func TestAConversationThatIsUnknownIsNotBegunAnew(t *testing.T) {
	t.Parallel()
	b := standIn(t)
	defer b.Close()
	_, err := b.Open(t.Context(), agent.Open{Dirs: []string{t.TempDir()}, Resume: uuid()})
	if err == nil || !strings.Contains(err.Error(), "No conversation found") {
		t.Errorf("open: %v", err)
	}
}

func TestWithoutACredentialInfoSaysHowToSignIn(t *testing.T) {
	t.Parallel()
	b := standIn(t)
	defer b.Close()
	info, err := b.Info(t.Context())
	if err != nil || len(info.Problems) != 1 || info.Problems[0].Code != agent.ProblemSignedOut {
		t.Errorf("%+v, %v", info.Problems, err)
	}
	if len(info.Models) != 2 || len(info.Efforts) != 2 || len(info.Commands) != 2 || len(info.Models[0].Efforts) != 2 || len(info.Subagents) != 1 || info.Version != "2.1.332" {
		t.Errorf("%+v", info)
	}
	signed := standIn(t, fake.KeyVar+"=ANTHROPIC_API_KEY")
	defer signed.Close()
	if info, err := signed.Info(t.Context()); err != nil || len(info.Problems) != 0 {
		t.Errorf("%+v, %v", info.Problems, err)
	}
}

func TestAProgramThatIsNoneIsAProblem(t *testing.T) {
	t.Parallel()
	b := &Backend{Path: "/bin/false"}
	var p *agent.Problem
	if _, err := b.Open(t.Context(), agent.Open{Dirs: []string{t.TempDir()}}); !errors.As(err, &p) || p.Code != agent.ProblemBroken {
		t.Errorf("open: %v", err)
	}
}
