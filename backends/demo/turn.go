package demo

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// failure is what `fail` does to a turn.
type failure string

func (f failure) Error() string { return string(f) }

// turn is one running prompt.
type turn struct {
	c      *conversation
	id     string
	ctx    context.Context
	cancel context.CancelCauseFunc
	tools  []event.ClientTool
	model  string
	lines  []string // still to be done; only the turn's goroutine

	// What is kept of the turn; only the turn's goroutine.
	past  agent.PastTurn
	noted int // bytes of text in it

	// Guarded by conversation.mu.
	steers  []agent.Prompt
	pending map[string]chan event.Resolution
}

func scriptLines(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\r\n"); strings.TrimSpace(line) != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// after are the lines of a script behind those that it failed at so often; all
// of them if there are not so many such lines.
func after(lines []string, failures int) []string {
	for i, line := range lines {
		if failures == 0 {
			break
		}
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if rest = strings.TrimSpace(rest); word == "fail" && rest != "" || word == "crash" && rest == "" {
			if failures--; failures == 0 {
				return lines[i+1:]
			}
		}
	}
	return lines
}

// run does the lines and then says how the turn ended.
func (t *turn) run() {
	defer t.cancel(nil)
	s := &script{t: t}
	err := t.steered(s)
	for err == nil && len(t.lines) > 0 {
		line := t.lines[0]
		t.lines = t.lines[1:]
		if err = s.do(line); err == nil {
			err = t.steered(s)
		}
	}
	if errors.Is(err, ErrCrashed) {
		if t.c.backend.Crash != nil {
			t.c.backend.Crash()
		}
		t.c.out.Close(ErrCrashed)
		return
	}

	// From here on the conversation is free for the next prompt, which
	// waits for this goroutine before it speaks.
	t.c.mu.Lock()
	if t.c.turn == t {
		t.c.turn = nil
	}
	clear(t.pending)
	left := t.steers
	t.c.mu.Unlock()

	var frames []agent.Frame
	for _, p := range left {
		frames = append(frames, agent.Frame{Kind: agent.Unsteered, Message: p.Message})
	}
	end := agent.Frame{Kind: agent.TurnEnd, Turn: t.id, Status: event.TurnComplete, Point: t.id}
	var failed failure
	switch {
	case t.ctx.Err() != nil:
		end.Status = event.TurnCancelled
	case errors.As(err, &failed):
		end.Status = event.TurnFailed
		end.Error = &event.Error{Code: event.CodeAgentFailed, Message: string(failed)}
	}
	t.note([]agent.Frame{end})
	frames = append(frames, end)
	if err := t.c.keep(t.past); err != nil {
		frames = slices.Insert(frames, 0, agent.Frame{Kind: agent.Notice, Notice: &event.Notice{Level: "warning",
			Code: "not_kept", Text: "The turn could not be kept: " + err.Error()}})
	}
	_ = t.c.out.Put(t.c.ctx, frames...)
}

// steered takes in what was said meanwhile: its lines come next. After the
// last line it also frees the conversation, so that no message is taken by a
// turn that is over.
func (t *turn) steered(s *script) error {
	t.c.mu.Lock()
	steers := t.steers
	t.steers = nil
	if len(steers) == 0 && len(t.lines) == 0 {
		t.c.turn = nil
	}
	t.c.mu.Unlock()
	var next []string
	for _, p := range steers {
		if err := s.put(agent.Frame{Kind: agent.Steered, Message: p.Message}); err != nil {
			return err
		}
		next = append(next, scriptLines(p.Text)...)
	}
	if len(steers) == 0 {
		return nil
	}
	t.lines = append(next, t.lines...)
	return t.steered(s)
}

// wait registers a request, says it and waits for the answer.
func (t *turn) wait(s *script, request agent.Frame) (event.Resolution, error) {
	ch := make(chan event.Resolution, 1)
	t.c.mu.Lock()
	t.pending[request.Request] = ch
	t.c.mu.Unlock()
	if err := s.put(request); err != nil {
		return event.Resolution{}, err
	}
	select {
	case r := <-ch:
		return r, t.ctx.Err()
	case <-t.ctx.Done():
		return event.Resolution{}, t.ctx.Err()
	}
}
