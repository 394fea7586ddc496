// Package agent is the port between the core and the agent CLIs: what a
// backend can be told and what it says back, in neutral terms.
//
// A Backend drives one kind of agent. It is implemented by the drivers and by
// the client of the plugin boundary alike, so the core cannot tell whether an
// agent runs in this process or in another one. The required interfaces are
// small; what else an agent can do is an optional interface and a field of
// Capabilities.
//
// Ordering: frames of a conversation come in the order they happened. A
// backend may block in Recv, never in Prompt, Interrupt or Answer for longer
// than handing the command over takes.
package agent

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/polyhost/polyhost/core/event"
)

// ErrUnsupported is returned for an optional ability the agent has not got.
var ErrUnsupported = errors.New("the agent cannot do that")

// Backend drives one kind of agent.
type Backend interface {
	// Info says what the agent is and can do. It may start the agent's
	// program, so callers give it a deadline and cache the answer.
	Info(ctx context.Context) (Info, error)
	// Open begins or resumes a conversation.
	Open(ctx context.Context, o Open) (Conversation, error)
	// Close ends all conversations and everything the backend started.
	Close() error
}

// Conversation is one dialogue with one agent. Prompt, Interrupt and Answer
// may be called from several goroutines; Recv from one.
type Conversation interface {
	// Prompt begins a turn. The agent runs one turn at a time.
	Prompt(ctx context.Context, p Prompt) error
	// Interrupt asks the running turn to end; a TurnEnded frame follows.
	// Without a running turn it does nothing.
	Interrupt(ctx context.Context) error
	// Answer settles a request the agent made (permission, question, client
	// tool). Unknown requests are ignored: the turn may be over.
	Answer(ctx context.Context, a Answer) error
	// Recv returns the next frames, at least one; io.EOF once the
	// conversation was closed, another error when the agent died. The slice
	// may be reused by the next Recv, the frames' contents are not.
	Recv(ctx context.Context) ([]Frame, error)
	// Close ends the conversation and its process tree.
	Close() error
}

// Steerer is a Conversation that takes messages into the running turn.
type Steerer interface {
	// Steer hands a message over; a Steered frame says when the agent took
	// it in. A message the turn had no use for comes back as Unsteered
	// before the turn's end.
	Steer(ctx context.Context, p Prompt) error
}

// Configurer is a Conversation whose settings can change while it lives.
type Configurer interface {
	Configure(ctx context.Context, s event.Settings) error
}

// ServerSwitcher is a Conversation that connects to its MCP servers, and lets go
// of them, when it is told to.
type ServerSwitcher interface {
	// SwitchServer connects to a server, anew if it must, or disconnects from
	// it. A Servers frame says what came of it.
	SwitchServer(ctx context.Context, s ServerSwitch) error
}

// ServerSwitch says what is to become of an MCP server of a conversation.
type ServerSwitch struct {
	Name string `json:"name"`
	On   bool   `json:"on"`
	// Token is what a client brought to sign in with, for Capabilities.ServerTokens.
	// It is a secret: not logged and not kept.
	Token string `json:"token,omitempty"`
}

// Info is what a backend says of its agent.
type Info struct {
	Name         string       `json:"name"`
	Title        string       `json:"title"`
	Description  string       `json:"description,omitempty"`
	Version      string       `json:"version,omitempty"`
	Capabilities Capabilities `json:"capabilities"`
	Models       []Model      `json:"models,omitempty"`
	Efforts      []string     `json:"efforts,omitempty"`
	Agents       []Persona    `json:"agents,omitempty"`
	Commands     []Command    `json:"commands,omitempty"`
	// Subagents are those that it can hand work to.
	Subagents []Persona  `json:"subagents,omitempty"`
	Tools     []ToolInfo `json:"tools,omitempty"`
	// Folders are where people put more of these, in a working directory.
	Folders Folders `json:"folders,omitzero"`
	// Resources are what clients may lend the agent tokens for.
	Resources []Resource `json:"resources,omitempty"`
	// Problems are what stands in the way of a turn though the agent is
	// there: a missing sign-in, a version that is not known.
	Problems []Problem `json:"problems,omitempty"`
}

// EffortsOf are the levels of effort that a model has: its own, or, of an agent that
// does not tell them apart, the agent's if it thinks at all.
func (i *Info) EffortsOf(m *Model) []string {
	if slices.ContainsFunc(i.Models, func(m Model) bool { return len(m.Efforts) > 0 }) {
		return m.Efforts
	}
	if m.Reasoning {
		return i.Efforts
	}
	return nil
}

// Resource is something that the agent needs a token for, if it has none of its
// own.
type Resource struct {
	// ID names it: its address.
	ID   string `json:"id"`
	Name string `json:"name"`
}

// The codes of a Problem.
const (
	ProblemMissing   = "not_installed"
	ProblemTooOld    = "too_old"
	ProblemSignedOut = "not_signed_in"
	ProblemBroken    = "does_not_start"
)

// Problem is why an agent cannot work, with its remedy. As an error of Info or
// Open it says that there is no agent at all.
type Problem struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	// Fix is a command, or a sentence, that remedies it.
	Fix string `json:"fix,omitempty"`
}

func (p *Problem) Error() string {
	if p.Fix == "" {
		return p.Message
	}
	return p.Message + ": " + p.Fix
}

// Capabilities are promises: what is false is refused before the agent sees it.
type Capabilities struct {
	Steer       bool `json:"steer,omitempty"`
	Resume      bool `json:"resume,omitempty"`
	Images      bool `json:"images,omitempty"`
	Reasoning   bool `json:"reasoning,omitempty"`
	Plan        bool `json:"plan,omitempty"`
	Subagents   bool `json:"subagents,omitempty"`
	Questions   bool `json:"questions,omitempty"`
	ClientTools bool `json:"client_tools,omitempty"`
	Approvals   bool `json:"approvals,omitempty"`
	Usage       bool `json:"usage,omitempty"`
	SetModel    bool `json:"set_model,omitempty"`
	// SetMode: the agent has a plan mode of its own that it is told of.
	SetMode bool `json:"set_mode,omitempty"`
	// MCP: the agent connects to the servers of Open.MCP, and so can call
	// clients' tools.
	MCP bool `json:"mcp,omitempty"`
	// Dirs: the agent works in all directories of Open.Dirs, not the first alone.
	Dirs bool `json:"dirs,omitempty"`
	// Fork: Open.Fork is understood, ForkAt: Open.ForkAt as well. The end of a
	// turn then names a place, in Frame.Point.
	Fork   bool `json:"fork,omitempty"`
	ForkAt bool `json:"fork_at,omitempty"`
	// Catalogue: the backend is a Cataloger.
	Catalogue bool `json:"catalogue,omitempty"`
	// Background: the agent works on after a turn and begins turns itself.
	Background bool `json:"background,omitempty"`
	// SwitchServers: its conversations are ServerSwitchers.
	SwitchServers bool `json:"switch_servers,omitempty"`
	// StartServers: they connect to servers anew, whether or not they let go of any.
	StartServers bool `json:"start_servers,omitempty"`
	// ServerTokens: they sign in to a server with the token of a ServerSwitch.
	ServerTokens bool `json:"server_tokens,omitempty"`
	// Plugins: the agent takes Open.Plugins. It can resume, too.
	Plugins bool `json:"plugins,omitempty"`
	// ResumeTurn: Prompt.Failures is understood.
	ResumeTurn bool `json:"resume_turn,omitempty"`
	// ShellInit: Settings.ShellInit counts from the next command on.
	ShellInit bool `json:"shell_init,omitempty"`
	// Compact: the agent shortens its context, by itself or when asked.
	Compact bool `json:"compact,omitempty"`
}

// Model is a model the agent offers; the first is its default.
type Model struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Provider string `json:"provider,omitempty"`
	// Context is the window in tokens, 0 if unknown.
	Context   int64 `json:"context,omitempty"`
	Reasoning bool  `json:"reasoning,omitempty"`
	Images    bool  `json:"images,omitempty"`
	// Efforts are the levels of effort that this model knows.
	Efforts []string `json:"efforts,omitempty"`
}

// Persona is a named way the agent can work (build, plan, reviewer).
type Persona struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

// Command is a slash command of the agent.
type Command struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Hint        string `json:"hint,omitempty"`
	// Skill: it is knowledge that the agent also reaches for by itself.
	Skill bool `json:"skill,omitempty"`
	// Kept: the agent keeps it for itself; people cannot ask for it by name.
	Kept bool `json:"kept,omitempty"`
}

// Folders are paths relative to a working directory, "" for none that is known.
type Folders struct {
	Commands  string `json:"commands,omitempty"`
	Skills    string `json:"skills,omitempty"`
	Subagents string `json:"subagents,omitempty"`
}

// Offer is what an agent has in one conversation.
type Offer struct {
	Commands  []Command `json:"commands,omitempty"`
	Subagents []Persona `json:"subagents,omitempty"`
}

// ServerState is how an MCP server of a conversation is.
type ServerState string

// The states of an MCP server.
const (
	ServerStarting ServerState = "starting"
	ServerReady    ServerState = "ready"
	ServerSignIn   ServerState = "sign_in" // it wants somebody to sign in
	ServerFailed   ServerState = "failed"
	ServerOff      ServerState = "off"
)

// ServerStatus is an MCP server as a conversation has it.
type ServerStatus struct {
	Name  string      `json:"name"`
	State ServerState `json:"state"`
	// Error is why it failed.
	Error string `json:"error,omitempty"`
	// URL is where it is, of one that is reached over HTTP.
	URL string `json:"url,omitempty"`
}

// ToolInfo is a tool the agent has.
type ToolInfo struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Tag         event.Tag       `json:"tag"`
	Schema      json.RawMessage `json:"schema,omitempty"`
}

// Open says how a conversation begins.
type Open struct {
	// Session and Chat are the gateway's ids, for logs and process marks.
	Session string `json:"session"`
	Chat    string `json:"chat"`
	// Dirs are existing absolute directories; the first is the working one.
	Dirs     []string       `json:"dirs"`
	Settings event.Settings `json:"settings"`
	// Resume is the agent's own conversation id from a ConversationID frame.
	Resume string `json:"resume,omitempty"`
	// Fork begins a new conversation with the history of Resume, which
	// stays as it is.
	Fork bool `json:"fork,omitempty"`
	// ForkAt is the last thing of that history, a Point of an ended turn; ""
	// is the end.
	ForkAt string `json:"fork_at,omitempty"`
	// MCP are servers the agent is to connect to.
	MCP []MCPServer `json:"mcp,omitempty"`
	// Tools are run by clients: a call becomes a ClientCall frame.
	Tools []event.ClientTool `json:"tools,omitempty"`
	// Instructions go to the end of what the agent is told once and for all, if
	// it can be told more.
	Instructions string `json:"instructions,omitempty"`
	// Plugins are folders that the agent is to load as plugins for this
	// conversation; the last part of a path is the plugin's name.
	Plugins []string `json:"plugins,omitempty"`
	// Bare: nothing but an answer is wanted. The agent has no tools, as far as it can
	// be run without, and need not keep the conversation.
	Bare bool `json:"bare,omitempty"`
	// Tokens were lent by a client for resources of Info, by their ids, in place
	// of the agent's own. They are secrets: not logged and not kept.
	Tokens map[string]string `json:"tokens,omitempty"`
}

// MCPServer is a Model Context Protocol server reached over streamable HTTP.
type MCPServer struct {
	Name string `json:"name"`
	URL  string `json:"url"`
	// Headers hold secrets: they are not logged.
	Headers map[string]string `json:"headers,omitempty"`
}

// Prompt is a message to the agent.
type Prompt struct {
	// Turn and Message are the gateway's ids, echoed in frames.
	Turn        string             `json:"turn"`
	Message     string             `json:"message"`
	Text        string             `json:"text"`
	Attachments []event.Attachment `json:"attachments,omitempty"`
	Settings    event.Settings     `json:"settings"`
	Tools       []event.ClientTool `json:"tools,omitempty"`
	// Failures is how often the agent was given this message before and failed
	// in its turn: it goes on with what it did of it, which it may not know in
	// a new conversation.
	Failures int `json:"failures,omitempty"`
}

// Answer settles a request frame.
type Answer struct {
	Request string `json:"request"`
	// Resolution is the whole outcome; for permissions Outcome Allowed runs
	// the call, anything else does not.
	Resolution event.Resolution `json:"resolution"`
}
