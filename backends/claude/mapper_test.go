package claude

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/backends/internal/agenttest"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// TestWhatTheCLISaysBecomesFrames feeds testdata/*.in to the mapper. A line is
// a record, or one of ours: "prompt UUID", "steer UUID MESSAGE", "interrupt",
// "allow ID", "deny ID REASON", "answer ID QUESTION LABEL", "died HOW". The
// .golden file has the frames, and after > what goes back.
func TestWhatTheCLISaysBecomesFrames(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.in")
	if err != nil || len(files) == 0 {
		t.Fatal("no test data", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".in"), func(t *testing.T) {
			t.Parallel()
			in, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := replayed(t, string(in))
			golden := strings.TrimSuffix(file, ".in") + ".golden"
			if *agenttest.Update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil || got != string(want) {
				t.Errorf("%v; got\n%s", err, got)
			}
		})
	}
}

func replayed(t *testing.T, in string) string {
	dir := t.TempDir()
	m := newMapper([]string{dir})
	var out strings.Builder
	for n, line := range strings.Split(strings.TrimSpace(in), "\n") {
		f := append(strings.SplitN(line, " ", 4), "", "", "")
		back := []byte(nil)
		switch f[0] {
		case "prompt":
			m.begin("turn", f[1])
		case "steer":
			m.sent[f[1]] = sent{message: f[2], steer: true}
		case "interrupt":
			m.interrupted = true
		case "allow":
			back = m.answer(agent.Answer{Request: f[1], Resolution: event.Resolution{Outcome: event.Allowed}})
		case "deny":
			back = m.answer(agent.Answer{Request: f[1], Resolution: event.Resolution{Outcome: event.Denied, Reason: f[2]}})
		case "answer":
			back = m.answer(agent.Answer{Request: f[1], Resolution: event.Resolution{Outcome: event.Answered, Answers: []event.Answer{{ID: f[2], Selected: []string{f[3]}}}}})
		case "died":
			m.died(f[1])
		default:
			if err := m.record([]byte(line)); err != nil {
				t.Fatalf("line %d: %v", n+1, err)
			}
		}
		frames, replies, _ := m.take()
		for _, r := range append(replies, back) {
			if r != nil {
				fmt.Fprintf(&out, "> %s\n", r)
			}
		}
		for _, f := range frames {
			b, err := json.Marshal(f)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, "%s\n", b)
		}
	}
	return strings.ReplaceAll(out.String(), dir, "/project")
}

// FuzzRecord: no line breaks the mapper, and a turn has one end.
func FuzzRecord(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.in")
	for _, file := range files {
		in, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(in))
	}
	f.Fuzz(func(t *testing.T, in string) {
		m := newMapper([]string{"/nowhere"})
		m.begin("turn", "u1")
		ends := 0
		for line := range strings.SplitSeq(in, "\n") {
			_ = m.record([]byte(line))
			frames, _, _ := m.take()
			for _, f := range frames {
				if f.Kind == agent.TurnEnd && f.Turn == "turn" {
					ends++
				}
				if f.Kind == agent.Permission {
					m.answer(agent.Answer{Request: f.Request, Resolution: event.Resolution{Outcome: event.Allowed}})
				}
			}
		}
		m.died("the test is over")
		frames, _, _ := m.take()
		for _, f := range frames {
			if f.Kind == agent.TurnEnd && f.Turn == "turn" {
				ends++
			}
		}
		if ends != 1 {
			t.Errorf("%d ends", ends)
		}
	})
}

// BenchmarkRecord maps the lines of a text that streams.
func BenchmarkRecord(b *testing.B) {
	line := []byte(`{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"alpha "}},"session_id":"3607788a-6fd2-44cc-bbab-bedf03fecf08","parent_tool_use_id":null,"uuid":"9370daa8-8b9b-4cb7-b3d7-33f8ba92542f","api_message_id":"msg_ab5210f9206246189e257473"}`)
	m := newMapper([]string{"/nowhere"})
	m.begin("turn", "u1")
	_ = m.record([]byte(`{"type":"stream_event","session_id":"3607788a-6fd2-44cc-bbab-bedf03fecf08","event":{"type":"message_start","message":{"id":"m1"}}}`))
	_ = m.record([]byte(`{"type":"stream_event","event":{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}}`))
	m.take()
	b.ReportAllocs()
	for b.Loop() {
		if err := m.record(line); err != nil {
			b.Fatal(err)
		}
		if frames, _, _ := m.take(); len(frames) != 1 {
			b.Fatal("no frame")
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}
