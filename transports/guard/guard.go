// Package guard is the door: it judges the Host and Origin headers and the
// token of a request before a front does anything for it.
//
// Rules only judge. Each front turns a Refusal into its protocol's own answer.
// A page in a browser can reach a loopback port, and by a name that it rebinds
// to 127.0.0.1 even under its own origin; the Host rule stops the second and
// the Origin rule the first. Forwarded headers are never looked at.
//
// It must not know which front it guards.
package guard

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
)

// Kind says which rule refused.
type Kind string

// The kinds of refusal.
const (
	Host   Kind = "host"
	Origin Kind = "origin"
	Token  Kind = "token"
)

// Refusal says why a request is not let in. Its text is safe to show: it names
// the rule and the value to configure, and never a secret.
type Refusal struct {
	Kind  Kind
	Value string // what would have to be allowed; empty for tokens
	text  string
}

func (r *Refusal) Error() string { return r.text }

// Rule judges a request; nil means that it may pass.
type Rule func(r *http.Request) *Refusal

// Check applies the rule.
func (rule Rule) Check(r *http.Request) *Refusal { return rule(r) }

// All refuses what any of the rules refuses, first one first.
func All(rules ...Rule) Rule {
	return func(r *http.Request) *Refusal {
		for _, rule := range rules {
			if refusal := rule(r); refusal != nil {
				return refusal
			}
		}
		return nil
	}
}

// Hosts wants the Host header to be a loopback name or address with the port
// that the request came in on, or one of allowed: "name:port", or "name" for
// any port.
func Hosts(allowed ...string) Rule {
	ok := lowerSet(allowed)
	return func(r *http.Request) *Refusal {
		hostport := strings.ToLower(r.Host)
		host, port := splitPort(hostport)
		if ok[hostport] || ok[host] || isLoopback(host) && samePort(r, port) {
			return nil
		}
		v := shown(r.Host)
		return &Refusal{Host, v, fmt.Sprintf("host %q is not allowed: add it to allowed_hosts if it is yours", v)}
	}
}

// Origins lets requests without an Origin pass, as programs send none, and
// those of a page that this very host and port served; other origins must be
// listed in full, like https://example.org or vscode-file://vscode-app.
func Origins(allowed ...string) Rule {
	ok := lowerSet(allowed)
	return func(r *http.Request) *Refusal {
		origins := r.Header.Values("Origin")
		if len(origins) == 0 {
			return nil
		}
		origin := strings.ToLower(origins[0])
		if len(origins) == 1 && (ok[origin] || sameHost(origin, strings.ToLower(r.Host))) {
			return nil
		}
		v := shown(strings.Join(origins, ", "))
		return &Refusal{Origin, v, fmt.Sprintf("origin %q is not allowed: add it to allowed_origins if it is yours", v)}
	}
}

// Bearer wants the header "Authorization: Bearer TOKEN" with the given token.
func Bearer(token string) Rule {
	return func(r *http.Request) *Refusal {
		got, present := BearerToken(r)
		switch {
		case !present:
			return &Refusal{Token, "", "a token is needed: send Authorization: Bearer"}
		case !TokenEqual(got, token):
			return WrongToken()
		}
		return nil
	}
}

// WrongToken is the refusal for fronts that take their token from elsewhere.
func WrongToken() *Refusal { return &Refusal{Token, "", "wrong token"} }

// BearerToken takes the token from the Authorization header.
func BearerToken(r *http.Request) (token string, present bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	return token, strings.EqualFold(scheme, "Bearer") && token != ""
}

// TokenEqual compares in a time that depends neither on where the tokens
// differ nor on the length of the right one. No token equals an empty one.
func TokenEqual(got, want string) bool {
	g, w := sha256.Sum256([]byte(got)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(g[:], w[:]) == 1 && want != ""
}

func lowerSet(values []string) map[string]bool {
	set := make(map[string]bool, len(values))
	for _, v := range values {
		if v = strings.ToLower(strings.TrimSpace(v)); v != "" {
			set[v] = true
		}
	}
	return set
}

// splitPort takes a Host header apart; brackets of an IPv6 address are dropped.
func splitPort(hostport string) (host, port string) {
	if h, p, err := net.SplitHostPort(hostport); err == nil {
		return h, p
	}
	return strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]"), ""
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Zone() == "" && ip.Unmap().IsLoopback()
}

// samePort compares the port of the Host header with that of the listener.
func samePort(r *http.Request, port string) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok {
		return true // not from a TCP listener
	}
	if port == "" {
		port = "80"
	}
	return port == strconv.Itoa(addr.Port)
}

// sameHost says whether origin is http or https on host.
func sameHost(origin, host string) bool {
	scheme, rest, ok := strings.Cut(origin, "://")
	return ok && (scheme == "http" || scheme == "https") && rest == host && host != ""
}

// shown cuts a peer's value to what fits a log line.
func shown(v string) string {
	if len(v) > maxShown {
		v = strings.ToValidUTF8(v[:maxShown], "") + "…"
	}
	return v
}
