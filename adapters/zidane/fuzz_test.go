package zidane

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzMessages sends a message and then a ping: whatever it was, the server
// answers in JSON-RPC and the connection lives.
func FuzzMessages(f *testing.F) {
	g := newGateway(f)
	session := g.connect().newSession()
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"sessions.list","params":{}}`,
		`{"jsonrpc":"2.0","id":1,"method":"sessions.loadEvents","params":{"sessionId":"` + session + `","before":-9223372036854775808,"limit":1e3}}`,
		`{"jsonrpc":"2.0","id":"x","method":"sessions.resume","params":{"sessionId":"` + session + `","epoch":"","afterSeq":18446744073709551615}}`,
		`{"jsonrpc":"2.0","method":"drafts.set","params":{"sessionId":"` + session + `","text":"\ud800"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"queue.move","params":{"sessionId":"` + session + `","id":"","index":99999999999999999999}}`,
		`{"jsonrpc":"2.0","id":1,"method":"prefs.set","params":{"patch":{"a":{"b":{"c":null}},"":1}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"fs.list","params":{"path":"\u0000"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"interactions.answer","params":{"id":"","answers":[null,{"selected":null}]}}`,
		`{"jsonrpc":"2.0","id":1,"method":"presence.report","params":{"windows":[{"sessionId":null}]}}`,
		`{"jsonrpc":"2.0","id":1,"method":"ipc.hello","params":{"protocolVersion":99999999999999999999}}`,
		`{"id":{},"method":[],"params":7,"result":{}}`,
		`[[[[`, `null`, `"\uD83D"`, `{"a":1}{"b":2}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !utf8.Valid(data) || bytes.Contains(data, []byte("prompt")) || bytes.Contains(data, []byte("fuzz-end")) {
			return // closes the connection, starts an agent, or confuses the test
		}
		g.t = t
		c := g.connect()
		defer c.close()
		c.write(string(data))
		c.write(`{"jsonrpc":"2.0","id":"fuzz-end","method":"$/ping"}`)
		for {
			frame := c.read()
			var m struct {
				JSONRPC string          `json:"jsonrpc"`
				ID      json.RawMessage `json:"id"`
				Error   *struct {
					Message string `json:"message"`
				} `json:"error"`
			}
			if err := json.Unmarshal(frame, &m); err != nil || m.JSONRPC != "2.0" {
				t.Fatalf("%s: %v", frame, err)
			}
			if m.Error != nil && strings.Contains(m.Error.Message, "internal error") {
				t.Fatalf("%s answers %s", data, frame)
			}
			if string(m.ID) == `"fuzz-end"` {
				return
			}
		}
	})
}

func FuzzMediaRange(f *testing.F) {
	for _, seed := range []string{"", "bytes=0-", "bytes=-1", "bytes=1-2,3-4", "bytes=9223372036854775807-", "bytes=-9223372036854775808", "items=1-2"} {
		f.Add(seed, int64(1000))
	}
	f.Fuzz(func(t *testing.T, header string, size int64) {
		size = max(0, size)
		from, n, status := mediaRange(header, size)
		if (status == 200 || status == 206) && (from < 0 || n < 0 || n > maxMedia || from+n > size) {
			t.Fatalf("%q of %d: %d bytes from %d", header, size, n, from)
		}
		if !slices.Contains([]int{200, 206, 413, 416}, status) {
			t.Fatalf("%q of %d: %d", header, size, status)
		}
	})
}
