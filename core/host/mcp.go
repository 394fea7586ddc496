package host

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
)

// ToolServerName is the name under which agents know the gateway's own MCP
// server: what they call there is a client's tool, or one of OwnTools.
const ToolServerName = "polyhost"

// ToolCall runs a client's tool in a session; call is the agent's own id of the
// call, "" if it does not tell. Its error says that there was nobody to run it.
type ToolCall func(ctx context.Context, call, name string, input json.RawMessage) (ToolOutput, error)

// ToolOutput is what a client's tool gave.
type ToolOutput struct {
	Text   string
	Failed bool
}

// ToolServer serves clients' tools to agents over MCP.
type ToolServer interface {
	// Open makes a server for one conversation.
	Open(call ToolCall) (ToolDoor, error)
}

// ToolDoor is the MCP server of one conversation.
type ToolDoor interface {
	// Server is how the agent reaches it.
	Server() agent.MCPServer
	// Offer replaces the tools. It does not wait for the agent.
	Offer(tools []event.ClientTool)
	// Close ends it; calls that are running fail.
	Close()
}

// openDoor gives a conversation that is to be opened a server with the
// clients' tools, if its agent connects to one.
func (s *Session) openDoor(r *run, o *agent.Open) ToolDoor {
	if s.host.opt.Tools == nil || !s.host.can(s.work.Info.Backend).MCP {
		return nil
	}
	chat := r.chat
	door, err := s.host.opt.Tools.Open(func(ctx context.Context, call, name string, input json.RawMessage) (ToolOutput, error) {
		return s.CallTool(ctx, chat, call, name, input)
	})
	if err != nil {
		s.log.Error("The clients' tools cannot be served to the agent", "chat", chat.String(), "err", err)
		return nil
	}
	o.MCP = append(o.MCP, door.Server())
	return door
}

// offerTools tells the agents that connect to a server which tools there are.
func (s *Session) offerTools() {
	for _, r := range s.chats {
		if r.conv != nil && r.conv.door != nil {
			r.conv.door.Offer(s.tools(r))
		}
	}
}

// servedTool is the client that runs a call of the gateway's own MCP server.
func (s *Session) servedTool(r *run, c *call) (event.Actor, bool) {
	if c.tool.Server != ToolServerName {
		return event.Actor{}, false
	}
	return s.toolOwner(r, c.tool.Name)
}

// bareName is the name of a tool without the server's, which some agents put
// before it.
func bareName(name string) string {
	for _, prefix := range []string{"mcp__" + ToolServerName + "__", ToolServerName + "__", ToolServerName + "_"} {
		if bare, ok := strings.CutPrefix(name, prefix); ok {
			return bare
		}
	}
	return name
}

// CallTool has a client, or the gateway, run its tool for the agent of a chat, and
// waits for the outcome. The call that the agent shows in its turn, if it shows one, is
// the one that the clients see: that of the id if the agent tells one, else one
// of that name. It ends with the turn.
func (s *Session) CallTool(ctx context.Context, chat id.ID, call, name string, input json.RawMessage) (ToolOutput, error) {
	input = object(input)
	if input == nil {
		input = json.RawMessage(`{}`)
	}
	reply := make(chan event.Resolution, 1)
	var opened id.ID
	// The agent's word that it calls may still be on its way.
	for begin, pause := time.Now(), 5*time.Millisecond; opened.IsNil(); pause *= 2 {
		last := time.Since(begin) >= LinkWithin
		err := s.do(ctx, false, func(s *Session) (err error) {
			opened, err = s.openServedCall(chat, call, name, input, reply, last)
			return err
		})
		if err != nil {
			return ToolOutput{}, err
		}
		if opened.IsNil() {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return ToolOutput{}, ctx.Err()
			}
		}
	}
	select {
	case res := <-reply:
		if r := resultOf(res); r.Error != "" {
			return ToolOutput{Text: r.Error, Failed: true}, nil
		}
		return ToolOutput{Text: res.Output, Failed: res.Failed}, nil
	case <-s.gone:
		return ToolOutput{}, ErrClosed
	case <-ctx.Done():
		err := s.do(context.WithoutCancel(ctx), true, func(s *Session) error {
			for _, i := range s.work.Open {
				if i.ID == opened || i.Part == opened {
					s.settle(i, event.Resolution{Outcome: event.Cancelled, By: theAgent})
				}
			}
			return nil
		})
		if err != nil {
			s.log.Warn("A call that the agent gave up could not be taken back", "tool", name, "err", err)
		}
		return ToolOutput{}, ctx.Err()
	}
}

// resultOf is the end of a call that a client ran.
func resultOf(res event.Resolution) *agent.Result {
	out := &agent.Result{Output: res.Output, Failed: res.Failed}
	if res.Outcome != event.Completed {
		out.Failed, out.Error = true, strings.TrimSpace("the tool was not run: "+string(res.Outcome)+" "+res.Reason)
	}
	return out
}

// openServedCall opens the interaction of a call that came over MCP: on the
// agent's call of that id, or, if there is no id, of that name, of the same
// input first. Without one it does nothing, or, at last, shows a call of its own.
// Of a tool of the gateway's own it gives the call's part.
func (s *Session) openServedCall(chat id.ID, theirs, name string, input json.RawMessage, reply chan event.Resolution, last bool) (id.ID, error) {
	root := s.chats[chat]
	if root == nil || root.turn.IsNil() || root.draining {
		return id.Nil, fmt.Errorf("%w: no turn is running", ErrInvalid)
	}
	owner, ok := s.toolOwner(root, name)
	if !ok && s.own(root, name) == nil {
		return id.Nil, fmt.Errorf("no client offers the tool %.80q: %w", name, ErrNotFound)
	}
	runs := []*run{root}
	for _, child := range root.children {
		runs = append(runs, child)
	}
	var found *call
	var of *run
	for _, r := range runs {
		for key, c := range r.calls {
			if theirs != "" && key != theirs || c.tool.Server != ToolServerName || c.tool.Name != name || r.asksFor(c) {
				continue
			}
			same := sameJSON(c.tool.Input, input)
			if found == nil || same {
				found, of = c, r
			}
			if same {
				break
			}
		}
	}
	q := &request{kind: event.ClientCall, reply: reply}
	if found == nil {
		if !last {
			return id.Nil, nil
		}
		of, q.made = root, true
		found = s.toolStart(root, &agentFrame{Kind: agent.ToolStart, Call: "mcp-" + id.New().String(),
			Tool: &agent.Tool{Name: name, Server: ToolServerName, Input: input}})
	}
	found.tool.Input = input // not every agent shows what it sends
	of.ready(found)
	q.call = found
	if !ok {
		found.own, q.own, q.kind = true, true, event.Approval
		s.knowOwn(of, found)
		s.decide(of, q)
		return found.part, nil
	}
	return s.openClientCall(of, found, owner, q), nil
}

// asksFor reports whether a call waits for somebody already.
func (r *run) asksFor(c *call) bool {
	for _, q := range r.requests {
		if q.call == c {
			return true
		}
	}
	return c.own || c.client != (event.Actor{})
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}
