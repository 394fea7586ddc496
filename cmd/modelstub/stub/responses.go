package stub

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// OpenAI Responses.

type responsesRequest struct {
	Model     string          `json:"model"`
	Stream    bool            `json:"stream"`
	Input     json.RawMessage `json:"input"`
	Tools     []responsesTool `json:"tools"`
	Reasoning json.RawMessage `json:"reasoning"`
}

type responsesItem struct {
	Type    string          `json:"type"`
	Role    role            `json:"role"`
	Content content         `json:"content"`
	Output  json.RawMessage `json:"output"`
	Tools   []responsesTool `json:"tools"` // of an item that declares more tools
}

type responsesTool struct {
	Type       string          `json:"type"`
	Name       string          `json:"name"`
	Parameters schema          `json:"parameters"`
	Tools      []responsesTool `json:"tools"` // of a namespace
}

// add puts a declaration into a request.
func (t responsesTool) add(r *request, prefix string) {
	switch t.Type {
	case "function", "":
		r.tools = append(r.tools, tool{name: prefix + t.Name, schema: t.Parameters})
	case "custom":
		r.tools = append(r.tools, tool{name: prefix + t.Name, free: true})
	case "local_shell":
		r.tools = append(r.tools, tool{name: t.Type, shell: true})
	case "namespace":
		if t.Name != "functions" { // the namespace of those that have none
			prefix += t.Name + "."
		}
		for _, inner := range t.Tools {
			inner.add(r, prefix)
		}
	}
}

func parseResponses(_ string, body []byte) (*request, error) {
	var m responsesRequest
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, fmt.Errorf("responses: %w", err)
	}
	r := &request{model: m.Model, stream: m.Stream, thinks: true}
	var (
		items []responsesItem
		only  string
	)
	if json.Unmarshal(m.Input, &only) == nil {
		items = []responsesItem{{Role: user, Content: content{{Text: only}}}}
	} else if err := json.Unmarshal(m.Input, &items); err != nil {
		return nil, fmt.Errorf("responses input: %w", err)
	}
	for _, t := range m.Tools {
		t.add(r, "")
	}
	for _, it := range items {
		for _, t := range it.Tools {
			t.add(r, "")
		}
		switch {
		case it.Type == "message" || it.Type == "" && it.Role != "":
			words, pictures := it.Content.texts()
			r.messages = append(r.messages, message{role: it.Role, text: words, images: pictures})
		case strings.HasSuffix(it.Type, "_output"):
			r.messages = append(r.messages, message{role: toolRole, text: outputText(it.Output)})
		case strings.HasSuffix(it.Type, "_call"):
			r.messages = append(r.messages, message{role: assistant})
		}
	}
	return r, nil
}

// outputText is what a tool gave: a text, a list of texts or an object with one.
func outputText(b json.RawMessage) string {
	var list content
	if json.Unmarshal(b, &list) == nil {
		t, _ := list.texts()
		return t
	}
	var o struct {
		Content string `json:"content"`
	}
	if json.Unmarshal(b, &o) == nil && o.Content != "" {
		return o.Content
	}
	return string(b)
}

// openAIFailure is the error of both wires of OpenAI.
func openAIFailure(status int, long bool) (int, any) {
	kinds := map[int][2]string{400: {"invalid_request_error", "invalid_value"}, 401: {"invalid_request_error", "invalid_api_key"},
		429: {"rate_limit_exceeded", "rate_limit_exceeded"}}
	if status == 0 {
		status = 500
	}
	kind, text := kinds[status], fmt.Sprintf("the stub fails with %d", status)
	if kind[0] == "" {
		kind = [2]string{"server_error", "server_error"}
	}
	if long {
		kind[1], text = "context_length_exceeded", "Your input exceeds the context window of this model."
	}
	return status, object{"error": object{"type": kind[0], "code": kind[1], "message": text, "param": nil}}
}

type responsesVoice struct {
	out     *stream
	n       int // events sent
	base    object
	items   []any
	thought int64
}

func speakResponses(r *request, out *stream) voice {
	v := &responsesVoice{out: out, base: object{"id": name("resp_"), "object": "response", "created_at": time.Now().Unix(), "model": r.model,
		"status": "in_progress", "output": []any{}, "error": nil, "incomplete_details": nil, "parallel_tool_calls": true, "usage": nil}}
	if out.w != nil {
		out.w.Header().Set("x-request-id", name("req_"))
	}
	v.event("response.created", object{"response": v.base})
	v.event("response.in_progress", object{"response": v.base})
	return v
}

func (v *responsesVoice) event(kind string, fields object) {
	fields["type"], fields["sequence_number"] = kind, v.n
	v.n++
	v.out.event(kind, fields)
}

// item streams one output item: its beginning, what middle sends, and its end.
func (v *responsesVoice) item(begin, whole object, middle func(at object)) {
	k := len(v.items)
	v.event("response.output_item.added", object{"output_index": k, "item": begin})
	middle(object{"item_id": whole["id"], "output_index": k})
	v.items = append(v.items, whole)
	v.event("response.output_item.done", object{"output_index": k, "item": whole})
}

// with adds fields to the place of an event.
func with(at object, fields object) object {
	for k, v := range at {
		fields[k] = v
	}
	return fields
}

func (v *responsesVoice) think(chunks []string, pause time.Duration) {
	whole, id := strings.Join(chunks, ""), name("rs_")
	v.thought += int64(len(chunks))
	part := object{"type": "summary_text", "text": whole}
	v.item(object{"id": id, "type": "reasoning", "summary": []any{}},
		object{"id": id, "type": "reasoning", "summary": []any{part}, "encrypted_content": signature}, func(at object) {
			at["summary_index"] = 0
			v.event("response.reasoning_summary_part.added", with(at, object{"part": object{"type": "summary_text", "text": ""}}))
			for _, c := range chunks {
				v.event("response.reasoning_summary_text.delta", with(at, object{"delta": c}))
				sleep(v.out.ctx, pause)
			}
			v.event("response.reasoning_summary_text.done", with(at, object{"text": whole}))
			v.event("response.reasoning_summary_part.done", with(at, object{"part": part}))
		})
}

func (v *responsesVoice) text(chunks []string, pause time.Duration) {
	whole, id := strings.Join(chunks, ""), name("msg_")
	part := object{"type": "output_text", "text": whole, "annotations": []any{}}
	v.item(object{"id": id, "type": "message", "status": "in_progress", "role": "assistant", "content": []any{}},
		object{"id": id, "type": "message", "status": "completed", "role": "assistant", "content": []any{part}}, func(at object) {
			at["content_index"] = 0
			v.event("response.content_part.added", with(at, object{"part": object{"type": "output_text", "text": "", "annotations": []any{}}}))
			for _, c := range chunks {
				v.event("response.output_text.delta", with(at, object{"delta": c}))
				sleep(v.out.ctx, pause)
			}
			v.event("response.output_text.done", with(at, object{"text": whole}))
			v.event("response.content_part.done", with(at, object{"part": part}))
		})
}

// searchTool finds tools that the agent has not declared.
const searchTool = "tool_search"

func (v *responsesVoice) call(c toolCall) {
	base := object{"status": "in_progress", "call_id": name("call_"), "name": c.name}
	kind, field, input := "function_call", "arguments", ""
	switch {
	case c.shell:
		id := name("lsh_")
		whole := object{"id": id, "type": "local_shell_call", "status": "completed", "call_id": base["call_id"],
			"action": object{"type": "exec", "command": c.args["command"], "env": object{}}}
		v.item(whole, whole, func(object) {})
		return
	case c.name == searchTool: // the agent carries it out, though it has a kind of its own
		whole := object{"id": name("ts_"), "type": "tool_search_call", "status": "completed", "call_id": base["call_id"],
			"execution": "client", "arguments": c.arguments()}
		v.item(whole, whole, func(object) {})
		return
	case c.isRaw:
		kind, field, input = "custom_tool_call", "input", c.free
	default:
		if at := strings.LastIndexByte(c.name, '.'); at > 0 {
			base["namespace"], base["name"] = c.name[:at], c.name[at+1:]
		}
		input = string(mustJSON(c.arguments()))
	}
	base["id"], base["type"] = name("fc_"), kind
	v.item(with(base, object{field: ""}), with(object{"status": "completed", field: input}, without(base, "status")), func(at object) {
		events := map[string]string{"function_call": "response.function_call_arguments", "custom_tool_call": "response.custom_tool_call_input"}
		for _, half := range halves(input) {
			v.event(events[kind]+".delta", with(at, object{"delta": half}))
		}
		v.event(events[kind]+".done", with(at, object{field: input}))
	})
}

func without(o object, key string) object {
	out := object{}
	for k, v := range o {
		if k != key {
			out[k] = v
		}
	}
	return out
}

func (v *responsesVoice) end(reason string, in, out int64) any {
	status, why := "completed", any(nil)
	switch reason {
	case refused:
		status, why = "incomplete", object{"reason": "content_filter"}
	case maxTokens:
		status, why = "incomplete", object{"reason": "max_output_tokens"}
	}
	if v.items == nil {
		v.items = []any{}
	}
	whole := with(object{"status": status, "output": v.items, "incomplete_details": why, "usage": object{
		"input_tokens": in, "input_tokens_details": object{"cached_tokens": 0}, "output_tokens": out,
		"output_tokens_details": object{"reasoning_tokens": v.thought}, "total_tokens": in + out}},
		without(without(without(without(v.base, "status"), "output"), "incomplete_details"), "usage"))
	v.event("response."+status, object{"response": whole})
	return whole
}
