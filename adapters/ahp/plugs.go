package ahp

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/polyhost/polyhost/core/addon"
	"github.com/polyhost/polyhost/core/extend"
	"github.com/polyhost/polyhost/core/files"
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
