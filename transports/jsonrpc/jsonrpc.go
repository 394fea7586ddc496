// Package jsonrpc is JSON-RPC 2.0 between equals: the envelope, and a Peer that
// runs both sides of one connection over anything that can send a frame.
//
//   - Ordering: messages are looked at in the order of Receive. Requests of one
//     serial key run one after another in that order; all others run at once.
//     What a handler sends before it returns goes out before its answer, what
//     it gives to Request.Then after it.
//   - Loss: every request gets one answer while the connection lives. Answers
//     to ids that nobody waits for are dropped.
//   - Bounds: requests and notifications in flight, our own open calls, and
//     through Limits the size and depth of a message.
//   - Blocking: Receive never waits for a handler or for the peer. Call waits
//     for the peer within its deadline, Close for the handlers.
//
// It must not know any method or what carries the frames.
package jsonrpc

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/polyhost/polyhost/transports/jsonx"
)

// The error codes of JSON-RPC itself.
const (
	CodeParseError     = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternalError  = -32603
	CodeServerBusy     = -32000 // the first of the codes left to servers
)

// Error is the error member of an answer, and a Go error.
type Error struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

func (e *Error) Error() string { return fmt.Sprintf("%d: %s", e.Code, e.Message) }

// Errorf makes an Error without data.
func Errorf(code int, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// InvalidParams is -32602 with what err says of the field.
func InvalidParams(err error) *Error {
	return &Error{Code: CodeInvalidParams, Message: "invalid params: " + err.Error()}
}

// MethodNotFound is -32601.
func MethodNotFound() *Error { return &Error{Code: CodeMethodNotFound, Message: "method not found"} }

// Message is a decoded envelope. Params, Result and ID are the peer's own text.
type Message struct {
	Version   string // the jsonrpc member if it is a string
	ID        json.RawMessage
	HasID     bool // the id is there and not null
	NullID    bool // the id is there and null
	Method    string
	HasMethod bool
	Params    json.RawMessage // nil when absent
	Result    json.RawMessage // nil when absent
	Error     *Error          // of a response; Data is a json.RawMessage

	idSeen, methodSeen, answerSeen bool // the member is there, whatever its value
}

// IsRequest says whether the peer wants an answer.
func (m *Message) IsRequest() bool { return m.HasMethod && m.HasID }

// IsNotification says whether the message asks for something without an answer.
func (m *Message) IsNotification() bool { return m.HasMethod && !m.HasID }

// IsResponse says whether the message answers a request of ours.
func (m *Message) IsResponse() bool { return !m.HasMethod && (m.Result != nil || m.Error != nil) }

// Limits bound a message.
type Limits struct {
	MaxBytes int // zero: the transport has its own bound
	MaxDepth int // zero: jsonx.MaxDepth
	// RequireVersion refuses messages without "jsonrpc":"2.0".
	RequireVersion bool
	// AnyParams leaves params of any kind to the handlers, for protocols that
	// answer them with an error of their own.
	AnyParams bool
}

// Parse decodes one message strictly. The error is what the peer should be
// told; the Message then holds the id if one could be read, so that the error
// can be addressed. An array is -32600: batches are not taken. The last of
// several equal keys wins.
func Parse(data []byte, lim Limits) (Message, *Error) {
	var m Message
	switch err := jsonx.Check(data, lim.MaxBytes, lim.MaxDepth); {
	case errors.Is(err, jsonx.ErrTooDeep), errors.Is(err, jsonx.ErrTooLong):
		return m, Errorf(CodeInvalidRequest, "invalid request: %v", err)
	case err != nil:
		return m, Errorf(CodeParseError, "parse error: %v", err)
	}
	if k := jsonx.Kind(data); k == "array" {
		return m, Errorf(CodeInvalidRequest, "invalid request: batches are not supported")
	} else if k != "object" {
		return m, Errorf(CodeInvalidRequest, "invalid request: want object, got %s", k)
	}
	var bad *Error
	var badKey string
	_ = jsonx.Members(data, func(key string, v []byte) error {
		if e := m.member(key, v, lim); e != nil {
			bad, badKey = e, key
		} else if key == badKey {
			bad = nil
		}
		return nil
	})
	switch {
	case bad != nil:
		return m, bad
	case lim.RequireVersion && m.Version != "2.0":
		return m, Errorf(CodeInvalidRequest, `invalid request: jsonrpc must be "2.0"`)
	case !m.HasMethod && m.Result == nil && m.Error == nil:
		return m, Errorf(CodeInvalidRequest, "invalid request: method is missing")
	}
	return m, nil
}

func (m *Message) member(key string, v []byte, lim Limits) *Error {
	kind := jsonx.Kind(v)
	switch key {
	case "jsonrpc":
		m.Version = ""
		if kind == "string" {
			_ = json.Unmarshal(v, &m.Version)
		}
	case "id":
		m.ID, m.HasID, m.NullID, m.idSeen = nil, false, kind == "null", true
		switch {
		case kind == "null":
		case kind != "string" && kind != "number":
			return Errorf(CodeInvalidRequest, "invalid request: id: want string or number, got %s", kind)
		case len(v) > maxID:
			return Errorf(CodeInvalidRequest, "invalid request: id is longer than %d bytes", maxID)
		default:
			m.ID, m.HasID = v, true
		}
	case "method":
		m.HasMethod, m.methodSeen = kind == "string", true
		if !m.HasMethod {
			return Errorf(CodeInvalidRequest, "invalid request: method: want string, got %s", kind)
		}
		_ = json.Unmarshal(v, &m.Method)
	case "params":
		m.Params = v
		if !lim.AnyParams && kind != "object" && kind != "array" && kind != "null" {
			return Errorf(CodeInvalidRequest, "invalid request: params: want object or array, got %s", kind)
		}
	case "result":
		m.Result, m.answerSeen = v, true
	case "error":
		m.Error, m.answerSeen = nil, true
		if kind == "null" {
			return nil
		}
		var e struct {
			Code    int             `json:"code"`
			Message string          `json:"message"`
			Data    json.RawMessage `json:"data"`
		}
		if err := jsonx.DecodeChecked(v, &e); err != nil {
			return Errorf(CodeInvalidRequest, "invalid request: error.%v", err)
		}
		m.Error = &Error{Code: e.Code, Message: e.Message}
		if e.Data != nil {
			m.Error.Data = e.Data
		}
	}
	return nil
}

// Result encodes the answer to a request.
func Result(id json.RawMessage, v any) ([]byte, error) {
	body, err := marshal(v)
	if err != nil {
		return nil, err
	}
	return join(`{"jsonrpc":"2.0","id":`, id, `,"result":`, body), nil
}

// ErrorReply encodes the failure of a request. An empty id is sent as null.
func ErrorReply(id json.RawMessage, e *Error) []byte {
	if len(id) == 0 {
		id = json.RawMessage("null")
	}
	body, err := marshal(e)
	if err != nil {
		body, _ = marshal(&Error{Code: e.Code, Message: e.Message})
	}
	return join(`{"jsonrpc":"2.0","id":`, id, `,"error":`, body)
}

// Notification encodes a message that is not answered. Params of nil are left out.
func Notification(method string, params any) ([]byte, error) {
	return call("", method, params)
}

// RequestFrame encodes a request of ours.
func RequestFrame(id json.RawMessage, method string, params any) ([]byte, error) {
	return call(`,"id":`+string(id), method, params)
}

func call(id, method string, params any) ([]byte, error) {
	name, err := marshal(method)
	if err != nil {
		return nil, err
	}
	if params == nil {
		return join(`{"jsonrpc":"2.0"`+id+`,"method":`, name, "", nil), nil
	}
	body, err := marshal(params)
	if err != nil {
		return nil, err
	}
	return join(`{"jsonrpc":"2.0"`+id+`,"method":`, name, `,"params":`, body), nil
}

func join(a string, b []byte, c string, d []byte) []byte {
	f := make([]byte, 0, len(a)+len(b)+len(c)+len(d)+1)
	f = append(f, a...)
	f = append(f, b...)
	f = append(f, c...)
	f = append(f, d...)
	return append(f, '}')
}

// marshal encodes without the escapes for HTML. A json.RawMessage is taken as
// it is: it must be valid.
func marshal(v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return []byte("null"), nil
	case json.RawMessage:
		if len(v) == 0 {
			return []byte("null"), nil
		}
		return v, nil
	}
	b, err := jsonx.Encode(v)
	if err != nil {
		return nil, fmt.Errorf("jsonrpc: encode: %w", err)
	}
	return b, nil
}
