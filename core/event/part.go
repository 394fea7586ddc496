package event

import (
	"encoding/json"
	"time"

	"github.com/polyhost/polyhost/core/id"
)

// PartKind is what a part of a turn is.
type PartKind string

const (
	PartText      PartKind = "text"
	PartReasoning PartKind = "reasoning"
	PartTool      PartKind = "tool"
	PartNotice    PartKind = "notice"  // something the gateway or agent tells people
	PartMessage   PartKind = "message" // a steering message, where the agent took it in
	PartImage     PartKind = "image"
)

// Part is one piece of a turn, in order.
type Part struct {
	ID        id.ID     `json:"id"`
	Kind      PartKind  `json:"kind"`
	StartedAt time.Time `json:"started_at"`
	// EndedAt is zero while the part is open.
	EndedAt time.Time `json:"ended_at,omitzero"`
	// Text is the text of text, reasoning and notice parts.
	Text    Text        `json:"text,omitzero"`
	Tool    *Tool       `json:"tool,omitempty"`
	Notice  *Notice     `json:"notice,omitempty"`
	Message *Message    `json:"message,omitempty"`
	Image   *Attachment `json:"image,omitempty"`
	// Cut: the part was open when its turn was cancelled or failed.
	Cut bool `json:"cut,omitempty"`
}

// Ended reports whether the part is closed.
func (p *Part) Ended() bool { return !p.EndedAt.IsZero() }

// Notice is a remark in a turn.
type Notice struct {
	// Level is "info", "warning" or "error".
	Level string `json:"level"`
	// Code is a stable word: "truncated", "retry", "compacted", "agent_noise", …
	Code string `json:"code"`
	Text string `json:"text"`
	// Ended: it is the error that the turn had ended with before it was resumed.
	Ended *Ended `json:"ended,omitempty"`
}

// Ended is how a turn stood when it failed.
type Ended struct {
	// Usage is what the turn had used.
	Usage Usage `json:"usage,omitzero"`
	// Retryable is the error's.
	Retryable bool `json:"retryable,omitempty"`
}

// PartStarted appends a part to Event.Turn. Parts that come whole (notices,
// messages, images) are started with EndedAt set and get no PartEnded.
type PartStarted struct {
	Part Part `json:"part"`
}

// Field is which text of a part a delta grows.
type Field uint8

const (
	FieldText   Field = iota // Part.Text
	FieldInput               // Tool.PartialInput
	FieldOutput              // Tool.Output, standard output
	FieldStderr              // Tool.Output, standard error
)

// PartDelta appends to a part. It is the only event on the hot path.
type PartDelta struct {
	Part  id.ID  `json:"part"`
	Field Field  `json:"field,omitempty"`
	Text  string `json:"text"`
}

// PartEnded closes a text or reasoning part. Text is the whole text, so that
// a reader who missed deltas is made good.
type PartEnded struct {
	Part id.ID  `json:"part"`
	Text string `json:"text"`
	Cut  bool   `json:"cut,omitempty"`
}

// ToolStatus is how a tool call stands.
type ToolStatus string

const (
	CallStreaming ToolStatus = "streaming" // its input is still being written
	CallPending   ToolStatus = "pending"   // input complete; permission is being decided
	CallRunning   ToolStatus = "running"
	CallDone      ToolStatus = "done"
	CallFailed    ToolStatus = "failed"
	CallDenied    ToolStatus = "denied"    // refused by policy or a person; never ran
	CallCancelled ToolStatus = "cancelled" // its turn ended under it
)

// Ended reports whether the call is over.
func (s ToolStatus) Ended() bool {
	return s == CallDone || s == CallFailed || s == CallDenied || s == CallCancelled
}

// Tag is what a tool does, for the permission policy.
type Tag string

const (
	TagRead     Tag = "read"
	TagWrite    Tag = "write"
	TagExec     Tag = "exec"
	TagNetwork  Tag = "network"
	TagSend     Tag = "send"
	TagConfig   Tag = "config"
	TagDelegate Tag = "delegate"
	TagSecret   Tag = "secret"
)

// Tool is a tool call.
type Tool struct {
	// Call is the agent's own id of the call, unique in the session.
	Call string `json:"call"`
	Name string `json:"name"`
	// Title is one line for people, such as the command.
	Title string `json:"title,omitempty"`
	Tag   Tag    `json:"tag,omitempty"`
	// Server is the MCP server the tool belongs to, if any.
	Server string `json:"server,omitempty"`
	// Client is who runs the tool, for a client-provided one.
	Client Actor      `json:"client,omitzero"`
	Status ToolStatus `json:"status"`
	// PartialInput is the JSON of the input as far as it was streamed.
	PartialInput Text `json:"partial_input,omitzero"`
	// Input is the whole input, a JSON object, from ToolReady on.
	Input json.RawMessage `json:"input,omitempty"`
	// Output is what the call wrote so far; after the end, all of it, cut
	// in the middle when it was too long.
	Output   Text       `json:"output,omitzero"`
	Error    string     `json:"error,omitempty"`
	ExitCode *int       `json:"exit_code,omitempty"`
	Edits    []FileEdit `json:"edits,omitempty"`
	// Dropped counts output bytes that were not kept.
	Dropped int64 `json:"dropped,omitempty"`
	// Progress is what the call does right now in one line, "" when it is over.
	Progress string `json:"progress,omitempty"`
	// Child is the chat of the subagent that the call spawned, Worker the one that
	// its subagent gets once it begins: known from the start of the call.
	Child  id.ID `json:"child,omitzero"`
	Worker id.ID `json:"worker,omitzero"`
	// Terminal is where the call runs, if it has a terminal of the host's.
	Terminal id.ID `json:"terminal,omitzero"`
	// Allowed says why the call runs; Refused why it does not.
	Allowed string   `json:"allowed,omitempty"`
	Refused *Refusal `json:"refused,omitempty"`
	// RunningAt is when the call began to run.
	RunningAt time.Time `json:"running_at,omitzero"`
}

// Refusal is why a call was not run.
type Refusal struct {
	// Code is one of the Refused constants.
	Code string `json:"code"`
	// Reason is the person's or the rule's, for the agent and for people.
	Reason string `json:"reason,omitempty"`
	By     Actor  `json:"by,omitzero"`
}

// Why a call was refused.
const (
	RefusedByMode   = "mode_denied"
	RefusedByPerson = "approval_denied"
	RefusedTimeout  = "approval_timeout"
	RefusedExec     = "exec_denied" // the session runs no commands
)

// FileEdit is a change to one file.
type FileEdit struct {
	// Path is absolute.
	Path string `json:"path"`
	// Kind is "create", "edit" or "delete".
	Kind string `json:"kind"`
	// Before and After are whole texts; absent for what does not exist and
	// for what is larger than the gateway keeps.
	Before *string `json:"before,omitempty"`
	After  *string `json:"after,omitempty"`
	// Patch is a unified diff.
	Patch   string `json:"patch,omitempty"`
	Added   int    `json:"added"`
	Removed int    `json:"removed"`
}

// ToolReady: the input of a call is complete and permission is decided next.
type ToolReady struct {
	Part  id.ID           `json:"part"`
	Input json.RawMessage `json:"input"`
	Title string          `json:"title,omitempty"`
	Tag   Tag             `json:"tag,omitempty"`
	// Edits are what the call would change.
	Edits []FileEdit `json:"edits,omitempty"`
}

// ToolRunning: the call was allowed and runs now.
type ToolRunning struct {
	Part id.ID `json:"part"`
	// Allowed is "read_only", "mode", "allowlist", "person" or "agent".
	Allowed string `json:"allowed"`
	// By is the person who allowed it.
	By Actor `json:"by,omitzero"`
	// Input replaces the input when a person changed it.
	Input json.RawMessage `json:"input,omitempty"`
}

// ToolLinked gives a call its subagent's chat.
type ToolLinked struct {
	Part  id.ID `json:"part"`
	Child id.ID `json:"child"`
}

// ToolProgress says what a running call does right now.
type ToolProgress struct {
	Part id.ID  `json:"part"`
	Text string `json:"text"`
}

// ToolEnded closes a call.
type ToolEnded struct {
	Part   id.ID      `json:"part"`
	Status ToolStatus `json:"status"`
	// Output is all that the call gave, replacing what was streamed.
	Output   string     `json:"output,omitempty"`
	Error    string     `json:"error,omitempty"`
	ExitCode *int       `json:"exit_code,omitempty"`
	Edits    []FileEdit `json:"edits,omitempty"`
	Dropped  int64      `json:"dropped,omitempty"`
	Refused  *Refusal   `json:"refused,omitempty"`
}

func (*PartStarted) Kind() Kind  { return "part.started" }
func (*PartDelta) Kind() Kind    { return "part.delta" }
func (*PartEnded) Kind() Kind    { return "part.ended" }
func (*ToolReady) Kind() Kind    { return "tool.ready" }
func (*ToolRunning) Kind() Kind  { return "tool.running" }
func (*ToolLinked) Kind() Kind   { return "tool.linked" }
func (*ToolProgress) Kind() Kind { return "tool.progress" }
func (*ToolEnded) Kind() Kind    { return "tool.ended" }
