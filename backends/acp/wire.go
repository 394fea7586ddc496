package acp

import "encoding/json"

// The part of the Agent Client Protocol, version 1, that is used here. Fields
// that no agent was seen to use are left out; unknown ones are ignored, since
// agents add their own.

const protocolVersion = 1

type implementation struct {
	Name    string `json:"name"`
	Title   string `json:"title,omitempty"`
	Version string `json:"version"`
}

type initializeRequest struct {
	ProtocolVersion    int                `json:"protocolVersion"`
	ClientInfo         implementation     `json:"clientInfo"`
	ClientCapabilities clientCapabilities `json:"clientCapabilities"`
}

type clientCapabilities struct {
	FS       fsCapabilities `json:"fs"`
	Terminal bool           `json:"terminal"`
}

type fsCapabilities struct {
	Read  bool `json:"readTextFile"`
	Write bool `json:"writeTextFile"`
}

type initializeAnswer struct {
	ProtocolVersion int             `json:"protocolVersion"`
	AgentInfo       *implementation `json:"agentInfo"`
	Capabilities    struct {
		Load   bool `json:"loadSession"`
		Prompt struct {
			Image    bool `json:"image"`
			Embedded bool `json:"embeddedContext"`
		} `json:"promptCapabilities"`
		MCP struct {
			HTTP bool `json:"http"`
		} `json:"mcpCapabilities"`
		Session struct {
			List, Resume, Fork, Close, Delete *struct{}
			Dirs                              *struct{} `json:"additionalDirectories"`
		} `json:"sessionCapabilities"`
	} `json:"agentCapabilities"`
	AuthMethods []authMethod `json:"authMethods"`
}

type authMethod struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
}

type httpServer struct {
	Type    string   `json:"type"`
	Name    string   `json:"name"`
	URL     string   `json:"url"`
	Headers []header `json:"headers"`
}

type header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// sessionRequest begins, loads, resumes or forks a session.
type sessionRequest struct {
	Session string       `json:"sessionId,omitempty"`
	Dir     string       `json:"cwd"`
	Dirs    []string     `json:"additionalDirectories,omitempty"`
	MCP     []httpServer `json:"mcpServers"`
	Meta    *sessionMeta `json:"_meta,omitempty"`
}

// sessionMeta is what Claude's adapter takes beside the protocol.
type sessionMeta struct {
	Claude struct {
		Options struct {
			Settings *claudeSettings `json:"settings,omitempty"`
			Strict   bool            `json:"strictMcpConfig,omitempty"`
		} `json:"options"`
	} `json:"claudeCode"`
}

type claudeSettings struct {
	Disabled []string `json:"disabledMcpjsonServers"`
}

type sessionAnswer struct {
	Session string         `json:"sessionId"`
	Modes   *sessionModes  `json:"modes"`
	Models  *sessionModels `json:"models"`
	Options []configOption `json:"configOptions"`
}

type sessionModes struct {
	Current   string `json:"currentModeId"`
	Available []struct {
		ID          string `json:"id"`
		Name        string `json:"name"`
		Description string `json:"description"`
	} `json:"availableModes"`
}

type sessionModels struct {
	Current   string `json:"currentModelId"`
	Available []struct {
		ID          string `json:"modelId"`
		Name        string `json:"name"`
		Description string `json:"description"`
	} `json:"availableModels"`
}

// configOption is a setting that the agent lets its client change.
type configOption struct {
	ID       string         `json:"id"`
	Category string         `json:"category"`
	Current  any            `json:"currentValue"`
	Options  []optionChoice `json:"options"`
}

// optionChoice is a value, or a group of them.
type optionChoice struct {
	Value       string         `json:"value"`
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Options     []optionChoice `json:"options"`
}

// block is a piece of content, of a prompt or of the agent's.
type block struct {
	Type     string    `json:"type"`
	Text     string    `json:"text,omitempty"`
	MIME     string    `json:"mimeType,omitempty"`
	Data     []byte    `json:"data,omitempty"`
	URI      string    `json:"uri,omitempty"`
	Name     string    `json:"name,omitempty"`
	Resource *resource `json:"resource,omitempty"`
}

// MarshalJSON keeps the text of a text block that is empty.
func (b block) MarshalJSON() ([]byte, error) {
	type plain block
	if b.Type == "text" {
		return json.Marshal(struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}{b.Type, b.Text})
	}
	return json.Marshal(plain(b))
}

type resource struct {
	URI  string `json:"uri"`
	MIME string `json:"mimeType,omitempty"`
	Text string `json:"text,omitempty"`
	Blob []byte `json:"blob,omitempty"`
}

type promptRequest struct {
	Session string  `json:"sessionId"`
	Prompt  []block `json:"prompt"`
}

type promptAnswer struct {
	StopReason string      `json:"stopReason"`
	Usage      *tokenUsage `json:"usage"`
	Meta       struct {
		Quota *struct {
			Tokens geminiTokens `json:"token_count"`
			Models []struct {
				Model string `json:"model"`
			} `json:"model_usage"`
		} `json:"quota"`
	} `json:"_meta"`
}

type geminiTokens struct {
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
}

type tokenUsage struct {
	Input      int64 `json:"inputTokens"`
	Output     int64 `json:"outputTokens"`
	CacheRead  int64 `json:"cachedReadTokens"`
	CacheWrite int64 `json:"cachedWriteTokens"`
	Thought    int64 `json:"thoughtTokens"`
}

type updateNotification struct {
	Session string `json:"sessionId"`
	Update  update `json:"update"`
}

// update is any variant of a session/update: they share their names' meaning.
type update struct {
	Kind string `json:"sessionUpdate"`

	MessageID string `json:"messageId"`

	toolCall // tool_call and tool_call_update; Content is a chunk's, too

	Entries  []planEntry    `json:"entries"`
	Commands []command      `json:"availableCommands"`
	Mode     string         `json:"currentModeId"`
	Options  []configOption `json:"configOptions"`

	Used *int64 `json:"used"`
	Size int64  `json:"size"`
	Cost *cost  `json:"cost"`
}

type cost struct {
	Amount   float64 `json:"amount"`
	Currency string  `json:"currency"`
}

type planEntry struct {
	Content  string `json:"content"`
	Priority string `json:"priority"`
	Status   string `json:"status"`
}

type command struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Input       *struct {
		Hint string `json:"hint"`
	} `json:"input"`
}

// toolCall is what one message says of a call; absent fields say nothing.
type toolCall struct {
	ID        string          `json:"toolCallId"`
	Name      string          `json:"name"`
	Title     string          `json:"title"` // session_info_update has one, too
	ToolKind  string          `json:"kind"`
	Status    string          `json:"status"`
	Content   json.RawMessage `json:"content"`
	Locations []location      `json:"locations"`
	Input     json.RawMessage `json:"rawInput"`
	Output    json.RawMessage `json:"rawOutput"`
	Meta      struct {
		Claude *claudeMeta `json:"claudeCode"`
		Model  string      `json:"_claude/model"`
	} `json:"_meta"`
}

type claudeMeta struct {
	Tool   string `json:"toolName"`
	Parent string `json:"parentToolUseId"`
}

type location struct {
	Path string `json:"path"`
}

// toolContent is a piece of what a call shows: content, a diff or a terminal.
type toolContent struct {
	Type    string  `json:"type"`
	Content block   `json:"content"`
	Path    string  `json:"path"`
	Old     *string `json:"oldText"`
	New     string  `json:"newText"`
}

type permissionRequest struct {
	Session string             `json:"sessionId"`
	Call    toolCall           `json:"toolCall"`
	Options []permissionOption `json:"options"`
}

type permissionOption struct {
	ID   string `json:"optionId"`
	Name string `json:"name"`
	Kind string `json:"kind"`
}

type permissionAnswer struct {
	Outcome permissionOutcome `json:"outcome"`
}

type permissionOutcome struct {
	Outcome string `json:"outcome"` // selected or cancelled
	Option  string `json:"optionId,omitempty"`
}

type readRequest struct {
	Session string `json:"sessionId"`
	Path    string `json:"path"`
	Line    *int   `json:"line"`
	Limit   *int   `json:"limit"`
}

type readAnswer struct {
	Content string `json:"content"`
}

type writeRequest struct {
	Session string `json:"sessionId"`
	Path    string `json:"path"`
	Content string `json:"content"`
}

type listRequest struct {
	Dir    string `json:"cwd,omitempty"`
	Cursor string `json:"cursor,omitempty"`
}

type listAnswer struct {
	Sessions []struct {
		ID      string `json:"sessionId"`
		Dir     string `json:"cwd"`
		Title   string `json:"title"`
		Updated string `json:"updatedAt"`
	} `json:"sessions"`
	Next string `json:"nextCursor"`
}
