package codex

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// message is any record of the program: a request, an answer or a
// notification. There is no jsonrpc field.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *rpcError       `json:"error"`
}

// errNoMessage is for a record that is JSON but no message.
var errNoMessage = errors.New("neither a request nor an answer nor a notification")

func decode(record []byte) (message, error) {
	var m message
	if err := json.Unmarshal(record, &m); err != nil {
		return message{}, err
	}
	if len(m.ID) > 64 || m.Method == "" && len(m.ID) == 0 {
		return message{}, errNoMessage
	}
	if bytes.Equal(m.ID, []byte("null")) {
		m.ID = nil
	}
	return m, nil
}

// rpcError is the program's refusal of a request.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// note holds the fields of all notifications that are followed; each has some.
type note struct {
	ThreadID     string          `json:"threadId"`
	TurnID       string          `json:"turnId"`
	ItemID       string          `json:"itemId"`
	Delta        string          `json:"delta"`
	SummaryIndex int             `json:"summaryIndex"`
	Item         *item           `json:"item"`
	Turn         *turnInfo       `json:"turn"`
	Thread       *threadInfo     `json:"thread"`
	RequestID    json.RawMessage `json:"requestId"`
	WillRetry    bool            `json:"willRetry"`
	Error        *turnError      `json:"error"`
	Message      string          `json:"message"`
	ThreadName   string          `json:"threadName"`
	Plan         []planStep      `json:"plan"`
	TokenUsage   *tokenUsage     `json:"tokenUsage"`
	RateLimits   *rateLimits     `json:"rateLimits"`
	FromModel    string          `json:"fromModel"`
	ToModel      string          `json:"toModel"`
}

type planStep struct {
	Step   string `json:"step"`
	Status string `json:"status"`
}

type tokens struct {
	Total      int64 `json:"totalTokens"`
	Input      int64 `json:"inputTokens"`
	Cached     int64 `json:"cachedInputTokens"`
	CacheWrite int64 `json:"cacheWriteInputTokens"`
	Output     int64 `json:"outputTokens"`
	Reasoning  int64 `json:"reasoningOutputTokens"`
}

type tokenUsage struct {
	Total  tokens `json:"total"`
	Last   tokens `json:"last"`
	Window int64  `json:"modelContextWindow"`
}

type rateWindow struct {
	UsedPercent int   `json:"usedPercent"`
	Minutes     int64 `json:"windowDurationMins"`
	ResetsAt    int64 `json:"resetsAt"` // seconds since the epoch
}

type rateLimits struct {
	Primary   *rateWindow `json:"primary"`
	Secondary *rateWindow `json:"secondary"`
	Reached   string      `json:"rateLimitReachedType"`
}

// turnError is why a turn or a try failed. Info is a word, or an object with
// one key.
type turnError struct {
	Message string          `json:"message"`
	Info    json.RawMessage `json:"codexErrorInfo"`
	Details string          `json:"additionalDetails"`
}

// kind splits the error's info into its word and the status of the answer, if
// the word has one.
func (e *turnError) kind() (word string, status int) {
	if json.Unmarshal(e.Info, &word) == nil {
		return word, 0
	}
	var object map[string]struct {
		Status int `json:"httpStatusCode"`
	}
	if json.Unmarshal(e.Info, &object) == nil && len(object) == 1 {
		for k, v := range object {
			return k, v.Status
		}
	}
	return "", 0
}

type turnInfo struct {
	ID        string     `json:"id"`
	Status    string     `json:"status"`
	Error     *turnError `json:"error"`
	Items     []item     `json:"items"`
	StartedAt int64      `json:"startedAt"` // seconds since the epoch
}

type threadInfo struct {
	ID        string `json:"id"`
	Parent    string `json:"parentThreadId"`
	Nickname  string `json:"agentNickname"`
	Role      string `json:"agentRole"`
	Preview   string `json:"preview"`
	Name      string `json:"name"`
	Cwd       string `json:"cwd"`
	Model     string `json:"model"`
	CreatedAt int64  `json:"createdAt"` // seconds since the epoch
	UpdatedAt int64  `json:"updatedAt"`
}

// threadAnswer answers thread/start, thread/resume and thread/fork.
type threadAnswer struct {
	Thread threadInfo `json:"thread"`
	Model  string     `json:"model"`
	Effort string     `json:"reasoningEffort"`
}

// item is one piece of a turn; its type says which fields count.
type item struct {
	Type string `json:"type"`
	ID   string `json:"id"`

	Text    string    `json:"text"`    // agentMessage, plan
	Summary []string  `json:"summary"` // reasoning
	Content []content `json:"content"` // userMessage; of reasoning: strings

	Command   string          `json:"command"` // commandExecution
	Cwd       string          `json:"cwd"`
	ProcessID string          `json:"processId"`
	Actions   []commandAction `json:"commandActions"`
	Output    string          `json:"aggregatedOutput"`
	ExitCode  *int            `json:"exitCode"`

	Status  string   `json:"status"`
	Changes []change `json:"changes"` // fileChange

	Server    string          `json:"server"` // mcpToolCall
	Tool      string          `json:"tool"`   // also collabAgentToolCall
	Arguments json.RawMessage `json:"arguments"`
	Result    json.RawMessage `json:"result"` // of imageGeneration: base64
	Error     *struct {
		Message string `json:"message"`
	} `json:"error"`
	ReadOnly bool `json:"readOnlyHint"`

	Prompt    string                `json:"prompt"` // collabAgentToolCall
	Receivers []string              `json:"receiverThreadIds"`
	States    map[string]agentState `json:"agentsStates"`

	AgentPath   string `json:"agentPath"` // subAgentActivity
	AgentThread string `json:"agentThreadId"`
	Kind        string `json:"kind"`

	Query  string          `json:"query"` // webSearch
	Action json.RawMessage `json:"action"`

	Path      string `json:"path"` // imageView
	SavedPath string `json:"savedPath"`
	Review    string `json:"review"` // exitedReviewMode
}

// content is a piece of a message. Reasoning has plain strings instead.
type content struct {
	Type string `json:"type"`
	Text string `json:"text"`
	URL  string `json:"url"`
	Path string `json:"path"`
	Name string `json:"name"`
}

func (c *content) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*c = content{Type: "text"}
		return json.Unmarshal(b, &c.Text)
	}
	type plain content
	return json.Unmarshal(b, (*plain)(c))
}

type commandAction struct {
	Type    string `json:"type"`
	Command string `json:"command"`
	Path    string `json:"path"`
}

type agentState struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

// change is what happens to one file: Diff is the whole text of a new file,
// and hunks without a file header for a changed one.
type change struct {
	Path string `json:"path"`
	Kind struct {
		Type string `json:"type"`
		Move string `json:"move_path,omitempty"`
	} `json:"kind"`
	Diff string `json:"diff"`
}

// ask holds the fields of the program's requests; each has some.
type ask struct {
	ThreadID    string          `json:"threadId"`
	TurnID      string          `json:"turnId"`
	ItemID      string          `json:"itemId"`
	ApprovalID  string          `json:"approvalId"`
	Kind        string          `json:"kind"`
	Command     string          `json:"command"`
	Cwd         string          `json:"cwd"`
	Actions     []commandAction `json:"commandActions"`
	Reason      string          `json:"reason"`
	GrantRoot   string          `json:"grantRoot"`
	Permissions json.RawMessage `json:"permissions"`
	Network     *struct {
		Host     string `json:"host"`
		Protocol string `json:"protocol"`
	} `json:"networkApprovalContext"`
	Questions []question `json:"questions"`

	// Of an MCP server's question:
	Server  string          `json:"serverName"`
	Mode    string          `json:"mode"`
	Message string          `json:"message"`
	URL     string          `json:"url"`
	Schema  json.RawMessage `json:"requestedSchema"`
	Meta    json.RawMessage `json:"_meta"`
}

type question struct {
	ID       string `json:"id"`
	Header   string `json:"header"`
	Question string `json:"question"`
	IsOther  bool   `json:"isOther"`
	IsSecret bool   `json:"isSecret"`
	Options  []struct {
		Label       string `json:"label"`
		Description string `json:"description"`
	} `json:"options"`
}

// input is a piece of a prompt.
type input struct {
	Type string `json:"type"`
	Text string `json:"text,omitempty"`
	URL  string `json:"url,omitempty"`
	Path string `json:"path,omitempty"`
	Name string `json:"name,omitempty"`
}

// turnParams are those of turn/start and, with the settings left out, of
// turn/steer.
type turnParams struct {
	ThreadID       string             `json:"threadId"`
	ExpectedTurnID string             `json:"expectedTurnId,omitempty"`
	Input          []input            `json:"input"`
	Model          string             `json:"model,omitempty"`
	Effort         string             `json:"effort,omitempty"`
	Summary        string             `json:"summary,omitempty"`
	Collaboration  *collaborationMode `json:"collaborationMode,omitempty"`
}

// collaborationMode is plan or default; its settings come before the turn's.
type collaborationMode struct {
	Mode     string `json:"mode"`
	Settings struct {
		Model        string  `json:"model"`
		Effort       *string `json:"reasoning_effort"`
		Instructions *string `json:"developer_instructions"`
	} `json:"settings"`
}

// threadParams are those of thread/start, thread/resume and thread/fork.
type threadParams struct {
	ThreadID       string         `json:"threadId,omitempty"`
	LastTurnID     string         `json:"lastTurnId,omitempty"` // of a fork: "" is the end
	Cwd            string         `json:"cwd,omitempty"`
	Model          string         `json:"model,omitempty"`
	ApprovalPolicy string         `json:"approvalPolicy"`
	Sandbox        string         `json:"sandbox"`
	ExcludeTurns   bool           `json:"excludeTurns,omitempty"`
	Config         map[string]any `json:"config,omitempty"`
}
