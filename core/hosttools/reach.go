package hosttools

import (
	"net/url"
	"path/filepath"
	"strings"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
)

// linkScheme begins the links that editors open a session with:
// agent-host-session://<agent>/<session>?chat=<chat>.
const linkScheme = "agent-host-session://"

// me is the session that calls.
func (c *call) me() (host.Summary, error) {
	sum, ok := c.host.Summary(c.from.Session)
	if !ok {
		return sum, sayf("this session is gone")
	}
	return sum, nil
}

// reaches reports whether an agent of one session may know of another: people
// who sign in have their own, and what nobody has used yet is nobody's business.
func reaches(me, other *host.Summary) bool {
	return me.Info.ID == other.Info.ID || !other.Private && me.Info.Owner.User == other.Info.Owner.User
}

// find resolves the name of a session, or of a chat of one. A Nil chat is the
// default one.
func (c *call) find(name string) (host.Summary, id.ID, error) {
	var none host.Summary
	me, err := c.me()
	if err != nil {
		return none, id.Nil, err
	}
	session, chat := name, ""
	if rest, ok := strings.CutPrefix(name, linkScheme); ok {
		path, query, _ := strings.Cut(rest, "?")
		_, session, _ = strings.Cut(path, "/")
		values, err := url.ParseQuery(query)
		if err != nil {
			return none, id.Nil, sayf("%.200q is no link to a session", name)
		}
		if session, err = url.PathUnescape(session); err != nil {
			return none, id.Nil, sayf("%.200q is no link to a session", name)
		}
		chat = values.Get("chat")
	} else if _, rest, ok := strings.Cut(name, ":/"); ok {
		session = rest
	}
	sum, ok := c.named(session)
	if !ok || !reaches(&me, &sum) {
		return none, id.Nil, sayf("there is no session %.200q; list_sessions tells which there are", name)
	}
	if chat == "" {
		return sum, sum.Default, nil
	}
	for _, x := range sum.Chats {
		if x.Info.ID.String() == chat {
			return sum, x.Info.ID, nil
		}
	}
	return none, id.Nil, sayf("the session has no chat %.200q", chat)
}

// named finds a session by its id or by what a client called it.
func (c *call) named(name string) (host.Summary, bool) {
	if name == "" {
		return host.Summary{}, false
	}
	if x, err := id.Parse(name); err == nil {
		if sum, ok := c.host.Summary(x); ok {
			return sum, true
		}
	}
	for _, sum := range c.all() {
		for _, alias := range sum.Info.Aliases {
			if alias == name {
				return sum, true
			}
		}
	}
	return host.Summary{}, false
}

// all are the sessions that there are.
func (c *call) all() []host.Summary {
	return c.host.List(host.Filter{IncludeClosed: true, IncludeArchived: true})
}

// link is what an editor opens a session, or a chat of it, with.
func (c *call) link(info *event.SessionInfo, chat id.ID) string {
	_, name, _ := strings.Cut(c.lent.Session(info), ":/")
	link := linkScheme + info.Backend + "/" + url.PathEscape(name)
	if !chat.IsNil() {
		link += "?chat=" + chat.String()
	}
	return link
}

// chatOf is a chat for a link: Nil for the default one, which goes without.
func chatOf(sum *host.Summary, chat id.ID) id.ID {
	if chat == sum.Default {
		return id.Nil
	}
	return chat
}

// folder reads an absolute path, or a file: URI of one.
func folder(text string) (string, bool) {
	if filepath.IsAbs(text) {
		return filepath.Clean(text), true
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "file" || u.Host != "" && u.Host != "localhost" || !filepath.IsAbs(u.Path) {
		return "", false
	}
	return filepath.Clean(u.Path), true
}

// project is what people call a folder.
func project(dir string) string { return filepath.Base(dir) }

// clip cuts text at a size in bytes.
func clip(text string, size int) string {
	if len(text) <= size {
		return text
	}
	return strings.ToValidUTF8(text[:size], "") + "…"
}
