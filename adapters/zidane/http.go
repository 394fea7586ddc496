package zidane

import (
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/polyhost/polyhost/adapters/front"
	"github.com/polyhost/polyhost/transports/guard"
	"github.com/polyhost/polyhost/transports/listen"
	"github.com/polyhost/polyhost/transports/ws"
)

// The subprotocol that is selected, and the prefix of the one that carries the
// token and never is.
const (
	subprotocol       = "zidane"
	bearerSubprotocol = "zidane.bearer."
)

// refusalHeader names the rule that refused, for those who cannot tell from
// the body.
const refusalHeader = "X-Zidane-Refusal"

// serveHTTP is the door: the Host header, then Origin and token of upgrades.
func (f *Front) serveHTTP(w http.ResponseWriter, r *http.Request) {
	if ref := f.hosts.Check(r); ref != nil {
		f.refuse(w, r, http.StatusForbidden, ref, "Forbidden: host not allowed")
		return
	}
	if isUpgrade(r) {
		f.upgrade(w, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		answer(w, http.StatusMethodNotAllowed, "Method Not Allowed")
		return
	}
	switch r.URL.Path {
	case "/healthz":
		if err := f.deps.Host.Health(r.Context()); err != nil {
			answer(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		answer(w, http.StatusOK, "ok")
	case "/zidane/media":
		f.serveMedia(w, r)
	default:
		answer(w, http.StatusNotFound, "Not Found")
	}
}

func (f *Front) upgrade(w http.ResponseWriter, r *http.Request) {
	if ref := f.origins.Check(r); ref != nil {
		f.refuse(w, r, http.StatusForbidden, ref, "Forbidden: origin not allowed")
		return
	}
	if !guard.TokenEqual(tokenOf(r), f.token) {
		f.refuse(w, r, http.StatusUnauthorized, guard.WrongToken(), "Unauthorized")
		return
	}
	if !f.begin() {
		answer(w, http.StatusServiceUnavailable, "Service Unavailable")
		return
	}
	socket, err := ws.Upgrade(w, r, ws.Options{ReadLimit: readLimitBefore, PingEvery: pingEvery,
		Subprotocols: []string{subprotocol}, Logger: f.log})
	if err != nil {
		f.log.Debug("A WebSocket upgrade failed", "err", err)
		f.wg.Done()
		return
	}
	listen.Detach(r, func(ctx context.Context) {
		defer f.wg.Done()
		f.serve(ctx, socket)
	})
}

func (f *Front) refuse(w http.ResponseWriter, r *http.Request, status int, why *guard.Refusal, body string) {
	front.LogRefusal(f.log, r, why)
	w.Header().Set(refusalHeader, string(why.Kind))
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	answer(w, status, body)
}

func answer(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// tokenOf takes the token from the Authorization header, else from the offered
// subprotocols.
func tokenOf(r *http.Request) string {
	if r.Header.Get("Authorization") != "" {
		token, ok := guard.BearerToken(r)
		if !ok {
			return ""
		}
		return token
	}
	for _, offer := range offered(r) {
		if token, ok := strings.CutPrefix(offer, bearerSubprotocol); ok {
			return token
		}
	}
	return ""
}

func offered(r *http.Request) (out []string) {
	for _, header := range r.Header.Values("Sec-WebSocket-Protocol") {
		for offer := range strings.SplitSeq(header, ",") {
			out = append(out, strings.TrimSpace(offer))
		}
	}
	return out
}

func isUpgrade(r *http.Request) bool {
	for _, header := range r.Header.Values("Upgrade") {
		for name := range strings.SplitSeq(header, ",") {
			if strings.EqualFold(strings.TrimSpace(name), "websocket") {
				return true
			}
		}
	}
	return false
}
