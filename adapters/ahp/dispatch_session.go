package ahp

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/state"
	"github.com/polyhost/polyhost/transports/jsonx"
)

func (a *action) title() (string, error) {
	var p struct {
		Title *string `json:"title" jsonx:"required"`
	}
	if err := decode(a.raw, &p, "action"); err != nil {
		return "", err
	}
	if title := strings.TrimSpace(*p.Title); title != "" {
		return title, nil
	}
	return "", refusal("a title must not be blank")
}

func (a *action) renameSession(ctx context.Context) error {
	title, err := a.title()
	if err != nil {
		return err
	}
	if st, _ := a.current(); st.Info.Title == title {
		return errUnchanged
	}
	return a.change(ctx, "title:"+a.who(), func() error {
		return a.live.session().Update(ctx, &event.SessionUpdated{By: a.conn.actor(), Title: &title})
	})
}

// renameChat is the same action on a chat's channel. The default chat has the
// session's title, which is how editors rename a session in their list.
func (a *action) renameChat(ctx context.Context) error {
	title, err := a.title()
	if err != nil {
		return err
	}
	st, c := a.current()
	if c == nil {
		return errNowhere
	}
	own := c.ID == st.Default
	if own && st.Info.Title == title || !own && c.Title == title {
		return errUnchanged
	}
	return a.change(ctx, "chattitle:"+a.chatKey(), func() error {
		if own {
			return a.live.session().Update(ctx, &event.SessionUpdated{By: a.conn.actor(), Title: &title})
		}
		return a.live.session().UpdateChat(ctx, c.ID, &event.ChatUpdated{By: a.conn.actor(), Title: &title})
	})
}

// mark reads a boolean of an action.
func (a *action) mark(key string) (bool, error) {
	var p map[string]json.RawMessage
	if err := decode(a.raw, &p, "action"); err != nil {
		return false, err
	}
	switch string(bytes.TrimSpace(p[key])) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, refusal("action." + key + ": want boolean")
}

func (a *action) readSession(ctx context.Context) error {
	read, err := a.mark("isRead")
	if err != nil {
		return err
	}
	unread := !read
	if st, _ := a.current(); st.Info.Unread == unread {
		return errUnchanged
	}
	return a.change(ctx, "read:"+a.who(), func() error {
		return a.live.session().Update(ctx, &event.SessionUpdated{By: a.conn.actor(), Unread: &unread})
	})
}

func (a *action) archiveSession(ctx context.Context) error {
	archived, err := a.mark("isArchived")
	if err != nil {
		return err
	}
	if st, _ := a.current(); st.Info.Archived == archived {
		return errUnchanged
	}
	return a.change(ctx, "archived:"+a.who(), func() error {
		return a.live.session().Update(ctx, &event.SessionUpdated{By: a.conn.actor(), Archived: &archived})
	})
}

func (a *action) readChat(ctx context.Context) error {
	read, err := a.mark("isRead")
	if err != nil {
		return err
	}
	unread, told := !read, false
	err = a.look(func(_ *state.State, c *state.Chat) error {
		v := a.live.chatView(a.place.chat)
		switch {
		case v.read == read:
			return errUnchanged
		case c.Unread != unread:
			return nil
		}
		// For clients a running turn took the mark away; the core waits for
		// the turn's end.
		v.read, told = read, true
		a.live.say(a.place.chat, &a.origin, func(*renderer) any { return a.raw })
		a.live.settleChat(c)
		return nil
	})
	if err != nil || told {
		return err
	}
	return a.change(ctx, "chatread:"+a.chatKey(), func() error {
		return a.live.session().UpdateChat(ctx, a.place.chat, &event.ChatUpdated{By: a.conn.actor(), Unread: &unread})
	})
}

// archiveChat archives one chat. The default chat's archiving is the session's,
// which is told on the session's channel alone, to the sender too: the chat's
// reducer would mark the chat.
func (a *action) archiveChat(ctx context.Context) error {
	archived, err := a.mark("isArchived")
	if err != nil {
		return err
	}
	st, c := a.current()
	if c == nil {
		return errNowhere
	}
	if c.ID == st.Default {
		a.as.uri = a.place.speller.session
		a.as.raw = encode(map[string]any{"type": "session/isArchivedChanged", "isArchived": archived})
		err := a.archiveSession(ctx)
		if err == nil && !a.conn.watches(a.as.uri) {
			return errUnchanged // it was not among those who were told
		}
		return err
	}
	if c.Archived == archived {
		return errUnchanged
	}
	return a.change(ctx, "chatarchived:"+a.chatKey(), func() error {
		return a.live.session().UpdateChat(ctx, c.ID, &event.ChatUpdated{By: a.conn.actor(), Archived: &archived})
	})
}

func (a *action) configure(ctx context.Context) error {
	var p struct {
		Config  map[string]json.RawMessage `json:"config" jsonx:"required"`
		Replace bool                       `json:"replace"`
	}
	if err := decode(a.raw, &p, "action"); err != nil {
		return err
	}
	st, _ := a.current()
	if err := dropFixed(&st.Info, p.Config); err != nil {
		return err
	}
	schema := a.conn.front.schemaOf(st.Info.Backend)
	for key := range configValues(&st.Info) {
		if _, declared := schema.Properties[key]; !declared {
			continue
		}
		if _, named := p.Config[key]; p.Replace && !named {
			return refusal("a replacement must name the setting " + key)
		}
	}
	settings, err := settingsFrom(st.Info.Settings, p.Config, schema, true)
	if err != nil {
		return err
	}
	if settings == st.Info.Settings {
		return errUnchanged
	}
	return a.change(ctx, "config:"+a.who(), func() error {
		return a.live.session().Update(ctx, &event.SessionUpdated{By: a.conn.actor(), Settings: &settings})
	})
}

// announcement is what a client says of itself in a session.
type announcement struct {
	raw     json.RawMessage
	tools   []event.ClientTool
	plugins []announcedPlugin
}

// announce reads an active client. Its id is the connection's own, whatever it
// says.
func (c *conn) announce(raw json.RawMessage) (*announcement, error) {
	if len(raw) > maxActiveClient {
		return nil, refusal("what a client says of itself is too long")
	}
	var p struct {
		ClientID string `json:"clientId" jsonx:"required"`
		Tools    []struct {
			Name        string          `json:"name" jsonx:"required"`
			Title       string          `json:"title"`
			Description string          `json:"description"`
			InputSchema json.RawMessage `json:"inputSchema"`
		} `json:"tools" jsonx:"required"`
		Customizations []announcedPlugin `json:"customizations"`
	}
	if err := decode(raw, &p, "activeClient"); err != nil {
		return nil, err
	}
	if err := judgePlugins(p.Customizations); err != nil {
		return nil, err
	}
	for i := range p.Customizations {
		if one := &p.Customizations[i]; one.Name == "" || one.Type != typePlugin {
			return nil, refusal("the plugin " + clip(one.ID) + " has no name, or is none")
		}
	}
	if c.who().id == automationClient {
		return nil, refusal("the name " + automationClient + " is this host's own")
	}
	a := &announcement{raw: raw, plugins: p.Customizations}
	if own := c.who().id; p.ClientID != own {
		var whole map[string]json.RawMessage
		if err := decode(raw, &whole, "activeClient"); err != nil {
			return nil, err
		}
		whole["clientId"] = encode(own)
		a.raw = encode(whole)
	}
	for _, t := range p.Tools {
		if string(t.InputSchema) == "null" {
			t.InputSchema = nil
		}
		if t.InputSchema != nil && jsonx.Kind(t.InputSchema) != "object" {
			return nil, refusal("activeClient.tools: the inputSchema of " + clip(t.Name) + " is no object")
		}
		a.tools = append(a.tools, event.ClientTool{Name: t.Name, Description: t.Description, Schema: t.InputSchema})
	}
	return a, nil
}

// join makes the client active in a session. It reports whether that changed
// anything.
func (c *conn) join(ctx context.Context, l *live, a *announcement, o *origin) (bool, error) {
	cl := c.who()
	var had []event.ClientTool
	for _, t := range l.session().State().Tools {
		if t.Client.Front == front && t.Client.Client == cl.id {
			had = t.Tools
		}
	}
	if !slices.EqualFunc(had, a.tools, func(x, y event.ClientTool) bool {
		return x.Name == y.Name && x.Description == y.Description && bytes.Equal(x.Schema, y.Schema)
	}) {
		if err := l.session().SetTools(ctx, &event.ClientToolsSet{Client: cl.actor(), Tools: a.tools}); err != nil {
			return false, err
		}
	}
	c.front.mu.Lock()
	cl.member[l.id] = true
	c.front.mu.Unlock()
	return l.setClient(cl, a, o), nil
}

func (a *action) setActiveClient(ctx context.Context) error {
	var p struct {
		ActiveClient json.RawMessage `json:"activeClient" jsonx:"required"`
	}
	if err := decode(a.raw, &p, "action"); err != nil {
		return err
	}
	said, err := a.conn.announce(p.ActiveClient)
	if err != nil {
		return err
	}
	changed, err := a.conn.join(ctx, a.live, said, &a.origin)
	if err == nil && !changed {
		return errUnchanged
	}
	return err
}

func (a *action) removeActiveClient(ctx context.Context) error {
	var p struct {
		ClientID string `json:"clientId" jsonx:"required"`
	}
	if err := decode(a.raw, &p, "action"); err != nil {
		return err
	}
	cl := a.conn.who()
	if p.ClientID != cl.id {
		return refusal("a client may only take itself out of a session")
	}
	a.conn.front.mu.Lock()
	delete(cl.member, a.place.session)
	a.conn.front.mu.Unlock()
	if !a.live.removeClient(cl.id, &a.origin) {
		return errUnchanged
	}
	return a.live.session().ClientGone(ctx, cl.actor())
}
