package ahp

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/state"
	"github.com/polyhost/polyhost/transports/jsonrpc"
	"github.com/polyhost/polyhost/transports/jsonx"
)

// action is one dispatched action on its way.
type action struct {
	conn   *conn
	uri    string
	place  place
	live   *live
	raw    json.RawMessage
	origin origin
	seen   uint64 // the session's position before it was looked at
	// as is what confirms it, where that is not the action itself.
	as struct {
		uri string
		raw json.RawMessage
	}
}

// errUnchanged says that an action changed nothing: its sender alone is told.
var errUnchanged = errors.New("nothing changed")

// kind of channel an action belongs to.
type channelKind int

const (
	onSession channelKind = iota
	onChat
)

// actions are those a client may send on a session or a chat, in three
// groups: those that are done, those that are refused in their own words, and
// all others, which are the host's to say or nobody's.
var actions map[string]struct {
	on  channelKind
	run func(a *action, ctx context.Context) error
}

func init() {
	type row = struct {
		on  channelKind
		run func(a *action, ctx context.Context) error
	}
	no := func(why string) func(*action, context.Context) error {
		return func(*action, context.Context) error { return refusal(why) }
	}
	actions = map[string]row{
		"session/titleChanged":             {onSession, (*action).renameSession},
		"session/activeClientSet":          {onSession, (*action).setActiveClient},
		"session/activeClientRemoved":      {onSession, (*action).removeActiveClient},
		"session/isReadChanged":            {onSession, (*action).readSession},
		"session/isArchivedChanged":        {onSession, (*action).archiveSession},
		"session/configChanged":            {onSession, (*action).configure},
		"session/workingDirectorySet":      {onSession, (*action).addDirectory},
		"session/workingDirectoryRemoved":  {onSession, (*action).removeDirectory},
		"session/workingDirectoryReplaced": {onSession, (*action).replaceDirectory},

		"session/customizationToggled":         {onSession, (*action).toggleCustomization},
		"session/mcpServerStartRequested":      {onSession, (*action).startServer},
		"session/mcpServerStopRequested":       {onSession, (*action).stopServer},
		"session/mcpServerBackgroundRequested": {onSession, (*action).backgroundServer},

		"chat/turnStarted":             {onChat, (*action).startTurn},
		"chat/turnCancelled":           {onChat, (*action).cancelTurn},
		"chat/turnResume":              {onChat, (*action).resumeTurn},
		"chat/toolCallConfirmed":       {onChat, (*action).confirmCall},
		"chat/toolCallComplete":        {onChat, (*action).completeCall},
		"chat/toolCallContentChanged":  {onChat, (*action).callProgress},
		"chat/inputCompleted":          {onChat, (*action).completeInput},
		"chat/inputAnswerChanged":      {onChat, (*action).changeAnswer},
		"chat/pendingMessageSet":       {onChat, (*action).setPending},
		"chat/pendingMessageRemoved":   {onChat, (*action).removePending},
		"chat/queuedMessagesReordered": {onChat, (*action).reorderPending},
		"chat/draftChanged":            {onChat, (*action).changeDraft},
		"chat/isReadChanged":           {onChat, (*action).readChat},
		"chat/isArchivedChanged":       {onChat, (*action).archiveChat},
		"chat/truncated":               {onChat, (*action).truncate},
		"chat/workingDirectorySet":     {onChat, (*action).addChatDirectory},
		"chat/workingDirectoryRemoved": {onChat, (*action).removeChatDirectory},

		"chat/toolCallResultConfirmed": {onChat, no("this host never asks whether a result may be used")},
	}
}

// hostOnly are the actions that are the host's alone to say.
var hostOnly = map[string]bool{
	"session/ready": true, "session/creationFailed": true, "session/chatAdded": true, "session/chatRemoved": true,
	"session/chatUpdated": true, "session/chatsReordered": true, "session/defaultChatChanged": true,
	"session/serverToolsChanged": true, "session/inputNeededSet": true, "session/inputNeededRemoved": true,
	"session/customizationsChanged": true, "session/customizationUpdated": true, "session/customizationRemoved": true,
	"session/mcpServerStateChanged": true, "session/activityChanged": true, "session/changesetsChanged": true,
	"changeset/statusChanged": true, "changeset/fileSet": true, "changeset/fileRemoved": true, "changeset/contentChanged": true,
	"changeset/operationsChanged": true, "changeset/operationStatusChanged": true, "changeset/cleared": true,
	"session/metaChanged": true,
	"chat/delta":          true, "chat/reasoning": true, "chat/responsePart": true, "chat/usage": true,
	"chat/toolCallStart": true, "chat/toolCallDelta": true, "chat/toolCallReady": true, "chat/toolCallAuthRequired": true,
	"chat/toolCallAuthResolved": true, "chat/turnComplete": true, "chat/error": true, "chat/activityChanged": true,
	"chat/inputRequested": true, "chat/turnsLoaded": true, "chat/backgroundWorkSet": true, "chat/backgroundWorkRemoved": true,
	"chat/movableChanged": true, "chat/changesetsChanged": true, "chat/canvasesChanged": true,
	"terminal/data": true, "terminal/cwdChanged": true, "terminal/exited": true, "terminal/commandDetectionAvailable": true,
	"terminal/commandExecuted": true, "terminal/commandFinished": true,
	"automation/set": true, "automationRun/lifecycleChanged": true, "automationRun/sessionSet": true, "automationRun/sessionRemoved": true,
	"automationRun/primarySessionChanged": true,
	"root/agentsChanged":                  true, "root/activeSessionsChanged": true, "root/terminalsChanged": true,
}

// dispatch does what a client says it did. Its echo comes with the events that
// follow, or here when none do.
func (c *conn) dispatch(ctx context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		Channel   string          `json:"channel" jsonx:"required"`
		ClientSeq json.RawMessage `json:"clientSeq" jsonx:"required"`
		Action    json.RawMessage `json:"action" jsonx:"required"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	if jsonx.Kind(p.ClientSeq) != "number" {
		return nil, invalid("clientSeq: want number, got %s", jsonx.Kind(p.ClientSeq))
	}
	var typ struct {
		Type string `json:"type" jsonx:"required"`
	}
	if err := jsonx.DecodeChecked(p.Action, &typ); err != nil {
		return nil, invalid("action.%v", err)
	}
	a := &action{conn: c, uri: p.Channel, raw: p.Action, origin: origin{c.who().id, json.Number(p.ClientSeq)}}
	err := a.do(ctx, typ.Type)
	for try := 1; errors.Is(err, errUnchanged) && !a.confirm(ctx, try == unchangedTries); try++ {
		err = a.do(ctx, typ.Type)
	}
	switch {
	case err == nil, errors.Is(err, errUnchanged):
	default:
		c.refuse(p.Channel, p.Action, &a.origin, refusalText(err))
		c.log.Debug("An action was refused", "channel", clip(p.Channel), "action", clip(typ.Type), "err", err)
	}
	return nil, nil
}

// confirm tells the sender that its action changed nothing. It reports false
// when more happened since that was looked at, so that it may not be true any
// more; anyway says it all the same.
func (a *action) confirm(ctx context.Context, anyway bool) bool {
	if l := a.live; l != nil {
		// What changed it first must reach the client first.
		l.catchUp(ctx, l.session().State().Seq)
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.st.Seq > a.seen && !anyway {
			return false
		}
	}
	if a.as.uri != "" {
		a.conn.confirm(a.as.uri, a.as.raw, &a.origin)
	} else {
		a.conn.confirm(a.uri, a.raw, &a.origin)
	}
	return true
}

// errNowhere refuses what is said on a channel that is not there, or not any more.
const errNowhere = refusal("there is no such channel, or not any more")

func (a *action) do(ctx context.Context, typ string) error {
	if hostOnly[typ] {
		return refusal("only the host may say " + typ)
	}
	if a.uri == rootURI {
		if typ == "root/configChanged" {
			return a.configureRoot(ctx)
		}
		return refusal("this host does not take " + clip(typ) + " on that channel")
	}
	if s := a.conn.front.service(a.uri); s != nil {
		return s.dispatch(ctx, a, typ)
	}
	var err error
	if a.place, err = a.conn.front.find(ctx, a.uri); err != nil {
		return errNowhere
	}
	if a.live, err = a.conn.front.project(ctx, a.place.session); err != nil {
		return err
	}
	a.seen = a.live.session().State().Seq
	row, known := actions[typ]
	kind := onSession
	if !a.place.chat.IsNil() {
		kind = onChat
	}
	switch {
	case known && row.on == kind:
		return row.run(a, ctx)
	case typ == "session/titleChanged":
		return a.renameChat(ctx)
	case known:
		return refusal(typ + " does not belong on that channel")
	}
	return refusal("this host knows no action " + clip(typ))
}

// look gives the session as clients have it, and the chat, under the
// projection's lock.
func (a *action) look(f func(st *state.State, c *state.Chat) error) error {
	a.live.mu.Lock()
	defer a.live.mu.Unlock()
	c := a.live.st.Chat(a.place.chat)
	if c == nil && !a.place.chat.IsNil() {
		return errNowhere
	}
	return f(a.live.st, c)
}

// expect runs a command whose event is to carry the action's origin. One that
// failed when its action was answered already has nothing more to say.
func (a *action) expect(key string, run func() error) error {
	a.live.expecting(key, a)
	err := run()
	if err != nil && !a.live.unexpect(key, a.origin) {
		return nil
	}
	return err
}

// change is expect for a command whose event, if it makes one, is there when
// it returns: without one that clients hear of, nothing changed. Somebody else
// may have been quicker.
func (a *action) change(ctx context.Context, key string, run func() error) error {
	err := a.expect(key, run)
	if err != nil {
		return err
	}
	a.live.catchUp(ctx, a.live.session().State().Seq)
	if a.live.unexpect(key, a.origin) {
		return errUnchanged
	}
	return nil
}

// who is the part of a key that tells clients apart.
func (a *action) who() string { return a.origin.client }

// chatKey is the part of a key that tells chats and clients apart.
func (a *action) chatKey() string { return a.place.chat.String() + a.who() }

// current is the state of the session now.
func (a *action) current() (*state.State, *state.Chat) {
	st := a.live.session().State()
	return st, st.Chat(a.place.chat)
}

// activeTurn finds the running turn under its name here.
func activeTurn(c *state.Chat, name string) *state.Turn {
	if c != nil && c.Active != nil && turnID(c.Active) == name {
		return c.Active
	}
	return nil
}

// waitingMessage finds a waiting message under its name here.
func waitingMessage(c *state.Chat, kind, name string) id.ID {
	list := c.Queue
	if kind == kindSteering {
		list = c.Steering
	}
	for i := range list {
		if messageID(&list[i]) == name {
			return list[i].ID
		}
	}
	return id.Nil
}
