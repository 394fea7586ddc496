package ahp

import (
	"context"
	"encoding/base64"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
)

// front is the name of this front in actors and aliases, byAgent that of agents.
const (
	front   = "ahp"
	byAgent = "agent"
)

// The fixed channels and schemes.
const (
	rootURI      = "ahp-root://"
	chatScheme   = "ahp-chat"
	ahpPrefix    = "ahp-"
	sessionAlias = "ahp-session" // a scheme that names a session of any agent
	defaultRole  = "default"
)

// splitSession takes a session's name apart: <scheme>:/<id>.
func splitSession(uri string) (scheme, name string, ok bool) {
	scheme, name, ok = strings.Cut(uri, ":/")
	if !ok || name == "" || strings.Contains(name, "/") || !isScheme(scheme) {
		return "", "", false
	}
	if strings.HasPrefix(scheme, ahpPrefix) && scheme != sessionAlias || scheme == "file" || scheme == "mcp" {
		return "", "", false
	}
	return scheme, name, true
}

func isScheme(s string) bool {
	for i, c := range []byte(s) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || (c < '0' || c > '9') && c != '+' && c != '-' && c != '.') {
			return false
		}
	}
	return s != ""
}

// sessionURI is how a session is listed: the scheme is its agent, the rest
// what its creator chose, or the core's id.
func sessionURI(info *event.SessionInfo) string {
	if alias := info.Aliases[front]; alias != "" {
		return info.Backend + ":/" + alias
	}
	return info.ID.AHP(info.Backend)
}

// keptName is the key of a chat's name that it has as a default chat too: it had
// it in another session.
const keptName = front + ".kept"

// speller writes the names of a session's channels, all derived from one
// spelling of the session's own name.
type speller struct{ session string }

// chat names a chat. A name that a client of this front chose stays; the
// default chat's role is part of its name.
func (s speller) chat(chat, dflt id.ID, aliases map[string]string) string {
	switch {
	case chat == dflt && aliases[keptName] != "":
		return aliases[keptName]
	case chat == dflt:
		return chatScheme + "://" + defaultRole + "/" + base64.RawURLEncoding.EncodeToString([]byte(s.session))
	case aliases[front] != "":
		return aliases[front]
	}
	return chatScheme + "://" + chat.String() + "/" + base64.RawURLEncoding.EncodeToString([]byte(s.session))
}

// place is what a session or chat channel names.
type place struct {
	session id.ID
	chat    id.ID // Nil for the session's own channel
	speller speller
}

// findSession resolves a session's name; only the part after the scheme counts.
func (f *Front) findSession(uri string) (id.ID, bool) {
	_, name, ok := splitSession(uri)
	if !ok {
		return id.Nil, false
	}
	return f.findName(name)
}

func (f *Front) findName(name string) (id.ID, bool) {
	if u, err := id.Parse(name); err == nil {
		if _, ok := f.host.Summary(u); ok {
			return u, true
		}
	}
	sid, _, ok := f.host.ByAlias(front, name)
	return sid, ok
}

// find resolves the name of a session or chat channel.
func (f *Front) find(ctx context.Context, uri string) (place, error) {
	if len(uri) > maxChannelURI {
		return place{}, invalid("channel: longer than %d bytes", maxChannelURI)
	}
	rest, isChat := strings.CutPrefix(uri, chatScheme+":")
	if !isChat {
		if _, _, ok := splitSession(uri); !ok {
			return place{}, notFound(uri)
		}
		sid, ok := f.findSession(uri)
		if !ok {
			return place{}, sessionNotFound(uri)
		}
		return place{session: sid, speller: speller{uri}}, nil
	}
	if sid, chat, ok := f.host.ByAlias(front, uri); ok {
		return f.inSession(uri, sid, chat, ownerOf(rest))
	}
	if owner := ownerOf(rest); owner != "" {
		sid, ok := f.findSession(owner)
		if !ok {
			return place{}, notFound(uri)
		}
		role, _, _ := strings.Cut(strings.TrimPrefix(rest, "//"), "/")
		chat, err := id.Parse(role)
		if err != nil && role != defaultRole {
			return place{}, notFound(uri)
		}
		return f.inSession(uri, sid, chat, owner)
	}
	name, ok := strings.CutPrefix(rest, "/")
	if !ok || name == "" || strings.Contains(name, "/") {
		return place{}, notFound(uri)
	}
	if sid, ok := f.findName(name); ok { // the older spelling of a default chat
		return f.inSession(uri, sid, id.Nil, "")
	}
	if u, err := id.Parse(name); err == nil {
		if sess, chat, err := f.host.Lookup(ctx, u); err == nil {
			return f.inSession(uri, sess.ID(), chat, "")
		}
	}
	return place{}, notFound(uri)
}

// inSession makes a chat's place; a Nil chat is the default one.
func (f *Front) inSession(uri string, sid, chat id.ID, owner string) (place, error) {
	sum, ok := f.host.Summary(sid)
	if !ok {
		return place{}, notFound(uri)
	}
	if chat.IsNil() {
		chat = sum.Default
	}
	if owner == "" {
		owner = sessionURI(&sum.Info)
	}
	if of, ok := f.host.SessionOf(chat); !ok || of != sid {
		return place{}, notFound(uri)
	}
	return place{session: sid, chat: chat, speller: speller{owner}}, nil
}

// ownerOf is the session that a chat's name carries: //<chat>/<base64url>.
func ownerOf(rest string) string {
	rest, ok := strings.CutPrefix(rest, "//")
	if !ok {
		return ""
	}
	_, encoded, ok := strings.Cut(rest, "/")
	if !ok {
		return ""
	}
	owner, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return ""
	}
	return string(owner)
}

// fileURI spells an absolute path.
func fileURI(path string) string {
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(path)}).String()
}

// filePath reads a file: URI of this machine.
func filePath(uri string) (string, error) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || u.Host != "" && u.Host != "localhost" || !filepath.IsAbs(u.Path) {
		return "", invalid("%.200q is no file: URI of an absolute path on this machine", uri)
	}
	return filepath.Clean(u.Path), nil
}

func dirURIs(dirs []string) []string {
	out := make([]string, len(dirs))
	for i, d := range dirs {
		out[i] = fileURI(d)
	}
	return out
}

// spelledFor is how one connection names a session.
func (c *conn) spelledFor(sum *host.Summary) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if uri := c.spelled[sum.Info.ID]; uri != "" {
		return uri
	}
	return sessionURI(&sum.Info)
}
