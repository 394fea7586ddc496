package ahp

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"

	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/hosttools"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/transports/jsonrpc"
)

// serverTool is a tool that the host itself runs for agents.
type serverTool struct {
	Name        string          `json:"name"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
	Annotations toolHints       `json:"annotations"`
}

type toolHints struct {
	ReadOnly    bool `json:"readOnlyHint"`
	Destructive bool `json:"destructiveHint,omitempty"`
}

// serverTools are those that agents are offered now.
func (f *Front) serverTools() []serverTool {
	var out []serverTool
	for _, t := range f.host.OwnTools() {
		out = append(out, serverTool{t.Name, t.Title, t.Description, t.Schema, toolHints{t.ReadOnly, t.Destructive}})
	}
	return out
}

// lendTools gives the host's tools what this front knows.
func (f *Front) lendTools(set *hosttools.Set) {
	set.Lend(hosttools.Lent{
		Session:  sessionURI,
		Comments: comments{f.annotations}, Resources: agentResources{f},
		Tree: func(dir string) (hosttools.Tree, bool) {
			known := f.facts.of(dir)
			if known == nil || known.git == nil {
				return hosttools.Tree{}, false
			}
			t := hosttools.Tree{Changed: known.git.Uncommitted}
			if known.github != nil {
				t.Pulls = known.github.Pulls
			}
			return t, true
		},
		Apart: func(ctx context.Context, create *host.CreateSession) error {
			err := f.apart(ctx, create, &isolation{Kind: inTree, Prefix: branchPrefix, Fresh: true})
			var refused *jsonrpc.Error
			if !errors.As(err, &refused) {
				refused = mapError("", err)
			}
			if refused != nil {
				return hosttools.Refused(strings.TrimPrefix(refused.Message, "config."+keyIsolation+": "))
			}
			return err
		},
		Left: f.worktrees.left,
	})
}

// offerTools begins or ceases to offer the host's tools, and tells whoever watches
// a session.
func (f *Front) offerTools(on bool) {
	if !f.host.OfferOwnTools(on) {
		return
	}
	f.mu.Lock()
	all := make([]*live, 0, len(f.lives))
	for _, l := range f.lives {
		all = append(all, l)
	}
	f.mu.Unlock()
	for _, l := range all {
		l.mu.Lock()
		l.sayTools()
		l.mu.Unlock()
	}
}

// sayTools tells the host's tools when they are not as they were last told; the
// caller holds mu.
func (l *live) sayTools() {
	now := l.front.serverTools()
	if reflect.DeepEqual(now, l.tools) {
		return
	}
	l.tools = now
	if now == nil {
		now = []serverTool{}
	}
	l.say(id.Nil, nil, func(*renderer) any { return map[string]any{"type": "session/serverToolsChanged", "tools": now} })
}
