// Package fake is a stand-in for pi, for tests: it says what the real one says on
// its RPC wire and plays prompts as scripts. It must not know the driver.
package fake

import (
	"bufio"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/polyhost/polyhost/backends/contract"
)

// Scripted are its lines, for the contract suite.
var Scripted = contract.Config{
	Text: "say hello out there", TextWant: "hello out there", Long: "long", Slow: "sleep",
	Forks: true, ForksAt: true,
	Fail: "fail 400 the disk is full", FailWant: "the disk is full", Ask: "ask",
	Exec:       func(command string) string { return "run " + command },
	ClientTool: func(tool, input string) string { return "call " + tool + " " + input },
}

type object = map[string]any

// toolsCommand is the gate's command that offers tools; own are pi's own tools.
const toolsCommand = "polyhost-tools"

var own = []string{"read", "grep", "find", "ls", "write", "edit", "bash"}

type fake struct {
	out     sync.Mutex
	mu      sync.Mutex
	session string
	file    string
	last    any // the id of the file's newest entry
	model   object
	level   string
	tools   map[string]bool
	busy    bool
	deaf    bool
	stop    chan struct{} // closed by abort
	ended   chan struct{} // closed at the end of a run
	steers  []string
	dialogs map[string]chan object
	fails   map[string]bool
	wg      sync.WaitGroup
}

// Main is the program; it returns the exit status.
func Main() int {
	if slices.Contains(os.Args, "--version") {
		fmt.Fprintln(os.Stderr, "0.73.1")
		return 0
	}
	f := &fake{tools: map[string]bool{}, dialogs: map[string]chan object{}, fails: map[string]bool{}, level: "medium",
		model: fakeModel("stub-large"), session: "01a22a2d-" + strings.ToLower(rand.Text()[:12])}
	dir := filepath.Join(os.Getenv("PI_CODING_AGENT_DIR"), "sessions", "--w--")
	if err := f.open(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return 0
		}
		var command struct {
			ID, Type, Message, Provider, ModelID, Level string
			Value                                       *string
			Confirmed                                   *bool
			Cancelled                                   bool
			Images                                      []json.RawMessage
		}
		if json.Unmarshal(line, &command) != nil {
			f.say(object{"type": "response", "command": "parse", "success": false, "error": "Failed to parse command"})
			continue
		}
		reply := object{"id": command.ID, "type": "response", "command": command.Type, "success": true}
		switch command.Type {
		case "get_state":
			f.mu.Lock()
			reply["data"] = object{"model": f.model, "thinkingLevel": f.level, "isStreaming": f.busy, "sessionId": f.session, "sessionFile": f.file}
			f.mu.Unlock()
		case "get_available_models":
			reply["data"] = object{"models": []any{fakeModel("stub-large"), fakeModel("stub-small")}}
		case "get_commands":
			reply["data"] = object{"commands": []any{object{"name": "review", "description": "Reviews"}, object{"name": toolsCommand}}}
		case "set_model":
			if command.Provider != "stub" || !strings.HasPrefix(command.ModelID, "stub-") {
				reply["success"], reply["error"] = false, "Model not found: "+command.Provider+"/"+command.ModelID
			} else {
				f.model = fakeModel(command.ModelID)
			}
		case "set_thinking_level":
			f.level = command.Level
			f.say(object{"type": "thinking_level_changed", "level": command.Level})
		case "prompt":
			if tools, ok := strings.CutPrefix(command.Message, "/"+toolsCommand+" "); ok {
				f.offer(tools)
				break
			}
			if command.Message == "/nothing" {
				break // carried out without the model
			}
			f.mu.Lock()
			if f.busy {
				reply["success"], reply["error"] = false, "Agent is already processing."
				f.mu.Unlock()
				break
			}
			f.busy, f.stop, f.ended = true, make(chan struct{}), make(chan struct{})
			f.mu.Unlock()
			f.say(reply)
			f.wg.Add(1)
			go f.run(command.Message, len(command.Images))
			continue
		case "steer":
			f.mu.Lock()
			f.steers = append(f.steers, command.Message)
			f.mu.Unlock()
			f.say(object{"type": "queue_update", "steering": []string{command.Message}, "followUp": []string{}})
		case "abort":
			f.mu.Lock()
			busy, stop, ended, deaf := f.busy, f.stop, f.ended, f.deaf
			f.mu.Unlock()
			if busy && !deaf {
				close(stop)
				go func() { <-ended; f.say(reply) }()
			} else if !busy {
				f.say(reply)
			}
			continue
		case "extension_ui_response":
			f.mu.Lock()
			ch := f.dialogs[command.ID]
			delete(f.dialogs, command.ID)
			f.mu.Unlock()
			if ch != nil {
				ch <- object{"value": command.Value, "confirmed": command.Confirmed, "cancelled": command.Cancelled}
			}
			continue
		default:
			reply = object{"type": "response", "command": command.Type, "success": false, "error": "Unknown command: " + command.Type}
		}
		f.say(reply)
	}
}

func fakeModel(id string) object {
	return object{"id": id, "name": "Stub " + id, "provider": "stub", "reasoning": true, "input": []string{"text", "image"}, "contextWindow": 200000}
}

// open finds the conversation that the arguments name, or begins one.
func (f *fake) open(dir string) error {
	arg := func(name string) string {
		if i := slices.Index(os.Args, name); i >= 0 && i+1 < len(os.Args) {
			return os.Args[i+1]
		}
		return ""
	}
	wd, _ := os.Getwd()
	stamp := time.Now().UTC()
	for _, name := range []string{"--session", "--fork"} {
		id := arg(name)
		if id == "" {
			continue
		}
		found, _ := filepath.Glob(filepath.Join(dir, "*_"+id+".jsonl"))
		if name == "--fork" && filepath.IsAbs(id) {
			found = []string{id}
		}
		if len(found) != 1 {
			return fmt.Errorf("no session found matching '%s'", id)
		}
		b, err := os.ReadFile(found[0])
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(b)) {
			var e struct{ ID string }
			if json.Unmarshal([]byte(line), &e) == nil {
				f.last = e.ID
			}
		}
		if name == "--session" {
			f.session, f.file = id, found[0]
			return nil
		}
		_, rest, _ := strings.Cut(string(b), "\n")
		f.keepAt(dir, stamp)
		return os.WriteFile(f.file, []byte(string(must(object{"type": "session", "version": 3, "id": f.session, "timestamp": stamp, "cwd": wd}))+"\n"+rest), 0o600)
	}
	f.keepAt(dir, stamp)
	return nil
}

func (f *fake) keepAt(dir string, stamp time.Time) {
	_ = os.MkdirAll(dir, 0o700)
	f.file = filepath.Join(dir, stamp.Format("2006-01-02T15-04-05-000Z")+"_"+f.session+".jsonl")
}

// keep appends a message to the conversation's file.
func (f *fake) keep(m object) {
	var b []byte
	if _, err := os.Stat(f.file); err != nil {
		wd, _ := os.Getwd()
		b = append(must(object{"type": "session", "version": 3, "id": f.session, "timestamp": time.Now().UTC(), "cwd": wd}), '\n')
	}
	parent := f.last
	f.last = strings.ToLower(rand.Text()[:8])
	b = append(append(b, must(object{"type": "message", "id": f.last, "parentId": parent, "timestamp": time.Now().UTC(), "message": m})...), '\n')
	file, err := os.OpenFile(f.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, _ = file.Write(b)
		_ = file.Close()
	}
}

func must(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// say writes a record, the type first as pi does.
func (f *fake) say(o object) {
	rest := object{}
	for k, v := range o {
		if k != "type" {
			rest[k] = v
		}
	}
	b := must(rest)
	line := fmt.Sprintf(`{"type":%q`, o["type"])
	if len(rest) > 0 {
		line += "," + string(b[1:])
	} else {
		line += "}"
	}
	f.out.Lock()
	defer f.out.Unlock()
	_, _ = io.WriteString(os.Stdout, line+"\n")
}

func (f *fake) offer(tools string) {
	var list []struct{ Name string }
	_ = json.Unmarshal([]byte(tools), &list)
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.tools)
	for _, t := range list {
		f.tools[t.Name] = true
	}
}

func (f *fake) stopped() bool {
	select {
	case <-f.stop:
		return true
	default:
		return false
	}
}

func text(s string) []any { return []any{object{"type": "text", "text": s}} }

// assistant says a message of the model, streamed word by word.
func (f *fake) assistant(kind, said string, pause time.Duration, stop, failure string) {
	base := func(content []any) object {
		m := object{"role": "assistant", "content": content, "api": "openai-completions", "provider": "stub", "model": f.model["id"], "stopReason": stop,
			"usage": object{"input": 10, "output": 2, "cost": object{"total": 0.5}}, "timestamp": time.Now().UnixMilli()}
		if failure != "" {
			m["errorMessage"] = failure
		}
		return m
	}
	f.say(object{"type": "message_start", "message": base([]any{})})
	content := []any{}
	if said != "" {
		f.update(object{"type": kind + "_start", "contentIndex": 0})
		so := ""
		for _, word := range strings.SplitAfter(said, " ") {
			if f.stopped() {
				stop, failure = "aborted", "Request was aborted"
				break
			}
			so += word
			f.update(object{"type": kind + "_delta", "contentIndex": 0, "delta": word})
			if pause > 0 {
				time.Sleep(pause)
			}
		}
		f.update(object{"type": kind + "_end", "contentIndex": 0, "content": so})
		content = text(so)
		if kind == "thinking" {
			content = []any{object{"type": "thinking", "thinking": so}}
		}
	}
	m := base(content)
	f.say(object{"type": "message_end", "message": m})
	f.keep(m)
	f.say(object{"type": "turn_end", "message": m, "toolResults": []any{}})
}

func (f *fake) update(e object) {
	f.say(object{"type": "message_update", "assistantMessageEvent": e, "message": object{"role": "assistant", "type": "toolcall_", "content": []any{}}})
}

// run plays a prompt.
func (f *fake) run(prompt string, images int) {
	defer f.wg.Done()
	f.say(object{"type": "agent_start"})
	f.hear(prompt)
	failed := ""
	for line := range strings.Lines(prompt) {
		if failed = f.step(strings.TrimRight(line, "\n"), images); failed != "" || f.stopped() {
			break
		}
		f.mu.Lock()
		steers := f.steers
		f.steers = nil
		f.mu.Unlock()
		for _, s := range steers {
			f.hear(s)
			failed = f.step(s, 0)
		}
	}
	switch {
	case failed != "":
		f.assistant("text", "", 0, "error", failed)
	case f.stopped():
		f.assistant("text", "", 0, "aborted", "Request was aborted.")
	}
	f.mu.Lock()
	f.busy = false
	ended := f.ended
	f.mu.Unlock()
	f.say(object{"type": "agent_end", "messages": []any{}})
	close(ended)
	if strings.HasPrefix(failed, "5") {
		f.say(object{"type": "auto_retry_start", "attempt": 1, "maxAttempts": 1, "delayMs": 10, "errorMessage": failed})
		f.say(object{"type": "agent_start"})
		f.assistant("text", "", 0, "error", failed)
		f.say(object{"type": "agent_end", "messages": []any{}})
		f.say(object{"type": "auto_retry_end", "success": false, "attempt": 1, "finalError": failed})
	}
}

func (f *fake) hear(s string) {
	m := object{"role": "user", "content": text(s), "timestamp": time.Now().UnixMilli()}
	f.say(object{"type": "turn_start"})
	f.say(object{"type": "message_start", "message": m})
	f.say(object{"type": "message_end", "message": m})
	f.keep(m)
}

// step plays a line; it returns the error that ends the run.
func (f *fake) step(line string, images int) string {
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "say":
		f.assistant("text", rest, 0, "stop", "")
	case "think":
		f.assistant("thinking", rest, 0, "stop", "")
	case "long":
		f.assistant("text", strings.Repeat("word ", 100_000), time.Millisecond, "stop", "")
	case "sleep":
		time.Sleep(250 * time.Millisecond)
	case "images":
		f.assistant("text", fmt.Sprintf("%d images for %s at %s", images, f.model["id"], f.level), 0, "stop", "")
	case "fail":
		return rest
	case "die":
		fmt.Fprintln(os.Stderr, "out of memory")
		os.Exit(7)
	case "doomed":
		go func() {
			for {
				if _, err := os.Stat("die"); err == nil {
					os.Exit(9)
				}
				time.Sleep(5 * time.Millisecond)
			}
		}()
	case "deaf": // to aborts
		f.mu.Lock()
		f.deaf = true
		f.mu.Unlock()
		f.say(object{"type": "message_start", "message": object{"role": "assistant", "content": []any{}}})
		f.update(object{"type": "text_start", "contentIndex": 0})
		f.update(object{"type": "text_delta", "contentIndex": 0, "delta": "I"})
		select {}
	case "garbage":
		f.out.Lock()
		fmt.Println("not a record\n{\"type\":")
		f.out.Unlock()
	case "huge":
		f.out.Lock()
		contract.PrintHuge(`{"type":"response","command":"huge","error":"`, `"}`)
		f.out.Unlock()
	case "ask":
		answer := f.dialog(object{"method": "select", "title": "Which colour?", "options": []string{"red", "blue"}})
		value, _ := answer["value"].(*string)
		if value == nil {
			none := "nothing"
			value = &none
		}
		f.assistant("text", "You chose "+*value, 0, "stop", "")
	case "run":
		f.call("bash", must(object{"command": rest}), f.bash)
	case "write":
		f.call("write", must(object{"path": rest, "content": "new\n"}), func(_ string, in []byte) (string, bool) {
			var w struct{ Path, Content string }
			_ = json.Unmarshal(in, &w)
			return "Successfully wrote", os.WriteFile(w.Path, []byte(w.Content), 0o600) != nil
		})
	case "call":
		tool, input, _ := strings.Cut(rest, " ")
		f.mu.Lock()
		offered := f.tools[tool]
		f.mu.Unlock()
		result := ""
		f.call(tool, []byte(input), func(id string, in []byte) (string, bool) {
			if !offered {
				result = "Tool " + tool + " not found"
				return result, true
			}
			var answer struct {
				Output string
				Failed bool
			}
			_ = json.Unmarshal([]byte(f.gate("call", id, tool, in)), &answer)
			result = answer.Output
			return answer.Output, answer.Failed
		})
		f.assistant("text", "The tool said "+result, 0, "stop", "")
	}
	return ""
}

func (f *fake) dialog(o object) object {
	id, ch := "d-"+rand.Text(), make(chan object, 1)
	f.mu.Lock()
	f.dialogs[id] = ch
	f.mu.Unlock()
	o["type"], o["id"] = "extension_ui_request", id
	f.say(o)
	return <-ch
}

// gate asks as the extension does.
func (f *fake) gate(ask, call, tool string, input []byte) string {
	answer := f.dialog(object{"method": "input", "title": string(must(object{"polyhost": 1, "ask": ask, "call": call, "tool": tool, "input": json.RawMessage(input)}))})
	if value, _ := answer["value"].(*string); value != nil {
		return *value
	}
	return "{}"
}

// call makes a tool call and carries it out if the gate lets it pass.
func (f *fake) call(tool string, input []byte, do func(id string, input []byte) (string, bool)) {
	id := "call_" + rand.Text()
	whole := object{"type": "toolCall", "id": id, "name": tool, "arguments": json.RawMessage(input)}
	m := object{"role": "assistant", "content": []any{whole}, "provider": "stub", "model": "stub-large", "stopReason": "toolUse",
		"usage": object{"input": 5, "output": 1, "cost": object{"total": 0.25}}, "timestamp": time.Now().UnixMilli()}
	f.say(object{"type": "message_start", "message": object{"role": "assistant", "content": []any{}}})
	f.update(object{"type": "toolcall_start", "contentIndex": 0, "partial": object{"content": []any{object{"type": "toolCall", "id": id, "name": tool}}}})
	f.update(object{"type": "toolcall_delta", "contentIndex": 0, "delta": string(input)})
	f.update(object{"type": "toolcall_end", "contentIndex": 0, "toolCall": whole})
	f.say(object{"type": "message_end", "message": m})
	f.keep(m)
	f.say(object{"type": "tool_execution_start", "toolCallId": id, "toolName": tool, "args": json.RawMessage(input)})
	result, failed := "", false
	var verdict struct {
		Allow  bool
		Reason string
		Input  json.RawMessage
	}
	f.mu.Lock()
	client := f.tools[tool] || !slices.Contains(own, tool)
	f.mu.Unlock()
	if verdict.Allow = client; !client {
		_ = json.Unmarshal([]byte(f.gate("permission", id, tool, input)), &verdict)
	}
	switch {
	case !verdict.Allow:
		result, failed = "The call was not allowed. "+verdict.Reason, true
	case f.stopped():
		result, failed = "Operation aborted", true
	default:
		if verdict.Input != nil {
			input = verdict.Input
		}
		result, failed = do(id, input)
	}
	r := object{"role": "toolResult", "toolCallId": id, "toolName": tool, "content": text(result), "isError": failed, "timestamp": time.Now().UnixMilli()}
	f.say(object{"type": "tool_execution_end", "toolCallId": id, "toolName": tool, "result": object{"content": text(result)}, "isError": failed})
	f.say(object{"type": "message_end", "message": r})
	f.keep(r)
}

// bash runs a command and tells its whole output so far, as pi does.
func (f *fake) bash(id string, input []byte) (string, bool) {
	var in struct{ Command string }
	_ = json.Unmarshal(input, &in)
	cmd := exec.Command("bash", "-c", in.Command)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	r, w, err := os.Pipe()
	if err != nil {
		return err.Error(), true
	}
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		return err.Error(), true
	}
	_ = w.Close()
	done := make(chan struct{})
	go func() {
		select {
		case <-f.stop:
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		case <-done:
		}
	}()
	var so string
	buf := make([]byte, 4096)
	for {
		n, err := r.Read(buf)
		so += string(buf[:n])
		f.say(object{"type": "tool_execution_update", "toolCallId": id, "toolName": "bash", "partialResult": object{"content": text(so)}})
		if err != nil {
			break
		}
	}
	err = cmd.Wait()
	close(done)
	switch {
	case f.stopped():
		return so + "\n\nCommand aborted", true
	case err != nil:
		return fmt.Sprintf("%s\n\nCommand exited with code %d", so, cmd.ProcessState.ExitCode()), true
	}
	return so, false
}
