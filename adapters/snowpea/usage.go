package snowpea

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/polyhost/polyhost/transports/jsonrpc"
)

type usageTotal struct {
	Key    string `json:"key"`
	Input  int64  `json:"inputTokens"`
	Output int64  `json:"outputTokens"`
	Calls  int    `json:"calls"`
}

type usageSummary struct {
	GroupBy string       `json:"groupBy"`
	Input   int64        `json:"inputTokens"`
	Output  int64        `json:"outputTokens"`
	Rows    []usageTotal `json:"rows"`
}

func usageSummaryOf(ctx context.Context, c *conn, r *jsonrpc.Request) (any, error) {
	p, err := decode[struct {
		GroupBy string  `json:"groupBy"`
		Since   *string `json:"since"`
		Until   *string `json:"until"`
	}](r)
	if err != nil {
		return nil, err
	}
	since, err := moment("since", p.Since)
	if err != nil {
		return nil, err
	}
	until, err := moment("until", p.Until)
	if err != nil {
		return nil, err
	}
	rows, err := c.front.keeper.usage(ctx)
	if err != nil {
		return nil, err
	}
	out := usageSummary{GroupBy: cmp.Or(p.GroupBy, "provider"), Rows: []usageTotal{}}
	totals := map[string]*usageTotal{}
	for _, u := range rows {
		if !since.IsZero() && u.At.Before(since) || !until.IsZero() && !u.At.Before(until) {
			continue
		}
		key := u.key(out.GroupBy)
		t := totals[key]
		if t == nil {
			t = &usageTotal{Key: key}
			totals[key] = t
		}
		t.Input, t.Output, t.Calls = t.Input+u.Input, t.Output+u.Output, t.Calls+1
		out.Input, out.Output = out.Input+u.Input, out.Output+u.Output
	}
	for _, t := range totals {
		out.Rows = append(out.Rows, *t)
	}
	slices.SortFunc(out.Rows, func(a, b usageTotal) int {
		return cmp.Or(cmp.Compare(b.Input+b.Output, a.Input+a.Output), cmp.Compare(a.Key, b.Key))
	})
	out.Rows = out.Rows[:min(len(out.Rows), maxUsageRows)]
	return out, nil
}

func (u *usageRow) key(groupBy string) string {
	const unknown = "unknown"
	switch groupBy {
	case "model":
		return cmp.Or(u.Provider, unknown) + ":" + cmp.Or(u.Model, unknown)
	case "session":
		return u.Chat
	case "day":
		return u.At.UTC().Format(time.DateOnly)
	}
	return cmp.Or(u.Provider, unknown)
}

// moment reads an ISO time; without a zone it is UTC.
func moment(field string, s *string) (time.Time, error) {
	if s == nil || *s == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05", time.DateOnly} {
		if t, err := time.Parse(layout, *s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, invalid(field, "%q is no ISO time", cut(*s, 40))
}
