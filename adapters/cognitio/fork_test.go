package cognitio

import "testing"

func TestAForkIsASessionOfItsOwnWithTheHistory(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	ses := g.session(map[string]any{"title": "Plans", "permission": []any{map[string]any{"permission": "bash", "pattern": "rm *", "action": "deny"}}})
	events := g.listen("/global/event")
	g.must("POST", "/session/"+ses+"/message", say("say one"))
	g.must("POST", "/session/"+ses+"/message", say("say two"))
	list := g.must("GET", "/session/"+ses+"/message", nil).([]any)
	newest := list[len(list)-1].(map[string]any)["info"].(map[string]any)["id"].(string)
	oldest := list[0].(map[string]any)["info"].(map[string]any)["id"].(string)

	fork := g.must("POST", "/session/"+ses+"/fork", nil).(map[string]any)
	made := fork["id"].(string)
	if made == ses || fork["forkedFrom"] != ses || fork["parentID"] != nil || fork["title"] != "Plans (fork #1)" || fork["permission"] == nil {
		t.Errorf("the fork is %v", fork)
	}
	if e := last(events.until("session.created")); e.str("info", "id") != made || e.str("info", "forkedFrom") != ses {
		t.Errorf("%v", e.raw)
	}
	copied := g.must("GET", "/session/"+made+"/message", nil).([]any)
	if len(copied) != len(list) {
		t.Fatalf("%d messages of %d", len(copied), len(list))
	}
	for i := range list {
		was, is := list[i].(map[string]any)["info"].(map[string]any), copied[i].(map[string]any)["info"].(map[string]any)
		if was["role"] != is["role"] || was["id"] == is["id"] || is["sessionID"] != made {
			t.Errorf("message %d was %v and is %v", i, was, is)
		}
	}
	g.must("POST", "/session/"+made+"/message", say("say three"))
	if after := g.must("GET", "/session/"+ses+"/message", nil).([]any); len(after) != len(list) {
		t.Errorf("the first session has %d messages, had %d", len(after), len(list))
	}

	second := g.must("POST", "/session/"+made+"/fork", map[string]any{}).(map[string]any)
	if second["title"] != "Plans (fork #2)" || second["forkedFrom"] != made {
		t.Errorf("the fork of the fork is %v", second)
	}
	g.must("POST", "/session/"+ses+"/fork", map[string]any{"messageID": newest})
	for _, c := range []struct {
		what, session string
		body          any
		status        int
	}{
		{"at an older message", ses, map[string]any{"messageID": oldest}, 501},
		{"at an unknown message", ses, map[string]any{"messageID": "msg_nowhere"}, 404},
		{"with a number for a message", ses, map[string]any{"messageID": 7}, 400},
		{"before the first turn", g.session(), nil, 400},
		{"of no session", "ses_nowhere", nil, 404},
	} {
		if status, answer := g.do("POST", "/session/"+c.session+"/fork", c.body); status != c.status {
			t.Errorf("%s: %d %v", c.what, status, answer)
		}
	}
	g.prompt(ses, "sleep 60000")
	events.until("session.status")
	if status, answer := g.do("POST", "/session/"+ses+"/fork", nil); status != 409 {
		t.Errorf("in a turn: %d %v", status, answer)
	}
}
