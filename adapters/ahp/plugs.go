package ahp

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/polyhost/polyhost/core/addon"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/extend"
	"github.com/polyhost/polyhost/core/files"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/transports/jsonrpc"
)

// announcedPlugin is a plugin as a client says that it has it.
type announcedPlugin struct {
	Type       string       `json:"type"`
	ID         string       `json:"id"`
	URI        string       `json:"uri"`
	Name       string       `json:"name"`
	Nonce      string       `json:"nonce,omitempty"`
	Version    string       `json:"version,omitempty"`
	Enablement []enablement `json:"enablement,omitempty"`
}

// judgePlugins refuses a list of plugins in words.
func judgePlugins(list []announcedPlugin) error {
	if len(list) > maxPlugins {
		return refusal(fmt.Sprintf("a client brings at most %d plugins", maxPlugins))
	}
	seen := map[string]bool{}
	for i := range list {
		p := &list[i]
		switch {
		case p.ID == "":
			return refusal("a plugin has no id")
		case seen[p.ID]:
			return refusal("two plugins have the id " + clip(p.ID))
		case p.URI == "":
			return refusal("the plugin " + clip(p.ID) + " has no URI")
		case len(p.ID) > maxPluginID || len(p.Name) > maxPluginID || len(p.URI) > maxPluginURI:
			return refusal("the id, the name or the URI of the plugin " + clip(p.ID) + " is too long")
		}
		seen[p.ID] = true
	}
	return nil
}

// plug is a plugin that a client brought to a session.
type plug struct {
	said announcedPlugin
	copy *pluginCopy // nil: it is not copied, for why
	why  string
	kept *addon.Copy // of a plugin that the session has without a client
}

// plugins copies what clients announce. A plugin that its client tells apart by a
// nonce is copied once for all sessions. Locks are taken in this order: a live's,
// mu.
type plugins struct {
	front *Front
	store *addon.Store // nil: this host takes none

	mu     sync.Mutex
	copies map[string]*pluginCopy
	serial int
}

// pluginCopy is one copy, made or on its way. Its fields belong to the lock of
// plugins.
type pluginCopy struct {
	key    string
	client string
	cancel context.CancelFunc
	users  map[*live]int
	done   bool
	copied *addon.Copy // nil: failed, or on its way
	why    string      // it failed
	left   bool        // because its client left
}

const noPlugins = "the operator of this host takes no plugins from clients"

func newPlugins(f *Front) *plugins {
	return &plugins{front: f, store: f.host.Addons(), copies: map[string]*pluginCopy{}}
}

// take begins to copy a plugin for a session, or finds the copy. The caller holds
// the live's lock.
func (s *plugins) take(l *live, cl *client, p announcedPlugin) *plug {
	out := &plug{said: p}
	if s.store == nil {
		out.why = noPlugins
		return out
	}
	if a, ok := s.front.agentNamed(l.st.Info.Backend); ok && a.Known && !a.Info.Capabilities.Plugins {
		return out // see pluginShape
	}
	src, err := s.source(cl, p.URI)
	if err != nil {
		out.why = refusalText(err)
		return out
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serial++
	key := fmt.Sprint(s.serial) // it may be another each time
	if p.Nonce != "" {
		key = strings.Join([]string{cl.id, p.URI, p.Nonce, p.Name}, "\x00")
	}
	c := s.copies[key]
	if c != nil && c.left { // it is back
		delete(s.copies, key)
		c = nil
	}
	if c == nil {
		if why := s.full(cl.id); why != "" {
			out.why = why
			return out
		}
		ctx, cancel := context.WithCancel(s.front.ctx)
		c = &pluginCopy{key: key, client: cl.id, cancel: cancel, users: map[*live]int{}}
		s.copies[key] = c
		s.front.wg.Go(func() { s.copy(ctx, cl, c, p, src) })
	}
	c.users[l]++
	out.copy = c
	return out
}

// full is why no more plugins of a client are copied, or "". The caller holds mu.
func (s *plugins) full(client string) string {
	mine := 0
	for _, c := range s.copies {
		if c.client == client {
			mine++
		}
	}
	switch {
	case len(s.copies) >= maxPluginCopies:
		return "this host copies too many plugins already"
	case mine >= pluginShare:
		return fmt.Sprintf("this host copies %d plugins of this client already", mine)
	}
	return ""
}

// drop lets a session's plugin go.
func (s *plugins) drop(l *live, p *plug) {
	if p.kept != nil {
		p.kept.Release()
	}
	c := p.copy
	if c == nil {
		return
	}
	s.mu.Lock()
	if c.users[l]--; c.users[l] == 0 {
		delete(c.users, l)
	}
	unused := len(c.users) == 0
	copied := c.copied
	if unused {
		c.cancel()
		c.copied = nil
		if s.copies[c.key] == c {
			delete(s.copies, c.key)
		}
	}
	s.mu.Unlock()
	if unused && copied != nil {
		copied.Release()
	}
}

// copy copies a plugin and tells the sessions that wait for it.
func (s *plugins) copy(ctx context.Context, cl *client, c *pluginCopy, p announcedPlugin, src addon.Source) {
	defer c.cancel()
	copied, err := s.inTurn(ctx, cl, p, src)
	s.mu.Lock()
	c.done = true
	unused := len(c.users) == 0
	if err != nil {
		c.why, c.left = s.front.copyTrouble(err), errors.Is(err, errOwnerLeft)
	} else if !unused {
		c.copied = copied
	}
	lives := keys(c.users)
	s.mu.Unlock()
	switch {
	case unused:
		if err == nil {
			copied.Release()
		}
		return
	case err != nil:
		s.front.log.Info("A client's plugin could not be copied", "plugin", clip(p.URI), "err", err)
	default:
		s.front.log.Info("A client's plugin was copied", "plugin", clip(p.URI), "items", len(copied.Contents.Items))
	}
	for _, l := range lives {
		l.mu.Lock()
		if !l.gone { // or else another projection of the session speaks for it
			l.bring()
			l.customize()
		}
		l.mu.Unlock()
	}
}

// inTurn copies a plugin when its client has a place free.
func (s *plugins) inTurn(ctx context.Context, cl *client, p announcedPlugin, src addon.Source) (*addon.Copy, error) {
	select {
	case cl.copying <- struct{}{}:
		defer func() { <-cl.copying }()
		return s.store.Copy(ctx, cl.id, p.Name, src)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// stateOf is how a plugin is: its copy if it is there, whether that is on its
// way, and else why there is none.
func (s *plugins) stateOf(p *plug) (copied *addon.Copy, loading bool, why string) {
	if p.copy == nil {
		return p.kept, false, p.why
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return p.copy.copied, !p.copy.done, p.copy.why
}

// gaveUp reports whether a plugin is not there because its client had left.
func (s *plugins) gaveUp(p *plug) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return p.copy != nil && p.copy.left
}

var errOwnerLeft = errors.New("the client left")

// copyTrouble is why a plugin could not be copied, in words.
func (f *Front) copyTrouble(err error) string {
	var rpc *jsonrpc.Error
	switch {
	case errors.As(err, &rpc):
		return sentence("the client refused: " + rpc.Message)
	case errors.Is(err, errOwnerLeft):
		return "the client left before the plugin was copied"
	}
	for _, told := range []error{addon.ErrInvalid, addon.ErrTooLarge, addon.ErrFull, files.ErrNotFound, files.ErrDenied, files.ErrInvalid, files.ErrTooLarge, errBadOwner} {
		if errors.Is(err, told) {
			return sentence(err.Error())
		}
	}
	return "this host could not copy the plugin"
}

// sentence is a text of bounded length.
func sentence(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), maxSentence)], "")
}

// source is where a plugin is read: a file: URI is a folder of this host, behind
// the fence of all reads; anything else is the client's own.
func (s *plugins) source(cl *client, uri string) (addon.Source, error) {
	scheme, _, ok := splitURI(uri)
	switch {
	case !ok:
		return nil, refusal("the plugin's URI is no absolute one: " + clip(uri))
	case scheme == "file":
		dir, err := filePath(uri)
		if err != nil {
			return nil, refusal(errorText(err))
		}
		return addon.FromFiles(s.front.files, dir), nil
	case strings.HasPrefix(scheme, ahpPrefix):
		return nil, refusal("a plugin is no channel of this host: " + clip(uri))
	}
	return &ownedPlugin{s.front, cl, uri}, nil
}

// ownedPlugin is a plugin that its client reads for the host.
type ownedPlugin struct {
	front *Front
	owner *client
	uri   string
}

// at is the URI of something in the plugin.
func (o *ownedPlugin) at(path string) string {
	if path == "" {
		return o.uri
	}
	base, rest := o.uri, ""
	if i := strings.IndexAny(base, "?#"); i >= 0 {
		base, rest = base[:i], base[i:]
	}
	parts := strings.Split(path, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.TrimSuffix(base, "/") + "/" + strings.Join(parts, "/") + rest
}

var errBadOwner = errors.New("the client's answer makes no sense")

func (o *ownedPlugin) ask(ctx context.Context, method, path string, params map[string]any, answer any) error {
	line := o.front.line(o.owner)
	if line == nil {
		return errOwnerLeft
	}
	params["channel"], params["uri"] = rootURI, o.at(path)
	ctx, cancel := context.WithTimeout(ctx, ownerWithin)
	defer cancel()
	raw, err := line.peer.Call(ctx, method, params)
	var refused *jsonrpc.Error
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: it did not come in time", errBadOwner)
	case errors.Is(err, jsonrpc.ErrTooManyCalls):
		return fmt.Errorf("%w: it is asked too much at once", errBadOwner)
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return errOwnerLeft
	}
	if err := json.Unmarshal(raw, answer); err != nil {
		return fmt.Errorf("%w: %s of %.200s", errBadOwner, method, o.at(path))
	}
	return nil
}

func (o *ownedPlugin) List(ctx context.Context, path string) ([]addon.Entry, error) {
	var answer struct {
		Entries []directoryEntry `json:"entries"`
	}
	if err := o.ask(ctx, "resourceList", path, map[string]any{}, &answer); err != nil {
		return nil, err
	}
	out := make([]addon.Entry, len(answer.Entries))
	for i, e := range answer.Entries {
		out[i].Name = e.Name
		switch e.Type {
		case string(files.File):
			out[i].Kind = addon.File
		case string(files.Directory):
			out[i].Kind = addon.Folder
		}
	}
	return out, nil
}

func (o *ownedPlugin) Read(ctx context.Context, path string) ([]byte, error) {
	var answer struct {
		Data     string `json:"data"`
		Encoding string `json:"encoding"`
	}
	if err := o.ask(ctx, "resourceRead", path, map[string]any{"encoding": encodingBase64}, &answer); err != nil {
		return nil, err
	}
	if answer.Encoding != encodingBase64 {
		return []byte(answer.Data), nil
	}
	b, err := base64.StdEncoding.DecodeString(answer.Data)
	if err != nil {
		return nil, fmt.Errorf("%w: resourceRead of %.200s is no base64", errBadOwner, o.at(path))
	}
	return b, nil
}

// replug takes the plugins that a client announced in place of those it had;
// those that are the same stay. The caller holds mu.
func (l *live) replug(c *activeClient, cl *client, said []announcedPlugin) {
	s := l.front.plugins
	had := c.plugs
	c.plugs = nil
	for _, p := range said {
		i := slices.IndexFunc(had, func(o *plug) bool { return reflect.DeepEqual(o.said, p) && !s.gaveUp(o) })
		if i >= 0 {
			c.plugs = append(c.plugs, had[i])
			had = slices.Delete(slices.Clone(had), i, i+1)
		} else {
			c.plugs = append(c.plugs, s.take(l, cl, p))
		}
	}
	for _, o := range had {
		s.drop(l, o)
	}
	l.bring()
}

// unplug lets the plugins of a client go; the caller holds mu.
func (l *live) unplug(c *activeClient) {
	for _, p := range c.plugs {
		l.front.plugins.drop(l, p)
	}
	c.plugs = nil
	l.bring()
}

// bring tells the host which plugins the session's agent is to have; the caller
// holds mu.
func (l *live) bring() {
	var list []extend.Plugin
	for i := range l.clients {
		for _, p := range l.clients[i].plugs {
			copied, loading, _ := l.front.plugins.stateOf(p)
			if p.kept != nil || copied == nil && !loading {
				continue // the host has it, or nobody does
			}
			b := extend.Plugin{Thing: extend.PluginThing(p.said.URI), Loading: loading}
			if copied != nil {
				b = extend.Copied(p.said.URI, copied)
			}
			b.Off = p.off(l.st.Info.Dirs[0])
			list = append(list, b)
		}
	}
	l.front.host.Extensions().Bring(l.id, front, list)
}

// decided is what the client says was decided of its plugin, as far as that can
// be said here.
func (p *plug) decided(dir string) []enablement {
	ds, err := decisions(p.said.Enablement, dir)
	if err != nil {
		return nil
	}
	return enablements(ds, dir)
}

func (p *plug) off(dir string) bool {
	ds := p.decided(dir)
	return len(ds) > 0 && !ds[0].Enabled
}

// shownPlugin is a plugin under the id that it has in the session.
type shownPlugin struct {
	*plug
	id     string
	client string
}

// shownPlugins are the plugins of the session's clients, in the order in which
// these came. The same one of two clients is shown once; another one of the same
// id gets an id of its own. The caller holds mu.
func (l *live) shownPlugins() (out []shownPlugin) {
	for i := range l.clients {
		c := &l.clients[i]
		for _, p := range c.plugs {
			id := p.said.ID
			same, taken := false, ownIDs[id] || strings.HasPrefix(id, serverID(""))
			for _, o := range out {
				if o.id != p.said.ID {
					continue
				}
				taken = true
				same = o.said.URI == p.said.URI && o.said.Nonce == p.said.Nonce && p.said.Nonce != ""
			}
			if same {
				continue
			}
			if taken {
				id = c.id + "/" + id
			}
			out = append(out, shownPlugin{p, id, c.id})
		}
	}
	return out
}

// ownIDs are those of the host's own containers.
var ownIDs = map[string]bool{typePrompt + "s": true, typeSkill + "s": true, typeAgent + "s": true}

// pluginShapes are the plugins as clients see them; the caller holds mu.
func (l *live) pluginShapes(a *host.AgentInfo) (out []customization) {
	dir := l.st.Info.Dirs[0]
	for _, p := range l.shownPlugins() {
		copied, loading, why := l.front.plugins.stateOf(p.plug)
		c := customization{Type: typePlugin, ID: p.id, URI: p.said.URI, Name: p.said.Name, ClientID: p.client, Version: p.said.Version}
		c.Enablement = enablements(l.front.host.Extensions().Decisions(l.id, dir, extend.PluginThing(p.said.URI)), dir)
		if c.Enablement == nil {
			c.Enablement = p.decided(dir)
		}
		switch {
		case why == "" && a.Known && !a.Info.Capabilities.Plugins:
			c.Load = &loadState{"error", a.Info.Title + " takes no plugins from clients: this one has no effect here"}
		case copied != nil:
			c.loaded(copied)
		case loading:
			c.Load = &loadState{Kind: "loading"}
		default:
			c.Load = &loadState{"error", why}
		}
		out = append(out, c)
	}
	return out
}

// loaded shows a plugin with what is in its copy.
func (c *customization) loaded(copied *addon.Copy) {
	c.Load = &loadState{Kind: "loaded"}
	c.Version = cmp.Or(copied.Contents.Version, c.Version)
	children := pluginChildren(c, &ownedPlugin{uri: c.URI}, copied.Contents.Items)
	c.Children = &children
}

var childTypes = map[addon.ItemKind]string{addon.Command: typePrompt, addon.Skill: typeSkill, addon.Subagent: typeAgent, addon.Rule: typeRule, addon.Hook: typeHook}

// pluginChildren are the things in a plugin, at the places where its client has
// them.
func pluginChildren(of *customization, at *ownedPlugin, items []addon.Item) []customization {
	out := make([]customization, 0, len(items))
	for _, i := range items {
		c := customization{Type: childTypes[i.Kind], ID: of.ID + "/" + i.Path, URI: at.at(i.Path), Name: i.Name}
		if i.Kind != addon.Hook {
			c.Description = i.Description
		}
		switch i.Kind {
		case addon.Skill:
			c.DisableModelInvocation, c.DisableUserInvocation = i.NotByModel, i.NotByUser
		case addon.Subagent:
			c.Model, c.Tools, c.DisableModelInvocation, c.DisableUserInvocation = i.Model, i.Tools, i.NotByModel, i.NotByUser
		case addon.Rule:
			c.AlwaysApply, c.Globs = i.Always, i.Globs
		}
		if i.Hint != "" {
			c.Meta = map[string]string{metaArgumentHint: i.Hint}
		}
		out = append(out, c)
	}
	return out
}

// ownOffer is what the agent has without what it has from the session's plugins,
// which is shown in these; the caller holds mu.
func (l *live) ownOffer(o *agent.Offer) *agent.Offer {
	var names []string
	for i := range l.clients {
		for _, p := range l.clients[i].plugs {
			if copied, _, _ := l.front.plugins.stateOf(p); copied != nil {
				names = append(names, filepath.Base(copied.Dir)+":")
			}
		}
	}
	if names == nil {
		return o
	}
	of := func(name string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(name, n) })
	}
	return &agent.Offer{
		Commands:  slices.DeleteFunc(slices.Clone(o.Commands), func(c agent.Command) bool { return of(c.Name) }),
		Subagents: slices.DeleteFunc(slices.Clone(o.Subagents), func(s agent.Persona) bool { return of(s.Name) }),
	}
}

// withPlugins are commands and those of a session's plugins, without those of the
// ones that are off.
func (f *Front) withPlugins(commands []agent.Command, info *event.SessionInfo) []agent.Command {
	known := f.host.Extensions()
	for _, p := range known.Plugins(info.ID) {
		commands = slices.DeleteFunc(slices.Clone(commands), func(c agent.Command) bool {
			return slices.ContainsFunc(p.Commands, func(o agent.Command) bool { return o.Name == c.Name })
		})
		if known.PluginOn(info.ID, info.Dirs[0], p) {
			commands = append(commands, p.Commands...)
		}
	}
	return commands
}

// togglePlugin takes what a person decides of a plugin that a client brought.
// The agent has never heard of it: it starts again with the next message.
func (a *action) togglePlugin(name string, ds []extend.Decision) error {
	l, known := a.live, a.conn.front.host.Extensions()
	l.mu.Lock()
	uri := ""
	for _, p := range l.shownPlugins() {
		if p.id == name {
			uri = p.said.URI
		}
	}
	dir := l.st.Info.Dirs[0]
	l.mu.Unlock()
	if uri == "" {
		return refusal("this host has no such customization")
	}
	l.expecting("toggle:"+name, a)
	changed, err := known.Decide(l.id, dir, extend.PluginThing(uri), ds)
	if err == nil && changed {
		l.settleCustomizations()
	}
	switch {
	case !l.unexpect("toggle:"+name, a.origin):
		return nil // it was said
	case errors.Is(err, extend.ErrTooMany):
		return refusal("this host keeps no more decisions")
	case err != nil:
		return err
	}
	return errUnchanged
}
