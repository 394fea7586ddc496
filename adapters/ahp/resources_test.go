package ahp

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/polyhost/polyhost/core/id"
)

// onRoot are the params of a resource method.
func onRoot(kv ...any) object {
	o := object{"channel": rootURI}
	for i := 0; i < len(kv); i += 2 {
		o[kv[i].(string)] = kv[i+1]
	}
	return o
}

func (p *peer) readText(uri string) string {
	p.t.Helper()
	r := p.call("resourceRead", onRoot("uri", uri))
	if r["encoding"] != encodingText {
		p.t.Fatalf("%s came as %v", uri, r)
	}
	return r["data"].(string)
}

func TestResourcesOfTheMachine(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := g.connect("editor")
	dir, err := filepath.EvalSymlinks(g.dir)
	if err != nil {
		t.Fatal(err)
	}
	uri := func(name string) string { return fileURI(filepath.Join(dir, name)) }

	// A folder that no session knows of can be browsed for a new one.
	p.call("resourceMkdir", onRoot("uri", uri("a b/c")))
	p.call("resourceMkdir", onRoot("uri", uri("a b/c")))
	p.call("resourceWrite", onRoot("uri", uri("a b/x.md"), "data", "# Hé\n", "encoding", "utf-8"))
	p.call("resourceWrite", onRoot("uri", uri("a b/bin"), "data", base64.StdEncoding.EncodeToString([]byte{0, 1, 255}), "encoding", "base64"))
	list := p.call("resourceList", onRoot("uri", uri("a b")))
	if got := show(list); got != `{"entries":[{"name":"bin","type":"file"},{"name":"c","type":"directory"},{"name":"x.md","type":"file"}]}` {
		t.Errorf("listed %s", got)
	}
	if got := p.readText(uri("a b/x.md")); got != "# Hé\n" {
		t.Errorf("read %q", got)
	}
	if got := show(p.call("resourceRead", onRoot("uri", uri("a b/x.md"), "encoding", "base64"))["data"]); got != `"IyBIw6kK"` {
		t.Errorf("read %s", got)
	}
	if r := p.call("resourceRead", onRoot("uri", uri("a b/bin"), "encoding", "utf-8")); r["encoding"] != "base64" || r["data"] != "AAH/" {
		t.Errorf("read %v", r)
	}

	r := p.call("resourceResolve", onRoot("uri", uri("a b/x.md")))
	etag, _ := r["etag"].(string)
	if r["uri"] != uri("a b/x.md") || r["type"] != "file" || r["size"] != 6.0 || etag == "" || r["mtime"] == nil {
		t.Errorf("resolved %v", r)
	}
	p.call("resourceWrite", onRoot("uri", uri("a b/x.md"), "data", "!", "encoding", "utf-8", "mode", "append", "ifMatch", etag))
	p.fails(codeConflict, "resourceWrite", onRoot("uri", uri("a b/x.md"), "data", "lost", "encoding", "utf-8", "ifMatch", etag))
	p.fails(codeConflict, "resourceWrite", onRoot("uri", uri("a b/x.md"), "data", "lost", "encoding", "utf-8", "ifMatch", ""))
	p.fails(codeAlreadyExists, "resourceWrite", onRoot("uri", uri("a b/x.md"), "data", "", "encoding", "utf-8", "createOnly", true))
	p.call("resourceWrite", onRoot("uri", uri("a b/x.md"), "data", "?", "encoding", "utf-8", "mode", "insert", "position", 1))
	if got := p.readText(uri("a b/x.md")); got != "#? Hé\n!" {
		t.Errorf("wrote %q", got)
	}

	if err := os.Symlink("x.md", filepath.Join(dir, "a b/link")); err != nil {
		t.Fatal(err)
	}
	if r := p.call("resourceResolve", onRoot("uri", uri("a b/link"))); r["uri"] != uri("a b/x.md") || r["type"] != "file" {
		t.Errorf("resolved %v", r)
	}
	if r := p.call("resourceResolve", onRoot("uri", uri("a b/link"), "followSymlinks", false)); r["uri"] != uri("a b/link") || r["type"] != "symlink" {
		t.Errorf("resolved %v", r)
	}

	p.call("resourceCopy", onRoot("source", uri("a b"), "destination", uri("d")))
	p.fails(codeAlreadyExists, "resourceCopy", onRoot("source", uri("a b"), "destination", uri("d"), "failIfExists", true))
	p.fails(codeAlreadyExists, "resourceMove", onRoot("source", uri("a b"), "destination", uri("d"), "failIfExists", true))
	p.call("resourceMove", onRoot("source", uri("d/x.md"), "destination", uri("d/y.md")))
	p.fails(codeNotFound, "resourceRead", onRoot("uri", uri("d/x.md")))
	p.fails(-32602, "resourceDelete", onRoot("uri", uri("d")))
	p.call("resourceDelete", onRoot("uri", uri("d"), "recursive", true))
	p.fails(codeNotFound, "resourceResolve", onRoot("uri", uri("d")))
	p.call("resourceRequest", onRoot("uri", uri("anything"), "read", true, "write", true))
}

func TestBadResourceRequestsAreRefusedByField(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := g.connect("editor")
	file := fileURI(filepath.Join(g.dir, "f"))
	if err := os.WriteFile(filepath.Join(g.dir, "f"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	settled := editPrefix + strings.Join([]string{"settled", id.New().String(), id.New().String(), id.New().String(), id.New().String(), "0", "after", "x"}, "/")
	for _, c := range []struct {
		method string
		params object
		code   int
		word   string
	}{
		{"resourceRead", object{"channel": "demo:/x", "uri": file}, -32602, rootURI},
		{"resourceRead", onRoot(), -32602, "uri"},
		{"resourceRead", onRoot("uri", 7), -32602, "uri"},
		{"resourceRead", onRoot("uri", "/etc/hosts"), -32602, "uri"},
		{"resourceRead", onRoot("uri", "file:relative"), -32602, "uri"},
		{"resourceRead", onRoot("uri", "file://elsewhere/etc/hosts"), -32602, "uri"},
		{"resourceRead", onRoot("uri", "file:///etc/%00"), -32602, "path"},
		{"resourceRead", onRoot("uri", "file:///"+strings.Repeat("x", maxResourceURI)), -32602, "uri"},
		{"resourceRead", onRoot("uri", fileURI(g.dir)), -32602, "directory"},
		{"resourceRead", onRoot("uri", "virtual://nobody/x"), codeNotFound, "virtual"},
		{"resourceRead", onRoot("uri", "ahp-root://"), codeNotFound, "ahp-root"},
		{"resourceRead", onRoot("uri", "ahp-edit://pending/x"), codeNotFound, "ahp-edit"},
		{"resourceRead", onRoot("uri", settled), codeNotFound, "ahp-edit"},
		{"resourceList", onRoot("uri", file), -32602, "directory"},
		{"resourceList", onRoot("uri", file+"-none"), codeNotFound, "none"},
		{"resourceWrite", onRoot("uri", file, "encoding", "utf-8"), -32602, "data"},
		{"resourceWrite", onRoot("uri", file, "data", "x"), -32602, "encoding"},
		{"resourceWrite", onRoot("uri", file, "data", "x", "encoding", "latin-1"), -32602, "encoding"},
		{"resourceWrite", onRoot("uri", file, "data", "?", "encoding", "base64"), -32602, "data"},
		{"resourceWrite", onRoot("uri", file, "data", "x", "encoding", "utf-8", "mode", "over"), -32602, "mode"},
		{"resourceWrite", onRoot("uri", file, "data", "x", "encoding", "utf-8", "position", -1), -32602, "position"},
		{"resourceWrite", onRoot("uri", file, "data", "x", "encoding", "utf-8", "position", 2), -32602, "position"},
		{"resourceWrite", onRoot("uri", settled, "data", "x", "encoding", "utf-8"), codePermissionDenied, "edit"},
		{"resourceDelete", onRoot("uri", "file:///", "recursive", true), codePermissionDenied, "closed"},
		{"resourceMkdir", onRoot("uri", file), codeAlreadyExists, "f"},
		{"resourceMove", onRoot("source", file), -32602, "destination"},
		{"resourceCopy", onRoot("source", "virtual://nobody/x", "destination", file), codeNotFound, "virtual"},
		{"resourceRequest", onRoot("uri", "virtual://nobody/x"), codePermissionDenied, "virtual"},
		{"resourceRequest", onRoot("uri", "ahp-chat://default/x"), codePermissionDenied, "ahp-chat"},
		{"resourceRequest", onRoot("uri", settled, "write", true), codePermissionDenied, "edit"},
	} {
		e := p.fails(c.code, c.method, c.params)
		if !strings.Contains(e["message"].(string), c.word) {
			t.Errorf("%s %v: %v", c.method, c.params, e)
		}
		if data, ok := e["data"].(object); ok != (c.code == codePermissionDenied) || len(data) > 0 {
			t.Errorf("%s %v: the data of %v", c.method, c.params, e)
		}
	}
}

// The tokens of all fronts lie in the gateway's home.
func TestTheHomeOfTheGatewayIsClosed(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := g.connect("editor")
	token := filepath.Join(g.home, "ahp.token")
	if err := os.Symlink(g.home, filepath.Join(g.dir, "way")); err != nil {
		t.Fatal(err)
	}
	for _, uri := range []string{fileURI(token), fileURI(g.dir + "/way/ahp.token"), "file:///proc/self/environ", fileURI(g.dir) + "/%2e%2e/" + filepath.Base(g.home) + "/../" + filepath.Base(g.home) + "/ahp.token"} {
		r := p.request("resourceRead", onRoot("uri", uri))
		if e, _ := r["error"].(object); e == nil || e["code"] != float64(codePermissionDenied) && e["code"] != float64(codeNotFound) {
			t.Errorf("%s was read: %v", uri, r)
		}
	}
	p.fails(codePermissionDenied, "resourceList", onRoot("uri", fileURI(g.home)))
	p.fails(codePermissionDenied, "resourceRequest", onRoot("uri", fileURI(token)))
	p.fails(codePermissionDenied, "resourceDelete", onRoot("uri", fileURI(token)))
	p.fails(codePermissionDenied, "resourceCopy", onRoot("source", fileURI(filepath.Dir(g.home)), "destination", fileURI(t.TempDir()+"/all")))
}

// A file goes out whole, though it is more than may wait for a client.
func TestALargeFileDoesNotEndTheConnection(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := g.connect("editor")
	path := filepath.Join(g.dir, "large")
	const size = outboxLimit * 5 / 4
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		p.next++
		p.send(object{"jsonrpc": "2.0", "id": p.next, "method": "resourceRead", "params": onRoot("uri", fileURI(path))})
	}
	for i := range 2 {
		id := float64(p.next - i)
		f, _ := p.wait(0, "the file", func(f object) bool { return f["id"] == id && f["method"] == nil })
		if r, _ := f["result"].(object); len(r["data"].(string)) < size {
			t.Errorf("answered %d bytes", len(fmt.Sprint(f)))
		}
	}
	p.call("ping", object{})
}

// What an edit would change can be seen before somebody decides, and what it
// changed afterwards, also when the gateway was started anew and the file has
// gone on.
func TestBothSidesOfAnEditAreServed(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	path := filepath.Join(g.dir, ".vscode/made.go") // where a write needs a person
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("old\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := g.connect("editor")
	sess := "demo:/edits"
	chat := p.session(g, sess)
	from := p.mark()
	p.dispatch(chat, started("t1", "write .vscode/made.go new text"))
	ready, _ := p.action(from, chat, "chat/toolCallReady")
	item := ready["edits"].(object)["items"].([]any)[0].(object)
	before, after := contentOf(item, "before"), contentOf(item, "after")
	if before != fileURI(path) || !strings.HasPrefix(after, "ahp-edit://pending/") || !strings.HasSuffix(after, "/after/made.go") {
		t.Errorf("shown before approval: %s", show(item))
	}
	if got := p.readText(after); got != "new text\n" {
		t.Errorf("after the edit: %q", got)
	}
	if r := p.call("resourceResolve", onRoot("uri", after)); r["type"] != "file" || r["size"] != 9.0 || r["uri"] != after {
		t.Errorf("resolved %v", r)
	}
	folder := after[:strings.LastIndex(after, "/")]
	if got := show(p.call("resourceList", onRoot("uri", folder))["entries"]); got != `[{"name":"made.go","type":"file"}]` {
		t.Errorf("listed %s", got)
	}
	p.fails(codeNotFound, "resourceRead", onRoot("uri", strings.Replace(after, "pending", "settled", 1)))
	p.fails(codeNotFound, "resourceRead", onRoot("uri", strings.Replace(after, "made.go", "other.go", 1)))
	p.fails(codeNotFound, "resourceRead", onRoot("uri", strings.Replace(after, "/0/", "/1/", 1)))

	p.dispatch(chat, object{"type": "chat/toolCallConfirmed", "turnId": "t1", "toolCallId": ready["toolCallId"], "approved": true, "confirmed": "user-action"})
	turn := p.idle(chat, "t1")
	p.fails(codeNotFound, "resourceRead", onRoot("uri", after))
	live := editIn(t, turn)
	if err := os.WriteFile(path, []byte("gone on\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(p *peer, item object) {
		t.Helper()
		if got := p.readText(contentOf(item, "before")); got != "old\n" {
			t.Errorf("before the edit: %q", got)
		}
		if got := p.readText(contentOf(item, "after")); got != "new text\n" {
			t.Errorf("after the edit: %q", got)
		}
	}
	check(p, live)

	g.stop()
	g.start()
	p = g.connect("later")
	p.subscribe(chat)
	again := editIn(t, p.idle(chat, "t1"))
	if show(again) != show(live) {
		t.Errorf("shown as %s, and after a start as %s", show(live), show(again))
	}
	check(p, again)
}

func contentOf(item object, side string) string {
	return item[side].(object)["content"].(object)["uri"].(string)
}

func editIn(t *testing.T, turn object) object {
	t.Helper()
	for _, part := range turn["responseParts"].([]any) {
		call, _ := part.(object)["toolCall"].(object)
		content, _ := call["content"].([]any)
		for _, c := range content {
			if c.(object)["type"] == "fileEdit" {
				return c.(object)
			}
		}
	}
	t.Fatalf("the turn has no edit: %s", show(turn))
	return nil
}

// FuzzResourceURI names anything. What a URI says of its place is either
// nothing or one thing, and an edit's name is read as it is written.
func FuzzResourceURI(f *testing.F) {
	e := editRef{session: id.New(), chat: id.New(), turn: id.New(), part: id.New(), side: sideAfter, name: "a b.go"}
	for _, s := range []string{"file:///a%20b", "file://x/y", "virtual://editor/x", "virtual://ed%69tor/x", "virtual:editor", "ahp-root://", e.uri(),
		"ahp-edit://pending/", "://", ":", "file:", "FILE:///x", "x://%zz/", "file:///%00", "data:,x"} {
		f.Add(s)
	}
	front := &Front{clients: map[string]*client{"editor": {id: "editor", conns: 1}}}
	f.Fuzz(func(t *testing.T, uri string) {
		r, err := front.locate("uri", uri)
		if err != nil {
			return
		}
		n := 0
		if r.path != "" {
			n++
			if !filepath.IsAbs(r.path) || filepath.Clean(r.path) != r.path {
				t.Errorf("%q is the path %q", uri, r.path)
			}
		}
		if r.edit != nil {
			n++
			if again, ok := parseEdit(r.edit.uri()); !ok || *again != *r.edit {
				t.Errorf("%q is %+v, and that is %+v", uri, r.edit, again)
			}
		}
		if r.owner != nil {
			n++
			if strings.HasPrefix(uri, "file") || strings.HasPrefix(uri, ahpPrefix) {
				t.Errorf("%q belongs to a client", uri)
			}
		}
		if n != 1 {
			t.Errorf("%q is %d things", uri, n)
		}
	})
}
