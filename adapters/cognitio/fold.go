package cognitio

import (
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
)

// step is one assistant message of a turn.
type step struct {
	id     string // message id
	turn   id.ID
	number int
	parent string // the user message it answers
	start  int64  // ms
	end    int64  // ms; 0 while it is open
	// newest is the core part that was added last, Nil if none.
	newest id.ID
	called bool // holds a tool call
}

// startPart and finishPart name the parts that frame a step.
func (s *step) startPart() string { return s.frame(s.start, counterFirst) }

func (s *step) finishPart() string {
	ms := s.start
	if !s.newest.IsNil() {
		ms = max(ms, millis(s.newest.Time()))
	}
	return s.frame(ms, counterLast)
}

// frame keeps the steps of a turn apart that are in one millisecond.
func (s *step) frame(ms int64, counter int) string {
	return nth(derived(s.turn, ms, counter), s.number).Cognitio(prefixPart)
}

// folder splits a turn into messages. It looks at the order of the parts
// alone, so a turn gives the same messages while it runs and when it is read.
type folder struct {
	turn id.ID
	cur  *step
	n    int
}

// begin opens the first step of a turn. It is named by the turn, whose id was
// made right after its message's; a turn that waited began later than that.
func (f *folder) begin(t *state.Turn) *step {
	f.turn = t.ID
	named, ms := t.ID, millis(t.ID.Time())
	if started := millis(t.StartedAt); started > ms {
		named, ms = derived(t.ID, started, counterStep), started
	}
	return f.open(userMessageID(&t.Message), named, ms)
}

func (f *folder) open(parent string, named id.ID, ms int64) *step {
	f.cur = &step{turn: f.turn, number: f.n, parent: parent, start: ms, id: named.Cognitio(prefixMessage)}
	f.n++
	return f.cur
}

// add places the next part and returns the step it closed, if it opened
// another, which is named by that part. A part of kind message is a user message
// of its own; an error that the turn was resumed after is the end of a step.
func (f *folder) add(p *event.Part) (closed *step) {
	if p.Notice != nil && p.Notice.Ended != nil {
		closed = f.cur
		closed.end = max(millis(p.EndedAt), closed.start)
		f.open(closed.parent, p.ID, millis(p.ID.Time()))
		return closed
	}
	speaks := p.Kind == event.PartText || p.Kind == event.PartReasoning
	if p.Kind == event.PartMessage || speaks && f.cur.called {
		closed = f.cur
		ms := millis(p.ID.Time())
		closed.end = max(ms, closed.start)
		parent := closed.parent
		if p.Kind == event.PartMessage && p.Message != nil {
			parent = userMessageID(p.Message)
		}
		f.open(parent, p.ID, closed.end)
	}
	if p.Kind != event.PartMessage {
		f.cur.newest = p.ID
		f.cur.called = f.cur.called || p.Kind == event.PartTool
	}
	return closed
}

// turnEnd is when a finished turn ended, in ms.
func turnEnd(t *state.Turn) int64 {
	return max(millis(t.StartedAt.Add(t.Duration)), millis(t.ID.Time()))
}

// view is what a message shows of where it was said.
type view struct {
	session  string // spelled
	dir      string
	provider string
	model    string // of the session
	agent    string // of the session
	// blob reads the content of an attachment that is stored apart.
	blob func(name string) []byte
}

// viewOf is the view of a chat.
func (f *server) viewOf(c chatAt) view {
	v := view{session: c.spell(c.chat.ID), dir: firstDir(c.info), provider: c.info.Backend,
		model: f.modelOf(c.info.Backend, c.info.Settings.Model), agent: agentName(c.info.Settings), blob: f.blob}
	if c.chat.Agent != "" {
		v.agent = c.chat.Agent
	}
	return v
}

func firstDir(info *event.SessionInfo) string {
	if len(info.Dirs) == 0 {
		return "/"
	}
	return info.Dirs[0]
}

// The agents that every session has: this protocol's words for working and
// for planning only.
const (
	agentBuild = "build"
	agentPlan  = "plan"
)

// agentName is this protocol's word for how a session works.
func agentName(s event.Settings) string {
	switch {
	case s.Agent != "":
		return s.Agent
	case s.Mode == event.ModePlan:
		return agentPlan
	}
	return agentBuild
}

// of narrows the view to what a message was sent with.
func (v view) of(m *event.Message) view {
	if m.Settings.Model != "" {
		v.model = m.Settings.Model
	}
	if m.Settings.Agent != "" || m.Settings.Mode != "" {
		v.agent = agentName(m.Settings)
	}
	return v
}

// user is the info of a user message.
func (v view) user(m *event.Message) userMessage {
	v = v.of(m)
	return userMessage{ID: userMessageID(m), SessionID: v.session, Role: "user", Time: messageTime{Created: millis(m.At)},
		Agent: v.agent, Model: modelRef{ProviderID: v.provider, ModelID: v.model}}
}

// assistant is the info of a step; the view is that of its turn's message.
func (v view) assistant(s *step) assistantMessage {
	return assistantMessage{ID: s.id, SessionID: v.session, Role: "assistant", Time: messageTime{Created: s.start},
		ParentID: s.parent, ModelID: v.model, ProviderID: v.provider, Mode: v.agent, Agent: v.agent,
		Path: messagePath{CWD: v.dir, Root: v.dir}}
}

// finishTools is the finish of a step that another one follows.
const (
	finishTools = "tool-calls"
	finishStop  = "stop"
	finishError = "error"
)

// ended closes the info of a step in the middle of a turn.
func (a assistantMessage) ended(s *step) assistantMessage {
	a.Time.Completed = s.end
	a.Finish = finishStop
	if s.called {
		a.Finish = finishTools
	}
	return a
}

// errorOf is the error that a turn had ended with before it was resumed.
func errorOf(n *event.Notice) *event.Error {
	return &event.Error{Code: n.Code, Message: n.Text, Retryable: n.Ended.Retryable}
}

// last closes the info of a turn's last step, or of the last before it was
// resumed: it carries what was used until then.
func (a assistantMessage) last(end int64, status event.TurnStatus, fail *event.Error, u event.Usage) assistantMessage {
	a.Time.Completed = max(end, a.Time.Created)
	a.Cost, a.Tokens = u.CostUSD, tokensOf(u)
	if status == event.TurnComplete {
		a.Finish = finishStop
		return a
	}
	a.Error = turnError(status, fail)
	return a
}

func tokensOf(u event.Usage) tokens {
	return tokens{Total: u.Input + u.Output + u.Reasoning + u.CacheRead + u.CacheWrite, Input: u.Input, Output: u.Output, Reasoning: u.Reasoning,
		Cache: cache{Read: u.CacheRead, Write: u.CacheWrite}}
}

// messages is a turn as its messages, in order.
func (v view) messages(t *state.Turn) []messageWithParts {
	out := []messageWithParts{v.userWithParts(&t.Message, t.Message.System)}
	tv := v.of(&t.Message)
	var f folder
	var used event.Usage // when it was last resumed
	s := f.begin(t)
	parts := []any{tv.stepStart(s)}
	flush := func(s *step, info assistantMessage) {
		if info.Time.Completed > 0 {
			parts = append(parts, tv.stepFinish(s, info))
		}
		out = append(out, messageWithParts{Info: info, Parts: parts, id: s.id, created: s.start})
	}
	for _, p := range t.Parts {
		closed, failed := f.add(p), p.Notice != nil && p.Notice.Ended != nil
		if closed != nil {
			info := tv.assistant(closed)
			if failed {
				info = info.last(closed.end, event.TurnFailed, errorOf(p.Notice), p.Notice.Ended.Usage.Since(used))
				used = p.Notice.Ended.Usage
			} else {
				info = info.ended(closed)
			}
			flush(closed, info)
			parts = []any{tv.stepStart(f.cur)}
		}
		if failed {
			continue
		}
		if p.Kind == event.PartMessage {
			if p.Message != nil {
				out = append(out, v.userWithParts(p.Message, false))
			}
			continue
		}
		parts = append(parts, tv.part(f.cur, p))
	}
	info := tv.assistant(f.cur)
	if t.Status != event.TurnRunning {
		info = info.last(turnEnd(t), t.Status, t.Error, t.Usage.Since(used))
	}
	flush(f.cur, info)
	return out
}

// messageIDs name the messages of a turn that is gone, in order.
func messageIDs(g *event.GoneTurn) []string {
	t := &state.Turn{ID: g.ID, StartedAt: g.StartedAt, Message: g.Message}
	out := []string{userMessageID(&t.Message)}
	var f folder
	out = append(out, f.begin(t).id)
	for i := range g.Parts {
		p := &g.Parts[i]
		if closed := f.add(p); closed == nil {
			continue
		}
		if p.Kind == event.PartMessage && p.Message != nil {
			out = append(out, userMessageID(p.Message))
		}
		out = append(out, f.cur.id)
	}
	return out
}

func (v view) userWithParts(m *event.Message, synthetic bool) messageWithParts {
	info := v.user(m)
	return messageWithParts{Info: info, Parts: v.userParts(m, synthetic), id: info.ID, created: info.Time.Created}
}
