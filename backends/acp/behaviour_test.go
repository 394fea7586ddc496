package acp

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polyhost/polyhost/backends/acp/fake"
	"github.com/polyhost/polyhost/backends/contract"
	"github.com/polyhost/polyhost/backends/internal/agenttest"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

func pick(frames []agent.Frame, kind agent.FrameKind) []agent.Frame {
	var out []agent.Frame
	for _, f := range frames {
		if f.Kind == kind {
			out = append(out, f)
		}
	}
	return out
}

func spoken(frames []agent.Frame) string {
	var b strings.Builder
	for _, f := range pick(frames, agent.TextDelta) {
		b.WriteString(f.Text)
	}
	return b.String()
}

func last(frames []agent.Frame) agent.Frame { return frames[len(frames)-1] }

func each(t *testing.T, run func(*testing.T, string)) {
	t.Parallel()
	for flavour := range flavours {
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			run(t, flavour)
		})
	}
}

func TestAnEditShowsItsDiffAndIsWrittenOnce(t *testing.T) {
	each(t, func(t *testing.T, flavour string) {
		k := begin(t, pretend(t, flavour), agent.Open{})
		path := filepath.Join(k.dir, "a.txt")
		if err := os.WriteFile(path, []byte("one old three\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		frames := k.turn(agent.Prompt{Turn: "t1", Text: "edit a.txt old new"}, nil)
		asked := pick(frames, agent.Permission)
		if len(asked) != 1 || len(asked[0].Tool.Edits) != 1 || asked[0].Tool.Tag != event.TagWrite || asked[0].Tool.Paths[0] != path {
			t.Fatalf("asked: %+v", asked)
		}
		if e := asked[0].Tool.Edits[0]; e.Before == nil || *e.Before != "one old three\n" || e.After == nil || *e.After != "one new three\n" {
			t.Errorf("edit: %+v", e)
		}
		if b, _ := os.ReadFile(path); string(b) != "one new three\n" {
			t.Errorf("the file has %q", b)
		}
		if r := last(pick(frames, agent.ToolEnd)).Result; r.Failed || len(r.Edits) != 1 {
			t.Errorf("result: %+v", r)
		}
	})
}

func TestAHistoryThatIsReplayedIsNoTurn(t *testing.T) {
	each(t, func(t *testing.T, flavour string) {
		k := begin(t, pretend(t, flavour), agent.Open{Resume: flavour + "-1"})
		frames := k.turn(agent.Prompt{Turn: "t1", Text: "say new words"}, nil)
		if got := spoken(frames); got != "new words" || len(pick(frames, agent.ToolStart)) > 0 {
			t.Errorf("said %q in %+v", got, frames)
		}
	})
}

func TestAConversationThatIsGoneFailsInWords(t *testing.T) {
	each(t, func(t *testing.T, flavour string) {
		k := begin(t, pretend(t, flavour), agent.Open{Resume: "nobody"})
		for range 2 { // and never begins a new one instead
			end := last(k.turn(agent.Prompt{Turn: "t1", Text: "say x"}, nil))
			if end.Status != event.TurnFailed || end.Error.Code != codeResume || !strings.Contains(end.Error.Message, "Resource not found") {
				t.Errorf("ended %s, %+v", end.Status, end.Error)
			}
		}
	})
}

// TestBadLuck is about the program, so one flavour does for all.
func TestBadLuck(t *testing.T) {
	t.Parallel()
	contract.BadLuck(t, contract.Luck{
		Open: func(t *testing.T) agent.Backend { return pretend(t, "gemini") },
		Program: func(t *testing.T, path string) agent.Backend {
			b := pretend(t, "gemini")
			b.agent.Program.Name, b.shake = path, time.Second
			return b
		},
		Text: "say hello out there", TextWant: "hello out there", Exec: func(command string) string { return "run " + command },
		Garbage: "noise", Huge: "huge", Die: "crash", DieWant: "exit status 3: out of memory", Doomed: "doomed", Deaf: "say I\nhang",
	})
}

func TestWhatElseATurnReports(t *testing.T) {
	t.Parallel()
	k := begin(t, pretend(t, "claude"), agent.Open{})
	frames := k.turn(agent.Prompt{Turn: "t1", Text: "mode\nthink deeply\nplan\nimages", Attachments: []event.Attachment{
		{Kind: event.AttachImage, MIME: "image/png", Data: []byte("png")}}}, nil)
	if got := spoken(frames); got != "default1 images" {
		t.Errorf("said %q: it starts in a mode in which it asks, and takes images", got)
	}
	if r := pick(frames, agent.ReasoningDelta); len(r) != 1 || r[0].Text != "deeply" {
		t.Errorf("reasoning: %+v", r)
	}
	if p := pick(frames, agent.Plan); len(p) != 1 || p[0].Plan[0].Status != event.PlanDone || p[0].Plan[1].Status != event.PlanActive {
		t.Errorf("plan: %+v", p)
	}
	if u := pick(frames, agent.Usage); len(u) != 1 || u[0].Usage.Input != 20 || u[0].Usage.CacheRead != 1 || u[0].Usage.CostUSD != 0.5 {
		t.Errorf("usage: %+v", u)
	}
	if c := pick(frames, agent.Context); len(c) != 1 || c[0].Context.Used != 900 {
		t.Errorf("context: %+v", c)
	}
	plan := k.turn(agent.Prompt{Turn: "t2", Text: "mode", Settings: event.Settings{Mode: event.ModePlan, Model: "small", Effort: "high"}}, nil)
	if spoken(plan) != "plan" || pick(plan, agent.Usage)[0].Usage.Model != "large" && pick(plan, agent.Usage)[0].Usage.Model != "small" {
		t.Errorf("plan mode: %+v", plan)
	}
	bad := last(k.turn(agent.Prompt{Turn: "t3", Text: "say x", Settings: event.Settings{Model: "nosuch"}}, nil))
	if bad.Status != event.TurnFailed || !strings.Contains(bad.Error.Message, "no such model") {
		t.Errorf("an unknown model: %+v", bad)
	}
	once := k.turn(agent.Prompt{Turn: "t4", Text: "fail 400 no such thing"}, nil)
	if e := last(once).Error; e == nil || e.Code != event.CodeBadRequest || spoken(once) != "" {
		t.Errorf("a model's error is told once: %q, %+v", spoken(once), e)
	}
}

func TestInfoAndProblems(t *testing.T) {
	t.Parallel()
	b := pretend(t, "opencode")
	info, err := b.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.Version != "9.8.7" || info.Models[0].ID != "large" || len(info.Models) != 2 || len(info.Efforts) != 2 || len(info.Commands) != 1 ||
		!info.Capabilities.Fork || !info.Capabilities.Catalogue || info.Capabilities.Steer {
		t.Errorf("%+v", info)
	}
	page, err := b.Conversations(t.Context(), agent.ConversationQuery{Limit: 1})
	if err != nil || len(page.Conversations) != 1 || page.Next == "" || page.Conversations[0].Title != "First words" || page.Conversations[0].UpdatedAt.IsZero() {
		t.Errorf("%+v, %v", page, err)
	}
	history, err := b.History(t.Context(), agent.HistoryQuery{ID: "opencode-1", Dir: t.TempDir(), Limit: 1})
	if err != nil || len(history.Turns) != 1 || history.Turns[0].Prompt != "say before" || history.Next == "" || spoken(history.Turns[0].Frames) != "old words" {
		t.Errorf("%+v, %v", history, err)
	}
	rest, err := b.History(t.Context(), agent.HistoryQuery{ID: "opencode-1", Dir: t.TempDir(), Limit: 1, After: history.Next})
	if err != nil || len(rest.Turns) != 1 || rest.Next != "" || rest.Turns[0].Prompt != "again" {
		t.Errorf("%+v, %v", rest, err)
	}
	missing := New(Custom("mine", []string{"no-such-program", "--acp"}))
	if _, err := missing.Info(t.Context()); err == nil || !strings.Contains(err.Error(), "not installed") {
		t.Errorf("a missing program: %v", err)
	}
}

// TestAnIdleAgentIsNotStartedForItsList: each start costs seconds.
func TestAnIdleAgentIsNotStartedForItsList(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log, file := filepath.Join(dir, "log"), filepath.Join(dir, "kept.db")
	said := func() []string {
		b, _ := os.ReadFile(log)
		_ = os.Remove(log)
		return strings.Fields(string(b))
	}
	touch := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	touch("one")
	cache := filepath.Join(dir, "cache")
	look := filepath.Join(cache, "polyhost/probe/opencode")
	b := pretend(t, "opencode", fake.LogVar+"="+log, fake.LookVar+"="+look)
	b.agent.Keeps = func() []string { return []string{filepath.Join(dir, "kept.*")} }
	b.caches = func() (string, error) { return cache, nil }
	list := func(want int) {
		t.Helper()
		page, err := b.Conversations(t.Context(), agent.ConversationQuery{})
		if err != nil || len(page.Conversations) != want {
			t.Errorf("%+v, %v", page, err)
		}
	}
	if _, err := b.Info(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := said(); slices.Contains(got, "session/new") || !slices.Contains(got, "opencode-look") {
		t.Errorf("a second look: %v", got)
	}
	list(2)
	list(2)
	if got := said(); len(got) > 0 {
		t.Errorf("for a list that has not changed: %v", got)
	}
	touch("two")
	if err := os.Chtimes(file, time.Now(), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	list(2)
	if got := said(); len(got) > 0 {
		t.Errorf("for a list that has changed, but was read a moment ago: %v", got)
	}
	b.list.at = time.Now().Add(-listEvery)
	list(2)
	if got := said(); !slices.Equal(got, []string{"initialize", "session/list"}) {
		t.Errorf("for a list that has changed: %v", got)
	}
	k := begin(t, b, agent.Open{})
	k.turn(agent.Prompt{Turn: "t1", Text: "say one"}, nil)
	said()
	if err := os.Chtimes(file, time.Now(), time.Now().Add(2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	list(2)
	if got := said(); !slices.Equal(got, []string{"session/list"}) {
		t.Errorf("with a process that runs: %v", got)
	}
}

func TestTheMinuteOfAGeminiConversation(t *testing.T) {
	home := t.TempDir()
	t.Setenv("GEMINI_CLI_HOME", home)
	chats := filepath.Join(home, ".gemini/tmp/work/chats")
	if err := os.MkdirAll(chats, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(chats, "session-2026-11-30T08-43-1beb5ce9.jsonl"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want := time.Date(2026, 11, 30, 8, 43, 0, 0, time.UTC)
	if got := Gemini.Minute("1beb5ce9-927a-4dd1-b690-c027a3887afb"); !got.Equal(want) {
		t.Errorf("it began at %v", got)
	}
	for _, id := range []string{"c20deaed-c999", "*-1", "", "1beb5ce9"} {
		if got := Gemini.Minute(id); !got.IsZero() {
			t.Errorf("%q began at %v", id, got)
		}
	}
}

func TestALookAtASlowAgentIsNotBegunAgain(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	b := pretend(t, "gemini", fake.LogVar+"="+log)
	t.Cleanup(func() { _ = b.Close() })
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Info(gone); err == nil || !strings.Contains(err.Error(), "not started yet") {
		t.Errorf("without time: %v", err)
	}
	for range 2 {
		if info, err := b.Info(t.Context()); err != nil || info.Version != "9.8.7" {
			t.Errorf("%+v, %v", info, err)
		}
	}
	if said, _ := os.ReadFile(log); strings.Count(string(said), "initialize") != 1 {
		t.Errorf("it was started more than once: %s", said)
	}
}

func TestServersOfAFolderNeedApprovalBehindTheAdapterToo(t *testing.T) {
	t.Parallel()
	for servers, want := range map[string]string{
		`{"mcpServers":{"docs":{"command":"docs"}}}`: `{"claudeCode":{"options":{"settings":{"disabledMcpjsonServers":["docs"]}}}}`,
		`{"mcpServers":`: `{"claudeCode":{"options":{"strictMcpConfig":true}}}`,
	} {
		dir, log := t.TempDir(), filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(filepath.Join(dir, ".mcp.json"), []byte(servers), 0o600); err != nil {
			t.Fatal(err)
		}
		k := agenttest.Begin(t, pretend(t, "claude", fake.LogVar+"="+log, "HOME="+t.TempDir()), agent.Open{Dirs: []string{dir}})
		for i, turn := range []string{"t1", "t2"} {
			told := 0
			for _, f := range agenttest.Pick(k.Play(turn, "say hello", agenttest.Allow), agent.Notice) {
				if f.Notice.Code == "mcp_not_approved" {
					told++
				}
			}
			if told != 1-i {
				t.Errorf("told %d times in %s", told, turn)
			}
		}
		if err := k.Close(); err != nil {
			t.Error(err)
		}
		if said, err := os.ReadFile(log); err != nil || !strings.Contains(string(said), want) {
			t.Errorf("the adapter was told %s, %v", said, err)
		}
	}
}
