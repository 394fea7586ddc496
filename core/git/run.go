package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/polyhost/polyhost/core/environ"
	"github.com/polyhost/polyhost/core/procgroup"
)

// settings make git speak to a program: no questions, no pager, no editor, and
// a path is a path and never a pattern.
var settings = []string{"LC_ALL=C.UTF-8", "GIT_TERMINAL_PROMPT=0", "GIT_LITERAL_PATHSPECS=1", "GIT_EDITOR=:", "GIT_PAGER=cat"}

// inherited are the variables of the gateway that are meant for git and do not
// say where a repository is.
var inherited = []string{"GIT_AUTHOR_*", "GIT_COMMITTER_*", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "EMAIL", "GNUPGHOME"}

// command is one run of git.
type command struct {
	dir   string
	args  []string
	input []byte
	write bool // it changes something: it may take locks and longer
	most  int  // bytes of output
	cut   bool // output beyond most is left, instead of an error
	// patterns: git's own paths in it are patterns. It has none from outside.
	patterns bool
}

// failure is how a command failed, with what it said.
type failure struct {
	code int
	said string
}

func (f *failure) Error() string { return f.said }

func (g *Git) run(ctx context.Context, c command) ([]byte, error) {
	select {
	case g.slots <- struct{}{}:
		defer func() { <-g.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	within := readWithin
	env := settings
	// A monitor is a program that the repository's own configuration names.
	args := []string{"-c", "core.fsmonitor=false"}
	if c.write {
		within = writeWithin
	} else {
		env = append(env[:len(env):len(env)], "GIT_OPTIONAL_LOCKS=0")
	}
	if c.patterns {
		env = append(env[:len(env):len(env)], "GIT_LITERAL_PATHSPECS=0")
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	cmd := exec.Command("git", append(args, c.args...)...)
	cmd.Dir, cmd.Env = c.dir, environ.For(inherited, env)
	out, errs, stop, err := start(cmd, c.input)
	if err != nil {
		return nil, err
	}
	said := make(chan []byte, 1)
	go func() {
		b, _ := io.ReadAll(io.LimitReader(errs, maxAnswer))
		_, _ = io.Copy(io.Discard, errs)
		said <- b
	}()
	stopped := make(chan struct{})
	end := context.AfterFunc(ctx, func() { defer close(stopped); _ = stop.Stop(endWithin) })
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		<-stop.Done()
		// Somebody that the command left behind may hold its output open.
		at := time.Now().Add(drainWithin)
		_ = errors.Join(out.SetReadDeadline(at), errs.SetReadDeadline(at))
	}()
	data, _ := io.ReadAll(io.LimitReader(out, int64(c.most)+1))
	over := len(data) > c.most
	if over {
		_ = stop.Stop(endWithin)
	}
	<-drained
	words := <-said
	if !end() {
		<-stopped
	}
	out.Close()
	errs.Close()
	switch err := stop.Err(); {
	case over && c.cut:
		return data[:c.most], nil
	case over:
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, c.most)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("git %s: %w", c.args[0], ctx.Err())
	case err != nil:
		f := &failure{code: -1, said: wording(words)}
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			f.code = exit.ExitCode()
		}
		if f.said == "" {
			f.said = "git " + c.args[0] + ": " + err.Error()
		}
		return data, f
	}
	return data, nil
}

// start starts a command with pipes for its output.
func start(cmd *exec.Cmd, input []byte) (out, errs *os.File, g *procgroup.Group, err error) {
	var theirs []*os.File
	pipe := func() (*os.File, *os.File) {
		r, w, e := os.Pipe()
		err = errors.Join(err, e)
		theirs = append(theirs, w)
		return r, w
	}
	out, o := pipe()
	errs, e := pipe()
	in, inErr := inputFile(input)
	if err = errors.Join(err, inErr); err == nil {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = in, o, e
		g, err = procgroup.Start(cmd)
	}
	for _, f := range append(theirs, in) {
		f.Close()
	}
	if err != nil {
		out.Close()
		errs.Close()
		if errors.Is(err, exec.ErrNotFound) {
			err = fmt.Errorf("%w: there is no git program", ErrNoRepository)
		}
		return nil, nil, nil, err
	}
	return out, errs, g, nil
}

// inputFile holds what a command reads, in a file that has no name any more,
// so that nobody has to feed it.
func inputFile(input []byte) (*os.File, error) {
	if len(input) == 0 {
		return os.Open(os.DevNull)
	}
	f, err := os.CreateTemp("", "polyhost-git-")
	if err != nil {
		return nil, err
	}
	_ = os.Remove(f.Name())
	if _, err = f.Write(input); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	return f, err
}

// credentials are what a URL may have before the name of its host.
var credentials = regexp.MustCompile(`(://)[^/\s@'"]*@`)

// wording is what git said, short enough for a person, and without secrets.
func wording(b []byte) string {
	b = bytes.TrimSpace(b)
	b = bytes.ToValidUTF8(b[:min(len(b), maxWords)], []byte("?"))
	s := strings.TrimPrefix(credentials.ReplaceAllString(string(b), "$1"), "fatal: ")
	return strings.TrimPrefix(s, "error: ")
}
