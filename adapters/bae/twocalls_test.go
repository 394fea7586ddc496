package bae

import (
	"context"
	"encoding/json"
	"io"
	"sync"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// twoCalls is an agent that calls the client tool t twice at once and says
// both results.
type twoCalls struct{}

func (twoCalls) Info(context.Context) (agent.Info, error) {
	return agent.Info{Name: "two", Capabilities: agent.Capabilities{ClientTools: true}}, nil
}

func (twoCalls) Close() error { return nil }

func (twoCalls) Open(context.Context, agent.Open) (agent.Conversation, error) {
	return &twoCallsChat{frames: make(chan []agent.Frame, 16), done: make(chan struct{})}, nil
}

type twoCallsChat struct {
	frames chan []agent.Frame
	done   chan struct{}
	once   sync.Once
	mu     sync.Mutex
	turn   string
	got    map[string]string
}

func (c *twoCallsChat) Prompt(_ context.Context, p agent.Prompt) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turn, c.got = p.Turn, map[string]string{}
	tool := &agent.Tool{Name: "t", Input: json.RawMessage("{}")}
	var frames []agent.Frame
	for _, call := range []string{"a-call-that-is-long", "b-call-that-is-long"} {
		frames = append(frames, agent.Frame{Kind: agent.ToolStart, Call: call, Tool: tool})
	}
	for _, call := range []string{"a-call-that-is-long", "b-call-that-is-long"} {
		frames = append(frames, agent.Frame{Kind: agent.ClientCall, Call: call, Request: call, Tool: tool})
	}
	c.frames <- frames
	return nil
}

func (c *twoCallsChat) Interrupt(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frames <- []agent.Frame{{Kind: agent.TurnEnd, Turn: c.turn, Status: event.TurnCancelled}}
	return nil
}

func (c *twoCallsChat) Answer(_ context.Context, a agent.Answer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.Resolution.Outcome != event.Completed {
		return nil
	}
	c.got[a.Request] = a.Resolution.Output
	if len(c.got) < 2 {
		return nil
	}
	one, two := c.got["a-call-that-is-long"], c.got["b-call-that-is-long"]
	c.frames <- []agent.Frame{
		{Kind: agent.ToolEnd, Call: "a-call-that-is-long", Result: &agent.Result{Output: one}},
		{Kind: agent.ToolEnd, Call: "b-call-that-is-long", Result: &agent.Result{Output: two}},
		{Kind: agent.TextDelta, Part: "p", Text: one + " " + two},
		{Kind: agent.TurnEnd, Turn: c.turn, Status: event.TurnComplete},
	}
	return nil
}

func (c *twoCallsChat) Recv(ctx context.Context) ([]agent.Frame, error) {
	select {
	case f := <-c.frames:
		return f, nil
	case <-c.done:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *twoCallsChat) Close() error {
	c.once.Do(func() { close(c.done) })
	return nil
}
