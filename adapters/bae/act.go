package bae

import (
	"context"
	"errors"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
)

// plan is what a room has to do about the open interactions of its turn.
type plan struct {
	pause   *pauseNote
	settle  []settlement
	wakeAt  time.Time
	waiting bool // calls are there to pause for, once it is quiet
}

type settlement struct {
	interaction id.ID
	resolution  event.Resolution
}

// nextWake is when act has something to do without a new event; zero is never.
func (r *room) nextWake() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.plan(time.Now()).wakeAt
}

// act does what the plan says. Only run's goroutine calls it.
func (r *room) act(ctx context.Context) {
	r.mu.Lock()
	now := time.Now()
	p := r.plan(now)
	switch {
	case !p.waiting:
		r.quietAt = time.Time{}
	case r.quietAt.IsZero():
		r.quietAt = now
	}
	if p.pause != nil {
		for _, i := range p.pause.Interactions {
			r.asked[i] = true
		}
	}
	for _, s := range p.settle {
		r.asked[s.interaction] = true
	}
	hs := r.host
	r.mu.Unlock()
	if p.pause != nil {
		u := noteMeta(event.Gateway, note{Chat: r.chat, Pause: p.pause})
		if err := hs.Update(ctx, u); err != nil && ctx.Err() == nil {
			r.log.Error("A paused turn could not be recorded", "err", err)
		}
	}
	for _, s := range p.settle {
		err := hs.Resolve(ctx, s.interaction, s.resolution)
		if err != nil && !errors.Is(err, host.ErrResolved) && ctx.Err() == nil {
			r.log.Warn("A request of the agent could not be settled", "err", err)
		}
	}
}

// plan looks at the open interactions. The caller holds mu.
func (r *room) plan(now time.Time) (p plan) {
	t := r.proj.turn
	at := func(when time.Time) {
		if p.wakeAt.IsZero() || when.Before(p.wakeAt) {
			p.wakeAt = when
		}
	}
	owner := ""
	var calls []id.ID
	for _, i := range r.waitingCalls() {
		if r.asked[i.ID] {
			continue
		}
		if res, ok := r.served(t, i); ok {
			p.settle = append(p.settle, settlement{i.ID, res})
			at(now)
			continue
		}
		key := r.answerer(t, i)
		switch {
		case key != "":
			if owner == "" {
				owner = key
			}
			if key == owner {
				calls = append(calls, i.ID)
			}
		case t.by.Front == frontName && (i.Kind == event.Approval || i.Kind == event.Question):
			profile, _ := r.front.registry.profile(r.profile)
			if due := i.OpenedAt.Add(profile.timeout()); due.After(now) {
				at(due)
			} else {
				p.settle = append(p.settle, settlement{i.ID, profile.unanswered(i)})
				at(now)
			}
		}
	}
	if len(calls) == 0 || t.running() {
		return p
	}
	p.waiting = true
	switch {
	case r.quietAt.IsZero():
		at(now)
	case now.Sub(r.quietAt) < settle:
		at(r.quietAt.Add(settle))
	default:
		p.pause = &pauseNote{Turn: t.id, Key: owner, Interactions: calls}
	}
	return p
}

// served answers calls of tools that the gateway itself would run for the
// client: there is no sandbox on this host.
func (r *room) served(t *logical, i *event.Interaction) (event.Resolution, bool) {
	if i.Kind != event.ClientCall || i.Client.Front != frontName {
		return event.Resolution{}, false
	}
	res := event.Resolution{Outcome: event.Completed, By: event.Gateway, Failed: true}
	switch t.routes.of(i.Tool) {
	case dispatchSandbox:
		res.Output = noSandbox
		if command(i.Input) == nil {
			res.Output = "the input has no command"
		}
	case dispatchSubagent:
		res.Output = string(mustJSON(map[string]string{"error": noSandbox}))
	default:
		return res, false
	}
	return res, true
}

// noSandbox is why nothing runs in a sandbox here.
const noSandbox = "no sandbox is running for this session"

// answerer is the client key that is asked about an interaction, "" for none:
// the one that provides the tool, the one that sent the message and declared
// the stand-in tool, or for a turn of another front the first driver that did.
func (r *room) answerer(t *logical, i *event.Interaction) string {
	tool := ""
	switch i.Kind {
	case event.ClientCall:
		if i.Client.Front == frontName {
			return i.Client.Client
		}
		return ""
	case event.Approval:
		tool = toolPermission
	case event.Question:
		tool = toolQuestion
	default:
		return ""
	}
	if t.by.Front == frontName {
		for _, d := range t.tools {
			if d.Name == tool {
				return t.key
			}
		}
		return ""
	}
	return r.front.driverWith(r.ses, tool)
}

// timeout is how long the profile waits for another front.
func (p profile) timeout() time.Duration {
	if p.Timeout <= 0 {
		return permissionTimeout * time.Second
	}
	return time.Duration(p.Timeout) * time.Second
}

// unanswered is what the profile says where nobody does.
func (p profile) unanswered(i *event.Interaction) event.Resolution {
	by := event.Actor{Front: frontName, Client: p.ID, Name: "profile " + p.Name}
	switch {
	case i.Kind == event.Question:
		return event.Resolution{Outcome: event.Declined, By: by, Reason: "nobody answered in time"}
	case p.Allow:
		return event.Resolution{Outcome: event.Allowed, By: by, Scope: event.ScopeOnce}
	}
	return event.Resolution{Outcome: event.Denied, By: by, Reason: "nobody answered in time"}
}
