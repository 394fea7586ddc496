package ahp

import "testing"

func TestARunningSubagentSaysWhatItDoes(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	a := g.connect("a")
	const uri = "demo:/progress"
	chat := a.session(g, uri)
	from := a.mark()
	a.dispatch(chat, started("t", "spawn scout progress packs\nspawn scout progress leaves"))
	for _, want := range []string{"packs", "leaves"} {
		var c object
		c, from = a.action(from, chat, "chat/toolCallReady")
		a.dispatch(chat, object{"type": "chat/toolCallConfirmed", "turnId": "t", "toolCallId": c["toolCallId"], "approved": true, "confirmed": "user-action"})
		for line := ""; line != want; {
			c, from = a.action(from, chat, "chat/toolCallContentChanged")
			meta := c["_meta"].(object)
			if line, _ = meta["progressMessage"].(string); meta["toolKind"] != "subagent" {
				t.Errorf("a running subagent: %s", show(c))
			}
		}
		c, from = a.action(from, chat, "chat/toolCallComplete")
		if meta := c["_meta"].(object); meta["progressMessage"] != nil || meta["subagentChatUri"] == nil || meta["subagentAgentName"] != "scout" {
			t.Errorf("its end: %s", show(c))
		}
	}
	a.idle(chat, "t")
	a.agree(g, chat)
}
