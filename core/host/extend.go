package host

import (
	"context"
	"fmt"
	"slices"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/extend"
	"github.com/polyhost/polyhost/core/id"
)

// ServerThing is what an agent's MCP server is called in decisions.
func ServerThing(backend, name string) string { return "server/" + backend + "/" + name }

// servers takes how the MCP servers of a conversation are. The gateway's own is
// not shown. One that somebody decided against is let go of.
func (s *Session) servers(r *run, list []agent.ServerStatus) {
	list = slices.DeleteFunc(slices.Clone(list), func(st agent.ServerStatus) bool { return st.Name == ToolServerName })
	s.host.extended.Reported(s.id, list)
	s.awaitSignIn(r, list)
	info := &s.work.Info
	if !s.host.can(info.Backend).SwitchServers {
		return
	}
	for _, st := range list {
		ds := s.host.extended.Decisions(s.id, info.Dirs[0], ServerThing(info.Backend, st.Name))
		if st.State != agent.ServerOff && !extend.On(ds) {
			s.switchServer(r, agent.ServerSwitch{Name: st.Name})
		}
	}
}

// canSwitch reports whether the agent connects to its servers, or lets go of them,
// when it is told to.
func (s *Session) canSwitch(on bool) bool {
	can := s.host.can(s.work.Info.Backend)
	return can.SwitchServers || on && can.StartServers
}

func (s *Session) switchServer(r *run, sw agent.ServerSwitch) {
	err := r.conv.tell("switch an MCP server", func(ctx context.Context, c agent.Conversation) error {
		if c, ok := c.(agent.ServerSwitcher); ok {
			return c.SwitchServer(ctx, sw)
		}
		return agent.ErrUnsupported
	})
	if err != nil {
		s.crashed(r, err)
	}
}

// awaitSignIn opens a sign-in on the calls that run against a server which began
// to want one, and settles it when the server does no more.
func (s *Session) awaitSignIn(r *run, list []agent.ServerStatus) {
	was := r.conv.servers
	r.conv.servers = list
	runs := []*run{r}
	for _, child := range r.children {
		runs = append(runs, child)
	}
	for _, of := range runs {
		for _, c := range of.calls {
			if now := statusOf(list, c.tool.Server); now.State == agent.ServerSignIn && now.URL != "" {
				if c.running && statusOf(was, c.tool.Server).State != agent.ServerSignIn {
					s.openSignIn(of, c, now)
				}
			} else if now.State != agent.ServerStarting {
				s.closeSignIn(of, c)
			}
		}
	}
}

// statusOf is how the server of that name is; the zero one if there is none.
func statusOf(list []agent.ServerStatus, name string) agent.ServerStatus {
	for _, st := range list {
		if st.Name == name {
			return st
		}
	}
	return agent.ServerStatus{}
}

// signInDone is the one thing to answer where people are asked to sign in.
const signInDone = "Connect again"

func (s *Session) openSignIn(r *run, c *call, st agent.ServerStatus) {
	for _, q := range r.requests {
		if q.call == c {
			return // it is asked already
		}
	}
	i := event.Interaction{ID: id.New(), Kind: event.SignIn, Chat: r.chat, Turn: r.turn, Part: c.part, OpenedAt: s.at,
		ExpiresAt: s.at.Add(s.host.opt.QuestionTimeout), Call: c.id, Tool: c.tool.Name, Title: "Sign in to " + st.Name, Server: st.Name, Resource: st.URL,
		Questions: []event.QuestionItem{{ID: "sign_in", Text: "The MCP server " + st.Name + " (" + st.URL + ") wants somebody to sign in.",
			Options: []event.QuestionOption{{Label: signInDone, Description: "after signing in with the agent's own program"}}}}}
	r.requests[i.ID] = &request{kind: event.SignIn, call: c}
	r.emit(&event.InteractionOpened{Interaction: i})
}

func (s *Session) closeSignIn(r *run, c *call) {
	for ix, q := range r.requests {
		if q.call == c && q.kind == event.SignIn {
			delete(r.requests, ix)
			if i := s.work.Interaction(ix); i != nil {
				s.emitSettled(i, event.Resolution{Outcome: event.Answered, By: theAgent})
			}
		}
	}
}

// signedIn: somebody says that the sign-in is done; the server is connected anew. When
// nobody did in time, the agent lets go of the server, if it can: its call fails, and
// the turn goes on.
func (s *Session) signedIn(r *run, i *event.Interaction, res event.Resolution) {
	root, on := r.agentOf(), res.Outcome == event.Answered
	if (on || res.Outcome == event.Expired) && root.conv != nil && s.canSwitch(on) {
		s.switchServer(root, agent.ServerSwitch{Name: i.Server, On: on})
	}
}

// SwitchServer has the running agents of the session connect to one of their MCP
// servers, or let go of it. ErrNotFound: no agent has said that it has it;
// agent.ErrUnsupported: it cannot; ErrInvalid: no agent runs.
func (s *Session) SwitchServer(ctx context.Context, sw agent.ServerSwitch) error {
	return s.do(ctx, false, func(s *Session) error {
		view := s.host.extended.Of(s.id)
		switch {
		case view.Server(sw.Name) == nil:
			return fmt.Errorf("MCP server %.80q: %w", sw.Name, ErrNotFound)
		case !s.canSwitch(sw.On), sw.Token != "" && !s.host.can(s.work.Info.Backend).ServerTokens:
			return agent.ErrUnsupported
		}
		told := false
		for _, r := range s.chats {
			if r.conv != nil {
				told = true
				s.switchServer(r, sw)
			}
		}
		if !told {
			return fmt.Errorf("%w: no agent runs now", ErrInvalid)
		}
		return nil
	})
}
