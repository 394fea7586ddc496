package bae

import (
	"encoding/json"
	"strings"

	"github.com/polyhost/polyhost/core/event"
)

// The client tools that stand in for what the protocol has no word for. A
// harness that declares one is asked; docs/protocols/bae.md has their schemas.
const (
	toolPermission = "request_permission"
	toolQuestion   = "ask_user"
)

// permission is the input of request_permission.
type permission struct {
	Tool      string          `json:"tool"`
	ToolUseID string          `json:"tool_use_id"`
	Title     string          `json:"title"`
	Input     json.RawMessage `json:"input"`
	Kind      string          `json:"kind"`
	Why       string          `json:"why,omitempty"`
	Pattern   string          `json:"pattern,omitempty"`
	Scopes    []event.Scope   `json:"scopes"`
}

func permissionInput(i *event.Interaction) json.RawMessage {
	scopes := i.Scopes
	if len(scopes) == 0 {
		scopes = []event.Scope{event.ScopeOnce}
	}
	return mustJSON(permission{Tool: i.Tool, ToolUseID: i.Call, Title: i.Title, Input: object(i.Input), Kind: string(i.Tag),
		Why: i.Why, Pattern: i.Pattern, Scopes: scopes})
}

// question is the input of ask_user. A single question is also given flat.
type question struct {
	Question  string         `json:"question,omitempty"`
	Options   []string       `json:"options,omitempty"`
	Questions []questionItem `json:"questions"`
}

type questionItem struct {
	ID       string           `json:"id"`
	Header   string           `json:"header,omitempty"`
	Question string           `json:"question"`
	Options  []questionOption `json:"options"`
	Multiple bool             `json:"multiple"`
	FreeText bool             `json:"free_text"`
	Secret   bool             `json:"secret,omitempty"`
}

type questionOption struct {
	Label       string `json:"label"`
	Description string `json:"description,omitempty"`
}

func questionInput(i *event.Interaction) json.RawMessage {
	q := question{Questions: make([]questionItem, len(i.Questions))}
	for n, item := range i.Questions {
		options := make([]questionOption, len(item.Options))
		for o, option := range item.Options {
			options[o] = questionOption(option)
		}
		q.Questions[n] = questionItem{item.ID, item.Header, item.Text, options, item.Multiple, item.FreeText, item.Secret}
	}
	if len(i.Questions) == 1 {
		q.Question = i.Questions[0].Text
		for _, o := range i.Questions[0].Options {
			q.Options = append(q.Options, o.Label)
		}
	}
	return mustJSON(q)
}

// resolutionOf reads a client's tool result as the answer to an interaction.
func resolutionOf(i *event.Interaction, r toolResult, by event.Actor) event.Resolution {
	switch i.Kind {
	case event.Approval:
		return decision(i, r, by)
	case event.Question:
		return answers(i, r, by)
	}
	return event.Resolution{Outcome: event.Completed, By: by, Output: contentText(r.Content), Failed: r.IsError}
}

// decision reads the result of request_permission: a word or an object. What
// is not clearly a yes is a no.
func decision(i *event.Interaction, r toolResult, by event.Actor) event.Resolution {
	text := strings.TrimSpace(contentText(r.Content))
	var d struct {
		Decision string          `json:"decision"`
		Scope    event.Scope     `json:"scope"`
		Reason   string          `json:"reason"`
		Input    json.RawMessage `json:"input"`
	}
	if json.Unmarshal([]byte(text), &d) != nil {
		var word string
		if json.Unmarshal([]byte(text), &word) == nil {
			text = word
		}
		d.Decision = text
	}
	out := event.Resolution{Outcome: event.Denied, By: by, Reason: d.Reason}
	switch strings.ToLower(strings.TrimSpace(d.Decision)) {
	case "allow", "allowed", "allow_once", "approve", "approved", "accept", "yes", "true":
		if r.IsError {
			break
		}
		out.Outcome, out.Scope = event.Allowed, event.ScopeOnce
		for _, s := range i.Scopes {
			if s == d.Scope {
				out.Scope = d.Scope
			}
		}
		if len(d.Input) > 0 && d.Input[0] == '{' {
			out.Input = d.Input
		}
	case "deny", "denied", "reject", "rejected", "no", "false", "":
	default:
		if out.Reason == "" {
			out.Reason = text
		}
	}
	return out
}

// answers reads the result of ask_user: {"answers":{id: text or [texts]}}, or
// for the first question alone {"answer": …} or plain text.
func answers(i *event.Interaction, r toolResult, by event.Actor) event.Resolution {
	out := event.Resolution{Outcome: event.Declined, By: by}
	text := strings.TrimSpace(contentText(r.Content))
	if r.IsError || len(i.Questions) == 0 {
		out.Reason = text
		return out
	}
	given := map[string][]string{}
	var d struct {
		Answers map[string]json.RawMessage `json:"answers"`
		Answer  json.RawMessage            `json:"answer"`
	}
	first := i.Questions[0].ID
	switch {
	case json.Unmarshal([]byte(text), &d) == nil && (d.Answers != nil || d.Answer != nil):
		for q, raw := range d.Answers {
			given[q] = texts(raw)
		}
		if d.Answer != nil {
			given[first] = texts(d.Answer)
		}
	default:
		var word string
		if json.Unmarshal([]byte(text), &word) == nil {
			text = word
		}
		given[first] = []string{text}
	}
	for _, q := range i.Questions {
		a := event.Answer{ID: q.ID}
		for _, text := range given[q.ID] {
			if label, ok := optionOf(q, text); ok {
				a.Selected = append(a.Selected, label)
			} else if text != "" {
				a.Text = text
			}
		}
		if !q.Multiple && len(a.Selected) > 1 {
			a.Selected = a.Selected[:1]
		}
		if len(a.Selected) > 0 || a.Text != "" {
			out.Outcome = event.Answered
		}
		out.Answers = append(out.Answers, a)
	}
	if out.Outcome == event.Declined {
		out.Answers = nil
	}
	return out
}

// texts reads a string or a list of strings.
func texts(raw json.RawMessage) []string {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}
	}
	var many []string
	if json.Unmarshal(raw, &many) == nil {
		return many
	}
	return nil
}

func optionOf(q event.QuestionItem, text string) (string, bool) {
	for _, o := range q.Options {
		if strings.EqualFold(o.Label, strings.TrimSpace(text)) {
			return o.Label, true
		}
	}
	return "", false
}

// settledText tells a BAE client how somebody else settled its call.
func settledText(r event.Resolution) string {
	who := r.By.Front
	if who == "" || who == event.Gateway.Front {
		who = "the gateway"
	}
	var given []string
	for _, a := range r.Answers {
		given = append(given, a.Selected...)
		if a.Text != "" {
			given = append(given, a.Text)
		}
	}
	if len(given) > 0 {
		return "answered by " + who + ": " + strings.Join(given, ", ")
	}
	return string(r.Outcome) + " by " + who
}

// contentText is what a content is as text: a string, or blocks' texts, a line
// each.
func contentText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var blocks []json.RawMessage
	if json.Unmarshal(raw, &blocks) != nil {
		return string(raw)
	}
	var out []string
	for _, b := range blocks {
		var t struct {
			Type string  `json:"type"`
			Text *string `json:"text"`
		}
		if json.Unmarshal(b, &t) == nil && t.Text != nil {
			out = append(out, *t.Text)
		} else {
			out = append(out, string(b))
		}
	}
	return strings.Join(out, "\n")
}

// command is the shell line in a sandbox tool's input, or nil.
func command(input json.RawMessage) *string {
	var in struct {
		Command *string `json:"command"`
	}
	if json.Unmarshal(input, &in) != nil {
		return nil
	}
	return in.Command
}
