package cognitio

import "encoding/json"

// session is a session as this protocol shows one. Cost, tokens, agent, model
// and path are what newer servers of the family add.
type session struct {
	ID         string          `json:"id"`
	Slug       string          `json:"slug"`
	ProjectID  string          `json:"projectID"`
	Directory  string          `json:"directory"`
	Path       string          `json:"path"`
	ParentID   string          `json:"parentID,omitempty"`
	ForkedFrom string          `json:"forkedFrom,omitempty"`
	Title      string          `json:"title"`
	Tags       []string        `json:"tags,omitempty"`
	Version    string          `json:"version"`
	Agent      string          `json:"agent,omitempty"`
	Model      *sessionModel   `json:"model,omitempty"`
	Cost       float64         `json:"cost"`
	Tokens     tokens          `json:"tokens"`
	Time       sessionTime     `json:"time"`
	Permission json.RawMessage `json:"permission,omitempty"`
}

type sessionTime struct {
	Created  int64 `json:"created"`
	Updated  int64 `json:"updated"`
	Archived int64 `json:"archived,omitempty"`
}

type sessionModel struct {
	ID         string `json:"id"`
	ProviderID string `json:"providerID"`
}

type tokens struct {
	Total     int64 `json:"total,omitempty"`
	Input     int64 `json:"input"`
	Output    int64 `json:"output"`
	Reasoning int64 `json:"reasoning"`
	Cache     cache `json:"cache"`
}

type cache struct {
	Read  int64 `json:"read"`
	Write int64 `json:"write"`
}

type modelRef struct {
	ProviderID string `json:"providerID"`
	ModelID    string `json:"modelID"`
}

type userMessage struct {
	ID        string      `json:"id"`
	SessionID string      `json:"sessionID"`
	Role      string      `json:"role"`
	Time      messageTime `json:"time"`
	Agent     string      `json:"agent"`
	Model     modelRef    `json:"model"`
}

type messageTime struct {
	Created   int64 `json:"created"`
	Completed int64 `json:"completed,omitempty"`
}

type assistantMessage struct {
	ID         string      `json:"id"`
	SessionID  string      `json:"sessionID"`
	Role       string      `json:"role"`
	Time       messageTime `json:"time"`
	Error      *wireError  `json:"error,omitempty"`
	ParentID   string      `json:"parentID"`
	ModelID    string      `json:"modelID"`
	ProviderID string      `json:"providerID"`
	Mode       string      `json:"mode"`
	Agent      string      `json:"agent"`
	Path       messagePath `json:"path"`
	Cost       float64     `json:"cost"`
	Tokens     tokens      `json:"tokens"`
	Finish     string      `json:"finish,omitempty"`
}

type messagePath struct {
	CWD  string `json:"cwd"`
	Root string `json:"root"`
}

// wireError is a named error inside events and messages.
type wireError struct {
	Name string    `json:"name"`
	Data errorData `json:"data"`
}

type errorData struct {
	Message     string `json:"message"`
	IsRetryable *bool  `json:"isRetryable,omitempty"`
}

// messageWithParts is one message of a history.
type messageWithParts struct {
	Info  any   `json:"info"`
	Parts []any `json:"parts"`

	id      string
	created int64
}

// partHead begins every part.
type partHead struct {
	ID        string `json:"id"`
	SessionID string `json:"sessionID"`
	MessageID string `json:"messageID"`
	Type      string `json:"type"`
}

type span struct {
	Start int64 `json:"start"`
	End   int64 `json:"end,omitempty"`
}

type textPart struct {
	partHead
	Text      string         `json:"text"`
	Synthetic bool           `json:"synthetic,omitempty"`
	Ignored   bool           `json:"ignored,omitempty"`
	Time      *span          `json:"time,omitempty"`
	Metadata  map[string]any `json:"metadata,omitempty"`
}

type filePart struct {
	partHead
	MIME     string          `json:"mime"`
	Filename string          `json:"filename,omitempty"`
	URL      string          `json:"url"`
	Source   json.RawMessage `json:"source,omitempty"`
}

type agentPart struct {
	partHead
	Name   string          `json:"name"`
	Source json.RawMessage `json:"source,omitempty"`
}

type stepStartPart struct{ partHead }

type stepFinishPart struct {
	partHead
	Reason string  `json:"reason"`
	Cost   float64 `json:"cost"`
	Tokens tokens  `json:"tokens"`
}

type toolPart struct {
	partHead
	CallID string    `json:"callID"`
	Tool   string    `json:"tool"`
	State  toolState `json:"state"`
}

// toolState is a call's state; which fields are there follows Status.
type toolState struct {
	Status   string          `json:"status"`
	Input    json.RawMessage `json:"input"`
	Raw      *string         `json:"raw,omitempty"`
	Output   *string         `json:"output,omitempty"`
	Error    *string         `json:"error,omitempty"`
	Title    *string         `json:"title,omitempty"`
	Metadata map[string]any  `json:"metadata,omitzero"`
	Time     *span           `json:"time,omitempty"`
}

type toolRef struct {
	MessageID string `json:"messageID"`
	CallID    string `json:"callID"`
}

type permissionRequest struct {
	ID         string         `json:"id"`
	SessionID  string         `json:"sessionID"`
	Permission string         `json:"permission"`
	Patterns   []string       `json:"patterns"`
	Metadata   map[string]any `json:"metadata"`
	Always     []string       `json:"always"`
	Tool       *toolRef       `json:"tool,omitempty"`
}

type questionRequest struct {
	ID        string         `json:"id"`
	SessionID string         `json:"sessionID"`
	Questions []questionInfo `json:"questions"`
	Tool      *toolRef       `json:"tool,omitempty"`
}

type questionInfo struct {
	Question string           `json:"question"`
	Header   string           `json:"header"`
	Options  []questionOption `json:"options"`
	Multiple bool             `json:"multiple,omitempty"`
	Custom   bool             `json:"custom"`
}

type questionOption struct {
	Label       string `json:"label"`
	Description string `json:"description"`
}

type todo struct {
	Content  string `json:"content"`
	Status   string `json:"status"`
	Priority string `json:"priority"`
}

type status struct {
	Type string `json:"type"`
}

type fileDiff struct {
	File      string `json:"file"`
	Patch     string `json:"patch"`
	Additions int    `json:"additions"`
	Deletions int    `json:"deletions"`
	Status    string `json:"status"`
}

// controlRequest asks an SDK's callback; only can_use_tool is sent.
type controlRequest struct {
	ID        string         `json:"id"`
	SessionID string         `json:"sessionID"`
	Subtype   string         `json:"subtype"`
	Payload   map[string]any `json:"payload"`
	CreatedAt int64          `json:"createdAt"`
	TimeoutMs int64          `json:"timeoutMs"`
}

// resultEvent is what an SDK takes for the outcome of its prompt.
type resultEvent struct {
	SessionID       string                `json:"sessionID"`
	MessageID       string                `json:"messageID"`
	ParentMessageID string                `json:"parentMessageID"`
	Subtype         string                `json:"subtype"`
	StopReason      string                `json:"stopReason"`
	FinalText       string                `json:"finalText"`
	NumTurns        int                   `json:"numTurns"`
	TotalCostUSD    float64               `json:"totalCostUsd"`
	Usage           tokens                `json:"usage"`
	ModelUsage      map[string]modelUsage `json:"modelUsage"`
	Error           *resultError          `json:"error,omitempty"`
}

type modelUsage struct {
	Tokens tokens  `json:"tokens"`
	Cost   float64 `json:"cost"`
}

type resultError struct {
	Name    string `json:"name"`
	Message string `json:"message"`
}

type subagentEvent struct {
	SessionID       string `json:"sessionID"`
	ParentSessionID string `json:"parentSessionID"`
	ChildSessionID  string `json:"childSessionID"`
	Agent           string `json:"agent"`
	MessageID       string `json:"messageID"`
	CallID          string `json:"callID,omitempty"`
	TaskID          string `json:"taskID"`
	SpawnMode       string `json:"spawnMode"`
	Status          string `json:"status,omitempty"`
	Result          string `json:"result,omitempty"`
	Error           string `json:"error,omitempty"`
}
