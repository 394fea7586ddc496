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

func TestCallsSayHowTheyAreDrawn(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	a := g.connect("a")
	const uri = "demo:/drawn"
	chat := a.session(g, uri)
	a.dispatch(chat, started("t1", "spawn helper say below"))
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
	a.agree(g, uri, chat)
}
