package ahp

import "github.com/polyhost/polyhost/core/id"

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

// settleActivity tells what the session does when that moved; the caller holds mu.
func (l *live) settleActivity() {
	now := l.st.Doing()
	if now == l.doing {
		return
	}
	l.doing = now
	l.say(id.Nil, nil, func(*renderer) any {
		return struct {
			Type     string `json:"type"`
			Activity string `json:"activity,omitempty"`
		}{"session/activityChanged", now}
	})
}
