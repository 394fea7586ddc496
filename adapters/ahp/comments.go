package ahp

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/polyhost/polyhost/adapters/ahp/reduce"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/hosttools"
	"github.com/polyhost/polyhost/core/id"
)

// comments are the annotations of sessions as agents have them. What an editor
// says of who wrote something, and of what a person has not let through yet, is
// under its own key.
type comments struct{ annotations *annotations }

// feedbackKey is where editors say that, in an annotation and in its entries.
const feedbackKey = "vscode.agentFeedback"

// The words of feedback.
const (
	kindUser    = "user"
	kindReview  = "codeReview" // an agent's
	kindPull    = "prReview"
	authorUser  = "user"
	authorAgent = "agent"
	authorPull  = "prReviewer"
	notReviewed = "created"
)

type feedback struct {
	Kind    string `json:"kind,omitempty"`
	State   string `json:"state,omitempty"`
	Session string `json:"sessionResource,omitempty"`
	Author  string `json:"author,omitempty"`
}

// keptNote is an annotation as it is kept.
type keptNote struct {
	ID       string     `json:"id"`
	Resource string     `json:"resource"`
	Range    *noteRange `json:"range"`
	Resolved bool       `json:"resolved"`
	Entries  []struct {
		Text json.RawMessage            `json:"text"`
		Meta map[string]json.RawMessage `json:"_meta"`
	} `json:"entries"`
	Meta map[string]json.RawMessage `json:"_meta"`
}

func feedbackOf(meta map[string]json.RawMessage) (f feedback) {
	if json.Unmarshal(meta[feedbackKey], &f) != nil {
		return feedback{} // somebody else's words
	}
	return f
}

// comment is an annotation as an agent has it; waits says that a person has to let
// it through first.
func (n *keptNote) comment() (c hosttools.Comment, waits bool) {
	f := feedbackOf(n.Meta)
	c = hosttools.Comment{ID: n.ID, Resource: n.Resource, Kind: f.Kind, Resolved: n.Resolved}
	opened := authorUser
	switch f.Kind {
	case kindReview:
		opened = authorAgent
	case kindPull:
		opened = authorPull
	default:
		c.Kind = kindUser
	}
	if r := n.Range; r != nil {
		c.Range = &hosttools.Range{StartLine: *r.Start.Line + 1, StartColumn: *r.Start.Character + 1, EndLine: *r.End.Line + 1, EndColumn: *r.End.Character + 1}
	}
	for i, e := range n.Entries {
		author := feedbackOf(e.Meta).Author
		if !slices.Contains([]string{authorUser, authorAgent, authorPull}, author) {
			if author = authorUser; i == 0 {
				author = opened
			}
		}
		text := plainText(e.Text)
		if i == 0 {
			c.Text, c.Author = text, author
		} else {
			c.Replies = append(c.Replies, hosttools.Reply{Author: author, Text: text})
		}
	}
	return c, c.Author == authorPull && f.State == notReviewed && !n.Resolved
}

// plainText is a text that is a string, or an object with markdown.
func plainText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var m struct {
		Markdown string `json:"markdown"`
	}
	_ = json.Unmarshal(raw, &m) // it was checked when it was set
	return m.Markdown
}

// read gives the comments of a session that an agent may read.
func (n *notes) read() (out []hosttools.Comment, waiting int, err error) {
	var state struct {
		Annotations []keptNote `json:"annotations"`
	}
	if err := json.Unmarshal(encode(n.state), &state); err != nil {
		return nil, 0, err
	}
	for i := range state.Annotations {
		c, waits := state.Annotations[i].comment()
		if waits {
			waiting++
			continue
		}
		out = append(out, c)
	}
	return out, waiting, nil
}

// on runs something on the annotations of a session.
func (c comments) on(ctx context.Context, session id.ID, f func(n *notes, uri string) error) error {
	sum, ok := c.annotations.front.host.Summary(session)
	if !ok {
		return host.ErrNotFound
	}
	uri := sessionURI(&sum.Info)
	return c.annotations.with(ctx, uri+annotationsSuffix, func(n *notes) error { return f(n, uri) })
}

// say folds an action of the agent's and tells it.
func (c comments) say(ctx context.Context, n *notes, typ string, action any) error {
	encoded := encode(action)
	folded, err := reduce.Decode(encoded)
	if err != nil {
		return err
	}
	err = c.annotations.fold(ctx, n, typ, "", folded, encoded, nil)
	var words refusal
	switch {
	case errors.Is(err, errUnchanged):
		return nil
	case errors.As(err, &words):
		return hosttools.Refused(string(words))
	}
	return err
}

func (c comments) List(ctx context.Context, session id.ID) (out []hosttools.Comment, waiting int, err error) {
	err = c.on(ctx, session, func(n *notes, _ string) error {
		out, waiting, err = n.read()
		return err
	})
	return out, waiting, err
}

func (c comments) Add(ctx context.Context, session id.ID, resource string, at hosttools.Range, text string) (out hosttools.Comment, err error) {
	name := id.New().String()
	err = c.on(ctx, session, func(n *notes, uri string) error {
		no := false
		a := noteSet{"annotations/set", note{ID: name, Origin: noteOrigin{Session: uri}, Resource: resource, Resolved: &no,
			Range:   &noteRange{notePosition{ptr(at.StartLine - 1), ptr(at.StartColumn - 1)}, notePosition{ptr(at.EndLine - 1), ptr(at.EndColumn - 1)}},
			Entries: []noteEntry{entryOf(text)},
			Meta:    map[string]json.RawMessage{feedbackKey: encode(feedback{Kind: kindReview, State: notReviewed, Session: uri})}}}
		if err := c.say(ctx, n, a.Type, a); err != nil {
			return err
		}
		out, err = n.one(name)
		return err
	})
	return out, err
}

// entryOf is an entry that an agent writes.
func entryOf(text string) noteEntry {
	return noteEntry{ID: id.New().String(), Text: encode(text), Meta: map[string]json.RawMessage{feedbackKey: encode(feedback{Author: authorAgent})}}
}

// one finds a comment that an agent may read.
func (n *notes) one(name string) (hosttools.Comment, error) {
	all, _, err := n.read()
	if err != nil {
		return hosttools.Comment{}, err
	}
	i := slices.IndexFunc(all, func(c hosttools.Comment) bool { return c.ID == name })
	if i < 0 {
		return hosttools.Comment{}, hosttools.Refused("there is no comment of that id; listComments tells which there are")
	}
	return all[i], nil
}

func (c comments) Reply(ctx context.Context, session id.ID, comment, text string) (out hosttools.Comment, err error) {
	err = c.on(ctx, session, func(n *notes, _ string) error {
		if _, err := n.one(comment); err != nil {
			return err
		}
		a := entrySet{"annotations/entrySet", comment, entryOf(text)}
		if err := c.say(ctx, n, a.Type, a); err != nil {
			return err
		}
		out, err = n.one(comment)
		return err
	})
	return out, err
}

// each does something to those of the comments that there are, and gives their ids.
func (c comments) each(ctx context.Context, session id.ID, names []string, action func(name string) (typ string, a any)) (done []string, err error) {
	done = []string{}
	err = c.on(ctx, session, func(n *notes, _ string) error {
		for _, name := range names {
			if _, err := n.one(name); err != nil {
				continue
			}
			typ, a := action(name)
			if err := c.say(ctx, n, typ, a); err != nil {
				return err
			}
			done = append(done, name)
		}
		return nil
	})
	return done, err
}

func (c comments) Delete(ctx context.Context, session id.ID, names []string) ([]string, error) {
	return c.each(ctx, session, names, func(name string) (string, any) {
		return "annotations/removed", noteRemoved{"annotations/removed", name}
	})
}

func (c comments) Resolve(ctx context.Context, session id.ID, names []string, resolved bool) ([]string, error) {
	return c.each(ctx, session, names, func(name string) (string, any) {
		return "annotations/updated", noteUpdated{Type: "annotations/updated", ID: name, Resolved: &resolved}
	})
}
