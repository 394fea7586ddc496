package ahp

import (
	"context"
	"sync"
	"time"

	"github.com/polyhost/polyhost/core/id"
)

// activities are what projected sessions do now, for the rows of the list. A
// projection says it and waits for nobody; the root tells it soon after, the newest
// of each session.
type activities struct {
	wake chan struct{}

	mu    sync.Mutex         // the last one that is taken
	now   map[id.ID]string   // of sessions that do something
	moved map[id.ID]struct{} // sessions to be looked at
}

func newActivities() *activities {
	return &activities{wake: make(chan struct{}, 1), now: map[id.ID]string{}, moved: map[id.ID]struct{}{}}
}

// set notes what a session does; "" is nothing.
func (a *activities) set(session id.ID, doing string) {
	a.mu.Lock()
	if doing == "" {
		delete(a.now, session)
	} else {
		a.now[session] = doing
	}
	a.moved[session] = struct{}{}
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// of is what a session does, as its row shows it. Without a turn it does nothing: its
// projection may not have heard of the end yet.
func (a *activities) of(session id.ID, status uint32) string {
	if status&statusRuns == 0 {
		return ""
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now[session]
}

// next waits for sessions to be looked at. What moves within activityEvery is told
// together.
func (a *activities) next(ctx context.Context) (map[id.ID]struct{}, error) {
	select {
	case <-a.wake:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case <-time.After(activityEvery):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	moved := a.moved
	a.moved = map[id.ID]struct{}{}
	return moved, nil
}

// tellActivities tells what sessions do until ctx ends.
func (r *rootChannel) tellActivities(ctx context.Context) {
	for {
		moved, err := r.doing.next(ctx)
		if err != nil {
			return
		}
		for session := range moved {
			r.activityMoved(session)
		}
	}
}

func (r *rootChannel) activityMoved(session id.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, known := r.rows[session]
	doing := r.doing.of(session, now.Status)
	if !known || now.Activity == doing {
		return
	}
	now.Activity = doing
	r.rows[session] = now
	r.moved(session, now.Resource, func(string) map[string]any { return map[string]any{"activity": saidActivity(doing)} })
}

// told are the activities of rows as they were last told: what is listed otherwise
// would not be put right if it came to nothing meanwhile.
func (r *rootChannel) told() map[id.ID]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	told := map[id.ID]string{}
	for session, row := range r.rows {
		if row.Activity != "" {
			told[session] = row.Activity
		}
	}
	return told
}

// saidActivity is what takes the place of a row's activity: a key that is left out of
// what changed has not moved, so nothing is null.
func saidActivity(doing string) any {
	if doing == "" {
		return nil
	}
	return doing
}

// doingNow is what the session does in one line: what its default chat does, or else
// the first of the others that does something. The caller holds mu.
func (l *live) doingNow() string {
	if c := l.st.DefaultChat(); c != nil {
		if doing := l.chatView(c.ID).head.Activity; doing != "" {
			return doing
		}
	}
	for _, c := range l.st.Chats {
		if doing := l.chatView(c.ID).head.Activity; doing != "" {
			return doing
		}
	}
	return ""
}

// settleActivity tells what the session does when that moved; the caller holds mu.
func (l *live) settleActivity() {
	now := l.doingNow()
	if now == l.doing {
		return
	}
	l.doing = now
	l.front.root.doing.set(l.id, now)
	l.say(id.Nil, nil, func(*renderer) any {
		return struct {
			Type     string `json:"type"`
			Activity string `json:"activity,omitempty"`
		}{"session/activityChanged", now}
	})
}
