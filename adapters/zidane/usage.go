package zidane

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/store"
)

const (
	usagePrefix = "usage/"
	dayLayout   = time.DateOnly
)

// dayUsage is what runs used on one day, by the server's clock.
type dayUsage struct {
	Runs   int                   `json:"runs"`
	Models map[string]modelUsage `json:"models"`
}

type modelUsage struct {
	In  int64 `json:"in"`
	Out int64 `json:"out"`
}

func (d *dayUsage) add(o dayUsage) {
	d.Runs += o.Runs
	if d.Models == nil {
		d.Models = map[string]modelUsage{}
	}
	for model, u := range o.Models {
		sum := d.Models[model]
		d.Models[model] = modelUsage{sum.In + u.In, sum.Out + u.Out}
	}
}

// usage counts the tokens of all runs by day and model. The counts reach the
// disk within usageEvery.
type usage struct {
	kv  host.KV
	log *slog.Logger

	storing sync.Mutex // one writer of the stored counts
	mu      sync.Mutex
	pending map[string]dayUsage
}

func newUsage(kv host.KV, log *slog.Logger) *usage {
	return &usage{kv: kv, log: log, pending: map[string]dayUsage{}}
}

// ran counts a run that ended.
func (u *usage) ran(at time.Time, t turnUsage) {
	day := at.Local().Format(dayLayout)
	u.mu.Lock()
	defer u.mu.Unlock()
	d := u.pending[day]
	d.add(dayUsage{Runs: 1, Models: map[string]modelUsage{t.ModelID: {t.Input, t.Output}}})
	u.pending[day] = d
}

func (u *usage) run(ctx context.Context) {
	if err := u.prune(ctx); err != nil && ctx.Err() == nil {
		u.log.Error("Old usage counts could not be removed", "err", err)
	}
	tick := time.NewTicker(usageEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := u.store(ctx); err != nil {
				u.log.Error("The usage counts could not be stored", "err", err)
			}
		case <-ctx.Done():
			if err := u.store(context.WithoutCancel(ctx)); err != nil && !errors.Is(err, store.ErrClosed) {
				u.log.Error("The last usage counts could not be stored", "err", err)
			}
			return
		}
	}
}

// prune removes the days that no summary reaches.
func (u *usage) prune(ctx context.Context) error {
	kvs, err := u.kv.List(ctx, usagePrefix, "", maxUsageDays)
	if err != nil {
		return err
	}
	oldest := usagePrefix + time.Now().AddDate(0, 0, -maxUsageDays).Format(dayLayout)
	for _, kv := range kvs {
		if kv.Key < oldest {
			if err := u.kv.Delete(ctx, kv.Key); err != nil {
				return err
			}
		}
	}
	return nil
}

// store adds what is pending to the stored counts.
func (u *usage) store(ctx context.Context) error {
	u.storing.Lock()
	defer u.storing.Unlock()
	u.mu.Lock()
	pending := map[string]dayUsage{}
	for day, d := range u.pending {
		var taken dayUsage // a copy: ran goes on counting
		taken.add(d)
		pending[day] = taken
	}
	u.mu.Unlock()
	for day, add := range pending {
		var d dayUsage
		b, err := u.kv.Get(ctx, usagePrefix+day)
		if err == nil {
			err = json.Unmarshal(b, &d)
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("read usage of %s: %w", day, err)
		}
		d.add(add)
		if err := u.kv.Set(ctx, usagePrefix+day, encode(d)); err != nil {
			return fmt.Errorf("store usage of %s: %w", day, err)
		}
		u.mu.Lock()
		u.pending[day] = minus(u.pending[day], add)
		if u.pending[day].Runs == 0 {
			delete(u.pending, day)
		}
		u.mu.Unlock()
	}
	return nil
}

// minus is what was counted since add was taken.
func minus(d, add dayUsage) dayUsage {
	out := dayUsage{Runs: d.Runs - add.Runs, Models: map[string]modelUsage{}}
	for model, u := range d.Models {
		old := add.Models[model]
		if left := (modelUsage{u.In - old.In, u.Out - old.Out}); left != (modelUsage{}) {
			out.Models[model] = left
		}
	}
	return out
}

type dayRow struct {
	Day       string `json:"day"`
	TokensIn  int64  `json:"tokensIn"`
	TokensOut int64  `json:"tokensOut"`
	Runs      int    `json:"runs"`
}

type totalsRow struct {
	TokensIn  int64 `json:"tokensIn"`
	TokensOut int64 `json:"tokensOut"`
	Runs      int   `json:"runs"`
}

type modelUsageRow struct {
	ModelID   string `json:"modelId"`
	TokensIn  int64  `json:"tokensIn"`
	TokensOut int64  `json:"tokensOut"`
}

// usageSummary sums the runs of the last days that had any.
func usageSummary(ctx context.Context, c *call, p struct {
	Days *int `json:"days"`
}) (any, error) {
	days := usageDays
	if p.Days != nil {
		if days = min(*p.Days, maxUsageDays); days < 1 {
			return nil, badField("days", "want 1 or more")
		}
	}
	if err := c.usage.store(ctx); err != nil {
		return nil, err
	}
	before := time.Now().AddDate(0, 0, -days).Format(dayLayout)
	kvs, err := c.kv.List(ctx, usagePrefix, usagePrefix+before, maxUsageDays)
	if err != nil {
		return nil, err
	}
	out := struct {
		Days   []dayRow        `json:"days"`
		Totals totalsRow       `json:"totals"`
		Models []modelUsageRow `json:"models"`
	}{Days: []dayRow{}, Models: []modelUsageRow{}}
	var all dayUsage
	for _, kv := range kvs {
		day := strings.TrimPrefix(kv.Key, usagePrefix)
		var d dayUsage
		if json.Unmarshal(kv.Value, &d) != nil {
			continue
		}
		row := dayRow{Day: day, Runs: d.Runs}
		for _, u := range d.Models {
			row.TokensIn, row.TokensOut = row.TokensIn+u.In, row.TokensOut+u.Out
		}
		out.Days = append(out.Days, row)
		all.add(d)
		out.Totals = totalsRow{out.Totals.TokensIn + row.TokensIn, out.Totals.TokensOut + row.TokensOut, out.Totals.Runs + row.Runs}
	}
	for _, model := range slices.Sorted(maps.Keys(all.Models)) {
		out.Models = append(out.Models, modelUsageRow{model, all.Models[model].In, all.Models[model].Out})
	}
	slices.SortStableFunc(out.Models, func(a, b modelUsageRow) int { return cmp.Compare(b.TokensIn+b.TokensOut, a.TokensIn+a.TokensOut) })
	return out, nil
}
