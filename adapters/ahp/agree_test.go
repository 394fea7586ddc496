package ahp

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// Whatever two clients do, the state that each built by reducing actions is
// the state that a client reads who comes later: the snapshot and the actions
// cannot drift apart.
func TestReducedStateIsTheSnapshot(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		h := &history{rt: rt, g: g, n: n, uri: fmt.Sprintf("demo:/history-%d", n)}
		h.peers = []*peer{g.connect(fmt.Sprintf("a%d", n)), g.connect(fmt.Sprintf("b%d", n))}
		defer h.peers[0].ws.Close()
		defer h.peers[1].ws.Close()
		h.chat = h.peers[0].session(g, h.uri)
		h.peers[1].subscribe(h.uri)
		h.peers[1].subscribe(h.chat)
		for range rapid.IntRange(1, 8).Draw(rt, "steps") {
			h.step()
		}
		h.settle()
	})
}

// history is a random one, of one session.
type history struct {
	rt    *rapid.T
	g     *gateway
	n     int
	uri   string
	chat  string
	peers []*peer
	turns int
	queue int
}

var scripts = []string{
	"say one two", "think hm\nsay done", "run echo out; echo err >&2; false", "run printf 'a\\nb'", "write made some text",
	"read made", "ask Which? | red | blue\nsay thanks", "plan a; b", "usage 3 4\nsay used", "fail no luck", "spawn helper say below",
	"say slow\nsleep 3000", "!echo from a shell; false", "!sleep 3", "call pick {\"n\":1}", "stream 20 10 1",
}

func (h *history) who() *peer { return rapid.SampledFrom(h.peers).Draw(h.rt, "who") }

func (h *history) step() {
	p := h.who()
	p.mu.Lock()
	chat, session := p.states[h.chat], p.states[h.uri]
	p.mu.Unlock()
	active, _ := chat["activeTurn"].(object)
	need, _ := session["inputNeeded"].([]any)
	actions := []string{"title", "read", "draft", "mode", "tools", "queue"}
	if active == nil {
		actions = append(actions, "turn", "turn", "turn", "turn")
	} else {
		actions = append(actions, "cancel", "steer", "queue")
	}
	if len(need) > 0 {
		actions = append(actions, "answer", "answer", "answer", "answer")
	}
	seq := h.act(p, rapid.SampledFrom(actions).Draw(h.rt, "action"), active, need)
	if seq > 0 {
		p.echo(seq)
	}
	if rapid.Bool().Draw(h.rt, "compare") {
		for _, p := range h.peers {
			p.agree(h.g, h.chat)
			p.agree(h.g, h.uri)
		}
	}
}

func (h *history) act(p *peer, what string, active object, need []any) float64 {
	switch what {
	case "turn":
		h.turns++
		return p.dispatch(h.chat, started(fmt.Sprint("t", h.turns), rapid.SampledFrom(scripts).Draw(h.rt, "script")))
	case "cancel":
		return p.dispatch(h.chat, object{"type": "chat/turnCancelled", "turnId": active["id"], "duration": 1})
	case "queue", "steer":
		h.queue++
		kind := kindQueued
		if what == "steer" {
			kind = kindSteering
		}
		return p.dispatch(h.chat, pending(kind, fmt.Sprint("m", h.queue), rapid.SampledFrom(scripts).Draw(h.rt, "message")))
	case "title":
		return p.dispatch(rapid.SampledFrom([]string{h.uri, h.chat}).Draw(h.rt, "channel"),
			object{"type": "session/titleChanged", "title": rapid.SampledFrom([]string{"x", "y"}).Draw(h.rt, "title")})
	case "read":
		on := rapid.Bool().Draw(h.rt, "read")
		if rapid.Bool().Draw(h.rt, "chat") {
			return p.dispatch(h.chat, object{"type": "chat/isReadChanged", "isRead": on})
		}
		return p.dispatch(h.uri, object{"type": "session/isReadChanged", "isRead": on})
	case "draft":
		a := object{"type": "chat/draftChanged"}
		if rapid.Bool().Draw(h.rt, "some") {
			a["draft"] = object{"text": rapid.SampledFrom([]string{"", "hal"}).Draw(h.rt, "text"), "origin": object{"kind": "user"}}
		}
		return p.dispatch(h.chat, a)
	case "mode":
		return p.dispatch(h.uri, object{"type": "session/configChanged", "config": object{
			"mode": rapid.SampledFrom([]string{"plan", "interactive", "autopilot"}).Draw(h.rt, "mode")}})
	case "tools":
		tools := []any{}
		if rapid.Bool().Draw(h.rt, "some") {
			tools = append(tools, object{"name": "pick", "description": "picks"})
		}
		return p.dispatch(h.uri, object{"type": "session/activeClientSet", "activeClient": object{"clientId": p.id, "tools": tools}})
	}
	return h.answer(p, need[0].(object))
}

// answer settles what a session waits for, in one of the ways there are.
func (h *history) answer(p *peer, need object) float64 {
	chat := need["chat"].(string)
	yes := rapid.Bool().Draw(h.rt, "yes")
	switch need["kind"] {
	case "toolConfirmation":
		a := object{"type": "chat/toolCallConfirmed", "turnId": need["turnId"], "toolCallId": need["toolCall"].(object)["toolCallId"], "approved": yes}
		if yes {
			a["confirmed"] = "user-action"
		} else {
			a["reason"] = "denied"
		}
		return p.dispatch(chat, a)
	case "chatInput":
		req := need["request"].(object)
		q := req["questions"].([]any)[0].(object)
		value := object{"state": "submitted", "value": object{"kind": "selected", "value": "red"}}
		switch rapid.IntRange(0, 2).Draw(h.rt, "how") {
		case 0:
			return p.dispatch(chat, object{"type": "chat/inputAnswerChanged", "requestId": req["id"], "questionId": q["id"], "answer": value})
		case 1:
			return p.dispatch(chat, object{"type": "chat/inputCompleted", "requestId": req["id"], "response": "decline"})
		}
		return p.dispatch(chat, object{"type": "chat/inputCompleted", "requestId": req["id"], "response": "accept", "answers": object{q["id"].(string): value}})
	case "toolClientExecution":
		for _, owner := range h.peers {
			if owner.id == need["clientId"] {
				seq := owner.dispatch(chat, object{"type": "chat/toolCallComplete", "turnId": need["turnId"], "toolCallId": need["toolCall"].(object)["toolCallId"],
					"result": object{"success": yes, "pastTenseMessage": "x", "content": []any{object{"type": "text", "text": "picked"}}}})
				owner.echo(seq)
			}
		}
	}
	return 0
}

// settle ends what runs and waits, and compares everything once more.
func (h *history) settle() {
	p := h.peers[0]
	for range 50 {
		p.mu.Lock()
		active, _ := p.states[h.chat]["activeTurn"].(object)
		queued := p.states[h.chat]["queuedMessages"]
		p.mu.Unlock()
		if active == nil && queued == nil {
			break
		}
		if active != nil {
			p.echo(p.dispatch(h.chat, object{"type": "chat/turnCancelled", "turnId": active["id"], "duration": 1}))
		}
	}
	for _, p := range h.peers {
		p.agree(h.g, h.chat)
		p.agree(h.g, h.uri)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	h.peers[0].states = map[string]object{}
}
