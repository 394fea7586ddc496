package stub

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Gemini's generateContent.

type geminiRequest struct {
	Contents []struct {
		Role  string       `json:"role"`
		Parts []geminiPart `json:"parts"`
	} `json:"contents"`
	Tools []struct {
		Functions []struct {
			Name       string  `json:"name"`
			Parameters *schema `json:"parameters"`
			JSONSchema *schema `json:"parametersJsonSchema"`
		} `json:"functionDeclarations"`
	} `json:"tools"`
	Config struct {
		MIME       string  `json:"responseMimeType"`
		Schema     *schema `json:"responseSchema"`
		JSONSchema *schema `json:"responseJsonSchema"`
	} `json:"generationConfig"`
}

type geminiPart struct {
	Text     string          `json:"text"`
	Thought  bool            `json:"thought"`
	Inline   json.RawMessage `json:"inlineData"`
	File     json.RawMessage `json:"fileData"`
	Response *struct {
		Response json.RawMessage `json:"response"`
	} `json:"functionResponse"`
}

func parseGemini(path string, body []byte) (*request, error) {
	var m geminiRequest
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, fmt.Errorf("generateContent: %w", err)
	}
	model, method, _ := strings.Cut(path[strings.LastIndexByte(path, '/')+1:], ":")
	r := &request{model: model, stream: method == "streamGenerateContent", thinks: true}
	for _, t := range m.Tools {
		for _, f := range t.Functions {
			declared := tool{name: f.Name}
			switch {
			case f.JSONSchema != nil:
				declared.schema = *f.JSONSchema
			case f.Parameters != nil:
				declared.schema = *f.Parameters
			}
			r.tools = append(r.tools, declared)
		}
	}
	for _, c := range m.Contents {
		who := user
		if c.Role == "model" {
			who = assistant
		}
		var words []string
		pictures := 0
		for _, p := range c.Parts {
			switch {
			case p.Response != nil:
				r.messages = append(r.messages, message{role: toolRole, text: string(p.Response.Response)})
			case p.Inline != nil || p.File != nil:
				pictures++
			case p.Text != "" && !p.Thought:
				words = append(words, p.Text)
			}
		}
		if len(words) > 0 || pictures > 0 || who == assistant {
			r.messages = append(r.messages, message{role: who, text: strings.Join(words, "\n"), images: pictures})
		}
	}
	if strings.Contains(m.Config.MIME, "json") {
		r.shape = m.Config.Schema
		if m.Config.JSONSchema != nil {
			r.shape = m.Config.JSONSchema
		}
		if r.shape == nil {
			r.shape = &schema{}
		}
	}
	return r, nil
}

func geminiFailure(status int, long bool) (int, any) {
	states := map[int]string{400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
		429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE"}
	if status == 0 {
		status = 503
	}
	text := fmt.Sprintf("the stub fails with %d", status)
	if long {
		text = "The input token count exceeds the maximum number of tokens allowed."
	}
	state := states[status]
	if state == "" {
		state = "UNKNOWN"
	}
	return status, object{"error": object{"code": status, "message": text, "status": state}}
}

type geminiVoice struct {
	out   *stream
	r     *request
	spoke int64
	parts []any
}

func speakGemini(r *request, out *stream) voice { return &geminiVoice{out: out, r: r, parts: []any{}} }

func (v *geminiVoice) answer(parts []any, finish string, in, out int64) object {
	c := object{"index": 0, "content": object{"role": "model", "parts": parts}}
	if finish != "" {
		c["finishReason"] = finish
	}
	return object{"candidates": []any{c}, "modelVersion": v.r.model, "responseId": "stub",
		"usageMetadata": object{"promptTokenCount": in, "candidatesTokenCount": out, "totalTokenCount": in + out}}
}

func (v *geminiVoice) part(p object) {
	v.parts = append(v.parts, p)
	v.out.event("", v.answer([]any{p}, "", v.r.tokens, v.spoke))
}

func (v *geminiVoice) think(chunks []string, pause time.Duration) {
	for _, c := range chunks {
		v.part(object{"text": c, "thought": true})
		sleep(v.out.ctx, pause)
	}
}

func (v *geminiVoice) text(chunks []string, pause time.Duration) {
	for _, c := range chunks {
		v.spoke++
		v.part(object{"text": c})
		sleep(v.out.ctx, pause)
	}
}

func (v *geminiVoice) call(c toolCall) {
	v.part(object{"functionCall": object{"id": name("fc_"), "name": c.name, "args": c.arguments()}})
}

func (v *geminiVoice) end(reason string, in, out int64) any {
	finish, last := "STOP", []any{object{"text": ""}}
	switch reason {
	case refused:
		finish, last = "SAFETY", []any{}
	case maxTokens:
		finish, last = "MAX_TOKENS", []any{}
	}
	v.out.event("", v.answer(last, finish, in, out))
	if v.r.shape != nil { // an agent that wants JSON wants it in this shape
		filled := tool{schema: *v.r.shape}.call(nil).args
		v.parts = []any{object{"text": string(mustJSON(filled))}}
	}
	return v.answer(v.parts, finish, in, out)
}
