package automation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/polyhost/polyhost/core/addon"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
)

// Set owns all automations and their runs.
type Set struct {
	host Host
	kv   KV
	log  *slog.Logger
	wake chan struct{} // there may be something to start

	mu       sync.Mutex
	list     []*Automation // in the order they were made
	of       map[id.ID]id.ID
	active   int
	cancels  map[id.ID]context.CancelFunc // of runs on their way
	held     map[id.ID][]*addon.Copy      // by automation
	watchers []func(Change)
}

// Change is one automation that changed, or its runs.
type Change struct {
	Was *Automation // nil for a new one
	Now *Automation // nil for one that was removed
	// Cause is what the caller of a change gave.
	Cause any
}

// Watch calls f for every change, under the lock of the set. f must not block
// and not call the set.
func (s *Set) Watch(f func(Change)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers = append(s.watchers, f)
}

// View gives all automations, in the order they were made, under the lock.
func (s *Set) View(f func([]*Automation)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.list)
}

// Create keeps a new automation under a name of the caller's choice.
func (s *Set) Create(ctx context.Context, name string, d Definition, cause any) error {
	if name == "" || len(name) > MaxName {
		return fmt.Errorf("%w: a name has 1 to %d bytes", ErrInvalid, MaxName)
	}
	if err := d.check(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.named(name) != nil:
		return ErrExists
	case len(s.list) >= MaxAutomations:
		return fmt.Errorf("%w: there are %d automations already", ErrTooMany, MaxAutomations)
	}
	now := moment()
	a := &Automation{ID: id.New(), Name: name, Definition: d, CreatedAt: now, ModifiedAt: now}
	a.meet(now)
	a.plan(nil, now)
	return s.save(ctx, nil, a, cause)
}

// Update changes the definition. change gets it as it is; its error is
// returned. A change that turns a switched-off automation on, or adds MaxRuns,
// begins to count anew.
func (s *Set) Update(ctx context.Context, name string, cause any, change func(Definition) (Definition, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.named(name)
	if was == nil {
		return ErrNotFound
	}
	d, err := change(was.Definition)
	if err != nil {
		return err
	}
	if reflect.DeepEqual(d, was.Definition) {
		return ErrUnchanged
	}
	if err := d.check(); err != nil {
		return err
	}
	now := moment()
	a := *was
	a.Definition, a.ModifiedAt = d, now
	if d.MaxRuns == 0 || was.MaxRuns == 0 || d.Enabled && !was.Enabled {
		a.Counted = 0
	}
	a.meet(now)
	a.plan(was, now)
	return s.save(ctx, was, &a, cause)
}

// Remove forgets an automation and its runs, and cancels those on their way.
// Their sessions stay.
func (s *Set) Remove(ctx context.Context, name string, cause any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.named(name)
	if was == nil {
		return ErrNotFound
	}
	return s.save(ctx, was, nil, cause)
}

// Start asks for a run. The same key of the same automation gives the same run,
// as long as that is kept. Neither Enabled nor a condition is asked.
func (s *Set) Start(ctx context.Context, name, key string) (id.ID, error) {
	if len(key) > MaxName {
		return id.Nil, fmt.Errorf("%w: a key has at most %d bytes", ErrInvalid, MaxName)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.named(name)
	if was == nil {
		return id.Nil, ErrNotFound
	}
	waiting := 0
	for _, r := range was.Runs {
		if key != "" && r.Key == key {
			return r.ID, nil
		}
		if r.Status == Pending {
			waiting++
		}
	}
	if waiting >= MaxWaiting {
		return id.Nil, fmt.Errorf("%w: %d runs of this automation wait already", ErrTooMany, MaxWaiting)
	}
	a := *was
	r := &Run{ID: id.New(), Automation: a.ID, Status: Pending, Key: key, CreatedAt: moment()}
	a.Runs = append([]*Run{r}, was.Runs...)
	if err := s.save(ctx, was, &a, nil); err != nil {
		return id.Nil, err
	}
	return r.ID, nil
}

// Cancel ends a run. The turn that it has going is interrupted.
func (s *Set) Cancel(ctx context.Context, run id.ID, cause any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, r := s.find(run)
	switch {
	case r == nil:
		return ErrNotFound
	case r.Over():
		return ErrOver
	}
	c := *r
	c.Status, c.EndedAt = Cancelled, moment()
	return s.save(ctx, was, was.with(&c), cause)
}

// named finds an automation; the caller holds mu.
func (s *Set) named(name string) *Automation {
	for _, a := range s.list {
		if a.Name == name {
			return a
		}
	}
	return nil
}

// find gives a run and its automation, or nil; the caller holds mu.
func (s *Set) find(run id.ID) (*Automation, *Run) {
	of, ok := s.of[run]
	if !ok {
		return nil, nil
	}
	for _, a := range s.list {
		if a.ID == of {
			return a, a.Run(run)
		}
	}
	return nil, nil
}

// with is the automation with a run replaced.
func (a *Automation) with(r *Run) *Automation {
	next := *a
	next.Runs = slices.Clone(a.Runs)
	for i := range next.Runs {
		if next.Runs[i].ID == r.ID {
			next.Runs[i] = r
		}
	}
	return &next
}

// save stores a change and tells it; the caller holds mu. Nothing happened when
// it returns an error.
func (s *Set) save(ctx context.Context, was, now *Automation, cause any) error {
	if now != nil {
		now.prune()
	}
	put, del, err := difference(was, now)
	if err != nil {
		return err
	}
	// The write is made even if its client leaves now, and then it has to count.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeWithin)
	defer cancel()
	if err := s.kv.Update(ctx, put, del); err != nil {
		return fmt.Errorf("store automation: %w", err)
	}
	s.apply(was, now, cause)
	return nil
}

// apply makes a change true and tells it; the caller holds mu.
func (s *Set) apply(was, now *Automation, cause any) {
	switch {
	case was == nil:
		s.list = append(slices.Clip(s.list), now)
	case now == nil:
		s.list = slices.DeleteFunc(slices.Clone(s.list), func(a *Automation) bool { return a == was })
	default:
		s.list = slices.Clone(s.list)
		s.list[slices.Index(s.list, was)] = now
	}
	if was == nil || now == nil || !slices.Equal(was.Session.Plugins, now.Session.Plugins) {
		s.hold(was, now)
	}
	if was != nil {
		for _, r := range was.Runs {
			delete(s.of, r.ID)
		}
	}
	if now != nil {
		for _, r := range now.Runs {
			s.of[r.ID] = now.ID
		}
	}
	for run, cancel := range s.cancels { // those that were ended here
		if _, r := s.find(run); r == nil || r.Over() {
			cancel()
		}
	}
	for _, f := range s.watchers {
		f(Change{Was: was, Now: now, Cause: cause})
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// hold holds the copies of an automation's plugins in the place of those it had;
// the caller holds mu.
func (s *Set) hold(was, now *Automation) {
	var had, has []*addon.Copy
	if was != nil {
		had = s.held[was.ID]
		delete(s.held, was.ID)
	}
	if copies := s.host.Addons(); now != nil && copies != nil {
		for _, p := range now.Session.Plugins {
			c, err := copies.Hold(p.Copy)
			if err != nil {
				s.log.Warn("An automation goes on without a plugin", "automation", now.Name, "plugin", p.Name, "err", err)
				continue
			}
			has = append(has, c)
		}
		if has != nil {
			s.held[now.ID] = has
		}
	}
	for _, c := range had {
		c.Release()
	}
}

// prune forgets the oldest runs that are over.
func (a *Automation) prune() {
	over := 0
	for _, r := range a.Runs {
		if r.Over() {
			over++
		}
	}
	if over <= MaxHistory {
		return
	}
	kept := slices.Clone(a.Runs)
	for i := len(kept) - 1; i >= 0 && over > MaxHistory; i-- {
		if kept[i].Over() {
			kept = slices.Delete(kept, i, i+1)
			over--
		}
	}
	a.Runs = kept
}

// moment is the time on the wall, which goes on while the machine sleeps.
func moment() time.Time { return time.Now().Round(0).UTC() }

// sentence is what people read of why a session could not be had.
func sentence(err error) *event.Error {
	e := &event.Error{Code: CodeNotStarted, Message: "the session could not be started"}
	for _, told := range []error{host.ErrBadDir, host.ErrNoBackend, host.ErrInvalid, host.ErrTooLarge, host.ErrUnsupported} {
		if errors.Is(err, told) {
			e.Message = err.Error()
		}
	}
	return e
}
