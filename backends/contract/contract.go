// Package contract is what every agent backend promises, as a test suite. It
// runs against a backend in process and across the plugin boundary alike, and
// asserts only what the core, and through it a user, can notice.
package contract

import (
	"context"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// patience is how long a conversation may take on a busy machine.
const patience = 2 * time.Minute

// busy is what a promised time may grow by on a busy machine. Whoever does not
// keep the promise at all takes forever.
const busy = 6

// Config has the prompts that make the agent do what is tested. What is left
// empty the agent is not able to do, and is not tested.
type Config struct {
	// Text makes the agent answer with TextWant.
	Text, TextWant string
	// Long makes it stream text for minutes.
	Long string
	// Big makes it stream BigBytes bytes of text and end.
	Big      string
	BigBytes int
	// Slow makes it wait for about a quarter of a second, for steering
	// messages to come in meanwhile.
	Slow string
	// Fail makes the turn fail with FailWant in the error.
	Fail, FailWant string
	// Ask makes it ask a question with the options "red" and "blue", and
	// then print the answer.
	Ask string
	// Exec makes it run a shell command after asking for permission.
	Exec func(command string) string
	// FixedInput: a call runs as it is or not at all, so an allowing answer
	// with another input is a refusal.
	FixedInput bool
	// ClientTool makes it call a client's tool and print the result.
	ClientTool func(tool, input string) string
	// Servers makes it have a ready MCP server of a name.
	Servers func(name string) string
	// Forks: Open.Fork begins a new conversation with the history of another.
	Forks bool
	// ForksAt: Open.ForkAt has it begin at the end of an earlier turn.
	ForksAt bool
	// Past opens a backend whose agent keeps conversations of dir: at least
	// three, the newest with at least three turns.
	Past func(t *testing.T) (b agent.Backend, dir string)
	// Missing opens a backend whose agent is not installed.
	Missing func(t *testing.T) agent.Backend
}

// Scripted is for agents that take the demo agent's lines.
var Scripted = Config{
	Text: "say hello out there", TextWant: "hello out there",
	Long: "stream 10000000 64 1",
	Big:  "stream 20000 1000", BigBytes: 20_000_000,
	Slow: "sleep 250",
	Fail: "fail the disk is full", FailWant: "the disk is full",
	Ask:        "ask Which colour? | red | blue",
	Exec:       func(command string) string { return "run " + command },
	ClientTool: func(tool, input string) string { return "call " + tool + " " + input },
	Servers:    func(name string) string { return "server " + name + " ready" },
	Forks:      true,
	ForksAt:    true,
}

// Run tests the backends that open returns; each is closed by the suite.
func Run(t *testing.T, open func(t *testing.T) agent.Backend, c Config) {
	s := suite{open: open, c: c}
	tests := []struct {
		name string
		able bool
		run  func(*testing.T)
	}{
		{"says what it is", true, s.info},
		{"a turn has text and one end", c.Text != "", s.text},
		{"turns follow one another", c.Text != "", s.turns},
		{"two conversations at once", c.Text != "" && c.Long != "", s.two},
		{"a conversation resumes", c.Text != "", s.resume},
		{"big output comes whole", c.Big != "", s.big},
		{"a failed turn says why", c.Fail != "", s.fail},
		{"a failed turn is resumed", c.Fail != "" && c.Text != "", s.resumed},
		{"interrupt in a stream", c.Long != "", s.interruptStream},
		{"interrupt while idle", c.Text != "", s.interruptIdle},
		{"a question is answered", c.Ask != "", s.ask},
		{"a question is declined", c.Ask != "", s.declined},
		{"a tool runs once allowed", c.Exec != nil, s.allowed},
		{"a denied tool does not run", c.Exec != nil, s.denied},
		{"a tool runs with changed input", c.Exec != nil, s.changed},
		{"a script precedes commands", c.Exec != nil, s.shellInit},
		{"a failing tool reports its exit code", c.Exec != nil, s.exit},
		{"interrupt kills a running tool", c.Exec != nil, s.interruptTool},
		{"an interrupt voids an open permission", c.Exec != nil, s.interruptPermission},
		{"close kills the tree", c.Exec != nil, s.closeTool},
		{"close ends the stream of frames", true, s.closed},
		{"a message steers the turn", c.Slow != "" && c.Text != "", s.steer},
		{"a message too late comes back", c.Slow != "" && c.Text != "", s.unsteered},
		{"a client's tool is called", c.ClientTool != nil, s.clientTool},
		{"an unknown tool fails in words", c.ClientTool != nil, s.unknownTool},
		{"an MCP server is switched", c.Servers != nil, s.servers},
		{"a fork leaves the conversation as it is", c.Forks && c.Text != "", s.fork},
		{"a fork begins at an earlier turn", c.ForksAt && c.Text != "", s.forkAt},
		{"a fork begins at a turn that was cancelled", c.ForksAt && c.Text != "" && c.Long != "", s.forkCancelled},
		{"past conversations are listed, the newest first", c.Past != nil, s.listed},
		{"a past conversation is read page by page", c.Past != nil, s.history},
		{"an agent that is not there is a problem with a remedy", c.Missing != nil, s.missing},
	}
	for _, test := range tests {
		if test.able {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				test.run(t)
			})
		}
	}
}

type suite struct {
	open func(*testing.T) agent.Backend
	c    Config
}

// talk is one conversation under test.
type talk struct {
	agent.Conversation
	t       *testing.T
	dir     string
	ctx     context.Context
	pending []agent.Frame // received, not looked at
}

func (s suite) backend(t *testing.T) agent.Backend {
	b := s.open(t)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close the backend: %v", err)
		}
	})
	return b
}

func (s suite) begin(t *testing.T) *talk { return begin(t, s.backend(t), agent.Open{}) }

func begin(t *testing.T, b agent.Backend, o agent.Open) *talk {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	if o.Dirs == nil {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		o.Dirs = []string{dir}
	}
	o.Session, o.Chat = "session-of-"+t.Name(), "chat"
	c, err := b.Open(ctx, o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return &talk{Conversation: c, t: t, dir: o.Dirs[0], ctx: ctx}
}

func (k *talk) prompt(turn, text string, tools ...event.ClientTool) {
	k.t.Helper()
	if err := k.Prompt(k.ctx, agent.Prompt{Turn: turn, Message: "m-" + turn, Text: text, Tools: tools}); err != nil {
		k.t.Fatalf("prompt: %v", err)
	}
}

func (k *talk) next() agent.Frame {
	k.t.Helper()
	for len(k.pending) == 0 {
		frames, err := k.Recv(k.ctx)
		if err != nil {
			k.t.Fatalf("receive: %v", err)
		}
		if len(frames) == 0 {
			k.t.Fatal("Recv returned nothing and no error")
		}
		k.pending = append(k.pending, frames...)
	}
	f := k.pending[0]
	k.pending = k.pending[1:]
	return f
}

// until reads on to the next frame of a kind and returns all up to it.
func (k *talk) until(kind agent.FrameKind) []agent.Frame {
	k.t.Helper()
	var seen []agent.Frame
	for {
		f := k.next()
		seen = append(seen, f)
		if f.Kind == kind {
			return seen
		}
		if f.Kind == agent.TurnEnd {
			k.t.Fatalf("the turn ended (%s, %v) without a %s frame", f.Status, f.Error, kind)
		}
	}
}

func (k *talk) answer(request string, r event.Resolution) {
	k.t.Helper()
	if err := k.Answer(k.ctx, agent.Answer{Request: request, Resolution: r}); err != nil {
		k.t.Fatalf("answer: %v", err)
	}
}

// ended checks the last frame of a turn.
func (k *talk) ended(frames []agent.Frame, turn string, status event.TurnStatus) agent.Frame {
	k.t.Helper()
	end := frames[len(frames)-1]
	if end.Kind != agent.TurnEnd || end.Turn != turn || end.Status != status {
		k.t.Fatalf("the turn ended with %s of %q, status %q, %v; want %q", end.Kind, end.Turn, end.Status, end.Error, status)
	}
	return end
}

// closesEventually reads to the end of the conversation.
func (k *talk) closesEventually() {
	k.t.Helper()
	for {
		if _, err := k.Recv(k.ctx); err == io.EOF {
			return
		} else if err != nil {
			k.t.Fatalf("after close: %v", err)
		}
	}
}

// spoken joins the agent's text.
func spoken(frames []agent.Frame) string {
	var b strings.Builder
	for _, f := range frames {
		if f.Kind == agent.TextDelta && f.Child == "" {
			b.WriteString(f.Text)
		}
	}
	return b.String()
}

// output is what a call gave: its result, or else what it streamed.
func output(frames []agent.Frame) string {
	var b strings.Builder
	for _, f := range frames {
		switch {
		case f.Kind == agent.ToolOutput:
			b.WriteString(f.Text)
		case f.Kind == agent.ToolEnd && f.Result.Output != "":
			return f.Result.Output
		}
	}
	return b.String()
}

// within checks a promised time.
func (k *talk) within(began time.Time, promise time.Duration, what string) {
	k.t.Helper()
	if d := time.Since(began); d > busy*promise {
		k.t.Errorf("%s took %v; %v is promised", what, d, promise)
	}
}

func last(frames []agent.Frame) agent.Frame { return frames[len(frames)-1] }

func raw(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
