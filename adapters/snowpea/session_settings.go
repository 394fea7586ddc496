package snowpea

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/transports/jsonrpc"
)

func sessionSetMode(ctx context.Context, c *conn, r *jsonrpc.Request) (any, error) {
	p, err := decode[struct {
		SessionID string `json:"sessionId"`
		Mode      string `json:"mode"`
	}](r)
	if err != nil {
		return nil, err
	}
	_, s, _, err := c.opened(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	if err := s.Update(ctx, modeUpdate(c, p.Mode)); err != nil {
		return nil, err
	}
	return map[string]string{"mode": p.Mode}, nil
}

// modeUpdate sets a mode; setting the same one again is told too.
func modeUpdate(c *conn, mode string) *event.SessionUpdated {
	return &event.SessionUpdated{By: c.actor(), Settings: &event.Settings{Mode: event.Mode(mode)}, Meta: map[string]json.RawMessage{metaMode: metaValue(mode)}}
}

func sessionSetModel(ctx context.Context, c *conn, r *jsonrpc.Request) (any, error) {
	p, err := decode[struct {
		SessionID string  `json:"sessionId"`
		Model     *string `json:"model"`
	}](r)
	if err != nil {
		return nil, err
	}
	_, s, _, err := c.opened(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	info := s.State().Info
	pick := event.Settings{Model: event.Inherit}
	if ref := deref(p.Model); ref != "" && ref != event.Inherit {
		if pick.Model, err = pickModel(c.front.catalogue(info.Backend), info.Backend, ref); err != nil {
			return nil, err
		}
	}
	if err := s.Update(ctx, &event.SessionUpdated{By: c.actor(), Settings: &pick}); err != nil {
		return nil, err
	}
	model := s.State().Info.Settings.Model
	return struct {
		Provider *string `json:"provider"`
		Model    *string `json:"model"`
		Pinned   bool    `json:"pinned"`
	}{ptr(info.Backend), ptr(model), model != ""}, nil
}

type effortResult struct {
	SessionID    string   `json:"sessionId"`
	Effort       *string  `json:"effort"`
	EffortSource string   `json:"effortSource"`
	Efforts      []string `json:"efforts"`
	Pinned       *string  `json:"pinned"`
}

func sessionSetEffort(ctx context.Context, c *conn, r *jsonrpc.Request) (any, error) {
	p, err := decode[struct {
		SessionID string  `json:"sessionId"`
		Effort    *string `json:"effort"`
	}](r)
	if err != nil {
		return nil, err
	}
	_, s, _, err := c.opened(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	info := s.State().Info
	out := effortResult{SessionID: p.SessionID, EffortSource: "default",
		Efforts: effortsOf(c.front.catalogue(info.Backend), info.Settings.Model)}
	pick := event.Settings{Effort: event.Inherit}
	if want := deref(p.Effort); want != "" && len(out.Efforts) > 0 {
		if !slices.Contains(out.Efforts, want) {
			return nil, invalid("effort", "the model has no effort %q", want)
		}
		pick.Effort = want
		out.Effort, out.Pinned, out.EffortSource = &want, &want, "session"
	}
	if err := s.Update(ctx, &event.SessionUpdated{By: c.actor(), Settings: &pick}); err != nil {
		return nil, err
	}
	return out, nil
}

func sessionSetAgent(ctx context.Context, c *conn, r *jsonrpc.Request) (any, error) {
	p, err := decode[struct {
		SessionID string  `json:"sessionId"`
		Agent     *string `json:"agent"`
		GuardTurn bool    `json:"guardTurn"`
	}](r)
	if err != nil {
		return nil, err
	}
	t, s, chat, err := c.opened(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	info := s.State().Info
	if !c.mayDrive(t, chat, info.Meta) {
		return nil, fail(codeUnauthorized, "only the session's host or origin may do this")
	}
	if p.GuardTurn {
		return nil, unavailable("turns cannot be guarded here")
	}
	name := deref(p.Agent)
	if name != "" && !slices.ContainsFunc(c.front.catalogue(info.Backend).Agents, func(a agent.Persona) bool { return a.Name == name }) {
		return nil, invalid("agent", "there is no agent %q", cut(name, 80))
	}
	pick := event.Settings{Agent: event.Inherit}
	if name != "" {
		pick.Agent = name
	}
	if err := s.Update(ctx, &event.SessionUpdated{By: c.actor(), Settings: &pick}); err != nil {
		return nil, err
	}
	return struct {
		SessionID string  `json:"sessionId"`
		Agent     *string `json:"agent"`
		Guarded   bool    `json:"guarded"`
	}{p.SessionID, ptr(name), false}, nil
}

// titleOf trims a title and cuts it to what is kept.
func titleOf(s string) string {
	s = strings.TrimSpace(s)
	if r := []rune(s); len(r) > maxTitle {
		s = strings.TrimSpace(string(r[:maxTitle]))
	}
	return s
}
