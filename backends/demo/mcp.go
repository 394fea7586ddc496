package demo

import (
	"errors"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/polyhost/polyhost/core/agent"
)

// MCPVar names the environment variable of a plugin process that, when it is
// set, sets the Backend's MCP.
const MCPVar = "POLYHOST_DEMO_MCP"

// callServer calls a tool of the conversation's first MCP server, on a
// connection of its own, and says what it gave.
func (s *script) callServer(id string, tool agent.Tool) error {
	for _, kind := range []agent.FrameKind{agent.ToolStart, agent.ToolRun} {
		if err := s.put(agent.Frame{Kind: kind, Call: id, Tool: &tool}); err != nil {
			return err
		}
	}
	text, err := s.request(tool)
	if s.t.ctx.Err() != nil {
		return s.t.ctx.Err()
	}
	if err != nil {
		return s.end(id, failed(err))
	}
	if err := s.end(id, agent.Result{Output: text}); err != nil || text == "" {
		return err
	}
	return s.say(agent.TextDelta, text)
}

func (s *script) request(tool agent.Tool) (string, error) {
	server := s.t.c.servers[0]
	client := mcp.NewClient(&mcp.Implementation{Name: "demo", Version: "1.0.0"}, nil)
	session, err := client.Connect(s.t.ctx, &mcp.StreamableClientTransport{Endpoint: server.URL, DisableStandaloneSSE: true,
		HTTPClient: &http.Client{Transport: withHeaders(server.Headers)}}, nil)
	if err != nil {
		return "", err
	}
	defer session.Close()
	result, err := session.CallTool(s.t.ctx, &mcp.CallToolParams{Name: tool.Name, Arguments: tool.Input})
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, c := range result.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			text.WriteString(t.Text)
		}
	}
	if result.IsError {
		return "", errors.New(text.String())
	}
	return text.String(), nil
}

// withHeaders adds headers to every request.
type withHeaders map[string]string

func (h withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for k, v := range h {
		r.Header.Set(k, v)
	}
	return http.DefaultTransport.RoundTrip(r)
}
