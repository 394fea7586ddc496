package hosttools

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/polyhost/polyhost/core/host"
)

// entry is a session as an agent is told of it.
type entry struct {
	Session    string      `json:"session"`
	OpenLink   string      `json:"openLink"`
	Title      string      `json:"title,omitempty"`
	Status     string      `json:"status"`
	Provider   string      `json:"provider"`
	Model      string      `json:"model,omitempty"`
	Project    string      `json:"project,omitempty"`
	Folders    []string    `json:"workingDirectories,omitempty"`
	Changed    *int        `json:"changedFiles,omitempty"`
	Pulls      []string    `json:"pullRequests,omitempty"`
	Unread     bool        `json:"unread,omitempty"`
	Archived   bool        `json:"archived,omitempty"`
	Waiting    int         `json:"waitingMessages,omitempty"`
	LastPrompt string      `json:"lastPrompt,omitempty"`
	CreatedAt  string      `json:"createdAt"`
	ModifiedAt string      `json:"modifiedAt"`
	Chats      []chatEntry `json:"chats,omitempty"`
}

type chatEntry struct {
	OpenLink string `json:"openLink"`
	Title    string `json:"title,omitempty"`
	Status   string `json:"status"`
}

// The words for how a session stands.
const (
	statusIdle     = "idle"
	statusRuns     = "inProgress"
	statusAsks     = "inputNeeded"
	statusError    = "error"
	statusArchived = "archived"
)

func statusOf(s host.Status) string {
	switch s {
	case host.Running:
		return statusRuns
	case host.AwaitingApproval, host.AwaitingQuestion:
		return statusAsks
	case host.Failed:
		return statusError
	}
	return statusIdle
}

func (c *call) entry(sum *host.Summary) entry {
	info := &sum.Info
	e := entry{Session: c.lent.Session(info), OpenLink: c.link(info, chatOf(sum, sum.Default)), Title: info.Title,
		Status: statusOf(sum.Status), Provider: info.Backend, Model: info.Settings.Model, Folders: info.Dirs,
		Unread: info.Unread, Archived: info.Archived, Waiting: sum.Queued, LastPrompt: clip(sum.LastPrompt, gist),
		CreatedAt: stamp(info.CreatedAt), ModifiedAt: stamp(sum.ModifiedAt)}
	if len(info.Dirs) > 0 {
		e.Project = project(info.Dirs[0])
		if t, ok := c.lent.Tree(info.Dirs[0]); ok {
			e.Changed, e.Pulls = &t.Changed, t.Pulls
		}
	}
	if len(sum.Chats) > 1 {
		for i := range sum.Chats[:min(len(sum.Chats), maxChats)] {
			x := &sum.Chats[i]
			e.Chats = append(e.Chats, chatEntry{c.link(info, chatOf(sum, x.Info.ID)), x.Info.Title, statusOf(x.Status)})
		}
	}
	return e
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

type listInput struct {
	Session         string   `json:"session"`
	Status          []string `json:"status"`
	Workspace       string   `json:"workspace"`
	WithChanges     bool     `json:"withChanges"`
	Unread          bool     `json:"unread"`
	WithPullRequest bool     `json:"withPullRequest"`
	IncludeArchived bool     `json:"includeArchived"`
	CreatedAfter    string   `json:"createdAfter"`
	CreatedBefore   string   `json:"createdBefore"`

	after, before time.Time
}

func (in *listInput) check() error {
	for _, s := range in.Status {
		if err := one("status", s, statusIdle, statusRuns, statusAsks, statusError, statusArchived); err != nil {
			return err
		}
	}
	for _, t := range []struct {
		name, text string
		into       *time.Time
	}{{"createdAfter", in.CreatedAfter, &in.after}, {"createdBefore", in.CreatedBefore, &in.before}} {
		if t.text == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339, t.text)
		if err != nil {
			return sayf("%s: %.80q is no time such as 2025-01-31T00:00:00Z", t.name, t.text)
		}
		*t.into = at
	}
	return nil
}

// takes reports whether a session is to be listed.
func (c *call) takes(in *listInput, sum *host.Summary) bool {
	info := &sum.Info
	archived := slices.Contains(in.Status, statusArchived)
	if info.Archived && !in.IncludeArchived && !archived {
		return false
	}
	if len(in.Status) > 0 && !slices.Contains(in.Status, statusOf(sum.Status)) && (!archived || !info.Archived) {
		return false
	}
	if in.Unread && !info.Unread || !in.after.IsZero() && info.CreatedAt.Before(in.after) || !in.before.IsZero() && info.CreatedAt.After(in.before) {
		return false
	}
	if in.Workspace != "" && !worksIn(sum, in.Workspace) {
		return false
	}
	if !in.WithChanges && !in.WithPullRequest {
		return true
	}
	if len(info.Dirs) == 0 {
		return false
	}
	t, _ := c.lent.Tree(info.Dirs[0])
	return (!in.WithChanges || t.Changed > 0) && (!in.WithPullRequest || len(t.Pulls) > 0)
}

// worksIn reports whether a session works in a project or folder.
func worksIn(sum *host.Summary, workspace string) bool {
	dir, isDir := folder(workspace)
	return slices.ContainsFunc(sum.Info.Dirs, func(d string) bool {
		return isDir && d == dir || !isDir && project(d) == workspace
	})
}

type list struct {
	Sessions []entry `json:"sessions"`
	// More are those that the list has no room for.
	More int `json:"more,omitempty"`
}

func listSessions(c *call, raw json.RawMessage) (any, error) {
	var in listInput
	if err := decode(raw, &in); err != nil {
		return nil, err
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	if in.Session != "" {
		sum, _, err := c.find(in.Session)
		if err != nil {
			return nil, err
		}
		return list{Sessions: []entry{c.entry(&sum)}}, nil
	}
	me, err := c.me()
	if err != nil {
		return nil, err
	}
	all := slices.DeleteFunc(c.all(), func(s host.Summary) bool { return !reaches(&me, &s) || !c.takes(&in, &s) })
	slices.SortStableFunc(all, func(a, b host.Summary) int { return cmp.Compare(b.ModifiedAt.UnixNano(), a.ModifiedAt.UnixNano()) })
	out, size := list{Sessions: []entry{}}, 0
	for i := range all {
		e := c.entry(&all[i])
		b, err := json.Marshal(e)
		if err != nil {
			return nil, err
		}
		if size += len(b); len(out.Sessions) == maxListed || size > maxOutput && i > 0 {
			out.More = len(all) - i
			break
		}
		out.Sessions = append(out.Sessions, e)
	}
	return out, nil
}

func currentSession(c *call, raw json.RawMessage) (any, error) {
	if err := decode(raw, &struct{}{}); err != nil {
		return nil, err
	}
	sum, err := c.me()
	if err != nil {
		return nil, err
	}
	return struct {
		entry
		Chat string `json:"chatLink"`
	}{c.entry(&sum), c.link(&sum.Info, chatOf(&sum, c.from.Chat))}, nil
}

func deleteSession(c *call, raw json.RawMessage) (any, error) {
	var in struct {
		Session string `json:"session" need:"yes"`
	}
	if err := decode(raw, &in); err != nil {
		return nil, err
	}
	sum, _, err := c.find(in.Session)
	if err != nil {
		return nil, err
	}
	if sum.Info.ID == c.from.Session {
		return nil, sayf("this is the session of this conversation: it cannot be deleted from inside")
	}
	by, err := c.actor()
	if err != nil {
		return nil, err
	}
	if err := c.host.DeleteSession(c.ctx, sum.Info.ID, by); err != nil {
		return nil, err
	}
	return struct {
		Deleted string `json:"deleted"`
		Title   string `json:"title,omitempty"`
	}{c.lent.Session(&sum.Info), sum.Info.Title}, nil
}
