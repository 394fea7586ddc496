package ahp

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/state"
)

// asked makes a question of a turn.
func (r *renderer) asked(a *state.Asked) inputPart {
	part := inputPart{Kind: "inputRequest", Request: request(&a.Interaction)}
	if a.Resolution == nil {
		if v := r.asks[a.Interaction.ID]; v != nil {
			part.Request.Answers = v.answers
		}
		return part
	}
	part.Response = response(a.Resolution)
	if part.Response == "" {
		return part // taken back when its turn ended: it stays without an answer
	}
	part.Request.Answers = answers(&a.Interaction, a.Resolution)
	return part
}

// request makes the protocol's form of a question.
func request(i *event.Interaction) inputRequest {
	r := inputRequest{ID: i.ID.String(), Message: i.Title}
	for _, q := range i.Questions {
		s := inputQuestion{ID: q.ID, Kind: "text", Title: q.Header, Message: q.Text}
		for _, o := range q.Options {
			s.Options = append(s.Options, inputOption{ID: o.Label, Label: o.Label, Description: o.Description})
		}
		if len(s.Options) > 0 {
			s.Kind, s.AllowFreeformInput = "single-select", q.FreeText
			if q.Multiple {
				s.Kind = "multi-select"
			}
		} else if q.Secret {
			s.Format = "password"
		}
		r.Questions = append(r.Questions, s)
	}
	return r
}

// response is the protocol's word for how a question ended; "" for one that
// nobody answered. The core tells no cancelling from declining: what a client
// of this front said is behind it.
func response(res *event.Resolution) string {
	switch res.Outcome {
	case event.Answered:
		return "accept"
	case event.Declined:
		if res.By.Front == front && string(res.Rich) == `"cancel"` {
			return "cancel"
		}
		return "decline"
	case event.Expired:
		return "cancel"
	}
	return ""
}

// answers makes the protocol's form of the answers, or repeats it when they
// were given here.
func answers(i *event.Interaction, res *event.Resolution) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	if res.By.Front == front && len(res.Rich) > 0 && json.Unmarshal(res.Rich, &out) == nil {
		return none(out)
	}
	for _, a := range res.Answers {
		var v any
		multiple := slices.ContainsFunc(i.Questions, func(q event.QuestionItem) bool { return q.ID == a.ID && q.Multiple })
		freeform := []string(nil)
		if a.Text != "" {
			freeform = []string{a.Text}
		}
		switch {
		case len(a.Selected) == 0 && a.Text == "":
			out[a.ID] = encode(map[string]string{"state": "skipped"})
			continue
		case len(a.Selected) == 0:
			v = map[string]any{"kind": "text", "value": a.Text}
		case multiple:
			v = dropNil(map[string]any{"kind": "selected-many", "value": a.Selected, "freeformValues": freeform})
		default:
			v = dropNil(map[string]any{"kind": "selected", "value": a.Selected[0], "freeformValues": freeform})
		}
		out[a.ID] = encode(map[string]any{"state": "submitted", "value": v})
	}
	return none(out)
}

func dropNil(m map[string]any) map[string]any {
	maps.DeleteFunc(m, func(_ string, v any) bool { s, ok := v.([]string); return ok && s == nil })
	return m
}

func none(m map[string]json.RawMessage) map[string]json.RawMessage {
	if len(m) == 0 {
		return nil
	}
	return m
}

// needs makes the entry of an open interaction, or nil when the protocol has
// no word for it.
func (r *renderer) needs(i *event.Interaction) *inputNeeded {
	c := r.st.Chat(i.Chat)
	if c == nil || c.Active == nil {
		return nil
	}
	n := &inputNeeded{ID: i.ID.String(), Chat: r.chatURI(i.Chat)}
	if i.Kind == event.Question {
		q := request(i)
		if v := r.asks[i.ID]; v != nil {
			q.Answers = v.answers
		}
		n.Kind, n.Request = "chatInput", &q
		return n
	}
	p := c.Active.Part(i.Part)
	if p == nil || p.Tool == nil {
		return nil
	}
	call := r.call(spot{i.Chat, c.Active.ID}, p, r.calls[p.ID])
	n.TurnID, n.ToolCall = turnID(c.Active), &call
	switch i.Kind {
	case event.Approval:
		n.Kind = "toolConfirmation"
	case event.ClientCall:
		n.Kind, n.ClientID = "toolClientExecution", i.Client.Client
	case event.SignIn:
		n.Kind = "toolAuthentication"
	default:
		return nil
	}
	return n
}
