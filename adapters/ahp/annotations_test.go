package ahp

import (
	"strings"
	"testing"
)

func annotated(id, text string) object {
	return object{"type": "annotations/set", "annotation": object{"id": id, "origin": object{"session": "demo:/noted"}, "resource": "file:///x",
		"range": object{"start": object{"line": 1, "character": 0}, "end": object{"line": 2, "character": 3}}, "resolved": false,
		"entries": []any{object{"id": "e1", "text": text}}}}
}

func TestAnnotationsAreSharedAndSurviveARestart(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p, q := g.connect("editor"), g.connect("watcher")
	chat := p.session(g, "demo:/noted")
	p.dispatch(chat, started("t1", "say hello"))
	p.idle(chat, "t1")
	const uri = "demo:/noted/annotations"
	if s := p.state("demo:/noted")["annotations"].(object); s["resource"] != uri || s["annotationCount"] != 0.0 {
		t.Fatalf("the session says %v of its annotations", s)
	}
	p.subscribe(uri)
	q.subscribe("ahp-session:/noted/annotations")
	for _, a := range []object{annotated("a", "first"), annotated("b", "second"),
		{"type": "annotations/updated", "annotationId": "a", "resolved": true},
		{"type": "annotations/entrySet", "annotationId": "a", "entry": object{"id": "e2", "text": object{"markdown": "*why*"}}},
		{"type": "annotations/entryRemoved", "annotationId": "a", "entryId": "e1"},
		{"type": "annotations/removed", "annotationId": "b"}} {
		if env := p.echo(p.dispatch(uri, a)); env["rejectionReason"] != nil {
			t.Fatalf("%v: %v", a["type"], env["rejectionReason"])
		}
	}
	q.until("ahp-session:/noted/annotations", "all of it", func(s object) bool { return show(s) == show(p.state(uri)) })
	p.agree(g, uri)
	before := show(p.state(uri))
	if !strings.Contains(before, "*why*") || strings.Contains(before, "second") {
		t.Errorf("the annotations are %s", before)
	}
	g.stop()
	g.start()
	back := g.connect("editor")
	if got := show(back.subscribe(uri)["state"]); got != before {
		t.Errorf("after a restart they are %s", got)
	}
	if s := back.subscribe("demo:/noted")["state"].(object)["annotations"].(object); s["annotationCount"] != 1.0 || s["entryCount"] != 1.0 {
		t.Errorf("the session says %v of them", s)
	}
	back.call("disposeSession", object{"channel": "demo:/noted"})
	back.fails(-32001, "subscribe", object{"channel": uri})
}

func TestAnnotationsThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := g.connect("editor")
	p.session(g, "demo:/noted")
	const uri = "demo:/noted/annotations"
	p.subscribe(uri)
	p.echo(p.dispatch(uri, annotated("a", "first")))
	empty := annotated("c", "x")
	empty["annotation"].(object)["entries"] = []any{}
	for why, a := range map[string]object{
		"no such annotation": {"type": "annotations/removed", "annotationId": "none"},
		"no such entry":      {"type": "annotations/entryRemoved", "annotationId": "a", "entryId": "none"},
		"remove the":         {"type": "annotations/entryRemoved", "annotationId": "a", "entryId": "e1"},
		"at least one":       empty,
		"origin":             {"type": "annotations/set", "annotation": object{"id": "d"}},
		"text":               {"type": "annotations/entrySet", "annotationId": "a", "entry": object{"id": "e", "text": 7}},
		"bytes at most":      annotated("e", strings.Repeat("x", maxAnnotations)),
		"not take":           {"type": "annotations/grow"},
	} {
		env := p.echo(p.dispatch(uri, a))
		if reason, _ := env["rejectionReason"].(string); !strings.Contains(reason, why) {
			t.Errorf("%v: refused with %q, want something of %q", a["type"], reason, why)
		}
	}
	if env := p.echo(p.dispatch(uri, annotated("a", "first"))); env["rejectionReason"] != nil {
		t.Errorf("what changes nothing: %v", env)
	}
	p.agree(g, uri)
	p.fails(-32001, "subscribe", object{"channel": "demo:/nobody/annotations"})
}
