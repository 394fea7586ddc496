package acp

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/polyhost/polyhost/backends/acp/fake"
	"github.com/polyhost/polyhost/backends/contract"
	"github.com/polyhost/polyhost/backends/internal/cli"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

func TestMain(m *testing.M) {
	if os.Getenv(fake.Var) != "" {
		fake.Main()
	}
	goleak.VerifyTestMain(m)
}

var flavours = map[string]Agent{"gemini": Gemini, "opencode": OpenCode, "claude": Claude, "codex": Codex}

// pretend is an agent whose program is the fake.
func pretend(t *testing.T, flavour string, env ...string) *Backend {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	a := flavours[flavour]
	a.Program = cli.Program{Title: a.Title, Name: self, Install: "get it"}
	a.Env = slices.Concat([]string{fake.Var + "=" + flavour}, env, a.Env)
	a.Minute, a.Keeps = nil, nil
	b := New(a)
	cache := t.TempDir()
	b.caches = func() (string, error) { return cache, nil }
	return b
}

func TestContract(t *testing.T) {
	t.Parallel()
	for flavour := range flavours {
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			contract.Run(t, func(t *testing.T) agent.Backend { return pretend(t, flavour) }, fake.Scripted)
		})
	}
}

// talk is a conversation under test.
type talk struct {
	agent.Conversation
	t   *testing.T
	ctx context.Context
	dir string
}

func begin(t *testing.T, b *Backend, o agent.Open) *talk {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	t.Cleanup(func() { _ = b.Close() })
	if o.Dirs == nil {
		o.Dirs = []string{t.TempDir()}
	}
	c, err := b.Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	return &talk{c, t, ctx, o.Dirs[0]}
}

// turn runs a prompt to its end and answers what is asked; nil allows.
func (k *talk) turn(p agent.Prompt, answer func(agent.Frame) event.Resolution) []agent.Frame {
	k.t.Helper()
	if err := k.Prompt(k.ctx, p); err != nil {
		k.t.Fatal(err)
	}
	var all []agent.Frame
	for {
		frames, err := k.Recv(k.ctx)
		if err != nil {
			k.t.Fatalf("%v after %+v", err, all)
		}
		for _, f := range frames {
			all = append(all, f)
			switch f.Kind {
			case agent.TurnEnd:
				return all
			case agent.Permission:
				r := event.Resolution{Outcome: event.Allowed}
				if answer != nil {
					r = answer(f)
				}
				if r.Outcome != "" {
					_ = k.Answer(k.ctx, agent.Answer{Request: f.Request, Resolution: r})
				}
			}
		}
	}
}
