package devcontainer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/polyhost/polyhost/core/environ"
	"github.com/polyhost/polyhost/core/procgroup"
)

// inherited are the variables of the gateway that are meant for the programs.
var inherited = []string{"DOCKER_*", "BUILDKIT_*", "COMPOSE_*"}

// child is a program with pipes.
type child struct {
	group         *procgroup.Group
	in, out, errs *os.File
}

func (c *Containers) start(program string, args ...string) (*child, error) {
	cmd := exec.Command(program, args...)
	cmd.Env = environ.For(inherited, c.env)
	var theirs, ours []*os.File
	var err error
	pipe := func() (*os.File, *os.File) {
		r, w, e := os.Pipe()
		err = errors.Join(err, e)
		return r, w
	}
	inR, inW := pipe()
	outR, outW := pipe()
	errR, errW := pipe()
	theirs, ours = []*os.File{inR, outW, errW}, []*os.File{inW, outR, errR}
	ch := &child{in: inW, out: outR, errs: errR}
	if err == nil {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = inR, outW, errW
		ch.group, err = procgroup.Start(cmd)
	}
	for _, f := range theirs {
		f.Close()
	}
	if err == nil {
		return ch, nil
	}
	for _, f := range ours {
		f.Close()
	}
	if errors.Is(err, exec.ErrNotFound) {
		return nil, fmt.Errorf("%s is %w", program, ErrMissing)
	}
	return nil, fmt.Errorf("%w: %s does not start", ErrFailed, program)
}

// settle waits for the end of the program and bounds what is read from then on:
// somebody that it left behind may hold its output open.
func (c *child) settle() {
	<-c.group.Done()
	at := time.Now().Add(drainWithin)
	_ = errors.Join(c.out.SetReadDeadline(at), c.errs.SetReadDeadline(at))
}

func (c *child) close() { c.in.Close(); c.out.Close(); c.errs.Close() }

// run runs a program to its end, tells all that it writes and returns the end of
// what it wrote to its standard output.
func (c *Containers) run(ctx context.Context, output func(string), program string, args ...string) ([]byte, error) {
	ch, err := c.start(program, args...)
	if err != nil {
		return nil, err
	}
	defer ch.close()
	ch.in.Close()
	stopped := make(chan struct{})
	end := context.AfterFunc(ctx, func() { defer close(stopped); _ = ch.group.Stop(endWithin) })
	var answer, words tail
	var pumps sync.WaitGroup
	pumps.Go(func() { pump(ch.out, &answer, output) })
	pumps.Go(func() { pump(ch.errs, &words, output) })
	ch.settle()
	pumps.Wait()
	if !end() {
		<-stopped
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case ch.group.Err() != nil:
		return answer.kept, fmt.Errorf("%w: %s: %s", ErrFailed, program, words.last(ch.group.Err()))
	}
	return answer.kept, nil
}

// tail keeps the end of what is written.
type tail struct{ kept []byte }

func (t *tail) add(b []byte) {
	if t.kept = append(t.kept, b...); len(t.kept) > maxAnswer {
		t.kept = append(t.kept[:0], t.kept[len(t.kept)-maxAnswer:]...)
	}
}

// last is the last line that says something, or how the program ended.
func (t *tail) last(how error) string {
	lines := strings.Split(string(bytes.TrimSpace(t.kept)), "\n")
	switch line := clip(lines[len(lines)-1]); {
	case line != "":
		return line
	case how != nil:
		return how.Error()
	}
	return "it ended without a word"
}

// pump tells what is written as text, never cut within a character.
func pump(r io.Reader, keep *tail, output func(string)) {
	buf := make([]byte, outputChunk)
	have := 0
	for {
		n, err := r.Read(buf[have:])
		keep.add(buf[have : have+n])
		have += n
		whole := have
		for back := 1; err == nil && back < utf8.UTFMax && back <= have; back++ {
			if utf8.RuneStart(buf[have-back]) {
				if !utf8.FullRune(buf[have-back : have]) {
					whole = have - back
				}
				break
			}
		}
		if whole > 0 {
			output(strings.ToValidUTF8(string(buf[:whole]), "\ufffd"))
			have = copy(buf, buf[whole:have])
		}
		if err != nil {
			return
		}
	}
}
