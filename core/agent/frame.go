package agent

import (
	"encoding/json"

	"github.com/polyhost/polyhost/core/event"
)

// FrameKind says which fields of a Frame count.
type FrameKind string

// The frames, with the fields they use beside Child.
const (
	// Text and reasoning: Part begins with the first delta of a new id.
	TextDelta      FrameKind = "text"      // Part, Text
	ReasoningDelta FrameKind = "reasoning" // Part, Text
	PartDone       FrameKind = "part_done" // Part

	// Tool calls. Call is the agent's id. The order is ToolStart,
	// ToolInput*, Permission? or ToolRun, ToolOutput*, ToolEnd. ToolStart
	// may carry the whole input.
	ToolStart  FrameKind = "tool_start"  // Call, Tool
	ToolInput  FrameKind = "tool_input"  // Call, Text: JSON pieces
	Permission FrameKind = "permission"  // Call, Request, Tool: may the call run? answered by Answer
	ToolRun    FrameKind = "tool_run"    // Call, Tool: runs without asking the gateway
	ToolOutput FrameKind = "tool_output" // Call, Text, Stderr
	// Progress is what a running call does right now, in one line.
	Progress FrameKind = "progress" // Call, Text
	ToolEnd  FrameKind = "tool_end" // Call, Result

	// Requests to people and clients, answered by Answer.
	Ask        FrameKind = "ask"         // Request, Call?, Questions
	ClientCall FrameKind = "client_call" // Request, Call, Tool: a client-provided tool

	// Withdrawn takes an open request back.
	Withdrawn FrameKind = "withdrawn" // Request

	// A subagent: later frames with Child belong to its chat.
	ChildStart FrameKind = "child_start" // Child, Call?, Name, Text: its prompt
	ChildEnd   FrameKind = "child_end"   // Child, Error?

	Plan      FrameKind = "plan"      // Plan
	Usage     FrameKind = "usage"     // Usage
	Context   FrameKind = "context"   // Context
	Notice    FrameKind = "notice"    // Notice
	Title     FrameKind = "title"     // Text: a title for the conversation
	Image     FrameKind = "image"     // Image
	Steered   FrameKind = "steered"   // Message: taken into the running turn
	Unsteered FrameKind = "unsteered" // Message: the turn ended without it
	// Offers replaces what the conversation was said to have, Servers its MCP
	// servers; both come in or out of turns.
	Offers         FrameKind = "offers"       // Offer
	Servers        FrameKind = "servers"      // Servers
	ConversationID FrameKind = "conversation" // Text: the id that Open.Resume takes
	// Background says what the agent goes on with though no turn runs; ""
	// says that nothing is left. Meanwhile its process is not stopped.
	Background FrameKind = "background" // Text, Work
	// TurnStart: the agent begins a turn by itself (background work ended).
	TurnStart FrameKind = "turn_start" // Text?: why
	// TurnEnd is the last frame of a turn. Status is complete, cancelled or
	// failed; Error goes with failed. Point is what Open.ForkAt takes.
	TurnEnd FrameKind = "turn_end" // Turn, Status, Error?, Point?
)

// Frame is one thing an agent says.
type Frame struct {
	Kind FrameKind `json:"kind"`
	// Child is the key of the subagent the frame belongs to, "" for the
	// conversation's own chat. The agent chooses the key.
	Child   string `json:"child,omitempty"`
	Turn    string `json:"turn,omitempty"`
	Part    string `json:"part,omitempty"`
	Call    string `json:"call,omitempty"`
	Request string `json:"request,omitempty"`
	Message string `json:"message,omitempty"`
	Name    string `json:"name,omitempty"`
	Text    string `json:"text,omitempty"`
	Stderr  bool   `json:"stderr,omitempty"`

	Tool      *Tool                  `json:"tool,omitempty"`
	Result    *Result                `json:"result,omitempty"`
	Questions []event.QuestionItem   `json:"questions,omitempty"`
	Plan      []event.PlanItem       `json:"plan,omitempty"`
	Usage     *event.Usage           `json:"usage,omitempty"`
	Context   *event.ContextReported `json:"context,omitempty"`
	Notice    *event.Notice          `json:"notice,omitempty"`
	Image     *event.Attachment      `json:"image,omitempty"`
	Offer     *Offer                 `json:"offer,omitempty"`
	Servers   []ServerStatus         `json:"servers,omitempty"`
	Work      []Work                 `json:"work,omitempty"`
	Status    event.TurnStatus       `json:"status,omitempty"`
	Error     *event.Error           `json:"error,omitempty"`
	Point     string                 `json:"point,omitempty"`
}

// Work is something that the agent goes on with: a shell's Command, or a subagent.
type Work struct {
	// ID is the agent's own.
	ID      string `json:"id"`
	Label   string `json:"label"`
	Command string `json:"command,omitempty"`
	// Child is the key of a subagent.
	Child string `json:"child,omitempty"`
}

// Tool describes a call.
type Tool struct {
	Name   string          `json:"name,omitempty"`
	Title  string          `json:"title,omitempty"`
	Tag    event.Tag       `json:"tag,omitempty"`
	Server string          `json:"server,omitempty"`
	Input  json.RawMessage `json:"input,omitempty"`
	// Edits are what the call would change, for people to look at first.
	Edits []event.FileEdit `json:"edits,omitempty"`
	// Paths are the files the call touches, for the policy; relative ones
	// are relative to the working directory.
	Paths []string `json:"paths,omitempty"`
	// Command is the shell line of an exec call, for the policy.
	Command string `json:"command,omitempty"`
	// MustAsk: the agent wants a person whatever the mode says.
	MustAsk bool `json:"must_ask,omitempty"`
}

// Result is how a call ended.
type Result struct {
	// Output is all of it; "" keeps what was streamed.
	Output   string           `json:"output,omitempty"`
	Failed   bool             `json:"failed,omitempty"`
	Error    string           `json:"error,omitempty"`
	ExitCode *int             `json:"exit_code,omitempty"`
	Edits    []event.FileEdit `json:"edits,omitempty"`
	// Denied: the call was refused and never ran.
	Denied bool `json:"denied,omitempty"`
}
