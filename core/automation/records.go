package automation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/polyhost/polyhost/core/addon"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/store"
)

// The keys of the store. Ids have one length and sort by age.
const (
	definitionPrefix = "automation/"
	runPrefix        = "run/"
)

func definitionKey(a id.ID) string { return definitionPrefix + a.String() }
func runKey(r *Run) string         { return runPrefix + r.Automation.String() + "/" + r.ID.String() }

// difference is what has to be written to get from one state of an automation
// to the next.
func difference(was, now *Automation) (put []store.KV, del []string, err error) {
	old := map[id.ID]*Run{}
	if was != nil {
		for _, r := range was.Runs {
			old[r.ID] = r
		}
	}
	add := func(key string, v any) {
		b, e := json.Marshal(v)
		err = errors.Join(err, e)
		put = append(put, store.KV{Key: key, Value: b})
	}
	if now == nil {
		del = append(del, definitionKey(was.ID))
	} else {
		add(definitionKey(now.ID), now)
		for _, r := range now.Runs {
			if old[r.ID] != r {
				add(runKey(r), r)
			}
			delete(old, r.ID)
		}
	}
	for _, r := range old {
		del = append(del, runKey(r))
	}
	return put, del, err
}

// Open reads what is kept, and settles the runs that were on their way when the
// gateway stopped. Nothing starts before Run.
func Open(ctx context.Context, h Host, kv KV, log *slog.Logger) (*Set, error) {
	s := &Set{host: h, kv: kv, log: log, wake: make(chan struct{}, 1), of: map[id.ID]id.ID{}, cancels: map[id.ID]context.CancelFunc{}, held: map[id.ID][]*addon.Copy{}}
	byID := map[id.ID]*Automation{}
	err := each(ctx, kv, definitionPrefix, func(value []byte) error {
		a := &Automation{}
		if err := json.Unmarshal(value, a); err != nil {
			return err
		}
		s.list = append(s.list, a)
		byID[a.ID] = a
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("open automations: %w", err)
	}
	err = each(ctx, kv, runPrefix, func(value []byte) error {
		r := &Run{}
		if err := json.Unmarshal(value, r); err != nil {
			return err
		}
		if a := byID[r.Automation]; a != nil {
			a.Runs = append(a.Runs, r)
			s.of[r.ID] = a.ID
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("open automations: %w", err)
	}
	for _, a := range s.list {
		slices.Reverse(a.Runs)
		s.hold(nil, a)
		if err := s.settle(ctx, a); err != nil {
			return nil, fmt.Errorf("open automations: %w", err)
		}
	}
	return s, nil
}

// each reads the values below a prefix.
func each(ctx context.Context, kv KV, prefix string, f func([]byte) error) error {
	for after := ""; ; {
		page, err := kv.List(ctx, prefix, after, pageKeys)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, p := range page {
			if err := f(p.Value); err != nil {
				return fmt.Errorf("%s: %w", p.Key, err)
			}
			after = p.Key
		}
	}
}

// settle ends the runs of a former gateway and forgets sessions that are gone.
func (s *Set) settle(ctx context.Context, a *Automation) error {
	next := *a
	next.Runs = slices.Clone(a.Runs)
	changed := false
	for i, r := range a.Runs {
		c := *r
		if r.Status == Running {
			s.afterwards(ctx, &c)
			s.log.Warn("A run of an automation was on its way when the gateway stopped", "automation", a.Name, "run", r.ID.String(), "status", c.Status)
		}
		c.Sessions = slices.DeleteFunc(slices.Clone(c.Sessions), func(sid id.ID) bool { _, ok := s.host.Summary(sid); return !ok })
		if _, ok := s.host.Summary(c.Primary); !ok {
			c.Primary = id.Nil
		}
		if c.Status != r.Status || len(c.Sessions) != len(r.Sessions) || c.Primary != r.Primary {
			next.Runs[i] = &c
			changed = true
		}
	}
	if !changed {
		return nil
	}
	return s.save(ctx, a, &next, nil)
}

// afterwards finds out how a run ended that nobody saw the end of.
func (s *Set) afterwards(ctx context.Context, r *Run) {
	interrupted := event.Error{Code: CodeInterrupted, Message: "the gateway stopped while the run was on its way"}
	r.Status, r.EndedAt, r.Error = Failed, moment(), &interrupted
	if _, ok := s.host.Summary(r.Session); !ok {
		return
	}
	r.Sessions, r.Primary = []id.ID{r.Session}, r.Session
	sess, err := s.host.Session(ctx, r.Session)
	if err != nil {
		if !errors.Is(err, host.ErrNotFound) {
			s.log.Warn("The session of a run cannot be read", "session", r.Session.String(), "err", err)
		}
		return
	}
	t, err := sess.FindTurn(ctx, sess.State().Default, r.Turn)
	if err != nil || t.Synthetic || t.Status == event.TurnCancelled || t.Status == event.TurnRunning {
		return // a gateway that stops cancels what runs
	}
	r.Status, r.Error, r.Usage = statusOf(t.Status), t.Error, t.Usage
	r.EndedAt = t.StartedAt.Add(t.Duration).UTC().Truncate(time.Millisecond)
}

func statusOf(t event.TurnStatus) Status {
	switch t {
	case event.TurnComplete:
		return Completed
	case event.TurnCancelled:
		return Cancelled
	}
	return Failed
}
