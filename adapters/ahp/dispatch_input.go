package ahp

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
)

// question finds an open question of the chat.
func (a *action) question(requestID string) (*event.Interaction, error) {
	st, _ := a.current()
	for _, i := range st.Open {
		if i.Kind == event.Question && i.Chat == a.place.chat && i.ID.String() == requestID {
			return i, nil
		}
	}
	return nil, refusal("no such request is open")
}

type inputAnswer struct {
	State          string          `json:"state" jsonx:"required"`
	Value          json.RawMessage `json:"value"`
	FreeformValues []string        `json:"freeformValues"`
}

// readAnswer makes the core's answer of the protocol's, for a question.
func readAnswer(q *event.QuestionItem, raw json.RawMessage) (event.Answer, string, error) {
	out := event.Answer{ID: q.ID}
	var in inputAnswer
	if err := decode(raw, &in, "answers."+clip(q.ID)); err != nil {
		return out, "", err
	}
	if in.State == "skipped" {
		return out, in.State, nil
	}
	if in.State != "draft" && in.State != "submitted" {
		return out, "", refusal("answers." + clip(q.ID) + ".state: want draft, submitted or skipped")
	}
	var v struct {
		Kind           string          `json:"kind" jsonx:"required"`
		Value          json.RawMessage `json:"value" jsonx:"required"`
		FreeformValues []string        `json:"freeformValues"`
	}
	if err := decode(in.Value, &v, "answers."+clip(q.ID)+".value"); err != nil {
		return out, "", err
	}
	bad := refusal("answers." + clip(q.ID) + ".value: does not fit the question")
	switch v.Kind {
	case "text":
		if len(q.Options) > 0 && !q.FreeText || json.Unmarshal(v.Value, &out.Text) != nil {
			return out, "", bad
		}
	case "number", "boolean":
		if len(q.Options) > 0 {
			return out, "", bad
		}
		out.Text = string(v.Value)
	case "selected":
		var s string
		if json.Unmarshal(v.Value, &s) != nil || len(q.Options) == 0 {
			return out, "", bad
		}
		if s != "" {
			out.Selected = []string{s}
		}
	case "selected-many":
		if json.Unmarshal(v.Value, &out.Selected) != nil || !q.Multiple {
			return out, "", bad
		}
	default:
		return out, "", bad
	}
	if len(v.FreeformValues) > 0 {
		if !q.FreeText {
			return out, "", bad
		}
		out.Text = strings.Join(v.FreeformValues, "\n")
	}
	for _, s := range out.Selected {
		if !slices.ContainsFunc(q.Options, func(o event.QuestionOption) bool { return o.Label == s }) {
			if !q.FreeText {
				return out, "", bad
			}
			out.Text, out.Selected = s, slices.DeleteFunc(out.Selected, func(x string) bool { return x == s })
			break
		}
	}
	return out, in.State, nil
}

// changeAnswer shares an answer that is being typed.
func (a *action) changeAnswer(context.Context) error {
	var p struct {
		RequestID  string          `json:"requestId" jsonx:"required"`
		QuestionID string          `json:"questionId" jsonx:"required"`
		Answer     json.RawMessage `json:"answer"`
	}
	if err := decode(a.raw, &p, "action"); err != nil {
		return err
	}
	i, err := a.question(p.RequestID)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(i.Questions, func(q event.QuestionItem) bool { return q.ID == p.QuestionID })
	if at < 0 {
		return refusal("the request has no such question")
	}
	given := len(p.Answer) > 0 && string(p.Answer) != "null"
	if given {
		if _, _, err := readAnswer(&i.Questions[at], p.Answer); err != nil {
			return err
		}
		if i.Questions[at].Secret {
			return refusal("a secret is not shared while it is typed")
		}
	}
	return a.look(func(st *state.State, _ *state.Chat) error {
		if st.Interaction(i.ID) == nil {
			return refusal("no such request is open")
		}
		l := a.live
		v := l.asks[i.ID]
		if v == nil {
			v = &askView{}
			l.asks[i.ID] = v
		}
		answers := maps.Clone(v.answers) // snapshots share the old one
		if answers == nil {
			answers = map[string]json.RawMessage{}
		}
		if given {
			answers[p.QuestionID] = p.Answer
		} else {
			delete(answers, p.QuestionID)
		}
		v.answers = none(answers)
		l.say(a.place.chat, &a.origin, func(*renderer) any { return a.raw })
		l.say(id.Nil, nil, func(r *renderer) any {
			return map[string]any{"type": "session/inputNeededSet", "request": r.needs(i)}
		})
		return nil
	})
}

// completeInput answers a question.
func (a *action) completeInput(ctx context.Context) error {
	var p struct {
		RequestID string                     `json:"requestId" jsonx:"required"`
		Response  string                     `json:"response" jsonx:"required"`
		Answers   map[string]json.RawMessage `json:"answers"`
	}
	if err := decode(a.raw, &p, "action"); err != nil {
		return err
	}
	i, err := a.question(p.RequestID)
	if err != nil {
		return err
	}
	res := event.Resolution{Outcome: event.Declined, By: a.conn.actor()}
	switch p.Response {
	case "decline":
	case "cancel":
		res.Rich = encode(p.Response)
	case "accept":
		res.Outcome = event.Answered
		if res.Answers, res.Rich, err = a.answersTo(i, p.Answers); err != nil {
			return err
		}
	default:
		return refusal("action.response: want accept, decline or cancel")
	}
	return a.expect("input:"+i.ID.String(), func() error { return a.live.session().Resolve(ctx, i.ID, res) })
}

// answersTo lays the given answers over those that were typed, and reads them.
func (a *action) answersTo(i *event.Interaction, given map[string]json.RawMessage) ([]event.Answer, json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	a.live.mu.Lock()
	if v := a.live.asks[i.ID]; v != nil {
		maps.Copy(all, v.answers)
	}
	a.live.mu.Unlock()
	maps.Copy(all, given)
	var out []event.Answer
	secret, whole := false, maps.Clone(all)
	for n := range i.Questions {
		q := &i.Questions[n]
		secret = secret || q.Secret
		raw, ok := all[q.ID]
		delete(all, q.ID)
		if !ok {
			continue
		}
		answer, state, err := readAnswer(q, raw)
		if err != nil {
			return nil, nil, err
		}
		if state != "skipped" {
			out = append(out, answer)
		}
	}
	for name := range all {
		return nil, nil, refusal("the request has no question " + clip(name))
	}
	if secret || len(whole) == 0 {
		return out, nil, nil
	}
	return out, encode(whole), nil
}
