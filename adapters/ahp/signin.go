package ahp

import (
	"context"
	"errors"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/transports/jsonrpc"
)

// authRequired asks for a token.
type authRequired struct {
	Channel  string   `json:"channel"`
	Resource lendable `json:"resource"`
	Reason   string   `json:"reason"`
}

// askSignIn asks those who watch the session for tokens for its MCP servers that
// want one, once for each resource: until a token came, or the server wants none.
// The caller holds mu.
func (l *live) askSignIn() {
	wanted := map[string]bool{}
	for i := range l.customized {
		c := &l.customized[i]
		switch {
		case c.State == nil:
		case c.State.authRequirement != nil:
			of := c.State.Resource
			wanted[of.Resource] = true
			if l.tokensAsked[of.Resource] {
				continue
			}
			for uri, s := range l.open {
				if s.chat.IsNil() {
					l.front.journal.notify(s.ch, notification("auth/required", authRequired{uri, of, "required"}), nil)
				}
			}
		case c.State.Kind == "starting" && l.tokensAsked[c.URI]: // it may want one still
			wanted[c.URI] = true
		}
	}
	l.tokensAsked = wanted
}

// connects shows that a server is connected to anew, with a token: if it wants
// another one after that, it is asked for.
func (l *live) connects(name, resource string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, _ := l.customization(serverID(name))
	if c == nil {
		return
	}
	delete(l.tokensAsked, resource)
	told := *c
	told.State = &mcpState{Kind: "starting"}
	l.replace(told)
	l.say(id.Nil, nil, func(*renderer) any {
		return map[string]any{"type": "session/mcpServerStateChanged", "id": told.ID, "state": told.State}
	})
}

// stays takes connects back.
func (l *live) stays(resource string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tokensAsked[resource] = true
	l.customize()
}

// wants finds an MCP server of the session that a token for a resource is for:
// one that wants it, or, to renew one, any that is there.
func (l *live) wants(resource string, renews bool) (name string, ok bool) {
	view := l.front.host.Extensions().Of(l.id)
	for _, s := range view.Servers {
		if s.URL == resource && (s.State == agent.ServerSignIn || renews) {
			return s.Name, true
		}
	}
	return "", false
}

// sessions are the projections of the sessions that the connection watches.
func (c *conn) sessions() (lives []*live) {
	c.mu.Lock()
	subs := make([]held, 0, len(c.subs))
	for _, h := range c.subs {
		subs = append(subs, h)
	}
	c.mu.Unlock()
	for _, h := range subs {
		if l := c.front.projected(h.session); l != nil && h.chat.IsNil() {
			lives = append(lives, l)
		}
	}
	return lives
}

// wanted finds a resource that an MCP server of a session that the connection
// watches wants a token for, or has one of this client's.
func (c *conn) wanted(resource string) (lendable, bool) {
	c.mu.Lock()
	old := c.lent[resource]
	c.mu.Unlock()
	for _, l := range c.sessions() {
		if name, ok := l.wants(resource, old != nil); ok {
			return serverResource(name, resource), true
		}
	}
	if old != nil {
		return old.of, true
	}
	return lendable{}, false
}

// spend signs in to the MCP servers of that resource, in the sessions that the
// connection watches.
func (c *conn) spend(ctx context.Context, resource, token string) error {
	c.mu.Lock()
	renews := c.lent[resource] != nil
	c.mu.Unlock()
	spent := false
	var refused *jsonrpc.Error
	for _, l := range c.sessions() {
		name, ok := l.wants(resource, renews)
		if !ok {
			continue
		}
		s := l.session()
		if a, ok := c.front.agentNamed(s.State().Info.Backend); !ok || !a.Info.Capabilities.ServerTokens {
			refused = invalid("resource: the agent takes no token for the MCP server %.80q: sign in with the agent's own program, then start the server", name)
			continue
		}
		l.connects(name, resource)
		err := s.SwitchServer(ctx, agent.ServerSwitch{Name: name, On: true, Token: token})
		if err != nil {
			l.stays(resource)
		}
		switch {
		case err == nil:
			spent = true
		case errors.Is(err, host.ErrInvalid):
			refused = invalid("resource: no agent runs now that would sign in to the MCP server %.80q", name)
		default:
			return err
		}
	}
	if !spent && refused != nil {
		return refused
	}
	return nil
}
