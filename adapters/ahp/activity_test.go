package ahp

import (
	"path/filepath"
	"testing"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
)

// What a session does is what its default chat does, or else another chat of it. Its
// row says so too, and says null when it does nothing any more: clients lay what they
// are told over the row that they have.
func TestARowSaysWhatItsSessionDoes(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p, list := g.connect("c"), g.connect("list")
	const uri, side = "demo:/busy", "ahp-chat:/side"
	until := func(file string) string { return "until [ -e " + file + " ]; do sleep 0.1; done" }
	shows := func(what any) {
		t.Helper()
		list.wait(0, "a row that does "+show(what), func(object) bool { return list.rows[uri] != nil && list.rows[uri]["activity"] == what })
		row, there := list.list()[uri]["activity"]
		if row != what || there != (what != nil) {
			t.Errorf("listed with %v", row)
		}
		p.until(uri, "what it does", func(s object) bool { return s["activity"] == what })
		p.agree(g, uri)
	}
	chat := p.session(g, uri)
	p.dispatch(chat, started("t1", "!"+until("one")))
	shows(until("one"))

	// Whoever comes later is told at once.
	later := g.connect("later")
	if s := later.subscribe("ahp-session:/busy")["state"].(object); s["activity"] != until("one") {
		t.Errorf("a later client: %v", s["activity"])
	}
	if row := later.list()["ahp-session:/busy"]; row["activity"] != until("one") {
		t.Errorf("listed to a later client: %v", row)
	}

	// The default chat goes first.
	p.call("createChat", object{"channel": uri, "chat": side, "initialMessage": object{"text": "!" + until("two"), "origin": object{"kind": "user"}}})
	p.subscribe(side)
	p.until(side, "the other chat", func(s object) bool { return s["activity"] == until("two") })
	p.agree(g, uri)
	if doing := p.state(uri)["activity"]; doing != until("one") {
		t.Errorf("with two chats that run it does %v", doing)
	}
	writeFile(t, filepath.Join(g.dir, "one"), "")
	shows(until("two"))
	writeFile(t, filepath.Join(g.dir, "two"), "")
	shows(nil)

	// So does one that nobody opened here.
	other, err := g.host.CreateSession(t.Context(), host.CreateSession{Backend: "demo", Dirs: []string{g.dir}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Prompt(t.Context(), host.Prompt{Command: until("three"), By: event.Actor{Front: "test"}}); err != nil {
		t.Fatal(err)
	}
	name := sessionURI(&other.State().Info)
	list.wait(0, "the row of a session that nobody opened", func(object) bool { return list.rows[name] != nil && list.rows[name]["activity"] == until("three") })
	if row := later.list()[name]; row["activity"] != until("three") {
		t.Errorf("listed with %v", row)
	}
	writeFile(t, filepath.Join(g.dir, "three"), "")
	list.wait(0, "its end", func(object) bool { return list.rows[name]["activity"] == nil })

	// A row was told only when it moved, and only that.
	list.mu.Lock()
	defer list.mu.Unlock()
	was := map[any]any{}
	for _, f := range list.frames {
		params, _ := f["params"].(object)
		switch f["method"] {
		case "root/sessionAdded":
			row := params["summary"].(object)
			was[row["resource"]] = row["activity"]
		case "root/sessionSummaryChanged":
			now, told := params["changes"].(object)["activity"]
			if told && now == was[params["session"]] {
				t.Errorf("told again that it does %v", now)
			}
			if told {
				was[params["session"]] = now
			}
		}
	}
}
