// Package fake is a stand-in for agents that speak the Agent Client Protocol,
// for tests: a program that behaves as the real ones were seen to, with a
// script for a model. It must not know the driver.
package fake

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/polyhost/polyhost/backends/contract"
)

// Var has the name of the agent that Main behaves like: gemini, opencode,
// claude or codex.
const Var = "POLYHOST_FAKE_ACP"

// LogVar names a file to which each method that was called is appended; it may
// be unset.
const LogVar = "POLYHOST_FAKE_ACP_LOG"

// LookVar names a directory that the list has a session of.
const LookVar = "POLYHOST_FAKE_ACP_LOOK"

// Scripted are its lines, for the contract suite.
var Scripted = contract.Config{
	Text: "say hello out there", TextWant: "hello out there",
	Long: "stream 10000000 64 1",
	Big:  "stream 2000 10000", BigBytes: 20_000_000,
	Fail: "fail the disk is full", FailWant: "the disk is full",
	Exec: func(command string) string { return "run " + command }, FixedInput: true,
}

// fake is an agent with a script for a model. It says things in the order and
// the shapes of the real agents.
type fake struct {
	flavour string
	mu      sync.Mutex // of out
	out     *bufio.Writer

	state   sync.Mutex
	answers map[string]chan json.RawMessage
	serial  int
	dir     string
	cancel  chan struct{} // closed by session/cancel
	mode    string
}

// What is looked at of the client's messages.
type (
	message struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
		Result json.RawMessage `json:"result"`
	}
	block struct {
		Type string `json:"type"`
		Text string `json:"text"`
		Data []byte `json:"data"`
	}
	permissionAnswer struct {
		Outcome struct {
			Outcome string `json:"outcome"`
			Option  string `json:"optionId"`
		} `json:"outcome"`
	}
)

// Main is the program. It ends with its input, except that codex goes on.
func Main() {
	flavour := os.Getenv(Var)
	f := &fake{flavour: flavour, out: bufio.NewWriter(os.Stdout), answers: map[string]chan json.RawMessage{}, mode: "auto"}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			if flavour == "codex" {
				select {} // it does not heed the end of its input
			}
			os.Exit(0)
		}
		var m message
		if json.Unmarshal(line, &m) != nil {
			fmt.Fprintln(os.Stderr, "not JSON")
			continue
		}
		f.take(&m)
	}
}

func (f *fake) send(v any) {
	b, _ := json.Marshal(v)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.out.Write(append(b, '\n'))
	f.out.Flush()
}

type obj = map[string]any

func (f *fake) reply(id json.RawMessage, result any) {
	f.send(obj{"jsonrpc": "2.0", "id": id, "result": result})
}

func (f *fake) fail(id json.RawMessage, code int, text string, data any) {
	f.send(obj{"jsonrpc": "2.0", "id": id, "error": obj{"code": code, "message": text, "data": data}})
}

func (f *fake) update(kind string, fields obj) {
	fields["sessionUpdate"] = kind
	f.send(obj{"jsonrpc": "2.0", "method": "session/update", "params": obj{"sessionId": "s", "update": fields}})
}

func (f *fake) take(m *message) {
	var p struct {
		Session string `json:"sessionId"`
		Dir     string `json:"cwd"`
		Mode    string `json:"modeId"`
		Config  string `json:"configId"`
		Value   string `json:"value"`
		Prompt  []block
		Meta    json.RawMessage `json:"_meta"`
	}
	_ = json.Unmarshal(m.Params, &p)
	f.note(m.Method, strings.TrimSpace(p.Session+" "+string(p.Meta)))
	switch m.Method {
	case "":
		f.state.Lock()
		ch := f.answers[string(m.ID)]
		delete(f.answers, string(m.ID))
		f.state.Unlock()
		if ch != nil {
			ch <- m.Result
		}
	case "initialize":
		caps := obj{"loadSession": true, "promptCapabilities": obj{"image": true, "embeddedContext": true}, "mcpCapabilities": obj{"http": true}}
		if f.flavour != "gemini" {
			session := obj{"list": obj{}, "resume": obj{}, "close": obj{}}
			if f.flavour != "codex" {
				session["fork"] = obj{}
			}
			caps["sessionCapabilities"] = session
		}
		f.reply(m.ID, obj{"protocolVersion": 1, "agentCapabilities": caps, "agentInfo": obj{"name": f.flavour, "version": "9.8.7"},
			"authMethods": []any{obj{"id": "gemini-api-key", "name": "key"}}})
	case "session/new", "session/fork":
		f.dir = p.Dir
		f.reply(m.ID, f.session(fmt.Sprintf("%s-%d-%s", f.flavour, os.Getpid(), strings.TrimPrefix(p.Session, f.flavour))))
		f.update("available_commands_update", obj{"availableCommands": []any{obj{"name": "init", "description": "begin", "input": obj{"hint": "what"}}}})
	case "session/load", "session/resume":
		f.dir = p.Dir
		if !strings.HasPrefix(p.Session, f.flavour) {
			f.fail(m.ID, -32002, "Resource not found", nil)
			return
		}
		if m.Method == "session/load" {
			f.update("user_message_chunk", obj{"content": obj{"type": "text", "text": "say before"}})
		}
		f.reply(m.ID, f.session(""))
		if m.Method == "session/load" { // the rest of the history comes late
			f.update("agent_message_chunk", obj{"content": obj{"type": "text", "text": "old words"}})
			f.update("tool_call", obj{"toolCallId": "old", "title": "ls", "kind": "execute", "status": "completed", "content": []any{}})
			f.update("user_message_chunk", obj{"content": obj{"type": "text", "text": "again"}})
			f.update("agent_message_chunk", obj{"content": obj{"type": "text", "text": "more old words"}})
		}
	case "session/set_mode":
		f.mode = p.Mode
		f.reply(m.ID, obj{})
	case "session/set_config_option":
		if p.Config == "model" && p.Value != "small" && p.Value != "large" {
			f.fail(m.ID, -32602, "Invalid params: no such model", nil)
			return
		}
		f.reply(m.ID, f.session(""))
	case "session/list":
		f.reply(m.ID, obj{"sessions": []any{
			obj{"sessionId": f.flavour + "-0", "cwd": "/tmp/one", "title": "Older words", "updatedAt": "2026-11-29T01:55:17.410Z"},
			obj{"sessionId": f.flavour + "-1", "cwd": "/tmp/one", "title": "First words", "updatedAt": "2026-11-30T01:55:17.410Z"},
			obj{"sessionId": f.flavour + "-look", "cwd": os.Getenv(LookVar), "title": "New session"}}})
	case "session/close":
		f.reply(m.ID, obj{})
	case "session/cancel":
		f.state.Lock()
		if f.cancel != nil {
			close(f.cancel)
			f.cancel = nil
		}
		f.state.Unlock()
	case "session/prompt":
		f.state.Lock()
		cancel := make(chan struct{})
		f.cancel = cancel
		f.state.Unlock()
		go f.prompt(m.ID, p.Prompt, cancel)
	default:
		if len(m.ID) > 0 {
			f.fail(m.ID, -32601, "Method not found", nil)
		}
	}
}

// note writes down what was called.
func (f *fake) note(method, of string) {
	path := os.Getenv(LogVar)
	if path == "" || method == "" {
		return
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, _ = fmt.Fprintln(file, strings.TrimSpace(method+" "+of))
		_ = file.Close()
	}
}

func (f *fake) session(id string) obj {
	a := obj{}
	if id != "" {
		a["sessionId"] = id
	}
	if f.flavour == "gemini" || f.flavour == "claude" {
		a["modes"] = obj{"currentModeId": f.mode, "availableModes": []any{obj{"id": "default", "name": "Default"}, obj{"id": "auto", "name": "Auto"}, obj{"id": "plan", "name": "Plan"}}}
	}
	if f.flavour == "gemini" {
		a["models"] = obj{"currentModelId": "large", "availableModels": []any{obj{"modelId": "small", "name": "Small"}, obj{"modelId": "large", "name": "Large"}}}
	} else {
		a["configOptions"] = []any{
			obj{"id": "model", "category": "model", "type": "select", "currentValue": "large", "options": []any{obj{"value": "small", "name": "Small"}, obj{"value": "large", "name": "Large"}}},
			obj{"id": "effort", "category": "thought_level", "type": "select", "currentValue": "low", "options": []any{obj{"value": "low", "name": "Low"}, obj{"value": "high", "name": "High"}}},
		}
	}
	return a
}

var errDenied = errors.New("denied")

func (f *fake) prompt(id json.RawMessage, prompt []block, cancel chan struct{}) {
	stop := "end_turn"
	for _, line := range strings.Split(prompt[0].Text, "\n") {
		word, rest, _ := strings.Cut(line, " ")
		var err error
		switch word {
		case "run":
			err = f.run(rest, cancel)
		case "edit":
			err = f.edit(rest, cancel)
		case "stream":
			err = f.stream(strings.Fields(rest), cancel)
		case "fail":
			if f.flavour == "claude" {
				f.text("API Error: " + rest)
				f.fail(id, -32603, "Internal error: API Error: "+rest, obj{"errorKind": "unknown"})
			} else {
				f.fail(id, -32603, "Internal error", obj{"message": rest})
			}
			return
		case "crash":
			fmt.Fprintln(os.Stderr, "out of memory")
			os.Exit(3)
		case "hang":
			signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
			select {}
		case "images":
			n := 0
			for _, b := range prompt {
				if b.Type == "image" && len(b.Data) > 0 {
					n++
				}
			}
			f.text(fmt.Sprintf("%d images", n))
		case "mode":
			f.text(f.mode)
		case "plan":
			f.update("plan", obj{"entries": []any{obj{"content": "dig", "status": "completed", "priority": "high"}, obj{"content": "plant", "status": "in_progress"}}})
		case "think":
			f.update("agent_thought_chunk", obj{"content": obj{"type": "text", "text": "\n\n" + rest}})
		case "huge":
			contract.PrintHuge(`{"jsonrpc":"2.0","method":"session/update","params":"`, `"}`)
		case "doomed":
			go func() {
				for {
					if _, err := os.Stat(filepath.Join(f.dir, "die")); err == nil {
						os.Exit(9)
					}
					time.Sleep(5 * time.Millisecond)
				}
			}()
		case "noise":
			fmt.Fprintln(os.Stdout, "{ this is no record\nnor this")
		default:
			f.text(strings.TrimPrefix(line, "say "))
		}
		switch {
		case errors.Is(err, errDenied) && (f.flavour == "codex" || f.flavour == "opencode"):
			if f.flavour == "codex" {
				stop = "cancelled"
			}
			f.end(id, stop)
			return
		case errors.Is(err, errDenied):
			f.text("so be it")
		case err != nil:
			f.end(id, "cancelled")
			return
		}
	}
	f.end(id, stop)
}

func (f *fake) end(id json.RawMessage, stop string) {
	a := obj{"stopReason": stop}
	switch f.flavour {
	case "gemini":
		a["_meta"] = obj{"quota": obj{"token_count": obj{"input_tokens": 20, "output_tokens": 3}, "model_usage": []any{obj{"model": "flash"}}}}
	case "codex":
		f.update("usage_update", obj{"used": 900, "size": 1000})
	default:
		f.update("usage_update", obj{"used": 900, "size": 1000, "cost": obj{"amount": 0.5, "currency": "USD"}})
		a["usage"] = obj{"inputTokens": 20, "outputTokens": 3, "cachedReadTokens": 1}
	}
	f.reply(id, a)
	f.update("session_info_update", obj{"title": "A title"})
}

func (f *fake) text(s string) {
	u := obj{"content": obj{"type": "text", "text": s}}
	if f.flavour == "opencode" || f.flavour == "claude" {
		u["messageId"] = "msg_1"
	}
	f.update("agent_message_chunk", u)
}

func (f *fake) stream(args []string, cancel chan struct{}) error {
	n, _ := strconv.Atoi(args[0])
	size, _ := strconv.Atoi(args[1])
	text := strings.Repeat("x", size)
	for range n {
		select {
		case <-cancel:
			return errors.New("cancelled")
		default:
		}
		f.text(text)
		if len(args) > 2 {
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

// ask requests permission and waits for its answer.
func (f *fake) ask(call obj, cancel chan struct{}) error {
	options := []any{obj{"optionId": "always", "name": "Always", "kind": "allow_always"}, obj{"optionId": "once", "name": "Once", "kind": "allow_once"},
		obj{"optionId": "no", "name": "No", "kind": "reject_once"}}
	result, err := f.request("session/request_permission", obj{"sessionId": "s", "toolCall": call, "options": options}, cancel)
	var a permissionAnswer
	if err == nil {
		err = json.Unmarshal(result, &a)
	}
	switch {
	case err != nil:
		return err
	case a.Outcome.Outcome == "cancelled":
		return errors.New("cancelled")
	case a.Outcome.Option != "once":
		return errDenied
	}
	return nil
}

// request asks the client for something. A cancel does not end the wait: some
// agents want their answer first.
func (f *fake) request(method string, params any, cancel chan struct{}) (json.RawMessage, error) {
	f.state.Lock()
	f.serial++
	id, _ := json.Marshal(fmt.Sprintf("q-%d", f.serial))
	ch := make(chan json.RawMessage, 1)
	f.answers[string(id)] = ch
	f.state.Unlock()
	f.send(obj{"jsonrpc": "2.0", "id": json.RawMessage(id), "method": method, "params": params})
	if f.flavour != "gemini" {
		select {
		case r := <-ch:
			return r, nil
		case <-cancel:
			return nil, errors.New("cancelled")
		}
	}
	return <-ch, nil
}

func (f *fake) callID(tool string) string {
	f.state.Lock()
	defer f.state.Unlock()
	f.serial++
	if f.flavour == "gemini" {
		return fmt.Sprintf("%s__fc_%d_%d", tool, os.Getpid(), f.serial)
	}
	return fmt.Sprintf("call_%d_%d", os.Getpid(), f.serial)
}

func (f *fake) run(command string, cancel chan struct{}) error {
	id := f.callID("run_shell_command")
	call := obj{"toolCallId": id, "title": command, "kind": "execute", "status": "pending", "locations": []any{}}
	input := obj{"command": command, "cwd": f.dir}
	switch f.flavour {
	case "gemini":
		call["content"] = []any{obj{"type": "content", "content": obj{"type": "text", "text": "[in " + f.dir + "]"}}}
	case "codex":
		call["rawInput"] = obj{"call_id": id, "command": []string{"/bin/bash", "-lc", command}, "cwd": f.dir}
	case "opencode":
		f.update("tool_call", obj{"toolCallId": id, "title": "bash", "kind": "execute", "status": "pending", "rawInput": obj{"cwd": f.dir}})
		f.update("tool_call_update", obj{"toolCallId": id, "title": command, "kind": "execute", "status": "in_progress", "rawInput": input})
		call["rawInput"] = obj{"command": command}
	case "claude":
		f.update("tool_call", obj{"toolCallId": id, "name": "Bash", "title": "Terminal", "kind": "execute", "status": "pending", "rawInput": obj{}, "content": []any{}})
		f.update("tool_call_update", obj{"toolCallId": id, "title": command, "rawInput": obj{"command": command}})
		call["name"], call["rawInput"] = "Bash", obj{"command": command}
	}
	if err := f.ask(call, cancel); err != nil {
		if f.flavour == "claude" || f.flavour == "opencode" {
			f.update("tool_call_update", obj{"toolCallId": id, "status": "failed", "rawOutput": "User refused permission to run tool"})
		}
		return err
	}
	if f.flavour == "codex" {
		f.update("tool_call", obj{"toolCallId": id, "title": command, "kind": "execute", "status": "in_progress", "rawInput": call["rawInput"]})
	}
	cmd := exec.Command("/bin/sh", "-c", command)
	cmd.Dir, cmd.SysProcAttr = f.dir, &syscall.SysProcAttr{Setpgid: true}
	var both strings.Builder
	cmd.Stdout, cmd.Stderr = &both, &both
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-cancel:
		if f.flavour != "codex" { // that one lets it live on
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
		return errors.New("cancelled")
	}
	code := cmd.ProcessState.ExitCode()
	u := obj{"toolCallId": id, "status": "completed"}
	switch f.flavour {
	case "gemini": // says nothing of the output; the fake does, for the suite
		u["rawOutput"] = obj{"output": both.String(), "exit_code": code}
	case "codex":
		if code != 0 {
			u["status"] = "failed"
		}
		u["rawOutput"] = obj{"stdout": both.String(), "stderr": "", "aggregated_output": both.String(), "exit_code": code}
	case "opencode":
		f.update("tool_call_update", obj{"toolCallId": id, "status": "in_progress", "content": []any{obj{"type": "content", "content": obj{"type": "text", "text": both.String()}}}})
		u["content"] = []any{obj{"type": "content", "content": obj{"type": "text", "text": both.String()}}}
		u["rawOutput"] = obj{"output": both.String(), "metadata": obj{"exit": code}}
	case "claude":
		u["rawOutput"] = obj{"stdout": both.String(), "exit_code": code}
	}
	f.update("tool_call_update", u)
	return nil
}

// edit replaces the first word of the file by the second.
func (f *fake) edit(args string, cancel chan struct{}) error {
	w := strings.Fields(args)
	path, id := filepath.Join(f.dir, w[0]), f.callID("replace")
	diff := obj{"type": "diff", "path": path, "oldText": w[1], "newText": w[2]}
	call := obj{"toolCallId": id, "title": "Edit " + w[0], "kind": "edit", "status": "pending", "content": []any{diff}, "locations": []any{obj{"path": path}}}
	f.update("tool_call", obj{"toolCallId": id, "title": "edit", "kind": "edit", "status": "pending", "locations": []any{}, "rawInput": obj{}})
	if err := f.ask(call, cancel); err != nil {
		return err
	}
	result, err := f.request("fs/read_text_file", obj{"sessionId": "s", "path": path}, cancel)
	if err != nil {
		return err
	}
	var r struct{ Content string }
	_ = json.Unmarshal(result, &r)
	if _, err := f.request("fs/write_text_file", obj{"sessionId": "s", "path": path, "content": strings.Replace(r.Content, w[1], w[2], 1)}, cancel); err != nil {
		return err
	}
	f.update("tool_call_update", obj{"toolCallId": id, "status": "completed", "content": []any{diff}})
	return nil
}
