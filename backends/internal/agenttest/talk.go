package agenttest

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

const (
	// patience is how long a talk may take on a busy machine; a real CLI
	// that tries a failed model call again needs most of it.
	patience = 2 * time.Minute
	// pollEvery is the wait between two looks at the file by which a command
	// shows that it runs.
	pollEvery = 20 * time.Millisecond
)

// Talk is a conversation in a test. What goes wrong fails the test.
type Talk struct {
	agent.Conversation
	T   *testing.T
	Ctx context.Context
	// Dir is the working directory.
	Dir string
	// Settings go with each prompt.
	Settings event.Settings
	// All are the frames that were looked at.
	All []agent.Frame

	backend agent.Backend
	pending []agent.Frame
	live    bool // with the real program
}

// Begin opens a conversation, in a new directory unless o names one. The
// caller closes the backend.
func Begin(t *testing.T, b agent.Backend, o agent.Open) *Talk {
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
	c, err := b.Open(ctx, o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return &Talk{Conversation: c, T: t, Ctx: ctx, Dir: o.Dirs[0], backend: b}
}

// Resume closes the conversation and goes on with it in a new process.
func (k *Talk) Resume() {
	k.T.Helper()
	ids := Pick(k.All, agent.ConversationID)
	if len(ids) == 0 {
		k.T.Fatal("the conversation has no id")
	}
	if err := k.Close(); err != nil {
		k.T.Fatalf("close: %v", err)
	}
	c, err := k.backend.Open(k.Ctx, agent.Open{Dirs: []string{k.Dir}, Resume: ids[len(ids)-1].Text})
	if err != nil {
		k.T.Fatalf("resume: %v", err)
	}
	k.Conversation, k.pending = c, nil
}

// Say begins a turn.
func (k *Talk) Say(turn, text string, attachments ...event.Attachment) {
	k.T.Helper()
	if err := k.Prompt(k.Ctx, agent.Prompt{Turn: turn, Message: "m-" + turn, Text: text, Attachments: attachments, Settings: k.Settings}); err != nil {
		k.T.Fatalf("prompt: %v", err)
	}
}

// Until returns the frames up to one of that kind; the turn may not end before.
func (k *Talk) Until(kind agent.FrameKind) []agent.Frame {
	k.T.Helper()
	first := len(k.All)
	for {
		f := k.next()
		if f.Kind == kind {
			return k.All[first:]
		}
		if f.Kind == agent.TurnEnd {
			k.T.Fatalf("the turn ended (%s, %+v) without a %s frame", f.Status, f.Error, kind)
		}
	}
}

func (k *Talk) next() agent.Frame {
	k.T.Helper()
	for len(k.pending) == 0 {
		frames, err := k.Recv(k.Ctx)
		if err != nil {
			k.T.Fatalf("receive: %v after\n%s", err, Spell(k.All))
		}
		k.pending = slices.Clone(frames)
	}
	f := k.pending[0]
	k.pending = k.pending[1:]
	k.All = append(k.All, f)
	return f
}

// Settle says how a request is answered.
type Settle func(agent.Frame) event.Resolution

// Allow allows what is asked.
func Allow(agent.Frame) event.Resolution { return event.Resolution{Outcome: event.Allowed} }

// Deny refuses it with a reason.
func Deny(reason string) Settle {
	return func(agent.Frame) event.Resolution {
		return event.Resolution{Outcome: event.Denied, Reason: reason}
	}
}

// End returns the frames up to the end of the turn; requests are settled.
func (k *Talk) End(settle Settle) []agent.Frame {
	k.T.Helper()
	first := len(k.All)
	for {
		f := k.next()
		if f.Request != "" && f.Kind != agent.Withdrawn && settle != nil {
			k.Settle(f, settle)
		}
		if f.Kind == agent.TurnEnd {
			return k.All[first:]
		}
	}
}

// Settle answers one request.
func (k *Talk) Settle(f agent.Frame, settle Settle) {
	k.T.Helper()
	if err := k.Answer(k.Ctx, agent.Answer{Request: f.Request, Resolution: settle(f)}); err != nil {
		k.T.Errorf("answer: %v", err)
	}
}

// Play runs a prompt to the end of its turn.
func (k *Talk) Play(turn, text string, settle Settle, attachments ...event.Attachment) []agent.Frame {
	k.T.Helper()
	k.Say(turn, text, attachments...)
	return k.End(settle)
}

// runs waits until a real command has made a file; on a tape nothing runs.
func (k *Talk) runs(file string) {
	for k.live && k.Ctx.Err() == nil {
		if _, err := os.Stat(filepath.Join(k.Dir, file)); err == nil {
			return
		}
		time.Sleep(pollEvery)
	}
}

// Pick returns the frames of a kind.
func Pick(frames []agent.Frame, kind agent.FrameKind) (some []agent.Frame) {
	for _, f := range frames {
		if f.Kind == kind {
			some = append(some, f)
		}
	}
	return some
}

// Said is the agent's text.
func Said(frames []agent.Frame) (s string) {
	for _, f := range Pick(frames, agent.TextDelta) {
		s += f.Text
	}
	return s
}
