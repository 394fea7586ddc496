package extend

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/polyhost/polyhost/core/id"
)

// ErrTooMany is returned by Decide when no more decisions are kept.
var ErrTooMany = errors.New("too many decisions are kept")

// Scope is how far a decision reaches; the nearest one counts.
type Scope string

// The scopes, the nearest first.
const (
	ForSession Scope = "session"
	ForFolder  Scope = "folder" // all sessions that work in it
	ForAll     Scope = "all"
)

// Decision is whether something is on.
type Decision struct {
	Scope Scope  `json:"scope"`
	Dir   string `json:"dir,omitempty"` // of ForFolder
	On    bool   `json:"on"`
}

// On is what decisions come to, the nearest first: with none a thing is on.
func On(ds []Decision) bool { return len(ds) == 0 || ds[0].On }

// decided is a decision as it is kept.
type decided struct {
	Thing   string `json:"thing"`
	Session id.ID  `json:"session,omitzero"`
	Decision
}

// New returns a registry with the decisions that save was last given; nil for
// none.
func New(stored []byte, save func([]byte) error) (*Registry, error) {
	r := &Registry{save: save, views: map[id.ID]*View{}, brought: map[id.ID][]brought{}}
	if len(stored) > 0 {
		if err := json.Unmarshal(stored, &r.decided); err != nil {
			return nil, fmt.Errorf("read the decisions: %w", err)
		}
	}
	return r, nil
}

// counts reports whether a decision is one for a session in a folder.
func (d *decided) counts(session id.ID, dir, thing string) bool {
	return d.Thing == thing && (d.Scope == ForAll || d.Scope == ForSession && d.Session == session || d.Scope == ForFolder && d.Dir == dir)
}

var nearness = map[Scope]int{ForSession: 0, ForFolder: 1, ForAll: 2}

// Decisions are those that count for a thing in a session that works in dir,
// the nearest first.
func (r *Registry) Decisions(session id.ID, dir, thing string) []Decision {
	r.mu.Lock()
	defer r.mu.Unlock()
	return pick(r.decided, session, dir, thing)
}

func pick(all []decided, session id.ID, dir, thing string) (out []Decision) {
	for i := range all {
		if all[i].counts(session, dir, thing) {
			out = append(out, all[i].Decision)
		}
	}
	slices.SortFunc(out, func(a, b Decision) int { return nearness[a.Scope] - nearness[b.Scope] })
	return out
}

// Decide replaces the decisions that count for a thing in a session that works
// in dir. It reports whether anything changed.
func (r *Registry) Decide(session id.ID, dir, thing string, ds []Decision) (bool, error) {
	r.deciding.Lock()
	defer r.deciding.Unlock()
	r.mu.Lock()
	all := slices.DeleteFunc(slices.Clone(r.decided), func(d decided) bool { return d.counts(session, dir, thing) })
	for _, d := range ds {
		row := decided{Thing: thing, Decision: d}
		switch d.Scope {
		case ForSession:
			row.Session = session
		case ForFolder:
			row.Dir = dir
		}
		if !slices.Contains(all, row) {
			all = append(all, row)
		}
	}
	same := slices.Equal(pick(all, session, dir, thing), pick(r.decided, session, dir, thing))
	r.mu.Unlock()
	if same {
		return false, nil
	}
	return true, r.keep(all, id.Nil)
}

func (r *Registry) dropSession(session id.ID) error {
	r.deciding.Lock()
	defer r.deciding.Unlock()
	r.mu.Lock()
	all := slices.DeleteFunc(slices.Clone(r.decided), func(d decided) bool { return d.Scope == ForSession && d.Session == session })
	same := len(all) == len(r.decided)
	r.mu.Unlock()
	if same {
		return nil
	}
	return r.keep(all, session)
}

// keep stores decisions and lets them count; the caller holds deciding.
func (r *Registry) keep(all []decided, session id.ID) error {
	if len(all) > MaxDecisions {
		return ErrTooMany
	}
	b, err := json.Marshal(all)
	if err != nil {
		return err
	}
	if err := r.save(b); err != nil {
		return fmt.Errorf("store the decisions: %w", err)
	}
	r.mu.Lock()
	r.decided = all
	watchers := r.watchers
	r.mu.Unlock()
	tell(watchers, session)
	return nil
}
