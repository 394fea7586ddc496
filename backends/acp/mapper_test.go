package acp

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// mapped feeds lines to the mapper of an agent, as the reader does, and
// returns its frames one a line.
func mapped(t testing.TB, a *Agent, dir string, lines []string) string {
	t.Helper()
	m := newMapper(a, []string{dir})
	m.servers = []string{clientServer, "docs"}
	m.begin()
	var out strings.Builder
	for _, line := range lines {
		feed(m, []byte(line))
		for _, f := range m.take() {
			b, err := json.Marshal(f)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, "%s\n", b)
		}
	}
	return out.String()
}

// feed maps a record; a permission request is mapped to its frame.
func feed(m *mapper, line []byte) {
	var msg message
	if decode(line, &msg) != nil {
		return
	}
	switch msg.Method {
	case "session/update":
		var n updateNotification
		if decode(msg.Params, &n) == nil {
			m.update(&n.Update)
		}
	case "session/request_permission":
		var p permissionRequest
		if decode(msg.Params, &p) == nil {
			if c, f := m.ask(&p.Call); f != nil {
				m.put(*f)
				c.ran = true
			}
		}
	default:
		if msg.Result != nil {
			var a promptAnswer
			if decode(msg.Result, &a) == nil {
				m.end(&a, nil)
			}
		}
	}
}

// Each testdata/NAME.FLAVOUR.jsonl has what an agent says in one turn, in the
// shape of the real one, and NAME.FLAVOUR.frames what the gateway is told.
func TestWhatAgentsSayBecomesFrames(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatal("no test data", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			a := flavours[strings.Split(filepath.Base(file), ".")[1]]
			got := mapped(t, &a, dir, strings.Split(strings.ReplaceAll(string(raw), "$DIR", dir), "\n"))
			got = strings.ReplaceAll(got, dir, "$DIR")
			golden := strings.TrimSuffix(file, "jsonl") + "frames"
			want, err := os.ReadFile(golden)
			if os.Getenv("UPDATE_GOLDEN") != "" {
				err = os.WriteFile(golden, []byte(got), 0o644)
				want = []byte(got)
			}
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestAnErrorThatCameAsTextIsToldOnce(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"Failed to authenticate. API Error: 401 no such key": "Failed to authenticate. API Error: 401 no such key (Authentication required)",
		"API Error: 400 too wide":                            "API Error: 400 too wide (Authentication required)",
	} {
		m := newMapper(&Claude, []string{t.TempDir()})
		m.begin()
		feed(m, []byte(`{"method":"session/update","params":{"update":{"sessionUpdate":"agent_message_chunk","messageId":"m1","content":{"type":"text","text":"`+said+`"}}}}`))
		failed := &event.Error{Code: event.CodeAuth, Message: "Authentication required"}
		m.end(nil, failed)
		if frames := m.take(); len(frames) > 0 || failed.Message != want {
			t.Errorf("%q became %q and %+v", said, failed.Message, frames)
		}
	}
}

func FuzzMapper(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.jsonl")
	for _, file := range files {
		if raw, err := os.ReadFile(file); err == nil {
			f.Add(raw)
		}
	}
	f.Add([]byte(`{"method":"session/update","params":{"update":{"sessionUpdate":"tool_call","toolCallId":7,"content":{},"_meta":"x"}}}`))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, raw []byte) {
		m := newMapper(&Claude, []string{dir})
		m.begin()
		open := map[string]bool{}
		for line := range strings.Lines(string(raw)) {
			feed(m, []byte(line))
			for _, fr := range m.take() {
				switch fr.Kind {
				case agent.ToolStart:
					open[fr.Call] = true
				case agent.Permission, agent.ToolRun, agent.ToolOutput, agent.ToolEnd:
					if !open[fr.Call] {
						t.Fatalf("%s of a call that had not begun", fr.Kind)
					}
				case agent.TextDelta, agent.ReasoningDelta:
					if fr.Part == "" || fr.Text == "" && fr.Kind == agent.ReasoningDelta {
						t.Fatalf("%+v", fr)
					}
				}
			}
		}
	})
}

func BenchmarkMapper(b *testing.B) {
	line := []byte(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"0192f0a2-8a7e-7cc3-a3f8-0123456789ab","update":{"sessionUpdate":"agent_message_chunk","messageId":"msg_0123456789","content":{"type":"text","text":"some words "}}}}`)
	m := newMapper(&OpenCode, []string{b.TempDir()})
	m.begin()
	b.ReportAllocs()
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		feed(m, line)
		m.take()
	}
}

func TestATitleNeverMakesACommandHarmless(t *testing.T) {
	t.Parallel()
	for name, a := range flavours {
		m := newMapper(&a, []string{t.TempDir()})
		m.begin()
		_, f := m.ask(&toolCall{ID: "call_1", Title: "todoread", ToolKind: "execute", Status: "pending"})
		if f == nil || f.Tool.Tag != event.TagExec {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
