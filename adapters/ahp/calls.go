package ahp

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/polyhost/polyhost/core/event"
)

// The phases of a running turn's call, as clients have them.
const (
	phaseStreaming = "streaming"
	phasePending   = "pending-confirmation"
	phaseSignIn    = "auth-required"
	phaseRunning   = "running"
	phaseCompleted = "completed"
	phaseCancelled = "cancelled"
)

// callView is what clients were told of a call whose turn runs. It runs behind
// the core while the policy decides, as the protocol has no word for that.
type callView struct {
	phase string
	// partial and meta are what was told while the input streamed.
	partial string
	meta    map[string]string
	// confirmed is why it runs.
	confirmed string
	// progress: a line on what it does was told.
	progress bool
	// shown is how much of the output was shown, in bytes; shownAt when.
	shown   int
	shownAt time.Time
}

// askView holds the answers that are being typed.
type askView struct{ answers map[string]json.RawMessage }

// viewOf is what a client is told that sees a call for the first time.
func viewOf(p *event.Part, open event.InteractionKind) *callView {
	t := p.Tool
	v := &callView{phase: phaseStreaming, partial: t.PartialInput.String(), meta: metaOf(t)}
	switch t.Status {
	case event.CallPending:
		v.partial = ""
		if open == event.Approval {
			v.phase = phasePending
		}
	case event.CallRunning:
		v.phase, v.confirmed, v.shown = phaseRunning, confirmedBy(t), t.Output.Len()
		v.progress = t.Progress != ""
		if open == event.SignIn {
			v.phase = phaseSignIn
		}
	case event.CallDone, event.CallFailed:
		v.phase = phaseCompleted
	case event.CallDenied:
		v.phase = phaseCompleted
		if byPerson(t) {
			v.phase = phaseCancelled
		}
	case event.CallCancelled:
		v.phase = phaseCancelled
	}
	return v
}

func byPerson(t *event.Tool) bool { return t.Refused != nil && t.Refused.Code != event.RefusedByMode }

// phase is how far clients were told of a call.
func (r *renderer) phase(p *event.Part) string {
	if v := r.calls[p.ID]; v != nil {
		return v.phase
	}
	return viewOf(p, r.openOn(p)).phase
}

// openOn is what a call waits for a person for, "" if for nothing.
func (r *renderer) openOn(p *event.Part) event.InteractionKind {
	if p.Tool.Status.Ended() {
		return ""
	}
	for _, i := range r.st.Open {
		if (i.Kind == event.Approval || i.Kind == event.SignIn) && i.Part == p.ID {
			return i.Kind
		}
	}
	return ""
}

// signIn is what somebody must sign in to before a call goes on.
func (r *renderer) signIn(p *event.Part) *authRequirement {
	for _, i := range r.st.Open {
		if i.Kind == event.SignIn && i.Part == p.ID {
			return &authRequirement{Reason: "required", Resource: serverResource(i.Server, i.Resource)}
		}
	}
	return nil
}

// base makes what all states of a call share.
func (r *renderer) base(t *event.Tool) toolCall {
	c := toolCall{ToolCallID: t.Call, ToolName: t.Name, DisplayName: displayName(t.Name), Meta: r.meta(t)}
	switch {
	case t.Client.Client != "":
		c.Contributor = &contributor{Kind: "client", ClientID: clientName(t.Client)}
	case t.Server != "":
		c.Contributor = &contributor{Kind: "mcp", CustomizationID: serverID(t.Server)}
	}
	return c
}

// clientName is how a client of some front is called here.
func clientName(a event.Actor) string {
	if a.Front == front {
		return a.Client
	}
	return a.Front + ":" + a.Client
}

// call makes a call of the running turn, as far as clients were told.
func (r *renderer) call(at spot, p *event.Part, v *callView) toolCall {
	t := p.Tool
	if v == nil {
		v = viewOf(p, r.openOn(p))
	}
	c := r.base(t)
	c.Status = v.phase
	switch v.phase {
	case phaseStreaming:
		c.PartialInput, c.Meta = v.partial, r.withChat(v.meta, t)
	case phasePending:
		c.InvocationMessage, c.ToolInput = ptr(title(t)), input(t.Input)
		r.confirmation(&c, at, p)
	case phaseRunning, phaseSignIn:
		if v.phase == phaseSignIn {
			c.Auth = r.signIn(p)
		}
		c.InvocationMessage, c.ToolInput, c.Confirmed = ptr(title(t)), input(t.Input), v.confirmed
		c.Content = r.content(t, v.shown)
	default:
		return r.ended(at, p)
	}
	return c
}

// ended makes a call that is over.
func (r *renderer) ended(at spot, p *event.Part) toolCall {
	t := p.Tool
	c := r.base(t)
	c.InvocationMessage, c.ToolInput = ptr(title(t)), input(t.Input)
	switch {
	case t.Status == event.CallDenied && byPerson(t):
		c.Status = phaseCancelled
		c.Reason, c.ReasonMessage = refusalReason(t.Refused)
	case !t.Status.Ended(), t.Status == event.CallCancelled:
		c.Status, c.Reason = phaseCancelled, "skipped"
		if t.Input == nil {
			c.InvocationMessage = ptr("")
		}
	default:
		c.Status, c.Confirmed = phaseCompleted, confirmedBy(t)
		c.toolResultFields, c.Content = r.result(at, p)
	}
	return c
}

// refusalReason is the protocol's word for a person's refusal, or for nobody's
// answer.
func refusalReason(f *event.Refusal) (reason, words string) {
	if f.Code == event.RefusedTimeout {
		return "skipped", f.Reason
	}
	return "denied", f.Reason
}

// result makes what a call gave.
func (r *renderer) result(at spot, p *event.Part) (toolResultFields, []any) {
	t := p.Tool
	ok := t.Status == event.CallDone
	f := toolResultFields{Success: &ok, PastTenseMessage: ptr(pastTense(t))}
	switch {
	case t.Status == event.CallDenied:
		f.Error = &toolError{Message: "refused", Code: event.RefusedByMode}
		if t.Refused != nil && t.Refused.Reason != "" {
			f.Error.Message = t.Refused.Reason
		}
	case !ok:
		f.Error = &toolError{Message: t.Error}
		if t.ExitCode != nil {
			f.Error.Code = strconv.Itoa(*t.ExitCode)
		}
		if f.Error.Message == "" {
			f.Error.Message = "failed"
		}
	}
	content := r.content(t, t.Output.Len())
	for i := range t.Edits {
		edit := r.edit(at, p, i, false)
		edit.Type = "fileEdit"
		content = append(content, edit)
	}
	return f, content
}

// content makes what a call wrote, up to n bytes of it, and its subagent.
// A running call shows the end of a long output only.
func (r *renderer) content(t *event.Tool, n int) []any {
	var out []any
	if !t.Terminal.IsNil() {
		c := terminalContent{Type: "terminal", Resource: terminalURI(t.Terminal), Title: title(t), IsPty: true}
		if t.Status.Ended() {
			c.Result = &terminalResult{ExitCode: t.ExitCode, Preview: preview(t.Output.String()), Truncated: t.Output.Len() > previewBytes}
		}
		out = append(out, c)
	}
	if n > 0 {
		text := t.Output.String()[:min(n, t.Output.Len())]
		if !t.Status.Ended() && len(text) > outputTail {
			text = text[len(text)-outputTail:]
		}
		out = append(out, textContent{"text", strings.ToValidUTF8(text, "\ufffd")})
	}
	if !t.Child.IsNil() {
		s := subagentContent{Type: "subagent", Resource: r.chatURI(t.Child), Title: title(t)}
		if c := r.st.Chat(t.Child); c != nil {
			s.AgentName = c.Agent
			if c.Title != "" {
				s.Title = c.Title
			}
		}
		out = append(out, s)
	}
	return out
}

// preview is the end of a command's output.
func preview(out string) string {
	return strings.ToValidUTF8(out[max(0, len(out)-previewBytes):], "")
}

// confirmation fills what a person decides on.
func (r *renderer) confirmation(c *toolCall, at spot, p *event.Part) {
	t := p.Tool
	c.ConfirmationTitle = "Allow " + displayName(t.Name) + "?"
	c.Editable = true
	if len(t.Edits) > 0 {
		c.Edits = &editList{}
		for i := range t.Edits {
			c.Edits.Items = append(c.Edits.Items, r.edit(at, p, i, true))
		}
	}
	scopes := []event.Scope{event.ScopeOnce}
	for _, i := range r.st.Open {
		if i.Kind == event.Approval && i.Call == t.Call {
			for _, s := range i.Scopes {
				if s != event.ScopeOnce {
					scopes = append(scopes, s)
				}
			}
		}
	}
	for _, s := range scopes {
		c.Options = append(c.Options, confirmOption{ID: string(s), Label: scopeLabels[s], Kind: "approve", Group: 1})
	}
	c.Options = append(c.Options, confirmOption{ID: optionDeny, Label: "Deny", Kind: "deny", Group: 2})
}

// optionDeny is the button that refuses; the others are scopes.
const optionDeny = "deny"

var scopeLabels = map[event.Scope]string{
	event.ScopeOnce:    "Allow once",
	event.ScopeSession: "Allow in this session",
	event.ScopeProject: "Allow in this project",
	event.ScopeAlways:  "Always allow",
}

// confirmedBy is the protocol's word for why a call runs.
func confirmedBy(t *event.Tool) string {
	switch t.Allowed {
	case "person":
		return "user-action"
	case "mode", "allowlist":
		return "setting"
	}
	if t.Status == event.CallDenied {
		return "setting"
	}
	return "not-needed"
}

// input is a call's whole input as text.
func input(raw json.RawMessage) *string {
	if len(raw) == 0 {
		return nil
	}
	return ptr(string(raw))
}

// title is the one line that people read of a call.
func title(t *event.Tool) string {
	if t.Title != "" {
		return t.Title
	}
	return displayName(t.Name)
}

func displayName(name string) string {
	if name == "" {
		return "Tool"
	}
	return strings.ToUpper(name[:1]) + strings.ReplaceAll(name[1:], "_", " ")
}

func pastTense(t *event.Tool) string {
	switch t.Status {
	case event.CallDone:
		return "Finished: " + title(t)
	case event.CallDenied:
		return "Refused: " + title(t)
	}
	return "Failed: " + title(t)
}

// searchTools are the names, in lower case, of tools that look for something.
var searchTools = []string{"grep", "glob", "ls", "list", "find", "search", "toolsearch", "websearch", "web_search", "codebase_search"}

// metaOf tells editors how to draw a call.
func metaOf(t *event.Tool) map[string]string {
	switch {
	case t.Tag == event.TagDelegate || !t.Child.IsNil():
		m := map[string]string{"toolKind": "subagent"}
		var in map[string]json.RawMessage
		_ = json.Unmarshal(t.Input, &in) // there is none yet, or it says nothing
		for key, names := range subagentKeys {
			for _, name := range names {
				var text string
				if json.Unmarshal(in[name], &text) == nil && text != "" && m[key] == "" {
					m[key] = text
				}
			}
		}
		return m
	case t.Server != "" || t.Client.Client != "":
		return nil
	case t.Tag == event.TagExec:
		return map[string]string{"toolKind": "terminal"}
	case slices.Contains(searchTools, strings.ToLower(t.Name)):
		return map[string]string{"toolKind": "search"}
	case t.Tag == event.TagRead:
		return map[string]string{"toolKind": "read"}
	}
	return nil
}

// subagentKeys are what editors show of a subagent, by the names that agents have
// for it in the input of the call.
var subagentKeys = map[string][]string{
	"subagentDescription": {"description"},
	"subagentAgentName":   {"subagent_type", "agent", "name"},
}

// meta is metaOf with the chat of the call's subagent.
func (r *renderer) meta(t *event.Tool) map[string]string {
	m := metaOf(t)
	if t.Progress != "" && m != nil {
		m["progressMessage"] = t.Progress
	}
	return r.withChat(m, t)
}

// withChat adds the chat of a call's subagent, also of one that is still to begin.
func (r *renderer) withChat(m map[string]string, t *event.Tool) map[string]string {
	chat := t.Child
	if chat.IsNil() {
		chat = t.Worker
	}
	if m == nil || chat.IsNil() {
		return m
	}
	m = maps.Clone(m)
	m["subagentChatUri"] = r.chatURI(chat)
	return m
}

func ptr[T any](v T) *T { return &v }
