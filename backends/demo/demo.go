// Package demo is the built-in agent that needs nothing installed: it reads a
// prompt line by line as a script and really does what the lines say.
//
//	say TEXT                    streams TEXT, one delta per word
//	think TEXT                  the same as reasoning
//	stream N BYTES [DELAY_MS]   streams N deltas of BYTES bytes
//	run CMD                     runs CMD in the working directory
//	write PATH TEXT             writes TEXT and a newline to PATH
//	read PATH                   reads PATH
//	call TOOL JSON              calls a client's tool and prints its result
//	ask QUESTION | A | B        asks, and prints the answer
//	plan A; B; C                makes a plan and completes it step by step
//	spawn NAME TEXT             runs TEXT as the prompt of a subagent
//	progress TEXT               as a subagent: says that it does TEXT right now
//	usage IN OUT                reports token usage
//	server NAME STATE [TEXT]    has an MCP server that is starting, ready, off,
//	                            sign_in (TEXT: its address), failed (why), gone, or
//	                            locked: ready until somebody uses it, then sign_in
//	use NAME TOOL [TEXT]        calls a tool of such a server, which gives TEXT
//	background NAME [CMD]       goes on with CMD after the turn, or has done with it
//	command NAME TEXT           has a command more, skill NAME TEXT a skill
//	plugins                     says which plugins it was given and can read
//	sleep MS                    waits
//	fail TEXT                   ends the turn with an error
//	crash                       kills the process
//
// Any other line is echoed as by say. A line whose arguments make no sense is
// text too. A turn that is resumed goes on behind the line that it failed at, or
// crashed. The package knows only the agent port: no front and no plugin.
package demo

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/polyhost/polyhost/backends/internal/openset"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// ErrCrashed is what Recv returns after `crash` in a Backend whose Crash
// function returned.
var ErrCrashed = errors.New("the demo agent crashed")

// Backend is the demo agent. The zero value is ready to use.
type Backend struct {
	// Crash is called for the crash line; nil only breaks the conversation.
	// A plugin process exits here.
	Crash func()
	// Keep is a directory in which finished turns are kept, a file a
	// conversation, so that the agent has a history. Empty keeps nothing.
	Keep string
	// MCP has clients' tools called over the MCP servers of Open instead of
	// by ClientCall frames.
	MCP bool

	open openset.Set[*conversation]
}

// New returns a demo agent for use in this process.
func New() *Backend { return &Backend{} }

// Info says what the demo agent has.
func (b *Backend) Info(context.Context) (agent.Info, error) {
	return agent.Info{
		Name:        "demo",
		Title:       "Demo agent",
		Description: "A scripted agent that needs nothing installed",
		Version:     "1.0.0",
		Capabilities: agent.Capabilities{
			Steer: true, Resume: true, Reasoning: true, Plan: true, Subagents: true,
			Questions: true, ClientTools: !b.MCP, MCP: b.MCP, Approvals: true, Usage: true, SetModel: true,
			Fork: true, ForkAt: true, Catalogue: b.Keep != "", SwitchServers: true, StartServers: true, Plugins: true, ServerTokens: true, ResumeTurn: true, ShellInit: true,
		},
		Models: []agent.Model{
			{ID: "demo-small", Name: "Demo Small", Provider: "demo", Context: 32_000},
			{ID: "demo-large", Name: "Demo Large", Provider: "demo", Context: 200_000, Reasoning: true},
		},
		Agents: []agent.Persona{
			{Name: "build", Description: "Does what the script says"},
			{Name: "plan", Description: "The same; made for plan mode"},
		},
		Tools: []agent.ToolInfo{
			{Name: toolBash, Description: "Run a shell command", Tag: event.TagExec, Schema: schema("command")},
			{Name: toolWrite, Description: "Write a file", Tag: event.TagWrite, Schema: schema("path", "content")},
			{Name: toolRead, Description: "Read a file", Tag: event.TagRead, Schema: schema("path")},
			{Name: toolTask, Description: "Hand a prompt to a subagent", Tag: event.TagDelegate, Schema: schema("name", "prompt")},
		},
	}, nil
}

// Open begins a conversation. Any Resume id is taken as it is: the demo agent
// needs no memory to go on.
func (b *Backend) Open(ctx context.Context, o agent.Open) (agent.Conversation, error) {
	if len(o.Dirs) == 0 {
		return nil, errors.New("the demo agent needs a working directory")
	}
	for _, dir := range o.Dirs {
		if !filepath.IsAbs(dir) {
			return nil, fmt.Errorf("working directory %s is not absolute", dir)
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c, err := newConversation(b, o)
	if err != nil {
		return nil, err
	}
	if err := b.open.Add(c); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Close ends all conversations and what they run.
func (b *Backend) Close() error { return b.open.Close() }
