package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// The demo agent's own tools.
const (
	toolBash  = "bash"
	toolWrite = "write"
	toolRead  = "read"
	toolTask  = "task"
)

// schema is a JSON schema of an object with the given required strings.
func schema(fields ...string) json.RawMessage {
	props := map[string]any{}
	for _, f := range fields {
		props[f] = map[string]any{"type": "string"}
	}
	return marshal(map[string]any{"type": "object", "properties": props, "required": fields})
}

// marshal encodes what is known to have a JSON form.
func marshal(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// call is one use of a tool: its input may be changed by who allows it, so
// what it touches is worked out from the input each time.
type call struct {
	id   string
	tool agent.Tool
	// look fills in the title, paths and edits of an input, or says why it
	// cannot run.
	look func(*agent.Tool) error
	// run does it. An error ends the turn; a failed call does not.
	run func(agent.Tool) (agent.Result, error)
}

// use takes a call from its announcement to its end.
func (s *script) use(c call) error {
	c.id = s.t.c.newID("call")
	return s.useAs(c)
}

func (s *script) useAs(c call) error {
	unfit := c.look(&c.tool)
	announced := c.tool
	announced.Edits = nil // the permission request carries them
	if err := s.put(agent.Frame{Kind: agent.ToolStart, Call: c.id, Tool: &announced}); err != nil {
		return err
	}
	if unfit != nil {
		return s.end(c.id, failed(unfit))
	}
	if c.tool.Tag == event.TagRead {
		if err := s.put(agent.Frame{Kind: agent.ToolRun, Call: c.id, Tool: &announced}); err != nil {
			return err
		}
	} else {
		asked := c.tool
		r, err := s.t.wait(s, agent.Frame{Kind: agent.Permission, Call: c.id, Request: s.t.c.newID("ask"), Tool: &asked})
		if err != nil {
			return err
		}
		if r.Outcome != event.Allowed {
			return s.end(c.id, agent.Result{Denied: true, Error: r.Reason})
		}
		if len(r.Input) > 0 {
			c.tool.Input = r.Input
			if unfit := c.look(&c.tool); unfit != nil {
				return s.end(c.id, failed(unfit))
			}
		}
	}
	result, err := c.run(c.tool)
	if err != nil {
		return err
	}
	return s.end(c.id, result)
}

func (s *script) end(call string, r agent.Result) error {
	return s.put(agent.Frame{Kind: agent.ToolEnd, Call: call, Result: &r})
}

func failed(err error) agent.Result { return agent.Result{Failed: true, Error: err.Error()} }

// input reads a tool's input into v, which has strings only.
func input(t *agent.Tool, v any) error {
	if err := json.Unmarshal(t.Input, v); err != nil {
		return fmt.Errorf("the input of %s is not what its schema says", t.Name)
	}
	return nil
}

// call asks a client to run one of the tools it offered.
func (s *script) call(name, args string) error {
	if args == "" {
		args = "{}"
	}
	tool := agent.Tool{Name: name, Title: name, Input: json.RawMessage(args)}
	var object map[string]json.RawMessage
	bad := json.Unmarshal(tool.Input, &object)
	if bad != nil {
		tool.Input = json.RawMessage("{}")
	}
	id := s.t.c.newID("call")
	if s.t.c.backend.MCP && bad == nil && len(s.t.c.servers) > 0 {
		tool.Server = s.t.c.servers[0].Name
		return s.callServer(id, tool)
	}
	if err := s.put(agent.Frame{Kind: agent.ToolStart, Call: id, Tool: &tool}); err != nil {
		return err
	}
	known := slices.ContainsFunc(s.t.tools, func(t event.ClientTool) bool { return t.Name == name })
	switch {
	case !known:
		return s.end(id, failed(fmt.Errorf("no client offers a tool named %s", name)))
	case bad != nil:
		return s.end(id, failed(fmt.Errorf("the input for %s is not a JSON object", name)))
	}
	r, err := s.t.wait(s, agent.Frame{Kind: agent.ClientCall, Call: id, Request: s.t.c.newID("ask"), Tool: &tool})
	if err != nil {
		return err
	}
	result := agent.Result{Output: r.Output, Failed: r.Failed || r.Outcome != event.Completed}
	if r.Outcome != event.Completed {
		result.Error = fmt.Sprintf("%s was not run: %s", name, strings.TrimSpace(string(r.Outcome)+" "+r.Reason))
	}
	if err := s.end(id, result); err != nil || r.Outcome != event.Completed || r.Output == "" {
		return err
	}
	return s.say(agent.TextDelta, r.Output)
}

// spawn runs text as a subagent's script.
func (s *script) spawn(name, text string) error {
	type args struct {
		Name   string `json:"name"`
		Prompt string `json:"prompt"`
	}
	var a args
	c := call{
		id:   s.t.c.newID("call"),
		tool: agent.Tool{Name: toolTask, Tag: event.TagDelegate, Input: marshal(args{name, text})},
		look: func(t *agent.Tool) error {
			a = args{}
			if err := input(t, &a); err != nil {
				return err
			}
			t.Title = a.Name
			if s.depth >= maxDepth {
				return fmt.Errorf("subagents nest %d deep at most", maxDepth)
			}
			return nil
		},
	}
	c.run = func(agent.Tool) (agent.Result, error) {
		sub := &script{t: s.t, child: s.t.c.newID("child"), of: c.id, above: s, depth: s.depth + 1}
		if err := s.put(agent.Frame{Kind: agent.ChildStart, Child: sub.child, Call: c.id, Name: a.Name, Text: a.Prompt}); err != nil {
			return agent.Result{}, err
		}
		var err error
		for _, line := range scriptLines(a.Prompt) {
			if err = sub.do(line); err != nil {
				break
			}
		}
		end, result := agent.Frame{Kind: agent.ChildEnd}, agent.Result{Output: sub.said}
		var f failure
		switch {
		case errors.As(err, &f):
			end.Error = &event.Error{Code: event.CodeAgentFailed, Message: string(f)}
			result = failed(f)
		case err != nil:
			return agent.Result{}, err
		}
		return result, sub.put(end)
	}
	return s.useAs(c)
}
