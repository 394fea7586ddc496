package snowpea

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/polyhost/polyhost/transports/jsonx"
)

// An event is encoded once, as a whole session.event notification:
//
//	<head> "sessionId":…,"seq":…,"kind":…,"payload":{…},"ts":… }}
//
// The part from "sessionId" on, without the last brace, is the same event as
// session.resume lists it.

var (
	eventStart = []byte(`"sessionId":`)
	nullValue  = json.RawMessage("null")
)

// eventHead is what the frames of one session begin with.
func eventHead(session, hostToolsFrom string) []byte {
	b := []byte(`{"jsonrpc":"2.0","method":"session.event","params":{"hostToolsFrom":`)
	if hostToolsFrom == "" {
		b = append(b, "null"...)
	} else {
		b = jsonx.AppendString(b, hostToolsFrom)
	}
	b = append(b, ',')
	b = append(b, eventStart...)
	b = jsonx.AppendString(b, session)
	return append(b, `,"seq":`...)
}

// appendKind goes on after the head: number, kind and the name of the payload.
func appendKind(b []byte, seq uint64, kind string) []byte {
	b = strconv.AppendUint(b, seq, 10)
	b = append(b, `,"kind":"`...)
	b = append(b, kind...)
	return append(b, `","payload":`...)
}

func appendEnd(b []byte, at time.Time) []byte {
	b = append(b, `,"ts":"`...)
	b = at.UTC().AppendFormat(b, timeLayout)
	return append(b, `"}}`...)
}

// encodeEvent makes a frame from any payload.
func encodeEvent(head []byte, seq uint64, kind string, payload any, at time.Time) []byte {
	body, err := json.Marshal(payload)
	if err != nil {
		panic(fmt.Sprintf("snowpea: payload of %s: %v", kind, err)) // payloads are plain structs
	}
	b := make([]byte, 0, len(head)+len(body)+len(kind)+frameRoom)
	b = appendKind(append(b, head...), seq, kind)
	return appendEnd(append(b, body...), at)
}

// encodeText makes the frame of a message.delta, the hot one.
func encodeText(head []byte, seq uint64, text string, at time.Time) []byte {
	b := make([]byte, 0, len(head)+len(text)+len(text)/8+frameRoom)
	b = appendKind(append(b, head...), seq, "message.delta")
	b = append(b, `{"text":`...)
	b = jsonx.AppendString(b, text)
	return appendEnd(append(b, '}'), at)
}

// encodeReasoning makes the frame of a message.reasoning.
func encodeReasoning(head []byte, seq uint64, text string, chars int, at time.Time) []byte {
	b := make([]byte, 0, len(head)+len(text)+len(text)/8+frameRoom)
	b = appendKind(append(b, head...), seq, "message.reasoning")
	b = append(b, `{"text":`...)
	b = jsonx.AppendString(b, text)
	b = append(b, `,"chars":`...)
	b = strconv.AppendInt(b, int64(chars), 10)
	return appendEnd(append(b, '}'), at)
}

// encodeProgress makes the frame of a tool.progress.
func encodeProgress(head []byte, seq uint64, t *toolFold, stream, chunk string, truncated bool, at time.Time) []byte {
	b := make([]byte, 0, len(head)+len(chunk)+len(chunk)/8+len(t.Call)+len(t.Name)+2*frameRoom)
	b = appendKind(append(b, head...), seq, "tool.progress")
	b = jsonx.AppendString(append(b, `{"callId":`...), t.Call)
	b = jsonx.AppendString(append(b, `,"name":`...), t.Name)
	b = strconv.AppendInt(append(b, `,"seq":`...), int64(t.Chunks), 10)
	b = jsonx.AppendString(append(b, `,"stream":`...), stream)
	b = jsonx.AppendString(append(b, `,"chunk":`...), chunk)
	b = strconv.AppendBool(append(b, `,"truncated":`...), truncated)
	return appendEnd(append(b, '}'), at)
}

// listed is a frame's event as session.resume gives it.
func listed(f []byte) []byte {
	// The first occurrence is the key: inside a string the quotes are escaped.
	return f[bytes.Index(f, eventStart) : len(f)-2]
}

// stamp writes a moment as lists show it.
func stamp(t time.Time) string { return t.UTC().Format(timeLayout) }
