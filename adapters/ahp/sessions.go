package ahp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/transports/jsonrpc"
)

// listSessions gives the newest first; without a limit all of them.
func (c *conn) listSessions(_ context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		Limit  *int    `json:"limit"`
		Cursor *string `json:"cursor"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	if p.Limit != nil && *p.Limit < 1 {
		return nil, invalid("limit: must be 1 or more")
	}
	all := c.front.host.List(host.Filter{IncludeClosed: true, IncludeArchived: true})
	slices.SortFunc(all, newestFirst)
	if p.Cursor != nil {
		after, err := parseCursor(*p.Cursor)
		if err != nil {
			return nil, err
		}
		all = all[len(all)-countAfter(all, after):]
	}
	out := struct {
		Items      []sessionRow `json:"items"`
		NextCursor string       `json:"nextCursor,omitempty"`
	}{}
	if p.Limit != nil && len(all) > min(*p.Limit, maxPage) {
		all = all[:min(*p.Limit, maxPage)]
		last := &all[len(all)-1]
		out.NextCursor = strconv.FormatInt(last.ModifiedAt.UnixMilli(), 10) + "." + last.Info.ID.String()
	}
	out.Items = make([]sessionRow, 0, len(all))
	doing := c.front.root.told()
	for i := range all {
		if dirs := all[i].Info.Dirs; i < factsListed && len(dirs) > 0 {
			c.front.facts.wantUnknown(dirs[0])
		}
		row := c.front.row(&all[i], c.spelledFor(&all[i]))
		row.Activity = doing[all[i].Info.ID]
		out.Items = append(out.Items, row)
	}
	return out, nil
}

// newestFirst orders by modification, then by age.
func newestFirst(a, b host.Summary) int {
	return cmp.Or(cmp.Compare(b.ModifiedAt.UnixMilli(), a.ModifiedAt.UnixMilli()), b.Info.ID.Compare(a.Info.ID))
}

// cursor is the last session of a page.
type cursor struct {
	ms int64
	id id.ID
}

func parseCursor(s string) (cursor, error) {
	ms, name, _ := strings.Cut(s, ".")
	n, err := strconv.ParseInt(ms, 10, 64)
	u, idErr := id.Parse(name)
	if err != nil || idErr != nil {
		return cursor{}, invalid("cursor: this host did not give it")
	}
	return cursor{n, u}, nil
}

func countAfter(all []host.Summary, c cursor) int {
	n := 0
	for i := range all {
		if cmp.Or(cmp.Compare(c.ms, all[i].ModifiedAt.UnixMilli()), c.id.Compare(all[i].Info.ID)) > 0 {
			n++
		}
	}
	return n
}

// createSession makes a session under the name the client chose. It starts no
// agent and is not announced before its first turn: editors create sessions
// before anybody types.
func (c *conn) createSession(ctx context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		Channel            string                     `json:"channel" jsonx:"required"`
		Provider           string                     `json:"provider"`
		WorkingDirectories []string                   `json:"workingDirectories"`
		Config             map[string]json.RawMessage `json:"config"`
		ActiveClient       json.RawMessage            `json:"activeClient"`
		ProgressToken      string                     `json:"progressToken"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	scheme, name, ok := splitSession(p.Channel)
	if !ok || len(p.Channel) > maxChannelURI {
		return nil, invalid("channel: a session's name is <provider>:/<id>")
	}
	backend := p.Provider
	if backend == "" && scheme != sessionAlias {
		backend = scheme
	}
	if backend != "" {
		a, ok := c.front.agentNamed(backend)
		if !ok {
			return nil, jsonrpc.Errorf(codeProviderNotFound, "no such agent: %.80s", backend)
		}
		for _, p := range a.Problems {
			if p.Code == agent.ProblemMissing || p.Code == agent.ProblemTooOld {
				return nil, jsonrpc.Errorf(codeProviderNotFound, "%s", p.Error())
			}
		}
	} else {
		backend = c.front.host.Agents()[0].Name
	}
	if _, taken := c.front.findName(name); taken {
		return nil, jsonrpc.Errorf(codeSessionExists, "the name is taken: %.200s", p.Channel)
	}
	create := host.CreateSession{Backend: backend, By: c.actor(), Private: true}
	if u, err := id.Parse(name); err == nil {
		create.ID = u
	} else {
		create.Alias = name
	}
	for _, uri := range p.WorkingDirectories {
		dir, err := filePath(uri)
		if err != nil {
			return nil, err
		}
		create.Dirs = append(create.Dirs, dir)
	}
	settings, err := settingsFrom(event.Settings{}, p.Config, c.front.schemaOf(backend), false)
	if err != nil {
		return nil, invalid("config.%s", refusalText(err))
	}
	create.Settings = settings
	var active *announcement
	if len(p.ActiveClient) > 0 && string(p.ActiveClient) != "null" {
		a, err := c.announce(p.ActiveClient)
		if err != nil {
			return nil, invalid("activeClient: %s", refusalText(err))
		}
		active = a
	}
	apart, err := readIsolation(p.Config)
	if err != nil {
		return nil, err
	}
	place := "Looking at the folder"
	if apart != nil && apart.Kind == inTree {
		place = "Making a working tree"
	}
	c.progress(p.ProgressToken, 0, place)
	if apart != nil {
		if err := c.front.apart(ctx, &create, apart); err != nil {
			return nil, err
		}
	}
	c.progress(p.ProgressToken, 1, "Preparing the session")
	s, err := c.front.host.CreateSession(ctx, create)
	if err != nil {
		if apart != nil && apart.Tree != nil {
			c.front.worktrees.left(context.WithoutCancel(ctx), create.ID)
		}
		return nil, err
	}
	cl := c.who()
	c.front.mu.Lock()
	cl.private[s.ID()] = true
	c.front.mu.Unlock()
	c.spells(s.ID(), p.Channel)
	if active != nil {
		l, err := c.front.project(ctx, s.ID())
		if err != nil {
			return nil, err
		}
		if _, err := c.join(ctx, l, active, nil); err != nil {
			return nil, err
		}
	}
	c.progress(p.ProgressToken, 2, "Ready")
	return nil, nil
}

// disposeSession ends a session and removes it with its data.
func (c *conn) disposeSession(ctx context.Context, r *jsonrpc.Request) (any, error) {
	uri, p, err := c.placeOf(ctx, r, false)
	if err != nil {
		return nil, err
	}
	c.front.mu.Lock()
	delete(c.who().private, p.session)
	c.front.mu.Unlock()
	err = c.front.host.DeleteSession(ctx, p.session, c.actor())
	if err == nil {
		c.front.worktrees.left(c.front.ctx, p.session) // also when the client is gone by then
	}
	if errors.Is(err, host.ErrNotFound) {
		return nil, sessionNotFound(uri)
	}
	return nil, err
}

// placeOf reads the channel of a command on a session or on a chat.
func (c *conn) placeOf(ctx context.Context, r *jsonrpc.Request, chat bool) (string, place, error) {
	var p struct {
		Channel string `json:"channel" jsonx:"required"`
	}
	if err := r.Decode(&p); err != nil {
		return "", place{}, err
	}
	at, err := c.front.find(ctx, p.Channel)
	switch {
	case err != nil:
		return "", at, err
	case chat && at.chat.IsNil():
		return "", at, notFound(p.Channel)
	case !chat && !at.chat.IsNil():
		return "", at, sessionNotFound(p.Channel)
	}
	return p.Channel, at, nil
}

// fetchTurns says a page of older turns to everyone on the chat, then answers.
func (c *conn) fetchTurns(ctx context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		Cursor *string `json:"cursor"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	_, at, err := c.placeOf(ctx, r, true)
	if err != nil {
		return nil, err
	}
	l, err := c.front.project(ctx, at.session)
	if err != nil {
		return nil, err
	}
	s := l.session()
	chat := s.State().Chat(at.chat)
	if chat == nil {
		return nil, notFound("")
	}
	before := chat.Count
	if p.Cursor != nil {
		if before, err = strconv.Atoi(*p.Cursor); err != nil || before < 1 || before > chat.Count {
			return nil, invalid("cursor: this host did not give it")
		}
	}
	turns, err := s.Turns(ctx, at.chat, before, snapshotTurns)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.say(at.chat, nil, func(r *renderer) any { return loaded(r, at.chat, turns) })
	return struct{}{}, nil
}

// resolveSessionConfig gives the schema and the answers so far, with defaults.
func (c *conn) resolveSessionConfig(ctx context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		Provider         string                     `json:"provider"`
		WorkingDirectory string                     `json:"workingDirectory"`
		Config           map[string]json.RawMessage `json:"config"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	schema, err := c.schemaFor(p.Provider)
	if err != nil {
		return nil, err
	}
	dir, err := c.front.chosenDir(p.WorkingDirectory)
	if err == nil {
		err = c.front.isolationSchema(ctx, schema, dir)
	}
	if err != nil {
		return nil, err
	}
	return struct {
		Schema configSchema               `json:"schema"`
		Values map[string]json.RawMessage `json:"values"`
	}{schema, resolvedConfig(schema, p.Config)}, nil
}

func (c *conn) schemaFor(provider string) (configSchema, error) {
	if provider == "" {
		provider = c.front.host.Agents()[0].Name
	}
	if _, ok := c.front.agentNamed(provider); !ok {
		return configSchema{}, jsonrpc.Errorf(codeProviderNotFound, "no such agent: %.80s", provider)
	}
	return c.front.schemaOf(provider), nil
}

// sessionConfigCompletions completes the values of a property: those of its
// list that contain the query.
func (c *conn) sessionConfigCompletions(ctx context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		Provider         string `json:"provider"`
		WorkingDirectory string `json:"workingDirectory"`
		Property         string `json:"property" jsonx:"required"`
		Query            string `json:"query"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	schema, err := c.schemaFor(p.Provider)
	if err != nil {
		return nil, err
	}
	dir, err := c.front.chosenDir(p.WorkingDirectory)
	if err == nil {
		err = c.front.isolationSchema(ctx, schema, dir)
	}
	if err != nil {
		return nil, err
	}
	prop, ok := schema.Properties[p.Property]
	if ok && prop.EnumDynamic { // there may be more than the schema lists
		if prop.Enum, _, err = c.front.branches(ctx, dir, p.Query, maxCompletions); err != nil {
			return nil, err
		}
		prop.EnumLabels = prop.Enum
	}
	if !ok {
		return nil, invalid("property: this host has no setting %.80q", p.Property)
	}
	type item struct {
		Value       string `json:"value"`
		Label       string `json:"label"`
		Description string `json:"description,omitempty"`
	}
	items := []item{}
	for i, v := range prop.values() {
		it := item{Value: v, Label: v}
		if labels := append(slices.Clip(prop.EnumLabels), prop.labels...); i < len(labels) {
			it.Label = labels[i]
		}
		if i < len(prop.EnumDescriptions) {
			it.Description = prop.EnumDescriptions[i]
		}
		if containsFold(v, p.Query) || containsFold(it.Label, p.Query) {
			items = append(items, it)
		}
	}
	return map[string]any{"items": items}, nil
}

func containsFold(s, part string) bool {
	return strings.Contains(strings.ToLower(s), strings.ToLower(part))
}
