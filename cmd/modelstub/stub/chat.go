package stub

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// OpenAI Chat Completions.

type chatRequest struct {
	Model         string `json:"model"`
	Stream        bool   `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Messages []struct {
		Role    role    `json:"role"`
		Content content `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Function struct {
			Name       string `json:"name"`
			Parameters schema `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
}

func parseChat(_ string, body []byte) (*request, error) {
	var m chatRequest
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, fmt.Errorf("chat completions: %w", err)
	}
	r := &request{model: m.Model, stream: m.Stream, usage: m.StreamOptions.IncludeUsage, thinks: true}
	for _, t := range m.Tools {
		r.tools = append(r.tools, tool{name: t.Function.Name, schema: t.Function.Parameters})
	}
	for _, msg := range m.Messages {
		words, pictures := msg.Content.texts()
		r.messages = append(r.messages, message{role: msg.Role, text: words, images: pictures})
	}
	return r, nil
}

type chatVoice struct {
	out       *stream
	usage     bool
	base      object
	said      strings.Builder
	reasoning strings.Builder
	calls     []any
}

func speakChat(r *request, out *stream) voice {
	v := &chatVoice{out: out, usage: r.usage, base: object{"id": name("chatcmpl-"), "created": time.Now().Unix(), "model": r.model}}
	v.chunk(object{"role": assistant, "content": ""}, nil)
	return v
}

func (v *chatVoice) chunk(delta object, finish any) {
	v.out.event("", with(v.base, object{"object": "chat.completion.chunk",
		"choices": []any{object{"index": 0, "delta": delta, "finish_reason": finish}}}))
}

func (v *chatVoice) think(chunks []string, pause time.Duration) {
	for _, c := range chunks {
		v.reasoning.WriteString(c)
		v.chunk(object{"reasoning_content": c}, nil)
		sleep(v.out.ctx, pause)
	}
}

func (v *chatVoice) text(chunks []string, pause time.Duration) {
	for _, c := range chunks {
		v.said.WriteString(c)
		v.chunk(object{"content": c}, nil)
		sleep(v.out.ctx, pause)
	}
}

func (v *chatVoice) call(c toolCall) {
	k, id, args := len(v.calls), name("call_"), string(mustJSON(c.arguments()))
	function := func(args string) object { return object{"name": c.name, "arguments": args} }
	v.calls = append(v.calls, object{"id": id, "type": "function", "function": function(args)})
	v.chunk(object{"tool_calls": []any{object{"index": k, "id": id, "type": "function", "function": function("")}}}, nil)
	for _, half := range halves(args) {
		v.chunk(object{"tool_calls": []any{object{"index": k, "function": object{"arguments": half}}}}, nil)
	}
}

func (v *chatVoice) end(reason string, in, out int64) any {
	finish := "stop"
	switch {
	case reason == refused:
		finish = "content_filter"
	case reason == maxTokens:
		finish = "length"
	case len(v.calls) > 0:
		finish = "tool_calls"
	}
	used := object{"prompt_tokens": in, "completion_tokens": out, "total_tokens": in + out}
	v.chunk(object{}, finish)
	if v.usage {
		v.out.event("", with(v.base, object{"object": "chat.completion.chunk", "choices": []any{}, "usage": used}))
	}
	v.out.event("", "[DONE]")
	m := object{"role": assistant, "content": v.said.String()}
	if v.reasoning.Len() > 0 {
		m["reasoning_content"] = v.reasoning.String()
	}
	if len(v.calls) > 0 {
		m["tool_calls"] = v.calls
	}
	return with(v.base, object{"object": "chat.completion", "usage": used,
		"choices": []any{object{"index": 0, "message": m, "finish_reason": finish}}})
}
