package ahp

import (
	"context"
	"time"

	"github.com/polyhost/polyhost/transports/jsonrpc"
)

// lendable is what a client may bring a token for.
type lendable struct {
	Resource             string   `json:"resource"`
	ResourceName         string   `json:"resource_name"`
	AuthorizationServers []string `json:"authorization_servers"`
	ScopesSupported      []string `json:"scopes_supported"`
	Required             bool     `json:"required"`
}

// githubResource is where pull requests are. It is named by every agent, and is
// no condition of any: editors would ask for a sign-in first.
var githubResource = lendable{Resource: "https://api.github.com/repos", ResourceName: "GitHub repositories",
	AuthorizationServers: []string{"https://github.com/login/oauth"}, ScopesSupported: []string{"repo"}}

// lent is a token that a client lent: it belongs to its connection, and is spent
// on what that asks for.
type lent struct {
	token string
	until time.Time   // zero: until it is taken back
	timer *time.Timer // nil with it
}

// authenticate takes a token for a resource that an agent named, or takes it
// back when it is empty.
func (c *conn) authenticate(_ context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		Resource  string  `json:"resource" jsonx:"required"`
		Token     *string `json:"token" jsonx:"required"`
		ExpiresIn *int64  `json:"expiresIn"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	switch {
	case p.ExpiresIn != nil && (*p.ExpiresIn < 1 || *p.ExpiresIn > int64(maxLending/time.Second)):
		return nil, invalid("expiresIn: must be 1 to %d", maxLending/time.Second)
	case p.Resource != githubResource.Resource:
		return nil, invalid("resource: no agent of this host asks for %.200q", p.Resource)
	case len(*p.Token) > maxToken || !printable(*p.Token):
		return nil, invalid("token: must have at most %d printable bytes", maxToken)
	}
	c.lend(*p.Token, p.ExpiresIn)
	c.log.Info("A client lent a token, or took it back", "client", c.who().id, "resource", p.Resource, "lent", *p.Token != "")
	for _, dir := range c.dirs() {
		c.front.facts.want(dir, true)
	}
	return struct{}{}, nil
}

func printable(s string) bool {
	for _, b := range []byte(s) {
		if b <= ' ' || b >= 0x7f {
			return false
		}
	}
	return true
}

func (c *conn) lend(token string, expiresIn *int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lent != nil && c.lent.timer != nil {
		c.lent.timer.Stop()
	}
	c.lent = nil
	if token == "" || c.closed {
		return
	}
	l := &lent{token: token}
	if expiresIn != nil {
		left := time.Duration(*expiresIn) * time.Second
		l.until = time.Now().Add(left)
		l.timer = time.AfterFunc(left, func() { c.expired(l) })
	}
	c.lent = l
}

// expired lets go of a token that ran out, and tells the client.
func (c *conn) expired(l *lent) {
	c.mu.Lock()
	mine := c.lent == l
	if mine {
		c.lent = nil
	}
	c.mu.Unlock()
	if mine {
		_ = c.send(notification("auth/required", struct {
			Channel  string   `json:"channel"`
			Resource lendable `json:"resource"`
			Reason   string   `json:"reason"`
		}{rootURI, githubResource, "expired"}))
	}
}

// token is what the connection's client lent, or "".
func (c *conn) token() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lent == nil || !c.lent.until.IsZero() && time.Now().After(c.lent.until) {
		return ""
	}
	return c.lent.token
}

// dirs are the first directories of the sessions that the connection watches.
func (c *conn) dirs() (dirs []string) {
	c.mu.Lock()
	subs := make([]held, 0, len(c.subs))
	for _, h := range c.subs {
		subs = append(subs, h)
	}
	c.mu.Unlock()
	for _, h := range subs {
		if sum, ok := c.front.host.Summary(h.session); ok && h.chat.IsNil() && len(sum.Info.Dirs) > 0 {
			dirs = append(dirs, sum.Info.Dirs[0])
		}
	}
	return dirs
}

// lentIn is a token of somebody who watches a session in a directory, or "".
func (f *Front) lentIn(dir string) string {
	f.mu.Lock()
	conns := keys(f.conns)
	f.mu.Unlock()
	for _, c := range conns {
		if token := c.token(); token != "" {
			for _, d := range c.dirs() {
				if d == dir {
					return token
				}
			}
		}
	}
	return ""
}
