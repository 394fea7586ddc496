package zidane

import (
	"context"
	"errors"
	"slices"

	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/transports/jsonrpc"
)

// scope is what a token may do; the higher includes the lower.
type scope int

const (
	scopeChat scope = iota
	scopeAdmin
	scopeMachine // of machine connections alone, which we have none of
)

func (s scope) String() string { return [...]string{"chat", "admin", "machine"}[s] }

// call is one request on its way through a handler.
type call struct {
	*Front
	conn *conn
	req  *jsonrpc.Request
	// submitted lets the prompts that were read after this one go on.
	submitted func()
}

// method is a row of the table: what is served, to whom, by whom.
type method struct {
	scope scope
	do    func(context.Context, *call) (any, error)
}

// with is a handler whose params are decoded strictly into P. Members that P
// does not know are a newer client's and are left alone.
func with[P any](s scope, h func(context.Context, *call, P) (any, error)) method {
	return method{s, func(ctx context.Context, c *call) (any, error) {
		var p P
		if err := c.req.Decode(&p); err != nil {
			return nil, err
		}
		return h(ctx, c, p)
	}}
}

// prompts are the methods that hand something to an agent: those of one
// connection are handed over in the order they were sent.
var prompts = map[string]bool{
	"chat.send": true, "chat.steer": true, "queue.add": true, "commands.run": true,
}

// urgent are the methods that end something or let it go on: however much else
// waits, they are let in.
var urgent = map[string]bool{
	"chat.stop": true, "chat.interrupt": true, "orchestration.stop": true, "approvals.answer": true, "interactions.answer": true,
}

// methods is what is served after the handshake, beside earlyMethods.
var methods map[string]method

func init() {
	methods = map[string]method{
		"chat.send":      with(scopeChat, chatSend),
		"chat.stop":      with(scopeChat, chatStop),
		"chat.interrupt": with(scopeChat, chatStop),
		"chat.steer":     with(scopeChat, chatSteer),

		"sessions.create":     with(scopeChat, sessionsCreate),
		"sessions.fork":       with(scopeChat, sessionsFork),
		"sessions.list":       with(scopeChat, sessionsList),
		"sessions.get":        with(scopeChat, sessionsGet),
		"sessions.update":     with(scopeChat, sessionsUpdate),
		"sessions.rename":     with(scopeChat, sessionsRename),
		"sessions.archive":    with(scopeChat, sessionsArchive),
		"sessions.delete":     with(scopeChat, sessionsDelete),
		"sessions.loadEvents": with(scopeChat, sessionsLoadEvents),
		"sessions.getTurns":   with(scopeChat, sessionsGetTurns),
		"sessions.resume":     with(scopeChat, sessionsResume),

		"runtime.get": with(scopeChat, runtimeGet),
		"runtime.set": with(scopeChat, runtimeSet),

		"environments.list":   with(scopeChat, environmentsList),
		"environments.select": with(scopeChat, environmentsSelect),

		"history.list":  with(scopeChat, historyList),
		"history.clear": with(scopeChat, historyClear),

		"plans.get": with(scopeChat, plansGet),

		"orchestration.list": with(scopeChat, orchestrationList),
		"orchestration.stop": with(scopeChat, orchestrationStop),

		"commands.list": with(scopeChat, commandsList),
		"commands.run":  with(scopeChat, commandsRun),

		"agents.list": with(scopeChat, agentsList),

		"interactions.list":   with(scopeChat, interactionsList),
		"interactions.answer": with(scopeChat, interactionsAnswer),

		"approvals.list":   with(scopeChat, approvalsList),
		"approvals.answer": with(scopeChat, approvalsAnswer),

		"safelist.list":   with(scopeChat, safelistList),
		"safelist.revoke": with(scopeChat, safelistRevoke),

		"queue.list":   with(scopeChat, queueList),
		"queue.add":    with(scopeChat, queueAdd),
		"queue.update": with(scopeChat, queueUpdate),
		"queue.remove": with(scopeChat, queueRemove),
		"queue.move":   with(scopeChat, queueMove),

		"drafts.get": with(scopeChat, draftsGet),
		"drafts.set": with(scopeChat, draftsSet),

		"search.sessions": with(scopeChat, searchSessions),

		"settings.get": with(scopeChat, settingsGet),
		"settings.set": with(scopeAdmin, settingsSet),

		"prefs.get": with(scopeChat, prefsGet),
		"prefs.set": with(scopeChat, prefsSet),

		"sidebar.getViews": with(scopeChat, sidebarGetViews),
		"sidebar.setView":  with(scopeChat, sidebarSetView),
		"sidebar.getSpace": with(scopeChat, sidebarGetSpace),
		"sidebar.setSpace": with(scopeChat, sidebarSetSpace),

		"presence.report": with(scopeChat, presenceReport),
		"presence.get":    with(scopeChat, presenceGet),

		"host.info": with(scopeChat, hostInfo),

		"server.update.status": with(scopeChat, serverUpdateStatus),

		"fs.roots":        with(scopeChat, fsRoots),
		"fs.list":         with(scopeChat, fsList),
		"fs.search":       with(scopeChat, fsSearch),
		"fs.createFolder": with(scopeChat, fsCreateFolder),

		"files.mediaTicket": with(scopeChat, filesMediaTicket),

		"usage.summary": with(scopeChat, usageSummary),

		"catalog.models":    with(scopeChat, modelsList),
		"catalog.providers": with(scopeChat, catalogProviders),

		"models.list":       with(scopeChat, modelsList),
		"models.setDefault": with(scopeChat, modelsSetDefault),

		"decisions.list": with(scopeChat, decisionsList),

		// The protocol wants its own refusal for this one, not "unknown".
		"machine.register": {scope: scopeMachine},
	}
}

// callable lists the methods that a token of a scope may call, sorted.
func callable(s scope) []string {
	var out []string
	for name := range earlyMethods {
		out = append(out, name)
	}
	for name, m := range methods {
		if m.scope <= s {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// okResult is the answer of methods that have nothing else to say.
type okResult struct {
	OK bool `json:"ok"`
}

// session finds the session and chat that go by an id on the wire.
func (f *Front) session(ctx context.Context, wire string) (*host.Session, id.ID, error) {
	x, err := id.Parse(wire)
	if err != nil {
		return nil, id.Nil, noSession(wire)
	}
	s, chat, err := f.host.Lookup(ctx, x)
	if errors.Is(err, host.ErrNotFound) {
		return nil, id.Nil, noSession(wire)
	}
	return s, chat, err
}
