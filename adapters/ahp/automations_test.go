package ahp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/core/automation"
)

func definition(text string, change ...func(object)) object {
	d := object{"title": "Test", "message": object{"text": text, "origin": object{"kind": "automation"}}, "session": object{}, "enabled": true, "triggers": []object{}}
	for _, c := range change {
		c(d)
	}
	return d
}

const one = "ahp-automation:/one"

// make creates an automation and returns its entry.
func (p *peer) make(uri string, d object) object {
	p.t.Helper()
	env := p.echo(p.dispatch(automationsURI, object{"type": "automation/createRequested", "resource": uri, "definition": d}))
	if env["rejectionReason"] != nil || env["action"].(object)["type"] != "automation/set" {
		p.t.Fatalf("the creation: %s", show(env))
	}
	return env["action"].(object)["automation"].(object)
}

// refused sends an action that must be refused, in such words.
func (p *peer) refused(uri string, action object, words string) {
	p.t.Helper()
	env := p.echo(p.dispatch(uri, action))
	why, _ := env["rejectionReason"].(string)
	if !strings.Contains(why, words) || why == "" {
		p.t.Errorf("%s: refused with %q, want %q", show(action), why, words)
	}
}

// over waits for a run to be over and returns its state.
func (p *peer) over(run string) object {
	p.t.Helper()
	return p.until(run, "the end of "+run, func(s object) bool {
		status := s["lifecycle"].(object)["status"]
		return status != "pending" && status != "running"
	})
}

func (p *peer) start(uri, request string) string {
	p.t.Helper()
	return p.call("runAutomation", object{"channel": automationsURI, "automation": uri, "requestId": request})["resource"].(string)
}

func TestARunIsFollowedToItsEnd(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	a, b := g.connect("a"), g.connect("b")
	a.subscribe(automationsURI)
	b.subscribe(automationsAlias)
	a.make(one, definition("sleep 200\nsay hello\nusage 5 6"))
	run := a.start(one, "r1")
	a.subscribe(run)
	st := a.over(run)
	l := st["lifecycle"].(object)
	if l["status"] != "completed" || l["usage"].(object)["outputTokens"] != 6.0 || len(st["sessions"].([]any)) != 1 {
		t.Fatalf("run %s", show(st))
	}
	session := st["primarySession"].(string)
	s := b.subscribe(session)["state"].(object)
	if want := (object{"kind": "automation", "automation": one, "run": run}); show(s["origin"]) != show(want) || s["title"] != "Test" {
		t.Errorf("session %s", show(s))
	}
	chat := b.subscribe(s["defaultChat"].(string))["state"].(object)
	if turn := chat["turns"].([]any)[0].(object); show(turn["message"].(object)["origin"]) != `{"kind":"automation"}` {
		t.Errorf("turn %s", show(turn))
	}
	a.agree(g, run, automationsURI)
	b.agree(g, automationsAlias)

	const long = "ahp-automation:/long"
	a.make(long, definition("sleep 600000"))
	failing := a.start(long, "r2")
	a.subscribe(failing)
	a.echo(a.dispatch(failing, object{"type": "automationRun/cancelRequested"}))
	if st := a.over(failing); st["lifecycle"].(object)["status"] != "cancelled" {
		t.Errorf("cancelled: %s", show(st))
	}
	a.refused(failing, object{"type": "automationRun/cancelRequested"}, "over")
	a.refused(failing, object{"type": "automationRun/lifecycleChanged"}, "only the host")
	a.refused(failing, object{"type": "automation/removed", "resource": one}, "does not take")

	a.call("disposeSession", object{"channel": session})
	a.until(run, "the session to be gone", func(s object) bool { return len(s["sessions"].([]any)) == 0 && s["primarySession"] == nil })
	a.agree(g, run, automationsURI)
	b.echo(b.dispatch(automationsAlias, object{"type": "automation/removed", "resource": one}))
	a.until(automationsURI, "the removal", func(s object) bool { return len(s["entries"].([]any)) == 1 })
	a.fails(codeNotFound, "subscribe", object{"channel": run})
	if env := b.echo(b.dispatch(automationsAlias, object{"type": "automation/removed", "resource": one})); env["rejectionReason"] != nil {
		t.Errorf("removed twice: %s", show(env))
	}
}

func TestARunThatFailsSaysWhy(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	a := g.connect("a")
	a.subscribe(automationsURI)
	a.make(one, definition("fail out of luck"))
	a.make("ahp-automation:/two", definition("say x", func(d object) { d["session"] = object{"workingDirectories": []string{"file:///nowhere/at/all"}} }))
	for uri, words := range map[string]string{one: "out of luck", "ahp-automation:/two": "/nowhere/at/all"} {
		run := a.start(uri, "r")
		a.subscribe(run)
		st := a.over(run)
		e, _ := st["lifecycle"].(object)["error"].(object)
		if e == nil || !strings.Contains(e["message"].(string), words) {
			t.Errorf("%s: %s", uri, show(st))
		}
	}
}

func TestPagesOfRunsGrowForEverybody(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	a, b := g.connect("a"), g.connect("b")
	a.subscribe(automationsURI)
	b.subscribe(automationsURI)
	// Runs that find no session are over soon.
	a.make(one, definition("say x", func(d object) { d["session"] = object{"workingDirectories": []string{"file:///nowhere/at/all"}} }))
	const all = runsShown + 5
	for i := range all {
		run := a.start(one, fmt.Sprint(i))
		a.subscribe(run)
		a.over(run)
	}
	entry := func(s object) object { return s["entries"].([]any)[0].(object) }
	s := b.until(automationsURI, "the last run", func(s object) bool {
		runs := entry(s)["runs"].([]any)
		return len(runs) == runsShown && runs[0].(object)["lifecycle"].(object)["status"] == "failed" && entry(s)["runsNextCursor"] != nil
	})
	ask := object{"channel": automationsURI, "automation": one, "cursor": entry(s)["runsNextCursor"]}
	if answer := a.call("fetchAutomationRuns", ask); len(answer) != 0 {
		t.Errorf("the answer is %v", answer)
	}
	b.until(automationsURI, "the other runs", func(s object) bool { return len(entry(s)["runs"].([]any)) == all && entry(s)["runsNextCursor"] == nil })
	a.call("fetchAutomationRuns", ask)
	a.agree(g, automationsURI)
	ask["cursor"] = "x"
	a.fails(-32602, "fetchAutomationRuns", ask)
	a.fails(codeSessionNotFound, "fetchAutomationRuns", object{"channel": automationsURI, "automation": "ahp-automation:/none"})
}

func TestAPatchLeavesTheRest(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	a := g.connect("a")
	a.subscribe(automationsURI)
	was := a.make(one, definition("say x", func(d object) {
		d["triggers"] = []object{{"id": "t", "kind": "schedule", "schedule": object{"expression": "0 4 1 1 *", "timeZone": "UTC"}}}
		d["disableConditions"] = []object{{"kind": "afterDate", "date": "2999-01-01T00:00:00Z"}}
		d["_meta"] = object{"vscode.x": 1}
		d["session"] = object{"provider": "demo", "model": object{"id": "demo-large"}, "config": object{"mode": "plan", "isolation": "folder"}}
	}))
	patch := func(changes object) object {
		return object{"type": "automation/updateRequested", "resource": one, "changes": changes}
	}
	env := a.echo(a.dispatch(automationsURI, patch(object{"title": "New", "message": object{"text": "say y", "origin": object{"kind": "user"}}})))
	now := env["action"].(object)["automation"].(object)
	want := was["definition"].(object)
	want["title"] = "New"
	want["message"] = object{"text": "say y", "origin": object{"kind": "automation"}}
	if show(now["definition"]) != show(want) || now["nextRunAt"] != was["nextRunAt"] {
		t.Errorf("is   %s\nwant %s", show(now["definition"]), show(want))
	}
	for changes, words := range map[string]string{
		`{"disableConditions":[{"kind":"afterRuns","max":1},{"kind":"afterRuns","max":2}]}`:                                        "twice",
		`{"disableConditions":[{"kind":"afterRuns","max":0}]}`:                                                                     "whole number",
		`{"disableConditions":[{"kind":"afterRuns","max":1.5}]}`:                                                                   "max",
		`{"disableConditions":[{"kind":"afterRuns"}]}`:                                                                             "whole number",
		`{"disableConditions":[{"kind":"afterDate","date":"tomorrow"}]}`:                                                           "no timestamp",
		`{"disableConditions":[{"kind":"afterDate"}]}`:                                                                             "no date",
		`{"disableConditions":[{"kind":"whenever"}]}`:                                                                              "no condition",
		`{"triggers":[{"id":"e","kind":"event","type":"x","title":"x","events":[]}]}`:                                              "events",
		`{"triggers":[{"id":"e","kind":"moon"}]}`:                                                                                  "moon",
		`{"triggers":[{"id":"e","kind":"schedule"}]}`:                                                                              "no schedule",
		`{"triggers":[{"id":"e","kind":"schedule","schedule":{"expression":"@daily","timeZone":"UTC"}}]}`:                          "expression",
		`{"triggers":[{"id":"e","kind":"schedule","schedule":{"expression":"0 0 * * *","timeZone":"Moon/Sea"}}]}`:                  "time zone",
		`{"triggers":[{"id":"e","kind":"schedule","misfirePolicy":"all","schedule":{"expression":"0 0 * * *","timeZone":"UTC"}}]}`: "misfire",
		`{"session":{"provider":"nobody"}}`:                                                                                        "no such agent",
		`{"session":{"agent":{"uri":"agent://x"}}}`:                                                                                "custom agent",
		`{"session":{"workingDirectories":["http://x"]}}`:                                                                          "file:",
		`{"session":{"customizations":[{"id":"a","uri":"file:///none/at/all","type":"plugin"}]}}`:                                  "not found",
		`{"session":{"customizations":[{"uri":"x:/y"}]}}`:                                                                          "no id",
		`{"session":{"customizations":[{"id":"a"}]}}`:                                                                              "no URI",
		`{"session":{"customizations":[{"id":"a","uri":"x"},{"id":"a","uri":"x"}]}}`:                                               "have the id",
		`{"title":" "}`:   "title",
		`{"enabled":"x"}`: "enabled",
		`{"message":{"text":"x","origin":{"kind":"automation"},"attachments":[{"type":"moon"}]}}`: "moon",
	} {
		a.refused(automationsURI, patch(jsonOf(t, changes)), words)
	}
	a.refused(automationsURI, object{"type": "automation/updateRequested", "resource": "ahp-automation:/none", "changes": object{}}, "no such automation")
	a.refused(automationsURI, object{"type": "automation/createRequested", "resource": one, "definition": definition("x")}, "taken")
	a.refused(automationsURI, object{"type": "automation/createRequested", "resource": "file:///x", "definition": definition("x")}, "ahp-automation:/")
	a.refused(automationsURI, object{"type": "automation/createRequested", "resource": one}, "definition")
	same := a.echo(a.dispatch(automationsURI, patch(object{"title": "New", "session": object{"provider": "demo", "model": object{"id": "demo-large"},
		"config": object{"isolation": "folder", "mode": "plan"}, "customizations": []any{}}})))
	if same["rejectionReason"] != nil || same["action"].(object)["type"] != "automation/updateRequested" {
		t.Errorf("no change: %s", show(same))
	}
	a.agree(g, automationsURI)
}

func jsonOf(t *testing.T, s string) object {
	t.Helper()
	var o object
	if err := json.Unmarshal([]byte(s), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestAutomationsOutliveTheGateway(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	a := g.connect("a")
	a.subscribe(automationsURI)
	a.make(one, definition("sleep 600000"))
	run := a.start(one, "r")
	a.subscribe(run)
	a.until(run, "the session", func(s object) bool { return s["primarySession"] != nil })
	g.stop()
	g.start()
	b := g.connect("b")
	st := b.subscribe(run)["state"].(object)
	if e, _ := st["lifecycle"].(object)["error"].(object); e == nil || e["errorType"] != automation.CodeInterrupted || st["primarySession"] == nil {
		t.Errorf("run %s", show(st))
	}
	if again := b.start(one, "r"); again != run {
		t.Errorf("the same request ran again: %s", again)
	}
}

// FuzzDefinition reads anything as a definition: what is taken is shown in the
// protocol's shape, and read again as the same.
func FuzzDefinition(f *testing.F) {
	for _, s := range []string{
		`{"title":"x","message":{"text":"x","origin":{"kind":"automation"}},"session":{},"enabled":true,"triggers":[]}`,
		`{"title":"x","message":{"text":"!ls","origin":{"kind":"user"},"model":{"id":"m"}},"session":{"provider":"demo","model":{"id":"m","config":{"thinkingLevel":"high"}},"workingDirectories":["file:///x"],"config":{"mode":"plan"}},"enabled":true,"triggers":[{"id":"t","kind":"schedule","schedule":{"expression":"* * * * *","timeZone":"UTC"},"misfirePolicy":"skip"}],"disableConditions":[{"kind":"afterRuns","max":2},{"kind":"afterDate","date":"2030-01-01T00:00:00Z"}],"_meta":{"a":1}}`,
		`{"title":"x","message":null,"session":null,"enabled":1,"triggers":{}}`,
	} {
		f.Add([]byte(s))
	}
	g := newGateway(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) {
			return
		}
		d, err := g.front.readDefinition(data, true)
		if err != nil {
			return
		}
		d.By.Front = front
		shown := encode(definitionShape(&d))
		again, err := g.front.readDefinition(shown, true)
		if err != nil {
			t.Fatalf("%s: %v", shown, err)
		}
		again.By = d.By
		if back := encode(definitionShape(&again)); string(back) != string(shown) {
			t.Errorf("shown as %s, then as %s", shown, back)
		}
	})
}
