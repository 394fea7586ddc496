package pi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/polyhost/polyhost/backends/internal/cli"
	"github.com/polyhost/polyhost/core/lines"
)

type object = map[string]any

var (
	errClosed = errors.New("pi is closed")
	errEnded  = errors.New("pi has ended")
)

// process is one running pi: commands go in by ask, all else comes out of
// events, which close when it has ended.
type process struct {
	*cli.Proc
	events chan *record
	quit   chan struct{} // closed to make the reader drop what comes
	once   sync.Once
	gone   chan struct{} // the reader is done

	mu      sync.Mutex
	serial  int
	waiting map[string]chan *record
}

func startProcess(s cli.Spec) (*process, error) {
	proc, err := cli.Start(s)
	if err != nil {
		return nil, err
	}
	p := &process{Proc: proc, events: make(chan *record), quit: make(chan struct{}), gone: make(chan struct{}), waiting: map[string]chan *record{}}
	go p.read()
	return p, nil
}

// read hands the records on until the program has ended.
func (p *process) read() {
	defer close(p.gone)
	defer close(p.events)
	defer p.Release()
	for {
		line, err := p.Next()
		var long *lines.TooLongError
		switch {
		case errors.As(err, &long):
			p.pass(&record{Type: tooLongRecord, Error: long.Error()})
			continue
		case err != nil:
			p.settleAll()
			return
		}
		r, err := decode(line)
		switch {
		case err != nil:
			p.Noise(line)
		case r.Type == "response":
			p.settle(r)
		default:
			p.pass(r)
		}
	}
}

// tooLongRecord is the type of a record of our own: one of pi's was skipped.
const tooLongRecord = "polyhost_too_long"

func (p *process) pass(r *record) {
	select {
	case p.events <- r:
	case <-p.quit:
	}
}

func (p *process) settle(r *record) {
	p.mu.Lock()
	ch := p.waiting[r.ID]
	delete(p.waiting, r.ID)
	p.mu.Unlock()
	if ch != nil {
		ch <- r
	}
}

func (p *process) settleAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, ch := range p.waiting {
		close(ch)
		delete(p.waiting, id)
	}
	p.waiting = nil
}

// ask sends a command and waits for its answer, which is an error when pi
// refuses. Events go on meanwhile.
func (p *process) ask(ctx context.Context, command object) (*record, error) {
	wait, err := p.send(command)
	if err != nil {
		return nil, err
	}
	return wait(ctx)
}

// send sends a command; wait waits for its answer and must be called.
func (p *process) send(command object) (wait func(context.Context) (*record, error), err error) {
	ch := make(chan *record, 1)
	p.mu.Lock()
	if p.waiting == nil {
		p.mu.Unlock()
		return nil, p.ended()
	}
	p.serial++
	id := strconv.Itoa(p.serial)
	p.waiting[id] = ch
	p.mu.Unlock()
	forget := func() {
		p.mu.Lock()
		delete(p.waiting, id)
		p.mu.Unlock()
	}
	command["id"] = id
	b, err := json.Marshal(command)
	if err == nil {
		err = p.Write(b)
	}
	if err != nil {
		forget()
		if errors.Is(err, cli.ErrEnded) {
			return nil, p.ended()
		}
		return nil, err
	}
	return func(ctx context.Context) (*record, error) {
		ctx, cancel := context.WithTimeout(ctx, commandWait)
		defer cancel()
		select {
		case r, ok := <-ch:
			switch {
			case !ok:
				return nil, p.ended()
			case !r.Success:
				return nil, &refusal{r.Error}
			}
			return r, nil
		case <-ctx.Done():
			forget()
			return nil, fmt.Errorf("no answer to %s: %w", command["type"], ctx.Err())
		}
	}, nil
}

// refusal is pi's answer to a command that it does not carry out.
type refusal struct{ text string }

func (r *refusal) Error() string { return r.text }

// ended says how the program ended, with its last words.
func (p *process) ended() error {
	<-p.Done()
	return fmt.Errorf("%w: %s", errEnded, p.Exit())
}

// tell sends what has no answer.
func (p *process) tell(o object) error {
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return p.Write(b)
}

// close ends the program and waits for the reader.
func (p *process) close() error { return p.end(p.Close) }

// kill is close without asking.
func (p *process) kill() error { return p.end(p.Kill) }

func (p *process) end(how func() error) error {
	p.once.Do(func() { close(p.quit) })
	err := how()
	<-p.gone
	return err
}
