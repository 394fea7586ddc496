package snowpea

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/polyhost/polyhost/core/host"
)

// resume replays a session and returns the events of the answer.
func (c *client) resume(session string, after any) []sessionEvent {
	c.t.Helper()
	p := object("sessionId", session)
	if after != nil {
		p["afterSeq"] = after
	}
	m := c.answer(c.request("session.resume", p))
	if m.Error != nil {
		c.t.Fatalf("session.resume: %+v", m.Error)
	}
	var r struct {
		Events []json.RawMessage `json:"events"`
		Mode   string            `json:"mode"`
	}
	if err := json.Unmarshal(m.Result, &r); err != nil {
		c.t.Fatal(err)
	}
	var out []sessionEvent
	for _, raw := range r.Events {
		if len(raw) < checkedSize {
			checkEvent(c.t, raw)
		}
		var e sessionEvent
		if err := json.Unmarshal(raw, &e); err != nil {
			c.t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// gapless checks that events are numbered from a number on, without hole.
func gapless(t *testing.T, events []sessionEvent, from uint64) {
	t.Helper()
	for i, e := range events {
		if e.Seq != from+uint64(i) {
			t.Fatalf("event %d has number %d, want %d", i, e.Seq, from+uint64(i))
		}
	}
}

func TestResumeAfterACut(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	a := g.hello()
	s := a.session(g.dir)
	turn := a.prompt(s, "stream 200 20 15")
	a.wait("fifty deltas", func() bool { return len(a.events) >= 52 })
	a.ws.NetConn().Close()
	a.wait("the end of the socket", func() bool { return a.closed != nil })
	before := a.of(s)
	gapless(t, before, 1)

	b := g.hello()
	replay := b.resume(s, before[len(before)-1].Seq)
	b.done(turn)
	all := append(append(before, replay...), b.of(s)...)
	gapless(t, all, 1)
	text, ends := "", 0
	for _, e := range all {
		switch e.Kind {
		case "message.delta":
			text += e.text("text")
		case "turn.done":
			ends++
		}
	}
	if end := find(t, all, "message.done"); end.text("text") != text || len(text) != 200*20 || ends != 1 {
		t.Errorf("deltas give %d bytes, message.done %d, %d ends", len(text), len(end.text("text")), ends)
	}

	// Another client gets everything, and the next turn live.
	c := g.hello()
	if whole := c.resume(s, nil); len(whole) != len(all) {
		t.Errorf("%d events are replayed of %d", len(whole), len(all))
	}
	turn = b.prompt(s, "say more")
	c.done(turn)
	gapless(t, c.of(s), uint64(len(all)+1))

	if e := c.resume(s, 1e9); len(e) != 0 {
		t.Errorf("nothing follows the end, got %d", len(e))
	}
	if e := c.resume(s, -5); len(e) == 0 || e[0].Seq != 1 {
		t.Errorf("a negative number begins at %v", e)
	}
	c.refused("session.resume", object("sessionId", "nope"), "not_found")
	c.refused("session.resume", object("sessionId", "01890000-0000-7000-8000-000000000000"), "not_found")
}

func TestCloseAndResume(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.hello()
	s := c.session(g.dir, "mode", "plan")
	c.done(c.prompt(s, "say one"))
	turn := c.prompt(s, "sleep 60000")
	c.event("the second turn", func(e sessionEvent) bool { return e.Kind == "turn.started" && e.text("turnId") == turn })
	c.call("session.close", object("sessionId", s))
	end := c.done(turn)
	if end.text("reason") != "interrupted" {
		t.Errorf("the end is %v", end.Payload)
	}
	c.note("sessions.changed", func(p map[string]any) bool { return p["sessionId"] == s && p["reason"] == "close" })
	c.refused("session.close", object("sessionId", s), "not_found")
	c.refused("session.prompt", object("sessionId", s, "text", "x"), "not_found")
	if c.row(s) != nil || c.row(s, "includeClosed", true) == nil {
		t.Error("a closed session is listed only on demand")
	}
	m := c.call("session.resume", object("sessionId", s, "afterSeq", end.Seq))
	if m["mode"] != "plan" || len(m["events"].([]any)) != 0 {
		t.Errorf("resume answers %v", m)
	}
	if e := c.turnOf(s, c.prompt(s, "say two")); e[0].Seq != end.Seq+1 {
		t.Errorf("the next turn begins at %d, want %d", e[0].Seq, end.Seq+1)
	}
}

// The numbers are the same after a restart, however the session came back.
func TestNumbersOutliveTheGateway(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.hello()
	s := c.session(g.dir)
	for i := range 5 {
		c.done(c.prompt(s, fmt.Sprintf("stream 100 8\nplan a; b\nusage 1 2\nsay %d", i)))
	}
	first := c.resume(s, nil)
	gapless(t, first, 1)
	g.down()
	g.up()
	c = g.hello()
	if row := c.row(s); row["seq"] != float64(len(first)) {
		t.Errorf("the row says %v, want %d", row["seq"], len(first))
	}
	again := c.resume(s, nil)
	if len(again) != len(first) {
		t.Fatalf("%d events, then %d", len(first), len(again))
	}
	for i := range first {
		a, b := fmt.Sprint(first[i].Kind, first[i].Payload), fmt.Sprint(again[i].Kind, again[i].Payload)
		if a != b {
			t.Errorf("event %d was %s, is %s", i+1, a, b)
		}
	}
	if e := c.resume(s, 300); len(e) == 0 || e[0].Seq != 301 {
		t.Error("a replay from the middle begins elsewhere")
	}
	events := c.turnOf(s, c.prompt(s, "say on"))
	gapless(t, events, uint64(len(first)+1))
	rows := c.call("usage.summary", object("groupBy", "session"))["rows"].([]any)
	if len(rows) != 1 || rows[0].(map[string]any)["inputTokens"] != 5.0 || rows[0].(map[string]any)["calls"] != 5.0 {
		t.Errorf("usage is %v", rows)
	}
}

// A history that is larger than one answer follows as live events.
func TestLongHistoryFollowsTheAnswer(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.hello()
	s := c.session(g.dir)
	for range 3 {
		c.done(c.prompt(s, "stream 20 60000"))
	}
	last := c.row(s)["seq"].(float64)
	b := g.hello()
	head := b.resume(s, nil)
	gapless(t, head, 1)
	if float64(len(head)) >= last {
		t.Fatalf("the answer brings all %d events: nothing to test", len(head))
	}
	b.wait("the rest", func() bool { return float64(len(head)+len(b.events)) >= last })
	gapless(t, b.of(s), uint64(len(head)+1))
}

// A client that stops reading costs its bound, moves nobody and loses nothing.
func TestSlowClientCatchesUp(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	slow := g.hello()
	s := slow.session(g.dir)
	other, session := g.hello(), g.session(s)
	stop, stopped := make(chan struct{}), make(chan struct{})
	slow.mu.Lock() // its reader stops at the next message
	go func() {
		defer close(stopped)
		defer slow.mu.Unlock()
		for { // one now and then: a client that takes nothing is cut in the end
			select {
			case <-time.After(time.Second):
				slow.mu.Unlock()
				runtime.Gosched()
				slow.mu.Lock()
			case <-stop:
				return
			}
		}
	}()
	// Its queue, the sockets and the ring hold less, so that some comes from the log.
	for range 2 {
		p, err := session.Prompt(t.Context(), host.Prompt{Text: "stream 32 60000", By: tester})
		if err == nil {
			_, err = session.WaitTurn(t.Context(), session.State().Default, p.Turn)
		}
		if err != nil {
			t.Error(err)
		}
	}
	last := uint64(other.row(s)["seq"].(float64))
	close(stop)
	<-stopped
	slow.wait("all events", func() bool { return len(slow.events) > 0 && slow.events[len(slow.events)-1].Seq >= last })
	gapless(t, slow.of(s), 1)
}

func TestLiveEventsStayBehindTheReplay(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.hello()
	s := c.session(g.dir)
	turn := c.prompt(s, "stream 1000000 10 2")
	for range 5 {
		b := g.hello()
		id := b.request("session.resume", object("sessionId", s))
		b.answer(id)
		b.wait("live events", func() bool { return len(b.events) >= 3 })
		b.mu.Lock()
		seen := false
		for _, m := range b.got {
			if m.Method == "session.event" && !seen {
				t.Error("an event came before the answer")
				break
			}
			seen = seen || m.Method == "" && string(m.ID) == fmt.Sprint(id)
		}
		b.mu.Unlock()
		b.ws.Close()
	}
	c.call("session.interrupt", object("sessionId", s))
	c.done(turn)
}

func TestManyQuickReconnects(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.hello()
	s := c.session(g.dir)
	turn := c.prompt(s, "stream 100 10 5")
	for range 60 {
		b := g.hello("clientId", "x")
		b.request("session.resume", object("sessionId", s, "afterSeq", 0))
		b.ws.NetConn().Close()
	}
	c.done(turn)
	gapless(t, c.of(s), 1)
	deadline := time.Now().Add(patience)
	for {
		g.front.mu.Lock()
		n := len(g.front.conns)
		g.front.mu.Unlock()
		if n == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d connections are left", n)
		}
		time.Sleep(time.Millisecond)
	}
}

// Sessions of other fronts are listed, readable and drivable, and their other
// chats are sessions of their own.
func TestSessionsOfOtherFronts(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.hello()
	s, err := g.host.CreateSession(context.Background(), host.CreateSession{By: tester, Title: "elsewhere"})
	if err != nil {
		t.Fatal(err)
	}
	name := s.ID().String()
	c.note("sessions.changed", func(p map[string]any) bool { return p["sessionId"] == name && p["reason"] == "create" })
	if row := c.row(name); row["title"] != "elsewhere" || row["originSurface"] != "test" || row["seq"] != 0.0 {
		t.Errorf("the row is %v", row)
	}
	if got := c.resume(name, nil); len(got) != 0 {
		t.Errorf("%d events before the first turn", len(got))
	}
	if _, err := s.Prompt(context.Background(), host.Prompt{Text: "say hi", By: tester}); err != nil {
		t.Fatal(err)
	}
	c.event("the turn", func(e sessionEvent) bool { return e.Kind == "turn.done" && e.SessionID == name })
	if got, want := kinds(c.of(name)), "turn.started message.user message.delta message.done context turn.done"; got != want {
		t.Errorf("the turn was %s", got)
	}
	events := c.turnOf(name, c.prompt(name, "say from here"))
	if !strings.HasPrefix(find(t, events, "message.done").text("text"), "from here") {
		t.Errorf("the answer is %v", events)
	}
}
