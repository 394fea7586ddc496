package cognitio

import (
	"encoding/json"
	"testing"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/transports/jsonx"
)

// Bodies are the one thing clients write; what decodes must encode again, and
// what does not must have a public error.
func FuzzPromptBody(f *testing.F) {
	for _, s := range []string{`{"parts":[{"type":"text","text":"hi"}]}`, `{"messageID":"msg_1","parts":[{"type":"file","mime":"image/png","url":"data:image/png;base64,QUJD"}]}`,
		`{"parts":[{"type":"file","mime":"text/plain","url":"file:///w/a"}]}`, `{"parts":null}`, `[]`, `{"parts":[{"type":"agent","name":"x","source":{"value":1}}]}`, "{\"parts\":\"\xff\"}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var body promptBody
		if err := decode(raw, &body); err != nil {
			if e := answerFor(err, nil, "fuzz"); e.status < 400 || e.status >= 500 {
				t.Fatalf("%q: %d", raw, e.status)
			}
			return
		}
		for i := range body.Parts {
			if body.Parts[i].Type == "file" {
				attachment(&body.Parts[i], []string{"/w"})
			}
		}
		kept, err := jsonx.Encode(sentParts{body.Parts})
		if err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
		v := view{session: "ses_1"}
		m := &event.Message{ID: id.New(), By: event.Actor{Front: Name}, Rich: kept}
		if _, err := jsonx.Encode(v.userWithParts(m, false)); err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
	})
}

func FuzzCursor(f *testing.F) {
	f.Add(cursor{"msg_1", 5}.String())
	f.Add("e30")
	f.Add("%%%")
	f.Fuzz(func(t *testing.T, s string) {
		k, err := parseCursor(s)
		if err != nil {
			return
		}
		if again, err := parseCursor(k.String()); err != nil || again != k {
			t.Fatalf("%q: %v, %v", s, again, err)
		}
	})
}

func FuzzToolInput(f *testing.F) {
	f.Add("write", `{"path":"a","text":"b"}`)
	f.Add("bash", `"ls"`)
	f.Add("task", `null`)
	f.Fuzz(func(t *testing.T, name, input string) {
		if !json.Valid([]byte(input)) {
			return // the core keeps JSON only
		}
		out := inputOf(&event.Tool{Name: name, Input: json.RawMessage(input)})
		var o map[string]any
		if err := json.Unmarshal(out, &o); err != nil {
			t.Fatalf("%q became %q", input, out)
		}
	})
}

func FuzzRules(f *testing.F) {
	f.Add("ls *", "ls -la")
	f.Add("**?*", "abc")
	f.Fuzz(func(t *testing.T, pattern, s string) {
		if wildcard(pattern, s) && !wildcard("*", s) {
			t.Fatal("what a pattern matches, everything matches")
		}
	})
}
