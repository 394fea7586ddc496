package ahp

import (
	"context"
	"testing"

	"github.com/polyhost/polyhost/backends/demo"
	"github.com/polyhost/polyhost/core/agent"
)

// thinking is the demo agent with a model that has levels of effort.
type thinking struct{ *demo.Backend }

func (b thinking) Info(ctx context.Context) (agent.Info, error) {
	info, err := b.Backend.Info(ctx)
	info.Efforts = []string{"low", "high"}
	info.Models[1].Efforts = info.Efforts
	return info, err
}

func TestAModelsOwnLevelOfEffortCountsForTheTurnsAfterToo(t *testing.T) {
	t.Parallel()
	g := newGateway(t, withAgent(t, thinking{demo.New()}))
	a := g.connect("a")
	root := a.until(rootURI, "the models", func(s object) bool { return len(s["agents"].([]any)) > 0 })
	models := root["agents"].([]any)[0].(object)["models"].([]any)
	if models[0].(object)["configSchema"] != nil {
		t.Errorf("a model without levels: %s", show(models[0]))
	}
	if got := show(models[1].(object)["configSchema"]); got != `{"properties":{"thinkingLevel":{"enum":["low","high"],"title":"Thinking","type":"string"}},"type":"object"}` {
		t.Errorf("a model with levels: %s", got)
	}
	const uri = "demo:/effort"
	chat := a.session(g, uri)
	config := a.state(uri)["config"].(object)
	if config["schema"].(object)["properties"].(object)["effortLevel"] != nil {
		t.Errorf("two controls for one thing: %s", show(config))
	}
	with := func(turn, model, level string) object {
		m := started(turn, "say x")
		m["message"].(object)["model"] = object{"id": model, "config": object{"thinkingLevel": level}}
		return m
	}
	a.dispatch(chat, with("t1", "demo-large", "high"))
	a.until(uri, "the effort of the session", func(s object) bool { return s["config"].(object)["values"].(object)["effortLevel"] == "high" })
	a.idle(chat, "t1")
	// A level that the model has not got changes nothing.
	a.dispatch(chat, with("t2", "demo-small", "low"))
	a.idle(chat, "t2")
	if env := a.echo(a.dispatch(uri, object{"type": "session/configChanged", "replace": true, "config": object{"mode": "plan"}})); env["rejectionReason"] != nil {
		t.Errorf("a whole configuration: %s", show(env))
	}
	if v := a.state(uri)["config"].(object)["values"].(object); v["effortLevel"] != "high" || v["mode"] != "plan" {
		t.Errorf("the configuration: %s", show(v))
	}
	a.agree(g, uri, chat)
}

// A level that waits with its message counts from when the message is taken up.
func TestALevelOfEffortWaitsWithItsMessage(t *testing.T) {
	t.Parallel()
	g := newGateway(t, withAgent(t, thinking{demo.New()}))
	a := g.connect("a")
	const uri = "demo:/waits"
	chat := a.session(g, uri)
	message := func(text, level string) object {
		return object{"text": text, "origin": object{"kind": "user"}, "model": object{"id": "demo-large", "config": object{"thinkingLevel": level}}}
	}
	effort := func(want any) {
		t.Helper()
		a.until(uri, "the effort of the session", func(s object) bool { return s["config"].(object)["values"].(object)["effortLevel"] == want })
	}
	a.dispatch(chat, started("t1", "ask go on? | yes\nsay done"))
	a.until(chat, "the question", func(s object) bool { return s["status"].(float64) == 24 })
	a.echo(a.dispatch(chat, object{"type": "chat/pendingMessageSet", "kind": "queued", "id": "q", "message": message("say queued", "low")}))
	effort(nil)
	a.echo(a.dispatch(chat, object{"type": "chat/pendingMessageSet", "kind": "steering", "id": "s", "message": message("say steered", "high")}))
	effort("high")
	a.dispatch(chat, object{"type": "chat/turnCancelled", "turnId": "t1", "duration": 1})
	a.until(chat, "both messages", func(s object) bool { return len(s["turns"].([]any)) == 3 && s["activeTurn"] == nil })
	effort("low")

	a.call("createChat", object{"channel": uri, "chat": "ahp-chat:/second", "initialMessage": message("say first", "high")})
	effort("high")
	a.agree(g, uri, chat)
	a.subscribe(automationsURI)
	a.make(one, definition("say x", func(d object) {
		d["message"] = message("say x", "low")
		d["message"].(object)["origin"] = object{"kind": "automation"}
	}))
	name := a.start(one, "r1")
	a.subscribe(name)
	run := a.over(name)
	of := a.subscribe(run["primarySession"].(string))["state"].(object)
	if v := of["config"].(object)["values"].(object); v["effortLevel"] != "low" {
		t.Errorf("the session of a run: %s", show(v))
	}
}

func TestCallsSayHowTheyAreDrawn(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	a := g.connect("a")
	const uri = "demo:/drawn"
	chat := a.session(g, uri)
	from := a.mark()
	a.dispatch(chat, started("t1", "spawn helper say below"))
	begun, _ := a.action(from, chat, "chat/toolCallStart")
	turn := a.idle(chat, "t1")
	var meta object
	for _, p := range turn["responseParts"].([]any) {
		if c, ok := p.(object)["toolCall"].(object); ok {
			meta = c["_meta"].(object)
		}
	}
	var worker string
	for _, c := range a.state(uri)["chats"].([]any) {
		if r := c.(object)["resource"].(string); r != chat {
			worker = r
		}
	}
	if meta["toolKind"] != "subagent" || meta["subagentAgentName"] != "helper" || meta["subagentChatUri"] != worker {
		t.Errorf("the call of a subagent: %s, whose chat is %s", show(meta), worker)
	}
	if early := begun["_meta"].(object); early["toolKind"] != "subagent" || early["subagentChatUri"] != worker {
		t.Errorf("at its start: %s, whose chat is to be %s", show(begun), worker)
	}
	a.agree(g, uri, chat)
}
