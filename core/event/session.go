package event

import (
	"encoding/json"
	"time"

	"github.com/polyhost/polyhost/core/id"
)

// Mode is how much the agent may do without asking.
type Mode string

const (
	ModePlan   Mode = "plan"   // reads, asks for commands, writes only documents
	ModeAccept Mode = "accept" // reads and writes files, asks for the rest
	ModeAuto   Mode = "auto"   // asks only where a settings change or a secret is concerned
)

// Settings are what a person picks for a session or a message.
type Settings struct {
	Mode Mode `json:"mode,omitempty"`
	// Most, of a message, is the mode beyond which its turn does not go, whatever
	// the session's is by then; "" bounds nothing.
	Most   Mode   `json:"most,omitempty"`
	Model  string `json:"model,omitempty"`
	Effort string `json:"effort,omitempty"`
	// Agent is the persona of the backend (build, plan, …), where it has some.
	Agent string `json:"agent,omitempty"`
	// DenyExec refuses commands without asking anybody, whatever the mode.
	DenyExec bool `json:"deny_exec,omitempty"`
	// ShellInit is what the agent's shell sources before each of its commands,
	// where the agent has such a setting.
	ShellInit Scripts `json:"shell_init,omitempty"`
}

// Within is the mode, or most if that allows less; "" allows all.
func (m Mode) Within(most Mode) Mode {
	if most.rank() < m.rank() {
		return most
	}
	return m
}

func (m Mode) rank() int {
	switch m {
	case ModePlan:
		return 0
	case ModeAccept:
		return 1
	}
	return 2
}

// Inherit, as a model, effort or agent in a change of settings, takes the pick
// back: the agent's default counts again.
const Inherit = "inherit"

// SessionInfo is what a session is created with and what can be changed later.
type SessionInfo struct {
	ID        id.ID     `json:"id"`
	CreatedAt time.Time `json:"created_at"`
	// Backend is the name of the agent backend, fixed at creation.
	Backend string `json:"backend"`
	// Dirs are absolute working directories; the first is the process's.
	Dirs     []string `json:"dirs"`
	Title    string   `json:"title,omitempty"`
	Settings Settings `json:"settings"`
	// Owner is who created the session.
	Owner Actor `json:"owner"`
	// Aliases are names that clients chose, by front: unique in a front.
	Aliases map[string]string `json:"aliases,omitempty"`
	// Provisional: no turn was ever started.
	Provisional bool `json:"provisional,omitempty"`
	// Making: its first turn has begun, and nothing shows yet that there is an
	// agent.
	Making bool `json:"making,omitempty"`
	// Unmade: no agent could be started for it so far; MakeError is why, and
	// stays when one could later.
	Unmade    bool   `json:"unmade,omitempty"`
	MakeError *Error `json:"make_error,omitempty"`
	Archived  bool   `json:"archived,omitempty"`
	// Unread: something ended since somebody last marked it read.
	Unread bool `json:"unread,omitempty"`
	// Closed: put away by a client; opened again by the next prompt or resume.
	Closed bool `json:"closed,omitempty"`
	// FromAgent: it was begun in the agent itself, outside of the gateway.
	FromAgent bool `json:"from_agent,omitempty"`
	// Plugins are what the agent is given whoever is connected, fixed at creation.
	Plugins []Plugin `json:"plugins,omitempty"`
	// Meta is a front's own lasting facts, by "<front>.<key>".
	Meta map[string]json.RawMessage `json:"meta,omitempty"`
}

// Plugin is a plugin that a client brought, and its copy.
type Plugin struct {
	// ID and URI are the client's own names, Name and Version what people read.
	ID      string `json:"id"`
	URI     string `json:"uri"`
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	// Copy names the copy.
	Copy string `json:"copy"`
	// Off: without a decision it is off.
	Off bool `json:"off,omitempty"`
}

// SessionCreated is the first event of every session; it also makes the
// default chat.
type SessionCreated struct {
	Info    SessionInfo `json:"info"`
	Default id.ID       `json:"default"`
	// Chat is the default chat where it comes from another session; nil for a
	// new one.
	Chat *ChatAdded `json:"chat,omitempty"`
}

// SessionUpdated changes the fields that are present.
type SessionUpdated struct {
	By       Actor                      `json:"by"`
	Title    *string                    `json:"title,omitempty"`
	Settings *Settings                  `json:"settings,omitempty"` // whole
	Dirs     []string                   `json:"dirs,omitempty"`     // whole
	Archived *bool                      `json:"archived,omitempty"`
	Unread   *bool                      `json:"unread,omitempty"`
	Closed   *bool                      `json:"closed,omitempty"`
	Owner    *Actor                     `json:"owner,omitempty"`
	Aliases  map[string]string          `json:"aliases,omitempty"` // merged; "" deletes
	Meta     map[string]json.RawMessage `json:"meta,omitempty"`    // merged; null deletes
}

// Origin is where a chat comes from.
type Origin struct {
	// Kind is OriginUser, OriginFork, OriginSide or OriginSubagent.
	Kind string `json:"kind"`
	Chat id.ID  `json:"chat,omitzero"`
	Turn id.ID  `json:"turn,omitzero"`
	// Call is the tool call that spawned a subagent.
	Call string `json:"call,omitempty"`
	// Aliases are what the fronts called Chat when this one began: Chat may be
	// gone later, and its names with it. TurnAliases are the same of Turn.
	Aliases     map[string]string `json:"aliases,omitempty"`
	TurnAliases map[string]string `json:"turn_aliases,omitempty"`
	// Role says whether Chat was its session's default one then: RoleDefault or
	// RoleOther; "" where that was not noted.
	Role string `json:"role,omitempty"`
	// Selection is the passage that a side chat was opened on.
	Selection *Selection `json:"selection,omitempty"`
}

// The values of Origin.Role.
const (
	RoleDefault = "default"
	RoleOther   = "other"
)

// Selection is a passage of a turn.
type Selection struct {
	Text string `json:"text"`
	Part string `json:"part,omitempty"` // the front's name of the part it is in
}

// The kinds of a chat's origin.
const (
	OriginUser     = "user"
	OriginFork     = "fork"
	OriginSide     = "side"
	OriginSubagent = "subagent"
)

// ChatInfo is one conversation with one agent.
type ChatInfo struct {
	ID        id.ID     `json:"id"`
	CreatedAt time.Time `json:"created_at"`
	Title     string    `json:"title,omitempty"`
	Origin    Origin    `json:"origin"`
	// Agent is the persona a subagent runs as.
	Agent string `json:"agent,omitempty"`
	// Conversation is the agent's own id, with which it resumes.
	Conversation string `json:"conversation,omitempty"`
	// ForkOf is the agent's conversation with whose history this one is to
	// begin, as far as ForkAt, the agent's name of a place in it; "" is its end.
	// It counts while there is no Conversation.
	ForkOf string `json:"fork_of,omitempty"`
	ForkAt string `json:"fork_at,omitempty"`
	// ForkEnd is where the end has to be for that.
	ForkEnd *ForkEnd `json:"fork_end,omitempty"`
	// Dirs are the chat's own working directories; none are its session's.
	Dirs []string `json:"dirs,omitempty"`
	// Brief is what the agent is told before the chat's first message.
	Brief    string            `json:"brief,omitempty"`
	Aliases  map[string]string `json:"aliases,omitempty"`
	Archived bool              `json:"archived,omitempty"`
	Unread   bool              `json:"unread,omitempty"`
}

// ForkEnd is the end of a chat: the turns it has.
type ForkEnd struct {
	Chat  id.ID `json:"chat"`
	Turns int   `json:"turns"`
	Cuts  int   `json:"cuts,omitempty"`
}

// Point is a place in an agent's conversation to which it can go back.
type Point struct {
	Conversation string `json:"conversation"`
	At           string `json:"at"`
}

// ChatAdded adds a chat beside the default one.
type ChatAdded struct {
	Info ChatInfo `json:"info"`
	By   Actor    `json:"by"`
	// Turns is how many finished turns it begins with: copies that are stored
	// beside the log, which does not have their events.
	Turns int `json:"turns,omitempty"`
	// From is the session that it was moved from, Last what is shown of its last
	// turn.
	From  id.ID     `json:"from,omitzero"`
	Last  *LastTurn `json:"last,omitempty"`
	Usage Usage     `json:"usage,omitzero"`
	// Failed is its newest turn, as it is stored, where that can be resumed: who
	// follows the session has no other way to it.
	Failed json.RawMessage `json:"failed,omitempty"`
}

// LastTurn is the last turn of a chat that came with turns, in short.
type LastTurn struct {
	Message   Message       `json:"message"`
	StartedAt time.Time     `json:"started_at"`
	Duration  time.Duration `json:"duration,omitempty"`
	Status    TurnStatus    `json:"status,omitempty"`
}

// ChatUpdated changes the fields that are present, of Event.Chat.
type ChatUpdated struct {
	By           Actor             `json:"by"`
	Title        *string           `json:"title,omitempty"`
	Conversation *string           `json:"conversation,omitempty"`
	ForkOf       *string           `json:"fork_of,omitempty"`
	ForkAt       *string           `json:"fork_at,omitempty"`
	ForkEnd      *ForkEnd          `json:"fork_end,omitempty"`
	Archived     *bool             `json:"archived,omitempty"`
	Unread       *bool             `json:"unread,omitempty"`
	Dirs         []string          `json:"dirs,omitempty"`    // whole
	Aliases      map[string]string `json:"aliases,omitempty"` // merged; "" deletes
}

// ChatRemoved removes Event.Chat with its turns.
type ChatRemoved struct {
	By Actor `json:"by"`
	// Default is the session's default chat from now on, where it was this one.
	Default id.ID `json:"default,omitzero"`
	// To is the session that it was moved to.
	To id.ID `json:"to,omitzero"`
}

// ChatsReordered is the new order of all chats of a session.
type ChatsReordered struct {
	Order []id.ID `json:"order"`
	By    Actor   `json:"by"`
}

// ChatTruncated takes the newest turns of Event.Chat away. The agent forgets
// them too: it goes on from ForkOf and ForkAt, as of ChatInfo, or from nothing.
type ChatTruncated struct {
	By Actor `json:"by"`
	// Turn is the last one that stays, Turns how many do.
	Turn   id.ID  `json:"turn"`
	Turns  int    `json:"turns"`
	ForkOf string `json:"fork_of,omitempty"`
	ForkAt string `json:"fork_at,omitempty"`
	// TurnAliases are what the fronts call Turn.
	TurnAliases map[string]string `json:"turn_aliases,omitempty"`
	// Gone are the turns that were taken away, oldest first; none where they are
	// too many to list.
	Gone []GoneTurn `json:"gone,omitempty"`
	// Failed is as in ChatAdded.
	Failed json.RawMessage `json:"failed,omitempty"`
}

// GoneTurn is what fronts name the messages of a turn by that was taken away:
// nothing of what was said.
type GoneTurn struct {
	ID        id.ID     `json:"id"`
	StartedAt time.Time `json:"started_at"`
	Message   Message   `json:"message"`
	Parts     []Part    `json:"parts,omitempty"`
}

// ClientTool is a tool that a client offers to run for the agent.
type ClientTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"`
}

// ClientToolsSet replaces the tools of one client; an empty list takes them
// back.
type ClientToolsSet struct {
	Client Actor        `json:"client"`
	Tools  []ClientTool `json:"tools"`
}

// DraftChanged is the text a person is typing into Event.Chat, shared between
// clients. Draft is opaque to the core beyond its text.
type DraftChanged struct {
	By   Actor  `json:"by"`
	Text string `json:"text"`
	// Rich is the front's own form of the draft, shown to the same front.
	Rich json.RawMessage `json:"rich,omitempty"`
}

// Work is something that an agent goes on with beside and after its turns.
type Work struct {
	// ID is the agent's own, unique among what it goes on with.
	ID string `json:"id"`
	// Kind is WorkShell or WorkSubagent.
	Kind      string    `json:"kind"`
	Label     string    `json:"label"`
	StartedAt time.Time `json:"started_at"`
	// Command is a shell's line, Chat a subagent's chat.
	Command string `json:"command,omitempty"`
	Chat    id.ID  `json:"chat,omitzero"`
}

// The kinds of work.
const (
	WorkShell    = "shell"
	WorkSubagent = "subagent"
)

// WorkChanged replaces what the agent of Event.Chat goes on with.
type WorkChanged struct {
	Work []Work `json:"work"`
}

func (*WorkChanged) Kind() Kind    { return "work.changed" }
func (*SessionCreated) Kind() Kind { return "session.created" }
func (*SessionUpdated) Kind() Kind { return "session.updated" }
func (*ChatAdded) Kind() Kind      { return "chat.added" }
func (*ChatUpdated) Kind() Kind    { return "chat.updated" }
func (*ChatRemoved) Kind() Kind    { return "chat.removed" }
func (*ChatsReordered) Kind() Kind { return "chats.reordered" }
func (*ChatTruncated) Kind() Kind  { return "chat.truncated" }
func (*ClientToolsSet) Kind() Kind { return "clienttools.set" }
func (*DraftChanged) Kind() Kind   { return "draft.changed" }
