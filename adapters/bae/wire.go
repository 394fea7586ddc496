package bae

import (
	"encoding/json"
	"strings"
	"time"
)

// entry is one projected event, encoded once for all who read it.
type entry struct {
	pos   position
	kind  string // event_type; "" for an entry that only carries a mark
	frame []byte // the notification
	raw   []byte // the event itself: a part of frame
	turn  bool   // the event is the turn's own, and so in result.events
	leg   string // the request that wrote it for its client: not sent back to it
	mark  *mark  // the turn's leg ends here
}

// mark says how a leg of a turn ended.
type mark struct {
	turn    coreID
	ended   bool            // the turn is over; otherwise it is paused
	message json.RawMessage // for the terminal result; nil when there is none to show
	pause   *pause
}

const (
	framePrefix = `{"jsonrpc":"2.0","method":"session.event","params":`
	frameSuffix = "}\n"
	timeLayout  = "2006-01-02T15:04:05.000Z"
)

func stamp(t time.Time) string { return t.UTC().Format(timeLayout) }

// newEntry encodes an event.
func newEntry(p position, id, session, kind, key string, payload any, at time.Time) entry {
	body := mustJSON(payload)
	b := make([]byte, 0, len(framePrefix)+len(body)+256)
	b = append(b, framePrefix...)
	start := len(b)
	b = append(b, `{"id":"`...)
	b = append(b, id...)
	b = append(b, `","session_id":"`...)
	b = append(b, session...)
	b = append(b, `","client_key_id":"`...)
	b = append(b, key...)
	b = append(b, `","event_type":"`...)
	b = append(b, kind...)
	b = append(b, `","payload":`...)
	b = append(b, body...)
	b = append(b, `,"created_at":"`...)
	b = append(b, stamp(at)...)
	b = append(b, `"}`...)
	end := len(b)
	b = append(b, frameSuffix...)
	return entry{pos: p, kind: kind, frame: b, raw: b[start:end:end]}
}

// The event types that are named in more than one place.
const (
	typeClose  = "session.close"
	typeError  = "session.error"
	typeSend   = "client.message.send"
	typeResult = "tool.result"
)

// Why a session was closed.
const (
	reasonClientClose = "client_close"
	reasonKeyRevoked  = "client_key_revoked"
)

// The dispatches of a tool call.
const (
	dispatchClient   = "client"
	dispatchMCP      = "mcp"
	dispatchSandbox  = "sandbox"
	dispatchSubagent = "subagent"
)

// block is a content block that the gateway writes.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	Dispatch  string          `json:"dispatch,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Content   json.RawMessage `json:"content,omitempty"`
	IsError   bool            `json:"is_error,omitempty"`
}

// message is a message of a conversation.
type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// toolDecl is a tool as a client declares it and provider.request shows it.
type toolDecl struct {
	Name        string          `json:"name"`
	Description *string         `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
}

// The payloads that the projection writes. Pointers without omitempty are
// fields that are null when there is nothing to say.
type (
	providerRequest struct {
		Attempt   int               `json:"attempt"`
		Kind      string            `json:"kind"`
		Provider  string            `json:"provider"`
		BaseURL   string            `json:"base_url"`
		Model     string            `json:"model"`
		MaxTokens int               `json:"max_tokens"`
		Messages  []json.RawMessage `json:"messages"`
		Tools     []toolDecl        `json:"tools"`
	}
	providerResponse struct {
		Attempt  int           `json:"attempt"`
		Kind     string        `json:"kind"`
		Provider string        `json:"provider"`
		OK       bool          `json:"ok"`
		Status   *int          `json:"status"`
		Body     *providerBody `json:"body"`
		Error    string        `json:"error,omitempty"`
	}
	providerBody struct {
		Type       string        `json:"type"`
		Role       string        `json:"role"`
		Model      string        `json:"model"`
		Content    []block       `json:"content"`
		StopReason string        `json:"stop_reason"`
		Usage      providerUsage `json:"usage"`
	}
	providerUsage struct {
		InputTokens  int64 `json:"input_tokens"`
		OutputTokens int64 `json:"output_tokens"`
	}
	toolCallPayload struct {
		ID         string          `json:"id"`
		Name       string          `json:"name"`
		Input      json.RawMessage `json:"input"`
		Dispatch   string          `json:"dispatch"`
		ServerName *string         `json:"server_name"`
	}
	toolResultPayload struct {
		ToolUseID  string          `json:"tool_use_id"`
		Dispatch   string          `json:"dispatch"`
		Content    json.RawMessage `json:"content"`
		IsError    bool            `json:"is_error"`
		ServerName *string         `json:"server_name"`
	}
	mcpRequest struct {
		Method     string          `json:"method"`
		ServerName *string         `json:"server_name"`
		Tool       string          `json:"tool"`
		Input      json.RawMessage `json:"input"`
	}
	mcpResponse struct {
		ServerName *string    `json:"server_name"`
		OK         bool       `json:"ok"`
		Result     *mcpResult `json:"result,omitempty"`
		Error      string     `json:"error,omitempty"`
	}
	mcpResult struct {
		Content []block `json:"content"`
		IsError bool    `json:"isError,omitempty"`
	}
	sandboxRequest struct {
		Tool    string          `json:"tool"`
		Input   json.RawMessage `json:"input"`
		Command *string         `json:"command"`
	}
	sandboxResponse struct {
		SandboxID *string `json:"sandbox_id"`
		OK        bool    `json:"ok"`
		Error     string  `json:"error,omitempty"`
	}
	subagentPayload struct {
		Dispatch   string  `json:"dispatch"`
		SubagentID string  `json:"subagent_id"`
		Harness    string  `json:"harness"`
		Model      string  `json:"model"`
		Detail     *string `json:"detail"`
		Reason     *string `json:"reason,omitempty"`
		ExitCode   *int    `json:"exit_code,omitempty"`
	}
	sessionError struct {
		Reason          string `json:"reason"`
		Detail          string `json:"detail,omitempty"`
		Provider        string `json:"provider,omitempty"`
		Attempts        int    `json:"attempts,omitempty"`
		ProfileID       string `json:"profile_id,omitempty"`
		PrimaryProvider string `json:"primary_provider,omitempty"`
		Owner           string `json:"owner_client_key_id,omitempty"`
	}
	reasonPayload struct {
		Reason string `json:"reason"`
	}
)

// textContent is content of one text block.
func textContent(s string) json.RawMessage {
	return mustJSON([]block{{Type: "text", Text: s}})
}

// object is raw if it is a JSON object, else an empty one.
func object(raw json.RawMessage) json.RawMessage {
	if s := strings.TrimLeft(string(raw), " \t\r\n"); s == "" || s[0] != '{' {
		return json.RawMessage("{}")
	}
	return raw
}

func ptr[T any](v T) *T { return &v }

// name is a string that is null when empty.
func name(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// baseURL stands where the protocol's server shows a provider's address.
func baseURL(agent string) string { return "agent://" + agent }
