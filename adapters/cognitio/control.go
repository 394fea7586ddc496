package cognitio

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
)

// The control channel asks an SDK's callback whether a call may run, beside
// the permission that people see; whoever answers first answers for all.

const (
	controlCanUseTool = "can_use_tool"
	// controlClient marks answers that came through the channel.
	controlClient = "control"
	// controlTimeout is what a request says that has no end of its own.
	controlTimeout = 24 * time.Hour
)

func controlOf(info *event.SessionInfo, main id.ID, i *event.Interaction) controlRequest {
	c := chatAt{info: info, main: main, chat: &event.ChatInfo{ID: i.Chat}}
	root, active := sessionID(info.ID), c.spell(i.Chat)
	r := controlRequest{ID: i.ID.String(), SessionID: root, Subtype: controlCanUseTool, CreatedAt: millis(i.OpenedAt),
		TimeoutMs: controlTimeout.Milliseconds(), Payload: map[string]any{"tool": toolName(i.Tool), "toolName": toolName(i.Tool), "callID": i.Call,
			"input": objectOf(i.Input), "rootSessionID": root, "activeSessionID": active}}
	if active != root {
		r.Payload["parentSessionID"] = root
	}
	if !i.ExpiresAt.IsZero() {
		r.TimeoutMs = max(0, i.ExpiresAt.Sub(i.OpenedAt).Milliseconds())
	}
	return r
}

func listControl(c *call) (any, error) {
	s, err := c.session()
	if err != nil {
		return nil, err
	}
	st := s.State()
	out := []controlRequest{}
	if !rulesOf(&st.Info).callback {
		return out, nil
	}
	for _, i := range st.Open {
		if i.Kind == event.Approval {
			out = append(out, controlOf(&st.Info, st.Default, i))
		}
	}
	return out, nil
}

func respondControl(c *call) (any, error) {
	s, err := c.session()
	if err != nil {
		return nil, err
	}
	var body struct {
		RequestID string `json:"requestID" jsonx:"required"`
		Subtype   string `json:"subtype" jsonx:"required"`
		Response  struct {
			Behavior     string          `json:"behavior"`
			Message      string          `json:"message"`
			UpdatedInput json.RawMessage `json:"updatedInput"`
		} `json:"response" jsonx:"required"`
	}
	if err := c.body(&body); err != nil {
		return nil, err
	}
	type answer struct {
		Resolved bool `json:"resolved"`
	}
	u, err := id.Parse(body.RequestID)
	if err != nil || body.Subtype != controlCanUseTool {
		return answer{}, nil
	}
	st := s.State()
	if i := st.Interaction(u); i == nil || i.Kind != event.Approval || !rulesOf(&st.Info).callback {
		return answer{}, nil
	}
	res := event.Resolution{By: event.Actor{Front: Name, Client: controlClient}, Reason: body.Response.Message}
	switch body.Response.Behavior {
	case "allow":
		res.Outcome, res.Scope, res.Input = event.Allowed, event.ScopeOnce, body.Response.UpdatedInput
	case "deny":
		res.Outcome = event.Denied
	case "ask":
		return answer{true}, nil // a person answers the permission
	default:
		return nil, badPayload("response.behavior", `response.behavior: want "allow", "deny" or "ask", got %.40q`, body.Response.Behavior)
	}
	err = s.Resolve(c.ctx(), u, res)
	if errors.Is(err, host.ErrResolved) || errors.Is(err, host.ErrNotFound) {
		return answer{}, nil
	}
	return answer{err == nil}, err
}

// settle answers a request for a session's rules, beside the projection that
// noticed it.
func (f *server) settle(s *host.Session, u id.ID, res event.Resolution) {
	f.tasks.Go(func() {
		err := s.Resolve(f.ctx, u, res)
		if err != nil && !errors.Is(err, host.ErrResolved) && !errors.Is(err, host.ErrNotFound) {
			f.log.Error("session's rules could not answer a permission", "session", s.ID(), "err", err)
		}
	})
}
