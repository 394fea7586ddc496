package hosttools

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/polyhost/polyhost/core/id"
)

// Comments are what people and agents note on the files of a session. A front
// has them. Ids that there are not are left out of what is given back.
type Comments interface {
	// List gives those that an agent may read, and how many more there are: what
	// others wrote waits until a person lets it through.
	List(ctx context.Context, session id.ID) (comments []Comment, waiting int, err error)
	Add(ctx context.Context, session id.ID, resource string, at Range, text string) (Comment, error)
	Reply(ctx context.Context, session id.ID, comment, text string) (Comment, error)
	Delete(ctx context.Context, session id.ID, comments []string) (deleted []string, err error)
	Resolve(ctx context.Context, session id.ID, comments []string, resolved bool) (updated []string, err error)
}

// Comment is a remark on a passage of a file, with what was answered.
type Comment struct {
	ID       string `json:"id"`
	Resource string `json:"resourceUri"`
	Range    *Range `json:"range,omitempty"` // nil is the whole file
	Text     string `json:"text"`
	// Kind is user, codeReview or prReview, Author user, agent or prReviewer.
	Kind     string  `json:"kind"`
	Author   string  `json:"author"`
	Resolved bool    `json:"resolved"`
	Replies  []Reply `json:"replies,omitempty"`
}

// Reply is an answer to a comment.
type Reply struct {
	Author string `json:"author"`
	Text   string `json:"text"`
}

// Range is a passage; lines and columns count from 1.
type Range struct {
	StartLine   uint32 `json:"startLineNumber" need:"yes"`
	StartColumn uint32 `json:"startColumn" need:"yes"`
	EndLine     uint32 `json:"endLineNumber" need:"yes"`
	EndColumn   uint32 `json:"endColumn" need:"yes"`
}

func (r *Range) check() error {
	switch {
	case r.StartLine == 0 || r.StartColumn == 0 || r.EndLine == 0 || r.EndColumn == 0:
		return sayf("range: lines and columns count from 1")
	case r.EndLine < r.StartLine || r.EndLine == r.StartLine && r.EndColumn < r.StartColumn:
		return sayf("range: its end is before its start")
	}
	return nil
}

// remark checks what somebody writes.
func remark(text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return sayf("text is empty")
	case len(text) > maxComment:
		return sayf("text has more than %d bytes", maxComment)
	}
	return nil
}

func addComment(c *call, raw json.RawMessage) (any, error) {
	var in struct {
		Resource string          `json:"resourceUri" need:"yes"`
		Range    json.RawMessage `json:"range" need:"yes"`
		Text     string          `json:"text" need:"yes"`
	}
	if err := decode(raw, &in); err != nil {
		return nil, err
	}
	var at Range
	err := decode(in.Range, &at)
	if err == nil {
		err = at.check()
	}
	if err != nil {
		return nil, sayf("range: %v", err)
	}
	if err := remark(in.Text); err != nil {
		return nil, err
	}
	if u, err := url.Parse(in.Resource); err != nil || len(u.Scheme) < 2 || len(in.Resource) > maxAddress {
		return nil, sayf("resourceUri is no absolute URI of at most %d bytes", maxAddress)
	}
	comment, err := c.lent.Comments.Add(c.ctx, c.from.Session, in.Resource, at, in.Text)
	return map[string]any{"comment": comment}, err
}

func listComments(c *call, raw json.RawMessage) (any, error) {
	var in struct {
		Resolved bool `json:"includeResolved"`
	}
	if err := decode(raw, &in); err != nil {
		return nil, err
	}
	all, waiting, err := c.lent.Comments.List(c.ctx, c.from.Session)
	if err != nil {
		return nil, err
	}
	out := struct {
		Comments []Comment `json:"comments"`
		More     int       `json:"more,omitempty"`
		Waiting  int       `json:"waitingForThePerson,omitempty"`
	}{Comments: []Comment{}, Waiting: waiting}
	size := 0
	for i, x := range all {
		if x.Resolved && !in.Resolved {
			continue
		}
		b, err := json.Marshal(x)
		if err != nil {
			return nil, err
		}
		if size += len(b); size > maxOutput && len(out.Comments) > 0 {
			out.More = len(all) - i
			break
		}
		out.Comments = append(out.Comments, x)
	}
	return out, nil
}

func replyToComment(c *call, raw json.RawMessage) (any, error) {
	var in struct {
		Comment string `json:"commentId" need:"yes"`
		Text    string `json:"text" need:"yes"`
	}
	if err := decode(raw, &in); err != nil {
		return nil, err
	}
	if err := remark(in.Text); err != nil {
		return nil, err
	}
	comment, err := c.lent.Comments.Reply(c.ctx, c.from.Session, in.Comment, in.Text)
	return map[string]any{"comment": comment}, err
}

// someComments checks a list of ids.
func someComments(ids []string) error {
	if len(ids) == 0 || len(ids) > maxListed {
		return sayf("commentIds: 1 to %d at a time", maxListed)
	}
	return nil
}

func deleteComments(c *call, raw json.RawMessage) (any, error) {
	var in struct {
		Comments []string `json:"commentIds" need:"yes"`
	}
	if err := decode(raw, &in); err != nil {
		return nil, err
	}
	if err := someComments(in.Comments); err != nil {
		return nil, err
	}
	deleted, err := c.lent.Comments.Delete(c.ctx, c.from.Session, in.Comments)
	return map[string]any{"deletedCommentIds": deleted, "notFoundCommentIds": without(in.Comments, deleted)}, err
}

func resolveComments(c *call, raw json.RawMessage) (any, error) {
	var in struct {
		Comments []string `json:"commentIds" need:"yes"`
		Resolved *bool    `json:"resolved"`
	}
	if err := decode(raw, &in); err != nil {
		return nil, err
	}
	if err := someComments(in.Comments); err != nil {
		return nil, err
	}
	resolved := in.Resolved == nil || *in.Resolved
	updated, err := c.lent.Comments.Resolve(c.ctx, c.from.Session, in.Comments, resolved)
	return map[string]any{"resolved": resolved, "updatedCommentIds": updated, "notFoundCommentIds": without(in.Comments, updated)}, err
}

// without is a list without what is in another one.
func without(list, taken []string) []string {
	out := []string{}
	seen := map[string]bool{}
	for _, t := range taken {
		seen[t] = true
	}
	for _, x := range list {
		if !seen[x] {
			out = append(out, x)
		}
	}
	return out
}
