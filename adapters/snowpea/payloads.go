package snowpea

import "encoding/json"

// The payloads of session events. Every field is always written, with its
// default where there is nothing to say, as the protocol's clients expect.

type turnStarted struct {
	TurnID    string  `json:"turnId"`
	Prompt    *string `json:"prompt"`
	Queued    bool    `json:"queued"`
	Initiator string  `json:"initiator"`
	Reason    *string `json:"reason"`
}

type turnQueued struct {
	TurnID   string `json:"turnId"`
	Position int    `json:"position"`
	Queued   int    `json:"queued"`
}

type turnDequeued struct {
	TurnID string `json:"turnId"`
	Reason string `json:"reason"`
	Queued int    `json:"queued"`
}

type turnDone struct {
	TurnID    string `json:"turnId"`
	Reason    string `json:"reason"`
	Synthetic bool   `json:"synthetic"`
}

type messageUser struct {
	Text        string           `json:"text"`
	Attachments []userAttachment `json:"attachments"`
	Refs        []struct{}       `json:"refs"`
	Steered     bool             `json:"steered"`
	Expansion   *struct{}        `json:"expansion"`
}

// userAttachment is how a message.user event lists an attachment.
type userAttachment struct {
	Kind  string  `json:"kind"`
	Name  string  `json:"name"`
	Title *string `json:"title"`
	URL   *string `json:"url"`
}

type messageDelta struct {
	Text string `json:"text"`
}

type messageDone struct {
	Text          string `json:"text"`
	Role          string `json:"role"`
	MessageKind   string `json:"messageKind"`
	Truncated     bool   `json:"truncated"`
	Continuations int    `json:"continuations"`
}

type toolCall struct {
	CallID string          `json:"callId"`
	Name   string          `json:"name"`
	Args   json.RawMessage `json:"args"`
}

type toolResult struct {
	CallID  string          `json:"callId"`
	Name    string          `json:"name"`
	OK      bool            `json:"ok"`
	Output  string          `json:"output"`
	Error   *string         `json:"error"`
	Content []contentBlock  `json:"content"`
	Meta    json.RawMessage `json:"meta"`
}

// contentBlock is a piece of a host tool's result.
type contentBlock struct {
	Type       string  `json:"type"`
	Text       *string `json:"text"`
	MediaType  *string `json:"mediaType"`
	ContentRef *string `json:"contentRef"`
	Data       *string `json:"data"`
}

type diffEvent struct {
	Path  string `json:"path"`
	Patch string `json:"patch"`
}

type usageEvent struct {
	Input    int64           `json:"inputTokens"`
	Output   int64           `json:"outputTokens"`
	Cached   *int64          `json:"cachedInputTokens"`
	Provider *string         `json:"provider"`
	Model    *string         `json:"model"`
	Timings  json.RawMessage `json:"timings"`
}

type contextEvent struct {
	Used      int64    `json:"used"`
	Window    *int64   `json:"window"`
	Percent   *float64 `json:"percent"`
	Estimated bool     `json:"estimated"`
	Provider  *string  `json:"provider"`
	Model     *string  `json:"model"`
}

type todo struct {
	ID      string `json:"id"`
	Content string `json:"content"`
	Status  string `json:"status"`
}

type todosUpdated struct {
	Todos []todo `json:"todos"`
}

type errorEvent struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type hookContinue struct {
	Reason string `json:"reason"`
	Count  int    `json:"count"`
}

type modeChanged struct {
	Mode       string `json:"mode"`
	Delegation *bool  `json:"delegation"`
}

type modelChanged struct {
	Provider     *string  `json:"provider"`
	Model        *string  `json:"model"`
	Effort       *string  `json:"effort"`
	EffortSource *string  `json:"effortSource"`
	Efforts      []string `json:"efforts"`
}

type agentChanged struct {
	Agent *string `json:"agent"`
}

type compaction struct {
	Before       int64 `json:"before"`
	After        int64 `json:"after"`
	Kept         int   `json:"kept"`
	SummaryChars int   `json:"summaryChars"`
	Auto         bool  `json:"auto"`
}

type tokens struct {
	Input  int64 `json:"inputTokens"`
	Output int64 `json:"outputTokens"`
}

type subagentSpawn struct {
	AgentID   string  `json:"agentId"`
	Name      string  `json:"name"`
	Title     string  `json:"title"`
	Task      string  `json:"task"`
	Status    string  `json:"status"`
	SessionID *string `json:"sessionId"`
}

type subagentUpdate struct {
	AgentID   string  `json:"agentId"`
	Name      string  `json:"name"`
	Title     string  `json:"title"`
	Text      string  `json:"text"`
	LastText  string  `json:"lastText"`
	Status    string  `json:"status"`
	SessionID *string `json:"sessionId"`
	Usage     *tokens `json:"usage"`
}

type subagentDone struct {
	AgentID     string   `json:"agentId"`
	Name        string   `json:"name"`
	Title       string   `json:"title"`
	OK          bool     `json:"ok"`
	Status      string   `json:"status"`
	Reason      string   `json:"reason"`
	Result      string   `json:"result"`
	Summary     string   `json:"summary"`
	Rounds      int      `json:"rounds"`
	Budget      int      `json:"budget"`
	DeniedCalls int      `json:"deniedCalls"`
	DeniedTools []string `json:"deniedTools"`
	SessionID   *string  `json:"sessionId"`
	Usage       tokens   `json:"usage"`
}

// ptr is a pointer to v, or nil when v is the zero value.
func ptr[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
