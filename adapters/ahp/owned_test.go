package ahp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/core/watch"
)

// answer waits for a request of the host and answers it.
func (p *peer) answer(from int, method string, reply object) (params object, at int) {
	p.t.Helper()
	f, at := p.wait(from, "the request "+method, func(f object) bool { return f["method"] == method && f["id"] != nil })
	out := object{"jsonrpc": "2.0", "id": f["id"]}
	for k, v := range reply {
		out[k] = v
	}
	p.send(out)
	return f["params"].(object), at
}

// ask sends a request without waiting for its answer.
func (p *peer) ask(method string, params object) (answer func() object) {
	p.t.Helper()
	p.next++
	id, from := float64(p.next), p.mark()
	p.send(object{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
	return func() object {
		p.t.Helper()
		f, _ := p.wait(from, "the answer to "+method, func(f object) bool { return f["id"] == id && f["method"] == nil })
		return f
	}
}

// What a client has is asked of that client, and its word is the answer.
func TestAClientAnswersForItsResources(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	owner, reader := g.connect("editor-1"), g.connect("reader")
	const uri = "virtual://editor-1/unsaved/x.go"

	from := owner.mark()
	answer := reader.ask("resourceRead", object{"uri": uri, "encoding": "utf-8"})
	params, from := owner.answer(from, "resourceRead", object{"result": object{"data": "unsaved", "encoding": "utf-8", "contentType": "text/x-go"}})
	if show(params) != show(onRoot("uri", uri, "encoding", "utf-8")) {
		t.Errorf("asked for %s", show(params))
	}
	if got := show(answer()["result"]); got != `{"contentType":"text/x-go","data":"unsaved","encoding":"utf-8"}` {
		t.Errorf("answered %s", got)
	}

	// A refusal is the owner's, to the letter.
	answer = reader.ask("resourceWrite", onRoot("uri", uri, "data", "x", "encoding", "utf-8"))
	refusal := object{"code": -32009, "message": "published read-only", "data": object{"request": onRoot("uri", uri, "write", true)}}
	_, from = owner.answer(from, "resourceWrite", object{"error": refusal})
	if got := show(answer()["error"]); got != show(refusal) {
		t.Errorf("refused with %s", got)
	}
	for _, method := range []string{"resourceList", "resourceResolve", "resourceDelete", "resourceMkdir", "resourceRequest"} {
		answer = reader.ask(method, onRoot("uri", uri))
		result := object{}
		switch method {
		case "resourceList":
			result["entries"] = []any{}
		case "resourceResolve":
			result = object{"uri": uri, "type": "file"}
		}
		_, from = owner.answer(from, method, object{"result": result})
		if got := show(answer()["result"]); got != show(result) {
			t.Errorf("%s answered %s", method, got)
		}
	}
	for _, method := range []string{"resourceMove", "resourceCopy"} {
		answer = reader.ask(method, onRoot("source", uri, "destination", "other://editor-1/y", "failIfExists", true))
		params, from = owner.answer(from, method, object{"result": object{}})
		if params["destination"] != "other://editor-1/y" || show(answer()["result"]) != "{}" {
			t.Errorf("%s passed on %v", method, params)
		}
		reader.fails(-32602, method, onRoot("source", uri, "destination", "virtual://reader/y"))
		reader.fails(-32602, method, onRoot("source", uri, "destination", "file:///tmp/y"))
		reader.fails(-32602, method, onRoot("source", "file:///tmp/y", "destination", uri))
	}

	// Files and channels are the host's, whatever a client calls itself.
	named := g.connect("localhost")
	reader.call("resourceList", onRoot("uri", "file://localhost"+g.dir))
	g.connect("default")
	reader.fails(codeNotFound, "resourceRead", onRoot("uri", "ahp-chat://default/x"))
	named.mu.Lock()
	defer named.mu.Unlock()
	for _, f := range named.frames {
		if f["method"] == "resourceList" {
			t.Error("a client was asked for a file of the machine")
		}
	}
}

// While a client thinks, nothing else of the one who asked waits, and when it
// goes, nobody waits for it.
func TestAnOwnerThatIsSlowOrLeavesHoldsNobody(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	owner, reader := g.connect("slow"), g.connect("reader")
	from := owner.mark()
	waiting := reader.ask("resourceRead", onRoot("uri", "virtual://slow/x"))
	owner.wait(from, "the request", func(f object) bool { return f["method"] == "resourceRead" })
	reader.call("listSessions", onRoot())
	reader.call("resourceList", onRoot("uri", fileURI(g.dir)))
	owner.ws.Close()
	if e, _ := waiting()["error"].(object); e == nil || e["code"] != float64(codeNotFound) {
		t.Errorf("answered %v", e)
	}
	reader.until(rootURI, "the end of the owner", func(object) bool { return g.front.connected("slow") == nil })
	reader.fails(codeNotFound, "resourceRead", onRoot("uri", "virtual://slow/x"))
}

func (p *peer) watch(params object) (uri string) {
	p.t.Helper()
	uri = p.call("createResourceWatch", params)["channel"].(string)
	if s := p.subscribe(uri)["state"].(object); s["root"] != params["uri"] {
		p.t.Errorf("the watch is of %v", s)
	}
	return uri
}

// told waits until a watch told of a change.
func (p *peer) told(from int, channel, typ, uri string) {
	p.t.Helper()
	p.wait(from, typ+" "+uri, func(f object) bool {
		env, _ := f["params"].(object)
		a, _ := env["action"].(object)
		if f["method"] != "action" || env["channel"] != channel || a["type"] != "resourceWatch/changed" || env["rejectionReason"] != nil {
			return false
		}
		for _, c := range a["changes"].(object)["items"].([]any) {
			if c := c.(object); c["type"] == typ && c["uri"] == uri {
				return true
			}
		}
		return false
	})
}

func (g *gateway) watchStats() watch.Stats {
	g.front.watches.mu.Lock()
	defer g.front.watches.mu.Unlock()
	if g.front.watches.watcher == nil {
		return watch.Stats{}
	}
	return g.front.watches.watcher.Stats()
}

func TestWatchingFiles(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	link := filepath.Join(t.TempDir(), "link") // changes are told as the folder was named
	if err := os.Symlink(g.dir, link); err != nil {
		t.Fatal(err)
	}
	p, q := g.connect("editor"), g.connect("other")
	uri := p.watch(onRoot("uri", fileURI(link), "recursive", true, "excludes", object{"items": []string{"**/tmp/**"}}))
	q.subscribe(uri)
	from := p.mark()
	for _, dir := range []string{"tmp", "a b"} {
		if err := os.Mkdir(filepath.Join(g.dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(g.dir, dir, "f"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.told(from, uri, "added", fileURI(link+"/a b/f"))
	q.told(0, uri, "added", fileURI(link+"/a b/f"))
	p.mu.Lock()
	if s := show(p.frames); strings.Contains(s, "/tmp/f") {
		t.Error("an excluded file was told")
	}
	p.mu.Unlock()

	seq := p.dispatch(uri, object{"type": "resourceWatch/changed", "changes": object{"items": []any{object{"uri": "file:///x", "type": "added"}}}})
	if why := p.echo(seq)["rejectionReason"]; why == nil {
		t.Error("a client told of files of the machine")
	}

	// The last one to leave ends it.
	p.send(object{"jsonrpc": "2.0", "method": "unsubscribe", "params": object{"channel": uri}})
	p.call("listSessions", onRoot())
	if s := g.watchStats(); s.Watches != 1 {
		t.Errorf("%+v", s)
	}
	q.ws.Close()
	p.until(rootURI, "the end of the watch", func(object) bool {
		p.send(object{"jsonrpc": "2.0", "id": "x", "method": "ping"})
		return g.watchStats().Watches == 0
	})
	p.fails(codeNotFound, "subscribe", object{"channel": uri})

	// One that nobody subscribed to goes with its client.
	lost := g.connect("lost")
	lost.call("createResourceWatch", onRoot("uri", fileURI(g.dir)))
	lost.ws.Close()
	p.until(rootURI, "the end of the watch", func(object) bool {
		p.send(object{"jsonrpc": "2.0", "id": "x", "method": "ping"})
		return g.watchStats().Watches == 0
	})

	p.fails(codeNotFound, "createResourceWatch", onRoot("uri", fileURI(g.dir+"/none")))
	p.fails(codePermissionDenied, "createResourceWatch", onRoot("uri", fileURI(g.home)))
	p.fails(-32602, "createResourceWatch", onRoot("uri", fileURI(g.dir), "includes", object{}))
	p.fails(-32602, "createResourceWatch", onRoot("uri", fileURI(g.dir), "excludes", object{"items": []string{"["}}))
	p.fails(-32602, "createResourceWatch", onRoot("uri", fileURI(g.dir), "excludes", object{"items": []string{strings.Repeat("x", maxWatchText)}}))
	p.fails(codeNotFound, "subscribe", object{"channel": watchPrefix + "none"})
	for range maxWatches {
		p.call("createResourceWatch", onRoot("uri", fileURI(g.dir)))
	}
	p.fails(-32000, "createResourceWatch", onRoot("uri", fileURI(g.dir)))
}

// A watch over what a client has is fed by that client and by nobody else.
func TestWatchingWhatAClientHas(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	owner, reader, third := g.connect("owner"), g.connect("reader"), g.connect("third")
	const root, uri = "virtual://owner/dir", watchPrefix + "minted"
	from := owner.mark()
	answer := reader.ask("createResourceWatch", onRoot("uri", root, "recursive", true, "includes", object{"items": []string{"*.go"}}))
	params, from := owner.answer(from, "createResourceWatch", object{"result": object{"channel": uri}})
	if params["uri"] != root || params["recursive"] != true {
		t.Errorf("asked for %v", params)
	}
	if got := answer()["result"].(object)["channel"]; got != uri {
		t.Errorf("the channel is %v", got)
	}
	if got := show(reader.subscribe(uri)["state"]); got != `{"includes":{"items":["*.go"]},"recursive":true,"root":"virtual://owner/dir"}` {
		t.Errorf("the state is %s", got)
	}
	changed := func(items ...any) object {
		return object{"type": "resourceWatch/changed", "changes": object{"items": items}}
	}
	x := object{"uri": root + "/x.go", "type": "updated"}
	env := owner.echo(owner.dispatch(uri, changed(x)))
	if env["rejectionReason"] != nil {
		t.Errorf("refused: %v", env)
	}
	reader.told(0, uri, "updated", root+"/x.go")
	for _, who := range []*peer{reader, third} {
		if why, _ := who.echo(who.dispatch(uri, changed(x)))["rejectionReason"].(string); !strings.Contains(why, "only the client") {
			t.Errorf("%s may feed the watch: %q", who.id, why)
		}
	}
	for _, bad := range []object{changed(), changed(object{"uri": "x"}), changed(object{"uri": "x", "type": "moved"}),
		changed(object{"uri": strings.Repeat("x", maxWatchText), "type": "added"}), {"type": "resourceWatch/changed"}, {"type": "other"}} {
		if owner.echo(owner.dispatch(uri, bad))["rejectionReason"] == nil {
			t.Errorf("taken: %v", bad)
		}
	}

	// A name that is taken, and one that is no watch.
	answer = reader.ask("createResourceWatch", onRoot("uri", "virtual://third/dir"))
	third.answer(0, "createResourceWatch", object{"result": object{"channel": uri}})
	if e, _ := answer()["error"].(object); e == nil || e["code"] != float64(codeAlreadyExists) {
		t.Errorf("answered %v", e)
	}
	answer = reader.ask("createResourceWatch", onRoot("uri", root))
	owner.answer(from, "createResourceWatch", object{"result": object{"channel": rootURI}})
	if e, _ := answer()["error"].(object); e == nil || e["code"] != -32603.0 {
		t.Errorf("answered %v", e)
	}

	reader.send(object{"jsonrpc": "2.0", "method": "unsubscribe", "params": object{"channel": uri}})
	reader.call("listSessions", onRoot())
	if why, _ := owner.echo(owner.dispatch(uri, changed(x)))["rejectionReason"].(string); !strings.Contains(why, "nobody") {
		t.Errorf("a watch that was left is fed: %q", why)
	}
}
