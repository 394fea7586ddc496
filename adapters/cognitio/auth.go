package cognitio

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"

	"github.com/polyhost/polyhost/adapters/front"
	"github.com/polyhost/polyhost/transports/guard"
)

// The names that clients of this family log in with: the password decides.
const (
	userName      = "cognitio"
	otherUserName = "opencode"
)

// door judges a request before anything is done for it: its host, the page it
// comes from, its password. It also answers preflights, which carry none.
func (f *server) door(next http.Handler) http.Handler {
	hosts := guard.Hosts(f.deps.Hosts...)
	origins := guard.Origins(f.deps.Origins...)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Add("Vary", "Origin")
		h.Set("X-Content-Type-Options", "nosniff")
		if refusal := hosts.Check(r); refusal != nil {
			front.LogRefusal(f.log, r, refusal)
			f.refuse(w, r, http.StatusForbidden, refusal.Error())
			return
		}
		origin := r.Header.Get("Origin")
		if !localOrigin(origin) {
			if refusal := origins.Check(r); refusal != nil {
				front.LogRefusal(f.log, r, refusal)
				f.refuse(w, r, http.StatusForbidden, refusal.Error())
				return
			}
		}
		if origin != "" {
			h.Set("Access-Control-Allow-Origin", origin)
			h.Set("Access-Control-Expose-Headers", "X-Next-Cursor, Link")
		}
		if r.Method == http.MethodOptions {
			h.Set("Access-Control-Allow-Methods", "GET, HEAD, PUT, POST, DELETE, PATCH")
			if ask := r.Header.Get("Access-Control-Request-Headers"); ask != "" {
				h.Set("Access-Control-Allow-Headers", ask)
			}
			h.Set("Access-Control-Max-Age", "600")
			w.WriteHeader(http.StatusNoContent)
			return
		}
		if !f.authorised(r) {
			h.Set("WWW-Authenticate", `Basic realm="polyhost"`)
			f.refuse(w, r, http.StatusUnauthorized, "a password is needed: send Basic authorization, or auth_token in the query")
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (f *server) refuse(w http.ResponseWriter, r *http.Request, status int, why string) {
	name := map[int]string{http.StatusForbidden: "ForbiddenError", http.StatusUnauthorized: "UnauthorizedError"}[status]
	f.writeError(w, &apiError{status: status, name: name, message: why})
}

// localOrigin: pages served on this machine may call, as this protocol's own
// servers let them; they still need the password.
func localOrigin(origin string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Scheme == "http" && (u.Hostname() == "localhost" || u.Hostname() == "127.0.0.1")
}

// authorised checks the password, from the header or from the query for
// streams that a page opens without headers.
func (f *server) authorised(r *http.Request) bool {
	user, password, ok := r.BasicAuth()
	if !ok {
		raw, err := base64.StdEncoding.DecodeString(r.URL.Query().Get("auth_token"))
		if err != nil {
			return false
		}
		user, password, _ = strings.Cut(string(raw), ":")
	}
	right := guard.TokenEqual(password, f.password)
	named := guard.TokenEqual(user, userName) || guard.TokenEqual(user, otherUserName)
	return right && named
}
