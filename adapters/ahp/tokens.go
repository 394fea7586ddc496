package ahp

import (
	"context"
	"time"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/transports/jsonrpc"
)

// lendable is what a client may bring a token for. Nothing is a condition of an
// agent: editors would ask for a sign-in first.
type lendable struct {
	Resource             string   `json:"resource"`
	ResourceName         string   `json:"resource_name"`
	AuthorizationServers []string `json:"authorization_servers,omitempty"`
	ScopesSupported      []string `json:"scopes_supported,omitempty"`
	Required             bool     `json:"required"`
}

// githubResource is where pull requests are, usersResource the people of this
// host: the one whose tokens the host judges itself. Every agent names them.
var (
	githubResource = lendable{Resource: "https://api.github.com/repos", ResourceName: "GitHub repositories",
		AuthorizationServers: []string{"https://github.com/login/oauth"}, ScopesSupported: []string{"repo"}}
	usersResource = lendable{Resource: "ahpd://users", ResourceName: "The users of this host"}
)

// lendables are what an agent names.
func (f *Front) lendables(info *agent.Info) []lendable {
	all := []lendable{githubResource}
	for _, r := range info.Resources {
		all = append(all, lendable{Resource: r.ID, ResourceName: r.Name})
	}
	if f.users != nil {
		all = append(all, usersResource)
	}
	return all
}

// lendable finds what some agent names.
func (f *Front) lendable(resource string) (lendable, bool) {
	for _, a := range f.host.Agents() {
		for _, l := range f.lendables(&a.Info) {
			if l.Resource == resource {
				return l, true
			}
		}
	}
	return lendable{}, false
}

// lent is a token that a client lent: it belongs to its connection, and is spent
// on what that asks for.
type lent struct {
	of    lendable
	token string
	user  string      // whose it is, of a user
	until time.Time   // zero: until it is taken back
	timer *time.Timer // nil with it
}

// authenticate takes a token for a resource that an agent or an MCP server named,
// or takes it back when it is empty.
func (c *conn) authenticate(ctx context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		Resource  string  `json:"resource" jsonx:"required"`
		Token     *string `json:"token" jsonx:"required"`
		ExpiresIn *int64  `json:"expiresIn"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	of, known := c.front.lendable(p.Resource)
	server := false
	if !known {
		of, server = c.wanted(p.Resource)
		known = server
	}
	switch {
	case p.ExpiresIn != nil && (*p.ExpiresIn < 1 || *p.ExpiresIn > int64(maxLending/time.Second)):
		return nil, invalid("expiresIn: must be 1 to %d", maxLending/time.Second)
	case !known:
		return nil, invalid("resource: nothing of this host asks for %.200q", p.Resource)
	case len(*p.Token) > maxToken || !printable(*p.Token):
		return nil, invalid("token: must have at most %d printable bytes", maxToken)
	}
	user := ""
	if of.Resource == usersResource.Resource && *p.Token != "" {
		var err error
		if user, err = c.signIn(*p.Token); err != nil {
			return nil, err
		}
	}
	if server && *p.Token != "" {
		if c.lends() >= maxLent {
			return nil, invalid("resource: more than %d tokens are not kept", maxLent)
		}
		if err := c.spend(ctx, p.Resource, *p.Token); err != nil {
			return nil, err
		}
	}
	c.lend(&lent{of: of, token: *p.Token, user: user}, p.ExpiresIn)
	c.log.Info("A client lent a token, or took it back", "client", c.who().id, "resource", p.Resource, "lent", *p.Token != "")
	if of.Resource == githubResource.Resource {
		for _, dir := range c.dirs() {
			c.front.facts.want(dir, true)
		}
	}
	return struct{}{}, nil
}

// lends is how many tokens the client lent.
func (c *conn) lends() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.lent)
}

func printable(s string) bool {
	for _, b := range []byte(s) {
		if b <= ' ' || b >= 0x7f {
			return false
		}
	}
	return true
}

// lend keeps a token in place of the one before; without a token there is none.
func (c *conn) lend(l *lent, expiresIn *int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.lent[l.of.Resource]; old != nil && old.timer != nil {
		old.timer.Stop()
	}
	delete(c.lent, l.of.Resource)
	if l.token == "" || c.closed {
		return
	}
	if expiresIn != nil {
		left := time.Duration(*expiresIn) * time.Second
		l.until = time.Now().Add(left)
		l.timer = time.AfterFunc(left, func() { c.expired(l) })
	}
	c.lent[l.of.Resource] = l
}

// takeBack lets go of all tokens; the caller holds mu.
func (c *conn) takeBack() {
	for _, l := range c.lent {
		if l.timer != nil {
			l.timer.Stop()
		}
	}
	clear(c.lent)
}

// expired lets go of a token that ran out, and tells the client.
func (c *conn) expired(l *lent) {
	c.mu.Lock()
	mine := c.lent[l.of.Resource] == l
	if mine {
		delete(c.lent, l.of.Resource)
	}
	c.mu.Unlock()
	if mine {
		_ = c.send(notification("auth/required", authRequired{rootURI, l.of, "expired"}))
	}
}

// good is what the connection's client lent for a resource, or nil; the caller
// holds mu.
func (c *conn) good(resource string) *lent {
	l := c.lent[resource]
	if l == nil || !l.until.IsZero() && time.Now().After(l.until) {
		return nil
	}
	return l
}

// token is what the connection's client lent for pull requests, or "".
func (c *conn) token() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.good(githubResource.Resource); l != nil {
		return l.token
	}
	return ""
}

// lendTo gives a session what the client lent for its agent: an agent that is
// started from now on has it, in place of what another client lent before.
func (c *conn) lendTo(s *host.Session) {
	if tokens := c.lentFor(s.State().Info.Backend); tokens != nil {
		s.Lend(tokens)
	}
}

// lentFor is what the client lent that an agent takes; nil for no agent.
func (c *conn) lentFor(agent string) map[string]string {
	info, ok := c.front.agentNamed(agent)
	if !ok {
		return nil
	}
	tokens := map[string]string{}
	c.mu.Lock()
	for _, r := range info.Info.Resources {
		if l := c.good(r.ID); l != nil {
			tokens[r.ID] = l.token
		}
	}
	c.mu.Unlock()
	return tokens
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
