package cognitio

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
)

type permissionReplied struct {
	SessionID string `json:"sessionID"`
	RequestID string `json:"requestID"`
	Reply     string `json:"reply"`
}

type questionReplied struct {
	SessionID string     `json:"sessionID"`
	RequestID string     `json:"requestID"`
	Answers   [][]string `json:"answers,omitempty"`
}

type controlCancelled struct {
	ID        string `json:"id"`
	SessionID string `json:"sessionID"`
	Reason    string `json:"reason"`
}

// The answers to a permission.
const (
	replyOnce   = "once"
	replyAlways = "always"
	replyReject = "reject"
)

// ask is a request that is open, and whether an SDK's callback was asked too.
type ask struct {
	*event.Interaction
	control bool
}

// opened asks everybody who listens. What the session's own rules settle is
// settled without asking.
func (p *projection) opened(c *liveChat, i *event.Interaction, st *state.State) {
	rules := rulesOf(&st.Info)
	p.asked[i.ID] = ask{i, rules.callback}
	switch i.Kind {
	case event.Approval:
		if outcome, reason := rules.decide(i, c.view.dir); outcome != "" {
			p.f.settle(p.session, i.ID, event.Resolution{Outcome: outcome, Scope: event.ScopeOnce, Reason: reason, By: ruleActor})
			return
		}
		p.send("permission.asked", c.permission(i))
		if rules.callback {
			p.send("control.request", controlOf(&st.Info, st.Default, i))
		}
	case event.Question, event.SignIn:
		p.send("question.asked", c.question(i))
	}
}

// resolved tells how a request ended, whoever ended it.
func (p *projection) resolved(c *liveChat, b *event.InteractionResolved) {
	i, ok := p.asked[b.ID]
	delete(p.asked, b.ID)
	if !ok {
		return
	}
	session := c.view.session
	switch i.Kind {
	case event.Approval:
		if b.Resolution.By == ruleActor {
			return // nobody here was asked
		}
		p.send("permission.replied", permissionReplied{session, i.ID.Cognitio(prefixPermission), replyOf(b.Resolution)})
		if i.control && b.Resolution.By.Client != controlClient {
			reason := "cancelled"
			if b.Resolution.Outcome == event.Expired {
				reason = "timeout"
			}
			p.send("control.cancelled", controlCancelled{i.ID.String(), sessionID(p.session.ID()), reason})
		}
	case event.Question, event.SignIn:
		ended := questionReplied{SessionID: session, RequestID: i.ID.Cognitio(prefixQuestion)}
		if b.Resolution.Outcome != event.Answered {
			p.send("question.rejected", ended)
			return
		}
		ended.Answers = answersOf(i.Questions, b.Resolution.Answers)
		p.send("question.replied", ended)
	}
}

func replyOf(r event.Resolution) string {
	switch {
	case r.Outcome != event.Allowed:
		return replyReject
	case r.Scope == "" || r.Scope == event.ScopeOnce:
		return replyOnce
	}
	return replyAlways
}

// answersOf are the answers in the order of the questions.
func answersOf(questions []event.QuestionItem, answers []event.Answer) [][]string {
	out := make([][]string, len(questions))
	for n, q := range questions {
		out[n] = []string{}
		for _, a := range answers {
			if a.ID == q.ID {
				out[n] = append(out[n], a.Selected...)
				if a.Text != "" {
					out[n] = append(out[n], a.Text)
				}
			}
		}
	}
	return out
}

// permission is what a live chat asks.
func (c *liveChat) permission(i *event.Interaction) permissionRequest {
	r := permissionOf(c.view, i)
	r.Tool = c.tool(i)
	return r
}

func (c *liveChat) question(i *event.Interaction) questionRequest {
	r := questionOf(c.view, i)
	r.Tool = c.tool(i)
	return r
}

func (c *liveChat) tool(i *event.Interaction) *toolRef {
	if c.turn == nil || i.Call == "" {
		return nil
	}
	if lp := c.turn.parts[i.Part]; lp != nil {
		return &toolRef{lp.step.id, i.Call}
	}
	return nil
}

// permissionNames are this protocol's words for what a call does.
var permissionNames = map[event.Tag]string{event.TagExec: "bash", event.TagWrite: "edit", event.TagRead: "read",
	event.TagNetwork: "webfetch", event.TagDelegate: "task"}

func permissionName(i *event.Interaction) string {
	if n := permissionNames[i.Tag]; n != "" {
		return n
	}
	return toolName(i.Tool)
}

// permissionOf is a permission without the call it belongs to.
func permissionOf(v view, i *event.Interaction) permissionRequest {
	r := permissionRequest{ID: i.ID.Cognitio(prefixPermission), SessionID: v.session, Permission: permissionName(i),
		Patterns: patternsOf(i, v.dir), Metadata: map[string]any{}, Always: []string{}}
	if len(i.Scopes) > 1 && i.Pattern != "" {
		always := i.Pattern
		if strings.HasPrefix(always, "tool:") {
			always = "*"
		}
		r.Always = append(r.Always, always)
	}
	if i.Tag == event.TagExec {
		r.Metadata["command"] = r.Patterns[0]
	}
	if len(i.Edits) > 0 {
		r.Metadata["filepath"], r.Metadata["diff"] = i.Edits[0].Path, joinPatches(i.Edits)
	}
	if i.Why != "" {
		r.Metadata["reason"] = i.Why
	}
	return r
}

// patternsOf says what a call is about: its command or its files.
func patternsOf(i *event.Interaction, dir string) []string {
	if len(i.Edits) > 0 {
		out := make([]string, 0, len(i.Edits))
		for _, e := range i.Edits {
			out = append(out, relative(dir, e.Path))
		}
		return out
	}
	var in struct {
		Command string `json:"command"`
	}
	if i.Tag == event.TagExec {
		if err := json.Unmarshal(i.Input, &in); err == nil && in.Command != "" {
			return []string{in.Command}
		}
	}
	if i.Title != "" {
		return []string{i.Title}
	}
	return []string{"*"}
}

// relative is a path as people of the directory say it.
func relative(dir, path string) string {
	if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
		return filepath.ToSlash(rel)
	}
	return path
}

// maxHeader is the length of a question's label in characters, as the
// protocol's document has it.
const maxHeader = 30

func questionOf(v view, i *event.Interaction) questionRequest {
	r := questionRequest{ID: i.ID.Cognitio(prefixQuestion), SessionID: v.session, Questions: []questionInfo{}}
	for _, q := range i.Questions {
		info := questionInfo{Question: q.Text, Header: q.Header, Options: []questionOption{}, Multiple: q.Multiple, Custom: q.FreeText || len(q.Options) == 0}
		if info.Header == "" {
			info.Header = q.Text
		}
		if utf8.RuneCountInString(info.Header) > maxHeader {
			info.Header = string([]rune(info.Header)[:maxHeader-1]) + "…"
		}
		for _, o := range q.Options {
			info.Options = append(info.Options, questionOption{o.Label, o.Description})
		}
		r.Questions = append(r.Questions, info)
	}
	if len(r.Questions) == 0 {
		r.Questions = append(r.Questions, questionInfo{Question: i.Title, Header: "Sign in", Options: []questionOption{}, Custom: true})
	}
	return r
}

// pending is an open request with its session.
type pending struct {
	session *host.Session
	st      *state.State
	chat    *state.Chat
	*event.Interaction
}

// pendings are the open requests that take accepts, oldest first.
func (f *server) pendings(c *call, take func(*event.Interaction) bool, dir string) ([]pending, error) {
	var out []pending
	for _, sum := range f.host.List(host.Filter{IncludeClosed: true, IncludeArchived: true}) {
		if !sum.MayAsk() || dir != "" && !inDir(&sum.Info, dir) {
			continue
		}
		s, err := f.host.Session(c.ctx(), sum.Info.ID)
		if err != nil {
			return nil, err
		}
		st := s.State()
		for _, i := range st.Open {
			if chat := st.Chat(i.Chat); chat != nil && take(i) {
				out = append(out, pending{s, st, chat, i})
			}
		}
	}
	slices.SortFunc(out, func(a, b pending) int { return a.ID.Compare(b.ID) })
	return out, nil
}

func inDir(info *event.SessionInfo, dir string) bool {
	return slices.ContainsFunc(info.Dirs, func(d string) bool { return canonical(d) == dir })
}

// viewPending gives the view of a request's chat and the call it is about, found
// anew from the state.
func (f *server) viewPending(p pending) (view, *toolRef) {
	v := f.viewOf(chatOf(p.st, p.chat))
	if p.chat.Active == nil || p.Call == "" {
		return v, nil
	}
	var fold folder
	fold.begin(p.chat.Active)
	for _, part := range p.chat.Active.Parts {
		fold.add(part)
		if part.ID == p.Part {
			return v, &toolRef{fold.cur.id, p.Call}
		}
	}
	return v, nil
}

func isApproval(i *event.Interaction) bool { return i.Kind == event.Approval }
func isQuestion(i *event.Interaction) bool { return i.Kind == event.Question || i.Kind == event.SignIn }

func listPermissions(c *call) (any, error) {
	all, err := c.f.pendings(c, isApproval, c.directory())
	out := make([]permissionRequest, 0, len(all))
	for _, p := range all {
		v, tool := c.f.viewPending(p)
		r := permissionOf(v, p.Interaction)
		r.Tool = tool
		out = append(out, r)
	}
	return out, err
}

func listQuestions(c *call) (any, error) {
	all, err := c.f.pendings(c, isQuestion, c.directory())
	out := make([]questionRequest, 0, len(all))
	for _, p := range all {
		v, tool := c.f.viewPending(p)
		r := questionOf(v, p.Interaction)
		r.Tool = tool
		out = append(out, r)
	}
	return out, err
}

// pending finds one open request. An id that is not open, be it settled or
// unknown, is not found: the answer came too late or never had a question.
func (f *server) pending(c *call, u id.ID, take func(*event.Interaction) bool) (pending, bool, error) {
	all, err := f.pendings(c, func(i *event.Interaction) bool { return i.ID == u && take(i) }, "")
	if err != nil || len(all) == 0 {
		return pending{}, false, err
	}
	return all[0], true, nil
}
