package stub

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Anthropic Messages.

type messagesRequest struct {
	Model    string `json:"model"`
	Stream   bool   `json:"stream"`
	Thinking struct {
		Type string `json:"type"`
	} `json:"thinking"`
	Messages []struct {
		Role    role    `json:"role"`
		Content content `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Name   string `json:"name"`
		Schema schema `json:"input_schema"`
	} `json:"tools"`
}

// content is a text or a list of blocks.
type content []block

type block struct {
	Type    string  `json:"type"`
	Text    string  `json:"text"`
	Content content `json:"content"` // of a tool's result
}

// UnmarshalJSON takes both spellings.
func (c *content) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil {
		*c = content{{Type: "text", Text: s}}
		return nil
	}
	return json.Unmarshal(b, (*[]block)(c))
}

// texts joins the texts; images counts the pictures and documents.
func (c content) texts() (text string, images int) {
	var parts []string
	for _, b := range c {
		switch b.Type {
		case "image", "document", "input_image", "image_url":
			images++
		default:
			if b.Text != "" {
				parts = append(parts, b.Text)
			}
		}
	}
	return strings.Join(parts, "\n"), images
}

func parseMessages(_ string, body []byte) (*request, error) {
	var m messagesRequest
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, fmt.Errorf("messages: %w", err)
	}
	r := &request{model: m.Model, stream: m.Stream, thinks: m.Thinking.Type == "enabled" || m.Thinking.Type == "adaptive"}
	for _, t := range m.Tools {
		r.tools = append(r.tools, tool{name: t.Name, schema: t.Schema})
	}
	for _, msg := range m.Messages {
		var said content
		for _, b := range msg.Content {
			if b.Type != "tool_result" {
				said = append(said, b)
				continue
			}
			result, pictures := b.Content.texts()
			r.messages = append(r.messages, message{role: toolRole, text: result, images: pictures})
		}
		switch {
		case msg.Role == user:
			// Agents put prompts that got no answer into one message with the
			// next: each block is a script of its own.
			for _, b := range said {
				words, pictures := content{b}.texts()
				r.messages = append(r.messages, message{role: user, text: words, images: pictures})
			}
		case len(said) > 0:
			words, pictures := said.texts()
			r.messages = append(r.messages, message{role: msg.Role, text: words, images: pictures})
		}
	}
	return r, nil
}

func messagesFailure(status int, long bool) (int, any) {
	kinds := map[int]string{400: "invalid_request_error", 401: "authentication_error", 403: "permission_error",
		404: "not_found_error", 413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error"}
	if status == 0 {
		status = 529
	}
	kind, text := kinds[status], fmt.Sprintf("the stub fails with %d", status)
	if kind == "" {
		kind = "api_error"
	}
	if long {
		text = "prompt is too long: 250000 tokens > 200000 maximum"
	}
	return status, object{"type": "error", "error": object{"type": kind, "message": text}, "request_id": name("req_")}
}

type messagesVoice struct {
	out    *stream
	id     string
	model  string
	blocks []any
	calls  bool
}

func speakMessages(r *request, out *stream) voice {
	v := &messagesVoice{out: out, id: name("msg_"), model: r.model, blocks: []any{}}
	if out.w != nil {
		out.w.Header().Set("request-id", name("req_"))
	}
	out.event("message_start", object{"type": "message_start", "message": object{"id": v.id, "type": "message", "role": "assistant",
		"model": v.model, "content": []any{}, "stop_reason": nil, "stop_sequence": nil, "usage": messagesUsage(r.tokens, 1)}})
	out.event("ping", object{"type": "ping"})
	return v
}

func messagesUsage(in, out int64) object {
	return object{"input_tokens": in, "output_tokens": out, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
}

// block streams one block: its empty beginning and its deltas.
func (v *messagesVoice) block(start, whole object, pause time.Duration, deltas ...object) {
	i := len(v.blocks)
	v.blocks = append(v.blocks, whole)
	v.out.event("content_block_start", object{"type": "content_block_start", "index": i, "content_block": start})
	for _, d := range deltas {
		v.out.event("content_block_delta", object{"type": "content_block_delta", "index": i, "delta": d})
		sleep(v.out.ctx, pause)
	}
	v.out.event("content_block_stop", object{"type": "content_block_stop", "index": i})
}

// signature stands for the proof that a model signs its reasoning with.
const signature = "c3R1Yg=="

func (v *messagesVoice) think(chunks []string, pause time.Duration) {
	deltas := make([]object, 0, len(chunks)+1)
	for _, c := range chunks {
		deltas = append(deltas, object{"type": "thinking_delta", "thinking": c})
	}
	deltas = append(deltas, object{"type": "signature_delta", "signature": signature})
	v.block(object{"type": "thinking", "thinking": "", "signature": ""},
		object{"type": "thinking", "thinking": strings.Join(chunks, ""), "signature": signature}, pause, deltas...)
}

func (v *messagesVoice) text(chunks []string, pause time.Duration) {
	deltas := make([]object, 0, len(chunks))
	for _, c := range chunks {
		deltas = append(deltas, object{"type": "text_delta", "text": c})
	}
	v.block(object{"type": "text", "text": ""}, object{"type": "text", "text": strings.Join(chunks, "")}, pause, deltas...)
}

func (v *messagesVoice) call(c toolCall) {
	v.calls = true
	id, args := name("toolu_"), c.arguments()
	deltas := []object{{"type": "input_json_delta", "partial_json": ""}}
	for _, half := range halves(string(mustJSON(args))) {
		deltas = append(deltas, object{"type": "input_json_delta", "partial_json": half})
	}
	v.block(object{"type": "tool_use", "id": id, "name": c.name, "input": object{}},
		object{"type": "tool_use", "id": id, "name": c.name, "input": args}, 0, deltas...)
}

func (v *messagesVoice) end(reason string, in, out int64) any {
	stop := "end_turn"
	switch {
	case reason == refused:
		stop = "refusal"
	case reason == maxTokens:
		stop = "max_tokens"
	case v.calls:
		stop = "tool_use"
	}
	v.out.event("message_delta", object{"type": "message_delta", "delta": object{"stop_reason": stop, "stop_sequence": nil},
		"usage": messagesUsage(in, out)})
	v.out.event("message_stop", object{"type": "message_stop"})
	return object{"id": v.id, "type": "message", "role": "assistant", "model": v.model, "content": v.blocks,
		"stop_reason": stop, "stop_sequence": nil, "usage": messagesUsage(in, out)}
}

// arguments are the call's as an object, for wires that have no free text.
func (c toolCall) arguments() any {
	if c.isRaw {
		return object{"input": c.free}
	}
	if c.args == nil {
		return object{}
	}
	return c.args
}

var _ http.Handler = (*Server)(nil)
