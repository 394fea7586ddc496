package ahp

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// exported waits for telemetry of a channel that is so, and returns it with the
// position after it.
func (p *peer) exported(from int, uri, what string, ok func(payload object) bool) (object, int) {
	p.t.Helper()
	f, at := p.wait(from, what, func(f object) bool {
		params, _ := f["params"].(object)
		if params["channel"] != uri || !strings.HasPrefix(f["method"].(string), "otlp/export") {
			return false
		}
		return ok(params["payload"].(object))
	})
	return f["params"].(object)["payload"].(object), at
}

// each calls f for the innermost objects of an export.
func each(payload object, outer, inner, list string, f func(object)) {
	groups, _ := payload[outer].([]any)
	for _, r := range groups {
		for _, s := range r.(object)[inner].([]any) {
			for _, x := range s.(object)[list].([]any) {
				f(x.(object))
			}
		}
	}
}

// bodies are the texts of the records of an export.
func bodies(payload object) string {
	var b strings.Builder
	each(payload, "resourceLogs", "scopeLogs", "logRecords", func(r object) {
		b.WriteString(r["body"].(object)["stringValue"].(string) + "\n")
	})
	return b.String()
}

func attributesIn(o object) object {
	attrs := object{}
	list, _ := o["attributes"].([]any)
	for _, v := range list {
		kv := v.(object)
		for _, value := range kv["value"].(object) {
			attrs[kv["key"].(string)] = value
		}
	}
	return attrs
}

func listens(t *testing.T, p *peer, uri string) {
	t.Helper()
	if r := p.call("subscribe", object{"channel": uri}); len(r) != 0 {
		t.Fatalf("a channel without state answers %v", r)
	}
	p.call("listSessions", object{"channel": rootURI}) // is handled when the subscription is made
}

func TestTheLogIsToldFromALevelOn(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	all, bad := g.connect("all"), g.connect("bad")
	listens(t, all, "ahp-otlp://logs/info")
	listens(t, bad, "ahp-otlp://logs/error")
	g.connect("third")
	payload, at := all.exported(0, "ahp-otlp://logs/info", "a line of the log", func(payload object) bool {
		return strings.Contains(bodies(payload), "A client connected")
	})
	each(payload, "resourceLogs", "scopeLogs", "logRecords", func(r object) {
		if r["severityNumber"] != 9.0 || r["severityText"] != "INFO" || attributesIn(r)["client"] != "third" {
			t.Errorf("the record is %v", r)
		}
	})
	g.front.log.Error("Something broke", "err", "the reason", "n", 3)
	broke := func(payload object) bool { return strings.Contains(bodies(payload), "Something broke") }
	all.exported(at, "ahp-otlp://logs/info", "the error", broke)
	payload, _ = bad.exported(0, "ahp-otlp://logs/error", "the error", func(object) bool { return true })
	if !broke(payload) {
		t.Errorf("one who asked for errors was told %v", payload)
	}
	each(payload, "resourceLogs", "scopeLogs", "logRecords", func(r object) {
		if a := attributesIn(r); r["severityNumber"] != 17.0 || a["err"] != "the reason" || a["n"] != "3" {
			t.Errorf("the record is %v", r)
		}
	})
}

func TestATurnAndItsCallsAreOneTrace(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := g.connect("one")
	listens(t, p, otlpTraces)
	chat := p.session(g, "demo:/traced")
	p.dispatch("demo:/traced", object{"type": "session/configChanged", "config": object{"mode": "autopilot"}})
	p.dispatch(chat, started("t1", "usage 10 20\nrun echo 4711-secret\nsay 4711-secret"))
	call, at := p.exported(0, otlpTraces, "the span of the call", func(object) bool { return true })
	turn, _ := p.exported(at, otlpTraces, "the span of the turn", func(object) bool { return true })
	var inner, outer object
	each(call, "resourceSpans", "scopeSpans", "spans", func(s object) { inner = s })
	each(turn, "resourceSpans", "scopeSpans", "spans", func(s object) { outer = s })
	if outer["kind"] != 2.0 || outer["name"] != "turn" || inner["kind"] != 3.0 || !strings.HasPrefix(inner["name"].(string), "tool ") {
		t.Errorf("the turn is %v\nthe call is %v", outer, inner)
	}
	if inner["traceId"] != outer["traceId"] || inner["parentSpanId"] != outer["spanId"] || outer["parentSpanId"] != nil ||
		len(outer["traceId"].(string)) != 32 || len(outer["spanId"].(string)) != 16 {
		t.Errorf("the turn is %v\nthe call is %v", outer, inner)
	}
	if a := attributesIn(outer); a["polyhost.turn.status"] != "complete" || a["polyhost.agent"] != "demo" || a["gen_ai.usage.output_tokens"] != "20" {
		t.Errorf("the turn is %v", outer)
	}
	if outer["startTimeUnixNano"].(string) > inner["startTimeUnixNano"].(string) || outer["endTimeUnixNano"].(string) < inner["endTimeUnixNano"].(string) {
		t.Errorf("the call is not within its turn: %v\n%v", outer, inner)
	}
	if text := show(call) + show(turn); strings.Contains(text, "4711") {
		t.Errorf("what was said is in the spans: %s", text)
	}
}

func TestTotalsAreOfAllThatRan(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := g.connect("one")
	chat := p.session(g, "demo:/counted")
	p.dispatch(chat, started("t1", "usage 10 20\nsay hello"))
	p.idle(chat, "t1")
	late := g.connect("late")
	listens(t, late, otlpMetrics)
	payload, _ := late.exported(0, otlpMetrics, "the totals", func(object) bool { return true })
	got := map[string]any{}
	each(payload, "resourceMetrics", "scopeMetrics", "metrics", func(m object) {
		sum := m["sum"].(object)
		if sum["aggregationTemporality"] != 2.0 || sum["isMonotonic"] != true {
			t.Errorf("%v is not a cumulative sum", m)
		}
		for _, v := range sum["dataPoints"].([]any) {
			d := v.(object)
			if d["startTimeUnixNano"].(string) >= d["timeUnixNano"].(string) {
				t.Errorf("the times of %v", d)
			}
			a := attributesIn(d)
			for _, by := range []string{"status", "direction"} {
				if a[by] != nil {
					got[m["name"].(string)+" "+a[by].(string)] = d["asInt"]
				}
			}
		}
	})
	for name, want := range map[string]string{"polyhost.turns complete": "1", "polyhost.turns failed": "0", "polyhost.tokens input": "10",
		"polyhost.tokens output": "20"} {
		if got[name] != want {
			t.Errorf("%s is %v, want %s", name, got[name], want)
		}
	}
}

func TestTelemetryHasNoStateAndIsNotRepeated(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := g.dial("one")
	res := p.call("initialize", object{"channel": rootURI, "protocolVersions": []string{"0.9.0"}, "clientId": "one",
		"initialSubscriptions": []string{"ahp-otlp://logs/warn", rootURI}})
	if n := len(res["snapshots"].([]any)); n != 1 {
		t.Errorf("%d snapshots", n)
	}
	offered, _ := json.Marshal(res["telemetry"])
	if string(offered) != `{"logs":"ahp-otlp://logs/{level}","metrics":"ahp-otlp://metrics","traces":"ahp-otlp://traces"}` {
		t.Errorf("it offers %s", offered)
	}
	g.front.log.Warn("Once")
	p.exported(0, "ahp-otlp://logs/warn", "a line of the log", func(payload object) bool { return bodies(payload) == "Once\n" })
	for _, uri := range []string{"ahp-otlp://logs/{level}", "ahp-otlp://logs/loud", "ahp-otlp://logs/", "ahp-otlp://traces/x", "ahp-otlp:"} {
		p.fails(-32008, "subscribe", object{"channel": uri})
	}
	if env := p.echo(p.dispatch(otlpTraces, object{"type": "root/configChanged", "config": object{}})); env["rejectionReason"] == nil {
		t.Errorf("an action on telemetry is answered by %v", env)
	}
	seen, _ := p.hangUp()
	back := g.dial("one")
	res = back.call("reconnect", object{"channel": rootURI, "clientId": "one", "lastSeenServerSeq": seen,
		"subscriptions": []string{"ahp-otlp://logs/warn"}})
	if res["type"] != "replay" || len(res["actions"].([]any)) != 0 || len(res["missing"].([]any)) != 0 {
		t.Errorf("reconnect is answered by %v", res)
	}
	g.front.log.Warn("Twice")
	payload, _ := back.exported(0, "ahp-otlp://logs/warn", "a line of the log", func(object) bool { return true })
	if got := bodies(payload); got != "Twice\n" {
		t.Errorf("after the reconnect it was told %q", got)
	}
}

// Telemetry is not worth a connection, and takes no room from what is replayed.
func TestAClientThatReadsNothingMissesTelemetryAndStays(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	deaf := g.deaf("deaf", "ahp-otlp://logs/info")
	defer deaf.Close()
	ch := g.front.telemetry.channels["ahp-otlp://logs/info"]
	payload, err := json.Marshal(object{"resourceLogs": string(bytes.Repeat([]byte("x"), 1<<20))})
	if err != nil {
		t.Fatal(err)
	}
	// Encoded once: a client that takes nothing for long is cut for that.
	export := notification("otlp/exportLogs", object{"channel": ch.uri, "payload": json.RawMessage(payload)})
	_, before := g.front.journal.now()
	for range 40 {
		g.front.journal.tell(ch, export)
	}
	if _, after := g.front.journal.now(); after != before {
		t.Error("telemetry is kept for replay")
	}
	g.front.mu.Lock()
	defer g.front.mu.Unlock()
	if len(g.front.conns) != 1 {
		t.Error("the client was cut")
	}
	for c := range g.front.conns {
		if n := c.ws.Outbox().Len(); n > c.ws.Outbox().Limit() {
			t.Errorf("%d bytes wait for the client", n)
		}
	}
}

func TestTelemetryStopsWhenNobodyHearsIt(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := g.connect("one")
	tel := g.front.telemetry
	running := func() int { tel.mu.Lock(); defer tel.mu.Unlock(); return len(tel.running) }
	if running() != 0 {
		t.Fatal("telemetry is made before anybody asked")
	}
	for _, uri := range []string{otlpTraces, otlpMetrics, "ahp-otlp://logs/info"} {
		listens(t, p, uri)
	}
	past := func() {
		tel.mu.Lock()
		for _, s := range tel.running {
			s.asked = s.asked.Add(-telemetryUnwatched)
		}
		tel.mu.Unlock()
		for _, m := range []string{"otlp/exportTraces", "otlp/exportMetrics", "otlp/exportLogs"} {
			tel.unwatched(m)
		}
	}
	if past(); running() != 3 {
		t.Fatalf("%d signals are made for one who hears all", running())
	}
	for _, uri := range []string{otlpTraces, otlpMetrics, "ahp-otlp://logs/info"} {
		p.send(object{"jsonrpc": "2.0", "method": "unsubscribe", "params": object{"channel": uri}})
	}
	p.call("listSessions", object{"channel": rootURI}) // is handled after them
	if past(); running() != 0 {
		t.Fatalf("%d signals are made for nobody", running())
	}
	listens(t, p, otlpMetrics)
	p.exported(0, otlpMetrics, "the totals again", func(object) bool { return true })
}
