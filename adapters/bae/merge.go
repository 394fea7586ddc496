package bae

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/polyhost/polyhost/core/event"
)

// content is a message's content, taken apart.
type content struct {
	raw     json.RawMessage
	text    string            // of a string
	isText  bool              // raw is a string
	isArray bool              // raw is an array
	blocks  []json.RawMessage // of an array, without the tool results
	results []toolResult      // of an array
}

// readContent takes a content apart; it never fails: what it is good for is
// judged where it is used.
func readContent(raw json.RawMessage) content {
	c := content{raw: raw}
	if json.Unmarshal(raw, &c.text) == nil && raw[0] == '"' {
		c.isText = true
		return c
	}
	var blocks []json.RawMessage
	if len(raw) == 0 || raw[0] != '[' || json.Unmarshal(raw, &blocks) != nil {
		return c
	}
	c.isArray = true
	for _, b := range blocks {
		var r struct {
			Type      string          `json:"type"`
			ToolUseID json.RawMessage `json:"tool_use_id"`
			Content   json.RawMessage `json:"content"`
			IsError   json.RawMessage `json:"is_error"`
		}
		if json.Unmarshal(b, &r) != nil || r.Type != "tool_result" {
			c.blocks = append(c.blocks, b)
			continue
		}
		result := toolResult{Content: r.Content, IsError: string(r.IsError) == "true"}
		_ = json.Unmarshal(r.ToolUseID, &result.ID) // anything but a string is no id
		if len(result.Content) == 0 {
			result.Content = json.RawMessage(`""`)
		}
		c.results = append(c.results, result)
	}
	return c
}

// empty reports whether there is nothing in it.
func (c content) empty() bool {
	return c.isText && c.text == "" || c.isArray && len(c.blocks)+len(c.results) == 0
}

// prompt is what the agent is told: the text of the blocks, a line each, and
// the images.
func (c content) prompt() (string, []event.Attachment) {
	if c.isText {
		return c.text, nil
	}
	var lines []string
	var images []event.Attachment
	for _, b := range c.blocks {
		var v struct {
			Type   string `json:"type"`
			Text   string `json:"text"`
			Source struct {
				Type      string `json:"type"`
				MediaType string `json:"media_type"`
				Data      string `json:"data"`
			} `json:"source"`
		}
		if json.Unmarshal(b, &v) != nil {
			lines = append(lines, string(b))
			continue
		}
		switch v.Type {
		case "text":
			lines = append(lines, v.Text)
		case "image":
			if data, err := base64.StdEncoding.DecodeString(v.Source.Data); err == nil && len(data) > 0 {
				images = append(images, event.Attachment{Kind: event.AttachImage, MIME: v.Source.MediaType, Data: data, Size: int64(len(data))})
			}
		default:
			lines = append(lines, string(b))
		}
	}
	return strings.Join(lines, "\n"), images
}

// abandonedText is the result of a call that its client never answered.
const abandonedText = "the client did not run this tool: the turn was given up"

// merge finds the client's result for each call of a paused turn, in the order
// of the paused message.
func merge(p *pause, role string, c content) ([]toolResult, error) {
	if role != "user" {
		return nil, fmt.Errorf("the role is %.40q, want user", role)
	}
	given := map[string]toolResult{}
	for _, r := range c.results {
		if p.served[r.ID] {
			continue // the gateway's own result stands
		}
		if _, twice := given[r.ID]; twice {
			return nil, fmt.Errorf("two results for %.80q", r.ID)
		}
		given[r.ID] = r
	}
	results := make([]toolResult, len(p.calls))
	for n, i := range p.calls {
		r, ok := given[useID(i)]
		if !ok {
			return nil, fmt.Errorf("no result for %.80q", useID(i))
		}
		delete(given, r.ID)
		results[n] = r
	}
	for id := range given {
		return nil, fmt.Errorf("nobody asked for a result of %.80q", id)
	}
	return results, nil
}

// recorded is what may be stored of results: not the answers to secret
// questions.
func recorded(p *pause, results []toolResult) []toolResult {
	out := slices.Clone(results)
	for n, i := range p.calls {
		if secret(i) {
			out[n].Content = mustJSON("[not stored]")
		}
	}
	return out
}

// abandon makes the content of a message that gives a paused turn up.
func abandon(p *pause, role string, c content) (json.RawMessage, []toolResult, error) {
	if role != "user" {
		return nil, nil, fmt.Errorf("the role is %.40q, want user", role)
	}
	if c.empty() || !c.isText && !c.isArray || len(c.results) > 0 {
		return nil, nil, fmt.Errorf("the message answers none of the %d calls", len(p.calls))
	}
	results := make([]toolResult, len(p.calls))
	for n, i := range p.calls {
		results[n] = toolResult{ID: useID(i), Content: mustJSON(abandonedText), IsError: true}
	}
	blocks := c.blocks
	if c.isText {
		blocks = []json.RawMessage{mustJSON(block{Type: "text", Text: c.text})}
	}
	return mergedContent(results, blocks), results, nil
}

func mergedContent(results []toolResult, blocks []json.RawMessage) json.RawMessage {
	out := make([]json.RawMessage, 0, len(results)+len(blocks))
	for _, r := range results {
		out = append(out, mustJSON(block{Type: "tool_result", ToolUseID: r.ID, Content: r.Content, IsError: r.IsError}))
	}
	return mustJSON(append(out, blocks...))
}

// secret reports whether the answer to an interaction must not be stored.
func secret(i *event.Interaction) bool {
	for _, q := range i.Questions {
		if q.Secret {
			return true
		}
	}
	return false
}
