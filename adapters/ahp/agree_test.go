package ahp

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/polyhost/polyhost/adapters/ahp/reduce"
)

// Whatever two clients do, the state that each built by reducing actions is
// the state that a client reads who comes later, on every channel: the snapshot
// and the actions cannot drift apart. And a gateway that was started anew shows
// the same again.
func TestReducedStateIsTheSnapshot(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	plugins := t.TempDir()
	writeFile(t, filepath.Join(plugins, "p", "commands", "hello.md"), "Hello")
	var told []map[string]any
	rapid.Check(t, func(rt *rapid.T) {
		n := len(told) + 1
		h := &history{rt: rt, g: g, n: n, uri: fmt.Sprintf("demo:/history-%d", n), plugins: plugins}
		told = append(told, nil)
		h.peers = []*peer{g.connect(fmt.Sprintf("a%d", n)), g.connect(fmt.Sprintf("b%d", n))}
		defer h.peers[0].ws.Close()
		defer h.peers[1].ws.Close()
		h.chat = h.peers[0].session(g, h.uri)
		h.peers[1].subscribe(h.uri)
		h.peers[1].subscribe(h.chat)
		for range rapid.IntRange(1, 8).Draw(rt, "steps") {
			h.step()
		}
		told[n-1] = h.settle()
	})
	if t.Failed() {
		return
	}
	g.stop()
	g.start()
	p := g.connect("later")
	rows := p.list()
	compared := 0
	for _, states := range told {
		compared += len(states)
		for uri, want := range states {
			var got any
			if name, isRow := strings.CutPrefix(uri, "row "); isRow {
				got = bare(rows[name])
			} else {
				got = remembered(p.subscribe(uri)["state"])
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%s changed with the restart:\nbefore %s\nafter  %s", uri, show(want), show(got))
			}
		}
	}
	t.Logf("%d channels and rows were compared after the restart", compared)
}

// remembered is what of a state outlives the gateway: clients do not.
func remembered(v any) any {
	o := plain(v).(object)
	delete(o, "activeClients")
	delete(o, "customizations") // agents say them when they run
	delete(o, "backgroundWork") // and this ends with them
	return o
}

// list is the list of sessions, by name.
func (p *peer) list() map[string]object {
	rows := map[string]object{}
	for _, v := range p.call("listSessions", object{"channel": rootURI})["items"].([]any) {
		rows[v.(object)["resource"].(string)] = v.(object)
	}
	return rows
}

// history is a random one, of one session.
type history struct {
	rt    *rapid.T
	g     *gateway
	n     int
	uri   string
	chat  string
	sides []string // further chats that clients made
	peers []*peer
	turns int
	queue int
	// plugins is where clients' plugins are; some are not.
	plugins string
}

// watch subscribes a client to every chat of the session and returns the names
// of all its channels.
func (h *history) watch(p *peer) []string {
	uris := []string{rootURI, h.uri}
	for _, c := range p.state(h.uri)["chats"].([]any) {
		uri := c.(object)["resource"].(string)
		if p.state(uri) == nil {
			p.subscribe(uri)
		}
		uris = append(uris, uri)
	}
	return uris
}

var scripts = []string{
	"say one two", "think hm\nsay done", "run echo out; echo err >&2; false", "run printf 'a\\nb'", "write made some text",
	"read made", "ask Which? | red | blue\nsay thanks", "plan a; b", "usage 3 4\nsay used", "fail no luck", "say one\nfail no luck\nrun echo two\nfail again\nsay three", "spawn helper say below", "spawn helper progress digging",
	"say slow\nsleep 3000", "!echo from a shell; false", "!sleep 3", "call pick {\"n\":1}", "stream 20 10 1",
	"server docs ready", "server docs starting\nserver docs failed\nserver wiki ready", "server docs gone", "server docs locked https://x/docs\nuse docs find it", "skill dance Dances", "background tests make test", "background tests make test\nbackground tests", "background a x\nbackground b y\nbackground a z", "command sing Sings",
}

func (h *history) who() *peer { return rapid.SampledFrom(h.peers).Draw(h.rt, "who") }

func (h *history) step() {
	p := h.who()
	at := rapid.SampledFrom(append([]string{h.chat, h.chat}, h.sides...)).Draw(h.rt, "chat")
	p.mu.Lock()
	chat, session := p.states[at], p.states[h.uri]
	p.mu.Unlock()
	active, _ := chat["activeTurn"].(object)
	need, _ := session["inputNeeded"].([]any)
	actions := []string{"title", "read", "draft", "mode", "tools", "queue", "side"}
	if len(h.sides) > 0 {
		actions = append(actions, "dispose", "dispose default", "move")
	}
	if turns, _ := chat["turns"].([]any); len(turns) > 0 {
		actions = append(actions, "fork", "truncate")
		if last := turns[len(turns)-1].(object); last["state"] == "error" {
			actions = append(actions, "resume", "resume", "resume")
		}
	}
	if active == nil {
		actions = append(actions, "turn", "turn", "turn", "turn")
	} else {
		actions = append(actions, "cancel", "steer", "queue")
	}
	if len(need) > 0 {
		actions = append(actions, "answer", "answer", "answer", "answer")
	}
	if servers(session) != nil {
		actions = append(actions, "server", "server")
	}
	seq := h.act(p, at, rapid.SampledFrom(actions).Draw(h.rt, "action"), active, need)
	if seq > 0 {
		p.echo(seq)
	}
	if rapid.Bool().Draw(h.rt, "compare") {
		for _, p := range h.peers {
			p.agree(h.g, h.watch(p)...)
		}
	}
}

// dispose ends one of the further chats; nobody hears of it any more.
func (h *history) dispose(p *peer) {
	i := rapid.IntRange(0, len(h.sides)-1).Draw(h.rt, "which")
	uri := h.sides[i]
	h.sides = slices.Delete(h.sides, i, i+1)
	p.call("disposeChat", object{"channel": uri})
	for _, p := range h.peers {
		p.until(h.uri, uri+" to go", func(s object) bool {
			return !slices.ContainsFunc(s["chats"].([]any), func(c any) bool { return c.(object)["resource"] == uri })
		})
		p.forget(uri)
	}
}

// side makes another chat, which every client watches.
func (h *history) side(p *peer) {
	h.queue++
	uri := fmt.Sprintf("ahp-chat:/side-%d-%d", h.n, h.queue)
	params := object{"channel": h.uri, "chat": uri}
	if rapid.Bool().Draw(h.rt, "begins") {
		params["initialMessage"] = object{"text": rapid.SampledFrom(scripts).Draw(h.rt, "script"), "origin": object{"kind": "user"}}
	}
	p.call("createChat", params)
	h.sides = append(h.sides, uri)
	for _, p := range h.peers {
		p.subscribe(uri)
	}
}

// turnOf is one of a chat's finished turns.
func (h *history) turnOf(p *peer, chat string) any {
	return rapid.SampledFrom(p.state(chat)["turns"].([]any)).Draw(h.rt, "of turn").(object)["id"]
}

// fork makes another chat from a turn of one, which every client watches, if
// there is such a turn still.
func (h *history) fork(p *peer, chat string) {
	turns := p.state(chat)["turns"].([]any)
	if len(turns) == 0 {
		return
	}
	h.queue++
	uri := fmt.Sprintf("ahp-chat:/fork-%d-%d", h.n, h.queue)
	source := object{"kind": rapid.SampledFrom([]string{"fork", "sideChat"}).Draw(h.rt, "source"), "chat": chat, "turnId": h.turnOf(p, chat)}
	params := object{"channel": h.uri, "chat": uri, "source": source}
	if rapid.Bool().Draw(h.rt, "begins") {
		params["initialMessage"] = object{"text": rapid.SampledFrom(scripts).Draw(h.rt, "script"), "origin": object{"kind": "user"}}
	}
	if answer := p.request("createChat", params); answer["error"] != nil {
		return // the agent cannot go back to that turn, or the other client has taken it away
	}
	h.sides = append(h.sides, uri)
	for _, p := range h.peers {
		p.subscribe(uri)
	}
}

// move puts one of the further chats into another place, unless a turn runs in
// it.
func (h *history) move(p *peer) {
	destination := object{"kind": "session", "session": h.uri}
	if rapid.Bool().Draw(h.rt, "behind one") {
		chats := p.state(h.uri)["chats"].([]any)
		destination["after"] = rapid.SampledFrom(chats).Draw(h.rt, "after").(object)["resource"]
	}
	p.request("moveChat", object{"channel": rapid.SampledFrom(h.sides).Draw(h.rt, "which"), "destination": destination})
}

// disposeDefault ends the default chat: its name is that of one of the further
// chats then.
func (h *history) disposeDefault(p *peer) {
	from := map[*peer]int{}
	for _, p := range h.peers {
		from[p] = p.mark()
	}
	p.call("disposeChat", object{"channel": h.chat})
	for _, p := range h.peers {
		p.action(from[p], h.uri, "session/defaultChatChanged")
	}
	h.sides = slices.DeleteFunc(h.sides, func(uri string) bool {
		if slices.ContainsFunc(p.state(h.uri)["chats"].([]any), func(c any) bool { return c.(object)["resource"] == uri }) {
			return false
		}
		for _, p := range h.peers {
			p.forget(uri)
		}
		return true
	})
	for _, p := range h.peers {
		p.forget(h.chat)
		p.subscribe(h.chat)
	}
}

// forget drops what the peer holds of a channel.
func (p *peer) forget(uri string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.states, uri)
}

func (h *history) act(p *peer, chat, what string, active object, need []any) float64 {
	switch what {
	case "side":
		h.side(p)
		return 0
	case "fork":
		h.fork(p, chat)
		return 0
	case "resume":
		return p.dispatch(chat, object{"type": "chat/turnResume", "turnId": h.turnOf(p, chat)})
	case "truncate":
		return p.dispatch(chat, object{"type": "chat/truncated", "turnId": h.turnOf(p, chat)})
	case "move":
		h.move(p)
		return 0
	case "dispose":
		h.dispose(p)
		return 0
	case "dispose default":
		h.disposeDefault(p)
		return 0
	case "turn":
		h.turns++
		return p.dispatch(chat, started(fmt.Sprint("t", h.turns), rapid.SampledFrom(scripts).Draw(h.rt, "script")))
	case "cancel":
		return p.dispatch(chat, object{"type": "chat/turnCancelled", "turnId": active["id"], "duration": 1})
	case "queue", "steer":
		h.queue++
		kind := kindQueued
		if what == "steer" {
			kind = kindSteering
		}
		return p.dispatch(chat, pending(kind, fmt.Sprint("m", h.queue), rapid.SampledFrom(scripts).Draw(h.rt, "message")))
	case "title":
		return p.dispatch(rapid.SampledFrom([]string{h.uri, chat}).Draw(h.rt, "channel"),
			object{"type": "session/titleChanged", "title": rapid.SampledFrom([]string{"x", "y"}).Draw(h.rt, "title")})
	case "read":
		on := rapid.Bool().Draw(h.rt, "read")
		if rapid.Bool().Draw(h.rt, "of the chat") {
			return p.dispatch(chat, object{"type": "chat/isReadChanged", "isRead": on})
		}
		return p.dispatch(h.uri, object{"type": "session/isReadChanged", "isRead": on})
	case "server":
		action := object{"type": rapid.SampledFrom([]string{"session/mcpServerStartRequested", "session/mcpServerStopRequested",
			"session/customizationToggled"}).Draw(h.rt, "type"), "id": rapid.SampledFrom(servers(p.state(h.uri))).Draw(h.rt, "server")}
		if action["type"] == "session/customizationToggled" {
			if rapid.Bool().Draw(h.rt, "of the plugin") {
				action["id"] = "p" // it may be there
			}
			action["enablement"] = []any{object{"kind": "session", "enabled": rapid.Bool().Draw(h.rt, "on")}}
		}
		return p.dispatch(h.uri, action)
	case "draft":
		a := object{"type": "chat/draftChanged"}
		if rapid.Bool().Draw(h.rt, "some") {
			a["draft"] = object{"text": rapid.SampledFrom([]string{"", "hal"}).Draw(h.rt, "text"), "origin": object{"kind": "user"}}
		}
		return p.dispatch(chat, a)
	case "mode":
		return p.dispatch(h.uri, object{"type": "session/configChanged", "config": object{
			"mode": rapid.SampledFrom([]string{"plan", "interactive", "autopilot"}).Draw(h.rt, "mode")}})
	case "tools":
		tools := []any{}
		if rapid.Bool().Draw(h.rt, "some") {
			tools = append(tools, object{"name": "pick", "description": "picks"})
		}
		plugins := []any{}
		for _, id := range []string{"p", "none"} {
			if rapid.Bool().Draw(h.rt, "plugin") {
				plugins = append(plugins, plugin(id, fileURI(h.plugins)+"/"+id, rapid.SampledFrom([]string{"", "1"}).Draw(h.rt, "nonce")))
			}
		}
		return p.dispatch(h.uri, object{"type": "session/activeClientSet", "activeClient": object{"clientId": p.id, "tools": tools, "customizations": plugins}})
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
	case "toolAuthentication":
		call := need["toolCall"].(object)
		if yes {
			return p.dispatch(h.uri, object{"type": "session/mcpServerStartRequested", "id": call["contributor"].(object)["customizationId"]})
		}
		// It may have been opened meanwhile.
		p.request("authenticate", object{"channel": rootURI, "resource": call["auth"].(object)["resource"].(object)["resource"],
			"token": rapid.SampledFrom([]string{"wrong", "good", ""}).Draw(h.rt, "token")})
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

// servers are the ids of a session's MCP servers.
func servers(session object) (ids []string) {
	list, _ := session["customizations"].([]any)
	for _, v := range list {
		if c := v.(object); c["type"] == "mcpServer" {
			ids = append(ids, c["id"].(string))
		}
	}
	return ids
}

// settle ends what runs and waits, compares everything once more and returns
// what every channel shows in the end, and the session's row; nil for a session
// that was never used, as it goes with its clients.
func (h *history) settle() map[string]any {
	p := h.peers[0]
	for deadline := time.Now().Add(patience); ; {
		for h.stop(p) {
			if time.Now().After(deadline) {
				p.t.Fatalf("%s does not come to rest: %s", h.uri, show(p.state(h.uri)))
			}
		}
		states := map[string]any{}
		for _, p := range h.peers {
			uris := h.watch(p)
			p.agree(h.g, uris...)
			for _, uri := range uris[1:] {
				states[uri] = remembered(p.state(uri))
			}
		}
		row := h.row(p)
		if len(row) == 0 {
			return nil
		}
		if status := uint32(row["status"].(float64)); status&reduce.Running == 0 {
			h.paged(states[h.chat])
			states["row "+h.uri] = row
			return states
		}
	}
}

// stop cancels the turns that run. It reports whether something ran or waits.
func (h *history) stop(p *peer) (ran bool) {
	for _, chat := range append([]string{h.chat}, h.sides...) {
		s := p.state(chat)
		active, _ := s["activeTurn"].(object)
		if active != nil {
			p.echo(p.dispatch(chat, object{"type": "chat/turnCancelled", "turnId": active["id"], "duration": 1}))
		}
		ran = ran || active != nil || s["queuedMessages"] != nil || s["steeringMessage"] != nil
	}
	return ran
}

// row is the session's row, once what was told of it by and by is what is
// listed.
func (h *history) row(p *peer) object {
	for deadline := time.Now().Add(patience); ; {
		listed := bare(p.list()[h.uri])
		p.mu.Lock()
		told := bare(p.rows[h.uri])
		p.mu.Unlock()
		if reflect.DeepEqual(told, listed) {
			return told.(object)
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("the row from notifications and the list differ:\ntold   %s\nlisted %s", show(told), show(listed))
		}
	}
}

// paged reads a chat page by page and finds it as those who saw all of it.
func (h *history) paged(want any) {
	q := h.g.connect(fmt.Sprint("reader", h.n))
	defer q.ws.Close()
	q.call("subscribe", object{"channel": h.chat, "view": object{"turns": 1}})
	for range h.turns + h.queue {
		cursor := q.state(h.chat)["turnsNextCursor"]
		if cursor == nil {
			break
		}
		q.call("fetchTurns", object{"channel": h.chat, "cursor": cursor})
	}
	if got := remembered(q.state(h.chat)); !reflect.DeepEqual(got, want) {
		q.t.Fatalf("%s differs when it is read page by page:\npaged %s\nwhole %s", h.chat, show(got), show(want))
	}
}
