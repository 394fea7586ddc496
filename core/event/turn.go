package event

import (
	"encoding/json"
	"time"

	"github.com/polyhost/polyhost/core/id"
)

// Attachment is something a person adds to a message.
type Attachment struct {
	// Kind is AttachText, AttachImage or AttachFile.
	Kind string `json:"kind"`
	Name string `json:"name,omitempty"`
	MIME string `json:"mime,omitempty"`
	// One of the three: text, bytes, or a path inside a working directory.
	Text string `json:"text,omitempty"`
	Data []byte `json:"data,omitempty"`
	Path string `json:"path,omitempty"`
	// Blob is the store's name for Data that was too large to keep here.
	Blob string `json:"blob,omitempty"`
	// Size is the length of the data in bytes.
	Size int64 `json:"size,omitempty"`
}

// The kinds of an attachment.
const (
	AttachText  = "text"
	AttachImage = "image"
	AttachFile  = "file"
)

// Message is what somebody says to the agent.
type Message struct {
	ID          id.ID        `json:"id"`
	At          time.Time    `json:"at"`
	Text        string       `json:"text"`
	Attachments []Attachment `json:"attachments,omitempty"`
	By          Actor        `json:"by"`
	// Turn is the turn the message opens or will open.
	Turn id.ID `json:"turn,omitzero"`
	// Settings override the session's for this message; zero fields do not.
	Settings Settings `json:"settings,omitzero"`
	// KeepEffort: the effort that it picks counts for the turns after its own too,
	// and is passed over if the model has no such level.
	KeepEffort bool `json:"keep_effort,omitempty"`
	// Alias is the id the client gave the message, on the client's front.
	Alias string `json:"alias,omitempty"`
	// TurnAlias is the id the client gave the turn.
	TurnAlias string `json:"turn_alias,omitempty"`
	// Tools are offered for this turn, beside the session's, by By.
	Tools []ClientTool `json:"tools,omitempty"`
	// Refusals is how many refused calls end the turn; 0 is no limit.
	Refusals int `json:"refusals,omitempty"`
	// Command is a shell command that the gateway runs for the person; the
	// agent gets no turn. "" for a message to the agent.
	Command string `json:"command,omitempty"`
	// System: no person spoke.
	System bool `json:"system,omitempty"`
	// Key is the idempotency key the message came with.
	Key string `json:"key,omitempty"`
	// Rich is the front's own form of the message, shown to the same front.
	Rich json.RawMessage `json:"rich,omitempty"`
}

// TurnStarted opens Event.Turn in Event.Chat.
type TurnStarted struct {
	Message Message `json:"message"`
	// FromQueue: the message waited; a MessageRemoved{started} preceded.
	FromQueue bool `json:"from_queue,omitempty"`
}

// TurnResumed opens Event.Turn again, the newest turn of Event.Chat, which had
// failed: its agent goes on with it. What it had said, asked and used stays.
type TurnResumed struct {
	By Actor `json:"by"`
	// Message is the one that the turn answers.
	Message Message `json:"message"`
	// Part is appended to the turn: the error that it had ended with.
	Part Part `json:"part"`
}

// TurnStatus is how a turn stands.
type TurnStatus string

// A turn runs and then has exactly one end.
const (
	TurnRunning   TurnStatus = "running"
	TurnComplete  TurnStatus = "complete"
	TurnCancelled TurnStatus = "cancelled"
	TurnFailed    TurnStatus = "failed"
)

// TurnEnded closes Event.Turn. Parts and interactions that are still open end
// before it, with events of their own.
type TurnEnded struct {
	Status TurnStatus `json:"status"`
	Error  *Error     `json:"error,omitempty"`
	// Duration is how long the turn ran.
	Duration time.Duration `json:"duration"`
	// Synthetic: the gateway closed a turn that a crash had left open.
	Synthetic bool `json:"synthetic,omitempty"`
	// By is who cancelled it.
	By Actor `json:"by,omitzero"`
	// Usage is the sum of the turn's usage reports.
	Usage Usage `json:"usage,omitzero"`
	// Point is where the agent's conversation stands at the end of the turn;
	// nil if the agent cannot go back to that.
	Point *Point `json:"point,omitempty"`
	// Resumable: the turn failed, and its agent can go on with it.
	Resumable bool `json:"resumable,omitempty"`
}

// TurnPointed says where the agent's conversation stands at the end of a turn of
// Event.Chat that the gateway had ended before the agent did.
type TurnPointed struct {
	Turn  id.ID `json:"turn"`
	Point Point `json:"point"`
}

// MessageQueued puts a message into the queue of Event.Chat. A steering
// message waits for the agent to take it into the running turn.
type MessageQueued struct {
	Message Message `json:"message"`
	Steer   bool    `json:"steer,omitempty"`
}

// MessageUpdated replaces a waiting message of the same id.
type MessageUpdated struct {
	Message Message `json:"message"`
}

// MessageRemoved takes a message out of the queue.
type MessageRemoved struct {
	ID id.ID `json:"id"`
	// Why is one of the Removed constants.
	Why string `json:"why"`
	By  Actor  `json:"by,omitzero"`
	// Turn is the turn that takes the message: started or steered.
	Turn id.ID `json:"turn,omitzero"`
}

// Why a message left the queue.
const (
	RemovedStarted = "started" // its own turn starts
	RemovedSteered = "steered" // the running turn took it; a PartStarted of kind message follows
	RemovedDropped = "dropped" // an interrupt emptied the queue
	RemovedByUser  = "removed"
)

// QueueReordered gives the new order of the waiting messages of Event.Chat.
type QueueReordered struct {
	Order []id.ID `json:"order"`
	By    Actor   `json:"by"`
}

// PlanItem is a step of the agent's plan (its todo list).
type PlanItem struct {
	ID   string `json:"id"`
	Text string `json:"text"`
	// Status is PlanPending, PlanActive or PlanDone.
	Status   string `json:"status"`
	Priority string `json:"priority,omitempty"`
}

// The states of a plan item.
const (
	PlanPending = "pending"
	PlanActive  = "active"
	PlanDone    = "done"
)

// PlanUpdated replaces the plan of Event.Chat.
type PlanUpdated struct {
	Items []PlanItem `json:"items"`
}

// Usage counts tokens and money.
type Usage struct {
	Input      int64   `json:"input,omitempty"`
	Output     int64   `json:"output,omitempty"`
	CacheRead  int64   `json:"cache_read,omitempty"`
	CacheWrite int64   `json:"cache_write,omitempty"`
	Reasoning  int64   `json:"reasoning,omitempty"`
	CostUSD    float64 `json:"cost_usd,omitempty"`
	Model      string  `json:"model,omitempty"`
}

// Add sums usages; the newer model name wins.
func (u Usage) Add(v Usage) Usage {
	u.Input += v.Input
	u.Output += v.Output
	u.CacheRead += v.CacheRead
	u.CacheWrite += v.CacheWrite
	u.Reasoning += v.Reasoning
	u.CostUSD += v.CostUSD
	if v.Model != "" {
		u.Model = v.Model
	}
	return u
}

// Since is what was used after v.
func (u Usage) Since(v Usage) Usage {
	v.Input, v.Output, v.CacheRead, v.CacheWrite = -v.Input, -v.Output, -v.CacheRead, -v.CacheWrite
	v.Reasoning, v.CostUSD, v.Model = -v.Reasoning, -v.CostUSD, ""
	return u.Add(v)
}

// UsageReported is what one model call used, since the last report.
type UsageReported struct {
	Usage Usage `json:"usage"`
}

// ContextReported is how full the agent's context is, in tokens. Window 0 is
// unknown.
type ContextReported struct {
	Used   int64 `json:"used"`
	Window int64 `json:"window,omitempty"`
}

func (*TurnStarted) Kind() Kind     { return "turn.started" }
func (*TurnResumed) Kind() Kind     { return "turn.resumed" }
func (*TurnEnded) Kind() Kind       { return "turn.ended" }
func (*TurnPointed) Kind() Kind     { return "turn.pointed" }
func (*MessageQueued) Kind() Kind   { return "message.queued" }
func (*MessageUpdated) Kind() Kind  { return "message.updated" }
func (*MessageRemoved) Kind() Kind  { return "message.removed" }
func (*QueueReordered) Kind() Kind  { return "queue.reordered" }
func (*PlanUpdated) Kind() Kind     { return "plan.updated" }
func (*UsageReported) Kind() Kind   { return "usage.reported" }
func (*ContextReported) Kind() Kind { return "context.reported" }
