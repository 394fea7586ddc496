// Package toolserver serves the tools of a session's clients to the session's
// agent, as a server of the Model Context Protocol over streamable HTTP.
//
// Each conversation has an address and a secret of its own, which the agent
// gets when it is started and which are void when it ends. A call is handed to
// the session and answered with what the client's tool gave; how many run at
// once is bounded, and so is the size of a request. Nothing here waits for an
// agent: news of the list are sent by the SDK's own goroutines.
//
// The package knows neither sessions nor fronts: it is given the tools and a
// function that runs one.
package toolserver

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/transports/guard"
)

// prefix is before the id of a conversation in its address.
const prefix = "/mcp/"

// Server is all conversations' doors behind one listener.
type Server struct {
	log     *slog.Logger
	version string
	base    string
	gate    guard.Rule

	mu    sync.Mutex
	doors map[string]*door
}

var _ host.ToolServer = (*Server)(nil)

// New makes a server that will be reached at addr, a loopback "host:port".
func New(addr, version string, log *slog.Logger) *Server {
	return &Server{log: log, version: version, base: "http://" + addr + prefix,
		gate: guard.All(guard.Hosts(), guard.Origins()), doors: map[string]*door{}}
}

// ServeHTTP lets a request in that bears the secret of the conversation whose
// address it names.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if why := s.gate.Check(r); why != nil {
		http.Error(w, why.Error(), http.StatusForbidden)
		return
	}
	name, ok := strings.CutPrefix(r.URL.Path, prefix)
	s.mu.Lock()
	d := s.doors[name]
	s.mu.Unlock()
	given, _ := guard.BearerToken(r)
	secret := ""
	if ok && d != nil {
		secret = d.secret
	}
	if !guard.TokenEqual(given, secret) { // the same for an address that is none
		http.Error(w, "unauthorized", http.StatusUnauthorized)
		return
	}
	d.http.ServeHTTP(w, r)
}

// Open makes the door of one conversation.
func (s *Server) Open(call host.ToolCall) (host.ToolDoor, error) {
	d := &door{server: s, name: strings.ToLower(rand.Text()), secret: rand.Text() + rand.Text(), call: call,
		running: make(chan struct{}, maxCalls), offered: map[string]string{}}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.mcp = mcp.NewServer(&mcp.Implementation{Name: host.ToolServerName, Version: s.version}, &mcp.ServerOptions{
		KeepAlive:    keepAlive,
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: true}},
	})
	d.http = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return d.mcp },
		&mcp.StreamableHTTPOptions{SessionTimeout: idleAfter, MaxRequestBodyBytes: maxBody})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doors[d.name] = d
	return d, nil
}

// door is one conversation's server.
type door struct {
	server       *Server
	name, secret string
	call         host.ToolCall
	mcp          *mcp.Server
	http         http.Handler
	running      chan struct{} // a place for each call that runs
	ctx          context.Context
	cancel       context.CancelFunc

	mu      sync.Mutex
	offered map[string]string // name -> what was said of the tool
}

// Server is how the agent reaches it.
func (d *door) Server() agent.MCPServer {
	return agent.MCPServer{Name: host.ToolServerName, URL: d.server.base + d.name,
		Headers: map[string]string{"Authorization": "Bearer " + d.secret}}
}

// Offer replaces the tools; agents that listen are told when they differ.
func (d *door) Offer(tools []event.ClientTool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	there := map[string]bool{}
	for _, t := range tools {
		there[t.Name] = true
		said := t.Description + "\x00" + string(t.Schema)
		if old, ok := d.offered[t.Name]; ok && old == said {
			continue
		}
		if err := d.add(t); err != nil {
			d.server.log.Warn("A client's tool cannot be offered to the agent", "tool", t.Name, "err", err)
			there[t.Name] = false
			continue
		}
		d.offered[t.Name] = said
	}
	var gone []string
	for name := range d.offered {
		if !there[name] {
			gone = append(gone, name)
			delete(d.offered, name)
		}
	}
	if len(gone) > 0 {
		slices.Sort(gone)
		d.mcp.RemoveTools(gone...)
	}
}

// add registers a tool. The SDK panics at a schema that is none, and schemas
// come from clients.
func (d *door) add(t event.ClientTool) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("its schema is refused: %v", p)
		}
	}()
	d.mcp.AddTool(&mcp.Tool{Name: t.Name, Description: t.Description, InputSchema: schemaOf(t.Schema)}, d.run)
	return nil
}

// schemaOf is a client's schema, or that of any object where there is none.
func schemaOf(raw json.RawMessage) any {
	var schema map[string]any
	if json.Unmarshal(raw, &schema) != nil || schema == nil {
		schema = map[string]any{}
	}
	if schema["type"] == nil {
		schema["type"] = "object"
	}
	return schema
}

// callMeta is where an agent tells its own id of the call: Claude Code does.
const callMeta = "claudecode/toolUseId"

var errEnded = errors.New("the conversation has ended")

// run is a call of the agent's.
func (d *door) run(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	select {
	case d.running <- struct{}{}:
		defer func() { <-d.running }()
	default:
		return failed(fmt.Sprintf("%d calls are running already", maxCalls)), nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(d.ctx, func() { cancel(errEnded) })
	defer stop()
	theirs, _ := req.Params.Meta[callMeta].(string)
	out, err := d.call(ctx, theirs, req.Params.Name, req.Params.Arguments)
	switch {
	case ctx.Err() != nil && err != nil:
		return failed("the call was given up: " + context.Cause(ctx).Error()), nil
	case errors.Is(err, host.ErrNotFound):
		return failed("no client offers a tool named " + req.Params.Name), nil
	case err != nil:
		d.server.log.Warn("A client's tool could not be called", "tool", req.Params.Name, "err", err)
		return failed("the tool cannot be called now"), nil
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: out.Text}}, IsError: out.Failed}, nil
}

func failed(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}, IsError: true}
}

// Close makes the address and the secret void and ends what runs.
func (d *door) Close() {
	d.server.mu.Lock()
	delete(d.server.doors, d.name)
	d.server.mu.Unlock()
	d.cancel()
	for s := range d.mcp.Sessions() {
		if err := s.Close(); err != nil {
			d.server.log.Debug("An MCP session did not end well", "err", err)
		}
	}
}
