package host

import (
	"context"
	"fmt"
	"slices"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/extend"
)

// ServerThing is what an agent's MCP server is called in decisions.
func ServerThing(backend, name string) string { return "server/" + backend + "/" + name }

// servers takes how the MCP servers of a conversation are. The gateway's own is
// not shown. One that somebody decided against is let go of.
func (s *Session) servers(r *run, list []agent.ServerStatus) {
	list = slices.DeleteFunc(slices.Clone(list), func(st agent.ServerStatus) bool { return st.Name == ToolServerName })
	s.host.extended.Reported(s.id, list)
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

// SwitchServer has the running agents of the session connect to one of their MCP
// servers, or let go of it. ErrNotFound: no agent has said that it has it;
// agent.ErrUnsupported: it cannot; ErrInvalid: no agent runs.
func (s *Session) SwitchServer(ctx context.Context, sw agent.ServerSwitch) error {
	return s.do(ctx, false, func(s *Session) error {
		view := s.host.extended.Of(s.id)
		switch {
		case view.Server(sw.Name) == nil:
			return fmt.Errorf("MCP server %.80q: %w", sw.Name, ErrNotFound)
		case !s.host.can(s.work.Info.Backend).SwitchServers:
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
