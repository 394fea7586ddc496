package event

import (
	"encoding/json"
	"time"

	"github.com/polyhost/polyhost/core/id"
)

// InteractionKind is what somebody is asked for.
type InteractionKind string

const (
	Approval   InteractionKind = "approval"    // may this call run?
	Question   InteractionKind = "question"    // the agent asks a person
	ClientCall InteractionKind = "client_call" // a client runs a tool it provides
	SignIn     InteractionKind = "sign_in"     // a call waits until somebody signed in to its MCP server
)

// Interaction is something only a person or a client can settle. It is open
// from InteractionOpened to InteractionResolved and is resolved exactly once.
type Interaction struct {
	ID   id.ID           `json:"id"`
	Kind InteractionKind `json:"kind"`
	Chat id.ID           `json:"chat"`
	Turn id.ID           `json:"turn"`
	// Part is the tool call it is about, if any.
	Part     id.ID     `json:"part,omitzero"`
	OpenedAt time.Time `json:"opened_at"`
	// ExpiresAt is when it is refused or declined by itself; zero is never.
	ExpiresAt time.Time `json:"expires_at,omitzero"`

	// For approvals and client calls:
	Call  string          `json:"call,omitempty"`
	Tool  string          `json:"tool,omitempty"`
	Title string          `json:"title,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`
	Tag   Tag             `json:"tag,omitempty"`
	Edits []FileEdit      `json:"edits,omitempty"`
	// Why says what made the policy ask, for people.
	Why string `json:"why,omitempty"`
	// Pattern is what an answer of scope session or wider would allow.
	Pattern string `json:"pattern,omitempty"`
	// Scopes are the scopes an allowing answer may have; once is always one.
	Scopes []Scope `json:"scopes,omitempty"`
	// Client is who must run a client call.
	Client Actor `json:"client,omitzero"`

	// For sign-ins: the MCP server that the call waits for, and its address.
	Server   string `json:"server,omitempty"`
	Resource string `json:"resource,omitempty"`

	// For questions, and for sign-ins where fronts put them as one:
	Questions []QuestionItem `json:"questions,omitempty"`
}

// QuestionItem is one question of a batch.
type QuestionItem struct {
	// ID is unique in the batch.
	ID      string           `json:"id"`
	Header  string           `json:"header,omitempty"`
	Text    string           `json:"text"`
	Options []QuestionOption `json:"options,omitempty"`
	// Multiple options may be selected.
	Multiple bool `json:"multiple,omitempty"`
	// FreeText is allowed beside or instead of options.
	FreeText bool `json:"free_text,omitempty"`
	// Secret answers are passed on and never stored or shown.
	Secret bool `json:"secret,omitempty"`
}

// QuestionOption is a ready answer.
type QuestionOption struct {
	Label       string `json:"label"`
	Description string `json:"description,omitempty"`
}

// Scope is how far an allowing answer reaches.
type Scope string

const (
	ScopeOnce    Scope = "once"
	ScopeSession Scope = "session"
	ScopeProject Scope = "project"
	ScopeAlways  Scope = "always"
)

// Outcome is how an interaction ended.
type Outcome string

const (
	Allowed   Outcome = "allowed"   // approval
	Denied    Outcome = "denied"    // approval
	Answered  Outcome = "answered"  // question; sign-in: it is done
	Declined  Outcome = "declined"  // question, sign-in
	Completed Outcome = "completed" // client call: the tool ran, well or badly
	Expired   Outcome = "expired"   // nobody came in time
	Cancelled Outcome = "cancelled" // its turn ended, or its client left
)

// Answer is the answer to one question. Nothing selected and no text means
// declined.
type Answer struct {
	ID string `json:"id"`
	// Selected are option labels.
	Selected []string `json:"selected,omitempty"`
	Text     string   `json:"text,omitempty"`
}

// Resolution is how an interaction was settled.
type Resolution struct {
	Outcome Outcome `json:"outcome"`
	By      Actor   `json:"by"`
	// Reason is a person's words for a denial.
	Reason string `json:"reason,omitempty"`
	// Scope of an allowing answer.
	Scope Scope `json:"scope,omitempty"`
	// Input replaces the call's input: the person changed it.
	Input   json.RawMessage `json:"input,omitempty"`
	Answers []Answer        `json:"answers,omitempty"`
	// Output and Failed are a client call's result.
	Output string `json:"output,omitempty"`
	Failed bool   `json:"failed,omitempty"`
	// Rich is a front's own form of the result, shown to the same front.
	Rich json.RawMessage `json:"rich,omitempty"`
}

// InteractionOpened asks.
type InteractionOpened struct {
	Interaction Interaction `json:"interaction"`
}

// InteractionResolved settles. Of and Part repeat the interaction's.
type InteractionResolved struct {
	ID         id.ID           `json:"id"`
	Of         InteractionKind `json:"of"`
	Part       id.ID           `json:"part,omitzero"`
	Resolution Resolution      `json:"resolution"`
}

func (*InteractionOpened) Kind() Kind   { return "interaction.opened" }
func (*InteractionResolved) Kind() Kind { return "interaction.resolved" }
