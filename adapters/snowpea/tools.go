package snowpea

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/transports/jsonrpc"
)

// hostTool is a tool that a connection runs itself.
type hostTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Permission  string          `json:"permission"`
	Category    *string         `json:"category"`
	Deferred    bool            `json:"deferred"`
	InputSchema json.RawMessage `json:"inputSchema"`
	TimeoutMs   *int64          `json:"timeoutMs"`
}

// invocation is a host tool that runs now.
type invocation struct {
	interaction id.ID
	timeout     time.Duration
	timer       *time.Timer
	cancel      context.CancelCauseFunc
}

type toolRow struct {
	Name          string `json:"name"`
	Description   string `json:"description"`
	Category      string `json:"category"`
	PermissionTag string `json:"permissionTag"`
	Provider      string `json:"provider"`
	Server        string `json:"server"`
	Source        string `json:"source"`
	State         string `json:"state"`
	Reason        string `json:"reason"`
	Deferred      bool   `json:"deferred"`
}

// toolList lists the agent's tools, and those that a client offers to the
// session. An unknown session gets the default agent's.
func toolList(ctx context.Context, c *conn, r *jsonrpc.Request) (any, error) {
	p, err := decode[scopeParams](r)
	if err != nil {
		return nil, err
	}
	backend := c.front.backendOr("")
	var sets []event.ClientToolsSet
	if p.SessionID != nil {
		if _, s, _, err := c.front.lookup(ctx, *p.SessionID); err == nil {
			st := s.State()
			backend, sets = st.Info.Backend, st.Tools
		}
	}
	return map[string]any{"tools": c.front.toolRows(backend, sets)}, nil
}

func (f *Front) toolRows(backend string, sets []event.ClientToolsSet) []toolRow {
	rows := []toolRow{}
	for _, t := range f.catalogue(backend).Tools {
		rows = append(rows, toolRow{Name: t.Name, Description: t.Description, Category: category(t.Tag),
			PermissionTag: tagName(t.Tag), Provider: backend, Source: "builtin", State: "active"})
	}
	for _, set := range sets {
		for _, t := range set.Tools {
			row := toolRow{Name: t.Name, Description: t.Description, Category: "host", PermissionTag: string(event.TagNetwork),
				Provider: set.Client.Front, Source: "host", State: "active"}
			if own, ok := f.hostTool(set.Client, t.Name); ok {
				row.PermissionTag, row.Deferred = own.Permission, own.Deferred
				if own.Category != nil {
					row.Category = *own.Category
				}
			}
			rows = append(rows, row)
		}
	}
	return rows
}

func category(t event.Tag) string {
	switch t {
	case event.TagRead, event.TagWrite:
		return "files"
	case event.TagExec:
		return "shell"
	case event.TagNetwork, event.TagSend:
		return "web"
	case event.TagDelegate:
		return "agents"
	}
	return "other"
}

// tagName is a tag in the protocol's words; what has none asks like exec.
func tagName(t event.Tag) string {
	if t == "" {
		return string(event.TagExec)
	}
	return string(t)
}

var toolName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)

// toolRegister takes all of the tools, or none.
func toolRegister(ctx context.Context, c *conn, r *jsonrpc.Request) (any, error) {
	p, err := decode[struct {
		Tools []hostTool `json:"tools"`
	}](r)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	agents := map[string]bool{}
	for _, t := range c.front.catalogue(c.front.backendOr("")).Tools {
		agents[t.Name] = !strings.HasPrefix(t.Name, "browser_")
	}
	for _, t := range p.Tools {
		switch {
		case !toolName.MatchString(t.Name):
			return nil, invalid("tools", "%q is no name for a tool", cut(t.Name, 80))
		case seen[t.Name]:
			return nil, invalid("tools", "%s is there twice", t.Name)
		case agents[t.Name]:
			return nil, invalid("tools", "%s is a tool of the agent", t.Name)
		case len(t.InputSchema) > maxToolSchema:
			return nil, invalid("tools", "the schema of %s is longer than %d bytes", t.Name, maxToolSchema)
		}
		seen[t.Name] = true
	}
	c.mu.Lock()
	total := len(c.tools)
	for name := range seen {
		if _, there := c.tools[name]; !there {
			total++
		}
	}
	if total > maxTools {
		c.mu.Unlock()
		return nil, invalid("tools", "would be %d, at most %d are taken", total, maxTools)
	}
	for _, t := range p.Tools {
		c.tools[t.Name] = t
	}
	c.mu.Unlock()
	c.front.refreshTools(ctx, c)
	return map[string]any{"registered": c.toolNames()}, nil
}

func toolUnregister(ctx context.Context, c *conn, r *jsonrpc.Request) (any, error) {
	p, err := decode[struct {
		Names []string `json:"names"`
	}](r)
	if err != nil {
		return nil, err
	}
	removed := []string{}
	c.mu.Lock()
	for _, n := range p.Names {
		if _, ok := c.tools[n]; ok {
			delete(c.tools, n)
			removed = append(removed, n)
		}
	}
	c.mu.Unlock()
	c.front.refreshTools(ctx, c)
	return map[string]any{"removed": removed}, nil
}

// toolProgress restarts the clock of a running call.
func toolProgress(_ context.Context, c *conn, r *jsonrpc.Request) (any, error) {
	p, err := decode[struct {
		CallID string `json:"callId"`
	}](r)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	call := c.calls[p.CallID]
	if call != nil {
		call.timer.Reset(call.timeout)
	}
	return okResult{call != nil}, nil
}

func (c *conn) toolNames() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := make([]string, 0, len(c.tools))
	for n := range c.tools {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// hostTool finds a tool that a connection registered.
func (f *Front) hostTool(client event.Actor, name string) (hostTool, bool) {
	c := f.bySurface(client)
	if c == nil {
		return hostTool{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t, ok := c.tools[name]
	return t, ok
}

// bySurface is the open connection that acts under a surface id.
func (f *Front) bySurface(a event.Actor) *conn {
	if a.Front != frontName {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		if c.surface == a.Client && c.open() {
			return c
		}
	}
	return nil
}

// toolHost is the connection whose tools a chat sees: the one that the session
// names, else its origin.
func (f *Front) toolHost(t *track, chat id.ID) *conn {
	t.mu.Lock()
	origin := t.origin(chat)
	owner := ""
	if t.fold != nil {
		owner = t.fold.Owner
	}
	t.mu.Unlock()
	if owner == "" {
		return origin
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		c.mu.Lock()
		named := c.surface == owner || c.client == owner || c.kind == owner
		c.mu.Unlock()
		if named && c.open() {
			return c
		}
	}
	return nil
}

// hostTools are the names of the tools a chat sees.
func (f *Front) hostTools(t *track, chat id.ID) []string {
	if c := f.toolHost(t, chat); c != nil {
		return c.toolNames()
	}
	return []string{}
}

// offerTools gives the session the tools of its host and takes those of an
// earlier one back.
func (f *Front) offerTools(ctx context.Context, t *track, chat id.ID) {
	host := f.toolHost(t, chat)
	t.mu.Lock()
	session, old := t.session, t.toolHost
	t.toolHost = host
	t.mu.Unlock()
	if session == nil {
		return
	}
	if old != nil && old != host && len(old.toolNames()) > 0 {
		if err := session.ClientGone(ctx, old.answerer()); err != nil {
			f.log.Warn("Tools of a client could not be taken back", "session", t.id.String(), "err", err)
		}
	}
	if host == nil {
		return
	}
	set := &event.ClientToolsSet{Client: host.answerer(), Tools: []event.ClientTool{}}
	host.mu.Lock()
	for _, tool := range host.tools {
		set.Tools = append(set.Tools, event.ClientTool{Name: tool.Name, Description: tool.Description, Schema: tool.InputSchema})
	}
	host.mu.Unlock()
	slices.SortFunc(set.Tools, func(a, b event.ClientTool) int { return strings.Compare(a.Name, b.Name) })
	has := slices.ContainsFunc(session.State().Tools, func(x event.ClientToolsSet) bool { return x.Client.Client == set.Client.Client })
	if len(set.Tools) == 0 && !has {
		return
	}
	if err := session.SetTools(ctx, set); err != nil {
		f.log.Warn("Tools of a client could not be offered", "session", t.id.String(), "err", err)
	}
}

// refreshTools offers a connection's changed tools to the sessions it hosts.
func (f *Front) refreshTools(ctx context.Context, c *conn) {
	for _, t := range f.allTracks() {
		t.mu.Lock()
		session := t.session
		t.mu.Unlock()
		if session != nil && f.toolHost(t, session.State().Default) == c {
			f.offerTools(ctx, t, session.State().Default)
		}
	}
}

func (f *Front) allTracks() []*track {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]*track, 0, len(f.tracks))
	for _, t := range f.tracks {
		out = append(out, t)
	}
	return out
}

// dropTools takes the tools of a connection that is gone back.
func (c *conn) dropTools() {
	if len(c.toolNames()) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), callTimeout)
	defer cancel()
	for _, t := range c.front.allTracks() {
		t.mu.Lock()
		mine := t.toolHost == c
		if mine {
			t.toolHost = nil
		}
		session := t.session
		t.mu.Unlock()
		if mine && session != nil {
			if err := session.ClientGone(ctx, c.answerer()); err != nil {
				c.log.Warn("Tools of a client that left could not be taken back", "session", t.id.String(), "err", err)
			}
		}
	}
}

type invokeParams struct {
	CallID          string          `json:"callId"`
	SessionID       string          `json:"sessionId"`
	ParentSessionID *string         `json:"parentSessionId"`
	TurnID          string          `json:"turnId"`
	Name            string          `json:"name"`
	Args            json.RawMessage `json:"args"`
	Mode            string          `json:"mode"`
	Workdir         string          `json:"workdir"`
	WorkspaceDir    string          `json:"workspaceDir"`
	Origin          string          `json:"origin"`
	Guard           *string         `json:"guard"`
	Attachments     []struct{}      `json:"attachments"`
	Job             *struct{}       `json:"job"`
	UserTurn        *struct{}       `json:"userTurn"`
}

type invokeResult struct {
	OK      bool            `json:"ok"`
	Output  string          `json:"output"`
	Error   *string         `json:"error"`
	Content []contentBlock  `json:"content"`
	Meta    json.RawMessage `json:"meta"`
}

var (
	errToolTimeout = errors.New("the client did not answer in time")
	errToolSettled = errors.New("the call was settled")
)

// invoke has a connection run one of its tools. Every way it can go wrong is a
// failed call, never a failed turn.
func (f *Front) invoke(t *track, i *event.Interaction) {
	if i.Client.Front != frontName {
		return
	}
	c := f.bySurface(i.Client)
	if c == nil {
		f.background(func(ctx context.Context) {
			f.finishCall(ctx, t, i, invokeResult{Error: ptr("the client that runs this tool has left")})
		})
		return
	}
	t.mu.Lock()
	p := invokeParams{CallID: i.Call, SessionID: t.fold.name(i.Chat), Name: i.Tool, Args: argsOf(i.Input),
		Mode: modeName(t.fold.Settings.Mode), Workdir: t.fold.Dir, WorkspaceDir: t.fold.Dir, Origin: "agent", Attachments: []struct{}{}}
	if x := t.fold.Chats[i.Chat]; x != nil && x.Turn != nil {
		p.TurnID = x.Turn.Key
		if x.Origin == event.OriginSubagent {
			p.ParentSessionID = ptr(t.fold.name(x.Parent))
		}
	}
	t.mu.Unlock()
	ctx, cancel := context.WithCancelCause(c.ctx)
	call := &invocation{interaction: i.ID, timeout: toolTimeout, cancel: cancel}
	c.mu.Lock()
	if own, ok := c.tools[i.Tool]; ok && own.TimeoutMs != nil && *own.TimeoutMs > 0 {
		call.timeout = min(time.Duration(*own.TimeoutMs)*time.Millisecond, maxToolTimeout)
	}
	call.timer = time.AfterFunc(call.timeout, func() { cancel(errToolTimeout) })
	c.calls[i.Call] = call
	c.mu.Unlock()
	c.spawn(func(context.Context) {
		defer func() {
			call.timer.Stop()
			cancel(nil)
			c.mu.Lock()
			if c.calls[i.Call] == call {
				delete(c.calls, i.Call)
			}
			c.mu.Unlock()
		}()
		// The clock is the call's own: it is started again by progress.
		deadline, stop := context.WithTimeout(ctx, maxToolTimeout)
		defer stop()
		b, err := c.peer.Call(deadline, "tool.invoke", p)
		var res invokeResult
		var refused *jsonrpc.Error
		switch {
		case errors.Is(context.Cause(ctx), errToolSettled):
			return
		case errors.As(err, &refused):
			res.Error = ptr(cut(refused.Message, maxNotice))
		case errors.Is(context.Cause(ctx), errToolTimeout), errors.Is(err, context.DeadlineExceeded):
			res.Error = ptr(errToolTimeout.Error())
		case err != nil:
			res.Error = ptr("the client that runs this tool has left")
		case json.Unmarshal(b, &res) != nil:
			res = invokeResult{Error: ptr("the client's answer cannot be read")}
		}
		f.finishCall(context.WithoutCancel(ctx), t, i, res)
	})
}

// finishCall gives a host tool's result to the agent.
func (f *Front) finishCall(ctx context.Context, t *track, i *event.Interaction, res invokeResult) {
	out := event.Resolution{Outcome: event.Completed, By: i.Client, Failed: !res.OK, Output: res.Output}
	for _, b := range res.Content {
		if b.Type == "text" && b.Text != nil {
			out.Output += *b.Text
		}
	}
	if !res.OK && res.Error != nil {
		out.Output = strings.TrimSpace(out.Output + "\n" + *res.Error)
	}
	s, err := f.host.Session(ctx, t.id)
	if err == nil {
		err = s.Resolve(ctx, i.ID, out)
	}
	if err != nil {
		f.log.Debug("The result of a client's tool came too late", "session", t.id.String(), "call", i.Call, "err", err)
	}
}

type toolCancel struct {
	CallID    string `json:"callId"`
	SessionID string `json:"sessionId"`
}

// settledCall tells the host of a call that ended without its answer.
func (f *Front) settledCall(t *track, b *event.InteractionResolved, chat id.ID) {
	if b.Resolution.Outcome == event.Completed {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		c.mu.Lock()
		for callID, call := range c.calls {
			if call.interaction == b.ID {
				call.cancel(errToolSettled)
				t.mu.Lock()
				name := t.fold.name(chat)
				t.mu.Unlock()
				if n, err := jsonrpc.Notification("tool.cancel", toolCancel{callID, name}); err == nil {
					_ = c.send(n)
				}
			}
		}
		c.mu.Unlock()
	}
}
