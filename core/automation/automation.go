// Package automation runs prompts by themselves: at times that a schedule
// names, or when somebody asks for it. Each run makes a session of its own and
// sends it the automation's message. It knows no front.
//
// Ordering: one lock covers every change; watchers hear under it, after the
// change is stored, so that what they hear agrees with View. Loss: none of what
// a call returned for; the end of a run whose record could not be written is
// found again from its session when the gateway starts. Bounds: limits.go.
// Blocking: changes wait for the disk; nobody waits for a run.
//
// The clock evaluates an occurrence once. One that nobody was there for (the
// gateway was down, the machine slept) is missed: whatever their number, a
// trigger makes up for its missed occurrences with one run, or with none where
// it says so. Scheduled runs of one automation do not overlap: an occurrence
// that comes while one is on its way waits, and those that come while another
// one waits are passed over. A local time that a change of clocks leaves out
// does not happen, one that it repeats happens twice.
//
// A run is pending, running, and then over once. One that was running when the
// gateway stopped is settled at the next start: as its turn ended, if it did,
// and as failed otherwise. It is not repeated. A pending one still runs.
package automation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/polyhost/polyhost/core/addon"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/store"
)

var (
	// ErrNotFound: no such automation or run.
	ErrNotFound = errors.New("no such automation")
	// ErrExists: the name is taken.
	ErrExists = errors.New("the name of the automation is taken")
	// ErrInvalid is wrapped with what is wrong, in words for people.
	ErrInvalid = errors.New("invalid automation")
	// ErrTooMany is wrapped when a bound of limits.go is reached.
	ErrTooMany = errors.New("too many")
	// ErrUnchanged: a change that leaves everything as it is.
	ErrUnchanged = errors.New("nothing changed")
	// ErrOver: the run is over and cannot be cancelled.
	ErrOver = errors.New("the run is over")
)

// Host is where runs get their sessions.
type Host interface {
	CreateSession(ctx context.Context, c host.CreateSession) (*host.Session, error)
	Session(ctx context.Context, s id.ID) (*host.Session, error)
	Summary(s id.ID) (host.Summary, bool)
	Watch() *host.Watch
	Addons() *addon.Store
}

// KV is where definitions and runs are kept. What Update wrote is on disk.
type KV interface {
	Update(ctx context.Context, put []store.KV, del []string) error
	List(ctx context.Context, prefix, after string, limit int) ([]store.KV, error)
}

// Definition says what is run, and when.
type Definition struct {
	Title string `json:"title"`
	// By is whose it is. Its sessions are theirs too.
	By event.Actor `json:"by"`
	// Text, Command and Attachments are the message, as of a prompt; Message is
	// what it picks itself.
	Text        string             `json:"text,omitempty"`
	Command     string             `json:"command,omitempty"`
	Attachments []event.Attachment `json:"attachments,omitempty"`
	Message     event.Settings     `json:"message,omitzero"`
	// RichMessage is the front's own form of the message.
	RichMessage json.RawMessage `json:"rich_message,omitempty"`
	Session     Template        `json:"session"`
	// Enabled lets the triggers start runs.
	Enabled  bool      `json:"enabled"`
	Triggers []Trigger `json:"triggers,omitempty"`
	// MaxRuns, if not 0, is after how many scheduled runs Enabled goes off.
	MaxRuns int `json:"max_runs,omitempty"`
	// Until, if not zero, is when it does.
	Until time.Time `json:"until,omitzero"`
	// Rich is the front's own form of the rest.
	Rich json.RawMessage `json:"rich,omitempty"`
}

// Template says what the session of a run is to be.
type Template struct {
	Backend  string         `json:"backend,omitempty"` // "" is the default one
	Dirs     []string       `json:"dirs,omitempty"`    // none is the default one
	Settings event.Settings `json:"settings,omitzero"`
	// Plugins are given to the agent; their copies are held as long as the
	// automation names them.
	Plugins []event.Plugin `json:"plugins,omitempty"`
}

// Trigger starts runs at the times of a schedule.
type Trigger struct {
	ID       string   `json:"id"`
	Schedule Schedule `json:"schedule"`
	// SkipMissed makes up for no missed occurrence.
	SkipMissed bool `json:"skip_missed,omitempty"`
}

// Automation is one automation as it is. It does not change once it was given
// out.
type Automation struct {
	ID id.ID `json:"id"`
	// Name is what its creator called it.
	Name string `json:"name"`
	Definition
	CreatedAt  time.Time `json:"created_at"`
	ModifiedAt time.Time `json:"modified_at"` // of the definition
	// Counted are the scheduled runs that count against MaxRuns.
	Counted int `json:"counted,omitempty"`
	// Next are the occurrences that are awaited, by trigger.
	Next map[string]time.Time `json:"next,omitempty"`
	// Runs are those kept, the newest first.
	Runs []*Run `json:"-"`
}

// NextRunAt is the earliest occurrence that is awaited, or zero.
func (a *Automation) NextRunAt() time.Time {
	var first time.Time
	for _, t := range a.Next {
		if first.IsZero() || t.Before(first) {
			first = t
		}
	}
	return first
}

// Run returns a run that is kept, or nil.
func (a *Automation) Run(run id.ID) *Run {
	for _, r := range a.Runs {
		if r.ID == run {
			return r
		}
	}
	return nil
}

// Status is how a run stands.
type Status string

const (
	Pending   Status = "pending"
	Running   Status = "running"
	Completed Status = "completed"
	Failed    Status = "failed"
	Cancelled Status = "cancelled"
)

// Run is one run. It does not change once it was given out.
type Run struct {
	ID         id.ID  `json:"id"`
	Automation id.ID  `json:"automation"`
	Status     Status `json:"status"`
	// Trigger is what started it, "" for somebody who asked. ScheduledFor is
	// the occurrence, CatchUp that it was missed.
	Trigger      string    `json:"trigger,omitempty"`
	ScheduledFor time.Time `json:"scheduled_for,omitzero"`
	CatchUp      bool      `json:"catch_up,omitempty"`
	// Key is the request that asked for it.
	Key       string    `json:"key,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	StartedAt time.Time `json:"started_at,omitzero"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	// Error is why it failed.
	Error *event.Error `json:"error,omitempty"`
	Usage event.Usage  `json:"usage,omitzero"`
	// Sessions are those it has, without those that were removed; Primary is
	// the one to look at, or Nil.
	Sessions []id.ID `json:"sessions,omitempty"`
	Primary  id.ID   `json:"primary,omitzero"`
	// Session and Turn are the names its session and turn get.
	Session id.ID `json:"session,omitzero"`
	Turn    id.ID `json:"turn,omitzero"`
}

// Over reports whether the run has ended.
func (r *Run) Over() bool { return r.Status != Pending && r.Status != Running }

// CodeInterrupted is the error of runs that the gateway's stop cut off, and
// CodeNotStarted of those that got no session.
const (
	CodeInterrupted = "interrupted"
	CodeNotStarted  = "not_started"
)

// MetaKey is the key of a session's Meta that says which run made it.
const MetaKey = "automation.run"

// Origin is its value.
type Origin struct {
	Automation string `json:"automation"` // its name
	Run        id.ID  `json:"run"`
}

// OriginOf tells which run made a session, if one did.
func OriginOf(info *event.SessionInfo) (o Origin, ok bool) {
	raw := info.Meta[MetaKey]
	return o, len(raw) > 0 && json.Unmarshal(raw, &o) == nil
}

// check judges a definition.
func (d *Definition) check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
	}
	switch {
	case strings.TrimSpace(d.Title) == "":
		return bad("the title is empty")
	case len(d.Title) > MaxName:
		return bad("the title has over %d bytes", MaxName)
	case len(d.Triggers) > MaxTriggers:
		return bad("at most %d triggers", MaxTriggers)
	case d.MaxRuns < 0:
		return bad("a number of runs is one or more")
	}
	seen := map[string]bool{}
	for _, t := range d.Triggers {
		if t.ID == "" || len(t.ID) > MaxName {
			return bad("the id of a trigger has 1 to %d bytes", MaxName)
		}
		if seen[t.ID] {
			return bad("two triggers have the id %.80q", t.ID)
		}
		seen[t.ID] = true
		if err := t.Schedule.check(); err != nil {
			return bad("trigger %.80q: %v", t.ID, err)
		}
	}
	raw, err := json.Marshal(d)
	if err != nil {
		return bad("%v", err)
	}
	if len(raw) > MaxDefinition {
		return bad("it has %d bytes, at most %d", len(raw), MaxDefinition)
	}
	return nil
}

// meet applies the conditions under which an automation goes off.
func (a *Automation) meet(now time.Time) {
	if a.Enabled && (a.MaxRuns > 0 && a.Counted >= a.MaxRuns || !a.Until.IsZero() && now.After(a.Until)) {
		a.Enabled, a.ModifiedAt = false, now
	}
}

// plan finds the occurrences to wait for. Those of triggers that are as they
// were stay.
func (a *Automation) plan(was *Automation, now time.Time) {
	next := map[string]time.Time{}
	for _, t := range a.Triggers {
		if !a.Enabled {
			break
		}
		at := time.Time{}
		if was != nil && was.Enabled {
			for _, old := range was.Triggers {
				if old.ID == t.ID && old.Schedule == t.Schedule {
					at = was.Next[t.ID]
				}
			}
		}
		if at.IsZero() {
			at = t.Schedule.after(now)
		}
		if !at.IsZero() {
			next[t.ID] = at
		}
	}
	a.Next = next
}
