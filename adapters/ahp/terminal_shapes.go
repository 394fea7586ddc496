package ahp

import (
	"encoding/json"

	"github.com/polyhost/polyhost/core/terminal"
)

type terminalInfo struct {
	Resource  string            `json:"resource"`
	Title     string            `json:"title"`
	Claim     terminalClaim     `json:"claim"`
	Lifecycle terminalLifecycle `json:"lifecycle"`
}

type terminalLifecycle struct {
	Status   string `json:"status"`
	ExitCode *int   `json:"exitCode,omitempty"`
}

// terminalClaim is who a terminal belongs to: a client or a session.
type terminalClaim struct {
	Kind       string `json:"kind"`
	ClientID   string `json:"clientId,omitempty"`
	Session    string `json:"session,omitempty"`
	Chat       string `json:"chat,omitempty"`
	TurnID     string `json:"turnId,omitempty"`
	ToolCallID string `json:"toolCallId,omitempty"`
}

type terminalState struct {
	Title     string            `json:"title"`
	Cwd       string            `json:"cwd"`
	Cols      int               `json:"cols"`
	Rows      int               `json:"rows"`
	Content   []any             `json:"content"`
	Lifecycle terminalLifecycle `json:"lifecycle"`
	Claim     terminalClaim     `json:"claim"`
	Detects   bool              `json:"supportsCommandDetection"`
	IsPty     bool              `json:"isPty"`
}

type plainOutput struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

type commandOutput struct {
	Type        string `json:"type"`
	CommandID   string `json:"commandId"`
	CommandLine string `json:"commandLine"`
	Output      string `json:"output"`
	Timestamp   int64  `json:"timestamp"`
	IsComplete  bool   `json:"isComplete"`
	ExitCode    *int   `json:"exitCode,omitempty"`
	DurationMs  *int64 `json:"durationMs,omitempty"`
}

func lifecycleOf(exited bool, code *int) terminalLifecycle {
	if exited {
		return terminalLifecycle{"exited", code}
	}
	return terminalLifecycle{Status: "running"}
}

// stateOf makes the protocol's form of a terminal.
func stateOf(st *terminal.State, claim terminalClaim) terminalState {
	s := terminalState{Title: st.Title, Cwd: fileURI(st.Dir), Cols: st.Cols, Rows: st.Rows, Content: make([]any, len(st.Parts)),
		Lifecycle: lifecycleOf(st.Exited, st.Code), Claim: claim, Detects: st.Detects, IsPty: true}
	for i := range st.Parts {
		p := &st.Parts[i]
		if p.Command == "" {
			s.Content[i] = plainOutput{"unclassified", string(p.Text)}
			continue
		}
		c := commandOutput{Type: "command", CommandID: p.Command, CommandLine: p.Line, Output: string(p.Text),
			Timestamp: p.At.UnixMilli(), IsComplete: p.Complete, ExitCode: p.Code}
		if p.Complete {
			c.DurationMs = ptr(milliseconds(p.Took))
		}
		s.Content[i] = c
	}
	return s
}

// terminalAction is the action that tells an event.
func terminalAction(e *terminal.Event) json.RawMessage {
	type object = map[string]any
	var a object
	switch e.Kind {
	case terminal.Data:
		a = object{"type": "terminal/data", "data": e.Text}
	case terminal.Resized:
		a = object{"type": "terminal/resized", "cols": e.Cols, "rows": e.Rows}
	case terminal.Titled:
		a = object{"type": "terminal/titleChanged", "title": e.Text}
	case terminal.Moved:
		a = object{"type": "terminal/cwdChanged", "cwd": fileURI(e.Text)}
	case terminal.Cleared:
		a = object{"type": "terminal/cleared"}
	case terminal.Detects:
		a = object{"type": "terminal/commandDetectionAvailable"}
	case terminal.Executed:
		a = object{"type": "terminal/commandExecuted", "commandId": e.Command, "commandLine": e.Text, "timestamp": e.At.UnixMilli()}
	case terminal.Finished:
		a = object{"type": "terminal/commandFinished", "commandId": e.Command, "durationMs": milliseconds(e.Took)}
	case terminal.Exited:
		a = object{"type": "terminal/exited"}
	}
	if e.Code != nil {
		a["exitCode"] = *e.Code
	}
	return encode(a)
}
