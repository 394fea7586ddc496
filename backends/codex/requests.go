package codex

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/event"
)

// request is a question of the program that waits for its answer.
type request struct {
	link   *link
	id     json.RawMessage
	method string
	ask    ask
	child  string
	call   string
	tool   agent.Tool
}

// asked takes a request of the program. What nobody here understands, or
// nobody can be asked about, is refused at once, so that nothing hangs. It
// runs under mu.
func (c *conversation) asked(l *link, m message) []agent.Frame {
	var a ask
	t := c.turn
	err := lenient(json.Unmarshal(m.Params, &a))
	if err != nil || c.link != l || t == nil || t.ending || len(c.requests) >= maxPending {
		l.refuse(m.ID, m.Method)
		return nil
	}
	r := &request{link: l, id: bytes.Clone(m.ID), method: m.Method, ask: a}
	th := c.mapper.threads[a.ThreadID]
	if th == nil {
		l.refuse(m.ID, m.Method)
		return nil
	}
	r.child = th.key()
	var frames []agent.Frame
	switch m.Method {
	case "item/commandExecution/requestApproval", "item/fileChange/requestApproval", "item/permissions/requestApproval":
		frames = c.permission(th, r)
	case "item/tool/requestUserInput":
		frames = c.question(r)
	case "mcpServer/elicitation/request":
		frames = c.elicitation(th, r)
	}
	if frames == nil {
		l.refuse(m.ID, m.Method)
		return nil
	}
	c.serial++
	key := fmt.Sprintf("request_%d", c.serial)
	c.requests[key] = r
	for i := range frames {
		frames[i].Child = r.child
	}
	frames[len(frames)-1].Request = key
	return frames
}

// permission asks whether a call may run.
func (c *conversation) permission(th *thread, r *request) []agent.Frame {
	a := &r.ask
	id := a.ItemID
	call := th.calls[id]
	var frames []agent.Frame
	if call == nil || a.ApprovalID != "" || call.asked {
		// Something else than the item itself, an item not seen, or a further
		// question about one: what was said to the first does not count for it.
		it := item{Type: "commandExecution", ID: id, Command: a.Command, Cwd: a.Cwd, Actions: a.Actions}
		if r.method == "item/fileChange/requestApproval" {
			it.Type = "fileChange"
		}
		if call != nil {
			it.ID = id + "/" + cmp.Or(a.ApprovalID, strconv.Itoa(c.serial+1))
			if it.Type == "fileChange" {
				it.Changes = call.item.Changes
			}
		}
		frames = c.mapper.startCall(th, &it)
		if call = th.calls[it.ID]; call == nil {
			return nil
		}
		id = it.ID
	}
	tool := call.tool
	switch {
	case r.method == "item/permissions/requestApproval":
		tool = agent.Tool{Name: toolGrant, Title: firstLine(a.Reason, "wider permissions"), Tag: event.TagConfig, MustAsk: true,
			Input: marshal(map[string]any{"permissions": a.Permissions, "reason": a.Reason})}
	case a.Network != nil:
		tool.Tag, tool.Title = event.TagNetwork, fmt.Sprintf("connect to %s (%s)", a.Network.Host, a.Network.Protocol)
	case r.method == "item/commandExecution/requestApproval" && a.Command != "":
		tool = commandTool(a.Command, a.Cwd, a.Actions)
	case a.GrantRoot != "":
		tool.Paths = append(slices.Clone(tool.Paths), a.GrantRoot)
	}
	call.asked = true
	r.call, r.tool = id, tool
	return append(frames, agent.Frame{Kind: agent.Permission, Call: id, Tool: &tool})
}

// question asks a person.
func (c *conversation) question(r *request) []agent.Frame {
	var items []event.QuestionItem
	for _, q := range r.ask.Questions {
		i := event.QuestionItem{ID: q.ID, Header: q.Header, Text: q.Question, FreeText: q.IsOther || len(q.Options) == 0, Secret: q.IsSecret}
		for _, o := range q.Options {
			i.Options = append(i.Options, event.QuestionOption{Label: o.Label, Description: o.Description})
		}
		items = append(items, i)
	}
	if len(items) == 0 {
		return nil
	}
	return []agent.Frame{{Kind: agent.Ask, Questions: items}}
}

// Answer settles a request. Every answer is for this one time: what is
// remembered beyond it is the gateway's to remember.
func (c *conversation) Answer(_ context.Context, a agent.Answer) error {
	c.mu.Lock()
	r := c.requests[a.Request]
	if r == nil || c.turn == nil || c.turn.interrupted {
		c.mu.Unlock()
		return nil // the turn is over or about to be
	}
	delete(c.requests, a.Request)
	t := c.turn
	c.mu.Unlock()
	res := a.Resolution
	switch r.method {
	case "item/tool/requestUserInput":
		r.link.respond(r.id, answers(&r.ask, res))
	case "mcpServer/elicitation/request":
		r.link.respond(r.id, elicited(&r.ask, res))
	case "item/permissions/requestApproval":
		granted := map[string]any{"permissions": map[string]any{}, "scope": "turn"}
		if res.Outcome == event.Allowed {
			granted["permissions"] = r.ask.Permissions
		}
		r.link.respond(r.id, granted)
	default:
		c.decide(t, r, res)
	}
	return nil
}

// decide answers an approval. The program runs what it asked about and nothing
// else, so an allowing answer with another input is a refusal that says so.
func (c *conversation) decide(t *turn, r *request, res event.Resolution) {
	changed := len(res.Input) > 0 && !sameJSON(res.Input, r.tool.Input)
	if res.Outcome == event.Allowed && !changed {
		r.link.respond(r.id, map[string]any{"decision": "accept"})
		return
	}
	r.link.respond(r.id, map[string]any{"decision": "decline"})
	reason := res.Reason
	if changed && res.Outcome == event.Allowed {
		reason = "do this instead: " + string(res.Input)
		c.say(func() []agent.Frame {
			if c.turn != t {
				return nil
			}
			f := notice("warning", "input_unchanged", "codex runs a call as it is or not at all: it was declined, and codex was told of the change")
			f.Child = r.child
			return []agent.Frame{f}
		})
	}
	if reason == "" || r.child != "" || res.Outcome != event.Allowed && res.Outcome != event.Denied {
		return
	}
	// The answer has no room for a reason; the model reads it as a message.
	c.mu.Lock()
	params := turnParams{ThreadID: c.thread, ExpectedTurnID: t.codex, Input: []input{{Type: "text", Text: "The call was declined: " + reason}}}
	over := c.turn != t || c.ctx.Err() != nil
	if !over {
		c.wg.Go(func() {
			if err := r.link.call(c.ctx, "turn/steer", params, nil); err != nil {
				c.log.Debug("codex did not take the reason of a refusal", "error", err)
			}
		})
	}
	c.mu.Unlock()
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	return bytes.Equal(marshal(x), marshal(y))
}

// answers gives each question what was selected and written; a declined one
// has no answers.
func answers(a *ask, res event.Resolution) any {
	type list struct {
		Answers []string `json:"answers"`
	}
	out := map[string]list{}
	for _, q := range a.Questions {
		out[q.ID] = list{[]string{}}
	}
	if res.Outcome == event.Answered {
		for _, x := range res.Answers {
			if _, ok := out[x.ID]; !ok {
				continue
			}
			given := slices.Clone(x.Selected)
			if x.Text != "" {
				given = append(given, x.Text)
			}
			if given != nil {
				out[x.ID] = list{given}
			}
		}
	}
	return map[string]any{"answers": out}
}

// resolved takes back a request that the program settled itself. It runs under
// mu.
func (c *conversation) resolved(l *link, id json.RawMessage) []agent.Frame {
	for key, r := range c.requests {
		if r.link == l && bytes.Equal(r.id, id) {
			delete(c.requests, key)
			return []agent.Frame{{Kind: agent.Withdrawn, Child: r.child, Request: key}}
		}
	}
	return nil
}

// withdrawAll takes back what is open at the end of a turn. It runs under mu.
func (c *conversation) withdrawAll() []agent.Frame {
	var frames []agent.Frame
	for _, key := range slices.Sorted(maps.Keys(c.requests)) {
		frames = append(frames, agent.Frame{Kind: agent.Withdrawn, Child: c.requests[key].child, Request: key})
	}
	clear(c.requests)
	return frames
}
