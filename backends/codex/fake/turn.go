package fake

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/polyhost/polyhost/backends/contract"
)

// fakeRun is one turn of the stand-in.
type fakeRun struct {
	f   *fake
	t   *fakeThread
	id  string
	ctx context.Context
	rec fakeTurn
}

func (f *fake) turn(ctx context.Context, t *fakeThread, id, text string) {
	r := &fakeRun{f: f, t: t, id: id, ctx: ctx, rec: fakeTurn{ID: id, At: time.Now().UnixNano()}}
	f.mu.Lock()
	f.save(t)
	f.mu.Unlock()
	f.note("turn/started", map[string]any{"threadId": t.ID, "turn": map[string]any{"id": id, "status": "inProgress"}})
	r.complete(map[string]any{"type": "userMessage", "id": f.newID("user"), "content": []any{map[string]any{"type": "text", "text": text}}})
	lines := strings.Split(text, "\n")
	var failed map[string]any
	for len(lines) > 0 && failed == nil && ctx.Err() == nil {
		line := lines[0]
		lines = lines[1:]
		failed = r.do(line)
		for more := true; more; {
			select {
			case s := <-t.steer:
				lines = append(strings.Split(s, "\n"), lines...)
			default:
				more = false
			}
		}
	}
	r.note("thread/tokenUsage/updated", map[string]any{"tokenUsage": map[string]any{
		"total": map[string]any{"totalTokens": 12, "inputTokens": 10, "outputTokens": 2},
		"last":  map[string]any{"totalTokens": 12, "inputTokens": 10, "outputTokens": 2}, "modelContextWindow": 1000}})
	r.rec.Status = "completed"
	switch {
	case ctx.Err() != nil:
		r.rec.Status = "interrupted"
	case failed != nil:
		r.rec.Status = "failed"
	}
	f.mu.Lock()
	t.turn = ""
	t.Turns = append(t.Turns, r.rec)
	t.At = time.Now().UnixNano()
	f.save(t)
	f.mu.Unlock()
	if failed != nil {
		r.note("error", map[string]any{"error": failed, "willRetry": false})
	}
	f.note("turn/completed", map[string]any{"threadId": t.ID, "turn": map[string]any{"id": id, "status": r.rec.Status, "error": failed}})
}

func (r *fakeRun) note(method string, p map[string]any) {
	p["threadId"], p["turnId"] = r.t.ID, r.id
	r.f.note(method, p)
}

func (r *fakeRun) start(item map[string]any) { r.note("item/started", map[string]any{"item": item}) }

func (r *fakeRun) complete(item map[string]any) {
	r.note("item/completed", map[string]any{"item": item})
	r.rec.Items = append(r.rec.Items, item)
}

// ask sends a request and waits for its answer, or for the turn to be
// interrupted.
func (r *fakeRun) ask(method string, p map[string]any) json.RawMessage {
	f := r.f
	ch := make(chan json.RawMessage, 1)
	f.mu.Lock()
	id := strconv.Itoa(f.asked)
	f.asked++
	f.waiting[id] = ch
	f.mu.Unlock()
	p["threadId"], p["turnId"] = r.t.ID, r.id
	f.write(map[string]any{"method": method, "id": json.RawMessage(id), "params": p})
	var answer json.RawMessage
	select {
	case answer = <-ch:
	case <-r.ctx.Done():
	}
	f.note("serverRequest/resolved", map[string]any{"threadId": r.t.ID, "requestId": json.RawMessage(id)})
	return answer
}

func (r *fakeRun) do(line string) map[string]any {
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "say":
		r.say(strings.SplitAfter(rest, " "))
	case "stream":
		var n, size, delay int
		f := strings.Fields(rest)
		n, _ = strconv.Atoi(f[0])
		size, _ = strconv.Atoi(f[1])
		if len(f) > 2 {
			delay, _ = strconv.Atoi(f[2])
		}
		r.stream(n, strings.Repeat("x", size), time.Duration(delay)*time.Millisecond)
	case "sleep":
		ms, _ := strconv.Atoi(rest)
		select {
		case <-time.After(time.Duration(ms) * time.Millisecond):
		case <-r.ctx.Done():
		}
	case "fail":
		return map[string]any{"message": rest, "codexErrorInfo": "other"}
	case "leave":
		r.leave(rest)
	case "run":
		r.run(rest)
	case "widen":
		r.widen(rest)
	case "write":
		r.write(rest)
	case "ask":
		r.question(rest)
	case "die":
		_, _ = os.Stderr.WriteString("thread 'main' panicked\n")
		os.Exit(3)
	case "deaf":
		r.say([]string{"I"})
		r.ctx = context.WithoutCancel(r.ctx)
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
		r.f.out.Lock()
		_, _ = os.Stdout.WriteString("Downloading...\n{\"method\":\n")
		r.f.out.Unlock()
	case "huge":
		r.f.out.Lock()
		contract.PrintHuge(`{"method":"item/agentMessage/delta","params":{"delta":"`, `"}}`)
		r.f.out.Unlock()
	case "odd":
		r.say([]string{strings.TrimSpace(string(r.ask("item/unheard/of", map[string]any{})))})
	case "spawn":
		r.spawn(rest)
	case "server":
		name, end, _ := strings.Cut(rest, " ")
		r.f.mu.Lock()
		r.f.servers = append(r.f.servers, [2]string{r.t.ID, name})
		r.f.mu.Unlock()
		r.f.server(r.t.ID, name, end)
	case "skill":
		r.f.mu.Lock()
		r.f.skills = append(r.f.skills, rest)
		r.f.mu.Unlock()
		r.f.note("skills/changed", map[string]any{})
	case "image":
		r.complete(map[string]any{"type": "imageGeneration", "id": r.f.newID("ig"), "status": "completed", "result": "aGk="})
	default: // a steering message of the driver's own
		r.say([]string{line})
	}
	return nil
}

func (r *fakeRun) say(words []string) {
	id := r.f.newID("msg")
	r.start(map[string]any{"type": "agentMessage", "id": id, "text": ""})
	for _, w := range words {
		r.note("item/agentMessage/delta", map[string]any{"itemId": id, "delta": w})
	}
	r.complete(map[string]any{"type": "agentMessage", "id": id, "text": strings.Join(words, "")})
}

func (r *fakeRun) stream(n int, piece string, delay time.Duration) {
	id := r.f.newID("msg")
	r.start(map[string]any{"type": "agentMessage", "id": id, "text": ""})
	for range n {
		if r.ctx.Err() != nil {
			return // like the program: no item/completed
		}
		r.note("item/agentMessage/delta", map[string]any{"itemId": id, "delta": piece})
		if delay > 0 {
			time.Sleep(delay)
		}
	}
	r.complete(map[string]any{"type": "agentMessage", "id": id, "text": strings.Repeat(piece, n)})
}

func decision(answer json.RawMessage) string {
	var a struct {
		Result struct {
			Decision string `json:"decision"`
		} `json:"result"`
	}
	_ = json.Unmarshal(answer, &a)
	return a.Result.Decision
}

// widen asks about a command and, when that may run, about more for it.
func (r *fakeRun) widen(command string) {
	id := r.f.newID("call")
	r.start(map[string]any{"type": "commandExecution", "id": id, "command": command, "cwd": r.t.Cwd, "processId": nil, "status": "inProgress"})
	if decision(r.ask("item/commandExecution/requestApproval", map[string]any{"itemId": id, "command": command, "cwd": r.t.Cwd})) != "accept" {
		return
	}
	answer := r.ask("item/permissions/requestApproval", map[string]any{"itemId": id, "reason": "all files",
		"permissions": map[string]any{"fileSystem": map[string]any{"write": []string{"/"}}}})
	r.say([]string{string(answer)})
	r.complete(map[string]any{"type": "commandExecution", "id": id, "command": command, "cwd": r.t.Cwd, "status": "completed", "exitCode": 0})
}

func (r *fakeRun) run(command string) {
	id := r.f.newID("call")
	full := "/bin/bash -lc '" + strings.ReplaceAll(command, "'", `'\''`) + "'"
	item := map[string]any{"type": "commandExecution", "id": id, "command": full, "cwd": r.t.Cwd, "processId": nil, "status": "inProgress",
		"commandActions": []any{map[string]any{"type": "unknown", "command": command}}, "aggregatedOutput": nil, "exitCode": nil}
	r.start(item)
	answer := r.ask("item/commandExecution/requestApproval", map[string]any{"itemId": id, "command": full, "cwd": r.t.Cwd})
	if r.ctx.Err() != nil {
		return
	}
	done := map[string]any{}
	for k, v := range item {
		done[k] = v
	}
	if decision(answer) != "accept" {
		done["status"] = "declined"
		r.complete(done)
		return
	}
	cmd := exec.Command("/bin/sh", "-c", command)
	cmd.Dir, cmd.Env = r.t.Cwd, append(os.Environ(), r.f.mark)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out := &fakeOutput{r: r, id: id}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	r.f.mu.Lock()
	r.f.commands = append(r.f.commands, cmd)
	r.f.mu.Unlock()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-r.ctx.Done():
		return // the command lives on
	case err := <-ended:
		code := 0
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			code = exit.ExitCode()
		}
		done["exitCode"], done["aggregatedOutput"], done["processId"] = code, out.text(), "1"
		done["status"] = "completed"
		if code != 0 {
			done["status"] = "failed"
		}
		r.complete(done)
	}
}

// leave starts a command, allowed by the mode, that the turn does not wait for.
func (r *fakeRun) leave(command string) {
	id := r.f.newID("call")
	cmd := exec.Command("/bin/sh", "-c", command)
	cmd.Dir, cmd.Env = r.t.Cwd, append(os.Environ(), r.f.mark)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	r.start(map[string]any{"type": "commandExecution", "id": id, "command": command, "cwd": r.t.Cwd, "processId": "2", "status": "inProgress",
		"commandActions": []any{map[string]any{"type": "unknown", "command": command}}})
	r.f.mu.Lock()
	r.f.left[id] = command
	r.f.mu.Unlock()
	go func() {
		_ = cmd.Wait()
		r.f.mu.Lock()
		delete(r.f.left, id)
		r.f.mu.Unlock()
	}()
}

type fakeOutput struct {
	r   *fakeRun
	id  string
	mu  sync.Mutex
	all []byte
}

func (o *fakeOutput) Write(b []byte) (int, error) {
	o.mu.Lock()
	o.all = append(o.all, b...)
	o.mu.Unlock()
	o.r.note("item/commandExecution/outputDelta", map[string]any{"itemId": o.id, "delta": string(b)})
	return len(b), nil
}

func (o *fakeOutput) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.all)
}

func (r *fakeRun) write(rest string) {
	name, text, _ := strings.Cut(rest, " ")
	path := filepath.Join(r.t.Cwd, name)
	id := r.f.newID("call")
	item := func(status string) map[string]any {
		return map[string]any{"type": "fileChange", "id": id, "status": status, "changes": []any{
			map[string]any{"path": path, "kind": map[string]any{"type": "add"}, "diff": text + "\n"}}}
	}
	r.start(item("inProgress"))
	answer := r.ask("item/fileChange/requestApproval", map[string]any{"itemId": id, "reason": nil, "grantRoot": nil})
	switch {
	case r.ctx.Err() != nil:
	case decision(answer) == "accept":
		_ = os.WriteFile(path, []byte(text+"\n"), 0o644)
		r.complete(item("completed"))
	default:
		r.complete(item("declined"))
	}
}

func (r *fakeRun) question(rest string) {
	f := strings.Split(rest, " | ")
	var options []any
	for _, o := range f[1:] {
		options = append(options, map[string]any{"label": o, "description": ""})
	}
	answer := r.ask("item/tool/requestUserInput", map[string]any{"itemId": r.f.newID("call"), "isBlocking": true, "questions": []any{
		map[string]any{"id": "q", "header": "Q", "question": f[0], "options": options, "isOther": true, "isSecret": false}}})
	var a struct {
		Result struct {
			Answers map[string]struct {
				Answers []string `json:"answers"`
			} `json:"answers"`
		} `json:"result"`
	}
	_ = json.Unmarshal(answer, &a)
	r.say([]string{"You said: ", strings.Join(a.Result.Answers["q"].Answers, ", ")})
}

// spawn lets a subagent speak on a thread of its own, on past the end of the
// turn that began it.
func (r *fakeRun) spawn(text string) {
	child := r.f.newID("thread")
	id := r.f.newID("call")
	item := func(status string, receivers ...string) map[string]any {
		return map[string]any{"type": "collabAgentToolCall", "id": id, "tool": "spawnAgent", "status": status, "prompt": text, "receiverThreadIds": receivers}
	}
	r.start(item("inProgress"))
	r.complete(item("completed", child))
	go func() {
		time.Sleep(50 * time.Millisecond)
		ctx, cancel := context.WithCancel(context.Background())
		t := &fakeThread{ID: child, Cwd: r.t.Cwd, cancel: cancel, steer: make(chan string, 1), turn: r.f.newID("turn")}
		r.f.mu.Lock()
		r.f.threads[child] = t
		r.f.mu.Unlock()
		r.f.turn(ctx, t, t.turn, text)
	}()
}
