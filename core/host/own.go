package host

import (
	"context"
	"encoding/json"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
)

// OwnTool is a tool that the gateway itself runs for agents.
type OwnTool struct {
	Name        string
	Title       string
	Description string
	Schema      json.RawMessage
	// Tag is what the policy goes by. Notes that stay with the session count as
	// reading: no mode asks about them.
	Tag event.Tag
	// ReadOnly and Destructive are hints for clients.
	ReadOnly    bool
	Destructive bool
	// AlwaysAsk: it is never done without asking a person.
	AlwaysAsk bool
}

// Caller is the agent that calls.
type Caller struct {
	Session, Chat, Turn id.ID
}

// OwnTools are the tools that the gateway itself runs. They come after those of
// clients: a client's of the same name is the one that is called.
type OwnTools interface {
	// List gives them all.
	List() []OwnTool
	// Instructions are what agents are told of them beside their descriptions,
	// where an agent can be told.
	Instructions() string
	// Run runs one that the policy lets run. An error is told to the agent as it
	// stands.
	Run(ctx context.Context, h *Host, from Caller, name string, input json.RawMessage) (string, error)
}

// OwnTools are the tools that the gateway offers to agents now.
func (h *Host) OwnTools() []OwnTool {
	if h.opt.Own == nil || h.ownOff.Load() {
		return nil
	}
	return h.opt.Own.List()
}

// OfferOwnTools begins or ceases to offer the gateway's own tools to agents. It
// reports whether that changed what they are offered.
func (h *Host) OfferOwnTools(on bool) bool {
	if h.ownOff.Swap(!on) == !on || h.opt.Own == nil {
		return false
	}
	h.everywhere((*Session).offerTools)
	return true
}

// own finds a tool of the gateway's own by its name, unless a client has one of
// that name.
func (s *Session) own(r *run, name string) *OwnTool {
	if _, theirs := s.toolOwner(r, name); theirs {
		return nil
	}
	for _, t := range s.host.OwnTools() {
		if t.Name == name {
			return &t
		}
	}
	return nil
}

// ownTool is the gateway's own tool that a call is of, or nil.
func (s *Session) ownTool(r *run, c *call) *OwnTool {
	if c.tool.Server != ToolServerName {
		return nil
	}
	return s.own(r, c.tool.Name)
}

// knowOwn takes what the gateway knows of its own tool for what the agent says.
func (s *Session) knowOwn(r *run, c *call) {
	if c.tool.Server == "" && s.host.can(s.work.Info.Backend).ClientTools && s.own(r, c.tool.Name) != nil {
		c.tool.Server = ToolServerName
	}
	t := s.ownTool(r, c)
	if t == nil {
		return
	}
	c.tool.Tag, c.tool.MustAsk, c.tool.Title = t.Tag, t.AlwaysAsk, t.Title
	c.tool.Paths, c.tool.Edits = nil, nil // it is about no files, whatever its input looks like
}

// runOwn runs a tool that may run, beside the session, and answers the agent.
func (s *Session) runOwn(r *run, q *request) {
	c, from := q.call, Caller{Session: s.id, Chat: r.agentOf().chat, Turn: r.agentOf().turn}
	name, input := c.tool.Name, c.tool.Input
	ctx, stop := context.WithTimeout(s.host.ctx, OwnToolWithin)
	c.stop = stop
	s.host.wg.Go(func() {
		defer stop()
		res := event.Resolution{Outcome: event.Completed, By: event.Gateway}
		text, err := s.host.opt.Own.Run(ctx, s.host, from, name, input)
		if err != nil {
			res.Failed, text = true, err.Error()
		}
		res.Output, _ = clipOutput(text)
		select {
		case s.urgent <- func() { s.ownDone(r, q, res) }:
		case <-s.gone:
		}
	})
}

// ownDone answers the agent with what its call gave.
func (s *Session) ownDone(r *run, q *request, res event.Resolution) {
	open := false
	for _, c := range r.calls {
		open = open || c == q.call
	}
	if open && q.made {
		s.toolEnd(r, q.call, resultOf(res))
	}
	if open || q.reply != nil {
		r.reply(q, res)
	}
}
