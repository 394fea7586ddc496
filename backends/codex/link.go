package codex

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"

	"github.com/polyhost/polyhost/backends/internal/cli"
	"github.com/polyhost/polyhost/core/lines"
	"github.com/polyhost/polyhost/core/procgroup"
)

// commandVar marks what the program's commands start, so that what outlives
// its turn can be ended without ending the program.
const commandVar = "POLYHOST_COMMAND"

var errGone = errors.New("codex has ended")

// link is one running app-server with its requests in both directions.
type link struct {
	proc *cli.Proc
	log  *slog.Logger
	mark string

	// heard is given the program's requests and notifications in order, from
	// one goroutine; lost learns of a record that was too long.
	heard func(*link, message)
	lost  func(*link, error)
	ended chan struct{} // closed after the last record was heard

	mu      sync.Mutex
	serial  int
	pending map[int]*call
	dead    bool
}

// call is a request to the program that waits for its answer.
type call struct {
	answer chan message
	// then, if not nil, takes the result before anything that comes after
	// it is heard.
	then func(json.RawMessage)
}

// launch starts the program and shakes hands.
func launch(ctx context.Context, path string, args, env []string, dir string, log *slog.Logger, heard func(*link, message), lost func(*link, error)) (*link, error) {
	l := &link{log: log, mark: strings.ToLower(rand.Text()[:16]), heard: heard, lost: lost,
		ended: make(chan struct{}), pending: map[int]*call{}}
	args = append(args[:len(args):len(args)], "app-server")
	for _, setting := range []string{
		"check_for_update_on_startup=false",
		"analytics.enabled=false",
		"tools.update_plan.enabled=true",
		"features.default_mode_request_user_input=true", // else it asks people in plan mode only
		"suppress_unstable_features_warning=true",
		`shell_environment_policy.set.` + commandVar + `="` + l.mark + `"`,
	} {
		args = append(args, "-c", setting)
	}
	proc, err := cli.Start(cli.Spec{Path: path, Args: args, Env: env, Inherit: inherited, Dir: dir, Log: log})
	if err != nil {
		return nil, broken(err.Error())
	}
	l.proc = proc
	go l.read()
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	err = l.call(ctx, "initialize", map[string]any{
		"clientInfo":   map[string]any{"name": "polyhost", "title": "polyhost", "version": clientVersion},
		"capabilities": map[string]any{"experimentalApi": true},
	}, nil)
	if err == nil {
		err = l.send(map[string]any{"method": "initialized"})
	}
	if err != nil {
		text := err.Error()
		_ = l.kill()
		<-l.ended
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			text = strings.TrimSpace("it does not answer in time " + proc.Tail())
		case errors.Is(err, errGone):
			text = proc.Exit()
		}
		return nil, broken(text)
	}
	return l, nil
}

// inherited are the variables of this process that the program reads.
var inherited = []string{"OPENAI_*", "CODEX_*"}

// clientVersion is what the program is told of the gateway.
const clientVersion = "1.0.0"

// read hears the program to its end.
func (l *link) read() {
	defer close(l.ended)
	for {
		record, err := l.proc.Next()
		if errors.Is(err, lines.ErrTooLong) {
			l.lost(l, err)
			continue
		}
		if err != nil {
			break
		}
		m, err := decode(record)
		if err != nil {
			l.proc.Noise(record)
			continue
		}
		if m.Method == "" {
			l.answered(m)
			continue
		}
		l.heard(l, m)
	}
	l.mu.Lock()
	l.dead = true
	for id, c := range l.pending {
		close(c.answer)
		delete(l.pending, id)
	}
	l.mu.Unlock()
	_ = l.proc.Kill() // it may have closed its output alone
	<-l.proc.Done()
	l.proc.Release()
	_ = l.endCommands()
}

func (l *link) answered(m message) {
	id, err := strconv.Atoi(string(m.ID))
	if err != nil {
		return
	}
	l.mu.Lock()
	c := l.pending[id]
	delete(l.pending, id)
	l.mu.Unlock()
	if c == nil {
		return // nobody waits any more
	}
	if c.then != nil && m.Error == nil {
		c.then(m.Result)
	}
	c.answer <- m // has room for the one answer
}

// call asks the program and waits for its answer, for callBound at most.
func (l *link) call(ctx context.Context, method string, params, result any) error {
	return l.callThen(ctx, method, params, result, nil)
}

func (l *link) callThen(ctx context.Context, method string, params, result any, then func(json.RawMessage)) error {
	ctx, cancel := context.WithTimeout(ctx, callBound)
	defer cancel()
	c := &call{answer: make(chan message, 1), then: then}
	l.mu.Lock()
	if l.dead {
		l.mu.Unlock()
		return errGone
	}
	l.serial++
	id := l.serial
	l.pending[id] = c
	l.mu.Unlock()
	if err := l.send(map[string]any{"id": id, "method": method, "params": params}); err != nil {
		l.forget(id)
		return fmt.Errorf("%w: %w", errGone, err)
	}
	select {
	case m, ok := <-c.answer:
		switch {
		case !ok:
			return errGone
		case m.Error != nil:
			return m.Error
		case result == nil:
			return nil
		}
		return lenient(json.Unmarshal(m.Result, result))
	case <-ctx.Done():
		l.forget(id)
		return fmt.Errorf("codex does not answer %s: %w", method, ctx.Err())
	}
}

func (l *link) forget(id int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pending, id)
}

func (l *link) send(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return l.proc.Write(b)
}

// respond answers a request of the program.
func (l *link) respond(id json.RawMessage, result any) {
	if err := l.send(map[string]any{"id": id, "result": result}); err != nil {
		l.log.Debug("codex did not take an answer", "error", err)
	}
}

// refuse answers a request of the program that nobody here understands.
func (l *link) refuse(id json.RawMessage, method string) {
	l.log.Debug("codex asked for what is not offered", "method", method)
	if err := l.send(map[string]any{"id": id, "error": rpcError{Code: -32601, Message: "not offered: " + method}}); err != nil {
		l.log.Debug("codex did not take an answer", "error", err)
	}
}

// endCommands kills what the program's commands left running.
func (l *link) endCommands() error {
	n, err := procgroup.KillMarked(commandVar, l.mark)
	if n > 0 {
		l.log.Debug("ended what codex's commands left running", "processes", n)
	}
	return err
}

// close ends the program and waits for its last word to be heard.
func (l *link) close() error {
	err := l.proc.Close()
	<-l.ended
	return err
}

func (l *link) kill() error { return l.proc.Kill() }

// lenient lets an answer pass in which one field is not what it used to be.
func lenient(err error) error {
	var shape *json.UnmarshalTypeError
	if errors.As(err, &shape) {
		return nil
	}
	return err
}
