package automation

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/hub"
	"github.com/polyhost/polyhost/core/id"
)

// Run lets the time pass until ctx ends, and returns when no run is on its way
// any more. Runs that are not over then are settled by the next Open.
func (s *Set) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	w := s.host.Watch()
	wg.Go(func() { s.follow(ctx, w) })
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.wake:
		case <-ctx.Done():
			return
		}
		timer.Reset(s.tick(ctx, &wg))
	}
}

// tick starts what is due and tells how long there is nothing to do.
func (s *Set) tick(ctx context.Context, wg *sync.WaitGroup) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, sleep := moment(), maxSleep
	for _, a := range s.list {
		if err := s.evaluate(ctx, a, now); err != nil {
			s.log.Error("A scheduled run could not be stored", "automation", a.Name, "err", err)
			sleep = retryAfter
		}
	}
	if err := s.begin(ctx, wg, now); err != nil {
		s.log.Error("A run could not be begun", "err", err)
		return retryAfter
	}
	if sleep == retryAfter {
		return sleep
	}
	for _, a := range s.list {
		if !a.Enabled {
			continue
		}
		for _, at := range a.Next {
			sleep = min(sleep, at.Sub(now))
		}
		if left := a.Until.Sub(now); !a.Until.IsZero() && left < sleep {
			sleep = left + 1 // it goes off after its date
		}
	}
	return max(sleep, 0)
}

// evaluate admits the occurrences that are due and applies the conditions.
func (s *Set) evaluate(ctx context.Context, was *Automation, now time.Time) error {
	a := *was
	a.Next = maps.Clone(was.Next)
	for _, t := range a.Triggers {
		due, awaited := a.Next[t.ID]
		if !a.Enabled || !awaited || due.After(now) {
			continue
		}
		at := t.Schedule.latest(due, now)
		a.Next[t.ID] = t.Schedule.after(now)
		if a.Next[t.ID].IsZero() {
			delete(a.Next, t.ID)
		}
		missed := now.Sub(at) > lateAfter
		if why := a.passOver(&t, at, now, missed); why != "" {
			s.log.Info("An occurrence of an automation was passed over", "automation", a.Name, "trigger", t.ID, "at", at, "why", why)
			continue
		}
		a.Runs = append([]*Run{{ID: id.New(), Automation: a.ID, Status: Pending, Trigger: t.ID, ScheduledFor: at, CatchUp: missed, CreatedAt: now}}, a.Runs...)
		if a.MaxRuns > 0 {
			a.Counted++
		}
		a.meet(now)
	}
	a.meet(now)
	if !a.Enabled {
		a.Next = nil
	}
	if a.Enabled == was.Enabled && maps.Equal(a.Next, was.Next) {
		return nil
	}
	return s.save(ctx, was, &a, nil)
}

// passOver tells why an occurrence starts no run, or "".
func (a *Automation) passOver(t *Trigger, at, now time.Time, missed bool) string {
	switch {
	case missed && t.SkipMissed:
		return "it was missed"
	case !a.Until.IsZero() && (at.After(a.Until) || missed && now.After(a.Until)):
		return "the automation has ended"
	case a.scheduled(Pending):
		return "another run waits"
	case t.SkipMissed && a.scheduled(Running):
		return "another run is on its way"
	}
	return ""
}

// scheduled reports whether a run that a trigger started stands so.
func (a *Automation) scheduled(is Status) bool {
	return slices.ContainsFunc(a.Runs, func(r *Run) bool { return r.Trigger != "" && r.Status == is })
}

// begin starts the runs that wait, the oldest first, as far as there is room.
func (s *Set) begin(ctx context.Context, wg *sync.WaitGroup, now time.Time) error {
	var waiting []*Run
	for _, a := range s.list {
		for _, r := range a.Runs {
			if r.Status == Pending {
				waiting = append(waiting, r)
			}
		}
	}
	slices.SortFunc(waiting, func(x, y *Run) int { return x.ID.Compare(y.ID) })
	for _, r := range waiting {
		if s.active >= MaxRunning {
			return nil
		}
		was, _ := s.find(r.ID)
		if r.Trigger != "" && was.scheduled(Running) {
			continue
		}
		c := *r
		c.Status, c.StartedAt, c.Session, c.Turn = Running, now, id.New(), id.New()
		a := was.with(&c)
		if err := s.save(ctx, was, a, nil); err != nil {
			return err
		}
		run, cancel := context.WithCancel(ctx)
		s.active++
		s.cancels[c.ID] = cancel
		wg.Go(func() {
			defer cancel()
			s.perform(ctx, run, a, &c)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.active--
			delete(s.cancels, c.ID)
			select {
			case s.wake <- struct{}{}:
			default:
			}
		})
	}
	return nil
}

// perform does a run. ctx ends with the gateway, run also when the run was
// cancelled, which is stored by then.
func (s *Set) perform(ctx, run context.Context, a *Automation, r *Run) {
	log := s.log.With("automation", a.Name, "run", r.ID.String(), "session", r.Session.String())
	origin, err := json.Marshal(Origin{Automation: a.Name, Run: r.ID})
	if err != nil {
		panic(err) // two texts
	}
	sess, err := s.host.CreateSession(ctx, host.CreateSession{ID: r.Session, Backend: a.Session.Backend, Dirs: a.Session.Dirs,
		Title: a.Title, Settings: a.Session.Settings, Plugins: a.Session.Plugins, By: a.By, Meta: map[string]json.RawMessage{MetaKey: origin}})
	if err != nil {
		if !stopping(ctx, err) {
			log.Warn("An automation got no session", "err", err)
			s.change(ctx, r.ID, func(r *Run) { r.Status, r.EndedAt, r.Error = Failed, moment(), sentence(err) })
		}
		return
	}
	s.change(ctx, r.ID, func(r *Run) { r.Sessions, r.Primary = []id.ID{sess.ID()}, sess.ID() })
	if run.Err() != nil {
		return
	}
	chat := sess.State().Default
	_, err = sess.Prompt(ctx, host.Prompt{Chat: chat, Turn: r.Turn, Text: a.Text, Command: a.Command, Attachments: a.Attachments,
		By: a.By, Settings: a.Message, KeepEffort: true, Rich: a.RichMessage})
	if err != nil {
		if !stopping(ctx, err) {
			log.Warn("The message of an automation was refused", "err", err)
			s.change(ctx, r.ID, func(r *Run) { r.Status, r.EndedAt, r.Error = Failed, moment(), sentence(err) })
		}
		return
	}
	s.await(ctx, run, sess, chat, r)
}

// await waits for the end of the run's turn.
func (s *Set) await(ctx, run context.Context, sess *host.Session, chat id.ID, r *Run) {
	for {
		t, err := sess.WaitTurn(run, chat, r.Turn)
		switch {
		case err == nil:
			s.change(ctx, r.ID, func(r *Run) {
				r.Status, r.EndedAt, r.Error, r.Usage = statusOf(t.Status), moment(), t.Error, t.Usage
				if r.Status == Failed && r.Error == nil {
					r.Error = &event.Error{Code: event.CodeAgentFailed, Message: "the agent failed"}
				}
			})
			return
		case stopping(ctx, err):
			return
		case run.Err() != nil:
			_, err := sess.Interrupt(ctx, host.Interrupt{Chat: chat, Turn: r.Turn, By: event.Gateway})
			if err != nil && !stopping(ctx, err) && !errors.Is(err, host.ErrNotFound) {
				s.log.Warn("The turn of a cancelled run could not be stopped", "session", r.Session.String(), "err", err)
			}
			return
		case errors.Is(err, hub.ErrClosed): // it left memory
			sess, err = s.host.Session(ctx, r.Session)
			if err == nil {
				continue
			}
		}
		if stopping(ctx, err) {
			return
		}
		if !errors.Is(err, host.ErrNotFound) {
			s.log.Warn("The end of a run cannot be seen", "session", r.Session.String(), "err", err)
		}
		// The session or the chat was removed, by somebody who wanted no more of it.
		s.change(ctx, r.ID, func(r *Run) { r.Status, r.EndedAt = Cancelled, moment() })
		return
	}
}

// stopping reports whether an error means that the gateway stops.
func stopping(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, host.ErrClosed)
}

// change changes a run that is not over. It holds even when it cannot be
// stored: the next start finds out the same from the session.
func (s *Set) change(ctx context.Context, run id.ID, f func(*Run)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, r := s.find(run)
	if r == nil {
		return
	}
	c := *r
	f(&c)
	if r.Over() { // cancelled meanwhile; that it has a session is still true
		c.Status, c.EndedAt, c.Error, c.Usage = r.Status, r.EndedAt, r.Error, r.Usage
	}
	now := was.with(&c)
	if err := s.save(ctx, was, now, nil); err != nil {
		s.log.Error("What became of a run could not be stored", "automation", was.Name, "run", run.String(), "err", err)
		s.apply(was, now, nil)
	}
}

// follow takes sessions that are removed out of their runs.
func (s *Set) follow(ctx context.Context, w *host.Watch) {
	defer w.Close()
	for {
		changes, err := w.Next(ctx)
		if err != nil {
			return
		}
		for i := range changes {
			if changes[i].Kind != host.Removed {
				continue
			}
			o, ok := OriginOf(&changes[i].Summary.Info)
			if !ok {
				continue
			}
			gone := changes[i].Session
			s.change(ctx, o.Run, func(r *Run) {
				r.Sessions = slices.DeleteFunc(slices.Clone(r.Sessions), func(sid id.ID) bool { return sid == gone })
				if r.Primary == gone {
					r.Primary = id.Nil
				}
			})
		}
	}
}
