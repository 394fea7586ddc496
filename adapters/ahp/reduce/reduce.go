// Package reduce folds the actions of the Agent Host Protocol into the state
// of a channel, as every client of the protocol does.
//
// The reducers are pure: no clock, no I/O, no knowledge of who sent an action
// or of the gateway's own core. They work on decoded JSON, so that keys and
// variants of a newer protocol survive, and never change what they are given:
// the nodes on the way to a change are copied, everything else is shared. An
// action that does not fit the state, or that nobody knows, changes nothing.
package reduce

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Object is a decoded JSON object. Numbers are float64.
type Object = map[string]any

// Reducer folds an action into a state. When nothing changes it returns the
// state it was given and false.
type Reducer func(state, action Object) (Object, bool)

// reducers by the kind of channel, which is also the prefix of its actions.
var reducers = map[string]Reducer{
	"root":          root,
	"session":       session,
	"chat":          chat,
	"terminal":      terminal,
	"changeset":     changeset,
	"annotations":   annotations,
	"resourceWatch": nothing,
	"automation":    automation,
	"automationRun": automationRun,
	"canvas":        canvas,
}

// For returns the reducer of a kind of channel: root, session, chat, terminal,
// changeset, annotations, resourceWatch, automation, automationRun or canvas;
// nil for any other word.
func For(kind string) Reducer { return reducers[kind] }

// Decode reads a state or an action.
func Decode(data []byte) (Object, error) {
	var o Object
	err := json.Unmarshal(data, &o)
	return o, err
}

func nothing(state, _ Object) (Object, bool) { return state, false }

// Status bits of sessions and chats. The activity is exactly one of the
// values in activityMask.
const (
	Idle        = 1
	Failed      = 2
	Running     = 8
	InputNeeded = 24
	Read        = 32
	Archived    = 64

	activityMask = 31
	inputBit     = 16
)

// with returns a copy of o with key set, or without it when v is nil.
func with(o Object, key string, v any) Object {
	c := make(Object, len(o)+1)
	for k, old := range o {
		c[k] = old
	}
	if v == nil {
		delete(c, key)
	} else {
		c[key] = v
	}
	return c
}

// merged returns a copy of o with the keys of p laid over it, but for those
// in except.
func merged(o, p Object, except ...string) Object {
	c := make(Object, len(o)+len(p))
	for k, v := range o {
		c[k] = v
	}
	for k, v := range p {
		if !slices.Contains(except, k) {
			c[k] = v
		}
	}
	return c
}

// carry copies the keys that o has, and that are not null, into a new object.
func carry(o Object, keys ...string) Object {
	c := make(Object, len(keys)+4)
	for _, k := range keys {
		if v := o[k]; v != nil {
			c[k] = v
		}
	}
	return c
}

func object(v any) Object { o, _ := v.(Object); return o }
func list(v any) []any    { l, _ := v.([]any); return l }
func text(v any) string   { s, _ := v.(string); return s }
func yes(v any) bool      { b, _ := v.(bool); return b }
func number(v any) float64 {
	n, _ := v.(float64)
	return n
}

func bits(state Object) uint32 { return uint32(number(state["status"])) }

// index finds the entry whose key has the value.
func index(l []any, key, value string) int {
	return slices.IndexFunc(l, func(v any) bool {
		o := object(v)
		s, ok := o[key].(string)
		return ok && s == value
	})
}

// replaced returns a copy of l with one entry replaced.
func replaced(l []any, i int, v any) []any {
	l = slices.Clone(l)
	l[i] = v
	return l
}

// upsert replaces the entry with the same key, or appends.
func upsert(l []any, key string, v Object) []any {
	if i := index(l, key, text(v[key])); i >= 0 {
		return replaced(l, i, v)
	}
	return append(slices.Clone(l), v)
}

// removed returns l without one entry. An emptied list is empty, not nil.
func removed(l []any, i int) []any {
	out := make([]any, 0, len(l)-1)
	return append(append(out, l[:i]...), l[i+1:]...)
}

// remove takes the entry with the value of key out of the list at field.
func remove(state Object, field, key, value string) (Object, bool) {
	l := list(state[field])
	i := index(l, key, value)
	if i < 0 {
		return state, false
	}
	return with(state, field, removed(l, i)), true
}

// place is an assignment that counts as a change.
func place(state Object, key string, v any) (Object, bool) { return with(state, key, v), true }

// config merges values into state.config, or replaces them.
func config(state, action Object) (Object, bool) {
	c := object(state["config"])
	if c == nil {
		return state, false
	}
	values := object(action["config"])
	if !yes(action["replace"]) {
		values = merged(object(c["values"]), values)
	}
	return place(state, "config", with(c, "values", values))
}

func flag(state Object, bit uint32, on bool) (Object, bool) {
	s := bits(state) &^ bit
	if on {
		s |= bit
	}
	if s == bits(state) {
		return state, false
	}
	return place(state, "status", float64(s))
}

// addDirectory appends a directory unless it is listed.
func addDirectory(state, action Object) (Object, bool) {
	dirs, dir := list(state["workingDirectories"]), text(action["directory"])
	if slices.Contains(dirs, any(dir)) {
		return state, false
	}
	return place(state, "workingDirectories", append(slices.Clone(dirs), dir))
}

func removeDirectory(state, action Object) (Object, bool) {
	dirs := list(state["workingDirectories"])
	i := slices.Index(dirs, action["directory"])
	if i < 0 {
		return state, false
	}
	return place(state, "workingDirectories", removed(dirs, i))
}

// EndTime is the moment a turn ended: its start and its duration in
// milliseconds, in UTC with three decimals. A start that is no timestamp is
// given back as it is.
func EndTime(startedAt string, durationMs float64) string {
	t, err := time.Parse(time.RFC3339Nano, strings.ToUpper(startedAt))
	if err != nil {
		return startedAt
	}
	return t.Add(time.Duration(max(0, durationMs) * float64(time.Millisecond))).UTC().Format(TimeFormat)
}

// TimeFormat is how the protocol prints a computed moment.
const TimeFormat = "2006-01-02T15:04:05.000Z"
