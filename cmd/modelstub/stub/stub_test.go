package stub

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestAPromptThatFailedIsNotPlayedWithTheNext(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	body := `{"messages":[{"role":"user","content":[{"type":"text","text":"fail 400"},{"type":"text","text":"text: later words"}]}]}`
	New(Options{}).ServeHTTP(w, httptest.NewRequest("POST", "/v1/messages", strings.NewReader(body)))
	if w.Code != 200 || !strings.Contains(w.Body.String(), "later words") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wire is one dialect as its client sees it.
type wire struct {
	name string
	path func(stream bool) string
	body func(stream bool, turns ...turn) object
	// text, reasoning, call and stop of a whole answer; delta finds the text
	// in one event of a stream.
	read  func(whole object) said
	delta func(event object) string
	final string // what the last event says
}

type said struct {
	text, thought, tool, args, stop string
	in, out                         float64
}

// turn is a message of the conversation so far; result is what a tool gave.
type turn struct{ user, result string }

const shellSchema = `{"type":"object","properties":{"command":{"type":"string"},"timeout":{"type":"number"}},"required":["command","timeout"]}`

func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(object)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

func str(v any, path ...any) string { s, _ := at(v, path...).(string); return s }

func num(v any, path ...any) float64 { n, _ := at(v, path...).(float64); return n }

func list(v any, path ...any) []any { l, _ := at(v, path...).([]any); return l }

var wires = []wire{
	{
		name: "messages",
		path: func(bool) string { return "/some/prefix/v1/messages" },
		body: func(stream bool, turns ...turn) object {
			var messages []any
			for _, t := range turns {
				if t.result != "" {
					messages = append(messages, object{"role": "assistant", "content": []any{object{"type": "tool_use", "id": "1", "name": "Bash", "input": object{}}}},
						object{"role": "user", "content": []any{object{"type": "tool_result", "tool_use_id": "1", "content": t.result}}})
				} else {
					messages = append(messages, object{"role": "user", "content": t.user})
				}
			}
			return object{"model": "m", "stream": stream, "messages": messages, "thinking": object{"type": "enabled"},
				"tools": []any{object{"name": "Bash", "input_schema": json.RawMessage(shellSchema)}}}
		},
		read: func(w object) (s said) {
			for _, b := range list(w, "content") {
				s.text += str(b, "text")
				s.thought += str(b, "thinking")
				if n := str(b, "name"); n != "" {
					s.tool, s.args = n, string(mustJSON(at(b, "input")))
				}
			}
			s.stop, s.in, s.out = str(w, "stop_reason"), num(w, "usage", "input_tokens"), num(w, "usage", "output_tokens")
			return s
		},
		delta: func(e object) string { return str(e, "delta", "text") },
		final: `"message_stop"`,
	},
	{
		name: "responses",
		path: func(bool) string { return "/v1/responses" },
		body: func(stream bool, turns ...turn) object {
			var input []any
			for _, t := range turns {
				if t.result != "" {
					input = append(input, object{"type": "function_call", "call_id": "1", "name": "shell", "arguments": "{}"},
						object{"type": "function_call_output", "call_id": "1", "output": t.result})
				} else {
					input = append(input, object{"type": "message", "role": "user", "content": []any{object{"type": "input_text", "text": t.user}}})
				}
			}
			return object{"model": "m", "stream": stream, "input": input,
				"tools": []any{object{"type": "function", "name": "shell", "parameters": json.RawMessage(shellSchema)}}}
		},
		read: func(w object) (s said) {
			for _, it := range list(w, "output") {
				s.text += str(it, "content", 0, "text")
				s.thought += str(it, "summary", 0, "text")
				if n := str(it, "name"); n != "" {
					s.tool, s.args = n, str(it, "arguments")
				}
			}
			s.stop = str(w, "status") + str(w, "incomplete_details", "reason")
			s.in, s.out = num(w, "usage", "input_tokens"), num(w, "usage", "output_tokens")
			return s
		},
		delta: func(e object) string {
			if str(e, "type") == "response.output_text.delta" {
				return str(e, "delta")
			}
			return ""
		},
		final: `"response.completed"`,
	},
	{
		name: "chat",
		path: func(bool) string { return "/v1/chat/completions" },
		body: func(stream bool, turns ...turn) object {
			var messages []any
			for _, t := range turns {
				if t.result != "" {
					messages = append(messages, object{"role": "assistant", "content": nil}, object{"role": "tool", "tool_call_id": "1", "content": t.result})
				} else {
					messages = append(messages, object{"role": "user", "content": t.user})
				}
			}
			return object{"model": "m", "stream": stream, "messages": messages,
				"tools": []any{object{"type": "function", "function": object{"name": "bash", "parameters": json.RawMessage(shellSchema)}}}}
		},
		read: func(w object) said {
			m := at(w, "choices", 0, "message")
			return said{text: str(m, "content"), thought: str(m, "reasoning_content"), stop: str(w, "choices", 0, "finish_reason"),
				tool: str(m, "tool_calls", 0, "function", "name"), args: str(m, "tool_calls", 0, "function", "arguments"),
				in: num(w, "usage", "prompt_tokens"), out: num(w, "usage", "completion_tokens")}
		},
		delta: func(e object) string { return str(e, "choices", 0, "delta", "content") },
		final: "[DONE]",
	},
	{
		name: "gemini",
		path: func(stream bool) string {
			if stream {
				return "/v1beta/models/m:streamGenerateContent?alt=sse"
			}
			return "/v1beta/models/m:generateContent"
		},
		body: func(_ bool, turns ...turn) object {
			var contents []any
			for _, t := range turns {
				if t.result != "" {
					contents = append(contents, object{"role": "model", "parts": []any{object{"functionCall": object{"name": "run_shell_command"}}}},
						object{"role": "user", "parts": []any{object{"functionResponse": object{"name": "run_shell_command", "response": object{"output": t.result}}}}})
				} else {
					contents = append(contents, object{"role": "user", "parts": []any{object{"text": t.user}}})
				}
			}
			return object{"contents": contents, "tools": []any{object{"functionDeclarations": []any{
				object{"name": "run_shell_command", "parametersJsonSchema": json.RawMessage(shellSchema)}}}}}
		},
		read: func(w object) (s said) {
			for _, p := range list(w, "candidates", 0, "content", "parts") {
				if at(p, "thought") == true {
					s.thought += str(p, "text")
				} else {
					s.text += str(p, "text")
				}
				if n := str(p, "functionCall", "name"); n != "" {
					s.tool, s.args = n, string(mustJSON(at(p, "functionCall", "args")))
				}
			}
			s.stop = str(w, "candidates", 0, "finishReason")
			s.in, s.out = num(w, "usageMetadata", "promptTokenCount"), num(w, "usageMetadata", "candidatesTokenCount")
			return s
		},
		delta: func(e object) string { return str(e, "candidates", 0, "content", "parts", 0, "text") },
		final: `"STOP"`,
	},
}

type client struct {
	t   *testing.T
	url string
	w   wire
}

func each(t *testing.T, test func(t *testing.T, c client)) {
	for _, w := range wires {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(New(Options{Dir: "/project"}))
			t.Cleanup(s.Close)
			test(t, client{t, s.URL, w})
		})
	}
}

func (c client) post(ctx context.Context, stream bool, turns ...turn) *http.Response {
	c.t.Helper()
	req, err := http.NewRequestWithContext(ctx, "POST", c.url+c.w.path(stream), strings.NewReader(string(mustJSON(c.w.body(stream, turns...)))))
	if err != nil {
		c.t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func (c client) whole(turns ...turn) said {
	c.t.Helper()
	resp := c.post(c.t.Context(), false, turns...)
	b, _ := io.ReadAll(resp.Body)
	var o object
	if err := json.Unmarshal(b, &o); err != nil || resp.StatusCode != 200 {
		c.t.Fatalf("status %d: %s", resp.StatusCode, b)
	}
	return c.w.read(o)
}

func TestAScriptIsPlayedStepByStep(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c client) {
		prompt := turn{user: "please\nrun: echo hi\nsay 3 words\nthank you"}
		first := c.whole(prompt)
		var args struct {
			Command string
			Timeout *float64
		}
		if err := json.Unmarshal([]byte(first.args), &args); err != nil || args.Command != "echo hi" || args.Timeout == nil {
			t.Errorf("called %s with %s", first.tool, first.args)
		}
		if s := c.whole(prompt, turn{result: "hi"}); s.text != "alpha bravo charlie" || s.tool != "" {
			t.Errorf("then %+v", s)
		}
		if s := c.whole(prompt, turn{result: "hi"}, turn{result: "more"}); !strings.Contains(s.text, "more") {
			t.Errorf("at the end %+v", s)
		}
		if s := c.whole(prompt, turn{result: "hi"}, turn{user: "say 1 words"}); s.text != "alpha" {
			t.Errorf("the next prompt has %+v", s)
		}
	})
}

func TestAStreamSaysTheSame(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c client) {
		resp := c.post(t.Context(), true, turn{user: `text: ein Wort\nund € mehr`})
		if kind := resp.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
			t.Errorf("content type %q", kind)
		}
		var text, last string
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok {
				continue
			}
			last = data
			var e object
			if json.Unmarshal([]byte(data), &e) == nil {
				text += c.w.delta(e)
			}
		}
		if text != "ein Wort\nund € mehr" {
			t.Errorf("text %q", text)
		}
		if !strings.Contains(last, c.w.final) {
			t.Errorf("the last event is %s", last)
		}
	})
}

func TestReasoningFiguresAndReasons(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c client) {
		if s := c.whole(turn{user: "think"}); s.thought == "" || s.text != "Forty-two." {
			t.Errorf("thinks %+v", s)
		}
		if s := c.whole(turn{user: "usage 11 7"}); s.in != 11 || s.out != 7 {
			t.Errorf("usage %+v", s)
		}
		refusal, length := c.whole(turn{user: "refuse"}), c.whole(turn{user: "maxtok"})
		normal := c.whole(turn{user: "say 1 words"})
		if refusal.stop == normal.stop || length.stop == normal.stop || refusal.stop == length.stop || refusal.text != "" || length.text == "" {
			t.Errorf("stops for %q, %q and %q", normal.stop, refusal.stop, length.stop)
		}
	})
}

func TestFailures(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c client) {
		resp := c.post(t.Context(), true, turn{user: "fail 429 7"})
		if resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "7" {
			t.Errorf("status %d, retry after %q", resp.StatusCode, resp.Header.Get("Retry-After"))
		}
		if resp := c.post(t.Context(), false, turn{user: "overflow"}); resp.StatusCode != 400 {
			t.Errorf("status %d", resp.StatusCode)
		}
		if resp := c.post(t.Context(), false, turn{user: "failonce"}); resp.StatusCode < 500 {
			t.Errorf("the first try has status %d", resp.StatusCode)
		}
		if s := c.whole(turn{user: "failonce"}); !strings.Contains(s.text, "second") {
			t.Errorf("the second try %+v", s)
		}
	})
}

func TestACutStreamBreaksOff(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c client) {
		resp := c.post(t.Context(), true, turn{user: "cut 3"})
		b, err := io.ReadAll(resp.Body)
		if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(string(b), "charlie") || strings.Contains(string(b), c.w.final) {
			t.Errorf("read %q, %v", b, err)
		}
	})
}

// An answer that hangs ends with its client: goleak would find it.
func TestAHangingAnswerEndsWithItsClient(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c client) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		resp := c.post(ctx, true, turn{user: "hang"})
		line, err := bufio.NewReader(resp.Body).ReadString('\n')
		if err != nil || line == "" {
			t.Errorf("read %q, %v", line, err)
		}
		cancel()
	})
}

func TestCallsFollowTheDeclaredTools(t *testing.T) {
	t.Parallel()
	declared := func(names ...string) *request {
		r := &request{body: []byte(`{"system":"Working directory: /home/me/app\nmore"}`)}
		for _, n := range names {
			name, free := strings.CutSuffix(n, "*")
			r.tools = append(r.tools, tool{name: name, free: free})
		}
		return r
	}
	for _, test := range []struct {
		tools            []string
		step             string
		tool, key, value string // key "" means the free text
	}{
		{[]string{"Write"}, "write: a.txt", "Write", "file_path", "/home/me/app/a.txt"},
		{[]string{"apply_patch*"}, "write: a.txt", "apply_patch", "",
			"*** Begin Patch\n*** Add File: a.txt\n+hello from the stub\n+second line\n*** End Patch\n"},
		{[]string{"exec*"}, "run: ls -l", "exec", "", `const r = await tools.exec_command({cmd: "ls -l"}); text(r.output ?? JSON.stringify(r));`},
		{[]string{"bash"}, "read: b.txt", "bash", "command", "cat b.txt"},
		{[]string{"edit"}, "edit: /b.txt", "edit", "oldText", "hello"},
		{[]string{"task"}, "agent: look", "task", "prompt", "look"},
		{[]string{"mine"}, `tool: mine {"a":"1"}`, "mine", "a", "1"},
	} {
		pieces := calls(declared(test.tools...), test.step)
		c := pieces[0].call
		got, _ := c.args[test.key].(string)
		if test.key == "" {
			got = c.free
		}
		if len(pieces) != 1 || c.name != test.tool || got != test.value || c.isRaw != (test.key == "") {
			t.Errorf("%q with %v gives %+v", test.step, test.tools, pieces)
		}
	}
	if both := calls(declared("bash", "Read"), "parallel: run: ls && read: /b"); len(both) != 2 || both[0].call.name != "bash" || both[1].call.name != "Read" {
		t.Errorf("at once %+v", both)
	}
	if none := calls(declared(), "run: ls"); none[0].kind != text {
		t.Errorf("without tools %+v", none)
	}
}

func TestOtherRoutes(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(New(Options{}))
	t.Cleanup(s.Close)
	for _, test := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/v1/models", "", 200, "stub-large"},
		{"GET", "/v1beta/models", "", 200, "models/stub-small"},
		{"POST", "/v1/messages/count_tokens", `{"messages":[]}`, 200, "input_tokens"},
		{"POST", "/v1beta/models/m:countTokens", `{}`, 200, "totalTokens"},
		{"POST", "/v1/nothing", `{}`, 404, "no such route"},
		{"POST", "/v1/messages", `{`, 400, "not JSON"},
		{"POST", "/v1/messages", `{"messages":5}`, 400, "messages"},
		{"DELETE", "/v1/messages", ``, 405, "not allowed"},
		{"POST", "/v1/responses", `{"input":"say 2 words"}`, 200, "alpha bravo"},
		{"GET", "/_log", "", 200, `"step":"say 2 words"`},
	} {
		req, _ := http.NewRequestWithContext(t.Context(), test.method, s.URL+test.path, strings.NewReader(test.body))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != test.status || !strings.Contains(string(b), test.want) {
			t.Errorf("%s %s: %d %s", test.method, test.path, resp.StatusCode, b)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestARequestOverTheLimitIsRefused(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	body := io.MultiReader(strings.NewReader(`{"a":"`), io.LimitReader(forever('x'), maxBody))
	New(Options{}).ServeHTTP(w, httptest.NewRequest("POST", "/v1/messages", body))
	if w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d", w.Code)
	}
}

type forever byte

func (f forever) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(f)
	}
	return len(p), nil
}

func FuzzRequests(f *testing.F) {
	for _, w := range wires {
		f.Add(w.path(false), string(mustJSON(w.body(false, turn{user: "parallel: run: ls && plan\nsay 2 words"}, turn{result: "x"}))))
	}
	f.Add("/v1/responses", `{"input":[{"type":"x_output","output":{"content":"y"}}],"tools":[{"type":"namespace","tools":[{"type":"namespace"}]}]}`)
	f.Fuzz(func(t *testing.T, path, body string) {
		if !strings.HasPrefix(path, "/") || strings.Contains(body, "slow") || strings.Contains(body, "hang") || strings.Contains(body, "cut") {
			return
		}
		req := httptest.NewRequest("POST", "/", strings.NewReader(body))
		req.URL.Path = path
		w := httptest.NewRecorder()
		New(Options{}).ServeHTTP(w, req)
		if w.Code == 200 && !strings.Contains(w.Header().Get("Content-Type"), "event-stream") && !json.Valid(w.Body.Bytes()) {
			t.Errorf("answers %s", fmt.Sprint(w.Body))
		}
	})
}
