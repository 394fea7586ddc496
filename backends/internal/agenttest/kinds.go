package agenttest

import (
	"bytes"
	"encoding/json"
)

// head is what tells the kinds of lines apart, on all the wires: JSON-RPC, and
// the records with a type of claude and pi.
type head struct {
	Type      string          `json:"type"`
	Method    string          `json:"method"`
	ID        json.RawMessage `json:"id"`
	RequestID json.RawMessage `json:"request_id"`
	Request   struct {
		Subtype string `json:"subtype"`
	} `json:"request"`
	Response struct {
		RequestID json.RawMessage `json:"request_id"`
	} `json:"response"`
}

func headOf(line []byte) (h head) {
	_ = json.Unmarshal(line, &h) // fields of other shapes stay empty
	return h
}

// id is that of a request.
func (h head) id() json.RawMessage {
	if h.RequestID != nil {
		return h.RequestID
	}
	return h.ID
}

// kindOf is what a line of the driver is: which request, or the answer to
// which of the CLI's.
func kindOf(line []byte) string {
	h := headOf(line)
	kind := h.Type + " " + h.Method + " " + h.Request.Subtype + " " + string(h.Response.RequestID)
	if h.Method == "" && h.Type == "" || h.Type == "extension_ui_response" {
		kind += string(h.ID)
	}
	return kind
}

// answers is the driver's request that a line of the CLI answers, "" if none.
func answers(line []byte) string {
	h := headOf(line)
	switch {
	case h.Type == "control_response":
		return string(h.Response.RequestID)
	case h.Type == "response", h.Type == "" && h.Method == "":
		return string(h.ID)
	}
	return ""
}

// withAnswered is the answer with the id that the request has in this run.
func withAnswered(line, id json.RawMessage) json.RawMessage {
	h := headOf(line)
	if h.Type == "control_response" {
		return bytes.Replace(line, field("request_id", h.Response.RequestID), field("request_id", id), 1)
	}
	return bytes.Replace(line, field("id", h.ID), field("id", id), 1)
}

func field(name string, value json.RawMessage) []byte {
	return append([]byte(`"`+name+`":`), value...)
}
