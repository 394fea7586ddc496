package cognitio

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/transports/jsonx"
)

// call is one request on its way through a handler.
type call struct {
	r *http.Request
	w http.ResponseWriter
	f *server
}

func (c *call) ctx() context.Context { return c.r.Context() }

// noContent is the answer without a body.
type noContent struct{}

// body reads and decodes the request body, which the route has bounded; an
// empty one leaves v as it is.
func (c *call) body(v any) error {
	// A body that never ends would hold the connection: contexts do not stop
	// a read.
	rc := http.NewResponseController(c.w)
	limited := rc.SetReadDeadline(time.Now().Add(c.f.bodyWithin)) == nil
	raw, err := io.ReadAll(c.r.Body)
	if limited && err == nil {
		err = rc.SetReadDeadline(time.Time{})
	}
	if err != nil {
		var tooLong *http.MaxBytesError
		if errors.As(err, &tooLong) {
			return jsonx.ErrTooLong
		}
		return badPayload("", "the body did not come in time, or not whole")
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		return decode([]byte("{}"), v)
	}
	return decode(raw, v)
}

// decode is the one way bytes of a client become a value.
func decode(raw []byte, v any) error {
	if err := jsonx.Check(raw, maxBody, maxDepth); err != nil {
		return err
	}
	return jsonx.DecodeChecked(raw, v)
}

// param is a path parameter with the prefix its ids have.
func (c *call) param(name, prefix string) (string, error) {
	s := chi.URLParam(c.r, name)
	if un, err := url.PathUnescape(s); err == nil {
		s = un
	}
	if prefix != "" && !strings.HasPrefix(s, prefix) {
		return "", badParam(name, "%s: want a string starting with %q", name, prefix)
	}
	return s, nil
}

// place is a session as the path names it: the core's session and the chat in it.
type place struct {
	*host.Session
	chat      id.ID
	isDefault bool
}

func (c *call) session() (*place, error) {
	s, err := c.param("sessionID", prefixSession)
	if err != nil {
		return nil, err
	}
	return c.f.find(c.ctx(), s)
}

// find opens the session that an id of this protocol names.
func (f *server) find(ctx context.Context, spelled string) (*place, error) {
	missing := notFound("Session not found: %.100s", spelled)
	u, err := id.ParseCognitioDescending(prefixSession, spelled)
	if err != nil {
		return nil, missing
	}
	s, chat, err := f.host.Lookup(ctx, u)
	if errors.Is(err, host.ErrNotFound) {
		return nil, missing
	}
	if err != nil {
		return nil, err
	}
	return &place{Session: s, chat: chat, isDefault: s.State().Default == chat}, nil
}

// directory is the directory a request is about: the query's, else a header's,
// else "". It is cleaned but need not exist.
func (c *call) directory() string { return requestDirectory(c.r) }

func requestDirectory(r *http.Request) string {
	dir := r.URL.Query().Get("directory")
	for _, h := range []string{"X-Cognitio-Directory", "X-Opencode-Directory"} {
		if dir != "" {
			break
		}
		dir = r.Header.Get(h)
		if un, err := url.PathUnescape(dir); err == nil {
			dir = un
		}
	}
	if dir == "" {
		return ""
	}
	return canonical(dir)
}

// canonical makes two spellings of one directory equal.
func canonical(dir string) string {
	dir = filepath.Clean(dir)
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return real
	}
	return dir
}

// number reads a whole number from the query; absent is def.
func (c *call) number(name string, def int) (int, error) {
	s := c.r.URL.Query().Get(name)
	if s == "" {
		return def, nil
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || n < 0 || n > 1<<53 {
		return 0, badQuery(name, "%s: want a number of 0 or more, got %.40q", name, s)
	}
	return int(n), nil
}

func (c *call) flag(name string) bool {
	switch c.r.URL.Query().Get(name) {
	case "true", "1":
		return true
	}
	return false
}

// by is who makes the request: this protocol does not number its clients.
func (c *call) by() event.Actor {
	return event.Actor{Front: Name, Client: clientName(c.r.UserAgent())}
}

// clientName is the program that a User-Agent header names.
func clientName(agent string) string {
	name, _, _ := strings.Cut(agent, " ")
	if len(name) > 60 || !chosenID("", strings.NewReplacer("/", "-", ".", "-").Replace(name)) {
		return ""
	}
	return name
}

func (f *server) writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := jsonx.Encode(v)
	if err != nil {
		f.log.Error("answer could not be encoded", "err", err)
		status, b = http.StatusInternalServerError, []byte(`{"name":"UnknownError","data":{"message":"Unexpected server error. See the server's log."}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(b)
}

func (f *server) writeError(w http.ResponseWriter, e *apiError) { f.writeJSON(w, e.status, e.body()) }
