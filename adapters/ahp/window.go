package ahp

import (
	"context"

	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/transports/jsonrpc"
)

// What VS Code's window asks beside the protocol, in the shapes that it reads.
// A client that speaks the protocol alone never does.

// windowOffer is what initialize says that the window may ask, in _meta.
type windowOffer struct {
	StateFileOfChat   bool `json:"vscode.getAgentHostSessionStateFile.chat"`
	DetachedWorktrees bool `json:"vscode.detachedWorktrees"`
	RemoveArtifact    bool `json:"vscode.removeSessionArtifact"`
	DevContainers     bool `json:"vscode.devContainers,omitempty"`
}

// aside are the window's requests that wait for a disk, an agent or the network:
// they hold up nothing else that the connection says.
var aside = map[string]bool{"diagnosticsFetch": true, "getNetworkDiagnosticsInfo": true, "vscode/getAgentHostSessionStateFile": true,
	"vscode/collectAgentHostDebugLogs": true, "vscode/readAgentHostDebugLogsChunk": true}

// shutdown stops the gateway, once the answer is on its way.
func (c *conn) shutdown(_ context.Context, r *jsonrpc.Request) (any, error) {
	if c.front.shutdown == nil {
		return nil, jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "this host cannot be stopped by its clients")
	}
	c.log.Info("A client asks the gateway to stop", "client", c.who().id)
	r.Then(c.front.shutdown)
	return struct{}{}, nil
}

// managedSettings has none: policies of that kind are another product's.
func (c *conn) managedSettings(context.Context, *jsonrpc.Request) (any, error) {
	return []struct{}{}, nil
}

// removeArtifact takes off a session what its agent recorded. That it has no such
// artifact is no error: two windows may take the same one off.
func (c *conn) removeArtifact(ctx context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		Session  string `json:"session" jsonx:"required"`
		Artifact string `json:"artifactId" jsonx:"required"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	at, err := c.front.find(ctx, p.Session)
	if err != nil || !at.chat.IsNil() {
		return nil, sessionNotFound(p.Session)
	}
	s, err := c.front.host.Session(ctx, at.session)
	if err != nil {
		return nil, err
	}
	_, err = c.front.tools.RemoveArtifact(ctx, s, p.Artifact, c.actor())
	return nil, err
}

// stateFile says where the agent itself keeps a session or a chat of it.
func (c *conn) stateFile(ctx context.Context, r *jsonrpc.Request) (any, error) {
	var p struct {
		Session string `json:"session" jsonx:"required"`
		Chat    string `json:"chat"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	path, err := c.recordOf(ctx, p.Session, p.Chat)
	if err != nil {
		return nil, err
	}
	out := struct {
		Resource string `json:"resource,omitempty"`
	}{}
	if path != "" {
		out.Resource = fileURI(path)
	}
	return out, nil
}

// recordOf is the file of the agent's own record of a session, or of a chat of
// it unless that is ""; "" if there is none.
func (c *conn) recordOf(ctx context.Context, session, chat string) (string, error) {
	at, err := c.front.find(ctx, session)
	if err != nil || !at.chat.IsNil() {
		return "", sessionNotFound(session)
	}
	one := id.Nil
	if chat != "" {
		in, err := c.front.find(ctx, chat)
		if err != nil || in.chat.IsNil() || in.session != at.session {
			return "", invalid("chat: no chat of that session: %.200s", chat)
		}
		one = in.chat
	}
	return c.front.host.AgentFile(ctx, at.session, one)
}
