package snowpea

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"
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
		b = appendString(b, hostToolsFrom)
	}
	b = append(b, ',')
	b = append(b, eventStart...)
	b = appendString(b, session)
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
	b = appendString(b, text)
	return appendEnd(append(b, '}'), at)
}

// encodeReasoning makes the frame of a message.reasoning.
func encodeReasoning(head []byte, seq uint64, text string, chars int, at time.Time) []byte {
	b := make([]byte, 0, len(head)+len(text)+len(text)/8+frameRoom)
	b = appendKind(append(b, head...), seq, "message.reasoning")
	b = append(b, `{"text":`...)
	b = appendString(b, text)
	b = append(b, `,"chars":`...)
	b = strconv.AppendInt(b, int64(chars), 10)
	return appendEnd(append(b, '}'), at)
}

// encodeProgress makes the frame of a tool.progress.
func encodeProgress(head []byte, seq uint64, t *toolFold, stream, chunk string, truncated bool, at time.Time) []byte {
	b := make([]byte, 0, len(head)+len(chunk)+len(chunk)/8+len(t.Call)+len(t.Name)+2*frameRoom)
	b = appendKind(append(b, head...), seq, "tool.progress")
	b = appendString(append(b, `{"callId":`...), t.Call)
	b = appendString(append(b, `,"name":`...), t.Name)
	b = strconv.AppendInt(append(b, `,"seq":`...), int64(t.Chunks), 10)
	b = appendString(append(b, `,"stream":`...), stream)
	b = appendString(append(b, `,"chunk":`...), chunk)
	b = strconv.AppendBool(append(b, `,"truncated":`...), truncated)
	return appendEnd(append(b, '}'), at)
}

// listed is a frame's event as session.resume gives it.
func listed(f []byte) []byte {
	// The first occurrence is the key: inside a string the quotes are escaped.
	return f[bytes.Index(f, eventStart) : len(f)-2]
}

const hexDigits = "0123456789abcdef"

// appendString appends a JSON string. What is not UTF-8 becomes U+FFFD.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' {
				i++
				continue
			}
			b = append(b, s[start:i]...)
			switch c {
			case '"', '\\':
				b = append(b, '\\', c)
			case '\n':
				b = append(b, '\\', 'n')
			case '\t':
				b = append(b, '\\', 't')
			case '\r':
				b = append(b, '\\', 'r')
			default:
				b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			}
			i++
			start = i
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			b = append(append(b, s[start:i]...), "\ufffd"...)
			start = i + 1
		}
		i += n
	}
	return append(append(b, s[start:]...), '"')
}

// stamp writes a moment as lists show it.
func stamp(t time.Time) string { return t.UTC().Format(timeLayout) }
