package cognitio

import (
	"errors"
	"slices"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
)

func noPermission(request string) *apiError {
	e := notFound("Permission request not found, or already answered: %.100s", request)
	e.tag, e.request = "PermissionNotFoundError", request
	return e
}

func noQuestion(request string) *apiError {
	e := notFound("Question request not found, or already answered: %.100s", request)
	e.tag, e.request = "QuestionNotFoundError", request
	return e
}

func replyPermission(c *call) (any, error) {
	request, err := c.param("requestID", prefixPermission)
	if err != nil {
		return nil, err
	}
	var body struct {
		Reply   string `json:"reply" jsonx:"required"`
		Message string `json:"message"`
	}
	if err := c.body(&body); err != nil {
		return nil, err
	}
	return c.settlePermission(request, "reply", body.Reply, body.Message, id.Nil)
}

// respondPermission is the older form, under the session.
func respondPermission(c *call) (any, error) {
	s, err := c.session()
	if err != nil {
		return nil, err
	}
	request, err := c.param("permissionID", prefixPermission)
	if err != nil {
		return nil, err
	}
	var body struct {
		Response string `json:"response" jsonx:"required"`
	}
	if err := c.body(&body); err != nil {
		return nil, err
	}
	return c.settlePermission(request, "response", body.Response, "", s.ID())
}

func (c *call) settlePermission(request, field, reply, message string, within id.ID) (any, error) {
	res := event.Resolution{By: c.by(), Reason: message}
	switch reply {
	case replyOnce:
		res.Outcome, res.Scope = event.Allowed, event.ScopeOnce
	case replyAlways:
		// Until a restart, as these clients tell their user: the session's
		// own memory, not the lasting allow-list.
		res.Outcome, res.Scope = event.Allowed, event.ScopeSession
	case replyReject:
		res.Outcome = event.Denied
	default:
		return nil, badPayload(field, `%s: want "once", "always" or "reject", got %.40q`, field, reply)
	}
	u, err := id.ParseCognitio(prefixPermission, request)
	if err != nil {
		return nil, noPermission(request)
	}
	p, ok, err := c.f.pending(c, u, isApproval)
	if err != nil {
		return nil, err
	}
	if !ok || !within.IsNil() && within != p.session.ID() {
		return nil, noPermission(request)
	}
	if err := p.session.Resolve(c.ctx(), u, res); err != nil {
		if errors.Is(err, host.ErrResolved) || errors.Is(err, host.ErrNotFound) {
			return nil, noPermission(request)
		}
		return nil, err
	}
	return true, nil
}

func replyQuestion(c *call) (any, error) {
	var body struct {
		Answers [][]string `json:"answers" jsonx:"required"`
	}
	return c.settleQuestion(&body, func(i *event.Interaction) (event.Resolution, error) {
		if len(body.Answers) != len(i.Questions) {
			return event.Resolution{}, badPayload("answers", "answers: want %d lists, one for each question, got %d", len(i.Questions), len(body.Answers))
		}
		res := event.Resolution{Outcome: event.Answered}
		for n, q := range i.Questions {
			a := event.Answer{ID: q.ID}
			for _, label := range body.Answers[n] {
				if slices.ContainsFunc(q.Options, func(o event.QuestionOption) bool { return o.Label == label }) {
					a.Selected = append(a.Selected, label)
				} else if a.Text == "" {
					a.Text = label
				} else {
					a.Text += ", " + label
				}
			}
			if a.Text != "" && !q.FreeText && len(q.Options) > 0 {
				return event.Resolution{}, badPayload("answers", "answers[%d]: %.80q is none of the options", n, a.Text)
			}
			res.Answers = append(res.Answers, a)
		}
		return res, nil
	})
}

func rejectQuestion(c *call) (any, error) {
	return c.settleQuestion(&struct{}{}, func(*event.Interaction) (event.Resolution, error) {
		return event.Resolution{Outcome: event.Declined}, nil
	})
}

func (c *call) settleQuestion(body any, answer func(*event.Interaction) (event.Resolution, error)) (any, error) {
	request, err := c.param("requestID", prefixQuestion)
	if err != nil {
		return nil, err
	}
	if err := c.body(body); err != nil {
		return nil, err
	}
	u, err := id.ParseCognitio(prefixQuestion, request)
	if err != nil {
		return nil, noQuestion(request)
	}
	p, ok, err := c.f.pending(c, u, isQuestion)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, noQuestion(request)
	}
	res, err := answer(p.Interaction)
	if err != nil {
		return nil, err
	}
	res.By = c.by()
	if err := p.session.Resolve(c.ctx(), u, res); err != nil {
		if errors.Is(err, host.ErrResolved) || errors.Is(err, host.ErrNotFound) {
			return nil, noQuestion(request)
		}
		return nil, err
	}
	return true, nil
}
