package cognitio

import (
	"encoding/json"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
)

// What this front keeps with a session, for its own words only.
const (
	metaPermission = Name + ".permission"
	metaTags       = Name + ".tags"
	metaRuntime    = Name + ".runtime"
	metaArchived   = Name + ".archived" // ms
	metaForked     = Name + ".forked"   // the id of the session it was forked from
)

// chatAt is a chat of a session, as lists and states know it.
type chatAt struct {
	info     *event.SessionInfo
	main     id.ID // the session's default chat
	chat     *event.ChatInfo
	modified time.Time
	usage    event.Usage
}

func (c chatAt) isMain() bool { return c.chat.ID == c.main }

// spell names a chat of the session: the default one has the session's id.
func (c chatAt) spell(chat id.ID) string {
	if chat == c.main || chat.IsNil() {
		return sessionID(c.info.ID)
	}
	return sessionID(chat)
}

// chatsOf are the sessions that a summary stands for here.
func chatsOf(s *host.Summary) []chatAt {
	out := make([]chatAt, 0, len(s.Chats))
	for i := range s.Chats {
		c := chatAt{info: &s.Info, main: s.Default, chat: &s.Chats[i].Info, modified: s.Chats[i].ModifiedAt}
		if c.isMain() {
			c.modified, c.usage = s.ModifiedAt, s.Usage
		}
		out = append(out, c)
	}
	return out
}

// chatOf is a chat of a state.
func chatOf(st *state.State, chat *state.Chat) chatAt {
	c := chatAt{info: &st.Info, main: st.Default, chat: &chat.ChatInfo, modified: chat.ModifiedAt, usage: chat.Usage}
	if c.isMain() {
		c.modified, c.usage = st.ModifiedAt, st.Usage
	}
	return c
}

// session is a chat as a session.
func (f *server) session(c chatAt) session {
	v := f.viewOf(c)
	out := session{ID: v.session, Slug: slug(c.chat.ID), ProjectID: f.projects.of(v.dir).ID, Directory: v.dir,
		Title: c.info.Title, Version: f.deps.Version, Agent: v.agent, Model: &sessionModel{ID: v.model, ProviderID: v.provider},
		Cost: c.usage.CostUSD, Tokens: tokensOf(c.usage), Permission: c.info.Meta[metaPermission],
		Time: sessionTime{Created: millis(c.chat.CreatedAt), Updated: millis(c.modified)}}
	archived := c.info.Archived
	if raw := c.info.Meta[metaForked]; raw != nil && json.Unmarshal(raw, &out.ForkedFrom) != nil {
		out.ForkedFrom = ""
	}
	if !c.isMain() {
		out.Title, archived = c.chat.Title, c.chat.Archived
		out.ParentID = c.spell(c.chat.Origin.Chat)
		if c.chat.Origin.Kind == event.OriginFork {
			out.ForkedFrom = out.ParentID
		}
		if out.Title == "" && c.chat.Agent != "" {
			out.Title = "(@" + c.chat.Agent + " subagent)"
		}
	}
	if out.Title == "" {
		out.Title = "New session - " + c.chat.CreatedAt.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	if raw := c.info.Meta[metaTags]; raw != nil && json.Unmarshal(raw, &out.Tags) != nil {
		out.Tags = nil
	}
	if archived {
		out.Time.Archived = out.Time.Updated
		if raw := c.info.Meta[metaArchived]; raw != nil && json.Unmarshal(raw, &out.Time.Archived) != nil {
			out.Time.Archived = out.Time.Updated
		}
	}
	return out
}

// originOf is where the events of a session happen.
func (f *server) originOf(info *event.SessionInfo) *origin {
	dirs := make([]string, 0, len(info.Dirs))
	for _, d := range info.Dirs {
		dirs = append(dirs, canonical(d))
	}
	dir := firstDir(info)
	return newOrigin(dir, f.projects.of(dir).ID, dirs)
}

// created tells of a session once, whoever notices it first: its maker, its
// first turn or the list of sessions.
func (f *server) created(c chatAt, from *origin) {
	f.announcing.Lock()
	defer f.announcing.Unlock()
	if f.announced[c.info.ID] {
		return
	}
	if _, there := f.host.Summary(c.info.ID); !there {
		return // deleted meanwhile
	}
	f.announced[c.info.ID] = true
	info := f.session(c)
	f.send(from, "session.created", sessionEvent{info.ID, info})
}

// deleted tells of a session's end once.
func (f *server) deleted(s *host.Summary) {
	f.announcing.Lock()
	defer f.announcing.Unlock()
	if !f.announced[s.Info.ID] {
		return
	}
	delete(f.announced, s.Info.ID)
	from := f.originOf(&s.Info)
	for _, c := range chatsOf(s) {
		info := f.session(c)
		f.send(from, "session.deleted", sessionEvent{info.ID, info})
	}
}

type sessionEvent struct {
	SessionID string  `json:"sessionID"`
	Info      session `json:"info"`
}

// send encodes an event and publishes it, if anybody listens.
func (f *server) send(from *origin, kind string, properties any) {
	if !f.streams.heard() {
		return
	}
	frame, err := f.event(kind, properties)
	if err != nil {
		f.log.Error("event could not be encoded", "type", kind, "err", err)
		return
	}
	f.streams.publish(from, frame)
}
