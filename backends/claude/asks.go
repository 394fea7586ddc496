package claude

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// request is something the CLI wants to be answered.
func (m *mapper) request(r *record) {
	var q canUseTool
	if json.Unmarshal(r.Request, &q) != nil || q.Subtype != "can_use_tool" {
		m.replies = append(m.replies, refusal(r.RequestID, "this host does not answer "+q.Subtype))
		return
	}
	input := object(q.Input)
	server, _ := splitName(q.ToolName)
	if !m.open {
		m.replies = append(m.replies, denial(r.RequestID, "the turn is over"))
		return
	}
	c := m.calls[q.ToolUseID]
	if c == nil {
		if c = m.startCall("", q.ToolUseID, q.ToolName, input); c == nil {
			m.replies = append(m.replies, denial(r.RequestID, "there are too many calls"))
			return
		}
	}
	if string(input) != "{}" { // of leaving plan mode only the call itself has the plan
		c.tool = describe(c.name, input)
	}
	switch {
	case server == gatewayServer:
		// The gateway's own endpoint decides what becomes of the call.
		c.running = true
		m.put(agent.Frame{Kind: agent.ToolRun, Child: c.child, Call: c.id, Tool: c.about()})
		m.replies = append(m.replies, allowance(r.RequestID, input))
		return
	case q.ToolName == "AskUserQuestion":
		if items := questions(input); len(items) > 0 {
			c.asked = true
			m.asks[r.RequestID] = &ask{call: c, input: input, questions: items}
			m.put(agent.Frame{Kind: agent.Ask, Child: c.child, Call: c.id, Request: r.RequestID, Questions: items})
			return
		}
	}
	c.asked = true
	c.edits = editsOf(m.dirs, c.name, input)
	t := c.about()
	t.Edits, t.MustAsk = c.edits, q.Interactive
	m.asks[r.RequestID] = &ask{call: c, input: input}
	m.put(agent.Frame{Kind: agent.Permission, Child: c.child, Call: c.id, Request: r.RequestID, Tool: t})
}

// answer is the line that settles a request, nil for one that is not open.
func (m *mapper) answer(a agent.Answer) []byte {
	q := m.asks[a.Request]
	if q == nil {
		return nil
	}
	delete(m.asks, a.Request)
	res := a.Resolution
	switch {
	case q.questions != nil && res.Outcome == event.Answered:
		return allowance(a.Request, withAnswers(q, res.Answers))
	case q.questions != nil:
		return denial(a.Request, words(res.Reason, "The user did not answer. Go on without an answer."))
	case res.Outcome == event.Allowed:
		input := q.input
		if len(res.Input) > 0 {
			input = object(res.Input)
			q.call.tool = describe(q.call.name, input)
			q.call.edits = editsOf(m.dirs, q.call.name, input)
		}
		return allowance(a.Request, input)
	}
	q.call.denied, q.call.reason = true, res.Reason
	return denial(a.Request, words(res.Reason, "The user does not allow this call."))
}

func words(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// The answers to the CLI's requests. What it suggests as lasting rules is never
// sent back: it would write them into the project's settings.

func allowance(request string, input json.RawMessage) []byte {
	return success(request, marshal(map[string]any{"behavior": "allow", "updatedInput": input}))
}

func denial(request, why string) []byte {
	return success(request, marshal(map[string]any{"behavior": "deny", "message": why}))
}

func success(request string, response json.RawMessage) []byte {
	return marshal(map[string]any{"type": "control_response",
		"response": map[string]any{"subtype": "success", "request_id": request, "response": response}})
}

func refusal(request, why string) []byte {
	return marshal(map[string]any{"type": "control_response",
		"response": map[string]any{"subtype": "error", "request_id": request, "error": why}})
}

type questionInput struct {
	Question string `json:"question"`
	Header   string `json:"header"`
	Multiple bool   `json:"multiSelect"`
	Options  []struct {
		Label       string `json:"label"`
		Description string `json:"description"`
	} `json:"options"`
}

func questions(input json.RawMessage) (items []event.QuestionItem) {
	var in struct {
		Questions []questionInput `json:"questions"`
	}
	_ = json.Unmarshal(input, &in)
	for i, q := range in.Questions {
		item := event.QuestionItem{ID: strconv.Itoa(i + 1), Header: q.Header, Text: q.Question, Multiple: q.Multiple, FreeText: true}
		for _, o := range q.Options {
			item.Options = append(item.Options, event.QuestionOption{Label: o.Label, Description: o.Description})
		}
		items = append(items, item)
	}
	return items
}

// withAnswers is the call's input with the answers, by the questions' texts.
func withAnswers(q *ask, answers []event.Answer) json.RawMessage {
	said := map[string]string{}
	for _, a := range answers {
		for _, item := range q.questions {
			if item.ID != a.ID {
				continue
			}
			parts := a.Selected
			if a.Text != "" {
				parts = append(parts[:len(parts):len(parts)], a.Text)
			}
			if len(parts) > 0 {
				said[item.Text] = strings.Join(parts, ", ")
			}
		}
	}
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(q.input, &fields)
	fields["answers"] = marshal(said)
	return marshal(fields)
}
