// Package fake is a stand-in for Codex, for tests: it speaks the app-server's
// protocol as it was heard and does what the prompt's lines say. It must not
// know the driver.
package fake

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/polyhost/polyhost/backends/contract"
)

// Var names the folder in which Main keeps threads.
const Var = "CODEX_FAKE_HOME"

// TrustedFile in the folder of Var names the last folder that it took for trusted.
const TrustedFile = "trusted"

// SignedOutVar is set for a program that is not signed in.
const SignedOutVar = "CODEX_FAKE_SIGNED_OUT"

// Scripted are its lines, for the contract suite.
var Scripted = contract.Config{
	Text: "say hello out there", TextWant: "hello out there",
	Long: "stream 10000000 64 1",
	Big:  "stream 3000 1000", BigBytes: 3_000_000,
	Slow: "sleep 250",
	Fail: "fail the disk is full", FailWant: "the disk is full",
	Ask:        "ask Which colour? | red | blue",
	Exec:       func(command string) string { return "run " + command },
	FixedInput: true,
	Forks:      true,
	ForksAt:    true,
}

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

type fake struct {
	home string
	mark string // NAME=value that commands get
	out  sync.Mutex

	mu       sync.Mutex
	serial   int
	asked    int
	waiting  map[string]chan json.RawMessage // answers by request id
	threads  map[string]*fakeThread
	commands []*exec.Cmd
	servers  [][2]string       // that turns started: thread and name
	skills   []string          // that turns made
	left     map[string]string // commands that turns left running, by call
}

type fakeThread struct {
	ID    string     `json:"id"`
	Cwd   string     `json:"cwd"`
	Turns []fakeTurn `json:"turns"`
	At    int64      `json:"at"`

	turn   string
	cancel context.CancelFunc
	steer  chan string
}

type fakeTurn struct {
	ID     string           `json:"id"`
	Status string           `json:"status"`
	At     int64            `json:"at"`
	Items  []map[string]any `json:"items"`
}

// Main is the program.
func Main() {
	if slices.Contains(os.Args, "--version") {
		fmt.Println("codex-cli 0.171.0")
		return
	}
	f := &fake{home: os.Getenv(Var), waiting: map[string]chan json.RawMessage{}, left: map[string]string{}, threads: map[string]*fakeThread{}}
	for _, arg := range os.Args {
		if v, ok := strings.CutPrefix(arg, "shell_environment_policy.set."); ok {
			f.mark = strings.ReplaceAll(v, `"`, "")
		}
	}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return // the end of stdin ends the program, whatever runs
		}
		var m message
		if json.Unmarshal(line, &m) != nil {
			fmt.Fprintln(os.Stderr, "ERROR a line is no JSON")
			continue
		}
		if m.Method == "" {
			f.mu.Lock()
			ch := f.waiting[string(m.ID)]
			f.mu.Unlock()
			if ch != nil {
				ch <- line
			}
			continue
		}
		if len(m.ID) > 0 {
			f.request(m)
		}
	}
}

func (f *fake) write(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	f.out.Lock()
	defer f.out.Unlock()
	_, _ = os.Stdout.Write(append(b, '\n'))
}

func (f *fake) note(method string, params map[string]any) {
	f.write(map[string]any{"method": method, "params": params, "emittedAtMs": time.Now().UnixMilli()})
}

func (f *fake) newID(kind string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.serial++
	return fmt.Sprintf("%s_%d_%d", kind, os.Getpid(), f.serial)
}

// request answers a request of the driver.
func (f *fake) request(m message) {
	var p struct {
		ThreadID string `json:"threadId"`
		TurnID   string `json:"turnId"`
		Last     string `json:"lastTurnId"`
		Expected string `json:"expectedTurnId"`
		Cwd      any    `json:"cwd"`
		Input    []struct {
			Type string `json:"type"`
			Text string `json:"text"`
			Path string `json:"path"`
		} `json:"input"`
		Cursor string `json:"cursor"`
		Limit  int    `json:"limit"`
	}
	_ = json.Unmarshal(m.Params, &p)
	answer := func(result any) { f.write(map[string]any{"id": m.ID, "result": result}) }
	refuse := func(text string) {
		f.write(map[string]any{"id": m.ID, "error": map[string]any{"code": -32600, "message": text}})
	}
	var text []string
	for _, in := range p.Input {
		if in.Type == "skill" {
			in.Text = "say with " + in.Path
		}
		text = append(text, in.Text)
	}
	t := f.threads[p.ThreadID]
	switch m.Method {
	case "initialize":
		answer(map[string]any{"userAgent": "fake/0.171.0", "codexHome": f.home, "platformFamily": "unix", "platformOs": "linux"})
		f.note("configWarning", map[string]any{"summary": "no bubblewrap", "details": nil})
	case "model/list":
		answer(map[string]any{"data": []any{map[string]any{"id": "m1", "model": "m1", "displayName": "M1", "isDefault": true, "hidden": false,
			"inputModalities": []string{"text", "image"}, "supportedReasoningEfforts": []any{map[string]any{"reasoningEffort": "low"}}}}, "nextCursor": nil})
	case "config/read":
		answer(map[string]any{"config": map[string]any{"model": nil, "model_provider": nil, "mcp_servers": map[string]any{
			"shut": map[string]any{"url": "https://example.com/mcp?key=secret", "enabled": true}, "unused": map[string]any{"enabled": false}}}})
	case "mcpServerStatus/list":
		var q struct {
			Name string `json:"serverName"`
		}
		_ = json.Unmarshal(m.Params, &q)
		status := "failed"
		if q.Name == "shut" {
			status = "authenticationRequired"
		}
		answer(map[string]any{"data": []any{map[string]any{"name": q.Name, "runtimeStatus": status}}, "nextCursor": nil})
	case "skills/list":
		about := func(name string, on bool) any {
			return map[string]any{"name": name, "description": "what " + name + " does", "path": "/skills/" + name + "/SKILL.md", "scope": "user", "enabled": on}
		}
		list := []any{about("wave", true), about("off", false), about("two words", true)}
		f.mu.Lock()
		for _, name := range f.skills {
			list = append(list, about(name, true))
		}
		f.mu.Unlock()
		answer(map[string]any{"data": []any{map[string]any{"cwd": "/", "errors": []any{}, "skills": list}}})
	case "config/mcpServer/reload": // as if somebody had signed in meanwhile
		answer(map[string]any{})
		f.mu.Lock()
		started := slices.Clone(f.servers)
		f.mu.Unlock()
		for _, s := range started {
			f.server(s[0], s[1], "ready")
		}
	case "account/read":
		answer(map[string]any{"account": nil, "requiresOpenaiAuth": os.Getenv(SignedOutVar) != ""})
	case "thread/start":
		cwd, named := p.Cwd.(string)
		if named { // with this sandbox, Codex takes that for the user's word
			_ = os.WriteFile(filepath.Join(f.home, TrustedFile), []byte(cwd), 0o600)
		} else {
			cwd, _ = os.Getwd()
		}
		answer(f.begin(&fakeThread{Cwd: cwd}))
	case "thread/resume":
		if t = f.load(p.ThreadID); t == nil {
			refuse("no rollout found for thread id " + p.ThreadID)
			return
		}
		answer(f.begin(t))
	case "thread/fork":
		if t = f.load(p.ThreadID); t == nil {
			refuse("no rollout found for thread id " + p.ThreadID)
			return
		}
		turns := t.Turns
		if p.Last != "" {
			n := slices.IndexFunc(turns, func(t fakeTurn) bool { return t.ID == p.Last })
			if n < 0 {
				refuse("no turn " + p.Last)
				return
			}
			turns = turns[:n+1]
		}
		answer(f.begin(&fakeThread{Cwd: t.Cwd, Turns: turns}))
	case "turn/start":
		id := f.newID("turn")
		answer(map[string]any{"turn": map[string]any{"id": id, "items": []any{}, "status": "inProgress"}})
		ctx, cancel := context.WithCancel(context.Background())
		t.turn, t.cancel, t.steer = id, cancel, make(chan string, 10)
		go f.turn(ctx, t, id, strings.Join(text, "\n"))
	case "turn/steer":
		f.mu.Lock()
		running := t != nil && t.turn == p.Expected && t.turn != ""
		if running {
			t.steer <- strings.Join(text, "\n")
		}
		f.mu.Unlock()
		if !running {
			refuse("no active turn to steer")
			return
		}
		answer(map[string]any{"turnId": p.Expected})
	case "turn/interrupt":
		f.mu.Lock()
		running := t.turn == p.TurnID
		f.mu.Unlock()
		if !running {
			refuse("no active turn to interrupt")
			return
		}
		answer(map[string]any{})
		t.cancel()
	case "thread/backgroundTerminals/clean":
		f.mu.Lock()
		for _, c := range f.commands {
			_ = syscall.Kill(-c.Process.Pid, syscall.SIGTERM)
		}
		f.mu.Unlock()
		answer(map[string]any{})
	case "thread/backgroundTerminals/list":
		f.mu.Lock()
		data := []any{}
		for id, command := range f.left {
			data = append(data, map[string]any{"itemId": id, "processId": "2", "command": command, "cwd": ""})
		}
		f.mu.Unlock()
		answer(map[string]any{"data": data, "nextCursor": nil})
	case "thread/list":
		f.list(p.Cwd, p.Cursor, p.Limit, answer)
	case "thread/turns/list":
		f.turns(p.ThreadID, p.Cursor, p.Limit, answer, refuse)
	default:
		refuse("unknown method " + m.Method)
	}
}

// server says that an MCP server of a thread starts, and how that ends.
func (f *fake) server(thread, name, end string) {
	for _, status := range []string{"starting", end} {
		text := any(nil)
		if status == "failed" {
			text = "no luck with " + name
		}
		f.note("mcpServer/startupStatus/updated", map[string]any{"threadId": thread, "name": name, "status": status, "error": text})
	}
}

func (f *fake) begin(t *fakeThread) any {
	if t.ID == "" {
		t.ID = f.newID("thread")
	}
	f.threads[t.ID] = t
	return map[string]any{"thread": map[string]any{"id": t.ID, "cwd": t.Cwd, "turns": []any{}}, "model": "m1", "reasoningEffort": nil}
}

func (f *fake) load(id string) *fakeThread {
	b, err := os.ReadFile(filepath.Join(f.home, filepath.Base(id)+".json"))
	if err != nil {
		return nil
	}
	var t fakeThread
	if json.Unmarshal(b, &t) != nil {
		return nil
	}
	return &t
}

func (f *fake) save(t *fakeThread) {
	b, _ := json.Marshal(t)
	name := filepath.Join(f.home, t.ID+".json")
	_ = os.WriteFile(name+".tmp", b, 0o600)
	_ = os.Rename(name+".tmp", name)
}

func (f *fake) list(cwd any, cursor string, limit int, answer func(any)) {
	names, _ := filepath.Glob(filepath.Join(f.home, "*.json"))
	var all []*fakeThread
	for _, n := range names {
		t := f.load(strings.TrimSuffix(filepath.Base(n), ".json"))
		if t != nil && len(t.Turns) > 0 && (cwd == nil || t.Cwd == cwd) {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b *fakeThread) int { return int(b.At - a.At) })
	from, _ := strconv.Atoi(cursor)
	data, next := []any{}, any(nil)
	for i, t := range all[min(from, len(all)):] {
		if i == limit {
			next = strconv.Itoa(from + i)
			break
		}
		data = append(data, map[string]any{"id": t.ID, "cwd": t.Cwd, "preview": t.Turns[0].Items[0]["content"].([]any)[0].(map[string]any)["text"],
			"createdAt": t.Turns[0].At / 1e9, "updatedAt": t.At / 1e9, "model": "m1", "name": nil})
	}
	answer(map[string]any{"data": data, "nextCursor": next})
}

func (f *fake) turns(id, cursor string, limit int, answer func(any), refuse func(string)) {
	t := f.load(id)
	if t == nil {
		refuse("no rollout found for thread id " + id)
		return
	}
	from, _ := strconv.Atoi(cursor)
	data, next := []any{}, any(nil)
	for i, turn := range t.Turns[min(from, len(t.Turns)):] {
		if i == limit {
			next = strconv.Itoa(from + i)
			break
		}
		data = append(data, map[string]any{"id": turn.ID, "status": turn.Status, "startedAt": turn.At / 1e9, "items": turn.Items})
	}
	answer(map[string]any{"data": data, "nextCursor": next})
}
