// Package hosttools has the tools that the gateway itself runs for agents: they
// look at sessions, hand work to other agents, and note things.
//
// Names and arguments are those of VS Code's own host, so that what agents were
// taught there holds here. Arguments are decoded strictly and answers bounded; an
// error is a sentence for the agent. Whether a call may run is the policy's to
// say, before it comes here. An agent reaches the sessions of the person that its
// own belongs to, and no others.
//
// The package knows the host and no front. What only a front knows it lends.
package hosttools

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
)

//go:embed tools.json
var definitions []byte

// definition is how tools.json describes a tool.
type definition struct {
	Name        string          `json:"name"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
	Tag         event.Tag       `json:"tag"`
	ReadOnly    bool            `json:"readOnly"`
	Destructive bool            `json:"destructive"`
	AlwaysAsk   bool            `json:"alwaysAsk"`
	// Needs is what a front has to lend for it.
	Needs string `json:"needs"`
}

// call is one call of a tool.
type call struct {
	ctx  context.Context
	host *host.Host
	from host.Caller
	set  *Set
	lent *Lent
}

type runner func(c *call, input json.RawMessage) (any, error)

var runners = map[string]runner{
	"list_sessions":       listSessions,
	"get_current_session": currentSession,
	"create_session":      createSession,
	"send_message":        sendMessage,
	"get_session_context": sessionContext,
	"delete_session":      deleteSession,

	"add_artifact_or_reference":     addArtifacts,
	"remove_artifact_or_reference":  removeArtifact,
	"list_artifacts_and_references": listArtifacts,

	"addComment":      addComment,
	"listComments":    listComments,
	"replyToComment":  replyToComment,
	"deleteComments":  deleteComments,
	"resolveComments": resolveComments,

	"rename_chat":  renameChat,
	"ahp_resource": clientResource,

	"ahp_resource_change": changeResource,
}

// Tree is what is known of a working directory.
type Tree struct {
	// Changed is how many files differ from what is committed.
	Changed int
	// Pulls are the addresses of the branch's pull requests.
	Pulls []string
}

// Lent is what a front lends.
type Lent struct {
	// Session names a session for clients.
	Session func(*event.SessionInfo) string
	// Tree tells of a directory; false if nothing is known of it.
	Tree func(dir string) (Tree, bool)
	// Apart puts a session that is to be created into a git working tree of its own
	// instead of the folder it names; Left takes that away again if the session was not
	// created. Both nil: agents are refused it.
	Apart func(context.Context, *host.CreateSession) error
	Left  func(context.Context, id.ID)
	// Comments are those of sessions; nil if there are none, and then no tools for
	// them either.
	Comments Comments
	// Resources are those of clients; nil as well.
	Resources Resources
}

// tool is one that needs something lent, or "".
type tool struct {
	needs string
	host.OwnTool
}

// has reports whether what a tool needs is there.
func (l *Lent) has(needs string) bool {
	switch needs {
	case "comments":
		return l.Comments != nil
	case "resources":
		return l.Resources != nil
	}
	return true
}

// Set is all tools.
type Set struct {
	log   *slog.Logger
	tools []tool
	lent  atomic.Pointer[Lent]

	making    sync.Mutex // held over counting what agents made and making more
	recording sync.Mutex // held over changing the artifacts of a session

	mu    sync.Mutex
	hops  map[id.ID]hop // of turns that agents began
	ring  []id.ID       // of hops, the oldest first
	begun map[id.ID]int // how many of hops began from a turn
}

// hop is how agents came to begin a turn.
type hop struct {
	row  int   // how many agents in a row
	from id.ID // the turn before them all
}

var _ host.OwnTools = (*Set)(nil)

// New makes the set.
func New(log *slog.Logger) *Set {
	s := &Set{log: log, hops: map[id.ID]hop{}, begun: map[id.ID]int{}}
	s.Lend(Lent{
		Session: func(info *event.SessionInfo) string { return info.ID.AHP(info.Backend) },
		Tree:    func(string) (Tree, bool) { return Tree{}, false },
	})
	var all []definition
	if err := json.Unmarshal(definitions, &all); err != nil {
		panic("hosttools: tools.json: " + err.Error()) // embedded
	}
	for _, d := range all {
		s.tools = append(s.tools, tool{d.Needs, host.OwnTool{Name: d.Name, Title: d.Title, Description: d.Description, Schema: d.InputSchema,
			Tag: d.Tag, ReadOnly: d.ReadOnly, Destructive: d.Destructive, AlwaysAsk: d.AlwaysAsk}})
	}
	return s
}

// Lend takes what a front knows.
func (s *Set) Lend(l Lent) { s.lent.Store(&l) }

// List gives the tools for which everything is there.
func (s *Set) List() []host.OwnTool {
	lent := s.lent.Load()
	out := make([]host.OwnTool, 0, len(s.tools))
	for _, t := range s.tools {
		if lent.has(t.needs) {
			out = append(out, t.OwnTool)
		}
	}
	return out
}

// Instructions say when to use those that agents would not think of.
func (s *Set) Instructions() string { return instructions }

const instructions = "When your work leaves a result that the person will want to open again, such as a pull request, a report they asked for, or a page that you published, " +
	"note it with the tool add_artifact_or_reference of the MCP server " + host.ToolServerName + "; the person sees it beside the conversation. " +
	"Note issues and pull requests that you made or changed as artifacts, and existing things worth a look as references. " +
	"Most work needs no note: leave out ordinary source files, scratch files and logs, and make no file only to note it."

// Run runs a tool.
func (s *Set) Run(ctx context.Context, h *host.Host, from host.Caller, name string, input json.RawMessage) (string, error) {
	run := runners[name]
	if run == nil {
		return "", fmt.Errorf("there is no tool %.80q", name)
	}
	out, err := run(&call{ctx, h, from, s, s.lent.Load()}, input)
	if err != nil {
		words, meant := said(err)
		if !meant && ctx.Err() == nil {
			s.log.Error("A tool of the gateway's own failed", "tool", name, "session", from.Session.String(), "err", err)
		}
		return "", words
	}
	b, err := json.MarshalIndent(out, "", " ")
	if err != nil {
		return "", err
	}
	return string(b), nil
}

// next is the hop of a turn that the agent of another may begin now.
func (s *Set) next(from id.ID) (hop, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nextLocked(from)
}

func (s *Set) nextLocked(from id.ID) (hop, error) {
	h, ok := s.hops[from]
	if !ok {
		h.from = from
	}
	h.row++
	switch {
	case h.row > maxHops:
		return h, tooManyHops
	case s.begun[h.from] >= maxBegun:
		return h, tooManyBegun
	}
	return h, nil
}

// begin counts a turn that the agent of another begins.
func (s *Set) begin(from, turn id.ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, err := s.nextLocked(from)
	if err != nil {
		return err
	}
	if len(s.ring) == maxHopped {
		old := s.hops[s.ring[0]]
		delete(s.hops, s.ring[0])
		s.ring = s.ring[1:]
		if s.begun[old.from]--; s.begun[old.from] == 0 {
			delete(s.begun, old.from)
		}
	}
	s.hops[turn] = h
	s.begun[h.from]++
	s.ring = append(s.ring, turn)
	return nil
}
