package agenttest

import (
	"bufio"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

var (
	recordAnew = flag.Bool("record", false, "record the tapes anew, with the real CLIs")
	// Update says that golden files are to be written anew.
	Update = flag.Bool("update", false, "write the golden files anew")
)

// Scenario is what happens on one tape.
type Scenario struct {
	Name string
	// Files are in the working directory at the start.
	Files map[string]string
	Play  func(k *Talk)
}

// Deck are the tapes of one CLI.
type Deck struct {
	// Open makes the driver use a program with settings of the environment.
	Open func(t *testing.T, program string, env []string) agent.Backend
	// Program finds the real CLI, to record it.
	Program func() (path string, args []string, err error)
	// Setup writes the settings of the real CLI into its home, so that it
	// uses the model, and returns its environment.
	Setup func(t *testing.T, home, model string) (env []string)
	// Drop are members of its lines that tapes leave out: lists and prose
	// that no driver reads.
	Drop []string
	// Made is what the driver makes up at random, beside UUIDs; nil for
	// nothing.
	Made *regexp.Regexp
	// Scenarios are those beside the common ones; one with the same name
	// replaces it, or without a Play takes it out.
	Scenarios []Scenario
}

// Run plays every tape of testdata/tapes to the driver and compares the frames
// with the golden file beside it.
func (d Deck) Run(t *testing.T) {
	for _, s := range d.scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			if !*recordAnew {
				t.Parallel()
			} else {
				d.record(t, s)
			}
			d.play(t, s)
		})
	}
}

func (d Deck) scenarios() (all []Scenario) {
	own := map[string]bool{}
	for _, s := range d.Scenarios {
		own[s.Name] = true
	}
	for _, s := range common {
		if !own[s.Name] {
			all = append(all, s)
		}
	}
	for _, s := range d.Scenarios {
		if s.Play != nil {
			all = append(all, s)
		}
	}
	return all
}

func tapeOf(s Scenario) string { return filepath.Join("testdata", "tapes", s.Name+".jsonl") }

func (d Deck) play(t *testing.T, s Scenario) {
	tape, err := filepath.Abs(tapeOf(s))
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	k := d.talk(t, s, t.TempDir(), self, []string{tapeVar + "=" + tape, placeVar + "=" + filepath.Join(t.TempDir(), "place")})
	s.Play(k)
	runs := &names{prefix: "run"}
	got := runs.replace(strings.ReplaceAll(Spell(k.All), k.Dir, projectName), uuids)
	if d.Made != nil {
		got = runs.replace(got, d.Made)
	}
	golden := strings.TrimSuffix(tape, ".jsonl") + ".golden"
	if *Update || *recordAnew {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the frames are\n%s\nwant\n%s", got, want)
	}
}

// talk begins a scenario in a directory with its files.
func (d Deck) talk(t *testing.T, s Scenario, dir, program string, env []string) *Talk {
	t.Helper()
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range s.Files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := d.Open(t, program, env)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return Begin(t, b, agent.Open{Dirs: []string{dir}})
}

// record plays the scenario with the real CLI and keeps what was said.
func (d Deck) record(t *testing.T, s Scenario) {
	program, args, err := d.Program()
	if err != nil {
		t.Fatal(err)
	}
	if len(args) > 0 {
		t.Fatal("a recording needs a program without further arguments")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// Some CLIs do not work in a home under the directory for temporary files.
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	home, err := os.MkdirTemp(cache, "polyhost-record-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(home)
	dir := filepath.Join(home, "project")
	git := exec.CommandContext(t.Context(), "git", "init", "-q", dir)
	if out, err := git.CombinedOutput(); err != nil {
		t.Fatalf("git init: %v %s", err, out)
	}
	raw := filepath.Join(home, "tape")
	env := append(d.Setup(t, home, modelServer(t)), "HOME="+home, tapeVar+"="+raw, recordVar+"="+program)
	if !t.Run("record", func(t *testing.T) {
		k := d.talk(t, s, dir, self, env)
		k.live = true
		s.Play(k)
	}) {
		return
	}
	recording, err := os.ReadFile(raw)
	if err != nil {
		t.Fatal(err)
	}
	tape, err := scrub(recording, map[string]string{dir: projectName, home: homeName, filepath.Dir(program): "/bin"}, d.Drop)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(tapeOf(s)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(tapeOf(s), tape, 0o644); err != nil {
		t.Fatal(err)
	}
}

// modelServer starts the scripted model and returns its address.
func modelServer(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "modelstub")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "github.com/polyhost/polyhost/cmd/modelstub")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the model server: %v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), program, "-pause", "1ms")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var at struct {
		Port json.Number `json:"port"`
	}
	if err != nil || json.Unmarshal(line, &at) != nil {
		t.Fatalf("the model server says %q: %v", line, err)
	}
	return "http://127.0.0.1:" + at.Port.String()
}

// picture is a PNG of one pixel.
var picture = event.Attachment{Kind: event.AttachImage, MIME: "image/png", Data: []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89\x00\x00\x00\nIDATx\x9cc\x00\x01\x00\x00\x05\x00\x01\r\n-\xb4\x00\x00\x00\x00IEND\xaeB`\x82")}

// common are the scenarios of every CLI; the prompts are the model server's.
var common = []Scenario{
	{Name: "text", Play: func(k *Talk) { k.Play("t1", "think", nil) }},
	{Name: "allowed", Play: func(k *Talk) { k.Play("t1", "run: touch a.txt && echo done", Allow) }},
	{Name: "denied", Play: func(k *Talk) { k.Play("t1", "run: touch a.txt", Deny("not in this folder")) }},
	{Name: "write", Play: func(k *Talk) { k.Play("t1", "write: new.txt", Allow) }},
	{Name: "edit", Files: map[string]string{"hello.txt": "hello from the stub\nsecond line\n"}, Play: func(k *Talk) {
		k.Play("t1", "read: hello.txt\nedit: hello.txt", Allow)
	}},
	{Name: "parallel", Play: func(k *Talk) { k.Play("t1", "parallel: run: touch a.txt && run: touch b.txt", Allow) }},
	{Name: "plan", Play: func(k *Talk) { k.Play("t1", "plan", Allow) }},
	{Name: "interrupt-stream", Play: func(k *Talk) {
		k.Say("t1", "slow 2000 20")
		k.Until(agent.TextDelta)
		if err := k.Interrupt(k.Ctx); err != nil {
			k.T.Error(err)
		}
		k.End(nil)
		k.Play("t2", "say 2 words", nil)
	}},
	{Name: "interrupt-tool", Play: func(k *Talk) {
		k.Say("t1", "run: touch a.txt; sleep 60")
		asked := k.Until(agent.Permission)
		k.Settle(asked[len(asked)-1], Allow)
		k.runs("a.txt")
		if err := k.Interrupt(k.Ctx); err != nil {
			k.T.Error(err)
		}
		k.End(nil)
	}},
	{Name: "steer", Play: func(k *Talk) {
		k.Say("t1", "slow 15 100")
		k.Until(agent.TextDelta)
		err := k.Conversation.(agent.Steerer).Steer(k.Ctx, agent.Prompt{Turn: "t1", Message: "m-2", Text: "text: And on."})
		if err != nil {
			k.T.Error(err)
		}
		k.End(nil)
	}},
	{Name: "error-400", Play: func(k *Talk) { k.Play("t1", "fail 400", nil) }},
	{Name: "error-429", Play: func(k *Talk) { k.Play("t1", "fail 429 1", nil) }},
	{Name: "cut", Play: func(k *Talk) { k.Play("t1", "cut 3", nil) }},
	{Name: "usage", Play: func(k *Talk) { k.Play("t1", "usage 1200 34", nil) }},
	{Name: "image", Play: func(k *Talk) { k.Play("t1", "images", nil, picture) }},
	{Name: "resume", Play: func(k *Talk) {
		k.Play("t1", "say 2 words", nil)
		k.Resume()
		k.Play("t2", "say 3 words", nil)
	}},
}
