package host

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/policy"
)

// policyCall is what the policy looks at of a call.
func (s *Session) policyCall(r *run, c *call) policy.Call {
	settings := merged(s.work.Info.Settings, r.agentOf().message.Settings)
	dirs := s.dirs(r)
	return policy.Call{Mode: settings.Mode, DenyExec: settings.DenyExec, Tag: c.tool.Tag, Tool: c.tool.Name,
		Command: c.tool.Command, Paths: absolute(dirs, c.tool.Paths), Dirs: dirs, MustAsk: c.tool.MustAsk}
}

func (s *Session) allowed(c policy.Call) bool {
	return slices.ContainsFunc(s.remember, func(p string) bool { return policy.Matches(p, c) }) || s.host.allow.Covers(c)
}

// permission settles an agent's question whether a call may run, or asks. That
// the call was allowed before, or runs, settles nothing: the agent would not ask
// again about what it may do already.
func (s *Session) permission(r *run, c *call, f *agentFrame) {
	r.ready(c)
	if s.ownTool(r, c) != nil { // decided on when the agent calls
		r.answer(f.Request, event.Resolution{Outcome: event.Allowed, By: event.Gateway, Scope: event.ScopeOnce})
		return
	}
	if owner, ok := s.servedTool(r, c); ok { // the client decides whether it runs its tool
		if !c.running {
			c.running = true
			r.emit(&event.ToolRunning{Part: c.part, Allowed: "client", By: owner})
		}
		r.answer(f.Request, event.Resolution{Outcome: event.Allowed, By: event.Gateway, Scope: event.ScopeOnce})
		return
	}
	s.decide(r, &request{id: f.Request, kind: event.Approval, call: c})
}

// decide allows or refuses what a request is about, or asks a person.
func (s *Session) decide(r *run, q *request) {
	c := q.call
	d := policy.Decide(s.policyCall(r, c), s.allowed)
	switch d.Verdict {
	case policy.Allow:
		s.allow(r, q, d.By, event.Resolution{Outcome: event.Allowed, By: event.Gateway, Scope: event.ScopeOnce})
	case policy.Deny:
		s.refuse(r, q, event.Refusal{Code: refusalCode(d), Reason: d.Why, By: event.Gateway})
	default:
		i := event.Interaction{ID: id.New(), Kind: event.Approval, Chat: r.chat, Turn: r.turn, Part: c.part, OpenedAt: s.at,
			ExpiresAt: s.at.Add(s.host.opt.ApprovalTimeout), Call: c.id, Tool: c.tool.Name, Title: c.tool.Title,
			Input: c.tool.Input, Tag: c.tool.Tag, Edits: clipEdits(c.tool.Edits), Why: d.Why, Pattern: d.Pattern,
			Scopes: []event.Scope{event.ScopeOnce}}
		if d.Pattern != "" && !(q.own && c.tool.MustAsk) {
			i.Scopes = append(i.Scopes, event.ScopeSession, event.ScopeProject, event.ScopeAlways)
		}
		r.requests[i.ID] = q
		r.emit(&event.InteractionOpened{Interaction: i})
	}
}

// refusalCode says which rule a denial of the policy follows.
func refusalCode(d policy.Decision) string {
	if d.By == policy.BySession {
		return event.RefusedExec
	}
	return event.RefusedByMode
}

// allow lets a call run.
func (s *Session) allow(r *run, q *request, how string, res event.Resolution) {
	c := q.call
	c.running = true
	running := &event.ToolRunning{Part: c.part, Allowed: how, By: res.By, Input: object(res.Input)}
	if running.Input != nil {
		c.tool.Input = running.Input
	}
	r.emit(running)
	if q.own {
		s.runOwn(r, q)
		return
	}
	r.answer(q.id, res)
}

// refuse ends a call that may not run. The agent hears why and goes on, unless
// the message allows no more refusals.
func (s *Session) refuse(r *run, q *request, why event.Refusal) {
	c := q.call
	for key, open := range r.calls {
		if open == c {
			delete(r.calls, key)
		}
	}
	text := why.Reason
	if text == "" {
		text = "the call was not allowed"
	}
	r.emit(&event.ToolEnded{Part: c.part, Status: event.CallDenied, Error: text, Refused: &why})
	root := r.agentOf()
	if why.Code != event.RefusedExec { // nobody judged the call: the agent is to learn that there is no shell
		root.refusals++
	}
	if limit := root.message.Refusals; limit > 0 && root.refusals >= limit {
		s.silence(root)
		s.end(root, event.TurnFailed, &event.Error{Code: event.CodeRefusals, Message: "too many calls were refused"}, event.Gateway)
		if q.reply != nil {
			r.reply(q, event.Resolution{Outcome: event.Denied, By: why.By, Reason: text})
		}
		return
	}
	r.reply(q, event.Resolution{Outcome: event.Denied, By: why.By, Reason: text})
}

// reply tells the agent how a request was settled, on the way it came.
func (r *run) reply(q *request, res event.Resolution) {
	if q.reply != nil {
		q.reply <- res // has room for the one answer
		return
	}
	r.answer(q.id, res)
}

// ask opens a batch of questions.
func (s *Session) ask(r *run, f *agentFrame) {
	r.closeText()
	i := event.Interaction{ID: id.New(), Kind: event.Question, Chat: r.chat, Turn: r.turn, OpenedAt: s.at,
		ExpiresAt: s.at.Add(s.host.opt.QuestionTimeout), Questions: f.Questions}
	q := &request{id: f.Request, kind: event.Question}
	if c := r.calls[f.Call]; c != nil {
		r.ready(c)
		q.call, i.Part, i.Call, i.Tool = c, c.part, c.id, c.name
	}
	r.requests[i.ID] = q
	r.emit(&event.InteractionOpened{Interaction: i})
}

// clientCall hands a call to the client that provides the tool.
func (s *Session) clientCall(r *run, c *call, f *agentFrame) {
	r.ready(c)
	if s.ownTool(r, c) != nil {
		c.own = true
		s.decide(r, &request{id: f.Request, kind: event.ClientCall, call: c, own: true})
		return
	}
	owner, ok := s.toolOwner(r, c.tool.Name)
	if !ok {
		r.answer(f.Request, event.Resolution{Outcome: event.Completed, By: event.Gateway, Failed: true,
			Output: "no client offers the tool " + c.tool.Name})
		return
	}
	s.openClientCall(r, c, owner, &request{id: f.Request, kind: event.ClientCall, call: c})
}

// openClientCall asks the client to run its tool.
func (s *Session) openClientCall(r *run, c *call, owner event.Actor, q *request) id.ID {
	c.client = owner
	if !c.running {
		c.running = true
		r.emit(&event.ToolRunning{Part: c.part, Allowed: "client", By: owner})
	}
	i := event.Interaction{ID: id.New(), Kind: event.ClientCall, Chat: r.chat, Turn: r.turn, Part: c.part, OpenedAt: s.at,
		Call: c.id, Tool: c.tool.Name, Title: c.tool.Title, Input: c.tool.Input, Tag: c.tool.Tag, Client: owner}
	r.requests[i.ID] = q
	r.emit(&event.InteractionOpened{Interaction: i})
	return i.ID
}

// settle resolves an open interaction and does what follows from it.
func (s *Session) settle(i *event.Interaction, res event.Resolution) {
	r := s.chats[i.Chat]
	stored := res
	if i.Kind == event.Question {
		stored.Answers = withoutSecrets(i.Questions, res.Answers)
	}
	s.emit(i.Chat, i.Turn, &event.InteractionResolved{ID: i.ID, Of: i.Kind, Part: i.Part, Resolution: stored})
	s.forgetSettled(i.ID)
	if r == nil || r.requests[i.ID] == nil {
		return
	}
	q := r.requests[i.ID]
	delete(r.requests, i.ID)
	switch {
	case i.Kind == event.SignIn:
		s.signedIn(r, i, res)
	case q.reply != nil && !q.own:
		r.reply(q, res)
		if q.made {
			s.toolEnd(r, q.call, resultOf(res))
		}
	case i.Kind != event.Approval:
		r.answer(q.id, res)
	case res.Outcome == event.Allowed:
		s.remembered(i, q.call, res)
		s.allow(r, q, "person", res)
		s.recheck()
	case res.Outcome == event.Denied:
		s.refuse(r, q, event.Refusal{Code: event.RefusedByPerson, Reason: res.Reason, By: res.By})
	case res.Outcome == event.Expired:
		s.refuse(r, q, event.Refusal{Code: event.RefusedTimeout, Reason: "nobody answered in time", By: res.By})
	default:
		r.reply(q, res)
		if q.made {
			s.toolEnd(r, q.call, resultOf(res))
		}
	}
}

// remembered keeps what a wider answer allows.
func (s *Session) remembered(i *event.Interaction, c *call, res event.Resolution) {
	if i.Pattern == "" || res.Scope == event.ScopeOnce || res.Scope == "" {
		return
	}
	if !slices.Contains(s.remember, i.Pattern) {
		s.remember = append(s.remember, i.Pattern)
	}
	if res.Scope == event.ScopeSession {
		return
	}
	e := policy.Entry{Kind: policy.EntryRemembered, Scope: res.Scope, Pattern: i.Pattern, By: res.By}
	if res.Scope == event.ScopeProject {
		e.Dir = s.work.Info.Dirs[0]
	}
	s.host.wg.Go(func() { // the store may be slow; the answer holds for this session at once
		if _, err := s.host.allow.Add(e); err != nil {
			s.log.Error("An allow-list entry could not be stored", "pattern", e.Pattern, "err", err)
			return
		}
		s.host.everywhere((*Session).recheck)
	})
}

// recheck settles the pending approvals that the policy allows by now.
func (s *Session) recheck() {
	for _, i := range s.work.Open {
		r := s.chats[i.Chat]
		if i.Kind != event.Approval || r == nil || r.requests[i.ID] == nil {
			continue
		}
		q := r.requests[i.ID]
		switch d := policy.Decide(s.policyCall(r, q.call), s.allowed); d.Verdict {
		case policy.Allow:
			s.emitSettled(i, event.Resolution{Outcome: event.Allowed, By: event.Gateway, Scope: event.ScopeOnce})
			delete(r.requests, i.ID)
			s.allow(r, q, d.By, event.Resolution{Outcome: event.Allowed, By: event.Gateway, Scope: event.ScopeOnce})
		case policy.Deny:
			s.emitSettled(i, event.Resolution{Outcome: event.Denied, By: event.Gateway, Reason: d.Why})
			delete(r.requests, i.ID)
			s.refuse(r, q, event.Refusal{Code: refusalCode(d), Reason: d.Why, By: event.Gateway})
		}
	}
}

func (s *Session) emitSettled(i *event.Interaction, res event.Resolution) {
	s.emit(i.Chat, i.Turn, &event.InteractionResolved{ID: i.ID, Of: i.Kind, Part: i.Part, Resolution: res})
	s.forgetSettled(i.ID)
}

// everywhere has every live session do something, beside what else it does.
func (h *Host) everywhere(do func(*Session)) {
	h.mu.RLock()
	sessions := make([]*Session, 0, len(h.live))
	for _, s := range h.live {
		sessions = append(sessions, s)
	}
	h.mu.RUnlock()
	for _, s := range sessions {
		select {
		case s.urgent <- func() { do(s) }:
		case <-s.gone:
		case <-h.ctx.Done():
			return
		}
	}
}

// forgetSettled remembers that an interaction was settled, up to a bound.
func (s *Session) forgetSettled(i id.ID) {
	s.settled[i] = true
	s.settledAt = append(s.settledAt, i)
	if len(s.settledAt) > MaxSettled {
		delete(s.settled, s.settledAt[0])
		s.settledAt = s.settledAt[1:]
	}
}

// nextDue is when the first open interaction expires, or the list is told what the
// session does.
func (s *Session) nextDue() time.Time {
	first := s.tellAt
	for _, i := range s.work.Open {
		if !i.ExpiresAt.IsZero() && (first.IsZero() || i.ExpiresAt.Before(first)) {
			first = i.ExpiresAt
		}
	}
	return first
}

// due does what is to be done by now.
func (s *Session) due() {
	if !s.tellAt.IsZero() && !s.tellAt.After(s.at) {
		s.tell()
	}
	for _, i := range s.work.Open {
		if !i.ExpiresAt.IsZero() && !i.ExpiresAt.After(s.at) {
			s.settle(i, expired)
		}
	}
}

var expired = event.Resolution{Outcome: event.Expired, By: event.Gateway, Reason: "nobody answered in time"}

// Expire ends the wait for an answer before its time: for fronts whose
// settings give people less. Errors are those of Resolve.
func (s *Session) Expire(ctx context.Context, interaction id.ID) error {
	return s.do(ctx, true, func(s *Session) error {
		i, err := s.unsettled(interaction)
		if err == nil {
			s.settle(i, expired)
		}
		return err
	})
}

// unsettled finds an open interaction.
func (s *Session) unsettled(interaction id.ID) (*event.Interaction, error) {
	if i := s.work.Interaction(interaction); i != nil {
		return i, nil
	}
	if s.settled[interaction] {
		return nil, fmt.Errorf("interaction %s: %w", interaction, ErrResolved)
	}
	return nil, fmt.Errorf("interaction %s: %w", interaction, ErrNotFound)
}

// Resolve settles an interaction. The first answer wins: later ones get
// ErrResolved, unknown ids ErrNotFound, answers that do not fit ErrInvalid.
func (s *Session) Resolve(ctx context.Context, interaction id.ID, res event.Resolution) error {
	return s.do(ctx, true, func(s *Session) error {
		i, err := s.unsettled(interaction)
		if err == nil {
			err = fits(i, &res)
		}
		if err == nil {
			s.settle(i, res)
		}
		return err
	})
}

// fits checks an answer against what was asked, and fills in defaults.
func fits(i *event.Interaction, res *event.Resolution) error {
	ok := false
	switch i.Kind {
	case event.Approval:
		ok = res.Outcome == event.Allowed || res.Outcome == event.Denied
		if res.Outcome == event.Allowed {
			if res.Scope == "" {
				res.Scope = event.ScopeOnce
			}
			if !slices.Contains(i.Scopes, res.Scope) {
				res.Scope = event.ScopeOnce // what cannot be remembered is allowed this time
			}
			if res.Input != nil && object(res.Input) == nil {
				return fmt.Errorf("%w: the changed input is no JSON object", ErrInvalid)
			}
		}
	case event.Question, event.SignIn:
		ok = res.Outcome == event.Answered || res.Outcome == event.Declined
		if err := fitAnswers(i, res); err != nil {
			return err
		}
	case event.ClientCall:
		ok = res.Outcome == event.Completed
		res.Output, _ = clipOutput(res.Output)
	}
	if !ok {
		return fmt.Errorf("%w: a %s cannot end as %q", ErrInvalid, i.Kind, res.Outcome)
	}
	return nil
}

func fitAnswers(i *event.Interaction, res *event.Resolution) error {
	if res.Outcome == event.Declined {
		res.Answers = nil
		return nil
	}
	for n := range res.Answers {
		a := &res.Answers[n]
		at := slices.IndexFunc(i.Questions, func(q event.QuestionItem) bool { return q.ID == a.ID })
		if at < 0 {
			return fmt.Errorf("%w: there is no question %q", ErrInvalid, a.ID)
		}
		q := i.Questions[at]
		if len(a.Text) > MaxPrompt {
			return fmt.Errorf("answer %q: %w", a.ID, ErrTooLarge)
		}
		if len(a.Selected) > 1 && !q.Multiple {
			return fmt.Errorf("%w: question %q takes one option", ErrInvalid, a.ID)
		}
		for _, label := range a.Selected {
			if !slices.ContainsFunc(q.Options, func(o event.QuestionOption) bool { return o.Label == label }) {
				return fmt.Errorf("%w: question %q has no option %.80q", ErrInvalid, a.ID, label)
			}
		}
	}
	return nil
}

// withoutSecrets is what may be stored of answers.
func withoutSecrets(questions []event.QuestionItem, answers []event.Answer) []event.Answer {
	out := slices.Clone(answers)
	for i := range out {
		for _, q := range questions {
			if q.ID == out[i].ID && q.Secret && out[i].Text != "" {
				out[i].Text = "[not stored]"
			}
		}
	}
	return out
}

// ClientGone takes the tools of a client back and fails the calls that it
// was running.
func (s *Session) ClientGone(ctx context.Context, client event.Actor) error {
	return s.do(ctx, false, func(s *Session) error {
		for _, i := range s.work.Open {
			if i.Kind == event.ClientCall && sameClient(i.Client, client) {
				s.settle(i, event.Resolution{Outcome: event.Completed, By: event.Gateway, Failed: true,
					Output: "the client that runs this tool has left"})
			}
		}
		if slices.ContainsFunc(s.work.Tools, func(t event.ClientToolsSet) bool { return sameClient(t.Client, client) }) {
			s.emit(id.Nil, id.Nil, &event.ClientToolsSet{Client: client})
			s.offerTools()
		}
		return nil
	})
}

func sameClient(a, b event.Actor) bool { return a.Front == b.Front && a.Client == b.Client }
