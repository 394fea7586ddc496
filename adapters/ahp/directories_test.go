package ahp

import (
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/polyhost/polyhost/adapters/ahp/reduce"
)

func TestActionsOnDirectoriesLeadToTheList(t *testing.T) {
	t.Parallel()
	dirs := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"/a", "/b", "/c", "/d", "/e", "/f"}), 1, 5, rapid.ID[string])
	rapid.Check(t, func(t *rapid.T) {
		was, now := dirs.Draw(t, "was"), dirs.Draw(t, "now")
		state := reduce.Object{"workingDirectories": plainList(was)}
		for _, a := range directoryActions(was, now) {
			action, err := reduce.Decode(encode(a))
			if err != nil {
				t.Fatal(err)
			}
			state, _ = reduce.For("session")(state, action)
		}
		if got := state["workingDirectories"]; !reflect.DeepEqual(got, plainList(now)) {
			t.Errorf("they lead to %v", got)
		}
	})
}

func plainList(dirs []string) []any {
	var out []any
	for _, uri := range dirURIs(dirs) {
		out = append(out, uri)
	}
	return out
}

func TestWorkingDirectoriesChangeBetweenTurns(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p, q := g.connect("editor"), g.connect("watcher")
	const sess = "demo:/placed"
	chat := p.session(g, sess)
	q.subscribe(sess)
	first, second, third := fileURI(g.dir), fileURI(t.TempDir()), fileURI(t.TempDir())
	p.dispatch(chat, started("t1", "sleep 600000"))
	p.until(chat, "the turn", func(s object) bool { return s["activeTurn"] != nil })
	refused := func(a object, why string) {
		t.Helper()
		env := p.echo(p.dispatch(sess, a))
		if reason, _ := env["rejectionReason"].(string); !strings.Contains(reason, why) {
			t.Errorf("%v is refused with %q, want something of %q", a["type"], reason, why)
		}
	}
	refused(object{"type": "session/workingDirectorySet", "directory": second}, "a turn is running")
	p.dispatch(chat, object{"type": "chat/turnCancelled", "turnId": "t1", "duration": 1})
	p.idle(chat, "t1")
	refused(object{"type": "session/workingDirectoryRemoved", "directory": first}, "replaced")
	refused(object{"type": "session/workingDirectorySet", "directory": first + "/none"}, "does not exist")
	refused(object{"type": "session/workingDirectorySet", "directory": "http://x"}, "file:")
	for _, a := range []object{
		{"type": "session/workingDirectorySet", "directory": second},
		{"type": "session/workingDirectorySet", "directory": second}, // there already
		{"type": "session/workingDirectoryReplaced", "directory": first, "replacement": third},
		{"type": "session/workingDirectoryRemoved", "directory": second},
	} {
		env := p.echo(p.dispatch(sess, a))
		if env["rejectionReason"] != nil || env["action"].(object)["type"] != a["type"] {
			t.Fatalf("%v: %v", a, env)
		}
	}
	q.until(sess, "the new directory", func(s object) bool { return show(s["workingDirectories"]) == show([]string{third}) })
	p.agree(g, sess)
	p.dispatch(chat, started("t2", "run pwd"))
	asked := p.until(sess, "the question", func(s object) bool { l, _ := s["inputNeeded"].([]any); return len(l) > 0 })
	call := asked["inputNeeded"].([]any)[0].(object)["toolCall"].(object)["toolCallId"]
	p.dispatch(chat, object{"type": "chat/toolCallConfirmed", "turnId": "t2", "toolCallId": call, "approved": true})
	if out := show(p.idle(chat, "t2")["responseParts"]); !strings.Contains(out, strings.TrimPrefix(third, "file://")) {
		t.Errorf("the agent ran in %s", out)
	}
}
