//go:build e2e

package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/polyhost/polyhost/cmd/modelstub/stub"
	"github.com/polyhost/polyhost/core/event"
)

// onlyVar names the agents to run, separated by commas; all by default.
const onlyVar = "POLYHOST_E2E_AGENTS"

// withinVar is after how long no further scenario is begun, for a machine that is
// too slow for all of them; any time by default.
const withinVar = "POLYHOST_E2E_WITHIN"

// chosen are the agents to run.
func chosen() (all []*cli) {
	only := os.Getenv(onlyVar)
	for i := range clis {
		if only == "" || slices.Contains(strings.Split(only, ","), clis[i].backend) {
			all = append(all, &clis[i])
		}
	}
	return all
}

// timeIsUp tells whether no further scenario is begun.
func timeIsUp(t *testing.T) func() bool {
	text := os.Getenv(withinVar)
	if text == "" {
		return func() bool { return false }
	}
	within, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("%s: %v", withinVar, err)
	}
	end := time.Now().Add(within)
	return func() bool { return time.Now().After(end) }
}

// TestInstall only installs: whoever runs it first can tell a registry that is
// out of reach from an agent that does not work.
func TestInstall(t *testing.T) {
	for _, c := range chosen() {
		t.Run(c.backend, func(t *testing.T) {
			t.Parallel()
			c.install(t)
		})
	}
}

func TestAgents(t *testing.T) {
	late := timeIsUp(t)
	for _, c := range chosen() {
		t.Run(c.backend, func(t *testing.T) {
			if late() {
				t.Log("NOT RUN: the time is up")
				return
			}
			r := newRig(t, c)
			for _, s := range []struct {
				name string
				able bool
				run  func(*testing.T, *rig)
			}{
				{"a prompt is answered on both fronts", true, prompted},
				{"an allowed command runs", true, allowed},
				{"a denied command does not", true, denied},
				{"a write shows its diff", true, written},
				{"an interrupt ends a stream", true, interrupted},
				{"an interrupt ends a running command", true, killed},
				{"a message waits for the turn, or steers it", true, queued},
				{"a conversation goes on in a new process", true, resumed},
				{"a fork leaves the conversation as it is", !c.noFork, forked},
				{"a fork at an earlier turn knows what was before", c.forkAt, wentBack},
				{"turns that are taken back are forgotten", c.forkAt, forgot},
				{"a turn that failed goes on with what it knows", true, wentOn},
				{"a model's errors are told once, as what they are", true, failed},
				{"reasoning comes apart from the answer", true, reasoned},
				{"a picture reaches the model", true, pictured},
				{"tokens are counted", true, counted},
				{"two chats run at once", true, together},
				{"a client's tool is called and answered", true, served},
				{"a client's plugin is taken, and taken away", c.plugins, plugged},
				{"a window's script precedes commands", c.shellInit, sourced},
				{"the gateway's own tools are called, and a person is asked", true, ownTools},
			} {
				if s.able {
					t.Run(s.name, func(t *testing.T) {
						if late() {
							t.Log("NOT RUN: the time is up")
							return
						}
						begun := time.Now()
						s.run(t, r)
						t.Logf("it took %v", time.Since(begun).Round(100*time.Millisecond))
					})
				}
			}
		})
	}
}

func prompted(t *testing.T, r *rig) {
	k := r.talk(t)
	if got := text(k.play("text: hello from " + r.cli.backend + " out there")); !strings.Contains(got, "hello from "+r.cli.backend+" out there") {
		t.Errorf("said %q", got)
	}
	r.heard(t, "hello from "+r.cli.backend+" out there")
}

func allowed(t *testing.T, r *rig) {
	k := r.talk(t)
	k.prompt("run: echo made > allowed.txt && echo crossed over", nil)
	if i := k.answer("allow"); i.Tag != event.TagExec || !strings.Contains(string(i.Input)+i.Title, "allowed.txt") {
		t.Errorf("asked %s", encode(i))
	}
	seen, end := k.ended()
	if b, err := os.ReadFile(filepath.Join(r.place.Work, "allowed.txt")); err != nil || string(b) != "made\n" {
		t.Errorf("the file has %q, %v; the turn ended %s", b, err, encode(end))
	}
	if tools := bodies[*event.ToolEnded](seen); len(tools) == 0 {
		t.Error("no call ended")
	}
	r.heard(t, "crossed over")
}

func denied(t *testing.T, r *rig) {
	k := r.talk(t)
	k.prompt("run: echo made > denied.txt", nil)
	k.answer("deny")
	seen, _ := k.ended()
	if _, err := os.Stat(filepath.Join(r.place.Work, "denied.txt")); err == nil {
		t.Error("the denied command ran")
	}
	if tools := bodies[*event.ToolEnded](seen); len(tools) == 0 {
		t.Error("no call ended")
	}
	k.play("say 2 words") // the conversation is usable
}

func written(t *testing.T, r *rig) {
	k := r.talk(t)
	seen := k.play("write: written.txt")
	b, err := os.ReadFile(filepath.Join(r.place.Work, "written.txt"))
	if err != nil || !strings.Contains(string(b), "hello from the stub") {
		t.Errorf("the file has %q, %v", b, err)
	}
	var edits []event.FileEdit
	for _, ready := range bodies[*event.ToolReady](seen) {
		edits = append(edits, ready.Edits...)
	}
	if len(edits) == 0 || !strings.HasSuffix(edits[0].Path, "written.txt") || edits[0].Added == 0 {
		t.Errorf("shown before: %s", encode(edits))
	}
}

// endless is an answer that outlasts every wait.
const endless = "slow 100000 20"

func interrupted(t *testing.T, r *rig) {
	k := r.talk(t)
	k.prompt(endless, nil)
	k.until("text", func(e *event.Event) bool { d, ok := e.Body.(*event.PartDelta); return ok && d.Text != "" })
	r.call(t, "session.interrupt", object{"sessionId": k.id})
	if _, end := k.ended(); end.Status != event.TurnCancelled {
		t.Errorf("ended %s", encode(end))
	}
	k.play("say 2 words")
}

// killed interrupts a command that ignores TERM and has a child.
func killed(t *testing.T, r *rig) {
	k := r.talk(t)
	k.prompt("run: trap '' TERM INT; sleep 600 & echo $$ $! > pids.tmp; mv pids.tmp pids; wait; sleep 600", nil)
	k.answer("allow")
	path := filepath.Join(r.place.Work, "pids")
	var pids []string
	for deadline := time.Now().Add(patience); len(pids) == 0; time.Sleep(20 * time.Millisecond) {
		b, _ := os.ReadFile(path)
		pids = strings.Fields(string(b))
		if time.Now().After(deadline) {
			t.Fatal("the command never ran")
		}
	}
	defer os.Remove(path)
	r.call(t, "session.interrupt", object{"sessionId": k.id})
	for _, p := range pids {
		pid, err := strconv.Atoi(p)
		if err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(patience); running(pid); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("process %d still runs", pid)
			}
		}
	}
	if _, end := k.ended(); end.Status != event.TurnCancelled {
		t.Errorf("ended %s", encode(end))
	}
	k.play("say 2 words")
}

func running(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return err == nil && syscall.Kill(pid, 0) == nil && !strings.Contains(string(stat), ") Z ")
}

func queued(t *testing.T, r *rig) {
	k := r.talk(t)
	k.prompt("slow 100 20", nil)
	k.until("text", func(e *event.Event) bool { d, ok := e.Body.(*event.PartDelta); return ok && d.Text != "" })
	k.prompt("text: this came later", nil)
	k.until("the later text", func(e *event.Event) bool {
		p, ok := e.Body.(*event.PartEnded)
		return ok && strings.Contains(p.Text, "this came later")
	})
	k.ended()
}

// asks are the requests that the model got for a step, without those that
// agents make beside the conversation, which offer no tools.
func (r *rig) asks(t *testing.T, step string) (seen []stub.Seen) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", r.model.URL+"/_log", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var all []stub.Seen
	if err := json.NewDecoder(resp.Body).Decode(&all); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(s stub.Seen) bool { return s.Step != step || len(s.Tools) == 0 })
}

func resumed(t *testing.T, r *rig) {
	k := r.talk(t)
	k.play("text: before the restart")
	r.restart()
	k.play("say 7 words")
	before, after := r.asks(t, "text: before the restart"), r.asks(t, "say 7 words")
	if len(before) == 0 || len(after) == 0 || after[len(after)-1].Messages <= before[len(before)-1].Messages {
		t.Errorf("the model was sent %s and then %s", encode(before), encode(after))
	}
}

func forked(t *testing.T, r *rig) {
	k := r.talk(t)
	k.play("text: the common past")
	r.other(t, r.fork(t, k.id, "")).goOn("say 9 words")
	k.play("say 11 words")
	common, forked, first := r.asks(t, "text: the common past"), r.asks(t, "say 9 words"), r.asks(t, "say 11 words")
	if len(common) == 0 || len(forked) == 0 || len(first) == 0 || forked[0].Messages <= common[0].Messages || first[0].Messages != forked[0].Messages {
		t.Errorf("the model was sent %s, in the fork %s and in the first %s", encode(common), encode(forked), encode(first))
	}
}

// wentBack forks at each turn of a conversation, and at its first one again when
// it has been shortened.
func wentBack(t *testing.T, r *rig) {
	k := r.other(t, r.open(t))
	k.play("text: the first secret")
	k.prompt("run: touch second.txt", nil)
	k.answer("allow")
	if _, end := k.ended(); end.Status != event.TurnComplete {
		t.Fatalf("the second turn ended %s: %s", end.Status, encode(end.Error))
	}
	k.play("text: the third secret")
	ends := r.ends(t, k.id)
	if len(ends) != 3 {
		t.Fatalf("turns end with %v", ends)
	}
	sent := func(step, at string) int {
		t.Helper()
		r.other(t, r.fork(t, k.id, at)).goOn(step)
		asked := r.asks(t, step)
		if len(asked) == 0 {
			t.Fatal("the model was not asked")
		}
		return asked[0].Messages
	}
	first, second, third := sent("say 13 words", ends[0]), sent("say 14 words", ends[1]), sent("say 15 words", ends[2])
	k.play("say 16 words")
	whole := r.asks(t, "say 16 words")
	if first >= second || second >= third || len(whole) == 0 || whole[0].Messages < third {
		t.Errorf("after one turn the model was sent %d messages, after two %d, after three %d and in the conversation %s", first, second, third, encode(whole))
	}
	if r.cli.compact == "" {
		return
	}
	k.play(r.cli.compact)
	if again := sent("say 17 words", ends[0]); again != first {
		t.Errorf("after one turn the model was sent %d messages, and %d once the conversation was shortened", first, again)
	}
}

func reasoned(t *testing.T, r *rig) {
	k := r.talk(t)
	seen := k.play("think")
	var kinds []event.PartKind
	for _, p := range bodies[*event.PartStarted](seen) {
		kinds = append(kinds, p.Part.Kind)
	}
	if !slices.Contains(kinds, event.PartReasoning) || !strings.Contains(text(seen), "Forty-two.") {
		t.Errorf("parts %v, %q", kinds, text(seen))
	}
}

// pixel is a picture of one pixel.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

func pictured(t *testing.T, r *rig) {
	if _, err := base64.StdEncoding.DecodeString(pixel); err != nil {
		t.Fatal(err)
	}
	k := r.talk(t)
	k.prompt("images", object{"attachments": []any{object{"kind": "image", "name": "dot.png", "mimeType": "image/png", "data": pixel}}})
	seen, end := k.ended()
	if got := text(seen); end.Status != event.TurnComplete || !strings.Contains(got, "There are 1 images.") {
		t.Errorf("ended %s, said %q", encode(end), got)
	}
}

func counted(t *testing.T, r *rig) {
	k := r.talk(t)
	k.prompt("usage 1234 56", nil)
	seen, end := k.ended()
	if r.cli.noUsage { // then it says how full the context is
		if told := bodies[*event.ContextReported](seen); len(told) == 0 || told[0].Used < 1234+56 {
			t.Errorf("the context is told as %s", encode(told))
		}
		return
	}
	if end.Usage.Input < 1234 || end.Usage.Output < 56 {
		t.Errorf("usage %s", encode(end.Usage))
	}
}

// together plays a turn in one chat while one in the other goes on.
func together(t *testing.T, r *rig) {
	a, b := r.talk(t), r.other(t, r.open(t))
	a.prompt(endless, nil)
	a.until("text of the first", func(e *event.Event) bool { d, ok := e.Body.(*event.PartDelta); return ok && d.Text != "" })
	b.play("say 3 words")
	r.call(t, "session.interrupt", object{"sessionId": a.id})
	if _, end := a.ended(); end.Status != event.TurnCancelled {
		t.Errorf("the first had ended %s", encode(end))
	}
}

// served has the model call a tool of a client's, through the agent's own MCP
// client. What the agent calls it is read off what it declares to the model.
func served(t *testing.T, r *rig) {
	var mu sync.Mutex
	var asked []string
	c := r.client(t, func(name string, args json.RawMessage) string {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, name+" "+string(args))
		return "forty-two"
	})
	c.call("tool.register", object{"tools": []any{object{"name": "lookup", "description": "looks things up", "permission": "read",
		"inputSchema": object{"type": "object", "properties": object{"q": object{"type": "string"}}}}}})
	var s struct{ SessionID string }
	if err := json.Unmarshal(c.call("session.create", object{"workdir": r.place.Work, "provider": r.cli.backend}), &s); err != nil {
		t.Fatal(err)
	}
	c.serve()
	k := r.other(t, s.SessionID)
	k.play("say 3 words")
	name, find := r.cli.found, r.cli.search
	for _, request := range r.asks(t, "say 3 words") {
		for _, tool := range request.Tools {
			if strings.HasSuffix(tool, "lookup") {
				name, find = tool, ""
			}
		}
	}
	if name == "" {
		t.Fatalf("the model was offered %s", encode(r.asks(t, "say 3 words")))
	}
	seen := k.play(find + "\ntool: " + name + ` {"q":"life"}`)
	if got := text(seen); !strings.Contains(got, "forty-two") {
		t.Errorf("%s: the model was told %q", name, got)
	}
	mu.Lock()
	if !slices.Equal(asked, []string{`lookup {"q":"life"}`}) {
		t.Errorf("%s: the client was asked %q", name, asked)
	}
	mu.Unlock()
	var tools []event.Tool
	for _, p := range bodies[*event.PartStarted](seen) {
		if p.Part.Tool != nil && p.Part.Tool.Server != "" {
			tools = append(tools, *p.Part.Tool)
		}
	}
	if len(tools) != 1 || tools[0].Name != "lookup" || tools[0].Server != "polyhost" {
		t.Errorf("%s: the calls shown are %s", name, encode(tools))
	}
}

// ownTools has the model look at its session, and hand work on once a person
// allows it.
func ownTools(t *testing.T, r *rig) {
	k := r.talk(t)
	k.play("say 4 words")
	call := func(tool, input string) string {
		name, find := strings.ReplaceAll(r.cli.found, "lookup", tool), strings.ReplaceAll(r.cli.search, "lookup", tool)
		for _, request := range r.asks(t, "say 4 words") {
			for _, offered := range request.Tools {
				if strings.HasSuffix(offered, tool) {
					name, find = offered, ""
				}
			}
		}
		return find + "\ntool: " + name + " " + input
	}
	seen := k.play(call("get_current_session", "{}"))
	if got := text(seen); !strings.Contains(got, r.cli.backend+":/") { // the stub repeats the beginning
		t.Errorf("the model was told %q", got)
	}
	shown := 0
	for _, p := range bodies[*event.PartStarted](seen) {
		if c := p.Part.Tool; c != nil && c.Server == "polyhost" {
			shown++
			if c.Name != "get_current_session" || c.Title != "Get Current Session" || c.Client != (event.Actor{}) {
				t.Errorf("the call shown is %s", encode(c))
			}
		}
	}
	if shown != 1 {
		t.Errorf("%d calls are shown", shown)
	}
	k.prompt(call("create_session", `{"relationship":"currentSession","prompt":"text: handed on","title":"Beside"}`), nil)
	if i := k.answer("allow"); i.Tool != "create_session" || i.Title != "Create Session" {
		t.Errorf("asked %s", encode(i))
	}
	if seen, end := k.ended(); end.Status != event.TurnComplete || !strings.Contains(text(seen), r.cli.backend+":/") {
		t.Errorf("ended %s with %q", encode(end), text(seen))
	}
	r.heard(t, "handed on")
}
