package codex

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/polyhost/polyhost/backends/codex/fake"
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

// talk is one conversation with the stand-in.
type talk struct {
	agent.Conversation
	t   *testing.T
	ctx context.Context
	dir string
}

func begin(t *testing.T, b *Backend, o agent.Open) *talk {
	t.Helper()
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	if o.Dirs == nil {
		o.Dirs = []string{t.TempDir()}
	}
	c, err := b.Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	return &talk{c, t, ctx, o.Dirs[0]}
}

// play runs a prompt to its end; requests are answered by settle.
func (k *talk) play(turn, text string, settle func(agent.Frame) event.Resolution) []agent.Frame {
	k.t.Helper()
	if err := k.Prompt(k.ctx, agent.Prompt{Turn: turn, Message: "m", Text: text}); err != nil {
		k.t.Fatal(err)
	}
	return k.end(settle)
}

func (k *talk) end(settle func(agent.Frame) event.Resolution) []agent.Frame {
	k.t.Helper()
	var all []agent.Frame
	for {
		frames, err := k.Recv(k.ctx)
		if err != nil {
			k.t.Fatal(err)
		}
		for _, f := range frames {
			all = append(all, f)
			if f.Request != "" && f.Kind != agent.Withdrawn && settle != nil {
				_ = k.Answer(k.ctx, agent.Answer{Request: f.Request, Resolution: settle(f)})
			}
			if f.Kind == agent.TurnEnd {
				return all
			}
		}
	}
}

func pick(frames []agent.Frame, kind agent.FrameKind) (some []agent.Frame) {
	for _, f := range frames {
		if f.Kind == kind {
			some = append(some, f)
		}
	}
	return some
}
