package zidane

import (
	"context"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/state"
)

// turnObject is a raw turn.
type turnObject struct {
	ID        string      `json:"id"`
	Index     int         `json:"index"`
	Status    string      `json:"status"`
	StartedAt int64       `json:"startedAt"`
	EndedAt   int64       `json:"endedAt,omitempty"`
	Prompt    promptEvent `json:"prompt"`
	Events    []any       `json:"events"`
	Usage     usageObject `json:"usage"`
	Error     string      `json:"error,omitempty"`
	// Synthetic: the server closed a run that a crash had cut off.
	Synthetic bool `json:"synthetic,omitempty"`
}

type usageObject struct {
	Input      int64  `json:"input"`
	Output     int64  `json:"output"`
	CacheRead  int64  `json:"cacheRead,omitempty"`
	CacheWrite int64  `json:"cacheWrite,omitempty"`
	ModelID    string `json:"modelId,omitempty"`
}

// sessionsGetTurns pages the raw turns, oldest first from a position.
func sessionsGetTurns(ctx context.Context, c *call, p struct {
	ref
	From  *int `json:"from"`
	Limit *int `json:"limit"`
}) (any, error) {
	limit, err := pageSize(p.Limit)
	if err != nil {
		return nil, err
	}
	from := 0
	if p.From != nil {
		if from = *p.From; from < 0 {
			return nil, badField("from", "want 0 or more")
		}
	}
	s, st, chat, err := c.chatOf(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	end := chat.Count
	if chat.Active != nil {
		end++
	}
	upto := min(from+limit, end)
	page := struct {
		Turns []turnObject `json:"turns"`
		Next  *int         `json:"next,omitempty"`
	}{Turns: []turnObject{}}
	size := 0
	err = eachTurn(ctx, s, chat, from, upto, func(t *state.Turn) error {
		o := c.turnOf(&st.Info, t)
		for _, e := range o.Events {
			size += roughSize(e)
		}
		if size > maxAnswer {
			return responseTooLarge
		}
		page.Turns = append(page.Turns, o)
		return nil
	})
	if upto < end {
		page.Next = &upto
	}
	return page, err
}

func (f *Front) turnOf(info *event.SessionInfo, t *state.Turn) turnObject {
	o := turnObject{ID: t.ID.String(), Index: t.Number, Status: string(t.Status), StartedAt: t.StartedAt.UnixMilli(),
		Prompt: promptOf(&t.Message), Events: f.eventsOf(info, t), Synthetic: t.Synthetic,
		Usage: usageObject{t.Usage.Input, t.Usage.Output, t.Usage.CacheRead, t.Usage.CacheWrite, t.Usage.Model}}
	if t.Status != event.TurnRunning {
		o.EndedAt = t.StartedAt.Add(t.Duration).UnixMilli()
	}
	if t.Error != nil {
		o.Error = t.Error.Message
	}
	return o
}
