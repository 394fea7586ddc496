package ahp

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/polyhost/polyhost/core/devcontainer"
	"github.com/polyhost/polyhost/transports/jsonrpc"
)

// The dev containers of folders, as VS Code's window drives them beside the
// protocol: a relay goes into a container, to a gateway of its own there, and its
// frames are the strings of requests and notifications here. A relay belongs to the
// connection that opened it, which names it, and ends with it.

// relay is one of a connection.
type relay struct {
	id     string
	folder string // its real path
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // closed when nothing of it is left
	// open is nil until the gateway in the container answers; under the mu of the
	// connection.
	open *devcontainer.Relay
	// forgotten: its client ended it, and hears nothing of it any more; under mu.
	forgotten bool
}

// containersAside are the requests that wait for a person, a build or a container:
// those of one connection to a container hold up no others.
var containersAside = map[string]bool{"vscode/devContainers/connect": true, "vscode/devContainers/relaySend": true,
	"vscode/devContainers/stop": true, "vscode/devContainers/remove": true}

var errNoContainers = denied("this host brings up no dev containers: its operator switched them off")

// dockerAvailable says whether there is what dev containers need.
func (c *conn) dockerAvailable(context.Context, *jsonrpc.Request) (any, error) {
	return c.front.containers != nil && c.front.containers.Available(), nil
}

type containerAnswer struct {
	Connection string `json:"connectionId"`
	Address    string `json:"address"`
	Name       string `json:"name"`
	Remote     string `json:"remoteWorkspaceFolder"`
	Host       string `json:"hostWorkspaceFolder"`
}

// connectContainer opens a relay into the container of a folder, if its client
// trusts the folder.
func (c *conn) connectContainer(ctx context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		Connection string `json:"connectionId" jsonx:"required"`
		Folder     string `json:"workspaceFolder" jsonx:"required"`
		Name       string `json:"name" jsonx:"required"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	if strings.TrimSpace(p.Connection) == "" || len(p.Connection) > maxRelayID || strings.Contains(p.Connection, "\x00") {
		return nil, invalid("connectionId: must have 1 to %d bytes", maxRelayID)
	}
	if strings.TrimSpace(p.Name) == "" || len(p.Name) > maxRelayID || strings.Contains(p.Name, "\x00") {
		return nil, invalid("name: must have 1 to %d bytes", maxRelayID)
	}
	folder, err := c.containerFolder(p.Folder)
	if err != nil {
		return nil, err
	}
	l, err := c.addRelay(p.Connection, folder)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, l.cancel)
	defer stop()
	err = c.trusts(l.ctx, folder)
	var open *devcontainer.Relay
	if err == nil {
		c.log.Info("A client opens a dev container", "client", c.who().id, "folder", folder)
		open, err = c.front.containers.Open(l.ctx, folder, devcontainer.Listener{
			Output: func(text string) { c.tellRelay(l, "output", text) },
			Frame:  func(frame []byte) { c.tellRelay(l, "relayMessage", string(frame)) },
		})
	}
	if err != nil {
		c.dropRelay(l)
		c.log.Warn("A dev container could not be opened", "client", c.who().id, "folder", folder, "err", err)
		return nil, err
	}
	c.mu.Lock()
	l.open = open
	c.mu.Unlock()
	c.relaying.Go(func() { c.keepRelay(l) })
	if l.ctx.Err() != nil { // its client has left, or ended it
		return nil, l.ctx.Err()
	}
	return containerAnswer{p.Connection, "devcontainer:" + open.Container, p.Name, open.Folder, p.Folder}, nil
}

// containerFolder finds the real path of a folder that a client names.
func (c *conn) containerFolder(path string) (string, error) {
	if c.front.containers == nil {
		return "", errNoContainers
	}
	if !filepath.IsAbs(path) || strings.Contains(path, "\x00") {
		return "", invalid("workspaceFolder: must be an absolute path")
	}
	real, err := c.front.files.Resolve(path)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(real); err != nil || !info.IsDir() {
		return "", invalid("workspaceFolder: %.200s is no folder", path)
	}
	return real, nil
}

// addRelay makes a relay known that is opened now.
func (c *conn) addRelay(id, folder string) (*relay, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, context.Canceled
	case c.relays[id] != nil:
		return nil, invalid("connectionId: there is a connection %.200q already", id)
	case len(c.relays) >= maxRelays:
		return nil, jsonrpc.Errorf(jsonrpc.CodeServerBusy, "a client has %d connections to dev containers at most", maxRelays)
	}
	l := &relay{id: id, folder: folder, done: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(c.front.ctx)
	if c.relays == nil {
		c.relays = map[string]*relay{}
	}
	c.relays[id] = l
	return l, nil
}

// dropRelay forgets a relay with which it is over. It reports whether its client
// did so before.
func (c *conn) dropRelay(l *relay) (forgotten bool) {
	l.cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.relays[l.id] == l {
		delete(c.relays, l.id)
	}
	delete(c.leaving, l)
	close(l.done)
	return l.forgotten || c.closed
}

// trusts asks the client whether its person trusts a folder: its configuration says
// what is run on this machine.
func (c *conn) trusts(ctx context.Context, folder string) error {
	ctx, cancel := context.WithTimeout(ctx, trustWithin)
	defer cancel()
	raw, err := c.peer.Call(ctx, "vscode/requestWorkspaceTrust", map[string]string{"workspace": fileURI(folder)})
	if err != nil && ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ctx.Err()
	}
	var answer struct {
		Trusted bool `json:"trusted"`
	}
	if err != nil || json.Unmarshal(raw, &answer) != nil || !answer.Trusted {
		return denied("a folder has to be trusted before its dev container is brought up")
	}
	return nil
}

// keepRelay stays with an open relay to its end, and tells a client that did not
// end it.
func (c *conn) keepRelay(l *relay) {
	select {
	case <-l.open.Done():
	case <-l.ctx.Done():
		l.open.Close()
		<-l.open.Done()
	}
	if !c.dropRelay(l) {
		c.sayRelay("relayClose", l.id)
		c.sayRelay("closeConnection", l.id)
	}
}

func (c *conn) sayRelay(what, id string) {
	_ = c.send(notification("vscode/devContainers/"+what, struct {
		Connection string `json:"connectionId"`
	}{id}))
}

// tellRelay tells a client what came out of a relay, at the client's pace.
func (c *conn) tellRelay(l *relay, what, data string) {
	if c.ws.Outbox().WaitBelow(l.ctx, relayRoom) != nil || l.ctx.Err() != nil {
		return // it ends
	}
	_ = c.send(notification("vscode/devContainers/"+what, struct {
		Connection string `json:"connectionId"`
		Data       string `json:"data"`
	}{l.id, data}))
}

func noRelay(id string) error {
	return jsonrpc.Errorf(codeNotFound, "this client has no connection %.200q to a dev container", id)
}

// relaySend passes a frame on to the gateway in a container.
func (c *conn) relaySend(_ context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		Connection string  `json:"connectionId" jsonx:"required"`
		Data       *string `json:"data" jsonx:"required"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	if c.front.containers == nil {
		return nil, errNoContainers
	}
	c.mu.Lock()
	l := c.relays[p.Connection]
	var open *devcontainer.Relay
	if l != nil {
		open = l.open
	}
	c.mu.Unlock()
	if open == nil {
		return nil, noRelay(p.Connection)
	}
	return nil, open.Send(*p.Data)
}

// disconnectContainer ends a relay, also one that is opened still.
func (c *conn) disconnectContainer(_ context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		Connection string `json:"connectionId" jsonx:"required"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	if c.front.containers == nil {
		return nil, errNoContainers
	}
	c.mu.Lock()
	l := c.relays[p.Connection]
	c.mu.Unlock()
	if l == nil || !c.forgetRelay(l) {
		return nil, noRelay(p.Connection)
	}
	return nil, nil
}

// forgetRelay ends a relay for its client; its name is free at once. It reports false
// if it had ended.
func (c *conn) forgetRelay(l *relay) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.relays[l.id] != l {
		return false
	}
	l.forgotten = true
	l.cancel()
	delete(c.relays, l.id)
	if c.leaving == nil {
		c.leaving = map[*relay]struct{}{}
	}
	c.leaving[l] = struct{}{}
	return true
}

// stopContainer and removeContainer end this client's relays into the container of a
// folder, and then the container, unless somebody else has one.
func (c *conn) stopContainer(ctx context.Context, r *jsonrpc.Request) (any, error) {
	return c.endContainer(ctx, r, false)
}

func (c *conn) removeContainer(ctx context.Context, r *jsonrpc.Request) (any, error) {
	return c.endContainer(ctx, r, true)
}

func (c *conn) endContainer(ctx context.Context, r *jsonrpc.Request, remove bool) (any, error) {
	var p struct {
		Folder string `json:"workspaceFolder" jsonx:"required"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	folder, err := c.containerFolder(p.Folder)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	mine := slices.AppendSeq(slices.Collect(maps.Values(c.relays)), maps.Keys(c.leaving))
	c.mu.Unlock()
	for _, l := range mine {
		if l.folder != folder {
			continue
		}
		if c.forgetRelay(l) {
			c.sayRelay("closeConnection", l.id)
		}
		select {
		case <-l.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	done, err := c.front.containers.Stop(ctx, folder, remove)
	c.log.Info("A client ends a dev container", "client", c.who().id, "folder", folder, "remove", remove, "done", done, "err", err)
	return done, err
}

// endRelays ends all; the caller holds mu.
func (c *conn) endRelays() {
	for _, l := range c.relays {
		l.cancel()
	}
}
