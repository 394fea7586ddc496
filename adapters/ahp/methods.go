package ahp

import (
	"context"
	"encoding/json"

	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/transports/jsonrpc"
	"github.com/polyhost/polyhost/transports/ws"
)

// method is a row of the method table. A row without run is declared by the
// protocol and not served: it is answered like a method nobody has.
type method struct {
	run func(c *conn, ctx context.Context, r *jsonrpc.Request) (any, error)
	// channel is the fixed channel; "" is any, or not enforced.
	channel      string
	notification bool
	first        bool // may come before the handshake
}

// methods are all that a client may send.
var methods map[string]method

func init() {
	methods = map[string]method{
		"initialize": {run: (*conn).initialize, first: true},
		"ping":       {run: (*conn).ping, first: true},
		"reconnect":  {run: (*conn).reconnect, channel: rootURI, first: true},

		"subscribe":      {run: (*conn).subscribe},
		"unsubscribe":    {run: (*conn).unsubscribe, notification: true},
		"dispatchAction": {run: (*conn).dispatch, notification: true},

		"listSessions":   {run: (*conn).listSessions, channel: rootURI},
		"createSession":  {run: (*conn).createSession},
		"disposeSession": {run: (*conn).disposeSession},
		"createChat":     {run: (*conn).createChat},
		"disposeChat":    {run: (*conn).disposeChat},
		"fetchTurns":     {run: (*conn).fetchTurns},
		"completions":    {run: (*conn).completions},

		"createTerminal":  {run: (*conn).createTerminal},
		"disposeTerminal": {run: (*conn).disposeTerminal},

		"authenticate": {run: (*conn).authenticate, channel: rootURI},

		"resolveSessionConfig":     {run: (*conn).resolveSessionConfig, channel: rootURI},
		"sessionConfigCompletions": {run: (*conn).sessionConfigCompletions, channel: rootURI},

		"shutdown":                            {run: (*conn).shutdown},
		"getNetworkDiagnosticsInfo":           {run: (*conn).networkInfo},
		"getManagedSettingsDiagnostics":       {run: (*conn).managedSettings},
		"diagnosticsFetch":                    {run: (*conn).diagnose},
		"vscode/removeSessionArtifact":        {run: (*conn).removeArtifact},
		"vscode/getAgentHostSessionStateFile": {run: (*conn).stateFile},
		"vscode/collectAgentHostDebugLogs":    {run: (*conn).collectLogs},
		"vscode/readAgentHostDebugLogsChunk":  {run: (*conn).readLogs},

		"vscode/createAgentHostDetachedWorktree":      {run: (*conn).createDetached},
		"vscode/claimAgentHostDetachedWorktree":       {run: (*conn).claimDetached},
		"vscode/setAgentHostDetachedWorktreeArchived": {run: (*conn).archiveDetached},
		"vscode/deleteAgentHostDetachedWorktree":      {run: (*conn).deleteDetached},
		"vscode/reconcileAgentHostDetachedWorktrees":  {run: (*conn).reconcileDetached},

		"vscode/devContainers/isDockerAvailable": {run: (*conn).dockerAvailable},
		"vscode/devContainers/connect":           {run: (*conn).connectContainer},
		"vscode/devContainers/disconnect":        {run: (*conn).disconnectContainer},
		"vscode/devContainers/relaySend":         {run: (*conn).relaySend},
		"vscode/devContainers/stop":              {run: (*conn).stopContainer},
		"vscode/devContainers/remove":            {run: (*conn).removeContainer},

		"moveChat":                         {run: (*conn).moveChat},
		"createResourceWatch":              {run: (*conn).createWatch, channel: rootURI},
		"invokeChangesetOperation":         {run: (*conn).invoke},
		"resourceRead":                     {run: (*conn).readResource, channel: rootURI},
		"resourceList":                     {run: (*conn).listResource, channel: rootURI},
		"resourceResolve":                  {run: (*conn).resolveResource, channel: rootURI},
		"resourceWrite":                    {run: (*conn).writeResource, channel: rootURI},
		"resourceDelete":                   {run: (*conn).deleteResource, channel: rootURI},
		"resourceMkdir":                    {run: (*conn).makeDirectory, channel: rootURI},
		"resourceMove":                     {run: (*conn).moveResource, channel: rootURI},
		"resourceCopy":                     {run: (*conn).copyResource, channel: rootURI},
		"resourceRequest":                  {run: (*conn).requestResource, channel: rootURI},
		"listAutomationTriggerDefinitions": {run: (*conn).listTriggers, channel: rootURI},
		"runAutomation":                    {run: (*conn).runAutomation, channel: automationsURI},
		"fetchAutomationRuns":              {run: (*conn).fetchRuns, channel: automationsURI},
	}
}

func (c *conn) ping(context.Context, *jsonrpc.Request) (any, error) { return nil, nil }

// initialize agrees on a version and makes the first subscriptions.
func (c *conn) initialize(ctx context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		ProtocolVersions []string `json:"protocolVersions" jsonx:"required"`
		ClientID         string   `json:"clientId" jsonx:"required"`
		ClientInfo       *struct {
			Name  string `json:"name"`
			Title string `json:"title"`
		} `json:"clientInfo"`
		InitialSubscriptions []string `json:"initialSubscriptions"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	switch {
	case c.who() != nil:
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidRequest, "this connection is initialized already")
	case p.ClientID == "" || len(p.ClientID) > maxClientID:
		return nil, invalid("clientId: must have 1 to %d bytes", maxClientID)
	case len(p.ProtocolVersions) > maxVersions:
		return nil, invalid("protocolVersions: at most %d", maxVersions)
	case len(p.InitialSubscriptions) > maxSubscriptions:
		return nil, invalid("initialSubscriptions: at most %d", maxSubscriptions)
	}
	agreed, err := negotiate(p.ProtocolVersions)
	if err != nil {
		return nil, jsonrpc.InvalidParams(err)
	}
	if agreed == "" {
		r.Then(func() { c.ws.Close(ws.CloseNormal, "no common protocol version") })
		return nil, &jsonrpc.Error{Code: codeUnsupportedVersion, Message: "none of the offered protocol versions is spoken here",
			Data: map[string]any{"supportedVersions": supportedVersions}}
	}
	name := ""
	if p.ClientInfo != nil {
		if name = p.ClientInfo.Title; name == "" {
			name = p.ClientInfo.Name
		}
	}
	c.enter(p.ClientID, clip(name), true)
	c.log.Info("A client connected", "client", p.ClientID, "name", name, "version", agreed)
	j, err := c.hold(ctx, r)
	if err != nil {
		return nil, err
	}
	snaps := c.takeAll(ctx, j, p.InitialSubscriptions)
	seq, _ := c.front.journal.now()
	return struct {
		ProtocolVersion             string                 `json:"protocolVersion"`
		ServerSeq                   uint64                 `json:"serverSeq"`
		ServerInfo                  map[string]string      `json:"serverInfo"`
		Snapshots                   []snapshot             `json:"snapshots"`
		DefaultDirectory            string                 `json:"defaultDirectory,omitempty"`
		CompletionTriggerCharacters []string               `json:"completionTriggerCharacters"`
		TerminalCommandPrefix       string                 `json:"terminalCommandPrefix"`
		Telemetry                   telemetryOffer         `json:"telemetry"`
		Automations                 automationCapabilities `json:"automations"`
		Meta                        windowOffer            `json:"_meta"`
	}{agreed, seq, map[string]string{"name": "polyhost", "version": c.front.version, "title": "polyhost"}, snaps,
		c.front.defaultDirectory(), []string{"/", "@", "#"}, commandPrefix, telemetryOffered, c.front.automationsOffered(), windowOffer{true, true, true, c.front.containers != nil}}, nil
}

func (f *Front) defaultDirectory() string {
	if dir := f.host.DefaultDir(); dir != "" {
		return fileURI(dir)
	}
	return ""
}

// enter makes the connection a client's. It reports whether the client was
// known; an unknown one enters only when create is true.
func (c *conn) enter(clientID, name string, create bool) bool {
	cl, known := c.front.remember(c, clientID, name, create)
	if cl == nil {
		return false
	}
	c.mu.Lock()
	c.client = cl
	c.mu.Unlock()
	c.ws.SetReadLimit(messageLimit)
	return known
}

// takeAll makes snapshots of channels, leaving out what cannot be had, and
// subscribes to them behind the answer.
func (c *conn) takeAll(ctx context.Context, j *joining, uris []string) []snapshot {
	snaps := []snapshot{}
	seen := map[string]bool{}
	for _, uri := range uris {
		if seen[uri] {
			continue
		}
		seen[uri] = true
		t, err := c.take(ctx, uri, snapshotTurns)
		if err != nil {
			c.log.Debug("A channel could not be subscribed", "channel", uri, "err", err)
			continue
		}
		c.noteSpelling(t, uri)
		if t.State != nil {
			snaps = append(snaps, t.snapshot)
		}
		j.add(t)
	}
	return snaps
}

// take makes a snapshot as this connection has the channel.
func (c *conn) take(ctx context.Context, uri string, turns int) (taken, error) {
	t, err := c.front.take(ctx, uri, turns)
	if root, ok := t.State.(rootState); ok {
		root.Config = c.configFor(root.Config)
		t.State = root
	}
	return t, err
}

func (c *conn) noteSpelling(t taken, uri string) {
	if !t.held.session.IsNil() && t.held.chat.IsNil() {
		c.spells(t.held.session, uri)
	}
}

// reconnect gives a known client what it missed.
func (c *conn) reconnect(ctx context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		ClientID          string   `json:"clientId" jsonx:"required"`
		LastSeenServerSeq uint64   `json:"lastSeenServerSeq" jsonx:"required"`
		Subscriptions     []string `json:"subscriptions" jsonx:"required"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	switch {
	case c.who() != nil:
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidRequest, "this connection is initialized already")
	case len(p.Subscriptions) > maxSubscriptions:
		return nil, invalid("subscriptions: at most %d", maxSubscriptions)
	}
	if !c.enter(p.ClientID, "", false) {
		return nil, jsonrpc.Errorf(codeNotFound, "this host does not know that client: initialize")
	}
	j, err := c.hold(ctx, r)
	if err != nil {
		return nil, err
	}
	defer c.dropMemberships(ctx, p.Subscriptions)
	if answer := c.replay(ctx, j, p.LastSeenServerSeq, p.Subscriptions); answer != nil {
		return answer, nil
	}
	return struct {
		Type      string     `json:"type"`
		Snapshots []snapshot `json:"snapshots"`
	}{"snapshot", c.takeAll(ctx, j, p.Subscriptions)}, nil
}

// replay answers with the missed actions, or nil when they cannot all be had.
func (c *conn) replay(ctx context.Context, j *joining, after uint64, uris []string) any {
	chs, missing, found := map[*channel]int{}, []string{}, map[string]taken{}
	for _, uri := range uris {
		h, err := c.front.opened(ctx, uri)
		switch {
		case err != nil:
			missing = append(missing, uri)
		case h.ch == nil:
			return nil // there, but nobody kept its history
		default:
			if _, again := found[uri]; !again {
				chs[h.ch]++
			}
			t := taken{ch: h.ch, held: h}
			t.Resource = uri
			found[uri] = t
		}
	}
	actions, pos, ok := c.front.journal.replay(chs, after)
	if !ok {
		return nil
	}
	for uri, t := range found {
		t.pos = pos
		c.noteSpelling(t, uri)
		j.add(t)
	}
	return struct {
		Type    string            `json:"type"`
		Actions []json.RawMessage `json:"actions"`
		Missing []string          `json:"missing"`
	}{"replay", actions, missing}
}

// opened finds a channel that is open already; ch is nil when there is such a
// channel but it is not open.
func (f *Front) opened(ctx context.Context, uri string) (held, error) {
	if uri == rootURI {
		return held{ch: f.root.ch}, nil
	}
	if s := f.service(uri); s != nil {
		return s.opened(uri)
	}
	p, err := f.find(ctx, uri)
	if err != nil {
		return held{}, err
	}
	f.mu.Lock()
	l := f.lives[p.session]
	f.mu.Unlock()
	if l == nil {
		return held{}, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.open[uri]; s != nil {
		return held{ch: s.ch, session: l.id, chat: p.chat}, nil
	}
	return held{}, nil
}

// dropMemberships takes the client out of the sessions that it does not name
// any more.
func (c *conn) dropMemberships(ctx context.Context, uris []string) {
	named := map[id.ID]bool{}
	for _, uri := range uris {
		if p, err := c.front.find(ctx, uri); err == nil {
			named[p.session] = true
		}
	}
	cl := c.who()
	c.front.mu.Lock()
	var left []id.ID
	for sid := range cl.member {
		if !named[sid] {
			left = append(left, sid)
			delete(cl.member, sid)
		}
	}
	c.front.mu.Unlock()
	for _, sid := range left {
		c.front.leave(ctx, sid, cl)
	}
}

// subscribe answers with a snapshot; actions follow from there.
func (c *conn) subscribe(ctx context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		Channel string `json:"channel" jsonx:"required"`
		View    *struct {
			Turns *int `json:"turns"`
		} `json:"view"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	turns := snapshotTurns
	if p.View != nil && p.View.Turns != nil {
		if *p.View.Turns < 0 {
			return nil, invalid("view.turns: must not be negative")
		}
		turns = min(*p.View.Turns, maxViewTurns)
	}
	c.mu.Lock()
	_, again := c.subs[p.Channel]
	full := !again && len(c.subs) >= maxSubscriptions
	c.mu.Unlock()
	if full {
		return nil, invalid("channel: one connection may watch %d at most", maxSubscriptions)
	}
	j, err := c.hold(ctx, r)
	if err != nil {
		return nil, err
	}
	t, err := c.take(ctx, p.Channel, turns)
	if err != nil {
		return nil, err
	}
	c.noteSpelling(t, p.Channel)
	j.add(t)
	if t.State == nil { // a channel that has none
		return struct{}{}, nil
	}
	return map[string]any{"snapshot": t.snapshot}, nil
}

// unsubscribe ends a subscription, and with the session's own the client's
// part in it.
func (c *conn) unsubscribe(ctx context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		Channel string `json:"channel" jsonx:"required"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	c.mu.Lock()
	h, ok := c.subs[p.Channel]
	delete(c.subs, p.Channel)
	c.mu.Unlock()
	if !ok {
		return nil, nil
	}
	left := c.part(p.Channel, h.ch)
	if h.session.IsNil() {
		return nil, nil
	}
	if h.chat.IsNil() && !c.front.watchedStill(c.who(), h.session) {
		cl := c.who()
		c.front.mu.Lock()
		member := cl.member[h.session]
		delete(cl.member, h.session)
		c.front.mu.Unlock()
		if member {
			c.front.leave(ctx, h.session, cl)
		}
	}
	if left == 0 {
		c.front.mu.Lock()
		l := c.front.lives[h.session]
		c.front.mu.Unlock()
		if l != nil {
			l.forget(p.Channel)
		}
	}
	return nil, nil
}

// watchedStill reports whether a connection of a client watches a session, by
// whatever name.
func (f *Front) watchedStill(cl *client, session id.ID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		if c.who() != cl {
			continue
		}
		c.mu.Lock()
		for _, h := range c.subs {
			if h.session == session && h.chat.IsNil() {
				c.mu.Unlock()
				return true
			}
		}
		c.mu.Unlock()
	}
	return false
}
