package demo

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/polyhost/polyhost/backends/internal/files"
	"github.com/polyhost/polyhost/backends/internal/shellinit"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/procgroup"
)

type bashInput struct {
	Command string `json:"command"`
}

// bash runs a shell line in the working directory.
func (s *script) bash(command string) error {
	c := call{
		id:   s.t.c.newID("call"),
		tool: agent.Tool{Name: toolBash, Tag: event.TagExec, Input: marshal(bashInput{command})},
		look: func(t *agent.Tool) error {
			var in bashInput
			if err := input(t, &in); err != nil {
				return err
			}
			t.Title, t.Command = in.Command, in.Command
			if strings.TrimSpace(in.Command) == "" || strings.ContainsRune(in.Command, 0) {
				return errors.New("there is no command to run")
			}
			return nil
		},
	}
	c.run = func(t agent.Tool) (agent.Result, error) { return s.exec(c.id, t.Command) }
	return s.useAs(c)
}

// exec runs a command to its end, or stops its whole tree when the turn is
// interrupted; the turn does not wait for that.
func (s *script) exec(id, command string) (agent.Result, error) {
	command, forget, err := s.t.c.afterInit(command)
	if err != nil {
		return failed(err), nil
	}
	cmd := exec.Command("/bin/sh", "-c", command)
	cmd.Dir = s.t.c.dirs[0]
	stdout, w1, err := os.Pipe()
	if err != nil {
		forget()
		return failed(err), nil
	}
	stderr, w2, err := os.Pipe()
	if err != nil {
		forget()
		stdout.Close()
		w1.Close()
		return failed(err), nil
	}
	cmd.Stdout, cmd.Stderr = w1, w2
	g, err := procgroup.Start(cmd)
	w1.Close()
	w2.Close()
	if err != nil {
		forget()
		stdout.Close()
		stderr.Close()
		return failed(fmt.Errorf("the command could not be started: %w", files.Reason(err))), nil
	}

	var readers sync.WaitGroup
	readers.Go(func() { s.relay(stdout, id, false) })
	readers.Go(func() { s.relay(stderr, id, true) })
	finish := func() {
		forget()
		deadline := time.Now().Add(drainBound)
		_ = stdout.SetReadDeadline(deadline)
		_ = stderr.SetReadDeadline(deadline)
		readers.Wait()
		stdout.Close()
		stderr.Close()
	}
	select {
	case <-g.Done():
		_ = g.Stop(0) // nothing that a command started outlives it
		finish()
	case <-s.t.ctx.Done():
		grace := termGrace
		if s.t.c.ctx.Err() != nil {
			grace = closeGrace
		}
		s.t.c.wg.Go(func() {
			_ = g.Stop(grace)
			finish()
		})
		return agent.Result{}, s.t.ctx.Err()
	}
	if err := s.t.ctx.Err(); err != nil {
		return agent.Result{}, err
	}
	return exitResult(g.Err()), nil
}

// afterInit is a command that runs after the script of the session's shells, and
// what takes the script's file away.
func (c *conversation) afterInit(command string) (string, func(), error) {
	c.mu.Lock()
	scripts := c.settings.ShellInit
	c.mu.Unlock()
	if scripts.Of(event.Bash) == "" {
		return command, func() {}, nil
	}
	dir, err := os.MkdirTemp("", "polyhost-demo-")
	if err != nil {
		return "", nil, fmt.Errorf("make a folder for the shell's script: %w", err)
	}
	forget := func() { _ = os.RemoveAll(dir) }
	if err := shellinit.Write(dir, scripts); err != nil {
		forget()
		return "", nil, err
	}
	return shellinit.Source(dir) + "\n" + command, forget, nil
}

// exitResult words how a command ended; a signal counts 128 and its number,
// as shells do.
func exitResult(err error) agent.Result {
	code := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if code = exit.ExitCode(); code < 0 {
			code = 128 + int(exit.Sys().(syscall.WaitStatus).Signal())
		}
	} else if err != nil {
		return failed(err)
	}
	r := agent.Result{ExitCode: &code}
	if code != 0 {
		r.Failed, r.Error = true, fmt.Sprintf("exit status %d", code)
	}
	return r
}

// relay sends what a command writes, in whole characters. Once the turn was
// interrupted it only empties the pipe.
func (s *script) relay(pipe *os.File, id string, isStderr bool) {
	buf := make([]byte, readChunk)
	kept := 0 // bytes of an unfinished character at the start of buf
	for {
		n, err := pipe.Read(buf[kept:])
		n += kept
		whole := n
		if err == nil {
			whole = wholeRunes(buf[:n])
		}
		if whole > 0 {
			text := strings.ToValidUTF8(string(buf[:whole]), "\ufffd")
			_ = s.put(agent.Frame{Kind: agent.ToolOutput, Call: id, Text: text, Stderr: isStderr})
		}
		if err != nil {
			return
		}
		kept = copy(buf, buf[whole:n])
	}
}

// wholeRunes is the length of b without a character that was cut at its end.
func wholeRunes(b []byte) int {
	for i := 1; i <= min(utf8.UTFMax, len(b)); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-i:]) {
				return len(b) - i
			}
			break
		}
	}
	return len(b)
}
