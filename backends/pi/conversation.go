package pi

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/polyhost/polyhost/backends/internal/again"
	"github.com/polyhost/polyhost/backends/internal/cli"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/agent/outbox"
	"github.com/polyhost/polyhost/core/event"
)

var errBusy = errors.New("a turn is running")

// conversation is one pi session; its process may come and go.
type conversation struct {
	b      *Backend
	o      agent.Open
	out    *outbox.Outbox
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	life sync.Mutex // held while a process is started

	mu      sync.Mutex
	closed  bool
	proc    *process
	m       *mapper
	id      string // what resumes it; "" until pi keeps it
	session string // the id of the running process's session
	file    string // where pi keeps it
	model   string // set on the running process
	effort  string
	offered string // tools offered to the running process, as JSON
	turn    *turn
}

// turn is a running prompt. Guarded by conversation.mu.
type turn struct {
	id        string
	cancelled bool
	sent      bool           // pi has the prompt
	keep      []cli.Process  // what ran before pi had it
	runs      bool           // pi said that it works on it
	heard     int            // user messages that pi took
	steers    []string       // messages that pi has and did not take yet
	early     []agent.Prompt // steering messages from before pi worked
	dialogs   map[string]*openDialog
	timers    []*time.Timer
	retry     *time.Timer  // ends the turn unless pi tries again
	cause     *event.Error // why the run failed, if pi may mend that
}

// openDialog waits for the gateway's answer.
type openDialog struct {
	ask     string // permission, call, or the method of somebody's dialog
	call    string
	options []string
}

func newConversation(b *Backend, o agent.Open) *conversation {
	c := &conversation{b: b, o: o, out: outbox.New()}
	if !o.Fork {
		c.id = o.Resume
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// run starts a process and waits until it is ready; the caller holds life.
func (c *conversation) run(ctx context.Context) error {
	c.mu.Lock()
	id, closed := c.id, c.closed
	c.mu.Unlock()
	if closed {
		return errClosed
	}
	var args []string
	if id == "" && c.o.Fork && c.o.ForkAt != "" {
		part, err := copyUpTo(ctx, c.o.Resume, c.o.ForkAt)
		if err != nil {
			return err
		}
		defer os.Remove(part) // pi has its own once it has answered
		args = []string{"--fork", part}
	}
	switch {
	case args != nil:
	case id != "":
		args = []string{"--session", id}
	case c.o.Fork:
		args = []string{"--fork", c.o.Resume}
	}
	if c.o.Instructions != "" {
		args = append(args, "--append-system-prompt", c.o.Instructions)
	}
	if c.o.Bare {
		args = append(args, "--no-tools", "--no-session")
	}
	p, err := c.b.start(c.o.Dirs[0], args...)
	if err != nil {
		return err
	}
	m := newMapper(c.o.Dirs, strings.ToLower(rand.Text()[:10]))
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return errors.Join(errClosed, p.kill())
	}
	c.proc, c.m, c.session, c.model, c.effort, c.offered = p, m, "", "", "", ""
	c.wg.Go(func() { c.listen(p, m) })
	c.mu.Unlock()
	r, err := p.ask(ctx, object{"type": "get_state"})
	if err != nil {
		switch late := errors.Is(err, context.DeadlineExceeded); {
		case late:
			err = broken("it does not answer in time")
		case id != "" || c.o.Fork:
			err = fmt.Errorf("the conversation %s cannot be resumed: %w", c.o.Resume, err)
		default:
			err = broken(err.Error())
		}
		return errors.Join(err, p.kill())
	}
	var s state
	if err := json.Unmarshal(r.Data, &s); err != nil || s.SessionID == "" {
		return errors.Join(errors.New("pi does not tell its session"), p.kill())
	}
	c.mu.Lock()
	c.session, c.file = s.SessionID, s.File
	c.mu.Unlock()
	if id != "" {
		return c.out.Put(ctx, agent.Frame{Kind: agent.ConversationID, Text: s.SessionID})
	}
	return nil
}

// Prompt begins a turn.
func (c *conversation) Prompt(_ context.Context, p agent.Prompt) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return errClosed
	case c.turn != nil:
		return errBusy
	}
	t := &turn{id: p.Turn, dialogs: map[string]*openDialog{}}
	c.turn = t
	c.wg.Go(func() { c.begin(t, p) })
	return nil
}

// begin gets a process, its settings and the prompt to pi.
func (c *conversation) begin(t *turn, p agent.Prompt) {
	ctx, cancel := context.WithTimeout(c.ctx, startWait)
	defer cancel()
	c.life.Lock()
	c.mu.Lock()
	proc := c.proc
	c.mu.Unlock()
	var err error
	if proc == nil {
		if err = c.run(ctx); err == nil {
			c.mu.Lock()
			proc = c.proc
			c.mu.Unlock()
		}
	}
	c.life.Unlock()
	if err == nil && proc == nil {
		err = errEnded // it died again
	}
	if err == nil {
		err = c.configure(ctx, proc, p)
	}
	var keep []cli.Process
	if err == nil {
		keep, err = proc.Processes()
	}
	c.mu.Lock()
	stop := t.cancelled || c.turn != t
	t.sent, t.keep = !stop, keep
	c.mu.Unlock()
	switch {
	case stop:
		c.end(t, event.TurnCancelled, nil)
		return
	case err == nil:
		text, images := spell(c.o.Dirs, again.Prompt(p))
		command := object{"type": "prompt", "message": text}
		if len(images) > 0 {
			command["images"] = images
		}
		_, err = proc.ask(ctx, command)
	}
	var no *refusal
	switch {
	case errors.As(err, &no):
		c.end(t, event.TurnFailed, wentWrong(no.text))
	case errors.Is(err, errEnded) && proc != nil:
		// listen tells it, with what was open.
	case err != nil:
		e := wentWrong(err.Error())
		if e.Code == event.CodeAgentError || errors.Is(err, errEnded) {
			e.Code = event.CodeAgentDied
		}
		c.end(t, event.TurnFailed, e)
	default:
		c.mu.Lock()
		stop := t.cancelled
		c.mu.Unlock()
		if stop {
			c.abort(proc)
		} else if strings.HasPrefix(p.Text, "/") {
			c.settled(ctx, proc, t)
		}
	}
}

// settled ends the turn of a command that pi carried out without its model.
func (c *conversation) settled(ctx context.Context, p *process, t *turn) {
	r, err := p.ask(ctx, object{"type": "get_state"})
	if err != nil {
		return // its end is told by others
	}
	var s struct {
		Streaming bool `json:"isStreaming"`
	}
	c.mu.Lock()
	runs := t.runs
	c.mu.Unlock()
	if json.Unmarshal(r.Data, &s) == nil && !s.Streaming && !runs {
		c.end(t, event.TurnComplete, nil)
	}
}

// toolsCommand is the command of the gate that offers tools.
const toolsCommand = "polyhost-tools"

// configure brings model, effort and offered tools up to date.
func (c *conversation) configure(ctx context.Context, p *process, prompt agent.Prompt) error {
	settings := prompt.Settings
	if settings.Model == "" {
		settings.Model = c.o.Settings.Model
	}
	if settings.Effort == "" {
		settings.Effort = c.o.Settings.Effort
	}
	provider, model, effort := describeSettings(settings)
	offer := []event.ClientTool{}
	for _, t := range slices.Concat(c.o.Tools, prompt.Tools) {
		if !slices.ContainsFunc(offer, func(have event.ClientTool) bool { return have.Name == t.Name }) {
			offer = append(offer, t)
		}
	}
	tools, err := json.Marshal(offer)
	if err != nil {
		return err
	}
	c.mu.Lock()
	newModel, newEffort := settings.Model != c.model && model != "", effort != c.effort && effort != ""
	newTools := string(tools) != c.offered && (len(offer) > 0 || c.offered != "")
	c.mu.Unlock()
	if newModel {
		if provider == "" {
			return &refusal{fmt.Sprintf("400 %q names no model: it is PROVIDER/MODEL", model)}
		}
		if _, err := p.ask(ctx, object{"type": "set_model", "provider": provider, "modelId": model}); err != nil {
			return err
		}
	}
	if newEffort {
		if _, err := p.ask(ctx, object{"type": "set_thinking_level", "level": effort}); err != nil {
			return err
		}
	}
	if newTools {
		if _, err := p.ask(ctx, object{"type": "prompt", "message": "/" + toolsCommand + " " + string(tools)}); err != nil {
			return fmt.Errorf("offer clients' tools: %w", err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if newModel {
		c.model = settings.Model
	}
	if newEffort {
		c.effort = effort
	}
	if newTools {
		c.offered = string(tools)
		c.m.offer(offer)
	}
	return nil
}

// Answer settles a dialog.
func (c *conversation) Answer(_ context.Context, a agent.Answer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turn == nil || c.proc == nil || c.turn.dialogs[a.Request] == nil {
		return nil // it was settled, or its turn is over
	}
	d := c.turn.dialogs[a.Request]
	delete(c.turn.dialogs, a.Request)
	if d.ask == "permission" {
		c.m.decided(d.call, a.Resolution)
	}
	reply := object{"type": "extension_ui_response", "id": a.Request}
	if answer := d.answerTo(a.Resolution); answer != nil {
		maps.Copy(reply, answer)
	} else {
		reply["cancelled"] = true
	}
	return c.proc.tell(reply)
}

// Recv returns the next frames.
func (c *conversation) Recv(ctx context.Context) ([]agent.Frame, error) { return c.out.Recv(ctx) }

// Close ends the conversation and its process tree.
func (c *conversation) Close() error {
	c.mu.Lock()
	c.closed = true
	p, t := c.proc, c.turn
	c.turn = nil
	if t != nil {
		for _, timer := range t.timers {
			c.stopTimer(timer)
		}
	}
	c.mu.Unlock()
	c.cancel()
	c.out.Close(io.EOF)
	var err error
	if p != nil {
		err = p.close()
	}
	c.wg.Wait()
	c.b.open.Remove(c)
	return err
}
