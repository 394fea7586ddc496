package zidane

import (
	"encoding/json"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
)

// sessionObject is a session as the protocol shows it.
type sessionObject struct {
	ID          string `json:"id"`
	Title       string `json:"title"`
	ProjectRoot string `json:"projectRoot"`
	Cwd         string `json:"cwd"`
	AgentID     string `json:"agentId"`
	Status      string `json:"status"`
	CreatedAt   int64  `json:"createdAt"`
	UpdatedAt   int64  `json:"updatedAt"`
	Archived    bool   `json:"archived"`
	HostID      string `json:"hostId"`
	ModelID     string `json:"modelId,omitempty"`
	// ParentSessionID is the session that a subagent or fork belongs to.
	ParentSessionID string `json:"parentSessionId,omitempty"`
}

// untitled is the title of a session that has none yet.
const untitled = "New session"

// The states of a session.
const (
	statusIdle    = "idle"
	statusRunning = "running"
	statusWaiting = "waiting" // a person is asked
)

var statusNames = map[host.Status]string{
	host.Idle: statusIdle, host.Running: statusRunning, host.Failed: statusIdle,
	host.AwaitingApproval: statusWaiting, host.AwaitingQuestion: statusWaiting,
}

// wireID is the id under which a chat is a session: the default chat has that
// of its session.
func wireID(session, defaultChat, chat id.ID) id.ID {
	if chat == defaultChat || chat.IsNil() {
		return session
	}
	return chat
}

// object is a chat as a session. It belongs to the session of info; the
// default chat is the session itself.
func (f *Front) object(info *event.SessionInfo, defaultChat id.ID, chat *event.ChatInfo, status string, modified time.Time) sessionObject {
	o := sessionObject{
		ID: wireID(info.ID, defaultChat, chat.ID).String(), Title: info.Title, AgentID: f.agentID(info.Backend, info.Settings.Agent),
		Status: status, CreatedAt: info.CreatedAt.UnixMilli(), UpdatedAt: modified.UnixMilli(),
		Archived: info.Archived, HostID: f.hostID, ModelID: info.Settings.Model,
	}
	if len(info.Dirs) > 0 {
		o.ProjectRoot, o.Cwd = info.Dirs[0], info.Dirs[0]
	}
	if chat.ID != defaultChat {
		o.Title, o.CreatedAt, o.ParentSessionID = chat.Title, chat.CreatedAt.UnixMilli(), info.ID.String()
		o.Archived = info.Archived || chat.Archived
		if !chat.Origin.Chat.IsNil() {
			o.ParentSessionID = wireID(info.ID, defaultChat, chat.Origin.Chat).String()
		}
		if chat.Agent != "" {
			o.AgentID = f.agentID(info.Backend, chat.Agent)
		}
	}
	if o.Title == "" {
		o.Title = untitled
	}
	return o
}

// objectOf is a chat of a state as a session.
func (f *Front) objectOf(st *state.State, chat *state.Chat) sessionObject {
	modified := chat.ModifiedAt
	if chat.ID == st.Default {
		modified = st.ModifiedAt
	}
	return f.object(&st.Info, st.Default, &chat.ChatInfo, statusOf(st, chat), modified)
}

func statusOf(st *state.State, chat *state.Chat) string {
	for _, i := range st.Open {
		if i.Chat == chat.ID && forPeople(i.Kind) {
			return statusWaiting
		}
	}
	if chat.Active != nil {
		return statusRunning
	}
	return statusIdle
}

// objectsOf are all chats of a summary as sessions, the session itself first.
func (f *Front) objectsOf(sum *host.Summary) []sessionObject {
	out := make([]sessionObject, 0, len(sum.Chats))
	for i := range sum.Chats {
		c := &sum.Chats[i]
		modified := c.ModifiedAt
		if c.Info.ID == sum.Default {
			modified = sum.ModifiedAt
		}
		out = append(out, f.object(&sum.Info, sum.Default, &c.Info, statusNames[c.Status], modified))
	}
	return out
}

// forPeople reports whether a person settles such an interaction. Client calls
// are a client's business.
func forPeople(k event.InteractionKind) bool {
	return k == event.Approval || k == event.Question || k == event.SignIn
}

// interactionObject is an open interaction.
type interactionObject struct {
	ID        string `json:"id"`
	SessionID string `json:"sessionId"`
	Kind      string `json:"kind"`
	CreatedAt int64  `json:"createdAt"`
	ExpiresAt int64  `json:"expiresAt,omitempty"`
	RunID     string `json:"runId,omitempty"`
	CallID    string `json:"callId,omitempty"`
	// Of approvals:
	Tool    string          `json:"tool,omitempty"`
	Title   string          `json:"title,omitempty"`
	Input   json.RawMessage `json:"input,omitempty"`
	Pattern string          `json:"pattern,omitempty"` // what "always" would allow
	Reason  string          `json:"reason,omitempty"`  // why a person is asked
	Edits   []editObject    `json:"edits,omitempty"`
	// Of questions:
	Questions []questionObject `json:"questions,omitempty"`
}

type questionObject struct {
	ID       string         `json:"id"`
	Header   string         `json:"header,omitempty"`
	Text     string         `json:"text"`
	Options  []optionObject `json:"options"`
	Multiple bool           `json:"multiple"`
	FreeText bool           `json:"freeText"`
	Secret   bool           `json:"secret,omitempty"`
}

type optionObject struct {
	Label       string `json:"label"`
	Description string `json:"description,omitempty"`
}

type editObject struct {
	Path    string `json:"path"`
	Kind    string `json:"kind"`
	Patch   string `json:"patch,omitempty"`
	Added   int    `json:"added"`
	Removed int    `json:"removed"`
}

func editsOf(edits []event.FileEdit) []editObject {
	var out []editObject
	for _, e := range edits {
		out = append(out, editObject{Path: e.Path, Kind: e.Kind, Patch: e.Patch, Added: e.Added, Removed: e.Removed})
	}
	return out
}

var interactionKinds = map[event.InteractionKind]string{
	event.Approval: "approval", event.Question: "question", event.SignIn: "signin",
}

func interactionOf(session id.ID, i *event.Interaction) interactionObject {
	o := interactionObject{ID: i.ID.String(), SessionID: session.String(), Kind: interactionKinds[i.Kind],
		CreatedAt: i.OpenedAt.UnixMilli(), RunID: i.Turn.String(), CallID: i.Call,
		Tool: i.Tool, Title: i.Title, Input: i.Input, Pattern: i.Pattern, Reason: i.Why, Edits: editsOf(i.Edits)}
	if !i.ExpiresAt.IsZero() {
		o.ExpiresAt = i.ExpiresAt.UnixMilli()
	}
	for _, q := range i.Questions {
		qo := questionObject{ID: q.ID, Header: q.Header, Text: q.Text, Options: []optionObject{},
			Multiple: q.Multiple, FreeText: q.FreeText, Secret: q.Secret}
		for _, op := range q.Options {
			qo.Options = append(qo.Options, optionObject(op))
		}
		o.Questions = append(o.Questions, qo)
	}
	return o
}

// plansObject is the agent's plan. The core has one a chat.
type plansObject struct {
	Plans  []planObject `json:"plans"`
	Active *string      `json:"active"`
}

type planObject struct {
	ID    string       `json:"id"`
	Title string       `json:"title"`
	Steps []stepObject `json:"steps"`
}

type stepObject struct {
	ID    string `json:"id"`
	Text  string `json:"text"`
	State string `json:"state"`
}

func plansOf(chat id.ID, items []event.PlanItem) plansObject {
	p := plansObject{Plans: []planObject{}}
	if len(items) == 0 {
		return p
	}
	plan := planObject{ID: chat.String(), Title: "Plan"}
	done := true
	for _, i := range items {
		plan.Steps = append(plan.Steps, stepObject{ID: i.ID, Text: i.Text, State: i.Status})
		done = done && i.Status == event.PlanDone
	}
	p.Plans = append(p.Plans, plan)
	if !done {
		p.Active = &plan.ID
	}
	return p
}

// queueObject is a prompt that waits.
type queueObject struct {
	ID        string `json:"id"`
	Prompt    string `json:"prompt"`
	CreatedAt int64  `json:"createdAt"`
}

func queueOf(messages []event.Message) []queueObject {
	out := make([]queueObject, 0, len(messages))
	for _, m := range messages {
		out = append(out, queueObject{ID: m.ID.String(), Prompt: m.Text, CreatedAt: m.At.UnixMilli()})
	}
	return out
}
