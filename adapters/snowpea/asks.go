package snowpea

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/policy"
	"github.com/polyhost/polyhost/transports/jsonrpc"
)

// asks are the approvals and questions that wait, and whom they were put to.
// The core decides which answer is the first; asks only carry and tell.
type asks struct {
	front *Front

	mu   sync.Mutex
	open map[id.ID]*ask
}

// ask is one open interaction.
type ask struct {
	track *track
	chat  id.ID
	name  string // the session as clients spell it
	owner string
	i     *event.Interaction
	// put are the connections it was put to, with what ends their call.
	put   map[*conn]context.CancelFunc
	timer *time.Timer
}

func newAsks(f *Front) *asks { return &asks{front: f, open: map[id.ID]*ask{}} }

type approvalRow struct {
	RequestID  string          `json:"requestId"`
	SessionID  string          `json:"sessionId"`
	Tool       string          `json:"tool"`
	Args       json.RawMessage `json:"args"`
	Risk       string          `json:"risk"`
	Note       string          `json:"note"`
	TimeoutSec float64         `json:"timeoutSec"`
	ScopeHint  string          `json:"scopeHint"`
	Site       *string         `json:"site"`
	Guard      *string         `json:"guard"`
}

type questionRow struct {
	RequestID  string     `json:"requestId"`
	SessionID  string     `json:"sessionId"`
	Questions  []question `json:"questions"`
	TimeoutSec float64    `json:"timeoutSec"`
}

type question struct {
	Question   string           `json:"question"`
	Header     string           `json:"header"`
	Options    []questionOption `json:"options"`
	Multi      bool             `json:"multi"`
	AllowOther bool             `json:"allowOther"`
	Secret     bool             `json:"secret"`
}

type questionOption struct {
	Label       string `json:"label"`
	Description string `json:"description"`
	Preview     string `json:"preview"`
}

type pending struct {
	Request       any     `json:"request"`
	HostToolsFrom *string `json:"hostToolsFrom"`
}

// opened puts an interaction to the session's origin, and to everybody where
// the protocol says so.
func (a *asks) opened(t *track, i *event.Interaction) {
	if i.Kind == event.ClientCall {
		a.front.invoke(t, i)
		return
	}
	if i.Kind != event.Approval && i.Kind != event.Question {
		return
	}
	t.mu.Lock()
	k := &ask{track: t, chat: i.Chat, name: t.fold.name(i.Chat), owner: t.fold.Owner, i: i, put: map[*conn]context.CancelFunc{}}
	origin := t.origin(i.Chat)
	t.mu.Unlock()
	a.mu.Lock()
	a.open[i.ID] = k
	k.timer = a.expiry(k)
	a.mu.Unlock()
	if i.Kind == event.Question || origin == nil {
		a.tell(k, origin)
	}
	if origin != nil {
		a.ask(k, origin)
	}
}

// expiry ends a wait that the settings make shorter than the core's.
func (a *asks) expiry(k *ask) *time.Timer {
	wait := a.front.wait(k.i.Kind)
	if !k.i.ExpiresAt.IsZero() && !time.Now().Add(wait).Before(k.i.ExpiresAt) {
		return nil
	}
	return time.AfterFunc(time.Until(k.i.OpenedAt.Add(wait)), func() {
		a.front.background(func(ctx context.Context) {
			if s, err := a.front.host.Session(ctx, k.track.id); err == nil {
				a.note(k, s.Expire(ctx, k.i.ID))
			}
		})
	})
}

// wait is how long a person may take, by the settings.
func (f *Front) wait(kind event.InteractionKind) time.Duration {
	section, sec := "approvals", defaultApprovalSec
	if kind == event.Question {
		section, sec = "questions", defaultQuestionSec
	}
	return time.Duration(max(1, f.settings.integer(section, "timeoutSec", sec))) * time.Second
}

// tell announces an interaction to everybody but its origin.
func (a *asks) tell(k *ask, origin *conn) {
	method := "approval.pending"
	if k.i.Kind == event.Question {
		method = "question.pending"
	}
	a.front.broadcast(method, pending{k.row(a.front), ptr(k.owner)}, func(c *conn) bool { return c == origin })
}

func (k *ask) row(f *Front) any {
	if k.i.Kind == event.Question {
		return k.question(f)
	}
	return k.approval(f)
}

func (k *ask) timeout(f *Front) float64 {
	wait := f.wait(k.i.Kind)
	if !k.i.ExpiresAt.IsZero() {
		wait = min(wait, k.i.ExpiresAt.Sub(k.i.OpenedAt))
	}
	return math.Round(wait.Seconds())
}

func (k *ask) approval(f *Front) approvalRow {
	r := approvalRow{RequestID: k.i.ID.String(), SessionID: k.name, Tool: k.i.Tool, Args: argsOf(k.i.Input),
		Risk: policy.Risk(k.i.Tag), TimeoutSec: k.timeout(f), ScopeHint: string(event.ScopeOnce)}
	if k.i.Tag == event.TagConfig {
		r.Note = "changes settings"
	}
	return r
}

func (k *ask) question(f *Front) questionRow {
	r := questionRow{RequestID: k.i.ID.String(), SessionID: k.name, TimeoutSec: k.timeout(f), Questions: make([]question, len(k.i.Questions))}
	for n, q := range k.i.Questions {
		options := make([]questionOption, len(q.Options))
		for m, o := range q.Options {
			options[m] = questionOption{Label: o.Label, Description: o.Description}
		}
		r.Questions[n] = question{Question: q.Text, Header: q.Header, Options: options, Multi: q.Multiple,
			AllowOther: q.FreeText, Secret: q.Secret}
	}
	return r
}

// ask calls a connection and settles with what it says. A client that cannot
// answer denies or declines; one that goes away leaves it to the others.
func (a *asks) ask(k *ask, c *conn) {
	ctx, cancel := context.WithCancel(c.ctx)
	if !k.i.ExpiresAt.IsZero() {
		ctx, cancel = context.WithDeadline(c.ctx, k.i.ExpiresAt)
	}
	a.mu.Lock()
	if _, asked := k.put[c]; asked || a.open[k.i.ID] != k {
		a.mu.Unlock()
		cancel()
		return
	}
	k.put[c] = cancel
	a.mu.Unlock()
	c.spawn(func(context.Context) {
		defer cancel()
		method := "approval.request"
		if k.i.Kind == event.Question {
			method = "question.request"
		}
		b, err := c.peer.Call(ctx, method, k.row(a.front))
		var refused *jsonrpc.Error
		var res event.Resolution
		switch {
		case err == nil:
			res = k.reading(b)
		case errors.As(err, &refused):
			res = event.Resolution{Outcome: event.Denied}
			if k.i.Kind == event.Question {
				res.Outcome = event.Declined
			}
			res.Reason = "the client cannot ask a person"
		default:
			return // settled elsewhere, timed out, or the connection is gone
		}
		res.By = c.answerer()
		a.settle(context.WithoutCancel(ctx), k, res)
	})
}

// reading turns a client's answer into a resolution; what is no clear yes is a no.
func (k *ask) reading(b []byte) event.Resolution {
	if k.i.Kind == event.Question {
		var r struct {
			Answers []answer `json:"answers"`
		}
		if err := json.Unmarshal(b, &r); err != nil {
			return event.Resolution{Outcome: event.Declined}
		}
		res, err := k.answers(r.Answers)
		if err != nil {
			return event.Resolution{Outcome: event.Declined}
		}
		return res
	}
	var r struct {
		Decision string `json:"decision"`
		Scope    string `json:"scope"`
		Reason   string `json:"reason"`
	}
	if json.Unmarshal(b, &r) != nil || r.Decision != "allow" {
		return event.Resolution{Outcome: event.Denied, Reason: r.Reason}
	}
	return k.allowed(r.Scope)
}

// allowed is a yes, with a scope that this request may have.
func (k *ask) allowed(scope string) event.Resolution {
	s := event.Scope(scope)
	if !slices.Contains(k.i.Scopes, s) {
		s = event.ScopeOnce
	}
	return event.Resolution{Outcome: event.Allowed, Scope: s}
}

// answer is a person's answer to one question of a batch.
type answer struct {
	Selected []string `json:"selected"`
	Text     *string  `json:"text"`
}

// answers fits answers to the questions of a batch, by position.
func (k *ask) answers(given []answer) (event.Resolution, error) {
	res := event.Resolution{Outcome: event.Declined}
	if len(given) > len(k.i.Questions) {
		return res, invalid("answers", "there are %d questions", len(k.i.Questions))
	}
	res.Answers = make([]event.Answer, len(k.i.Questions))
	for n, q := range k.i.Questions {
		res.Answers[n].ID = q.ID
		if n >= len(given) {
			continue
		}
		g := given[n]
		for _, label := range g.Selected {
			if !slices.ContainsFunc(q.Options, func(o event.QuestionOption) bool { return o.Label == label }) {
				return res, invalid("answers", "%q is no option of question %d", cut(label, 80), n+1)
			}
		}
		if len(g.Selected) > 1 && !q.Multiple {
			return res, invalid("answers", "question %d takes one option", n+1)
		}
		text := deref(g.Text)
		if blank(text) {
			text = ""
		}
		if len(g.Selected) > 0 || text != "" {
			res.Outcome = event.Answered
		}
		res.Answers[n].Selected, res.Answers[n].Text = g.Selected, text
	}
	if res.Outcome == event.Declined {
		res.Answers = nil
	}
	return res, nil
}

// settle hands a resolution to the core. One that comes second is dropped.
func (a *asks) settle(ctx context.Context, k *ask, res event.Resolution) {
	a.note(k, a.resolve(ctx, k, res))
}

func (a *asks) note(k *ask, err error) {
	if err != nil && !errors.Is(err, host.ErrResolved) && !errors.Is(err, host.ErrNotFound) {
		a.front.log.Warn("An answer did not reach the session", "session", k.track.id.String(), "request", k.i.ID.String(), "err", err)
	}
}

func (a *asks) resolve(ctx context.Context, k *ask, res event.Resolution) error {
	s, err := a.front.host.Session(ctx, k.track.id)
	if err != nil {
		return err
	}
	return s.Resolve(ctx, k.i.ID, res)
}

type approvalResolved struct {
	RequestID string `json:"requestId"`
	Decision  string `json:"decision"`
	By        string `json:"by"`
}

type questionResolved struct {
	RequestID string `json:"requestId"`
	By        string `json:"by"`
}

// resolved tells how an interaction ended: an approval to everybody but the
// connection that settled it as the origin, a question to everybody.
func (a *asks) resolved(t *track, chat id.ID, b *event.InteractionResolved) {
	if b.Of == event.ClientCall {
		a.front.settledCall(t, b, chat)
		return
	}
	a.mu.Lock()
	k := a.open[b.ID]
	delete(a.open, b.ID)
	var winner *conn
	if k != nil {
		if k.timer != nil {
			k.timer.Stop()
		}
		answered := b.Resolution.Outcome != event.Cancelled && b.Resolution.Outcome != event.Expired
		for c, cancel := range k.put {
			if answered && b.Resolution.By.Front == frontName && b.Resolution.By.Client == c.surface {
				winner = c
			}
			cancel()
		}
	}
	a.mu.Unlock()
	by := resolvedBy(b.Resolution, winner != nil)
	switch b.Of {
	case event.Approval:
		decision := "deny"
		if b.Resolution.Outcome == event.Allowed {
			decision = "allow"
		}
		a.front.broadcast("approval.resolved", approvalResolved{b.ID.String(), decision, by},
			func(c *conn) bool { return c == winner })
	case event.Question:
		a.front.broadcast("question.resolved", questionResolved{b.ID.String(), by}, nil)
	}
}

// resolvedBy names who settled.
func resolvedBy(r event.Resolution, origin bool) string {
	switch {
	case origin:
		return "origin"
	case r.Outcome == event.Expired:
		return "timeout"
	case r.Outcome == event.Cancelled:
		return "interrupted"
	case r.By.Front == frontName:
		return r.By.Client
	}
	name := r.By.Front
	if r.By.Client != "" {
		name += ":" + r.By.Client
	}
	return cmp.Or(name, event.Gateway.Front)
}

// moved puts what is open in a session to its new origin.
func (a *asks) moved(t *track) {
	a.mu.Lock()
	var waiting []*ask
	for _, k := range a.open {
		if k.track == t {
			waiting = append(waiting, k)
		}
	}
	a.mu.Unlock()
	for _, k := range waiting {
		t.mu.Lock()
		origin := t.origin(k.chat)
		t.mu.Unlock()
		if origin != nil {
			a.ask(k, origin)
		}
	}
}

// left tells the others of what only a connection that is gone was asked.
func (a *asks) left(c *conn) {
	a.mu.Lock()
	var orphans []*ask
	for _, k := range a.open {
		if cancel, ok := k.put[c]; ok {
			cancel()
			delete(k.put, c)
			if len(k.put) == 0 && k.i.Kind == event.Approval {
				orphans = append(orphans, k)
			}
		}
	}
	a.mu.Unlock()
	for _, k := range orphans {
		a.tell(k, nil)
	}
}

// list gives the open interactions of a kind, oldest first.
func (a *asks) list(kind event.InteractionKind, session string) []*ask {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := []*ask{}
	for _, k := range a.open {
		if k.i.Kind == kind && (session == "" || k.name == session) {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(x, y *ask) int { return x.i.ID.Compare(y.i.ID) })
	return out
}

// find returns an open interaction by the id clients use.
func (a *asks) find(kind event.InteractionKind, request string) (*ask, error) {
	if x, err := id.Parse(request); err == nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		if k := a.open[x]; k != nil && k.i.Kind == kind {
			return k, nil
		}
	}
	return nil, fail(codeNotFound, "no open %s %q", kind, cut(request, 60))
}
