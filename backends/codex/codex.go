// Package codex drives the Codex CLI through its app-server: one process per
// conversation, which is one thread of it, JSON-RPC without the jsonrpc field,
// one message a line, requests in both directions.
//
// Ordering: frames come in the order of the program's messages; the end of a
// turn comes after everything that belongs to it. Loss: none, but a record
// over the limit is skipped and told as a notice. Bounds: limits.go and the
// outbox; a host that does not receive slows the program. Prompt, Steer,
// Interrupt and Answer only hand over.
//
// The program asks about every command and every change of a file and is
// answered for the one time only, so that it writes no rules of its own; what
// is remembered is the gateway's to remember. It must not know a front.
package codex

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/polyhost/polyhost/backends/internal/cli"
	"github.com/polyhost/polyhost/backends/internal/openset"
	"github.com/polyhost/polyhost/core/agent"
)

// Name is the name of the backend.
const Name = "codex"

// program is the Codex CLI. Older ones lack requests that are made here.
var program = cli.Program{
	Title:   "Codex",
	Name:    "codex",
	Var:     "POLYHOST_CODEX",
	Install: "npm install -g @openai/codex@latest",
	Oldest:  "0.171.0",
}

// Backend drives the Codex CLI. The zero value is not usable; see New.
type Backend struct {
	log *slog.Logger
	// find returns the program, further arguments and environment settings.
	find func() (path string, args, env []string, err error)

	// every is commandsEvery, but in tests.
	every time.Duration

	reader reader
	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	open openset.Set[*conversation]
}

// New returns the backend for the program on the PATH.
func New() *Backend {
	ctx, cancel := context.WithCancel(context.Background())
	return &Backend{log: slog.Default(), ctx: ctx, cancel: cancel, every: commandsEvery,
		find: func() (string, []string, []string, error) {
			path, args, err := program.Find()
			return path, args, nil, err
		}}
}

// Missing is why the program cannot be found, an *agent.Problem, found without
// delay; nil when it can.
func Missing() error {
	_, _, err := program.Find()
	return err
}

// start runs the program in dir.
func (b *Backend) start(ctx context.Context, dir string, heard func(*link, message), lost func(*link, error)) (*link, error) {
	path, args, env, err := b.find()
	if err != nil {
		return nil, err
	}
	return launch(ctx, path, args, env, dir, b.log, heard, lost)
}

// broken is a program that is there and does not work.
func broken(text string) *agent.Problem {
	return &agent.Problem{Code: agent.ProblemBroken, Message: "Codex does not start: " + text, Fix: program.Install}
}

// Open begins, resumes or forks a conversation. It starts the program, so that
// what is wrong with it is known at once.
func (b *Backend) Open(ctx context.Context, o agent.Open) (agent.Conversation, error) {
	if len(o.Dirs) == 0 {
		return nil, errors.New("codex needs a working directory")
	}
	for _, dir := range o.Dirs {
		if !filepath.IsAbs(dir) {
			return nil, fmt.Errorf("working directory %s is not absolute", dir)
		}
	}
	if o.Fork && o.Resume == "" {
		return nil, errors.New("a fork needs the conversation that it is of")
	}
	c := newConversation(b, o)
	if err := b.open.Add(c); err != nil {
		return nil, err
	}
	if err := c.ensure(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// Close ends all conversations and their processes.
func (b *Backend) Close() error {
	b.cancel()
	return errors.Join(b.open.Close(), b.reader.close())
}
