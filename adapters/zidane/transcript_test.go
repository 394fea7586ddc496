package zidane

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// events loads a whole transcript.
func (c *client) events(session string) []map[string]any {
	c.t.Helper()
	r := c.call("sessions.loadEvents", fmt.Sprintf(`{"sessionId":%q}`, session))
	if r.Error != nil {
		c.t.Fatal(r.Error.Message)
	}
	var out []map[string]any
	if err := json.Unmarshal(r.Result, &out); err != nil {
		c.t.Fatalf("not an array: %s", r.Result)
	}
	return out
}

func TestTranscriptAsArrayAndInPages(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.connect()
	session := c.newSession()
	c.ok("runtime.set", fmt.Sprintf(`{"sessionId":%q,"mode":"auto"}`, session))
	for i := range 5 {
		prompt := fmt.Sprintf("say turn %d", i)
		if i == 2 {
			prompt = "think hm\nrun echo x\nsay turn 2\nusage 3 4"
		}
		c.send(session, prompt)
	}
	all := c.events(session)
	var kinds []string
	for _, e := range all {
		kinds = append(kinds, e["kind"].(string))
	}
	plain := []string{"user-prompt", "markdown", "run-summary"}
	want := slices.Concat(plain, plain, []string{"user-prompt", "thinking", "tool-call", "tool-result", "markdown", "run-summary"}, plain, plain)
	if !slices.Equal(kinds, want) {
		t.Fatalf("kinds %v", kinds)
	}
	answer, summary := all[1], all[2]
	if answer["text"] != "turn 0" || answer["streaming"] != false || answer["turnId"] != summary["turnId"] || all[0]["turnId"] == answer["turnId"] {
		t.Errorf("first turn %v", all[:3])
	}
	used := all[11]["runSummary"].(map[string]any)
	if used["tokensIn"] != 3.0 || used["tokensOut"] != 4.0 || !strings.Contains(all[11]["text"].(string), "↑3 ↓4") {
		t.Errorf("summary %v", all[11])
	}
	for _, limit := range []int{1, 2, 3, 5, 5000} {
		var joined []any
		params := fmt.Sprintf(`{"sessionId":%q,"limit":%d}`, session, limit)
		for pages := 0; ; pages++ {
			page := c.ok("sessions.loadEvents", params)
			events := page["events"].([]any)
			joined = append(slices.Clone(events), joined...)
			if start := int(page["start"].(float64)); start != len(all)-len(joined) || page["exact"] != true {
				t.Errorf("limit %d, page %d starts at %d, want %d", limit, pages, start, len(all)-len(joined))
			}
			cursor, more := page["cursor"]
			if !more {
				break
			}
			params = fmt.Sprintf(`{"sessionId":%q,"limit":%d,"before":%v}`, session, limit, cursor)
		}
		if fmt.Sprint(joined) != fmt.Sprint(toAny(all)) {
			t.Errorf("pages of %d together are\n%v\nnot\n%v", limit, joined, all)
		}
	}
	if page := c.ok("sessions.loadEvents", fmt.Sprintf(`{"sessionId":%q,"before":99}`, session)); len(page["events"].([]any)) != len(all) {
		t.Errorf("before beyond the end: %v", page)
	}

	turns := c.ok("sessions.getTurns", fmt.Sprintf(`{"sessionId":%q,"limit":3}`, session))
	if len(turns["turns"].([]any)) != 3 || turns["next"] != 3.0 {
		t.Errorf("turns %v", turns)
	}
	turns = c.ok("sessions.getTurns", fmt.Sprintf(`{"sessionId":%q,"limit":3,"from":3}`, session))
	if len(turns["turns"].([]any)) != 2 || turns["next"] != nil {
		t.Errorf("turns %v", turns)
	}
}

func toAny(events []map[string]any) (out []any) {
	for _, e := range events {
		out = append(out, e)
	}
	return out
}

func TestRunningTurnIsInTheTranscript(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.connect()
	session := c.newSession()
	if got := c.events(session); len(got) != 0 {
		t.Errorf("of a new session: %v", got)
	}
	c.ok("chat.send", fmt.Sprintf(`{"sessionId":%q,"prompt":"say one two\nsleep 60000"}`, session))
	c.next("the text", func(s signal) bool { return s.kind() == "event" && strings.Contains(fmt.Sprint(s["event"]), "two") })
	got := c.events(session)
	if len(got) != 2 || got[0]["kind"] != "user-prompt" || got[1]["text"] != "one two" {
		t.Errorf("transcript %v", got)
	}
	page := c.ok("sessions.loadEvents", fmt.Sprintf(`{"sessionId":%q,"limit":1}`, session))
	seq := int(page["seq"].(float64))
	c.ok("chat.stop", fmt.Sprintf(`{"sessionId":%q}`, session))
	if first := c.next("what follows the page", func(s signal) bool { return s.session() == session && s.seq() > seq }); first.seq() != seq+1 {
		t.Errorf("after the page comes %d, want %d", first.seq(), seq+1)
	}
}

func TestTranscriptTooLargeForOneAnswerComesInPages(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	session := g.loudTurns(4)
	c := g.connect()
	if m := c.fails(codeResponseTooLarge, "sessions.loadEvents", fmt.Sprintf(`{"sessionId":%q}`, session)); !strings.Contains(m, "Ask for less") {
		t.Errorf("%q", m)
	}
	c.fails(codeResponseTooLarge, "sessions.getTurns", fmt.Sprintf(`{"sessionId":%q}`, session))
	if r := c.call("sessions.loadEvents", fmt.Sprintf(`{"sessionId":%q,"limit":1}`, session)); r.Error != nil || !strings.Contains(string(r.Result[len(r.Result)-200:]), `"cursor":3`) {
		t.Errorf("a smaller page: %+v", r.Error)
	}
}
