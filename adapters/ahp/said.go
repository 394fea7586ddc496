package ahp

// The actions this host says, as far as they are more than one key.

type turnAction struct {
	Type   string `json:"type"`
	TurnID string `json:"turnId"`
}

type turnEnd struct {
	Type     string     `json:"type"`
	TurnID   string     `json:"turnId"`
	Duration int64      `json:"duration"`
	Part     *errorPart `json:"part,omitempty"`
}

type turnStart struct {
	Type            string            `json:"type"`
	TurnID          string            `json:"turnId"`
	StartedAt       string            `json:"startedAt"`
	Message         any               `json:"message"`
	QueuedMessageID string            `json:"queuedMessageId,omitempty"`
	Meta            map[string]string `json:"_meta,omitempty"`
}

type partAction struct {
	Type   string `json:"type"`
	TurnID string `json:"turnId"`
	Part   any    `json:"part"`
}

type callStart struct {
	Type        string            `json:"type"`
	TurnID      string            `json:"turnId"`
	ToolCallID  string            `json:"toolCallId"`
	ToolName    string            `json:"toolName"`
	DisplayName string            `json:"displayName"`
	Contributor *contributor      `json:"contributor,omitempty"`
	Meta        map[string]string `json:"_meta,omitempty"`
}

type callReady struct {
	Type              string            `json:"type"`
	TurnID            string            `json:"turnId"`
	ToolCallID        string            `json:"toolCallId"`
	InvocationMessage *string           `json:"invocationMessage"`
	ToolInput         *string           `json:"toolInput,omitempty"`
	Confirmed         string            `json:"confirmed,omitempty"`
	ConfirmationTitle string            `json:"confirmationTitle,omitempty"`
	Edits             *editList         `json:"edits,omitempty"`
	Editable          bool              `json:"editable,omitempty"`
	Options           []confirmOption   `json:"options,omitempty"`
	Meta              map[string]string `json:"_meta,omitempty"`
}

// callAuth says that a call waits for a sign-in, or, without Auth, no more.
type callAuth struct {
	turnAction
	ToolCallID string           `json:"toolCallId"`
	Auth       *authRequirement `json:"auth,omitempty"`
}

type callConfirmed struct {
	Type            string  `json:"type"`
	TurnID          string  `json:"turnId"`
	ToolCallID      string  `json:"toolCallId"`
	Approved        bool    `json:"approved"`
	Confirmed       string  `json:"confirmed,omitempty"`
	EditedToolInput *string `json:"editedToolInput,omitempty"`
	Reason          string  `json:"reason,omitempty"`
	ReasonMessage   string  `json:"reasonMessage,omitempty"`
}

type callContent struct {
	Type       string            `json:"type"`
	TurnID     string            `json:"turnId"`
	ToolCallID string            `json:"toolCallId"`
	Content    []any             `json:"content"`
	Meta       map[string]string `json:"_meta,omitempty"`
}

type callComplete struct {
	Type       string     `json:"type"`
	TurnID     string     `json:"turnId"`
	ToolCallID string     `json:"toolCallId"`
	Result     callResult `json:"result"`
	// Meta is there when it is another than before.
	Meta map[string]string `json:"_meta,omitempty"`
}

type callResult struct {
	toolResultFields
	Content []any `json:"content,omitempty"`
}

type pendingAction struct {
	Type    string `json:"type"`
	Kind    string `json:"kind"`
	ID      string `json:"id"`
	Message any    `json:"message,omitempty"`
}

type inputCompleted struct {
	Type      string `json:"type"`
	RequestID string `json:"requestId"`
	Response  string `json:"response"`
	Answers   any    `json:"answers,omitempty"`
}

const (
	kindSteering = "steering"
	kindQueued   = "queued"
)
