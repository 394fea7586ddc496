package host

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
	"github.com/polyhost/polyhost/core/store"
)

// start opens a turn for a message; whoever speaks to the agent calls prompt
// next. The chat has no running turn.
func (s *Session) start(r *run, m event.Message, fromQueue bool) {
	r.reset()
	if m.Turn.IsNil() {
		m.Turn = id.New()
	}
	if m.KeepEffort {
		m.Settings.Effort = s.levelOf(&m)
	}
	s.begin(r, m, m.By)
	r.opened = r.emit(&event.TurnStarted{Message: m, FromQueue: fromQueue}).Seq
	s.private = false
	s.keepEffort(&m)
	if s.titleOf(r) == "" && !m.System {
		s.entitle(r, state.TitleOf(m.Text), event.Gateway)
	}
}

// titleOf is the title of a chat, which for the default one is the session's.
func (s *Session) titleOf(r *run) string {
	c := s.work.Chat(r.chat)
	if c == nil || c.ID == s.work.Default {
		return s.work.Info.Title
	}
	return c.Title
}

// entitle gives a chat a title, unless it has one that a person gave.
func (s *Session) entitle(r *run, title string, by event.Actor) {
	auto := &r.autoTitle
	if r.chat == s.work.Default {
		auto = &s.autoTitle
	}
	now := s.titleOf(r)
	switch {
	case title == "" || now != "" && now != *auto || s.work.Chat(r.chat) == nil:
	case r.chat == s.work.Default:
		*auto = title
		s.emit(id.Nil, id.Nil, &event.SessionUpdated{By: by, Title: &title})
	default:
		*auto = title
		s.emit(r.chat, id.Nil, &event.ChatUpdated{By: by, Title: &title})
	}
}

// begin gets ready for a turn's first event.
func (s *Session) begin(r *run, m event.Message, by event.Actor) {
	r.turn, r.message = m.Turn, m
	if len(s.running()) == 0 {
		s.w.put = append(s.w.put, store.KV{Key: runningKey(s.id), Value: []byte{1}})
		s.reserved = 0
	}
	if s.work.Info.Closed {
		open := false
		s.emit(id.Nil, id.Nil, &event.SessionUpdated{By: by, Closed: &open})
	}
}

// levelOf is the effort that a message picks, if the model it is for has that
// level.
func (s *Session) levelOf(m *event.Message) string {
	info := s.host.infoOf(s.work.Info.Backend)
	model := merged(s.work.Info.Settings, m.Settings).Model
	for i := range info.Models {
		if x := &info.Models[i]; x.ID == model || model == "" { // the first is the default
			if slices.Contains(info.EffortsOf(x), m.Settings.Effort) {
				return m.Settings.Effort
			}
			break
		}
	}
	return ""
}

// keepEffort makes the effort that a message picks the session's.
func (s *Session) keepEffort(m *event.Message) {
	if !m.KeepEffort {
		return
	}
	whole := s.work.Info.Settings
	if level := s.levelOf(m); level != "" && level != whole.Effort {
		whole.Effort = level
		s.emit(id.Nil, id.Nil, &event.SessionUpdated{By: m.By, Settings: &whole})
	}
}

// running are the chats with a running turn.
func (s *Session) running() (out []*state.Chat) {
	for _, c := range s.work.Chats {
		if c.Active != nil {
			out = append(out, c)
		}
	}
	return out
}

// prompt hands the running turn's message to the agent, once the agent has
// ended the turn before, and the turn is on disk: a message that a crash finds
// with the agent and still in the queue would run twice.
func (s *Session) prompt(r *run) {
	if r.draining {
		r.waiting = true
		return
	}
	if r.message.Command != "" {
		s.runCommand(r)
		return
	}
	c := s.work.Chat(r.chat)
	backend := s.host.backend(s.work.Info.Backend)
	if backend == nil {
		s.end(r, event.TurnFailed, &event.Error{Code: event.CodeAgentStart,
			Message: "there is no agent backend " + s.work.Info.Backend}, event.Gateway)
		return
	}
	settings := merged(s.work.Info.Settings, r.message.Settings)
	tools := s.tools(r)
	if s.otherPlugins(r) {
		s.log.Info("The agent starts again with other plugins", "chat", r.chat.String())
		r.drop()
	}
	if r.conv == nil {
		dirs := dirsOf(s.work, c)
		if err := s.host.CheckDirs(dirs); err != nil {
			s.end(r, event.TurnFailed, &event.Error{Code: event.CodeAgentStart, Message: err.Error()}, event.Gateway)
			return
		}
		open := agent.Open{Session: s.id.String(), Chat: r.chat.String(), Dirs: dirs,
			Settings: settings, Resume: c.Conversation, Tools: tools}
		if lent := s.lent.Load(); lent != nil {
			open.Tokens = *lent
		}
		if c.Conversation == "" && c.ForkOf != "" {
			if !s.host.endsThere(c.ForkEnd) {
				s.end(r, event.TurnFailed, &event.Error{Code: event.CodeAgentStart, Message: "the agent can begin with the end of another conversation only, and that one went on since this chat was made from it"}, event.Gateway)
				return
			}
			open.Resume, open.Fork, open.ForkAt = c.ForkOf, true, c.ForkAt
		}
		if len(s.host.OwnTools()) > 0 {
			open.Instructions = s.host.opt.Own.Instructions()
		}
		door := s.openDoor(r, &open)
		r.conv = s.converse(backend, open, r.chat, r.before, door, s.work.Info.Backend)
		r.before = nil
	}
	if r.conv.door != nil {
		r.conv.door.Offer(tools)
	}
	m, turn, opened, failures := r.message, r.turn, r.opened, c.Active.Failures()
	before := commandsBefore(c)
	if c.Brief != "" && !begun(c) {
		before = c.Brief + before
	}
	err := r.conv.tell("prompt", func(ctx context.Context, conv agent.Conversation) error {
		if err := s.Durable(ctx, opened); err != nil {
			return err // the session is given up, and its turns with it
		}
		attachments, err := s.host.fetch(ctx, m.Attachments)
		if err == nil {
			err = conv.Prompt(ctx, agent.Prompt{Turn: turn.String(), Message: m.ID.String(), Text: before + m.Text,
				Attachments: attachments, Settings: settings, Tools: tools, Failures: failures})
		}
		if err != nil {
			s.failTurn(r, turn, err)
		}
		return nil
	})
	if err != nil {
		s.crashed(r, err)
	}
}

// failTurn ends a turn whose prompt the agent did not take. It is called from
// the conversation's goroutine.
func (s *Session) failTurn(r *run, turn id.ID, err error) {
	select {
	case s.urgent <- func() {
		if r.turn == turn {
			s.end(r, event.TurnFailed, &event.Error{Code: event.CodeAgentFailed, Message: publicText(err)}, event.Gateway)
		}
	}:
	case <-s.gone:
	}
}

// publicText is an error's text for people at clients.
func publicText(err error) string {
	var start *startError
	switch {
	case errors.As(err, &start):
		return start.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return "the agent did not answer in time"
	}
	return err.Error()
}

func merged(base, over event.Settings) event.Settings {
	if over.Mode != "" {
		base.Mode = over.Mode
	}
	base.Mode = base.Mode.Within(over.Most)
	base.Model = picked(base.Model, over.Model)
	base.Effort = picked(base.Effort, over.Effort)
	base.Agent = picked(base.Agent, over.Agent)
	base.DenyExec = base.DenyExec || over.DenyExec
	if over.ShellInit != "" {
		base.ShellInit = over.ShellInit
	}
	return base
}

// picked is what counts after somebody picked over.
func picked(base, over string) string {
	switch over {
	case "":
		return base
	case event.Inherit:
		return ""
	}
	return over
}

// tools are what clients and the gateway offer to run, each name once: the
// turn's own first.
func (s *Session) tools(r *run) []event.ClientTool {
	seen := map[string]bool{}
	var out []event.ClientTool
	add := func(tools []event.ClientTool) {
		for _, t := range tools {
			if !seen[t.Name] {
				seen[t.Name] = true
				out = append(out, t)
			}
		}
	}
	add(r.message.Tools)
	for _, set := range s.work.Tools {
		add(set.Tools)
	}
	for _, t := range s.host.OwnTools() {
		add([]event.ClientTool{{Name: t.Name, Description: t.Description, Schema: t.Schema}})
	}
	return out
}

// toolOwner finds the client that runs a tool.
func (s *Session) toolOwner(r *run, name string) (event.Actor, bool) {
	root := r.agentOf()
	for _, t := range root.message.Tools {
		if t.Name == name {
			return root.message.By, true
		}
	}
	for _, set := range s.work.Tools {
		for _, t := range set.Tools {
			if t.Name == name {
				return set.Client, true
			}
		}
	}
	return event.Actor{}, false
}

// closeParts ends everything of the turn that is still open, each with its
// event: children, requests, calls, texts.
func (s *Session) closeParts(r *run, status event.TurnStatus, by event.Actor) {
	for key, child := range r.children {
		if !child.turn.IsNil() {
			s.end(child, status, nil, by)
		}
		delete(r.children, key)
	}
	for _, i := range s.work.Open {
		if i.Chat == r.chat && i.Turn == r.turn {
			s.settle(i, event.Resolution{Outcome: event.Cancelled, By: by})
		}
	}
	if c := s.work.Chat(r.chat); c != nil && c.Active != nil {
		for _, p := range c.Active.Parts {
			if p.Tool != nil && !p.Tool.Status.Ended() {
				output, dropped := p.Tool.Output.String(), int64(0)
				if open := r.calls[p.Tool.Call]; open != nil {
					output, dropped = open.output(output), open.dropped
				}
				r.emit(&event.ToolEnded{Part: p.ID, Status: event.CallCancelled, Output: output, Dropped: dropped,
					Error: "the turn ended before the call did"})
			} else if !p.Ended() {
				r.emit(&event.PartEnded{Part: p.ID, Text: p.Text.String(), Cut: status != event.TurnComplete})
			}
		}
	}
	r.current = nil
}

// end closes the running turn, once, and starts what waits.
func (s *Session) end(r *run, status event.TurnStatus, failure *event.Error, by event.Actor) {
	s.finish(r, status, failure, by, false)
	if root := r.agentOf(); root.stuck != nil && !root.closing {
		s.crashed(root, root.stuck)
	}
	if r.parent == nil && !s.stopping && !s.host.isClosing() {
		s.next(r)
	}
}

func (s *Session) finish(r *run, status event.TurnStatus, failure *event.Error, by event.Actor, synthetic bool) {
	r.closing = true
	s.closeParts(r, status, by)
	r.closing = false
	c := s.work.Chat(r.chat)
	if c == nil || c.Active == nil {
		r.reset()
		return
	}
	ended := &event.TurnEnded{Status: status, Error: failure, Synthetic: synthetic, Usage: c.Active.Usage, Point: r.point,
		Resumable: status == event.TurnFailed && s.resumable(r, c.Active),
		Duration:  max(0, s.at.Sub(c.Active.StartedAt))}
	if status == event.TurnCancelled {
		ended.By = by
	}
	number := c.Active.Number
	r.emit(ended)
	r.reset()
	c = s.work.Chat(r.chat)
	if t := lastTurn(c); t != nil && t.Number == number {
		s.keepTurn(r.chat, t)
	}
	if len(s.running()) == 0 {
		s.w.put = slices.DeleteFunc(s.w.put, func(kv store.KV) bool { return kv.Key == runningKey(s.id) })
		s.w.del = append(s.w.del, runningKey(s.id), reservedKey(s.id))
	}
}

// keepTurn stores the record of a finished turn.
func (s *Session) keepTurn(chat id.ID, t *state.Turn) {
	b, err := encodeTurn(t)
	if err != nil {
		s.log.Error("A finished turn cannot be encoded", "err", err)
		return
	}
	s.w.put = append(s.w.put, store.KV{Key: turnKey(s.id, chat, t.Number), Value: b})
}

// next starts the first message that waits: a steering one that its turn had
// no use for, else the head of the queue.
func (s *Session) next(r *run) {
	c := s.work.Chat(r.chat)
	if c == nil || c.Active != nil {
		return
	}
	var m event.Message
	switch {
	case len(c.Steering) > 0:
		m = c.Steering[0]
	case len(c.Queue) > 0:
		m = c.Queue[0]
	default:
		return
	}
	if m.Turn.IsNil() {
		m.Turn = id.New()
	}
	s.emit(r.chat, id.Nil, &event.MessageRemoved{ID: m.ID, Why: event.RemovedStarted, By: event.Gateway, Turn: m.Turn})
	s.start(r, m, true)
	s.prompt(r)
}

// interrupt ends the running turn now, whatever the agent does about it.
func (s *Session) interrupt(r *run, by event.Actor) {
	root := r.agentOf()
	if root != r { // a subagent alone cannot be stopped: its parent's turn is
		s.interrupt(root, by)
		return
	}
	s.silence(r)
	s.end(r, event.TurnCancelled, nil, by)
}

// silence tells the agent to stop and drops what it says until it has.
func (s *Session) silence(r *run) {
	if r.conv == nil || r.waiting || r.message.Command != "" {
		return
	}
	r.draining, r.drained = true, r.turn
	conv := r.conv
	if err := conv.tell("interrupt", func(ctx context.Context, c agent.Conversation) error { return c.Interrupt(ctx) }); err != nil {
		s.kill(r, "it takes no commands")
		return
	}
	r.deadline = time.AfterFunc(CancelWithin, func() {
		select {
		case s.urgent <- func() {
			if r.draining && r.conv == conv {
				s.kill(r, "it went on after an interrupt")
			}
		}:
		case <-s.gone:
		}
	})
}

// kill stops an agent that does not obey; the next prompt starts it again.
func (s *Session) kill(r *run, why string) {
	s.log.Warn("The agent is stopped", "chat", r.chat.String(), "because", why)
	r.drop()
	s.drained(r)
}

// drained: the agent is ready for the next prompt.
func (s *Session) drained(r *run) {
	r.draining = false
	if r.deadline != nil {
		r.deadline.Stop()
	}
	if r.waiting {
		r.waiting = false
		if !r.turn.IsNil() {
			s.prompt(r)
		}
	}
}

// crashed: the conversation is over.
func (s *Session) crashed(r *run, err error) {
	r.drop()
	waiting := r.waiting
	s.drained(r)
	if r.turn.IsNil() || waiting || r.message.Command != "" { // a command goes on without the agent
		return
	}
	failure := &event.Error{Code: event.CodeAgentCrashed, Message: "the agent ended unexpectedly", Retryable: true}
	var start *startError
	switch {
	case errors.As(err, &start):
		failure.Code, failure.Message = event.CodeAgentStart, start.Error()
	case err != nil && !errors.Is(err, io.EOF):
		failure.Message += ": " + err.Error()
	}
	s.log.Error("An agent's conversation ended in the middle of a turn", "chat", r.chat.String(), "err", err)
	s.end(r, event.TurnFailed, failure, event.Gateway)
}
