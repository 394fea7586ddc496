package ahp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/terminal"
	"github.com/polyhost/polyhost/transports/jsonrpc"
)

// terminalActions are those that a client may say on a terminal.
var terminalActions = map[string]func(x *term, ctx context.Context, a *action) error{
	"terminal/input":        (*term).input,
	"terminal/resized":      (*term).resize,
	"terminal/claimed":      (*term).claim,
	"terminal/titleChanged": (*term).rename,
	"terminal/cleared":      (*term).clear,
}

func (t *terminals) dispatch(ctx context.Context, a *action, typ string) error {
	x := t.find(a.uri)
	if x == nil {
		return errNowhere
	}
	run := terminalActions[typ]
	if run == nil {
		return refusal("this host does not take " + clip(typ) + " on that channel")
	}
	return run(x, ctx, a)
}

// input sends what was typed to the shell. What the shell shows of it follows
// as output; the action itself is told to all, as every action is.
func (x *term) input(_ context.Context, a *action) error {
	var p struct {
		Data *string `json:"data" jsonx:"required"`
	}
	if err := decode(a.raw, &p, "action"); err != nil {
		return err
	}
	err := x.shell.Input(*p.Data, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.say(encode(map[string]any{"type": "terminal/input", "data": *p.Data}), &a.origin)
	})
	if errors.Is(err, terminal.ErrOver) || errors.Is(err, terminal.ErrBusy) {
		return refusal(err.Error())
	}
	return err
}

func (x *term) resize(_ context.Context, a *action) error {
	var p struct {
		Cols int `json:"cols" jsonx:"required"`
		Rows int `json:"rows" jsonx:"required"`
	}
	if err := decode(a.raw, &p, "action"); err != nil {
		return err
	}
	if err := checkSize(p.Cols, p.Rows); err != nil {
		return refusal("action." + err.Error())
	}
	return changedBy(x.shell.Resize(p.Cols, p.Rows, &a.origin))
}

func checkSize(cols, rows int) error {
	if cols < 1 || rows < 1 || cols > terminal.MaxSize || rows > terminal.MaxSize {
		return fmt.Errorf("cols, rows: want 1 to %d", terminal.MaxSize)
	}
	return nil
}

func changedBy(changed bool) error {
	if !changed {
		return errUnchanged
	}
	return nil
}

func (x *term) rename(_ context.Context, a *action) error {
	title, err := a.title()
	if err != nil {
		return err
	}
	return changedBy(x.shell.Rename(title, &a.origin))
}

func (x *term) clear(_ context.Context, a *action) error {
	return changedBy(x.shell.Clear(&a.origin))
}

func (x *term) claim(ctx context.Context, a *action) error {
	var p struct {
		Claim terminalClaim `json:"claim" jsonx:"required"`
	}
	if err := decode(a.raw, &p, "action"); err != nil {
		return err
	}
	owner, err := a.conn.checkClaim(ctx, &p.Claim)
	if err != nil {
		return refusal(refusalText(err))
	}
	x.mu.Lock()
	same := x.info.Claim == p.Claim
	if !same {
		x.info.Claim, x.since = p.Claim, time.Now()
		x.say(encode(map[string]any{"type": "terminal/claimed", "claim": p.Claim}), &a.origin)
	}
	x.mu.Unlock()
	if same {
		return errUnchanged
	}
	x.shell.Belong(owner)
	x.front.root.terminalsChanged()
	return nil
}

// checkClaim judges a claim and finds the session it names.
func (c *conn) checkClaim(ctx context.Context, claim *terminalClaim) (terminal.Owner, error) {
	var owner terminal.Owner
	switch claim.Kind {
	case "client":
		if claim.ClientID == "" || len(claim.ClientID) > maxClientID {
			return owner, invalid("claim.clientId: must have 1 to %d bytes", maxClientID)
		}
		*claim = terminalClaim{Kind: claim.Kind, ClientID: claim.ClientID}
		return owner, nil
	case "session":
		session, err := c.front.find(ctx, claim.Session)
		if err != nil || !session.chat.IsNil() {
			return owner, sessionNotFound(claim.Session)
		}
		chat, err := c.front.find(ctx, claim.Chat)
		if err != nil || chat.chat.IsNil() || chat.session != session.session {
			return owner, notFound(claim.Chat)
		}
		if len(claim.TurnID) > host.MaxName || len(claim.ToolCallID) > host.MaxName {
			return owner, invalid("claim: an id of over %d bytes", host.MaxName)
		}
		claim.ClientID = ""
		return terminal.Owner{Session: session.session, Chat: chat.chat, Turn: claim.TurnID, Call: claim.ToolCallID}, nil
	}
	return owner, invalid("claim.kind: want client or session")
}

// createTerminal starts a shell under the name that the client chose.
func (c *conn) createTerminal(ctx context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		Channel string        `json:"channel" jsonx:"required"`
		Claim   terminalClaim `json:"claim" jsonx:"required"`
		Name    string        `json:"name"`
		Cwd     string        `json:"cwd"`
		Cols    *int          `json:"cols"`
		Rows    *int          `json:"rows"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	o := terminal.Open{ID: id.New(), Shell: c.shell(), Title: strings.TrimSpace(p.Name), Cols: terminal.DefaultCols, Rows: terminal.DefaultRows}
	if p.Cols != nil {
		o.Cols = *p.Cols
	}
	if p.Rows != nil {
		o.Rows = *p.Rows
	}
	var err error
	switch {
	case !isTerminal(p.Channel) || len(p.Channel) > maxChannelURI:
		return nil, invalid("channel: a terminal's name is %s:/<id>", terminalScheme)
	case len(o.Title) > terminal.MaxTitle:
		return nil, invalid("name: at most %d bytes", terminal.MaxTitle)
	}
	if err := checkSize(o.Cols, o.Rows); err != nil {
		return nil, invalid("%v", err)
	}
	if o.Owner, err = c.checkClaim(ctx, &p.Claim); err != nil {
		return nil, err
	}
	if o.Dir, err = c.front.terminalDir(p.Cwd, o.Owner.Session); err != nil {
		return nil, err
	}
	mine := 0
	for _, t := range c.front.terminals.ofClients() {
		if t.client == p.Claim.ClientID {
			mine++
		}
	}
	if p.Claim.Kind == "client" && mine >= maxTerminals {
		return nil, jsonrpc.Errorf(jsonrpc.CodeServerBusy, "a client may have %d terminals at most", maxTerminals)
	}
	x := &term{front: c.front, uri: p.Channel, info: terminalInfo{Resource: p.Channel, Claim: p.Claim}, since: time.Now()}
	if !c.front.terminals.reserve(x, o.ID) {
		return nil, jsonrpc.Errorf(codeAlreadyExists, "the name is taken: %.200s", p.Channel)
	}
	if err := c.front.openTerminal(o); err != nil {
		c.front.terminals.giveUp(x, o.ID)
		return nil, err
	}
	return nil, nil
}

// disposeTerminal ends a shell and everything it started.
func (c *conn) disposeTerminal(_ context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		Channel string `json:"channel" jsonx:"required"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	x := c.front.terminals.find(p.Channel)
	if x == nil {
		return nil, notFound(p.Channel)
	}
	c.front.host.Terminals().Remove(x.shell)
	return nil, nil
}

// terminalDir is the directory that a terminal begins in: one that this host
// serves, or one below it.
func (f *Front) terminalDir(cwd string, session id.ID) (string, error) {
	served := []string{}
	if dir := f.host.DefaultDir(); dir != "" {
		served = append(served, dir)
	}
	for _, sum := range f.host.List(host.Filter{IncludeClosed: true, IncludeArchived: true, IncludePrivate: true}) {
		if sum.Info.ID == session { // its first is where its terminals begin
			served = append(append([]string{}, sum.Info.Dirs...), served...)
			continue
		}
		served = append(served, sum.Info.Dirs...)
	}
	if len(served) == 0 {
		return "", invalid("cwd: this host serves no directory")
	}
	dir := served[0]
	if cwd != "" {
		dir = filepath.Clean(cwd) // a plain path, as hosts give it back
		if !filepath.IsAbs(cwd) {
			var err error
			if dir, err = filePath(cwd); err != nil {
				return "", err
			}
		}
	}
	real, err := filepath.EvalSymlinks(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", jsonrpc.Errorf(codeNotFound, "cwd: there is no %.200s", dir)
	case err != nil:
		return "", invalid("cwd: %.200s cannot be entered", dir)
	}
	if info, err := os.Stat(real); err != nil || !info.IsDir() {
		return "", invalid("cwd: %.200s is no directory", dir)
	}
	for _, root := range served {
		root, err := filepath.EvalSymlinks(root)
		if err != nil {
			continue
		}
		if rel, err := filepath.Rel(root, real); err == nil && filepath.IsLocal(rel) {
			return dir, nil
		}
	}
	return "", jsonrpc.Errorf(codePermissionDenied, "cwd: %.200s is outside of the directories that this host serves", dir)
}
