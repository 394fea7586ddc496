package pi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/polyhost/polyhost/backends/contract"
	"github.com/polyhost/polyhost/backends/internal/agenttest"
	"github.com/polyhost/polyhost/backends/pi/fake"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/procgroup/proctest"
)

func TestMain(m *testing.M) {
	agenttest.Main()
	if os.Getenv(fakeVar) != "" && (slices.Contains(os.Args, "--mode") || slices.Contains(os.Args, "--version")) {
		os.Exit(fake.Main())
	}
	self, err := os.Executable()
	if err == nil {
		err = os.Setenv(Program.Var, self)
	}
	var kept string
	if err == nil {
		kept, err = os.MkdirTemp("", "polyhost-pi-test-")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Setenv(fakeVar, "1")
	os.Setenv("PI_CODING_AGENT_DIR", kept)
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	_ = os.RemoveAll(kept)
	os.Exit(code)
}

// installed is the real program, by its variable or from the PATH.
var installed = os.Getenv(Program.Var)

// fakeVar makes the test binary a stand-in for pi.
const fakeVar = "PI_FAKE"

func TestContract(t *testing.T) {
	t.Parallel()
	c := fake.Scripted
	c.Past = c.Remember(func(*testing.T) agent.Backend { return &Backend{} })
	contract.Run(t, func(*testing.T) agent.Backend { return &Backend{} }, c)
}

// talk is a conversation with the stand-in.
type talk struct{ *agenttest.Talk }

func open(t *testing.T, o agent.Open) *talk {
	t.Helper()
	b := &Backend{}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return &talk{agenttest.Begin(t, b, o)}
}

// turn plays a prompt, allows what is asked, and returns all frames of it.
func (k *talk) turn(p agent.Prompt) []agent.Frame {
	k.T.Helper()
	p.Turn = "t"
	if err := k.Prompt(k.Ctx, p); err != nil {
		k.T.Fatal(err)
	}
	return k.End(agenttest.Allow)
}

func end(frames []agent.Frame) agent.Frame { return frames[len(frames)-1] }

func TestErrorsAreToldAsWhatTheyAre(t *testing.T) {
	t.Parallel()
	k := open(t, agent.Open{})
	for text, code := range map[string]string{
		"400 bad thing":               event.CodeBadRequest,
		"401 no":                      event.CodeAuth,
		"400 prompt is too long: 300": event.CodeOverflow,
		"529 overloaded":              event.CodeOverloaded,
		"something else":              event.CodeAgentError,
		"terminated":                  event.CodeCutStream,
		"429 slow down":               event.CodeRateLimited,
	} {
		frames := k.turn(agent.Prompt{Text: "fail " + text})
		e := end(frames)
		if e.Status != event.TurnFailed || e.Error == nil || e.Error.Code != code || e.Error.Message != text {
			t.Errorf("%q: %+v", text, e.Error)
		}
		retries := agenttest.Pick(frames, agent.Notice)
		if again := strings.HasPrefix(text, "5"); again != (len(retries) == 1 && retries[0].Notice.Code == "retry") {
			t.Errorf("%q: notices %+v", text, retries)
		}
	}
	if got := agenttest.Said(k.turn(agent.Prompt{Text: "say on"})); got != "on" {
		t.Errorf("afterwards it says %q", got)
	}
}

func TestBadLuck(t *testing.T) {
	t.Parallel()
	contract.BadLuck(t, contract.Luck{
		Open:    func(*testing.T) agent.Backend { return &Backend{} },
		Program: func(_ *testing.T, path string) agent.Backend { return &Backend{path: path} },
		Text:    fake.Scripted.Text, TextWant: fake.Scripted.TextWant, Exec: fake.Scripted.Exec,
		Garbage: "garbage", Huge: "huge", Die: "die", DieWant: "exit status 7: out of memory", Doomed: "doomed", Deaf: "deaf",
	})
}

func TestSettingsToolsAndImages(t *testing.T) {
	t.Parallel()
	k := open(t, agent.Open{})
	picture := event.Attachment{Kind: event.AttachImage, MIME: "image/png", Data: []byte{1}}
	frames := k.turn(agent.Prompt{Text: "images", Attachments: []event.Attachment{picture}, Settings: event.Settings{Model: "stub/stub-small", Effort: "high"}})
	if got := agenttest.Said(frames); got != "1 images for stub-small at high" {
		t.Errorf("says %q", got)
	}
	if e := end(k.turn(agent.Prompt{Text: "say x", Settings: event.Settings{Model: "stub/nonsense"}})); e.Error == nil || !strings.Contains(e.Error.Message, "not found") {
		t.Errorf("an unknown model: %+v", e)
	}
	frames = k.turn(agent.Prompt{Text: "think so hard\nsay on"})
	if got := agenttest.Said(frames); got != "on" || len(agenttest.Pick(frames, agent.ReasoningDelta)) != 2 {
		t.Errorf("%q, %+v", got, agenttest.Pick(frames, agent.ReasoningDelta))
	}
	if e := end(k.turn(agent.Prompt{Text: "/nothing"})); e.Status != event.TurnComplete {
		t.Errorf("a command of pi's own: %+v", e)
	}
	use := agenttest.Pick(k.turn(agent.Prompt{Text: "say a\nsay b"}), agent.Usage)
	if len(use) != 2 || use[0].Usage.Input != 10 || use[0].Usage.CostUSD != 0.5 || use[0].Usage.Model != "stub/stub-small" {
		t.Errorf("usage %+v", use)
	}
}

func TestAWriteShowsItsDiffBeforeItRuns(t *testing.T) {
	t.Parallel()
	k := open(t, agent.Open{})
	if err := os.WriteFile(filepath.Join(k.Dir, "a.txt"), []byte("old\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	frames := k.turn(agent.Prompt{Text: "write a.txt"})
	asked, ended := agenttest.Pick(frames, agent.Permission), agenttest.Pick(frames, agent.ToolEnd)
	if len(asked) != 1 || len(asked[0].Tool.Edits) != 1 || !strings.Contains(asked[0].Tool.Edits[0].Patch, "-old\n+new\n") ||
		asked[0].Tool.Tag != event.TagWrite || asked[0].Tool.Paths[0] != "a.txt" {
		t.Errorf("asked %+v", asked)
	}
	if len(ended) != 1 || len(ended[0].Result.Edits) != 1 || ended[0].Result.Failed {
		t.Errorf("ended %+v", ended)
	}
	if b, _ := os.ReadFile(filepath.Join(k.Dir, "a.txt")); string(b) != "new\n" {
		t.Errorf("the file has %q", b)
	}
}

func TestAConversationThatIsNotThereIsNotResumed(t *testing.T) {
	t.Parallel()
	b := &Backend{}
	t.Cleanup(func() { _ = b.Close() })
	_, err := b.Open(t.Context(), agent.Open{Dirs: []string{t.TempDir()}, Resume: "none"})
	if err == nil || !strings.Contains(err.Error(), "none cannot be resumed") || !strings.Contains(err.Error(), "no session found") {
		t.Errorf("%v", err)
	}
}

func TestInfoSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	info, err := (&Backend{}).infoAndClose(t)
	if err != nil || info.Version != "0.73.1" || len(info.Models) != 2 || info.Models[0].ID != "stub/stub-large" || !info.Models[0].Images ||
		len(info.Commands) != 1 {
		t.Errorf("%+v, %v", info, err)
	}
	old := filepath.Join(t.TempDir(), "pi")
	proctest.Script(t, old, "#!/bin/sh\necho 0.1.0\n")
	for path, code := range map[string]string{"/nowhere/pi": agent.ProblemMissing, old: agent.ProblemTooOld, "/bin/false": agent.ProblemBroken} {
		_, err := (&Backend{path: path}).infoAndClose(t)
		var p *agent.Problem
		if !errors.As(err, &p) || p.Code != code || !strings.Contains(p.Fix, "npm install") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func (b *Backend) infoAndClose(t *testing.T) (agent.Info, error) {
	defer b.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return b.Info(ctx)
}
