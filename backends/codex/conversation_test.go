package codex

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/polyhost/polyhost/backends/codex/fake"
	"github.com/polyhost/polyhost/backends/contract"
	"github.com/polyhost/polyhost/backends/internal/agenttest"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

func TestAWriteShowsItsDiffBeforeItRuns(t *testing.T) {
	t.Parallel()
	k := begin(t, fakeBackend(t), agent.Open{})
	frames := k.Play("t1", "write new.txt hello", func(f agent.Frame) event.Resolution {
		if _, err := os.Stat(filepath.Join(k.Dir, "new.txt")); err == nil {
			t.Error("it was written before it was allowed")
		}
		if len(f.Tool.Edits) != 1 || *f.Tool.Edits[0].After != "hello\n" || f.Tool.Edits[0].Added != 1 || f.Tool.Tag != event.TagWrite {
			t.Errorf("asked with %+v", f.Tool)
		}
		return event.Resolution{Outcome: event.Allowed, Scope: event.ScopeAlways}
	})
	if end := agenttest.Pick(frames, agent.ToolEnd); len(end) != 1 || end[0].Result.Failed || len(end[0].Result.Edits) != 1 {
		t.Errorf("%+v", end)
	}
	if b, err := os.ReadFile(filepath.Join(k.Dir, "new.txt")); err != nil || string(b) != "hello\n" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestADenialTellsTheModelItsReason(t *testing.T) {
	t.Parallel()
	k := begin(t, fakeBackend(t), agent.Open{})
	frames := k.Play("t1", "run touch ran\nsleep 2000\nsay on", func(agent.Frame) event.Resolution {
		return event.Resolution{Outcome: event.Denied, Reason: "use the other tool"}
	})
	said := ""
	for _, f := range agenttest.Pick(frames, agent.TextDelta) {
		said += f.Text
	}
	if !strings.Contains(said, "use the other tool") {
		t.Errorf("said %q", said)
	}
}

func TestBadLuck(t *testing.T) {
	t.Parallel()
	contract.BadLuck(t, contract.Luck{
		Open: func(t *testing.T) agent.Backend { return fakeBackend(t) },
		Program: func(t *testing.T, path string) agent.Backend {
			b := fakeBackend(t)
			b.find = func() (string, []string, []string, error) { return path, nil, nil, nil }
			return b
		},
		Text: fake.Scripted.Text, TextWant: fake.Scripted.TextWant, Exec: fake.Scripted.Exec,
		Garbage: "noise", Huge: "huge", Die: "die", DieWant: "exit status 3: thread 'main' panicked", Doomed: "doomed", Deaf: "deaf",
	})
}

func TestAnUnknownRequestIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	k := begin(t, fakeBackend(t), agent.Open{})
	said := agenttest.Pick(k.Play("t1", "odd", nil), agent.TextDelta)
	if len(said) != 1 || !strings.Contains(said[0].Text, "not offered") {
		t.Errorf("%+v", said)
	}
}

func TestASubagentIsAChatOfItsTurn(t *testing.T) {
	t.Parallel()
	k := begin(t, fakeBackend(t), agent.Open{})
	frames := k.Play("t1", "spawn run echo found\nsay mine", agenttest.Allow)
	starts, ends := agenttest.Pick(frames, agent.ChildStart), agenttest.Pick(frames, agent.ChildEnd)
	if len(starts) != 1 || len(ends) != 1 || starts[0].Child == "" || starts[0].Call == "" || starts[0].Text != "run echo found" || ends[0].Child != starts[0].Child {
		t.Fatalf("%+v %+v", starts, ends)
	}
	if out := agenttest.Pick(frames, agent.ToolOutput); len(out) != 1 || out[0].Child != starts[0].Child || out[0].Text != "found\n" {
		t.Errorf("%+v", out)
	}
	for _, f := range agenttest.Pick(frames, agent.Permission) {
		if f.Child != starts[0].Child {
			t.Errorf("%+v", f)
		}
	}
	// The other end: an interrupt while only the subagent works.
	if err := k.Prompt(k.Ctx, agent.Prompt{Turn: "t2", Message: "m", Text: "spawn stream 100000 10 1"}); err != nil {
		t.Fatal(err)
	}
	for said := false; !said; {
		next, err := k.Recv(k.Ctx)
		if err != nil {
			t.Fatal(err)
		}
		said = len(agenttest.Pick(next, agent.TextDelta)) > 0
	}
	if err := k.Interrupt(k.Ctx); err != nil {
		t.Fatal(err)
	}
	frames = k.End(nil)
	if last := frames[len(frames)-1]; last.Status != event.TurnCancelled {
		t.Errorf("%+v", last)
	}
}

func TestAnImageIsShown(t *testing.T) {
	t.Parallel()
	k := begin(t, fakeBackend(t), agent.Open{})
	images := agenttest.Pick(k.Play("t1", "image", nil), agent.Image)
	if len(images) != 1 || string(images[0].Image.Data) != "hi" {
		t.Errorf("%+v", images)
	}
}

func TestInfoSaysWhoMustSignIn(t *testing.T) {
	t.Parallel()
	b := fakeBackend(t, fake.SignedOutVar+"=1")
	defer b.Close()
	info, err := b.Info(t.Context())
	if err != nil || len(info.Models) != 1 || info.Version != "0.171.0" {
		t.Fatalf("%+v, %v", info, err)
	}
	if len(info.Problems) != 1 || info.Problems[0].Code != agent.ProblemSignedOut || info.Problems[0].Fix != "codex login" {
		t.Errorf("%+v", info.Problems)
	}
}

func TestAFurtherQuestionAboutACallIsACallOfItsOwn(t *testing.T) {
	t.Parallel()
	k := begin(t, fakeBackend(t), agent.Open{})
	frames := k.Play("t1", "widen make", func(f agent.Frame) event.Resolution {
		if f.Tool.MustAsk {
			return event.Resolution{Outcome: event.Denied}
		}
		return event.Resolution{Outcome: event.Allowed}
	})
	asked := agenttest.Pick(frames, agent.Permission)
	if len(asked) != 2 || asked[0].Call == asked[1].Call || asked[1].Tool.Name != toolGrant {
		t.Fatalf("asked: %s", agenttest.Spell(asked))
	}
	if said := agenttest.Said(frames); !strings.Contains(said, `"permissions":{}`) {
		t.Errorf("Codex heard %s", said)
	}
}

func TestOpeningAFolderDoesNotMakeCodexTrustIt(t *testing.T) {
	t.Parallel()
	b := fakeBackend(t)
	k := begin(t, b, agent.Open{})
	k.Play("t1", "say hello", nil)
	_, _, env, err := b.find()
	if err != nil {
		t.Fatal(err)
	}
	home := strings.TrimPrefix(env[0], fake.Var+"=")
	if folder, err := os.ReadFile(filepath.Join(home, fake.TrustedFile)); err == nil {
		t.Errorf("Codex wrote down that %s is trusted", folder)
	}
}

func TestAConversationThatIsGoneIsNotBegunAnew(t *testing.T) {
	t.Parallel()
	b := fakeBackend(t)
	defer b.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	_, err := b.Open(ctx, agent.Open{Dirs: []string{t.TempDir()}, Resume: "thread_of_nobody"})
	if err == nil || !strings.Contains(err.Error(), "no rollout found") {
		t.Errorf("%v", err)
	}
	b.find = func() (string, []string, []string, error) { return "/bin/false", nil, nil, nil }
	_, err = b.Open(ctx, agent.Open{Dirs: []string{t.TempDir()}})
	var p *agent.Problem
	if !errors.As(err, &p) || p.Code != agent.ProblemBroken || p.Fix == "" {
		t.Errorf("%v", err)
	}
}

func TestACommandThatATurnLeavesRunningIsBackgroundWork(t *testing.T) {
	t.Parallel()
	b := fakeBackend(t)
	b.every = 20 * time.Millisecond
	k := begin(t, b, agent.Open{})
	frames := k.Play("t1", "leave until [ -e stop ]; do sleep 0.05; done", nil)
	if work := agenttest.Pick(frames, agent.Background); len(work) != 1 || !strings.Contains(work[0].Text, "[ -e stop ]") {
		t.Errorf("%+v", work)
	}
	// A later turn does not end it.
	if work := agenttest.Pick(k.Play("t2", "say on", nil), agent.Background); len(work) != 0 {
		t.Errorf("%+v", work)
	}
	if err := os.WriteFile(filepath.Join(k.Dir, "stop"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	next, err := k.Recv(k.Ctx)
	if work := agenttest.Pick(next, agent.Background); err != nil || len(work) != 1 || work[0].Text != "" {
		t.Errorf("%+v, %v", next, err)
	}
	if work := agenttest.Pick(k.Play("t3", "say off", nil), agent.Background); len(work) != 0 {
		t.Errorf("%+v", work)
	}
}
