package ahp

import "testing"

func TestWhatAnAgentGoesOnWithIsShownUntilItIsDone(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	a := g.connect("a")
	const uri = "demo:/work"
	chat := a.session(g, uri)
	if _, there := a.state(chat)["backgroundWork"]; there {
		t.Error("a chat that goes on with nothing says so")
	}
	from := a.mark()
	a.dispatch(chat, started("t1", "background tests make test\nbackground docs make docs"))
	set, from := a.action(from, chat, "chat/backgroundWorkSet")
	w := set["work"].(object)
	if w["id"] != "shell:tests" || w["kind"] != "shell" || w["label"] != "tests" || w["command"] != "make test" || w["startedAt"] == nil {
		t.Errorf("the work: %s", show(set))
	}
	a.idle(chat, "t1")
	a.agree(g, chat)
	if n := len(a.state(chat)["backgroundWork"].([]any)); n != 2 {
		t.Errorf("%d go on after the turn", n)
	}
	a.dispatch(chat, started("t2", "background tests"))
	gone, _ := a.action(from, chat, "chat/backgroundWorkRemoved")
	if gone["id"] != "shell:tests" {
		t.Errorf("what is done: %s", show(gone))
	}
	a.idle(chat, "t2")
	// With the agent its work goes.
	a.dispatch(chat, started("t3", "crash"))
	a.until(chat, "nothing to go on", func(s object) bool { l, _ := s["backgroundWork"].([]any); return len(l) == 0 })
	a.idle(chat, "t3")
	a.agree(g, chat)
}
