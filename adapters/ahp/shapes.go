package ahp

import "encoding/json"

// The shapes of state, as far as this host fills them. What a key means is the
// protocol's to say; which facts it is made of, render.go's.

type rootState struct {
	Agents         []agentInfo    `json:"agents"`
	ActiveSessions int            `json:"activeSessions"`
	Terminals      []terminalInfo `json:"terminals"`
	Config         rootConfig     `json:"config"`
}

type agentInfo struct {
	Provider           string            `json:"provider"`
	DisplayName        string            `json:"displayName"`
	Description        string            `json:"description"`
	Models             []modelInfo       `json:"models"`
	ProtectedResources []lendable        `json:"protectedResources"`
	Customizations     []customization   `json:"customizations,omitempty"`
	Capabilities       agentCapabilities `json:"capabilities"`
}

type agentCapabilities struct {
	MultipleChats multipleChats `json:"multipleChats"`
	MultipleDirs  *multipleDirs `json:"multipleWorkingDirectories,omitempty"`
}

type multipleChats struct {
	Fork     bool `json:"fork"`
	SideChat bool `json:"sideChat"`
}

// multipleDirs: the first directory is where the agent runs, and may be
// replaced.
type multipleDirs struct {
	ImmutablePrimary   bool `json:"immutablePrimary"`
	PrimaryReplacement bool `json:"primaryReplacement"`
}

type modelInfo struct {
	ID               string        `json:"id"`
	Provider         string        `json:"provider"`
	Name             string        `json:"name"`
	MaxContextWindow int64         `json:"maxContextWindow,omitempty"`
	SupportsVision   *bool         `json:"supportsVision,omitempty"`
	ConfigSchema     *configSchema `json:"configSchema,omitempty"`
}

type configSchema struct {
	Type       string                    `json:"type"`
	Properties map[string]configProperty `json:"properties"`
}

type configProperty struct {
	Type             string          `json:"type"`
	Title            string          `json:"title"`
	Description      string          `json:"description,omitempty"`
	Default          any             `json:"default,omitempty"`
	Enum             []string        `json:"enum,omitempty"`
	EnumLabels       []string        `json:"enumLabels,omitempty"`
	EnumDescriptions []string        `json:"enumDescriptions,omitempty"`
	SessionMutable   bool            `json:"sessionMutable,omitempty"`
	EnumDynamic      bool            `json:"enumDynamic,omitempty"` // more values than the list has are found by asking
	ReadOnly         bool            `json:"readOnly,omitempty"`
	Items            *configProperty `json:"items,omitempty"`
	// Properties and Required are of an object's.
	Properties map[string]configProperty `json:"properties,omitempty"`
	Required   []string                  `json:"required,omitempty"`
	// offers are the values that are taken, and labels their names, where the
	// schema does not list them.
	offers, labels []string
}

type configState struct {
	Schema configSchema `json:"schema"`
	Values values       `json:"values"`
}

// snapshot is a channel's state at a sequence number.
type snapshot struct {
	Resource string `json:"resource"`
	State    any    `json:"state"`
	FromSeq  uint64 `json:"fromSeq"`
}

type sessionState struct {
	Provider           string             `json:"provider"`
	Title              string             `json:"title"`
	Status             uint32             `json:"status"`
	Activity           string             `json:"activity,omitempty"`
	Origin             *sessionOrigin     `json:"origin,omitempty"`
	WorkingDirectories []string           `json:"workingDirectories,omitempty"`
	Lifecycle          string             `json:"lifecycle"`
	CreationError      *errorInfo         `json:"creationError,omitempty"`
	ActiveClients      []json.RawMessage  `json:"activeClients"`
	Chats              []chatSummary      `json:"chats"`
	DefaultChat        string             `json:"defaultChat"`
	Config             configState        `json:"config"`
	Customizations     []customization    `json:"customizations"`
	ServerTools        []serverTool       `json:"serverTools,omitempty"`
	Changesets         []changesetInfo    `json:"changesets,omitempty"`
	InputNeeded        []inputNeeded      `json:"inputNeeded,omitempty"`
	Annotations        annotationsSummary `json:"annotations"`
	Meta               *sessionMeta       `json:"_meta,omitempty"`
}

type annotationsSummary struct {
	Resource        string `json:"resource"`
	AnnotationCount int    `json:"annotationCount"`
	EntryCount      int    `json:"entryCount"`
}

// chatHead is what lists and chats share.
type chatHead struct {
	Resource      string      `json:"resource"`
	Title         string      `json:"title"`
	Status        uint32      `json:"status"`
	Activity      string      `json:"activity,omitempty"`
	ModifiedAt    string      `json:"modifiedAt"`
	Origin        *chatOrigin `json:"origin,omitempty"`
	Interactivity string      `json:"interactivity,omitempty"`
	Movable       bool        `json:"movable"`
	// WorkingDirectories are there for a chat that has its own.
	WorkingDirectories []string `json:"workingDirectories,omitempty"`
}

// chatSummary is a chat in its session's list. Its activity is there even when
// it does nothing: what the list is told of a chat is laid over what it has, so
// that a missing key would leave what the chat did before.
type chatSummary struct {
	chatHead
	Activity string `json:"activity"`
}

func (h chatHead) summary() chatSummary { return chatSummary{h, h.Activity} }

type chatOrigin struct {
	Kind       string          `json:"kind"`
	Chat       string          `json:"chat,omitempty"`
	TurnID     string          `json:"turnId,omitempty"`
	ToolCallID string          `json:"toolCallId,omitempty"`
	Selection  *selectionShape `json:"selection,omitempty"`
}

type selectionShape struct {
	Text           string `json:"text"`
	ResponsePartID string `json:"responsePartId,omitempty"`
}

type chatState struct {
	chatHead
	Turns           []turnShape      `json:"turns"`
	TurnsNextCursor string           `json:"turnsNextCursor,omitempty"`
	ActiveTurn      *turnShape       `json:"activeTurn,omitempty"`
	SteeringMessage *pendingMessage  `json:"steeringMessage,omitempty"`
	QueuedMessages  []pendingMessage `json:"queuedMessages,omitempty"`
	Draft           json.RawMessage  `json:"draft,omitempty"`
	BackgroundWork  []backgroundWork `json:"backgroundWork,omitempty"`
}

type pendingMessage struct {
	ID      string          `json:"id"`
	Message json.RawMessage `json:"message"`
}

// turnShape is a running turn, or a finished one with Duration and State.
type turnShape struct {
	ID            string          `json:"id"`
	StartedAt     string          `json:"startedAt"`
	Duration      *int64          `json:"duration,omitempty"`
	Message       json.RawMessage `json:"message"`
	ResponseParts []any           `json:"responseParts"`
	Usage         *usageShape     `json:"usage,omitempty"`
	State         string          `json:"state,omitempty"`
}

type messageShape struct {
	Text        string            `json:"text"`
	Origin      kindOnly          `json:"origin"`
	Attachments []attachmentShape `json:"attachments,omitempty"`
	Model       *modelSelection   `json:"model,omitempty"`
}

type kindOnly struct {
	Kind string `json:"kind"`
}

type modelSelection struct {
	ID     string                     `json:"id"`
	Config map[string]json.RawMessage `json:"config,omitempty"`
}

type attachmentShape struct {
	Type                string `json:"type"`
	Label               string `json:"label"`
	DisplayKind         string `json:"displayKind,omitempty"`
	ModelRepresentation string `json:"modelRepresentation,omitempty"`
	Data                string `json:"data,omitempty"`
	ContentType         string `json:"contentType,omitempty"`
	URI                 string `json:"uri,omitempty"`
}

type usageShape struct {
	InputTokens     int64          `json:"inputTokens"`
	OutputTokens    int64          `json:"outputTokens"`
	Model           string         `json:"model,omitempty"`
	CacheReadTokens int64          `json:"cacheReadTokens,omitempty"`
	Meta            map[string]any `json:"_meta,omitempty"`
}

type textPart struct {
	Kind    string `json:"kind"` // markdown or reasoning
	ID      string `json:"id"`
	Content string `json:"content"`
}

type noticePart struct {
	Kind    string         `json:"kind"`
	Content string         `json:"content"`
	Meta    map[string]any `json:"_meta,omitempty"`
}

type refPart struct {
	Kind        string `json:"kind"`
	URI         string `json:"uri"`
	ContentType string `json:"contentType,omitempty"`
	SizeHint    int64  `json:"sizeHint,omitempty"`
}

type errorPart struct {
	Kind  string    `json:"kind"`
	Error errorInfo `json:"error"`
	// Resumable: chat/turnResume has the agent go on with the turn.
	Resumable bool `json:"resumable,omitempty"`
}

type errorInfo struct {
	ErrorType string `json:"errorType"`
	Message   string `json:"message"`
}

type inputPart struct {
	Kind     string       `json:"kind"`
	Request  inputRequest `json:"request"`
	Response string       `json:"response,omitempty"`
}

type inputRequest struct {
	ID        string                     `json:"id"`
	Message   string                     `json:"message,omitempty"`
	Questions []inputQuestion            `json:"questions,omitempty"`
	Answers   map[string]json.RawMessage `json:"answers,omitempty"`
}

type inputQuestion struct {
	ID                 string        `json:"id"`
	Kind               string        `json:"kind"`
	Title              string        `json:"title,omitempty"`
	Message            string        `json:"message"`
	Required           bool          `json:"required,omitempty"`
	Format             string        `json:"format,omitempty"`
	Options            []inputOption `json:"options,omitempty"`
	AllowFreeformInput bool          `json:"allowFreeformInput,omitempty"`
}

type inputOption struct {
	ID          string `json:"id"`
	Label       string `json:"label"`
	Description string `json:"description,omitempty"`
}

type toolPart struct {
	Kind     string   `json:"kind"`
	ToolCall toolCall `json:"toolCall"`
}

// toolCall has the keys of all states; each state fills its own.
type toolCall struct {
	Status            string            `json:"status"`
	ToolCallID        string            `json:"toolCallId"`
	ToolName          string            `json:"toolName"`
	DisplayName       string            `json:"displayName"`
	Contributor       *contributor      `json:"contributor,omitempty"`
	Meta              map[string]string `json:"_meta,omitempty"`
	PartialInput      string            `json:"partialInput,omitempty"`
	InvocationMessage *string           `json:"invocationMessage,omitempty"`
	ToolInput         *string           `json:"toolInput,omitempty"`
	ConfirmationTitle string            `json:"confirmationTitle,omitempty"`
	Edits             *editList         `json:"edits,omitempty"`
	Editable          bool              `json:"editable,omitempty"`
	Options           []confirmOption   `json:"options,omitempty"`
	Confirmed         string            `json:"confirmed,omitempty"`
	Content           []any             `json:"content,omitempty"`
	Auth              *authRequirement  `json:"auth,omitempty"`
	Reason            string            `json:"reason,omitempty"`
	ReasonMessage     string            `json:"reasonMessage,omitempty"`
	toolResultFields
}

type toolResultFields struct {
	Success          *bool      `json:"success,omitempty"`
	PastTenseMessage *string    `json:"pastTenseMessage,omitempty"`
	Error            *toolError `json:"error,omitempty"`
}

type toolError struct {
	Message string `json:"message"`
	Code    string `json:"code,omitempty"`
}

type contributor struct {
	Kind            string `json:"kind"`
	ClientID        string `json:"clientId,omitempty"`
	CustomizationID string `json:"customizationId,omitempty"`
}

type confirmOption struct {
	ID    string `json:"id"`
	Label string `json:"label"`
	Kind  string `json:"kind"`
	Group int    `json:"group"`
}

type editList struct {
	Items []fileEdit `json:"items"`
}

type fileEdit struct {
	Type   string     `json:"type,omitempty"` // "fileEdit" in a result
	Before *editSide  `json:"before,omitempty"`
	After  *editSide  `json:"after,omitempty"`
	Diff   *editStats `json:"diff,omitempty"`
}

type editSide struct {
	URI     string     `json:"uri"`
	Content contentRef `json:"content"`
}

type contentRef struct {
	URI         string `json:"uri"`
	SizeHint    int64  `json:"sizeHint,omitempty"`
	ContentType string `json:"contentType,omitempty"`
}

type editStats struct {
	Added   int `json:"added"`
	Removed int `json:"removed"`
}

type textContent struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type terminalContent struct {
	Type     string          `json:"type"`
	Resource string          `json:"resource"`
	Title    string          `json:"title"`
	IsPty    bool            `json:"isPty"`
	Result   *terminalResult `json:"result,omitempty"`
}

type terminalResult struct {
	ExitCode  *int   `json:"exitCode,omitempty"`
	Preview   string `json:"preview"`
	Truncated bool   `json:"truncated,omitempty"`
}

type subagentContent struct {
	Type      string `json:"type"`
	Resource  string `json:"resource"`
	Title     string `json:"title"`
	AgentName string `json:"agentName,omitempty"`
}

// inputNeeded is an entry of a session's list of open requests.
type inputNeeded struct {
	Kind     string        `json:"kind"`
	ID       string        `json:"id"`
	Chat     string        `json:"chat"`
	TurnID   string        `json:"turnId,omitempty"`
	ClientID string        `json:"clientId,omitempty"`
	Request  *inputRequest `json:"request,omitempty"`
	ToolCall *toolCall     `json:"toolCall,omitempty"`
}

// toolSchema describes the input of a tool.
type toolSchema struct {
	Type       string                     `json:"type"`
	Properties map[string]json.RawMessage `json:"properties,omitempty"`
	Required   []string                   `json:"required,omitempty"`
}

// sessionRow is a session in the list.
type sessionRow struct {
	Resource           string         `json:"resource"`
	Provider           string         `json:"provider"`
	Title              string         `json:"title"`
	Status             uint32         `json:"status"`
	Activity           string         `json:"activity,omitempty"`
	Origin             *sessionOrigin `json:"origin,omitempty"`
	CreatedAt          string         `json:"createdAt"`
	ModifiedAt         string         `json:"modifiedAt"`
	Project            *projectInfo   `json:"project,omitempty"`
	WorkingDirectories []string       `json:"workingDirectories,omitempty"`
	Chats              []chatRow      `json:"chats,omitempty"`
	DefaultChat        string         `json:"defaultChat,omitempty"`
	Meta               *sessionMeta   `json:"_meta,omitempty"`
}

// projectInfo is the folder that a session works in first.
type projectInfo struct {
	URI         string `json:"uri"`
	DisplayName string `json:"displayName"`
}

type chatRow struct {
	Resource      string      `json:"resource"`
	Title         string      `json:"title"`
	Origin        *chatOrigin `json:"origin,omitempty"`
	Interactivity string      `json:"interactivity,omitempty"`
	Status        uint32      `json:"status,omitempty"`
}
