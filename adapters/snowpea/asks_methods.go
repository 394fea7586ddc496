package snowpea

import (
	"context"
	"errors"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/transports/jsonrpc"
)

type okResult struct {
	OK bool `json:"ok"`
}

var done = okResult{true}

type scopeParams struct {
	SessionID *string `json:"sessionId"`
}

func approvalList(_ context.Context, c *conn, r *jsonrpc.Request) (any, error) {
	p, err := decode[scopeParams](r)
	if err != nil {
		return nil, err
	}
	rows := []approvalRow{}
	for _, k := range c.front.asks.list(event.Approval, deref(p.SessionID)) {
		rows = append(rows, k.approval(c.front))
	}
	return map[string]any{"requests": rows}, nil
}

func questionList(_ context.Context, c *conn, r *jsonrpc.Request) (any, error) {
	p, err := decode[scopeParams](r)
	if err != nil {
		return nil, err
	}
	rows := []questionRow{}
	for _, k := range c.front.asks.list(event.Question, deref(p.SessionID)) {
		rows = append(rows, k.question(c.front))
	}
	return map[string]any{"requests": rows}, nil
}

func approvalRespond(ctx context.Context, c *conn, r *jsonrpc.Request) (any, error) {
	p, err := decode[struct {
		RequestID string `json:"requestId"`
		Decision  string `json:"decision"`
		Scope     string `json:"scope"`
		Reason    string `json:"reason"`
	}](r)
	if err != nil {
		return nil, err
	}
	k, err := c.front.asks.find(event.Approval, p.RequestID)
	if err != nil {
		return nil, err
	}
	res := event.Resolution{Outcome: event.Denied, Reason: p.Reason}
	if p.Decision == "allow" {
		res = k.allowed(p.Scope)
	}
	return c.respond(ctx, k, res)
}

func questionRespond(ctx context.Context, c *conn, r *jsonrpc.Request) (any, error) {
	p, err := decode[struct {
		RequestID string   `json:"requestId"`
		Answers   []answer `json:"answers"`
	}](r)
	if err != nil {
		return nil, err
	}
	k, err := c.front.asks.find(event.Question, p.RequestID)
	if err != nil {
		return nil, err
	}
	res, err := k.answers(p.Answers)
	if err != nil {
		return nil, err
	}
	return c.respond(ctx, k, res)
}

// respond settles an interaction for a connection; somebody else may have been
// quicker.
func (c *conn) respond(ctx context.Context, k *ask, res event.Resolution) (any, error) {
	res.By = c.answerer()
	err := c.front.asks.resolve(ctx, k, res)
	if errors.Is(err, host.ErrResolved) || errors.Is(err, host.ErrNotFound) {
		return nil, fail(codeNotFound, "no open %s %q", k.i.Kind, k.i.ID)
	}
	if err != nil {
		return nil, err
	}
	return done, nil
}
