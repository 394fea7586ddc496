package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
)

// ErrPattern is wrapped when a pattern of an entry is not valid.
var ErrPattern = errors.New("bad pattern")

// EntryKind says how an entry's pattern is read.
type EntryKind string

const (
	// EntryRemembered is a pattern of Pattern's form, from a person's answer.
	EntryRemembered EntryKind = "remembered"
	// EntryTool is the exact name of a tool that is no shell.
	EntryTool EntryKind = "tool"
	// EntryRegexp is a regular expression searched in shell lines. It covers
	// only lines that run one program.
	EntryRegexp EntryKind = "regexp"
)

// Entry is one rule of the allow-list.
type Entry struct {
	ID   string    `json:"id"`
	Kind EntryKind `json:"kind"`
	// Scope is event.ScopeProject or event.ScopeAlways.
	Scope event.Scope `json:"scope"`
	// Dir is the working directory a project entry holds for.
	Dir       string      `json:"dir,omitempty"`
	Pattern   string      `json:"pattern"`
	By        event.Actor `json:"by"`
	CreatedAt time.Time   `json:"created_at"`
}

// maxEntries bounds the list.
const maxEntries = 10_000

// Allowlist is the lasting list of what needs no asking. It may be used by
// any number of goroutines.
type Allowlist struct {
	save func([]byte) error

	mu      sync.RWMutex
	entries []Entry
	exprs   map[string]*regexp.Regexp
}

// NewAllowlist reads a list that save stored; nil is an empty one.
func NewAllowlist(stored []byte, save func([]byte) error) (*Allowlist, error) {
	a := &Allowlist{save: save, exprs: map[string]*regexp.Regexp{}}
	if len(stored) > 0 {
		if err := json.Unmarshal(stored, &a.entries); err != nil {
			return nil, fmt.Errorf("read allow-list: %w", err)
		}
	}
	for _, e := range a.entries {
		if e.Kind == EntryRegexp {
			if re, err := regexp.Compile(e.Pattern); err == nil {
				a.exprs[e.ID] = re
			}
		}
	}
	return a, nil
}

// Add stores an entry and returns it with its id. An entry that says the same
// as one that is there gives that one back.
func (a *Allowlist) Add(e Entry) (Entry, error) {
	var re *regexp.Regexp
	if e.Pattern == "" {
		return Entry{}, fmt.Errorf("%w: it is empty", ErrPattern)
	}
	if e.Kind == EntryRegexp {
		var err error
		if re, err = regexp.Compile(e.Pattern); err != nil {
			return Entry{}, fmt.Errorf("%w: %v", ErrPattern, err)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, old := range a.entries {
		if old.Kind == e.Kind && old.Scope == e.Scope && old.Dir == e.Dir && old.Pattern == e.Pattern {
			return old, nil
		}
	}
	if len(a.entries) >= maxEntries {
		return Entry{}, fmt.Errorf("the allow-list holds its most, %d entries", maxEntries)
	}
	e.ID, e.CreatedAt = id.New().String(), time.Now().UTC().Truncate(time.Millisecond)
	next := append(slices.Clone(a.entries), e)
	if err := a.store(next); err != nil {
		return Entry{}, err
	}
	if re != nil {
		a.exprs[e.ID] = re
	}
	return e, nil
}

// Remove deletes an entry and reports whether it was there.
func (a *Allowlist) Remove(entry string) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.IndexFunc(a.entries, func(e Entry) bool { return e.ID == entry })
	if i < 0 {
		return false, nil
	}
	delete(a.exprs, entry)
	return true, a.store(slices.Delete(slices.Clone(a.entries), i, i+1))
}

func (a *Allowlist) store(next []Entry) error {
	b, err := json.Marshal(next)
	if err == nil {
		err = a.save(b)
	}
	if err != nil {
		return fmt.Errorf("store allow-list: %w", err)
	}
	a.entries = next
	return nil
}

// List returns the project's entries, then those for everything.
func (a *Allowlist) List(dir string) []Entry {
	a.mu.RLock()
	defer a.mu.RUnlock()
	var project, always []Entry
	for _, e := range a.entries {
		switch {
		case e.Scope == event.ScopeAlways:
			always = append(always, e)
		case e.Dir == dir:
			project = append(project, e)
		}
	}
	return append(project, always...)
}

// Covers reports whether an entry allows the call.
func (a *Allowlist) Covers(c Call) bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return slices.ContainsFunc(a.entries, func(e Entry) bool {
		if e.Scope != event.ScopeAlways && !slices.Contains(c.Dirs, e.Dir) {
			return false
		}
		switch e.Kind {
		case EntryTool:
			return c.Tag != event.TagExec && e.Pattern == c.Tool
		case EntryRegexp:
			re := a.exprs[e.ID]
			return re != nil && c.Tag == event.TagExec && !Compound(c.Command) && re.MatchString(c.Command)
		}
		return Matches(e.Pattern, c)
	})
}
