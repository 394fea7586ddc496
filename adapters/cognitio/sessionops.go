package cognitio

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/transports/jsonx"
)

// everySession takes closed and archived sessions too: what can be opened is listed.
var everySession = host.Filter{IncludeClosed: true, IncludeArchived: true}

// listed are the sessions that a query picks, newest news first.
func (c *call) listed(archived bool) ([]chatAt, error) {
	q := c.r.URL.Query()
	start, err := c.number("start", 0)
	if err != nil {
		return nil, err
	}
	before, err := c.number("cursor", 0)
	if err != nil {
		return nil, err
	}
	limit, err := c.number("limit", 0)
	if err != nil {
		return nil, err
	}
	dir, search, tag := c.directory(), strings.ToLower(q.Get("search")), q.Get("tag")
	filter := everySession
	filter.IncludeArchived = archived
	var out []chatAt
	for _, sum := range c.f.host.List(filter) {
		if dir != "" && !inDir(&sum.Info, dir) {
			continue
		}
		for _, at := range chatsOf(&sum) {
			updated := millis(at.modified)
			if c.flag("roots") && !at.isMain() || updated < int64(start) || before > 0 && updated >= int64(before) {
				continue
			}
			if search != "" && !strings.Contains(strings.ToLower(titleOf(at)), search) {
				continue
			}
			if tag != "" && !slices.Contains(tagsOf(at.info), tag) {
				continue
			}
			out = append(out, at)
		}
	}
	slices.SortStableFunc(out, func(a, b chatAt) int { return b.modified.Compare(a.modified) })
	if limit > 0 && len(out) > limit {
		out = out[:limit]
	}
	return out, nil
}

func listSessions(c *call) (any, error) {
	all, err := c.listed(true)
	out := make([]session, 0, len(all))
	for _, at := range all {
		out = append(out, c.f.session(at))
	}
	return out, err
}

// globalSession is a session with its project, across directories.
type globalSession struct {
	session
	Project projectSummary `json:"project"`
}

type projectSummary struct {
	ID       string `json:"id"`
	Worktree string `json:"worktree"`
}

func listGlobalSessions(c *call) (any, error) {
	all, err := c.listed(c.flag("archived"))
	out := make([]globalSession, 0, len(all))
	for _, at := range all {
		p := c.f.projects.of(firstDir(at.info))
		out = append(out, globalSession{c.f.session(at), projectSummary{p.ID, p.Worktree}})
	}
	return out, err
}

func createSession(c *call) (any, error) {
	var body struct {
		ParentID      *string         `json:"parentID"`
		Title         string          `json:"title"`
		Permission    []rule          `json:"permission"`
		RuntimeConfig json.RawMessage `json:"runtimeConfig"`
		Agent         string          `json:"agent"`
		Model         *sessionModel   `json:"model"`
	}
	if err := c.body(&body); err != nil {
		return nil, err
	}
	if body.ParentID != nil && *body.ParentID != "" {
		return c.createChild(*body.ParentID, body.Title)
	}
	if len(body.Title) > maxTitle {
		return nil, badPayload("title", "title: at most %d bytes", maxTitle)
	}
	if err := checkRules("permission", body.Permission); err != nil {
		return nil, err
	}
	rc, err := parseRuntime("runtimeConfig", body.RuntimeConfig)
	if err != nil {
		return nil, err
	}
	in := host.CreateSession{Title: body.Title, By: c.by(), Meta: map[string]json.RawMessage{}}
	if dir := c.directory(); dir != "" {
		in.Dirs = []string{dir}
	}
	model := rc.Model
	if body.Model != nil {
		model = &modelRef{body.Model.ProviderID, body.Model.ID}
	}
	if model != nil {
		in.Backend, in.Settings.Model = model.ProviderID, chosenModel(model.ModelID)
	}
	in.Settings = rc.apply(in.Settings)
	backend := in.Backend
	if backend == "" {
		backend = c.f.host.Agents()[0].Name
	}
	in.Settings = c.f.applyAgent(backend, body.Agent, in.Settings)
	if len(body.RuntimeConfig) > 0 && string(body.RuntimeConfig) != "null" {
		in.Meta[metaRuntime] = body.RuntimeConfig
	}
	if len(body.Permission) > 0 {
		if in.Meta[metaPermission], err = jsonx.Encode(body.Permission); err != nil {
			return nil, err
		}
	}
	s, err := c.f.host.CreateSession(c.ctx(), in)
	if err != nil {
		return nil, err
	}
	st := s.State()
	at := chatOf(st, st.DefaultChat())
	c.f.created(at, c.f.originOf(&st.Info))
	return c.f.session(at), nil
}

// createChild adds a chat to the session that the parent belongs to.
func (c *call) createChild(parent, title string) (any, error) {
	s, err := c.f.find(c.ctx(), parent)
	if err != nil {
		return nil, err
	}
	chat, err := s.AddChat(c.ctx(), event.ChatInfo{Title: title, Origin: event.Origin{Kind: event.OriginSide, Chat: s.chat}}, c.by())
	if err != nil {
		return nil, err
	}
	st := s.State()
	return c.f.session(chatOf(st, st.Chat(chat))), nil
}

// applyAgent puts this protocol's agent into settings: a persona of the
// backend, and for planning the mode that goes with the word.
func (f *server) applyAgent(backend, agent string, s event.Settings) event.Settings {
	if agent != "" && f.hasPersona(backend, agent) {
		s.Agent = agent
	}
	if agent == agentPlan {
		s.Mode = event.ModePlan
	}
	return s
}

// at is the chat that a place stands for, now.
func (p *place) at() chatAt {
	st := p.State()
	return chatOf(st, st.Chat(p.chat))
}

func getSession(c *call) (any, error) {
	p, err := c.session()
	if err != nil {
		return nil, err
	}
	return c.f.session(p.at()), nil
}

func deleteSession(c *call) (any, error) {
	p, err := c.session()
	if err != nil {
		return nil, err
	}
	if !p.isDefault {
		return true, p.RemoveChat(c.ctx(), p.chat, c.by())
	}
	sum, _ := c.f.host.Summary(p.ID())
	if err := c.f.host.DeleteSession(c.ctx(), p.ID(), c.by()); err != nil {
		return nil, err
	}
	c.f.deleted(&sum)
	return true, nil
}

func updateSession(c *call) (any, error) {
	p, err := c.session()
	if err != nil {
		return nil, err
	}
	var body struct {
		Title      *string  `json:"title"`
		Tags       []string `json:"tags"`
		Permission []rule   `json:"permission"`
		Time       *struct {
			Archived *int64 `json:"archived"`
		} `json:"time"`
	}
	if err := c.body(&body); err != nil {
		return nil, err
	}
	if body.Title != nil && len(*body.Title) > maxTitle {
		return nil, badPayload("title", "title: at most %d bytes", maxTitle)
	}
	if err := checkRules("permission", body.Permission); err != nil {
		return nil, err
	}
	meta := map[string]json.RawMessage{}
	var archived *bool
	if body.Time != nil && body.Time.Archived != nil {
		yes := *body.Time.Archived > 0
		archived = &yes
		if meta[metaArchived], err = jsonx.Encode(*body.Time.Archived); err != nil {
			return nil, err
		}
	}
	if !p.isDefault {
		err = p.UpdateChat(c.ctx(), p.chat, &event.ChatUpdated{By: c.by(), Title: body.Title, Archived: archived})
		return c.f.session(p.at()), err
	}
	if body.Tags != nil {
		if meta[metaTags], err = jsonx.Encode(body.Tags); err != nil {
			return nil, err
		}
	}
	if body.Permission != nil {
		if meta[metaPermission], err = jsonx.Encode(body.Permission); err != nil {
			return nil, err
		}
	}
	for _, v := range meta {
		if len(v) > maxMeta {
			return nil, badPayload("tags", "tags and rules: at most %d bytes", maxMeta)
		}
	}
	if err := p.Update(c.ctx(), &event.SessionUpdated{By: c.by(), Title: body.Title, Archived: archived, Meta: meta}); err != nil {
		return nil, err
	}
	return c.f.session(p.at()), nil
}

func listChildren(c *call) (any, error) {
	p, err := c.session()
	if err != nil {
		return nil, err
	}
	st := p.State()
	out := []session{}
	for _, chat := range st.Chats {
		at := chatOf(st, chat)
		parent := chat.Origin.Chat
		if parent.IsNil() {
			parent = st.Default
		}
		if !at.isMain() && parent == p.chat {
			out = append(out, c.f.session(at))
		}
	}
	return out, nil
}

func listTodos(c *call) (any, error) {
	p, err := c.session()
	if err != nil {
		return nil, err
	}
	return todosOf(p.State().Chat(p.chat).Plan), nil
}

func sessionStatus(c *call) (any, error) {
	dir := c.directory()
	out := map[string]status{}
	for _, sum := range c.f.host.List(everySession) {
		if dir != "" && !inDir(&sum.Info, dir) {
			continue
		}
		for n, at := range chatsOf(&sum) {
			switch sum.Chats[n].Status {
			case host.Running, host.AwaitingApproval, host.AwaitingQuestion:
				out[at.spell(at.chat.ID)] = status{"busy"}
			}
		}
	}
	return out, nil
}

func abortSession(c *call) (any, error) {
	p, err := c.session()
	if err != nil {
		return nil, err
	}
	_, err = p.Interrupt(c.ctx(), host.Interrupt{Chat: p.chat, By: c.by()})
	return true, err
}

// sessionDiff is what the calls of a session changed; with a message, those of
// the turn it opened.
func sessionDiff(c *call) (any, error) {
	p, err := c.session()
	if err != nil {
		return nil, err
	}
	message := c.r.URL.Query().Get("messageID")
	dir := firstDir(&p.State().Info)
	var parts []*event.Part
	err = p.eachTurn(c.ctx(), func(t turnAt) bool {
		if message == "" || userMessageID(&t.Message) == message {
			parts = append(slices.Clone(t.Parts), parts...)
		}
		return message == "" || len(parts) == 0
	})
	return diffOf(dir, parts), err
}

// diffOf gathers the edits of calls that ran, by file.
func diffOf(dir string, parts []*event.Part) []fileDiff {
	out := []fileDiff{}
	at := map[string]int{}
	for _, p := range parts {
		if p.Tool == nil || p.Tool.Status != event.CallDone {
			continue
		}
		for _, e := range p.Tool.Edits {
			if e.Patch == "" && e.Added+e.Removed == 0 && e.Kind == "edit" {
				continue // the same text written again
			}
			name := relative(dir, e.Path)
			n, seen := at[name]
			if !seen {
				n = len(out)
				at[name] = n
				out = append(out, fileDiff{File: name})
			}
			d := &out[n]
			if d.Patch != "" && !strings.HasSuffix(d.Patch, "\n") {
				d.Patch += "\n"
			}
			d.Patch += e.Patch
			d.Additions += e.Added
			d.Deletions += e.Removed
			d.Status = diffStatus(d.Status, e.Kind)
		}
	}
	return out
}

func diffStatus(was, kind string) string {
	switch {
	case kind == "delete":
		return "deleted"
	case kind == "create" || was == "added":
		return "added"
	}
	return "modified"
}

func titleOf(c chatAt) string {
	if c.isMain() {
		return c.info.Title
	}
	return c.chat.Title
}

func tagsOf(info *event.SessionInfo) (tags []string) {
	if raw := info.Meta[metaTags]; raw != nil && json.Unmarshal(raw, &tags) != nil {
		return nil
	}
	return tags
}

// messageParam is a message id of the path.
func (c *call) messageParam() (string, error) { return c.param("messageID", prefixMessage) }
