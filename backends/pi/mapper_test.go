package pi

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/core/agent"
)

// call7 is a call of bash as pi tells it.
const call7 = `
{"type":"message_start","message":{"role":"assistant","content":[],"provider":"p","model":"m"}}
{"type":"message_update","assistantMessageEvent":{"type":"toolcall_start","contentIndex":0,"partial":{"content":[{"type":"toolCall","id":"c7","name":"bash","arguments":{}}]}},"message":{"role":"assistant"}}
{"type":"message_update","assistantMessageEvent":{"type":"toolcall_delta","contentIndex":0,"delta":"{\"command\":"},"message":{"role":"assistant"}}
{"type":"message_update","assistantMessageEvent":{"type":"toolcall_delta","contentIndex":0,"delta":"\"ls\"}"},"message":{"role":"assistant"}}
{"type":"message_update","assistantMessageEvent":{"type":"toolcall_end","contentIndex":0,"toolCall":{"type":"toolCall","id":"c7","name":"bash","arguments":{"command":"ls"}}},"message":{"role":"assistant"}}
{"type":"message_end","message":{"role":"assistant","content":[],"provider":"p","model":"m","stopReason":"toolUse","usage":{"input":1,"output":2,"cacheRead":3,"cacheWrite":4,"cost":{"total":0.5}}}}
{"type":"tool_execution_start","toolCallId":"c7","toolName":"bash","args":{"command":"ls"}}
{"type":"tool_execution_update","toolCallId":"c7","toolName":"bash","partialResult":{"content":[]}}
{"type":"tool_execution_update","toolCallId":"c7","toolName":"bash","partialResult":{"content":[{"type":"text","text":"a\n"}]}}
{"type":"tool_execution_update","toolCallId":"c7","toolName":"bash","partialResult":{"content":[{"type":"text","text":"a\nb\n"}]}}
{"type":"tool_execution_end","toolCallId":"c7","toolName":"bash","result":{"content":[{"type":"text","text":"a\nb\n\n\nCommand exited with code 2"}]},"isError":true}
`

const call7Frames = `
tool_start c7 bash exec
tool_input c7 {"command":
tool_input c7 "ls"}
usage 1 2 3 4 0.5 p/m
context 10
tool_output c7 "a\n"
tool_output c7 "b\n"
tool_end c7 exit 2 output "" failed
`

func feed(t *testing.T, m *mapper, wire string) (out []string) {
	t.Helper()
	for line := range strings.Lines(strings.TrimSpace(wire)) {
		r, err := decode([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range m.frames(r) {
			out = append(out, spelled(&f))
		}
	}
	return out
}

func spelled(f *agent.Frame) string {
	switch f.Kind {
	case agent.ToolStart:
		return fmt.Sprintf("%s %s %s %s", f.Kind, f.Call, f.Tool.Name, f.Tool.Tag)
	case agent.ToolInput:
		return fmt.Sprintf("%s %s %s", f.Kind, f.Call, f.Text)
	case agent.ToolOutput:
		return fmt.Sprintf("%s %s %q", f.Kind, f.Call, f.Text)
	case agent.Usage:
		u := f.Usage
		return fmt.Sprintf("%s %d %d %d %d %g %s", f.Kind, u.Input, u.Output, u.CacheRead, u.CacheWrite, u.CostUSD, u.Model)
	case agent.Context:
		return fmt.Sprintf("%s %d", f.Kind, f.Context.Used)
	case agent.ToolEnd:
		s := fmt.Sprintf("%s %s", f.Kind, f.Call)
		if f.Result.ExitCode != nil {
			s += fmt.Sprintf(" exit %d", *f.Result.ExitCode)
		}
		s += fmt.Sprintf(" output %q", f.Result.Output)
		if f.Result.Failed {
			s += " failed"
		}
		return s
	}
	b, _ := json.Marshal(f)
	return string(b)
}

func TestACallAsPiTellsIt(t *testing.T) {
	t.Parallel()
	got := strings.Join(feed(t, newMapper([]string{t.TempDir()}, "k"), call7), "\n")
	if want := strings.TrimSpace(call7Frames); got != want {
		t.Errorf("frames\n%s\nwant\n%s", got, want)
	}
}

func FuzzRecords(f *testing.F) {
	for line := range strings.Lines(strings.TrimSpace(call7)) {
		f.Add(line)
	}
	f.Add(`{"type":"tool_execution_end","toolCallId":"x","result":"y"}`)
	f.Add(`{"type":"message_update","assistantMessageEvent":{"type":"toolcall_start","contentIndex":-1,"partial":{"content":[]}}}`)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, line string) {
		r, err := decode([]byte(line))
		if err != nil {
			return
		}
		m := newMapper([]string{dir}, "k")
		for range 2 {
			m.frames(r)
		}
		m.permission("r", &dialog{Call: r.ToolCallID, Tool: r.ToolName, Input: r.Args})
		m.frames(r)
	})
}

// BenchmarkRecords is the cost of a delta of a long message, which pi repeats
// with every delta.
func BenchmarkRecords(b *testing.B) {
	so := strings.Repeat("word ", 200)
	line := []byte(`{"type":"message_update","assistantMessageEvent":{"type":"text_delta","contentIndex":0,"delta":"word ","partial":{"role":"assistant","content":[{"type":"text","text":"` +
		so + `"}]}},"message":{"role":"assistant","content":[{"type":"text","text":"` + so + `"}]}}`)
	m := newMapper([]string{b.TempDir()}, "k")
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		r, err := decode(line)
		if err != nil || len(m.frames(r)) != 1 {
			b.Fatal(err)
		}
	}
}
