package claude

import (
	"encoding/json"
)

// record is one line of the CLI, with the fields of all kinds that matter
// here. What is unknown is left out.
type record struct {
	Type      string `json:"type"`
	Subtype   string `json:"subtype"`
	UUID      string `json:"uuid"`
	SessionID string `json:"session_id"`
	// Parent is the call of the subagent that speaks.
	Parent string `json:"parent_tool_use_id"`

	// stream_event
	Event *streamEvent `json:"event"`

	// assistant, user
	Message       json.RawMessage `json:"message"`
	IsAPIError    bool            `json:"is_api_error_message"`
	ToolUseResult json.RawMessage `json:"tool_use_result"`
	ToolMeta      []toolMeta      `json:"tool_result_meta"`
	IsReplay      bool            `json:"isReplay"`
	IsSynthetic   bool            `json:"isSynthetic"`

	// control_request, control_response, control_cancel_request
	RequestID string          `json:"request_id"`
	Request   json.RawMessage `json:"request"`
	Response  json.RawMessage `json:"response"`

	// command_lifecycle
	CommandUUID string `json:"command_uuid"`
	State       string `json:"state"`

	// system
	Status         string          `json:"status"`
	Model          string          `json:"model"`
	Attempt        int             `json:"attempt"`
	MaxRetries     int             `json:"max_retries"`
	RetryDelayMS   float64         `json:"retry_delay_ms"`
	ErrorStatus    int             `json:"error_status"`
	Error          json.RawMessage `json:"error"`
	Content        json.RawMessage `json:"content"`
	Level          string          `json:"level"`
	Title          string          `json:"title"`
	ToolUseID      string          `json:"tool_use_id"`
	TaskID         string          `json:"task_id"`
	TaskType       string          `json:"task_type"`
	Description    string          `json:"description"`
	SubagentType   string          `json:"subagent_type"`
	Prompt         string          `json:"prompt"`
	Summary        string          `json:"summary"`
	CompactResult  string          `json:"compact_result"`
	CompactMeta    *compactMeta    `json:"compact_metadata"`
	RateLimit      *rateLimit      `json:"rate_limit_info"`
	IsBackgrounded bool            `json:"is_backgrounded"`
	Tasks          []task          `json:"tasks"`
	Skills         []string        `json:"skills"`
	Slash          []string        `json:"slash_commands"`
	Servers        []struct {
		Name   string `json:"name"`
		Status string `json:"status"`
	} `json:"mcp_servers"`

	// result
	IsError      bool                  `json:"is_error"`
	Result       string                `json:"result"`
	Errors       []string              `json:"errors"`
	Terminal     string                `json:"terminal_reason"`
	StopReason   string                `json:"stop_reason"`
	APIStatus    int                   `json:"api_error_status"`
	APIErrorType string                `json:"api_error_type"`
	APIError     string                `json:"api_error"`
	Usage        *tokens               `json:"usage"`
	ModelUsage   map[string]modelUsage `json:"modelUsage"`
	SinceLast    map[string]modelUsage `json:"model_usage_since_last_result"`
	CostUSD      float64               `json:"total_cost_usd"`
	Origin       *origin               `json:"origin"`
}

// streamRecord is a record of the kind that comes most.
type streamRecord struct {
	SessionID string       `json:"session_id"`
	Parent    string       `json:"parent_tool_use_id"`
	Event     *streamEvent `json:"event"`
}

type task struct {
	ID          string `json:"task_id"`
	TaskType    string `json:"task_type"`
	Description string `json:"description"`
}

type origin struct {
	Kind string `json:"kind"`
}

type compactMeta struct {
	Trigger   string `json:"trigger"`
	PreTokens int64  `json:"pre_tokens"`
}

type rateLimit struct {
	Status   string  `json:"status"`
	Type     string  `json:"rateLimitType"`
	ResetsAt float64 `json:"resetsAt"` // seconds since 1970
}

type toolMeta struct {
	ID       string `json:"id"`
	Unran    string `json:"non_execution_kind"`
	Decision struct {
		Decision string `json:"decision"`
	} `json:"permission_decision"`
}

// streamEvent is an event of the model's own stream.
type streamEvent struct {
	Type    string `json:"type"`
	Index   int    `json:"index"`
	Message *struct {
		ID    string  `json:"id"`
		Model string  `json:"model"`
		Usage *tokens `json:"usage"`
	} `json:"message"`
	Block *block  `json:"content_block"`
	Usage *tokens `json:"usage"`
	Delta *struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		Thinking string `json:"thinking"`
		JSON     string `json:"partial_json"`
	} `json:"delta"`
}

// message is what an assistant or user record holds.
type message struct {
	ID      string          `json:"id"`
	Role    string          `json:"role"`
	Model   string          `json:"model"`
	Content json.RawMessage `json:"content"`
	Usage   *tokens         `json:"usage"`
}

// block is a piece of a message's content.
type block struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Thinking string          `json:"thinking"`
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Input    json.RawMessage `json:"input"`
	// tool_result
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
	ToolName  string          `json:"tool_name"`
	Source    *source         `json:"source"`
}

type source struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      string `json:"data"`
}

type tokens struct {
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	CacheRead  int64 `json:"cache_read_input_tokens"`
	CacheWrite int64 `json:"cache_creation_input_tokens"`
}

type modelUsage struct {
	Input      int64   `json:"inputTokens"`
	Output     int64   `json:"outputTokens"`
	CacheRead  int64   `json:"cacheReadInputTokens"`
	CacheWrite int64   `json:"cacheCreationInputTokens"`
	Thinking   int64   `json:"thinkingTokens"`
	CostUSD    float64 `json:"costUSD"`
	Window     int64   `json:"contextWindow"`
}

// canUseTool is the CLI's question whether a call may run.
type canUseTool struct {
	Subtype     string          `json:"subtype"`
	ToolName    string          `json:"tool_name"`
	Input       json.RawMessage `json:"input"`
	ToolUseID   string          `json:"tool_use_id"`
	Description string          `json:"description"`
	Reason      string          `json:"decision_reason"`
	Interactive bool            `json:"requires_user_interaction"`
}

// controlResponse is the answer to a request of ours.
type controlResponse struct {
	Subtype   string          `json:"subtype"`
	RequestID string          `json:"request_id"`
	Response  json.RawMessage `json:"response"`
	Error     string          `json:"error"`
}

// blocks reads content that may be a plain string.
func blocks(content json.RawMessage) []block {
	var text string
	if len(content) > 0 && content[0] == '"' {
		if json.Unmarshal(content, &text) != nil || text == "" {
			return nil
		}
		return []block{{Type: "text", Text: text}}
	}
	var list []block
	_ = json.Unmarshal(content, &list)
	return list
}

// object is raw if it is a JSON object, else an empty one.
func object(raw json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil || fields == nil {
		return json.RawMessage(`{}`)
	}
	return raw
}

// marshal encodes what is known to have a JSON form.
func marshal(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
