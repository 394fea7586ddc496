package zidane

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/policy"
	"github.com/polyhost/polyhost/core/state"
)

// asked knows the session of each interaction, because the protocol answers
// them by their own id alone. The newest settled ones stay known.
type asked struct {
	mu      sync.Mutex
	session map[id.ID]id.ID
	settle  []id.ID
}

func newAsked() *asked { return &asked{session: map[id.ID]id.ID{}} }

func (a *asked) opened(session id.ID, i *event.Interaction) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.session[i.ID] = session
}

func (a *asked) settled(i id.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.session[i]; !ok {
		return
	}
	a.settle = append(a.settle, i)
	if len(a.settle) > settledKept {
		delete(a.session, a.settle[0])
		a.settle = a.settle[1:]
	}
}

func (a *asked) find(i id.ID) (session id.ID, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	session, ok = a.session[i]
	return session, ok
}

// asks is an open interaction with where it belongs.
type asks struct {
	wire id.ID
	i    *event.Interaction
}

// open lists the open interactions of a session, or of all, oldest first.
func (c *call) open(ctx context.Context, wire string, take func(event.InteractionKind) bool) ([]asks, error) {
	var out []asks
	add := func(st *state.State, only id.ID) {
		for _, i := range st.Open {
			if (only.IsNil() || i.Chat == only) && take(i.Kind) {
				c.asked.opened(st.Info.ID, i) // it may be answered before its signal was made
				out = append(out, asks{wireID(st.Info.ID, st.Default, i.Chat), i})
			}
		}
	}
	if wire != "" {
		s, chat, err := c.session(ctx, wire)
		if err != nil {
			return nil, err
		}
		st := s.State()
		if chat == st.Default {
			chat = id.Nil // also those of its subagents
		}
		add(st, chat)
	} else {
		for _, sum := range c.host.List(host.Filter{IncludeClosed: true, IncludeArchived: true}) {
			if !sum.MayAsk() {
				continue
			}
			if s, err := c.host.Session(ctx, sum.Info.ID); err == nil {
				add(s.State(), id.Nil)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b asks) int { return a.i.OpenedAt.Compare(b.i.OpenedAt) })
	return out, nil
}

type maybeRef struct {
	SessionID string `json:"sessionId"`
}

func approvalsList(ctx context.Context, c *call, p maybeRef) (any, error) {
	open, err := c.open(ctx, p.SessionID, func(k event.InteractionKind) bool { return k == event.Approval })
	return struct {
		Approvals []interactionObject `json:"approvals"`
	}{objectsOfAsks(open)}, err
}

func interactionsList(ctx context.Context, c *call, p maybeRef) (any, error) {
	open, err := c.open(ctx, p.SessionID, forPeople)
	return struct {
		Interactions []interactionObject `json:"interactions"`
	}{objectsOfAsks(open)}, err
}

func objectsOfAsks(open []asks) []interactionObject {
	out := make([]interactionObject, 0, len(open))
	for _, a := range open {
		out = append(out, interactionOf(a.wire, a.i))
	}
	return out
}

// resolve settles an interaction of some session. The first answer counts.
func (c *call) resolve(ctx context.Context, what, interaction string, fit func(*event.Interaction) (event.Resolution, error)) (any, error) {
	x, err := id.Parse(interaction)
	session, known := c.asked.find(x)
	if err != nil || !known {
		return nil, failed("No %s \"%s\" is open.", what, shown(interaction))
	}
	s, err := c.host.Session(ctx, session)
	if err != nil {
		return nil, err
	}
	answered := failed("The %s \"%s\" was already answered.", what, shown(interaction))
	i := s.State().Interaction(x)
	if i == nil {
		return nil, answered
	}
	r, err := fit(i)
	if err != nil {
		return nil, err
	}
	r.By = c.conn.by
	switch err := s.Resolve(ctx, x, r); {
	case errors.Is(err, host.ErrResolved), errors.Is(err, host.ErrNotFound):
		return nil, answered
	case err != nil:
		return nil, err
	}
	return okResult{true}, nil
}

type decideParams struct {
	ID       string `json:"id" jsonx:"required"`
	Decision string `json:"decision" jsonx:"required"`
	Always   bool   `json:"always"`
	Reason   string `json:"reason"`
}

func approvalsAnswer(ctx context.Context, c *call, p decideParams) (any, error) {
	r := event.Resolution{Reason: p.Reason}
	switch p.Decision {
	case "allow":
		r.Outcome, r.Scope = event.Allowed, event.ScopeOnce
		if p.Always {
			r.Scope = event.ScopeProject
		}
	case "deny":
		r.Outcome = event.Denied
	default:
		return nil, badField("decision", "want allow or deny")
	}
	if len(p.Reason) > maxText {
		return nil, badField("reason", "longer than %d bytes", maxText)
	}
	return c.resolve(ctx, "approval", p.ID, func(i *event.Interaction) (event.Resolution, error) {
		if i.Kind != event.Approval {
			return r, failed("\"%s\" is a question, not an approval.", shown(p.ID))
		}
		return r, nil
	})
}

type answerParams struct {
	ID      string        `json:"id" jsonx:"required"`
	Answers []answerParam `json:"answers" jsonx:"required"`
}

type answerParam struct {
	Selected []string `json:"selected"`
	Text     string   `json:"text"`
}

// interactionsAnswer answers a batch of questions in their order; no answers
// decline it. An approval is answered by selecting allow or deny.
func interactionsAnswer(ctx context.Context, c *call, p answerParams) (any, error) {
	return c.resolve(ctx, "interaction", p.ID, func(i *event.Interaction) (event.Resolution, error) {
		if i.Kind == event.Approval {
			if len(p.Answers) == 1 && len(p.Answers[0].Selected) == 1 {
				switch p.Answers[0].Selected[0] {
				case "allow":
					return event.Resolution{Outcome: event.Allowed, Scope: event.ScopeOnce, Reason: p.Answers[0].Text}, nil
				case "deny":
					return event.Resolution{Outcome: event.Denied, Reason: p.Answers[0].Text}, nil
				}
			}
			return event.Resolution{}, badField("answers", "want one with allow or deny selected")
		}
		return fitAnswers(i, p.Answers)
	})
}

func fitAnswers(i *event.Interaction, answers []answerParam) (event.Resolution, error) {
	if len(answers) > len(i.Questions) {
		return event.Resolution{}, badField("answers", "there are %d, and %d questions", len(answers), len(i.Questions))
	}
	r := event.Resolution{Outcome: event.Declined}
	for n, a := range answers {
		q := &i.Questions[n]
		if len(a.Selected) == 0 && a.Text == "" {
			continue
		}
		for k, label := range a.Selected {
			if !slices.ContainsFunc(q.Options, func(o event.QuestionOption) bool { return o.Label == label }) {
				return r, badField(indexed("answers", n)+"."+indexed("selected", k), "it is none of the options")
			}
		}
		if len(a.Selected) > 1 && !q.Multiple {
			return r, badField(indexed("answers", n)+".selected", "the question takes one option")
		}
		r.Outcome = event.Answered
		r.Answers = append(r.Answers, event.Answer{ID: q.ID, Selected: a.Selected, Text: a.Text})
	}
	return r, nil
}

type safelistEntry struct {
	ID        string `json:"id"`
	Tool      string `json:"tool"`
	Pattern   string `json:"pattern"`
	Scope     string `json:"scope"`
	CreatedAt int64  `json:"createdAt"`
}

type folder struct {
	Cwd *string `json:"cwd" jsonx:"required"`
}

func safelistList(_ context.Context, c *call, p folder) (any, error) {
	dir, err := c.workDir(*p.Cwd)
	if err != nil {
		return nil, err
	}
	out := []safelistEntry{}
	for _, e := range c.host.Allowlist().List(dir) {
		out = append(out, safelistEntry{e.ID, toolOf(e), e.Pattern, string(e.Scope), e.CreatedAt.UnixMilli()})
	}
	return struct {
		Entries []safelistEntry `json:"entries"`
	}{out}, nil
}

// toolOf is the tool that an entry allows; entries for shell lines are the
// shell's.
func toolOf(e policy.Entry) string {
	if e.Kind == policy.EntryTool || e.Kind == policy.EntryRemembered && !slices.Contains([]byte(e.Pattern), ' ') {
		return e.Pattern
	}
	return "bash"
}

func safelistRevoke(_ context.Context, c *call, p struct {
	folder
	ID string `json:"id" jsonx:"required"`
}) (any, error) {
	dir, err := c.workDir(*p.Cwd)
	if err != nil {
		return nil, err
	}
	list := c.host.Allowlist()
	removed := false
	if slices.ContainsFunc(list.List(dir), func(e policy.Entry) bool { return e.ID == p.ID }) {
		removed, err = list.Remove(p.ID)
	}
	return struct {
		Removed bool `json:"removed"`
	}{removed}, err
}

type decision struct {
	ID       string `json:"id"`
	Kind     string `json:"kind"`
	Tool     string `json:"tool,omitempty"`
	Decision string `json:"decision"` // allow, deny
	By       string `json:"by"`
	Reason   string `json:"reason,omitempty"`
	At       int64  `json:"at"`
}

// decisionsList says of each call who or what let it run or refused it, newest
// first.
func decisionsList(ctx context.Context, c *call, p struct {
	ref
	Limit *int `json:"limit"`
}) (any, error) {
	limit, err := hitLimit(p.Limit)
	if err != nil {
		return nil, err
	}
	s, _, chat, err := c.chatOf(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	out := []decision{}
	end := chat.Count
	if chat.Active != nil {
		end++
	}
	err = eachTurn(ctx, s, chat, max(0, end-searchedTurns), end, func(t *state.Turn) error {
		for _, part := range t.Parts {
			if d, ok := decisionOf(part); ok {
				out = append(out, d)
			}
		}
		return nil
	})
	slices.Reverse(out)
	return struct {
		Decisions []decision `json:"decisions"`
	}{out[:min(limit, len(out))]}, err
}

func decisionOf(p *event.Part) (decision, bool) {
	if p.Tool == nil {
		return decision{}, false
	}
	d := decision{ID: p.ID.String(), Kind: "approval", Tool: p.Tool.Name}
	switch {
	case p.Tool.Refused != nil:
		d.Decision, d.By, d.Reason, d.At = "deny", actorName(p.Tool.Refused.By), p.Tool.Refused.Reason, p.EndedAt.UnixMilli()
	case p.Tool.Allowed != "":
		d.Decision, d.By, d.At = "allow", p.Tool.Allowed, p.Tool.RunningAt.UnixMilli()
	default:
		return d, false
	}
	return d, true
}
