// Package cli runs an agent's command line program as a child: its process
// tree, its pipes, its environment, and how it ended, for all drivers alike.
//
// Ordering: records come out of Next and go in by Write in order. Loss: none
// but an oversized record, which Next reports, and what was queued when the
// program ends. Bounds: limits.go. Next may block, for one goroutine; Write and
// CloseInput never do; Close takes a few seconds at most.
//
// It must not know what a record means.
package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/polyhost/polyhost/core/environ"
	"github.com/polyhost/polyhost/core/lines"
	"github.com/polyhost/polyhost/core/procgroup"
)

// Spec says what to run.
type Spec struct {
	// Path is the program, as from Find.
	Path string
	Args []string
	// Env are NAME=value settings that win over the inherited ones.
	Env []string
	// Inherit names the variables of this process that the program gets
	// beside the usual ones; a name may end in * for a prefix.
	Inherit []string
	// Dir is the working directory.
	Dir string
	// Limit is the longest record in bytes; 0 means lines.DefaultLimit.
	Limit int
	// Secrets are texts to keep out of error messages, beside the values of
	// variables that are named like secrets.
	Secrets []string
	// Log gets what the program says beside its records; nil discards it.
	Log *slog.Logger
}

// Proc is a running program.
type Proc struct {
	group *procgroup.Group
	log   *slog.Logger
	in    *input
	out   *output
	lines *lines.Reader
	tail  *tail
	done  chan struct{}
	wg    sync.WaitGroup

	closeOnce sync.Once
	closeErr  error
}

// Start starts the program as the leader of a process group of its own.
func Start(s Spec) (*Proc, error) {
	env := environ.For(s.Inherit, s.Env)
	cmd := exec.Command(s.Path, s.Args...)
	cmd.Dir, cmd.Env = s.Dir, env
	var files [6]*os.File // read and write ends of stdin, stdout, stderr
	for i := 0; i < len(files); i += 2 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(files[:])
			return nil, fmt.Errorf("open pipes for %s: %w", s.Path, err)
		}
		files[i], files[i+1] = r, w
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = files[0], files[3], files[5]
	g, err := procgroup.Start(cmd)
	if err != nil {
		closeAll(files[:])
		return nil, err
	}
	closeAll([]*os.File{files[0], files[3], files[5]})
	p := &Proc{
		group: g, log: s.Log, done: make(chan struct{}),
		in:   newInput(files[1]),
		out:  &output{f: files[2], done: g.Done()},
		tail: &tail{redact: newRedactor(env, s.Secrets)},
	}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	p.lines = lines.NewReader(p.out, s.Limit)
	stderr := &output{f: files[4], done: g.Done()}
	var errs sync.WaitGroup
	errs.Go(func() {
		defer stderr.f.Close()
		buf := make([]byte, 4<<10)
		for {
			n, err := stderr.Read(buf)
			p.tail.write(buf[:n])
			if err != nil {
				return
			}
		}
	})
	p.wg.Go(p.in.run)
	p.wg.Go(func() {
		defer close(p.done)
		<-g.Done()
		// What left the group ends with the program too.
		if err := g.Stop(0); err != nil {
			p.log.Warn("a program's processes do not end", "pid", g.PID(), "error", err)
		}
		p.in.fail(ErrEnded)
		p.out.wake()
		stderr.wake()
		errs.Wait()
	})
	return p, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

// PID is the program's process id.
func (p *Proc) PID() int { return p.group.PID() }

// Done is closed when the program has ended, what it started is gone, and all
// of stderr was read.
func (p *Proc) Done() <-chan struct{} { return p.done }

// Next returns the next record, valid until the next call: a line that begins
// like a JSON object. Other lines are noise and kept for Tail. After a
// *lines.TooLongError the reader goes on; io.EOF comes once the program has
// closed its output or ended.
func (p *Proc) Next() ([]byte, error) {
	for {
		line, err := p.lines.Next()
		if err != nil {
			return nil, err
		}
		if len(line) > 0 && line[0] == '{' {
			return line, nil
		}
		p.Noise(line)
	}
}

// Noise keeps a stdout line that turned out not to be a record.
func (p *Proc) Noise(line []byte) {
	if len(line) == 0 {
		return
	}
	text := p.tail.redact.clean(string(line[:min(len(line), noiseBytes)]))
	p.log.Debug("a program said what is no record", "pid", p.PID(), "line", text)
	p.tail.write([]byte(text + "\n"))
}

// Tail is the end of what the program said beside its records, without
// secrets.
func (p *Proc) Tail() string { return p.tail.text() }

// Exit words how the program ended, with the tail; valid after Done.
func (p *Proc) Exit() string {
	how := "exit status 0"
	var exit *exec.ExitError
	if err := p.group.Err(); errors.As(err, &exit) {
		how = exit.Error()
	} else if err != nil {
		how = err.Error()
	}
	if text := strings.TrimSpace(p.Tail()); text != "" {
		return how + ": " + text
	}
	return how
}

// Code is the exit status, -1 for a signal; valid after Done.
func (p *Proc) Code() int {
	var exit *exec.ExitError
	switch err := p.group.Err(); {
	case errors.As(err, &exit):
		return exit.ExitCode()
	case err != nil:
		return -1
	}
	return 0
}

// Write queues a record, to which it adds the line end. It fails when the
// program has ended, or reads so slowly that too much waits for it.
func (p *Proc) Write(record []byte) error { return p.in.put(record) }

// CloseInput closes stdin once all that is queued was written.
func (p *Proc) CloseInput() { p.in.end() }

// Signal sends sig to the program's group.
func (p *Proc) Signal(sig syscall.Signal) { p.group.Signal(sig) }

// Close ends the program with all it started: end of input, then TERM, then
// KILL. It may be called more than once; the reader of Next must go on, or be
// gone, for nothing waits for it.
func (p *Proc) Close() error { return p.stop(inputGrace, termGrace) }

// Kill is Close without waiting for the program to be ready.
func (p *Proc) Kill() error { return p.stop(0, 0) }

func (p *Proc) stop(input, term time.Duration) error {
	p.closeOnce.Do(func() {
		p.in.end()
		if input > 0 {
			t := time.NewTimer(input)
			defer t.Stop()
			select {
			case <-p.group.Done():
			case <-t.C:
			}
		}
		p.closeErr = p.group.Stop(term)
		p.in.fail(ErrEnded)
		if p.closeErr == nil {
			p.wg.Wait()
		}
	})
	return p.closeErr
}

// Release gives the output pipe back; for the reader of Next when it is done.
func (p *Proc) Release() { p.out.f.Close() }
