package bae

import (
	"bytes"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/transports/outbox"
)

func TestAPauseHoldsTheQueueAndItsOwnerDoesNotQueue(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	a := g.open(obj{"tools": tool("t")}).register()
	b := g.join(a.ses, nil).register()
	use := uses(a.send("call t {}")["message"])[0]["id"].(string)
	waiting := b.begin("session.sendMessage", msg("say from b"))
	defer waiting.close()
	waiting.quiet()
	want(t, "participants answer", g.do("GET", b.path("/participants"), b.key, nil).status, 200)
	g.join(a.ses, nil).register()
	waiting.quiet()
	s := a.begin("session.sendMessage", msg([]obj{toolResultBlock(use, "done")}))
	first := s.next()["params"].(obj)
	want(t, "first notification", first["event_type"], "provider.request")
	rest := s.rest()
	result := rest[len(rest)-1]["result"].(obj)
	want(t, "lead of result.events", types(events(result))[:2], "[client.message.send tool.result]")
	lines := waiting.rest()
	want(t, "b", text(lines[len(lines)-1]["result"].(obj)["message"]), "from b")

	var keys []string
	for _, e := range a.log() {
		switch e["event_type"] {
		case "client.message.send", "server.message.send":
			keys = append(keys, e["client_key_id"].(string))
		case "provider.request":
			n := len(e["payload"].(obj)["tools"].([]any))
			if wantN := map[string]int{a.id: 1, b.id: 0}[e["client_key_id"].(string)]; n != wantN {
				t.Errorf("%v offers %d tools, want %d", e["client_key_id"], n, wantN)
			}
		}
	}
	want(t, "whose events", keys, []string{a.id, a.id, a.id, a.id, b.id, b.id})
}

func TestChangingOnesMindGivesThePausedTurnUp(t *testing.T) {
	t.Parallel()
	g := start(t, options{agent: twoCalls{}})
	c := g.open(obj{"tools": tool("t")}).register()
	u := uses(c.send("go")["message"])
	r := c.send("never mind")
	sent := events(r)[0]["payload"].(obj)["content"].([]any)
	if len(sent) != 3 {
		t.Fatalf("content: %v", sent)
	}
	for i, use := range u {
		b := sent[i].(obj)
		want(t, "made-up result", []any{b["type"], b["tool_use_id"], b["is_error"]}, []any{"tool_result", use["id"], true})
	}
	want(t, "text", sent[2], obj{"type": "text", "text": "never mind"})
	// The new turn of this agent pauses again.
	want(t, "events", types(events(r)), "[client.message.send tool.result tool.result provider.request provider.response tool.call tool.call server.message.send]")
	var roles []any
	for _, m := range events(r)[3]["payload"].(obj)["messages"].([]any) {
		roles = append(roles, m.(obj)["role"])
	}
	want(t, "roles", roles, "[user assistant user]")
	for _, k := range types(c.log()) {
		if k == "session.error" {
			t.Error("an error was recorded")
		}
	}
	// And so it does the second time.
	want(t, "again", types(events(c.send("no")))[:3], "[client.message.send tool.result tool.result]")
}

func TestAnAnswerThatDoesNotFitEndsTheSession(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]any{
		"empty list": []obj{}, "empty text": "", "number": 5, "null": nil, "object": obj{},
		"wrong id": []obj{toolResultBlock("nope", "x")}, "twice": "twice", "no id": []obj{{"type": "tool_result", "content": "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := start(t, options{})
			c := g.open(obj{"tools": tool("t")}).register()
			use := uses(c.send("call t {}")["message"])[0]["id"].(string)
			if content == "twice" {
				content = []obj{toolResultBlock(use, "1"), toolResultBlock(use, "2")}
			}
			want(t, "code", c.code("session.sendMessage", msg(content)), codeState)
			log := c.log()
			last := log[len(log)-1]
			want(t, "record", []any{last["event_type"], last["payload"].(obj)["reason"]}, "[session.error tool_result_merge_invalid]")
			n := 0
			for _, k := range types(log) {
				if k == "client.message.send" {
					n++
				}
			}
			want(t, "messages", n, 1)
			want(t, "state", c.code("session.registerDriver", obj{}), codeState)
		})
	}
}

func TestARoleOtherThanUserDoesNotResume(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	c := g.open(obj{"tools": tool("t")}).register()
	use := uses(c.send("call t {}")["message"])[0]["id"].(string)
	want(t, "code", c.code("session.sendMessage", obj{"message": obj{"role": "system", "content": []obj{toolResultBlock(use, "x")}}}), codeState)
	want(t, "state", c.code("session.sendMessage", msg("x")), codeState)
}

func TestAtTheDeadlineTheHeadOfTheQueueTakesOver(t *testing.T) {
	t.Parallel()
	g := start(t, options{turnTimeout: 300 * time.Millisecond})
	a := g.open(obj{"tools": tool("t")}).register()
	b := g.join(a.ses, nil).register()
	use := uses(a.send("call t {}")["message"])[0]["id"].(string)
	lines := b.call("session.sendMessage", msg("say mine now"))
	r := lines[len(lines)-1]["result"].(obj)
	want(t, "b", text(r["message"]), "mine now")
	want(t, "stream of b", types(lines), "[provider.request provider.response server.message.send]")
	want(t, "events of b", types(events(r)), "[client.message.send tool.result provider.request provider.response server.message.send]")
	var lost obj
	for _, e := range a.log() {
		if e["event_type"] == "session.error" {
			lost = e
		}
	}
	want(t, "record", []any{lost["client_key_id"], lost["payload"]}, []any{a.id, obj{"reason": "driver_turn_abandoned", "owner_client_key_id": a.id}})
	want(t, "too late", a.code("session.sendMessage", msg([]obj{toolResultBlock(use, "x")})), codeState)
	want(t, "still open", text(a.send("say hi")["message"]), "hi")
}

func TestALateOwnerStillResumesIfNobodyElseCame(t *testing.T) {
	t.Parallel()
	g := start(t, options{turnTimeout: time.Millisecond})
	c := g.open(obj{"tools": tool("t")}).register()
	use := uses(c.send("call t {}")["message"])[0]["id"].(string)
	time.Sleep(5 * time.Millisecond) // the deadline is over
	want(t, "answer", text(c.send([]obj{toolResultBlock(use, "yes")})["message"]), "yes")
}

func TestATurnOfAnotherFrontHoldsTheGate(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	c := g.open(nil).register()
	hs := g.session(c)
	other := event.Actor{Front: "snowpea", Client: "x"}
	turn := prompt(t, hs, host.Prompt{Text: "sleep 60000", By: other})
	s := c.begin("session.sendMessage", msg("say mine"))
	defer s.close()
	s.quiet()
	if _, err := hs.Interrupt(t.Context(), host.Interrupt{Turn: turn, By: other}); err != nil {
		t.Fatal(err)
	}
	lines := s.rest()
	want(t, "after it", text(lines[len(lines)-1]["result"].(obj)["message"]), "mine")
	var kinds, keys []string
	for _, e := range c.log()[2:] {
		kinds = append(kinds, e["event_type"].(string))
		if e["client_key_id"] == keyOf(other) {
			keys = append(keys, "other")
		} else {
			keys = append(keys, "mine")
		}
	}
	want(t, "log", kinds, "[client.message.send provider.request provider.response server.message.send client.message.send provider.request provider.response server.message.send]")
	want(t, "keys", keys, "[other other other other mine mine mine mine]")
}

func TestAQueuedMessageOfAClientThatLeftIsNeverSent(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	a := g.open(obj{"tools": tool("t")}).register()
	b := g.join(a.ses, nil).register()
	use := uses(a.send("call t {}")["message"])[0]["id"].(string)
	s := b.begin("session.sendMessage", msg("say never"))
	r, err := g.f.room(t.Context(), mustSession(t, a))
	if err != nil {
		t.Fatal(err)
	}
	defer g.f.release(r)
	queue := func() int {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.queue)
	}
	eventually(t, "queued", func() bool { return queue() == 1 })
	s.close()
	eventually(t, "gone", func() bool { return queue() == 0 })
	a.send([]obj{toolResultBlock(use, "x")})
	for _, e := range a.log() {
		if e["client_key_id"] == b.id && e["event_type"] == "client.message.send" {
			t.Error("the message was sent")
		}
	}
}

func TestASenderThatLeavesCancelsItsTurn(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	c := g.open(nil).register()
	s := c.begin("session.sendMessage", msg("say so far\nsleep 60000"))
	s.until("provider.request")
	hs := g.session(c)
	eventually(t, "said", func() bool {
		a := hs.State().DefaultChat().Active
		return a != nil && a.Text() == "so far"
	})
	s.close()
	eventually(t, "idle", func() bool { return !hs.State().Running() })
	want(t, "next", text(c.send("say next")["message"]), "next")
}

func TestASenderThatDoesNotReadItsResultHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	a := g.open(nil).register()
	b := g.join(a.ses, nil).register()
	r, err := g.f.room(t.Context(), mustSession(t, a))
	if err != nil {
		t.Fatal(err)
	}
	defer g.f.release(r)
	const room = 600 // bytes: less than two events
	stalled := &feed{out: outbox.New(room)}
	rq := &request{room: r, ses: r.ses, key: clientKey{ID: a.id}, id: json.RawMessage("1"), hasID: true, params: mustJSON(msg("say one\nsay two"))}
	run, err := g.f.sendMessage(t.Context(), rq)
	if err != nil {
		t.Fatal(err)
	}
	var sending sync.WaitGroup
	defer sending.Wait()
	defer stalled.out.Discard(errWritten)
	sending.Go(func() { run(t.Context(), stalled) })
	hs := g.session(a)
	eventually(t, "the turn ends", func() bool { return hs.State().DefaultChat().Count == 1 })
	want(t, "the next one", text(b.send("say next")["message"]), "next")
	batch, err := stalled.out.Take()
	if err != nil || len(batch) != 1 || bytes.Count(batch[0], []byte("\n")) != 1 {
		t.Errorf("the stalled sender was given %q, %v, want one line that waits", batch, err)
	}
}

func TestClosingEndsStreamsAndQueues(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	a := g.open(obj{"tools": tool("t")}).register()
	b := g.join(a.ses, nil).register()
	a.send("call t {}")
	watch := a.begin("session.subscribe", obj{})
	waiting := b.begin("session.sendMessage", msg("say x"))
	waiting.quiet()
	r := g.do("DELETE", b.path(""), b.key, nil)
	want(t, "close", []any{r.status, r.json(t)["session_id"], r.json(t)["state"]}, []any{200, a.ses, "closed"})
	seen := types(watch.rest())
	want(t, "watcher", seen, "[session.close]")
	lines := waiting.rest()
	want(t, "waiter", errorCode(t, lines[len(lines)-1]), codeState)
	log := a.log()
	last := log[len(log)-1]
	want(t, "record", []any{last["event_type"], last["client_key_id"], last["payload"]}, []any{"session.close", a.id, obj{"reason": "client_close"}})
	want(t, "again", g.do("DELETE", b.path(""), b.key, nil).status, 409)
	want(t, "participants", g.do("GET", a.path("/participants"), a.key, nil).json(t)["drivers"], []any{})
	want(t, "send", a.code("session.sendMessage", msg("x")), codeDriver)
}

// session is the host's session of a client.
func (g *gateway) session(c *client) *host.Session {
	g.t.Helper()
	hs, err := g.host.Session(g.t.Context(), mustSession(g.t, c))
	if err != nil {
		g.t.Fatal(err)
	}
	return hs
}

func mustSession(t *testing.T, c *client) id.ID {
	t.Helper()
	ses, err := id.ParseBAE("ses", c.ses)
	if err != nil {
		t.Fatal(err)
	}
	return ses
}

func prompt(t *testing.T, hs *host.Session, p host.Prompt) id.ID {
	t.Helper()
	pr, err := hs.Prompt(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return pr.Turn
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}
