package bae

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/transports/outbox"
)

func TestSubscriptionsReplayAndGoOnWithoutGapOrRepeat(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	a := g.open(nil).register()
	a.send("say one")
	a.send("say two")
	b := g.join(a.ses, nil)
	log := ids(a.log())
	other := g.open(nil)
	from := b.begin("session.subscribe", obj{"since_event_id": log[2]})
	foreign := b.begin("session.subscribe", obj{"since_event_id": ids(other.log())[0]})
	empty := b.begin("session.subscribe", obj{"since_event_id": ""})
	live := b.begin("session.subscribe", obj{"since_event_id": 5})
	defer func() {
		for _, s := range []*stream{from, foreign, empty, live} {
			s.close()
		}
	}()
	read := func(s *stream, n int) (out []string) {
		for range n {
			out = append(out, s.next()["params"].(obj)["id"].(string))
		}
		return out
	}
	want(t, "since", read(from, len(log)-3), log[3:])
	want(t, "foreign id", read(foreign, len(log)), log)
	want(t, "empty id", read(empty, len(log)), log)
	live.quiet()
	want(t, "no event for it", ids(a.log()), log)

	a.send("write f x\nsay three")
	news := ids(a.log())[len(log):]
	for _, s := range []*stream{from, foreign, empty, live} {
		want(t, "live", read(s, len(news)), news)
	}
	running := a.begin("session.sendMessage", msg("sleep 60000"))
	defer running.close()
	running.until("provider.request")
	want(t, "unsubscribe", a.result("session.unsubscribe", obj{}), obj{"unsubscribed": true})
	for _, s := range []*stream{from, foreign, empty, live} {
		rest := s.rest()
		want(t, "what came before the end", types(rest), "[client.message.send provider.request]")
	}
	running.quiet()
}

func TestASubscriptionThatBeginsInTheMiddleOfATurnMissesNothing(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	c := g.open(nil).register()
	script := strings.Repeat("read nothing\nsay x\n", 40)
	s := c.begin("session.sendMessage", msg(script))
	s.until("mcp.request")
	watch := c.begin("session.subscribe", obj{"since_event_id": ""})
	defer watch.close()
	s.rest()
	log := ids(c.log())
	var got []string
	for range log {
		got = append(got, watch.next()["params"].(obj)["id"].(string))
	}
	want(t, "events", got, log)
	if sorted := slices.Sorted(slices.Values(log)); !slices.Equal(sorted, log) || len(slices.Compact(sorted)) != len(log) {
		t.Error("event ids do not rise")
	}
}

func TestEveryPageAndCursorGivesTheSameLog(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	c := g.open(obj{"tools": tool("t")}).register()
	c.send("say a\nread x\ncall t {}")
	c.send("never mind")
	c.send("say b")
	get := func(query string) obj { return g.do("GET", c.path("/events"+query), c.key, nil).json(t) }
	whole := get("?limit=500")
	if whole["next_cursor"] != nil {
		t.Fatalf("a next page of %v", whole["next_cursor"])
	}
	all := whole["items"].([]any)
	for limit := 1; limit <= len(all); limit++ {
		var got []any
		for cursor, pages := "", 0; ; pages++ {
			p := get("?limit=" + string(mustJSON(limit)) + "&cursor=" + cursor)
			got = append(got, p["items"].([]any)...)
			if p["next_cursor"] == nil {
				break
			}
			cursor = p["next_cursor"].(string)
		}
		want(t, "pages", string(mustJSON(got)), string(mustJSON(all)))
	}
	full := get("?limit=" + string(mustJSON(len(all))))
	want(t, "a last page that is full", full["next_cursor"], nil)
	for _, q := range []string{"?limit=0", "?limit=-1", "?limit=x", "?cursor=42", "?cursor=zz", "?limit=-99999999999999999999",
		"?cursor=" + strings.TrimPrefix(ids(g.open(nil).log())[0], "evt_")} {
		r := g.do("GET", c.path("/events"+q), c.key, nil)
		want(t, q, []any{r.status, r.json(t)["type"]}, "[400 bad_request]")
	}
}

func TestTheLogIsTheSameAfterARestart(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	c := g.open(obj{"tools": tool("t")}).register()
	c.send("say a\nwrite f x")
	c.send([]obj{{"type": "text", "text": "call t {}"}})
	c.send("say b")
	c.result("session.reportLocalSandbox", obj{"state": "running", "image": "i"})
	before := string(mustJSON(c.log()))
	g.stop()
	again := start(t, options{store: g.store.Reopen(), home: g.home})
	c.g = again
	want(t, "log", string(mustJSON(c.log())), before)
	want(t, "keys", again.f.defaults, g.f.defaults)
	want(t, "drivers", again.do("GET", c.path("/participants"), c.key, nil).json(t)["drivers"], []any{})
	want(t, "not registered any more", c.code("session.sendMessage", msg("x")), codeDriver)
	want(t, "goes on", text(c.register().send("say c")["message"]), "c")
}

func TestDefaultKeysAreReplacedAndRevokedForGood(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	old := g.f.defaults
	g.stop()
	if err := RotateKeys(g.home); err != nil {
		t.Fatal(err)
	}
	g = start(t, options{store: g.store.Reopen(), home: g.home})
	want(t, "old key", g.do("POST", g.url+"/api/v1/sessions", old.Client, nil).status, 401)
	want(t, "old admin key", g.do("GET", g.admin+"/admin/v1/keys", old.Admin, nil).status, 401)
	want(t, "ids", []any{g.f.defaults.ClientID, g.f.defaults.AdminID}, []any{old.ClientID, old.AdminID})
	g.open(nil)
	want(t, "revoke", g.do("DELETE", g.admin+"/admin/v1/keys/"+old.ClientID, g.f.defaults.Admin, nil).status, 204)
	g.stop()
	g = start(t, options{store: g.store.Reopen(), home: g.home})
	want(t, "revoked key", g.do("POST", g.url+"/api/v1/sessions", g.f.defaults.Client, nil).status, 401)
	e, err := g.f.Bound(map[string]string{"": "127.0.0.1:1", "admin": "127.0.0.1:2"})
	want(t, "endpoint", e, endpoint{"http://127.0.0.1:1", "", "http://127.0.0.1:2", g.f.defaults.Admin})
	if err != nil {
		t.Fatal(err)
	}
}

func TestADeletedSessionIsGone(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	c := g.open(nil).register()
	watch := c.begin("session.subscribe", obj{})
	if err := g.host.DeleteSession(t.Context(), mustSession(t, c), snowpea); err != nil {
		t.Fatal(err)
	}
	watch.rest()
	eventually(t, "key gone", func() bool { return g.do("GET", c.path("/events"), c.key, nil).status == 401 })
	want(t, "join", g.do("POST", c.path("/join"), g.f.defaults.Client, nil).status, 404)
}

func TestAClosedSessionStillReplays(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	c := g.open(nil).register()
	c.send("say a")
	g.do("DELETE", c.path(""), c.key, nil)
	lines := c.call("session.subscribe", obj{"since_event_id": ""})
	want(t, "replay", ids(lines), ids(c.log()))
	// Another front may open it again: then it takes turns again.
	prompt(t, g.session(c), host.Prompt{Text: "say b", By: snowpea})
	eventually(t, "open again", func() bool {
		lines := c.call("session.registerDriver", obj{})
		return lines[0]["result"] != nil
	})
}

func TestASlowReaderLagsWithoutHoldingAnybodyUp(t *testing.T) {
	t.Parallel()
	g := start(t, options{ringEvents: 4})
	c := g.open(nil).register()
	r, err := g.f.room(t.Context(), mustSession(t, c))
	if err != nil {
		t.Fatal(err)
	}
	defer g.f.release(r)
	// A watcher and a sender whose peers take nothing for now.
	const room = 600 // bytes: less than two events
	watcher, sender := &feed{out: outbox.New(room)}, &feed{out: outbox.New(room)}
	rq := &request{room: r, ses: r.ses, key: clientKey{ID: c.id}, id: json.RawMessage("1"), hasID: true, params: mustJSON(msg(strings.Repeat("read x\n", 20)))}
	run, err := g.f.sendMessage(t.Context(), rq)
	if err != nil {
		t.Fatal(err)
	}
	var both sync.WaitGroup
	both.Go(func() { g.f.watch(t.Context(), rq, nil, watcher); watcher.out.Close(errWritten) })
	eventually(t, "watching", func() bool { r.mu.Lock(); defer r.mu.Unlock(); return len(r.ring.streams) == 1 })
	both.Go(func() { run(t.Context(), sender); sender.out.Close(errWritten) })
	hs := g.session(c)
	eventually(t, "the turn ends though nobody reads", func() bool { return hs.State().DefaultChat().Count == 1 })
	drain := func(d *feed) (lines []obj) {
		for {
			frames, err := d.out.Next(t.Context())
			if err != nil {
				return lines
			}
			for _, f := range frames {
				var m obj
				if err := json.Unmarshal(f, &m); err != nil {
					t.Error(err)
				}
				lines = append(lines, m)
			}
		}
	}
	lines := drain(watcher)
	want(t, "last line of the watcher", string(mustJSON(lines[len(lines)-1])), string(mustJSON(obj{"jsonrpc": "2.0", "error": obj{"code": codeState, "message": errLagged.Error()}})))
	lines = drain(sender)
	both.Wait()
	for _, f := range sender.done {
		f()
	}
	log := ids(c.log())[3:] // without the opening, the registration and its own message
	want(t, "the sender missed nothing", ids(lines), log)
	want(t, "result", len(lines[len(lines)-1]["result"].(obj)["events"].([]any)), len(log)+1)
}

func TestStoppingEndsStreamsAndGivesResults(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	c := g.open(nil).register()
	watch := c.begin("session.subscribe", obj{})
	s := c.begin("session.sendMessage", msg("say so far\nsleep 60000"))
	s.until("provider.request")
	g.stop()
	watch.rest()
	lines := s.rest()
	if last := lines[len(lines)-1]; last["result"] == nil && last["error"] == nil {
		t.Errorf("no terminal object: %v", last)
	}
}

func TestPeersThatStallInTheirReplayHoldNobodyElseUp(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	c := g.open(nil).register()
	c.send(strings.Repeat("read x\n", 20))
	r, err := g.f.room(t.Context(), mustSession(t, c))
	if err != nil {
		t.Fatal(err)
	}
	defer g.f.release(r)
	rq := &request{room: r, ses: r.ses}
	since := ""
	var stalled sync.WaitGroup
	ctx, leave := context.WithCancel(t.Context())
	defer stalled.Wait()
	defer leave()
	for range 2 * maxReplays {
		d := &feed{out: outbox.New(600)}
		stalled.Go(func() { g.f.watch(ctx, rq, &since, d) })
		eventually(t, "it stalls", func() bool { return d.out.Len() > 0 })
	}
	s := c.begin("session.subscribe", obj{"since_event_id": since})
	defer s.close()
	log := ids(c.log())
	var got []string
	for range log {
		got = append(got, s.next()["params"].(obj)["id"].(string))
	}
	want(t, "events", got, log)
}

func TestASlowReplayMissesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	c := g.open(obj{"tools": tool("t")}).register()
	c.send(strings.Repeat("read x\n", 5) + "say " + strings.Repeat("long ", 500) + "\ncall t {}")
	c.send("never mind")
	r, err := g.f.room(t.Context(), mustSession(t, c))
	if err != nil {
		t.Fatal(err)
	}
	defer g.f.release(r)
	d, since := &feed{out: outbox.New(600)}, ""
	var watching sync.WaitGroup
	ctx, leave := context.WithCancel(t.Context())
	defer watching.Wait()
	defer leave()
	watching.Go(func() { g.f.watch(ctx, &request{room: r, ses: r.ses}, &since, d) })
	log := ids(c.log())
	var lines []obj
	for len(lines) < len(log) {
		frames, err := d.out.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range frames {
			var m obj
			if err := json.Unmarshal(f, &m); err != nil {
				t.Fatal(err)
			}
			lines = append(lines, m["params"].(obj))
		}
	}
	want(t, "events", ids(lines), log)
}

func TestALargeObjectBehindSmallOnesDoesNotKeepTheProcessorBusy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &feed{out: outbox.New(600)}
		small, large := make(outbox.Frame, 10), make(outbox.Frame, 1000)
		pushed := make(chan error, 1)
		go func() { pushed <- errors.Join(d.push(t.Context(), small), d.push(t.Context(), large)) }()
		synctest.Wait() // comes back only when everything sleeps
		for want := range 2 {
			if frames, _ := d.out.Take(); len(frames) != 1 || len(frames[0]) != []int{10, 1000}[want] {
				t.Fatalf("frame %d: got %d frames", want, len(frames))
			}
			_, _ = d.out.Take() // it is written
			synctest.Wait()
		}
		if err := <-pushed; err != nil {
			t.Fatal(err)
		}
	})
}

func TestAPageOfLargeEventsEndsEarly(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	c := g.open(nil).register()
	for range 3 {
		c.send("stream 100 15000")
	}
	p := g.do("GET", c.path("/events?limit=200"), c.key, nil).json(t)
	all := ids(c.log())
	n := len(p["items"].([]any))
	if p["next_cursor"] == nil || n >= len(all) {
		t.Fatalf("%d of %d events on the first page, next %v", n, len(all), p["next_cursor"])
	}
	rest := g.do("GET", c.path("/events?limit=200&cursor="+p["next_cursor"].(string)), c.key, nil).json(t)["items"].([]any)
	want(t, "the next page", rest[0].(obj)["id"], all[n])
}
