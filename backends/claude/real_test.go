//go:build e2e

package claude

import (
	"os"
	"testing"

	"github.com/polyhost/polyhost/backends/contract"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// real is the installed CLI, as POLYHOST_CLAUDE says, against the model server
// at ANTHROPIC_BASE_URL.
func real(t *testing.T) agent.Backend {
	return &Backend{Env: []string{"CLAUDE_CODE_MAX_RETRIES=1", "CLAUDE_CONFIG_DIR=" + os.Getenv("HOME") + "/.claude"}}
}

func TestRealContract(t *testing.T) {
	c := contract.Config{
		Text: "say 6 words", TextWant: "alpha bravo charlie",
		Long: "slow 4000 20",
		Slow: "slow 5 50",
		Fail: "fail 400", FailWant: "400",
		Ask:   `tool: AskUserQuestion {"questions":[{"question":"Which colour?","header":"Colour","options":[{"label":"red","description":"r"},{"label":"blue","description":"b"}],"multiSelect":false}]}`,
		Exec:  func(command string) string { return "run: touch .asked; " + command },
		Forks: true, ForksAt: true,
	}
	c.Past = c.Remember(real)
	contract.Run(t, real, c)
}

// TestRealTurns is what the contract does not ask for.
func TestRealTurns(t *testing.T) {
	d := talk(t, real(t).(*Backend), agent.Open{})
	turn := func(id, text string, s event.Settings, attachments ...event.Attachment) (frames []agent.Frame) {
		t.Helper()
		if err := d.Prompt(d.Ctx, agent.Prompt{Turn: id, Message: "m" + id, Text: text, Settings: s, Attachments: attachments}); err != nil {
			t.Fatal(err)
		}
		for {
			more, err := d.Recv(d.Ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range more {
				frames = append(frames, f)
				switch {
				case f.Kind == agent.Permission:
					_ = d.Answer(d.Ctx, agent.Answer{Request: f.Request, Resolution: event.Resolution{Outcome: event.Allowed}})
				case f.Kind == agent.Notice:
					t.Logf("%s: notice %+v", id, *f.Notice)
				case f.Kind == agent.TurnEnd:
					if f.Turn != id || f.Status != event.TurnComplete {
						t.Errorf("%s ended with %s %+v", id, f.Status, f.Error)
					}
					return frames
				}
			}
		}
	}
	count := func(frames []agent.Frame, kind agent.FrameKind) (n int) {
		for _, f := range frames {
			if f.Kind == kind {
				n++
			}
		}
		return n
	}
	frames := turn("t1", "write: hello.txt\nedit: hello.txt", event.Settings{Model: "haiku", Effort: "high"})
	edits := 0
	for _, f := range frames {
		if f.Kind == agent.Permission && len(f.Tool.Edits) == 1 && f.Tool.Edits[0].Patch != "" {
			edits++
		}
	}
	if edits != 2 || count(frames, agent.Usage) == 0 || count(frames, agent.Context) == 0 {
		t.Errorf("%d edits in %+v", edits, frames)
	}
	turn("t2", "say 2 words", event.Settings{Mode: event.ModePlan})
	if frames := turn("t3", "think", event.Settings{}); count(frames, agent.ReasoningDelta) == 0 {
		t.Errorf("no reasoning in %+v", frames)
	}
	frames = turn("t4", "agent: run: touch sub.txt", event.Settings{Mode: event.ModeAuto})
	if count(frames, agent.ChildStart) != 1 || count(frames, agent.ChildEnd) != 1 || count(frames, agent.Permission) != 1 {
		t.Errorf("subagent: %+v", frames)
	}
	picture := []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89\x00\x00\x00\nIDATx\x9cc\x00\x01\x00\x00\x05\x00\x01\r\n-\xb4\x00\x00\x00\x00IEND\xaeB`\x82")
	frames = turn("t5", "images", event.Settings{}, event.Attachment{Kind: event.AttachImage, MIME: "image/png", Data: picture})
	said := ""
	for _, f := range frames {
		said += f.Text
	}
	t.Logf("pictures: %s", said)
	if frames := turn("t6", "/clear", event.Settings{}); count(frames, agent.ConversationID) != 1 {
		t.Errorf("/clear begins no conversation: %+v", frames)
	}
}

func TestRealFailures(t *testing.T) {
	contract.Failures(t, real, "say 2 words", "alpha bravo", []contract.Failure{
		{Name: "401", Prompt: "fail 401", Code: event.CodeAuth, Retries: true},
		{Name: "429", Prompt: "fail 429 1", Code: event.CodeRateLimited, Retries: true},
		{Name: "529", Prompt: "fail 529", Code: event.CodeOverloaded, Retries: true},
		{Name: "400", Prompt: "fail 400", Code: event.CodeBadRequest},
		{Name: "cut", Prompt: "cut 3", Code: event.CodeCutStream, Retries: true},
		{Name: "refusal", Prompt: "refuse", Code: event.CodeRefusal},
		{Name: "overflow", Prompt: "overflow", Code: event.CodeOverflow},
		{Name: "max tokens", Prompt: "maxtok", Code: event.CodeMaxTokens},
	})
}
