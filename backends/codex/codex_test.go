package codex

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/polyhost/polyhost/backends/contract"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(fakeVar) != "" {
		runFake()
		return
	}
	goleak.VerifyTestMain(m)
}

// fakeBackend drives the stand-in.
func fakeBackend(t *testing.T, env ...string) *Backend {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	b := New()
	b.log = slog.New(slog.DiscardHandler)
	b.find = func() (string, []string, []string, error) {
		return self, nil, append([]string{fakeVar + "=" + home}, env...), nil
	}
	return b
}

var scripted = contract.Config{
	Text: "say hello out there", TextWant: "hello out there",
	Long: "stream 10000000 64 1",
	Big:  "stream 3000 1000", BigBytes: 3_000_000,
	Slow: "sleep 250",
	Fail: "fail the disk is full", FailWant: "the disk is full",
	Ask:        "ask Which colour? | red | blue",
	Exec:       func(command string) string { return "run " + command },
	FixedInput: true,
	Forks:      true,
}

func TestContract(t *testing.T) {
	t.Parallel()
	open := func(t *testing.T) agent.Backend { return fakeBackend(t) }
	c := scripted
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
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
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
