package pi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// record is what pi writes: an event, an answer to a command, or a dialog.
type record struct {
	Type string `json:"type"`
	// ID is a command's, echoed, or a dialog's.
	ID      string          `json:"id"`
	Command string          `json:"command"`
	Success bool            `json:"success"`
	Data    json.RawMessage `json:"data"`
	Error   string          `json:"error"`

	// Message is a message's object, or a dialog's text.
	Message json.RawMessage `json:"message"`
	Update  *update         `json:"assistantMessageEvent"`

	ToolCallID string          `json:"toolCallId"`
	ToolName   string          `json:"toolName"`
	Args       json.RawMessage `json:"args"`
	Partial    *content        `json:"partialResult"`
	IsError    bool            `json:"isError"`
	// Result is a tool's, or a compaction's.
	Result json.RawMessage `json:"result"`

	Method   string   `json:"method"`
	Title    string   `json:"title"`
	Options  []string `json:"options"`
	NotifyAs string   `json:"notifyType"`

	Attempt      int    `json:"attempt"`
	MaxAttempts  int    `json:"maxAttempts"`
	DelayMs      int64  `json:"delayMs"`
	ErrorMessage string `json:"errorMessage"`
	FinalError   string `json:"finalError"`
	Aborted      bool   `json:"aborted"`
	WillRetry    bool   `json:"willRetry"`
	Reason       string `json:"reason"`
	Name         string `json:"name"`
}

// update is a piece of the message that is being made. The whole message so
// far, which comes with every piece, is not looked at but for the beginning of
// a call.
type update struct {
	Type    string `json:"type"`
	Index   int    `json:"contentIndex"`
	Delta   string `json:"delta"`
	Call    *part  `json:"toolCall"`
	Partial *struct {
		Content []part `json:"content"`
	} `json:"partial"`
}

// message is one of the conversation.
type message struct {
	Role       string   `json:"role"`
	Content    contents `json:"content"`
	Provider   string   `json:"provider"`
	Model      string   `json:"model"`
	Usage      usage    `json:"usage"`
	StopReason string   `json:"stopReason"`
	Error      string   `json:"errorMessage"`
	ToolCallID string   `json:"toolCallId"`
	ToolName   string   `json:"toolName"`
	IsError    bool     `json:"isError"`
	Timestamp  int64    `json:"timestamp"` // milliseconds
	Summary    string   `json:"summary"`
}

type usage struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cacheRead"`
	CacheWrite int64 `json:"cacheWrite"`
	Cost       struct {
		Total float64 `json:"total"`
	} `json:"cost"`
}

// part is a piece of content.
type part struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Data      []byte          `json:"data"`
	MIME      string          `json:"mimeType"`
}

type content struct {
	Content contents `json:"content"`
}

// contents is a text or a list of parts.
type contents []part

// UnmarshalJSON takes both spellings.
func (c *contents) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		*c = contents{{Type: "text", Text: s}}
		return nil
	}
	return json.Unmarshal(b, (*[]part)(c))
}

// text joins the texts.
func (c contents) text() string {
	if len(c) == 1 {
		return c[0].Text
	}
	var b strings.Builder
	for _, p := range c {
		b.WriteString(p.Text)
	}
	return b.String()
}

// state is the answer to get_state.
type state struct {
	SessionID string `json:"sessionId"`
	File      string `json:"sessionFile"`
	Model     *model `json:"model"`
	Thinking  string `json:"thinkingLevel"`
}

type model struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Provider  string   `json:"provider"`
	Reasoning bool     `json:"reasoning"`
	Input     []string `json:"input"`
	Window    int64    `json:"contextWindow"`
}

// dialog is what the gate asks for in a dialog's title.
type dialog struct {
	Polyhost int             `json:"polyhost"`
	Ask      string          `json:"ask"`
	Call     string          `json:"call"`
	Tool     string          `json:"tool"`
	Input    json.RawMessage `json:"input"`
}

// updatePrefix is how the frequent record begins.
var updatePrefix = []byte(`{"type":"message_update"`)

// decode reads a record. The whole message so far in an update is skipped.
func decode(line []byte) (*record, error) {
	if bytes.HasPrefix(line, updatePrefix) {
		var u struct {
			Update *update `json:"assistantMessageEvent"`
		}
		// Only the beginning of a call needs the message so far.
		if !bytes.Contains(line, []byte(`"type":"toolcall_start"`)) {
			var short struct {
				Update *struct {
					Type  string `json:"type"`
					Index int    `json:"contentIndex"`
					Delta string `json:"delta"`
					Call  *part  `json:"toolCall"`
				} `json:"assistantMessageEvent"`
			}
			if err := json.Unmarshal(line, &short); err != nil {
				return nil, fmt.Errorf("pi record: %w", err)
			}
			if s := short.Update; s != nil {
				u.Update = &update{Type: s.Type, Index: s.Index, Delta: s.Delta, Call: s.Call}
			}
		} else if err := json.Unmarshal(line, &u); err != nil {
			return nil, fmt.Errorf("pi record: %w", err)
		}
		return &record{Type: "message_update", Update: u.Update}, nil
	}
	r := &record{}
	if err := json.Unmarshal(line, r); err != nil {
		return nil, fmt.Errorf("pi record: %w", err)
	}
	return r, nil
}
