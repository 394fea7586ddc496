package ahp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/polyhost/polyhost/adapters/ahp/reduce"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/store"
	"github.com/polyhost/polyhost/transports/jsonrpc"
)

const (
	annotationsSuffix = "/annotations"
	annotationsKey    = "annotations/" // and the session
)

// annotations serves what people note on the files of a session. It is this
// protocol's alone, kept in the front's own key-values, and folded by the reducer
// that clients have. Locks are taken in this order: notes.mu, annotations.mu.
type annotations struct {
	front *Front

	mu    sync.Mutex
	notes map[id.ID]*notes
	// counts are of the sessions that have annotations.
	counts map[id.ID]noteCount
}

// notes are a session's annotations while somebody reads or writes them.
type notes struct {
	session id.ID
	using   int // guarded by annotations.mu

	mu    sync.Mutex // held while something is said and stored
	state reduce.Object
	open  map[string]*channel
	gone  bool
}

type noteCount struct{ annotations, entries int }

// newAnnotations counts what is kept, and drops what is of sessions that went
// while the gateway did not run.
func newAnnotations(ctx context.Context, f *Front) (*annotations, error) {
	a := &annotations{front: f, notes: map[id.ID]*notes{}, counts: map[id.ID]noteCount{}}
	kv := f.host.KV(front)
	for after := ""; ; {
		page, err := kv.List(ctx, annotationsKey, after, annotationsPage)
		if err != nil {
			return nil, fmt.Errorf("annotations: %w", err)
		}
		for _, row := range page {
			after = row.Key
			sid, err := id.Parse(strings.TrimPrefix(row.Key, annotationsKey))
			if _, ok := f.host.Summary(sid); err != nil || !ok {
				if err := kv.Delete(ctx, row.Key); err != nil {
					return nil, fmt.Errorf("annotations: %w", err)
				}
				continue
			}
			state, err := reduce.Decode(row.Value)
			if err != nil {
				return nil, fmt.Errorf("annotations of %s: %w", sid, err)
			}
			a.counts[sid] = countNotes(state)
		}
		if len(page) < annotationsPage {
			return a, nil
		}
	}
}

func countNotes(state reduce.Object) noteCount {
	all, _ := state["annotations"].([]any)
	n := noteCount{annotations: len(all)}
	for _, v := range all {
		entries, _ := v.(reduce.Object)["entries"].([]any)
		n.entries += len(entries)
	}
	return n
}

// summary tells of a session's annotations where the session is told of.
func (a *annotations) summary(sid id.ID, session string) annotationsSummary {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.counts[sid]
	return annotationsSummary{session + annotationsSuffix, n.annotations, n.entries}
}

func (a *annotations) owns(uri string) bool {
	session, ok := strings.CutSuffix(uri, annotationsSuffix)
	if !ok {
		return false
	}
	_, _, ok = splitSession(session)
	return ok
}

// with runs something on the annotations of a channel's session, under their
// lock.
func (a *annotations) with(ctx context.Context, uri string, f func(n *notes) error) error {
	p, err := a.front.find(ctx, strings.TrimSuffix(uri, annotationsSuffix))
	if err != nil {
		return err
	}
	a.mu.Lock()
	n := a.notes[p.session]
	if n == nil {
		n = &notes{session: p.session, open: map[string]*channel{}}
		a.notes[p.session] = n
	}
	n.using++
	a.mu.Unlock()
	defer a.leave(n)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.gone {
		return notFound(uri)
	}
	if n.state == nil {
		if n.state, err = a.load(ctx, p.session); err != nil {
			return err
		}
	}
	return f(n)
}

// leave forgets annotations that nobody uses or follows.
func (a *annotations) leave(n *notes) {
	n.mu.Lock()
	followed := len(n.open) > 0
	n.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	if n.using--; n.using == 0 && !followed && a.notes[n.session] == n {
		delete(a.notes, n.session)
	}
}

func (a *annotations) load(ctx context.Context, sid id.ID) (reduce.Object, error) {
	b, err := a.front.host.KV(front).Get(ctx, annotationsKey+sid.String())
	if errors.Is(err, store.ErrNotFound) {
		return reduce.Object{"annotations": []any{}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("annotations of %s: %w", sid, err)
	}
	return reduce.Decode(b)
}

func (a *annotations) take(ctx context.Context, uri string) (taken, error) {
	var t taken
	err := a.with(ctx, uri, func(n *notes) error {
		ch := n.open[uri]
		if ch == nil {
			ch = a.front.journal.open(uri)
			n.open[uri] = ch
		}
		t = taken{ch: ch, held: held{ch: ch}}
		t.Resource, t.State = uri, n.state
		t.FromSeq, t.pos = a.front.journal.promise(t.ch)
		return nil
	})
	return t, err
}

func (a *annotations) opened(uri string) (held, error) {
	var h held
	err := a.with(a.front.ctx, uri, func(n *notes) error {
		h.ch = n.open[uri]
		return nil
	})
	return h, err
}

// released closes a channel that nobody watches any more.
func (a *annotations) released(uri string) {
	_ = a.with(a.front.ctx, uri, func(n *notes) error { // of a session that is gone it is closed already
		if ch := n.open[uri]; ch != nil && !a.front.journal.watched(ch) {
			a.front.journal.close(ch)
			delete(n.open, uri)
		}
		return nil
	})
}

// removed ends the annotations of a session that was deleted.
func (a *annotations) removed(ctx context.Context, sid id.ID) {
	a.mu.Lock()
	n := a.notes[sid]
	_, kept := a.counts[sid]
	delete(a.notes, sid)
	delete(a.counts, sid)
	a.mu.Unlock()
	if n != nil {
		n.mu.Lock()
		n.gone = true
		for _, ch := range n.open {
			a.front.journal.close(ch)
		}
		n.mu.Unlock()
	}
	if !kept && n == nil {
		return
	}
	if err := a.front.host.KV(front).Delete(ctx, annotationsKey+sid.String()); err != nil {
		a.front.log.Warn("The annotations of a deleted session stay until the next start", "session", sid.String(), "err", err)
	}
}

// The shapes of what clients say of annotations.
type (
	noteOrigin struct {
		Session string `json:"session" jsonx:"required"`
		Chat    string `json:"chat,omitempty"`
		TurnID  string `json:"turnId,omitempty"`
	}
	notePosition struct {
		Line      *uint32 `json:"line" jsonx:"required"`
		Character *uint32 `json:"character" jsonx:"required"`
	}
	noteRange struct {
		Start notePosition `json:"start" jsonx:"required"`
		End   notePosition `json:"end" jsonx:"required"`
	}
	noteEntry struct {
		ID   string                     `json:"id" jsonx:"required"`
		Text json.RawMessage            `json:"text" jsonx:"required"`
		Meta map[string]json.RawMessage `json:"_meta,omitempty"`
	}
	note struct {
		ID       string                     `json:"id" jsonx:"required"`
		Origin   noteOrigin                 `json:"origin" jsonx:"required"`
		Resource string                     `json:"resource" jsonx:"required"`
		Range    *noteRange                 `json:"range,omitempty"`
		Resolved *bool                      `json:"resolved" jsonx:"required"`
		Entries  []noteEntry                `json:"entries" jsonx:"required"`
		Meta     map[string]json.RawMessage `json:"_meta,omitempty"`
	}
	noteSet struct {
		Type       string `json:"type"`
		Annotation note   `json:"annotation" jsonx:"required"`
	}
	noteUpdated struct {
		Type     string      `json:"type"`
		ID       string      `json:"annotationId" jsonx:"required"`
		Origin   *noteOrigin `json:"origin,omitempty"`
		Resource *string     `json:"resource,omitempty"`
		Range    *noteRange  `json:"range,omitempty"`
		Resolved *bool       `json:"resolved,omitempty"`
	}
	noteRemoved struct {
		Type string `json:"type"`
		ID   string `json:"annotationId" jsonx:"required"`
	}
	entrySet struct {
		Type  string    `json:"type"`
		ID    string    `json:"annotationId" jsonx:"required"`
		Entry noteEntry `json:"entry" jsonx:"required"`
	}
	entryRemoved struct {
		Type  string `json:"type"`
		ID    string `json:"annotationId" jsonx:"required"`
		Entry string `json:"entryId" jsonx:"required"`
	}
)

// noteActions read what a client says of annotations, and give the annotation
// that must be there already; "" for none.
var noteActions = map[string]func(raw json.RawMessage) (action any, of string, err error){
	"annotations/set": func(raw json.RawMessage) (any, string, error) {
		var a noteSet
		if err := decode(raw, &a, "action"); err != nil {
			return nil, "", err
		}
		if len(a.Annotation.Entries) == 0 {
			return nil, "", refusal("action.annotation.entries: an annotation has at least one")
		}
		for i := range a.Annotation.Entries {
			if err := a.Annotation.Entries[i].check(); err != nil {
				return nil, "", err
			}
		}
		return a, "", named(a.Annotation.ID)
	},
	"annotations/updated": func(raw json.RawMessage) (any, string, error) {
		var a noteUpdated
		err := decode(raw, &a, "action")
		return a, a.ID, errors.Join(err, named(a.ID))
	},
	"annotations/removed": func(raw json.RawMessage) (any, string, error) {
		var a noteRemoved
		err := decode(raw, &a, "action")
		return a, a.ID, err
	},
	"annotations/entrySet": func(raw json.RawMessage) (any, string, error) {
		var a entrySet
		if err := decode(raw, &a, "action"); err != nil {
			return nil, "", err
		}
		return a, a.ID, a.Entry.check()
	},
	"annotations/entryRemoved": func(raw json.RawMessage) (any, string, error) {
		var a entryRemoved
		err := decode(raw, &a, "action")
		return a, a.ID, err
	},
}

func named(name string) error {
	if name == "" {
		return refusal("action: an id must not be empty")
	}
	return nil
}

// check judges an entry: its text is a string or {markdown}.
func (e *noteEntry) check() error {
	var text string
	if json.Unmarshal(e.Text, &text) != nil {
		var m struct {
			Markdown *string `json:"markdown" jsonx:"required"`
		}
		if err := decode(e.Text, &m, "entry.text"); err != nil {
			return err
		}
		e.Text = encode(m)
	}
	return named(e.ID)
}

// dispatch folds what a client says, as every client will.
func (a *annotations) dispatch(ctx context.Context, act *action, typ string) error {
	read := noteActions[typ]
	if read == nil {
		return refusal("this host does not take " + clip(typ) + " on that channel")
	}
	said, of, err := read(act.raw)
	if err != nil {
		return err
	}
	encoded := encode(said)
	folded, err := reduce.Decode(encoded)
	if err != nil {
		return err
	}
	err = a.with(ctx, act.uri, func(n *notes) error { return a.fold(ctx, n, typ, of, folded, encoded, &act.origin) })
	var nowhere *jsonrpc.Error
	if errors.As(err, &nowhere) {
		return errNowhere
	}
	return err
}

// fold keeps an action and tells it.
func (a *annotations) fold(ctx context.Context, n *notes, typ, of string, action reduce.Object, encoded json.RawMessage, o *origin) error {
	if of != "" {
		found := findByID(n.state["annotations"], of)
		if found == nil {
			return refusal("the session has no such annotation")
		}
		if typ == "annotations/entryRemoved" {
			entries, _ := found["entries"].([]any)
			switch entry, _ := action["entryId"].(string); {
			case findByID(found["entries"], entry) == nil:
				return refusal("the annotation has no such entry")
			case len(entries) == 1:
				return refusal("an annotation has at least one entry: remove the annotation")
			}
		}
	}
	next, changed := reduce.For("annotations")(n.state, action)
	before, after := encode(n.state), encode(next)
	switch {
	case !changed || string(before) == string(after):
		return errUnchanged
	case len(after) > maxAnnotations:
		return refusal(fmt.Sprintf("the annotations of a session have %d bytes at most", maxAnnotations))
	}
	// It is stored even if who made it leaves now, and then it has to be there.
	if err := a.front.host.KV(front).Set(context.WithoutCancel(ctx), annotationsKey+n.session.String(), after); err != nil {
		return err
	}
	n.state = next
	a.mu.Lock()
	a.counts[n.session] = countNotes(next)
	a.mu.Unlock()
	for _, uri := range slices.Sorted(maps.Keys(n.open)) {
		ch := n.open[uri]
		a.front.journal.publish(ch, ch.action(encoded), o)
	}
	return nil
}

func findByID(list any, name string) reduce.Object {
	all, _ := list.([]any)
	for _, v := range all {
		if o, _ := v.(reduce.Object); o["id"] == name {
			return o
		}
	}
	return nil
}
