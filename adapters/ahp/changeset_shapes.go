package ahp

import "encoding/json"

// changesetInfo is an entry of a session's catalogue.
type changesetInfo struct {
	Label        string                `json:"label"`
	URITemplate  string                `json:"uriTemplate"`
	ChangeKind   string                `json:"changeKind"`
	Capabilities changesetCapabilities `json:"capabilities"`
}

type changesetCapabilities struct {
	Review struct{} `json:"review"`
}

type changesetState struct {
	Status     string               `json:"status"`
	Error      *errorInfo           `json:"error,omitempty"`
	Files      []changesetFile      `json:"files"`
	Operations []changesetOperation `json:"operations,omitempty"`
}

type changesetFile struct {
	ID       string          `json:"id"`
	Edit     fileEdit        `json:"edit"`
	Reviewed bool            `json:"reviewed,omitempty"`
	Meta     map[string]bool `json:"_meta,omitempty"`
	// stamp tells contents apart that look the same in the other fields.
	stamp string
}

type changesetOperation struct {
	ID           string     `json:"id"`
	Label        string     `json:"label"`
	Scopes       []string   `json:"scopes"`
	Confirmation string     `json:"confirmation,omitempty"`
	Icon         string     `json:"icon,omitempty"`
	Group        string     `json:"group,omitempty"`
	Status       string     `json:"status"`
	Error        *errorInfo `json:"error,omitempty"`
}

// changesetAction is any of the actions that the host says on a changeset.
type changesetAction struct {
	Type        string                `json:"type"`
	Status      string                `json:"status,omitempty"`
	Error       *errorInfo            `json:"error,omitempty"`
	File        *changesetFile        `json:"file,omitempty"`
	FileID      string                `json:"fileId,omitempty"`
	Files       []changesetFile       `json:"files,omitempty"`
	Operations  *[]changesetOperation `json:"operations,omitempty"`
	OperationID string                `json:"operationId,omitempty"`
}

type filesReviewed struct {
	Type     string   `json:"type"`
	Files    []string `json:"files" jsonx:"required"`
	Reviewed bool     `json:"reviewed" jsonx:"required"`
}

// The states of a changeset and of an operation.
const (
	changesComputing   = "computing"
	changesRecomputing = "recomputing"
	changesReady       = "ready"
	stateError         = "error"
	stateIdle          = "idle"
	stateRunning       = "running"
	stateDisabled      = "disabled"
)

// operationTarget is what an operation is asked to be done to.
type operationTarget struct {
	Kind     string          `json:"kind" jsonx:"required"`
	Resource string          `json:"resource" jsonx:"required"`
	Side     string          `json:"side"`
	Range    json.RawMessage `json:"range"`
}
