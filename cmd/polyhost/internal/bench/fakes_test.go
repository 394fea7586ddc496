//go:build linux

package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A stand-in is this binary under the name of an agent's program. It speaks as
// much of the program's wire as one turn of text needs, in lines of the shape
// and size of the real one's; the text is the clock's, on the same prompts.

// acpName is the name of the stand-in that speaks the Agent Client Protocol.
const acpName = "bench-acp"

// standIns are the agents, by the name of the backend and of the program.
var standIns = map[string]func(*standIn){"claude": (*standIn).claude, "codex": (*standIn).codex, acpName: (*standIn).acp, "pi": (*standIn).pi}

// versions is what the programs say of themselves.
var versions = map[string]string{"claude": "2.1.332 (Claude Code)", "codex": "codex-cli 0.171.0", "pi": "0.73.1"}

// putStandIns makes a folder with the programs and puts it before all others
// on the PATH, for this process and those it starts.
func putStandIns(b testing.TB) (dir string) {
	b.Helper()
	dir = b.TempDir()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	for name := range standIns {
		if err := os.Symlink(self, filepath.Join(dir, name)); err != nil {
			b.Fatal(err)
		}
	}
	b.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return dir
}

// speak is a stand-in's main. It ends with its input.
func speak(name string) {
	if len(os.Args) > 1 && os.Args[1] == "--version" {
		fmt.Println(versions[name])
		return
	}
	s := &standIn{in: bufio.NewReaderSize(os.Stdin, 1<<20)}
	if script := os.Getenv(pipeVar); script != "" {
		s.in = bufio.NewReader(strings.NewReader(""))
		_ = tick(context.Background(), script, s.deltas(name))
		return
	}
	standIns[name](s)
}

type standIn struct {
	in *bufio.Reader
	so string // what was said, for pi
}

type line struct {
	ID        json.RawMessage `json:"id"`
	Type      string          `json:"type"`
	Method    string          `json:"method"`
	RequestID string          `json:"request_id"`
	UUID      string          `json:"uuid"`
	Prompt    string          `json:"message"` // pi's
	Message   struct {
		Content []struct{ Text string } `json:"content"`
	} `json:"-"`
	Params struct {
		Input  []struct{ Text string } `json:"input"`
		Prompt []struct{ Text string } `json:"prompt"`
	} `json:"params"`
}

// next reads a line; ok is false at the end.
func (s *standIn) next() (l line, ok bool) {
	raw, err := s.in.ReadBytes('\n')
	if err != nil {
		return l, false
	}
	_ = json.Unmarshal(raw, &l) // Claude Code's message is no string, and is read next
	var user struct{ Message json.RawMessage }
	if json.Unmarshal(raw, &user) == nil && len(user.Message) > 0 && user.Message[0] == '{' {
		_ = json.Unmarshal(user.Message, &l.Message)
	}
	return l, true
}

func say(format string, a ...any) error {
	_, err := os.Stdout.WriteString(fmt.Sprintf(format, a...) + "\n")
	return err
}

// deltas writes a moment as the program's piece of text.
func (s *standIn) deltas(name string) func(string) error {
	switch name {
	case "claude":
		return func(now string) error {
			return say(`{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%s"}},"session_id":"3607788a-6fd2-44cc-bbab-bedf03fecf08","parent_tool_use_id":null,"uuid":"9370daa8-8b9b-4cb7-b3d7-33f8ba92542f"}`, now)
		}
	case "codex":
		return func(now string) error {
			return say(`{"method":"item/agentMessage/delta","params":{"threadId":"thread-1","turnId":"turn-1","itemId":"msg-1","delta":"%s"},"emittedAtMs":1796002046246}`, now)
		}
	case acpName:
		return func(now string) error {
			return say(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"session-1","update":{"sessionUpdate":"agent_message_chunk","messageId":"msg-1","content":{"type":"text","text":"%s"}}}}`, now)
		}
	}
	return func(now string) error { // pi repeats the whole message with every piece
		s.so += now
		return say(`{"type":"message_update","assistantMessageEvent":{"type":"text_delta","contentIndex":0,"delta":"%s","partial":{"role":"assistant","content":[{"type":"text","text":"%s"}]}},"message":{"role":"assistant","content":[{"type":"text","text":"%s"}]}}`, now, s.so, s.so)
	}
}

func (s *standIn) claude() {
	for l, ok := s.next(); ok; l, ok = s.next() {
		switch l.Type {
		case "control_request":
			_ = say(`{"type":"control_response","response":{"subtype":"success","request_id":"%s","response":{}}}`, l.RequestID)
		case "user":
			const id = `"session_id":"3607788a-6fd2-44cc-bbab-bedf03fecf08"`
			_ = say(`{"type":"command_lifecycle","command_uuid":"%s","state":"started",%s}`, l.UUID, id)
			_ = say(`{"type":"system","subtype":"init","model":"m",%s}`, id)
			_ = say(`{"type":"stream_event","event":{"type":"message_start","message":{"id":"m-%s"}},%s}`, l.UUID, id)
			_ = say(`{"type":"stream_event","event":{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}},%s}`, id)
			text := ""
			for _, b := range l.Message.Content {
				text += b.Text
			}
			_ = tick(context.Background(), text, s.deltas("claude"))
			_ = say(`{"type":"stream_event","event":{"type":"content_block_stop","index":0},%s}`, id)
			_ = say(`{"type":"result","subtype":"success","is_error":false,"result":"",%s}`, id)
		}
	}
}

func (s *standIn) codex() {
	for l, ok := s.next(); ok; l, ok = s.next() {
		if len(l.ID) == 0 {
			continue
		}
		answer := func(result string) { _ = say(`{"id":%s,"result":%s}`, l.ID, result) }
		switch l.Method {
		case "thread/start", "thread/resume":
			answer(`{"thread":{"id":"thread-1"},"model":"m"}`)
		case "turn/start":
			answer(`{"turn":{"id":"turn-1","status":"inProgress"}}`)
			_ = say(`{"method":"turn/started","params":{"threadId":"thread-1","turn":{"id":"turn-1","status":"inProgress"}}}`)
			_ = say(`{"method":"item/started","params":{"threadId":"thread-1","turnId":"turn-1","item":{"type":"agentMessage","id":"msg-1","text":""}}}`)
			_ = tick(context.Background(), l.Params.Input[0].Text, s.deltas("codex"))
			_ = say(`{"method":"item/completed","params":{"threadId":"thread-1","turnId":"turn-1","item":{"type":"agentMessage","id":"msg-1","text":""}}}`)
			_ = say(`{"method":"turn/completed","params":{"threadId":"thread-1","turn":{"id":"turn-1","status":"completed"}}}`)
		default:
			answer(`{}`)
		}
	}
}

func (s *standIn) acp() {
	for l, ok := s.next(); ok; l, ok = s.next() {
		answer := func(result string) { _ = say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, l.ID, result) }
		switch l.Method {
		case "initialize":
			answer(`{"protocolVersion":1,"agentInfo":{"name":"bench","version":"1.0.0"}}`)
		case "session/new":
			answer(`{"sessionId":"session-1"}`)
		case "session/prompt":
			_ = tick(context.Background(), l.Params.Prompt[0].Text, s.deltas(acpName))
			answer(`{"stopReason":"end_turn"}`)
		}
	}
}

func (s *standIn) pi() {
	for l, ok := s.next(); ok; l, ok = s.next() {
		_ = say(`{"type":"response","id":%s,"command":"%s","success":true,"data":{"sessionId":"session-1","model":{"id":"m","provider":"p"},"models":[{"id":"m","provider":"p"}],"commands":[]}}`, l.ID, l.Type)
		if l.Type != "prompt" || strings.HasPrefix(l.Prompt, "/") {
			continue
		}
		_ = say(`{"type":"agent_start"}`)
		_ = say(`{"type":"turn_start"}`)
		_ = say(`{"type":"message_start","message":{"role":"assistant","content":[]}}`)
		_ = say(`{"type":"message_update","assistantMessageEvent":{"type":"text_start","contentIndex":0},"message":{"role":"assistant","content":[]}}`)
		s.so = ""
		_ = tick(context.Background(), l.Prompt, s.deltas("pi"))
		_ = say(`{"type":"message_update","assistantMessageEvent":{"type":"text_end","contentIndex":0},"message":{"role":"assistant","content":[]}}`)
		_ = say(`{"type":"message_end","message":{"role":"assistant","content":[],"stopReason":"stop"}}`)
		_ = say(`{"type":"turn_end"}`)
		_ = say(`{"type":"agent_end","messages":[]}`)
	}
}
