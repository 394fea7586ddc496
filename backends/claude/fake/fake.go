// Package fake is a stand-in for Claude Code, for tests: it speaks the program's
// lines as they were heard and does what the prompt's lines say. It must not
// know the driver.
package fake

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
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

// Var names the folder in which Main keeps transcripts.
const Var = "CLAUDE_FAKE_HOME"

// KeyVar says where the key of the account comes from.
const KeyVar = "CLAUDE_FAKE_KEY"

// Scripted are its lines, for the contract suite.
var Scripted = contract.Config{
	Text: "say hello out there", TextWant: "hello out there",
	Long: "stream 10000000 64 1",
	Big:  "stream 3000 1000", BigBytes: 3_000_000,
	Slow: "sleep 250",
	Fail: "fail the disk is full", FailWant: "the disk is full",
	Ask:   "ask Which colour? | red | blue",
	Exec:  func(command string) string { return "run " + command },
	Forks: true, ForksAt: true,
}

// ServersVar has its MCP servers, a line each: a name and a status.
const ServersVar = "CLAUDE_FAKE_SERVERS"

type fields = map[string]any

type fake struct {
	home, cwd, session string
	out                sync.Mutex

	mu      sync.Mutex
	serial  int
	waiting map[string]chan json.RawMessage // answers by request id
	queue   []fakeMessage
	cancel  context.CancelFunc // of the running turn
	begin   chan struct{}
	deaf    bool
	servers []server
}

func uuid() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

type fakeMessage struct{ uuid, text string }

// Main is the program.
func Main() {
	if slices.Contains(os.Args, "--version") {
		fmt.Println("2.1.332 (Claude Code)")
		return
	}
	f := &fake{home: os.Getenv(Var), session: uuid(), waiting: map[string]chan json.RawMessage{}, begin: make(chan struct{}, 1)}
	f.cwd, _ = os.Getwd()
	for line := range strings.Lines(os.Getenv(ServersVar)) {
		name, status, _ := strings.Cut(strings.TrimSpace(line), " ")
		f.servers = append(f.servers, server{name: name, status: status})
	}
	arg := func(name string) string {
		if i := slices.Index(os.Args, name); i >= 0 && i+1 < len(os.Args) {
			return os.Args[i+1]
		}
		return ""
	}
	if id := arg("--resume"); id != "" {
		old, err := os.ReadFile(f.transcript(id))
		if err != nil {
			fmt.Fprintln(os.Stderr, "No conversation found with session ID: "+id)
			f.say(fields{"type": "result", "subtype": "error_during_execution", "is_error": true, "errors": []string{"No conversation found with session ID: " + id}, "session_id": id})
			os.Exit(1)
		}
		f.session = id
		if slices.Contains(os.Args, "--fork-session") {
			f.session = arg("--session-id")
			_ = os.WriteFile(f.transcript(f.session), bytes.ReplaceAll(old, []byte(id), []byte(f.session)), 0o600)
		}
	} else if id := arg("--session-id"); id != "" {
		f.session = id
	}
	go f.work()
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		f.heard(line)
	}
}

func (f *fake) heard(line []byte) {
	var r struct {
		Type      string         `json:"type"`
		UUID      string         `json:"uuid"`
		RequestID string         `json:"request_id"`
		Request   map[string]any `json:"request"`
		Response  struct {
			RequestID string          `json:"request_id"`
			Response  json.RawMessage `json:"response"`
		} `json:"response"`
		Message struct {
			Content []struct {
				Text string `json:"text"`
			} `json:"content"`
		} `json:"message"`
	}
	if json.Unmarshal(line, &r) != nil {
		fmt.Fprintln(os.Stderr, "Error parsing streaming input line")
		os.Exit(1)
	}
	switch r.Type {
	case "control_request":
		f.control(r.RequestID, r.Request)
	case "control_response":
		f.mu.Lock()
		ch := f.waiting[r.Response.RequestID]
		delete(f.waiting, r.Response.RequestID)
		f.mu.Unlock()
		if ch != nil {
			ch <- r.Response.Response
		}
	case "user":
		text := ""
		for _, b := range r.Message.Content {
			text += b.Text
		}
		f.lifecycle(r.UUID, "queued")
		f.mu.Lock()
		f.queue = append(f.queue, fakeMessage{r.UUID, text})
		f.mu.Unlock()
		select {
		case f.begin <- struct{}{}:
		default:
		}
	}
}

func (f *fake) control(id string, q map[string]any) {
	answer := fields{}
	switch q["subtype"] {
	case "initialize":
		answer = fields{"claude_code_version": "2.1.332",
			"commands": []fields{{"name": "compact", "description": "Shorten the conversation", "argumentHint": "[what to keep]"}, {"name": "review", "description": "Look at a change"}},
			"agents":   []fields{{"name": "Explore", "description": "Looks around"}},
			"models": []fields{{"value": "default", "displayName": "Default", "supportedEffortLevels": []string{"low", "high"}, "supportsAdaptiveThinking": true},
				{"value": "haiku", "displayName": "Haiku"}},
			"account": fields{"tokenSource": "none", "apiKeySource": os.Getenv(KeyVar)}}
	case "mcp_status":
		answer = fields{"mcpServers": f.status(true)}
	case "mcp_toggle", "mcp_reconnect":
		on, toggle := q["enabled"].(bool)
		f.switchServer(q["serverName"], on || !toggle)
	case "mcp_set_servers":
		set, _ := q["servers"].(map[string]any)
		f.setServers(set)
	case "interrupt":
		f.mu.Lock()
		dropped := f.queue
		f.queue = nil
		cancel, deaf := f.cancel, f.deaf
		f.mu.Unlock()
		for _, m := range dropped {
			f.lifecycle(m.uuid, "cancelled")
		}
		if deaf {
			return
		}
		if cancel != nil {
			cancel()
		}
	}
	f.say(fields{"type": "control_response", "response": fields{"subtype": "success", "request_id": id, "response": answer}})
}

// server is one of ServersVar: "NAME STATUS".
type server struct {
	name, status string
	set          bool
}

func (f *fake) status(whole bool) []fields {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := []fields{}
	for _, s := range f.servers {
		row := fields{"name": s.name, "status": s.status}
		if whole {
			row["config"] = fields{"type": "http", "url": "https://key@example.com/" + s.name + "?key=1"}
			switch s.status {
			case "failed":
				row["error"] = "nobody is there"
			case "rejected":
				row["status"], row["error"] = "failed", "Server rejected the configured Authorization header (HTTP 401)."
			}
		}
		out = append(out, row)
	}
	return out
}

// setServers has the servers of that name as they are told now; what an earlier
// call told of, and this one does not, is gone.
func (f *fake) setServers(set map[string]any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.servers = slices.DeleteFunc(f.servers, func(s server) bool { return s.set && set[s.name] == nil })
	for i := range f.servers {
		s := &f.servers[i]
		told, _ := set[s.name].(map[string]any)
		if told == nil {
			continue
		}
		s.set, s.status = true, "rejected"
		headers, _ := told["headers"].(map[string]any)
		if headers["Authorization"] == "Bearer good" && told["url"] == "https://key@example.com/"+s.name+"?key=1" && told["type"] == "http" {
			s.status = "connected"
		}
	}
}

func (f *fake) switchServer(name any, on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.servers {
		if f.servers[i].name == name {
			f.servers[i].status = map[bool]string{true: "connected", false: "disabled"}[on]
		}
	}
}

func (f *fake) say(v fields) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	f.out.Lock()
	defer f.out.Unlock()
	_, _ = os.Stdout.Write(append(b, '\n'))
}

// tell is say for what bears the conversation's id.
func (f *fake) tell(v fields) {
	v["session_id"], v["uuid"] = f.session, uuid()
	f.say(v)
}

func (f *fake) lifecycle(id, state string) {
	f.tell(fields{"type": "command_lifecycle", "command_uuid": id, "state": state})
}

func (f *fake) event(e fields) {
	f.tell(fields{"type": "stream_event", "event": e, "parent_tool_use_id": nil})
}

func (f *fake) newID(kind string) string {
	f.serial++
	return fmt.Sprintf("%s_%d_%d", kind, os.Getpid(), f.serial)
}

func (f *fake) transcript(id string) string {
	dir := filepath.Join(f.home, "projects", strings.NewReplacer("/", "-", ".", "-", "_", "-").Replace(f.cwd))
	_ = os.MkdirAll(dir, 0o700)
	return filepath.Join(dir, id+".jsonl")
}

// keep writes down what was told under an id.
func (f *fake) keep(kind string, id any, message fields) {
	b, _ := json.Marshal(fields{"type": kind, "uuid": id, "sessionId": f.session, "cwd": f.cwd, "isSidechain": false,
		"timestamp": time.Now().UTC().Format(time.RFC3339Nano), "message": message})
	file, err := os.OpenFile(f.transcript(f.session), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, _ = file.Write(append(b, '\n'))
		_ = file.Close()
	}
}

// record tells a message of the conversation, and keeps it.
func (f *fake) record(kind string, message fields, extra any) {
	v := fields{"type": kind, "message": message, "parent_tool_use_id": nil, "tool_use_result": extra}
	f.tell(v)
	f.keep(kind, v["uuid"], message)
}

var errFake = errors.New("failed")

// work runs turns, one after another.
func (f *fake) work() {
	for range f.begin {
		for {
			f.mu.Lock()
			if len(f.queue) == 0 {
				f.mu.Unlock()
				break
			}
			m := f.queue[0]
			f.queue = f.queue[1:]
			ctx, cancel := context.WithCancel(context.Background())
			f.cancel = cancel
			f.mu.Unlock()
			f.turn(ctx, m)
			f.mu.Lock()
			f.cancel = nil
			f.mu.Unlock()
			cancel()
		}
	}
}

func (f *fake) turn(ctx context.Context, m fakeMessage) {
	f.lifecycle(m.uuid, "started")
	f.tell(fields{"type": "system", "subtype": "init", "model": "fake-1", "cwd": f.cwd, "mcp_servers": f.status(false),
		"skills": []string{"review", "secret"}, "slash_commands": []string{"compact", "review"}})
	f.keep("user", m.uuid, fields{"role": "user", "content": []fields{{"type": "text", "text": m.text}}})
	lines := strings.Split(m.text, "\n")
	var err error
	failure := ""
	for len(lines) > 0 && err == nil {
		line := lines[0]
		lines = lines[1:]
		if failure, err = f.do(ctx, line); err == nil {
			f.mu.Lock()
			queued := f.queue
			f.queue = nil
			f.mu.Unlock()
			for _, q := range queued {
				f.lifecycle(q.uuid, "started")
				lines = append(strings.Split(q.text, "\n"), lines...)
			}
		}
	}
	use := fields{"fake-1": fields{"inputTokens": 10, "outputTokens": 2, "costUSD": 0.01, "contextWindow": 1000}}
	r := fields{"type": "result", "subtype": "success", "is_error": false, "modelUsage": use, "model_usage_since_last_result": use}
	switch {
	case ctx.Err() != nil:
		r["subtype"], r["is_error"], r["terminal_reason"] = "error_during_execution", true, "aborted_streaming"
		r["errors"] = []string{"[ede_diagnostic] result_type=user"}
		f.record("user", fields{"role": "user", "content": []fields{{"type": "text", "text": "[Request interrupted by user]"}}}, nil)
	case failure != "":
		f.tell(fields{"type": "assistant", "is_api_error_message": true, "message": fields{"id": f.newID("msg"), "model": "<synthetic>", "content": []fields{{"type": "text", "text": failure}}}})
		r["is_error"], r["api_error_status"], r["result"] = true, 400, failure
	}
	f.tell(r)
	f.lifecycle(m.uuid, "completed")
}

func (f *fake) do(ctx context.Context, line string) (failure string, err error) {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "say":
		return "", f.text(ctx, rest)
	case "stream":
		var n, size, pause int
		_, _ = fmt.Sscan(rest, &n, &size, &pause)
		id := f.start("text", fields{"type": "text", "text": ""})
		piece := strings.Repeat("x", size)
		for i := 0; i < n && ctx.Err() == nil; i++ {
			f.delta(fields{"type": "text_delta", "text": piece})
			time.Sleep(time.Duration(pause) * time.Millisecond)
		}
		f.stop(id, nil)
		return "", ctx.Err()
	case "sleep":
		ms, _ := strconv.Atoi(rest)
		select {
		case <-time.After(time.Duration(ms) * time.Millisecond):
		case <-ctx.Done():
		}
		return "", ctx.Err()
	case "fail":
		return rest, errFake
	case "run":
		return "", f.bash(ctx, rest)
	case "ask":
		parts := strings.Split(rest, " | ")
		options := []fields{}
		for _, p := range parts[1:] {
			options = append(options, fields{"label": p, "description": ""})
		}
		input := fields{"questions": []fields{{"question": parts[0], "header": "Pick", "options": options, "multiSelect": false}}}
		id := f.call("AskUserQuestion", input)
		a, err := f.may(ctx, "AskUserQuestion", id, input)
		if err != nil {
			return "", err
		}
		said := "nothing"
		if a.Behavior == "allow" {
			said = string(a.UpdatedInput)
			if i := strings.Index(said, `"answers":`); i >= 0 {
				said, _, _ = strings.Cut(said[i:], "}")
			}
		}
		f.result(id, said, a.Behavior != "allow", nil)
		return "", f.text(ctx, "you said "+said)
	case "die":
		fmt.Fprintln(os.Stderr, rest)
		os.Exit(9)
	case "deaf": // to interrupts
		f.mu.Lock()
		f.deaf = true
		f.mu.Unlock()
		f.start("text", fields{"type": "text", "text": "I"})
		select {}
	case "doomed":
		go func() {
			for {
				if _, err := os.Stat("die"); err == nil {
					os.Exit(9)
				}
				time.Sleep(5 * time.Millisecond)
			}
		}()
	case "noise":
		f.out.Lock()
		fmt.Println(rest)
		fmt.Println(`{"type":`)
		f.out.Unlock()
	case "huge":
		f.out.Lock()
		contract.PrintHuge(`{"type":"assistant","message":"`, `"}`)
		f.out.Unlock()
	}
	return "", nil
}

func (f *fake) start(kind string, block fields) string {
	id := f.newID("msg")
	f.event(fields{"type": "message_start", "message": fields{"id": id, "model": "fake-1", "usage": fields{"input_tokens": 10, "output_tokens": 1}}})
	f.event(fields{"type": "content_block_start", "index": 0, "content_block": block})
	return id
}

func (f *fake) delta(d fields) {
	f.event(fields{"type": "content_block_delta", "index": 0, "delta": d})
}

func (f *fake) stop(id string, whole fields) {
	if whole != nil {
		m := fields{"id": id, "role": "assistant", "model": "fake-1", "content": []fields{whole}}
		f.record("assistant", m, nil)
	}
	f.event(fields{"type": "content_block_stop", "index": 0})
	f.event(fields{"type": "message_delta", "usage": fields{"output_tokens": 2}})
	f.event(fields{"type": "message_stop"})
}

func (f *fake) text(ctx context.Context, text string) error {
	id := f.start("text", fields{"type": "text", "text": ""})
	for _, w := range strings.SplitAfter(text, " ") {
		f.delta(fields{"type": "text_delta", "text": w})
	}
	f.stop(id, fields{"type": "text", "text": text})
	return ctx.Err()
}

func (f *fake) call(name string, input fields) string {
	id := f.newID("toolu_of_the_stand_in")
	msg := f.start("tool_use", fields{"type": "tool_use", "id": id, "name": name, "input": fields{}})
	b, _ := json.Marshal(input)
	f.delta(fields{"type": "input_json_delta", "partial_json": ""})
	f.delta(fields{"type": "input_json_delta", "partial_json": string(b)})
	f.stop(msg, fields{"type": "tool_use", "id": id, "name": name, "input": input})
	return id
}

type fakeAnswer struct {
	Behavior     string          `json:"behavior"`
	UpdatedInput json.RawMessage `json:"updatedInput"`
	Message      string          `json:"message"`
}

func (f *fake) may(ctx context.Context, name, id string, input fields) (a fakeAnswer, err error) {
	request, ch := uuid(), make(chan json.RawMessage, 1)
	f.mu.Lock()
	f.waiting[request] = ch
	f.mu.Unlock()
	f.say(fields{"type": "control_request", "request_id": request, "request": fields{"subtype": "can_use_tool", "tool_name": name,
		"input": input, "tool_use_id": id, "permission_suggestions": []fields{{"type": "addRules", "destination": "localSettings"}}}})
	select {
	case raw := <-ch:
		err = json.Unmarshal(raw, &a)
		if a.Behavior == "allow" && len(a.UpdatedInput) == 0 {
			fmt.Fprintln(os.Stderr, "an allowing answer without the input")
			os.Exit(8)
		}
		return a, err
	case <-ctx.Done():
		f.say(fields{"type": "control_cancel_request", "request_id": request})
		return a, ctx.Err()
	}
}

func (f *fake) result(id, content string, failed bool, extra any) {
	m := fields{"role": "user", "content": []fields{{"type": "tool_result", "tool_use_id": id, "content": content, "is_error": failed}}}
	f.record("user", m, extra)
}

func (f *fake) bash(ctx context.Context, command string) error {
	input := fields{"command": command, "description": "runs it"}
	id := f.call("Bash", input)
	a, err := f.may(ctx, "Bash", id, input)
	if err != nil {
		return err
	}
	if a.Behavior != "allow" {
		f.result(id, a.Message, true, nil)
		return nil
	}
	var in struct {
		Command string `json:"command"`
	}
	_ = json.Unmarshal(a.UpdatedInput, &in)
	before, _ := os.ReadFile(os.Getenv("CLAUDE_ENV_FILE")) // if there is one
	cmd := exec.Command("/bin/sh", "-c", string(before)+in.Command)
	cmd.Env = append(os.Environ(), "CLAUDECODE=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &out, 100*time.Millisecond
	if err := cmd.Start(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer stop()
	err = cmd.Wait()
	text := strings.TrimSuffix(out.String(), "\n")
	switch {
	case ctx.Err() != nil:
		f.result(id, "The user doesn't want to proceed with this tool use.", true, nil)
	case err != nil:
		f.result(id, strings.TrimSuffix(fmt.Sprintf("Exit code %d\n%s", cmd.ProcessState.ExitCode(), text), "\n"), true, "Error: Exit code")
	default:
		f.result(id, text, false, fields{"stdout": text, "stderr": "", "interrupted": false})
	}
	return ctx.Err()
}
