package hosttools

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
)

// spawnedKey is the fact of a session that says from which session, by whatever
// way, its making began.
const spawnedKey = "agent.spawned"

// actor is the agent as the one who does something, for the person of its
// session.
func (c *call) actor() (event.Actor, error) {
	sum, err := c.me()
	return event.Actor{Front: "agent", Name: sum.Info.Backend, User: sum.Info.Owner.User}, err
}

// settings are those that the calling turn runs with. Where turn and session
// differ in the mode, the one that allows less counts: what a person allowed for
// one message is not passed on.
func (c *call) settings(s *host.Session) event.Settings {
	st := s.State()
	out := st.Info.Settings
	chat := st.Chat(c.from.Chat)
	if chat == nil || chat.Active == nil {
		return out
	}
	turn := chat.Active.Message.Settings
	out.Mode = out.Mode.Within(turn.Mode).Within(turn.Most)
	out.DenyExec = out.DenyExec || turn.DenyExec
	if turn.Model != "" {
		out.Model = turn.Model
	}
	return out
}

// passed are the settings of a message to where others count: its turn may not do
// more than the one that sends it, however long it waits.
func (c *call) passed(me *host.Session) event.Settings {
	mine := c.settings(me)
	return event.Settings{DenyExec: mine.DenyExec, Most: mine.Mode}
}

// model finds a model by its id or name, of the agent of that name or of any.
func (c *call) model(name, backend string) (of, model string, err error) {
	for _, a := range c.host.Agents() {
		if backend != "" && a.Name != backend {
			continue
		}
		for _, m := range a.Info.Models {
			if m.ID == name || strings.EqualFold(m.Name, name) {
				return a.Name, m.ID, nil
			}
		}
	}
	if backend != "" {
		return "", "", sayf("%s has no model %.80q", backend, name)
	}
	return "", "", sayf("no agent has a model %.80q", name)
}

type createInput struct {
	Relationship string `json:"relationship" need:"yes"`
	Prompt       string `json:"prompt" need:"yes"`
	Title        string `json:"title" need:"yes"`
	Workspace    string `json:"workspace"`
	Worktree     *bool  `json:"worktree"`
	Model        string `json:"model"`
}

func (in *createInput) check() error {
	if err := one("relationship", in.Relationship, "currentSession", "independent"); err != nil {
		return err
	}
	in.Title = strings.TrimSpace(in.Title)
	switch here := in.Relationship == "currentSession"; {
	case strings.TrimSpace(in.Prompt) == "":
		return sayf("prompt is empty")
	case in.Title == "":
		return sayf("title is empty")
	case utf8.RuneCountInString(in.Title) > maxTitle:
		return sayf("title has more than %d characters", maxTitle)
	case here && (in.Workspace != "" || in.Worktree != nil):
		return sayf("a chat of the current session works where the session does: leave workspace and worktree out")
	case !here && in.Workspace == "":
		return sayf("workspace is missing: an independent session has to be told where to work")
	}
	return nil
}

// made is what came of a prompt.
type made struct {
	Session  string `json:"session"`
	OpenLink string `json:"openLink"`
	Status   string `json:"status"` // started or queued
	Position int    `json:"position,omitempty"`
}

func (c *call) made(s *host.Session, chat id.ID, p host.Prompted) made {
	st := s.State()
	sum := host.Summary{Default: st.Default}
	m := made{c.lent.Session(&st.Info), c.link(&st.Info, chatOf(&sum, chat)), "started", 0}
	if p.Queued {
		m.Status, m.Position = "queued", p.Position
	}
	return m
}

func createSession(c *call, raw json.RawMessage) (any, error) {
	var in createInput
	if err := decode(raw, &in); err != nil {
		return nil, err
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	if _, err := c.set.next(c.from.Turn); err != nil {
		return nil, err
	}
	s, err := c.host.Session(c.ctx, c.from.Session)
	if err != nil {
		return nil, err
	}
	if in.Relationship == "currentSession" {
		return c.newChat(s, &in)
	}
	return c.newSession(s, &in)
}

var (
	tooManyHops  = sayf("agents have set each other to work %d times in a row: a person has to go on", maxHops)
	tooManyBegun = sayf("agents have set each other to work %d times because of one message: a person has to go on", maxBegun)
)

func (c *call) newChat(s *host.Session, in *createInput) (any, error) {
	st := s.State()
	settings := c.passed(s)
	if in.Model != "" {
		var err error
		if _, settings.Model, err = c.model(in.Model, st.Info.Backend); err != nil {
			return nil, err
		}
	}
	by, err := c.actor()
	if err != nil {
		return nil, err
	}
	c.set.making.Lock() // counting and making are one
	defer c.set.making.Unlock()
	people := 0
	for _, x := range s.State().Chats {
		if x.Origin.Kind != event.OriginSubagent {
			people++
		}
	}
	if people >= maxChats {
		return nil, sayf("the session has %d chats, and agents add none beyond that", people)
	}
	chat, err := s.AddChat(c.ctx, event.ChatInfo{Title: in.Title, Origin: event.Origin{Kind: event.OriginUser}}, by)
	if err != nil {
		return nil, err
	}
	p, err := c.prompt(s, host.Prompt{Chat: chat, Text: in.Prompt, Settings: settings, By: by})
	if err != nil {
		c.undo(func(ctx context.Context) error { return removeUnused(ctx, s, chat, by) })
		return nil, err
	}
	return c.made(s, chat, p), nil
}

// undo takes away what was made for a message that could not be sent.
func (c *call) undo(remove func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), undoWithin)
	defer cancel()
	if err := remove(ctx); err != nil {
		c.set.log.Warn("What an agent made and could not use stays", "session", c.from.Session.String(), "err", err)
	}
}

// removeUnused removes a chat to which nobody said anything: a message may have been
// taken although nobody waited for that any more.
func removeUnused(ctx context.Context, s *host.Session, chat id.ID, by event.Actor) error {
	if x := s.State().Chat(chat); x == nil || x.Count > 0 || x.Active != nil || len(x.Queue) > 0 {
		return nil
	}
	return s.RemoveChat(ctx, chat, by)
}

func (c *call) newSession(s *host.Session, in *createInput) (any, error) {
	info := s.State().Info
	dir, err := c.workspace(in.Workspace)
	if err != nil {
		return nil, err
	}
	by, err := c.actor()
	if err != nil {
		return nil, err
	}
	create := host.CreateSession{Backend: info.Backend, Dirs: []string{dir}, Title: in.Title, Settings: c.settings(s), By: by}
	create.Settings.ShellInit = "" // it is of its folder, and another may be asked for
	if in.Model != "" {
		of, model, err := c.model(in.Model, "")
		if of2, model2, err2 := c.model(in.Model, info.Backend); err2 == nil { // one of its own comes first
			of, model, err = of2, model2, nil
		}
		if err != nil {
			return nil, err
		}
		if of != info.Backend {
			create.Settings.Effort, create.Settings.Agent = "", ""
		}
		create.Backend, create.Settings.Model = of, model
	}
	root := spawnedBy(&info)
	fact, err := json.Marshal(root)
	if err != nil {
		return nil, err
	}
	create.Meta = map[string]json.RawMessage{spawnedKey: fact}
	c.set.making.Lock()
	defer c.set.making.Unlock()
	n := 0
	for _, x := range c.all() {
		if x.Info.Meta[spawnedKey] != nil && spawnedBy(&x.Info) == root {
			n++
		}
	}
	if n >= maxSpawned {
		return nil, sayf("agents have made %d sessions from this one that are still there: a person has to delete some first", n)
	}
	apart := in.Worktree != nil && *in.Worktree
	if apart {
		if err := c.apart(&create); err != nil {
			return nil, err
		}
	}
	fresh, err := c.host.CreateSession(c.ctx, create)
	if err != nil {
		if apart {
			c.undo(func(ctx context.Context) error { c.lent.Left(ctx, create.ID); return nil })
		}
		return nil, err
	}
	p, err := c.prompt(fresh, host.Prompt{Text: in.Prompt, By: by})
	if err != nil {
		c.undo(func(ctx context.Context) error { _, err := fresh.DiscardIfUnused(ctx); return err })
		return nil, err
	}
	return c.made(fresh, fresh.State().Default, p), nil
}

// apart has a session work in a git working tree of its own.
func (c *call) apart(create *host.CreateSession) error {
	if c.lent.Apart == nil {
		return sayf("this gateway makes no working trees: leave worktree out, and the session works in the folder itself")
	}
	if err := c.host.CheckDirs(create.Dirs); err != nil {
		return err
	}
	return c.lent.Apart(c.ctx, create)
}

// spawnedBy is the session that a session's making began from: itself, of one
// that no agent made.
func spawnedBy(info *event.SessionInfo) string {
	var root string
	if json.Unmarshal(info.Meta[spawnedKey], &root) != nil || root == "" {
		return info.ID.String()
	}
	return root
}

// workspace finds a folder by its path or URI, or by what its project is called.
func (c *call) workspace(text string) (string, error) {
	if dir, ok := folder(text); ok {
		return dir, nil
	}
	me, err := c.me()
	if err != nil {
		return "", err
	}
	var dirs []string
	for _, sum := range append(c.all(), me) {
		for _, d := range sum.Info.Dirs {
			if reaches(&me, &sum) && project(d) == text && !slices.Contains(dirs, d) {
				dirs = append(dirs, d)
			}
		}
	}
	switch len(dirs) {
	case 0:
		return "", sayf("workspace: no session works in a project %.80q: give an absolute path", text)
	case 1:
		return dirs[0], nil
	}
	return "", sayf("workspace: %d projects are called %.80q: give an absolute path", len(dirs), text)
}

// prompt sends a message for the agent.
func (c *call) prompt(s *host.Session, p host.Prompt) (host.Prompted, error) {
	p.Turn = id.New()
	if err := c.set.begin(c.from.Turn, p.Turn); err != nil { // before it can call anything
		return host.Prompted{}, err
	}
	return s.Prompt(c.ctx, p)
}

func sendMessage(c *call, raw json.RawMessage) (any, error) {
	var in struct {
		Session string `json:"session" need:"yes"`
		Message string `json:"message" need:"yes"`
	}
	if err := decode(raw, &in); err != nil {
		return nil, err
	}
	if strings.TrimSpace(in.Message) == "" {
		return nil, sayf("message is empty")
	}
	sum, chat, err := c.find(in.Session)
	if err != nil {
		return nil, err
	}
	if chat == c.from.Chat {
		return nil, sayf("that is the chat of this conversation: say it here")
	}
	by, err := c.actor()
	if err != nil {
		return nil, err
	}
	s, err := c.host.Session(c.ctx, sum.Info.ID)
	if err != nil {
		return nil, err
	}
	me, err := c.host.Session(c.ctx, c.from.Session)
	if err != nil {
		return nil, err
	}
	p, err := c.prompt(s, host.Prompt{Chat: chat, Text: in.Message, By: by, Settings: c.passed(me)})
	if err != nil {
		return nil, err
	}
	return c.made(s, chat, p), nil
}
