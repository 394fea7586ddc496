package bae

import (
	"fmt"

	"github.com/polyhost/polyhost/core/event"
)

// show writes a tool call that the gateway's side runs.
func (p *projector) show(c *call) {
	if c.shown {
		return
	}
	c.shown = true
	t := p.turn
	t.served[c.tool.Call] = true
	use := block{Type: "tool_use", ID: c.tool.Call, Name: c.tool.Name, Input: c.input}
	t.round = append(t.round, use)
	p.answer("tool_use")
	p.own("tool.call", toolCallPayload{ID: c.tool.Call, Name: c.tool.Name, Input: c.input, Dispatch: c.dispatch, ServerName: p.server(c)})
}

// server is the MCP server that a call is shown under: the agent itself for
// its own tools.
func (p *projector) server(c *call) *string {
	if c.dispatch != dispatchMCP {
		return nil
	}
	if c.tool.Server != "" {
		return &c.tool.Server
	}
	if c.tool.Client.Front != "" {
		return &c.tool.Client.Front
	}
	return &p.provider
}

func (p *projector) running(c *call, b *event.ToolRunning) {
	if b.Input != nil {
		c.input = object(b.Input)
	}
	p.show(c)
	c.running = true
	if c.dispatch != dispatchMCP {
		return
	}
	p.own("mcp.request", mcpRequest{Method: "tools/call", ServerName: p.server(c), Tool: c.tool.Name, Input: c.input})
}

func (p *projector) subagent(c *call) subagentPayload {
	return subagentPayload{Dispatch: "remote", SubagentID: c.child.BAE("sba"), Harness: p.provider, Model: p.turn.modelName()}
}

func (p *projector) toolEnded(c *call, b *event.ToolEnded) {
	t := p.turn
	text := b.Output
	failed := b.Status != event.CallDone
	if text == "" && failed {
		text = b.Error
		if b.Refused != nil {
			text = refusal(b)
		}
	}
	if c.dispatch == dispatchClient {
		if t.inPause(c) || c.shown {
			return // its result is written where the pause ends
		}
		p.announce(c)
		p.clientResult(c.tool.Call, text, failed)
		return
	}
	p.show(c)
	if c.dispatch == dispatchSandbox {
		p.own("sandbox.request", sandboxRequest{Tool: c.tool.Name, Input: c.input, Command: command(c.input)})
		p.own("sandbox.response", sandboxResponse{Error: text})
	}
	if c.running && c.dispatch == dispatchMCP {
		res := mcpResponse{ServerName: p.server(c), OK: !failed}
		if b.Status == event.CallCancelled {
			res.Error = "cancelled"
		} else {
			res.Result = &mcpResult{Content: []block{{Type: "text", Text: text}}, IsError: failed}
		}
		p.own("mcp.response", res)
	}
	if !c.child.IsNil() {
		p.subagentEnded(c, b)
	}
	p.own("tool.result", toolResultPayload{ToolUseID: c.tool.Call, Dispatch: c.dispatch, Content: textContent(text), IsError: failed, ServerName: p.server(c)})
}

func (p *projector) subagentEnded(c *call, b *event.ToolEnded) {
	s, kind := p.subagent(c), "completed"
	switch b.Status {
	case event.CallDone:
		s.ExitCode = ptr(0)
	case event.CallCancelled:
		kind, s.Reason = "cancelled", ptr("explicit")
	default:
		kind, s.Reason, s.Detail = "failed", ptr("nonzero_exit"), name(b.Error)
	}
	p.own("session.subagent."+kind, s)
}

// refusal is what the model would be told of a call that did not run.
func refusal(b *event.ToolEnded) string {
	if b.Refused.Reason != "" {
		return fmt.Sprintf("not run: %s", b.Refused.Reason)
	}
	return "not run: " + b.Refused.Code
}

// announce writes a client call without a pause: it ended before one.
func (p *projector) announce(c *call) {
	t := p.turn
	c.shown = true
	t.round = append(t.round, block{Type: "tool_use", ID: c.tool.Call, Name: c.tool.Name, Input: c.input})
	p.answer("tool_use")
	p.own("tool.call", toolCallPayload{ID: c.tool.Call, Name: c.tool.Name, Input: c.input, Dispatch: dispatchClient})
}

// clientResult writes a client call's result that no client gave.
func (p *projector) clientResult(call, text string, failed bool) {
	p.turn.served[call] = true
	p.own("tool.result", toolResultPayload{ToolUseID: call, Dispatch: dispatchClient, Content: textContent(text), IsError: failed})
}
