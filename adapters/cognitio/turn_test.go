package cognitio

import (
	"strings"
	"testing"
)

func TestAnswerStreamsAndEndsWithAResultBeforeIdle(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	events := g.listen("/event")
	ses := g.session(map[string]any{"title": "Greeting"})
	if e := last(events.until("session.created")); e.str("info", "id") != ses || e.str("info", "title") != "Greeting" {
		t.Fatalf("%v", e.raw)
	}
	g.must("POST", "/session/"+ses+"/prompt_async", map[string]any{"messageID": "msg_0123456789ab0000000000zzzz", "parts": []any{map[string]any{"type": "text", "text": "say one two three", "id": "prt_mine"}}})
	turn := events.idle(ses)
	want := "message.updated message.part.updated session.updated session.status message.updated message.part.updated " +
		"message.part.updated message.part.delta message.part.updated message.part.updated message.updated session.updated session.result session.status session.idle"
	if got := types(turn); got != want {
		t.Errorf("events:\n%s\nwant\n%s", got, want)
	}
	if user := turn[0]; user.str("info", "id") != "msg_0123456789ab0000000000zzzz" || user.str("info", "role") != "user" {
		t.Errorf("user message: %v", user.raw)
	}
	if part := turn[1]; part.str("part", "id") != "prt_mine" || part.str("part", "text") != "say one two three" {
		t.Errorf("user part: %v", part.raw)
	}
	var text strings.Builder
	for _, e := range turn {
		switch e.Type {
		case "message.part.delta":
			text.WriteString(e.str("delta"))
		case "session.result":
			if e.str("parentMessageID") != "msg_0123456789ab0000000000zzzz" || e.str("subtype") != "success" || e.str("finalText") != "one two three" {
				t.Errorf("result: %v", e.raw)
			}
		}
	}
	if text.String() != "one two three" {
		t.Errorf("deltas make %q", text.String())
	}
}

func TestHistoryIsWhatTheStreamShowed(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	events := g.listen("/event")
	ses := g.session(map[string]any{"permission": []any{map[string]any{"permission": "bash", "pattern": "*", "action": "allow"}}})
	g.prompt(ses, "think hm\nsay first\nrun echo hi\nsay then\nplan a; b\nusage 10 5\nsay last")
	infos, parts := map[string]any{}, map[string]any{}
	var order []string
	for _, e := range events.idle(ses) {
		switch e.Type {
		case "message.updated":
			id := e.str("info", "id")
			if infos[id] == nil {
				order = append(order, id)
			}
			infos[id] = e.Properties["info"]
		case "message.part.updated":
			parts[e.str("part", "id")] = e.Properties["part"]
		}
	}
	list := g.must("GET", "/session/"+ses+"/message", nil).([]any)
	if len(list) != len(order) {
		t.Errorf("%d messages in the history, %d on the stream", len(list), len(order))
	}
	shown := 0
	for n, m := range list {
		m := m.(map[string]any)
		info := m["info"].(map[string]any)
		if info["id"] != order[n] {
			t.Errorf("message %d is %v, on the stream %v", n, info["id"], order[n])
		}
		same(t, infos[order[n]], m["info"])
		for _, p := range m["parts"].([]any) {
			shown++
			same(t, parts[p.(map[string]any)["id"].(string)], p)
		}
		one := g.must("GET", "/session/"+ses+"/message/"+order[n], nil)
		same(t, m, one)
	}
	if shown != len(parts) {
		t.Errorf("%d parts in the history, %d on the stream", shown, len(parts))
	}
}

func TestAskedPermissionIsRepliedOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ reply, status string }{{"once", "completed"}, {"always", "completed"}, {"reject", "error"}} {
		t.Run(c.reply, func(t *testing.T) {
			t.Parallel()
			g := newGateway(t)
			events := g.listen("/event")
			ses := g.session()
			g.prompt(ses, "run echo hi")
			asked := last(events.until("permission.asked"))
			if asked.str("permission") != "bash" || asked.str("metadata", "command") != "echo hi" {
				t.Errorf("%v", asked.raw)
			}
			per := asked.str("id")
			list := g.must("GET", "/permission", nil).([]any)
			if len(list) != 1 {
				t.Fatalf("pending: %v", list)
			}
			same(t, asked.Properties, list[0])
			if st := g.must("GET", "/session/status", nil).(map[string]any)[ses]; st == nil {
				t.Error("a session that waits for a permission is not busy")
			}
			if got := g.must("POST", "/permission/"+per+"/reply", map[string]any{"reply": c.reply}); got != true {
				t.Errorf("answer: %v", got)
			}
			turn := events.idle(ses)
			replies, state := 0, ""
			for _, e := range turn {
				if e.Type == "permission.replied" {
					replies++
					if e.str("requestID") != per || e.str("reply") != c.reply {
						t.Errorf("%v", e.raw)
					}
				}
				if e.str("part", "type") == "tool" {
					state = e.str("part", "state", "status")
				}
			}
			if replies != 1 || state != c.status {
				t.Errorf("%d replies, call ended as %q", replies, state)
			}
			status, again := g.do("POST", "/permission/"+per+"/reply", map[string]any{"reply": "once"})
			if status != 404 {
				t.Errorf("a second answer: %d %v", status, again)
			}
			if c.reply == "always" {
				g.prompt(ses, "run echo again")
				if got := types(events.idle(ses)); strings.Contains(got, "permission.asked") {
					t.Errorf("asked again: %s", got)
				}
			}
		})
	}
}

func TestQuestionIsAnsweredAndRejected(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	events := g.listen("/event")
	ses := g.session()
	g.prompt(ses, "ask Which colour? | Red | Blue")
	asked := last(events.until("question.asked"))
	list := g.must("GET", "/question", nil).([]any)
	if len(list) != 1 {
		t.Fatalf("pending: %v", list)
	}
	same(t, asked.Properties, list[0])
	if status, a := g.do("POST", "/question/"+asked.str("id")+"/reply", map[string]any{"answers": []any{}}); status != 400 {
		t.Errorf("too few answers: %d %v", status, a)
	}
	g.must("POST", "/question/"+asked.str("id")+"/reply", map[string]any{"answers": [][]string{{"Blue"}}})
	replied := last(events.until("question.replied"))
	if a := replied.Properties["answers"].([]any)[0].([]any); len(a) != 1 || a[0] != "Blue" {
		t.Errorf("%v", replied.raw)
	}
	events.idle(ses)
	g.prompt(ses, "ask Again? | Yes | No")
	asked = last(events.until("question.asked"))
	g.must("POST", "/question/"+asked.str("id")+"/reject", nil)
	if e := last(events.until("question.rejected")); e.str("requestID") != asked.str("id") {
		t.Errorf("%v", e.raw)
	}
	events.idle(ses)
}
