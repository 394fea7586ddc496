package ahp

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/polyhost/polyhost/core/devcontainer"
	"github.com/polyhost/polyhost/core/store/memstore"
)

// contained is a gateway with stand-ins for the programs of dev containers: a
// container is this machine, and the gateway in it answers a line with a line until
// it is told to leave.
func contained(t *testing.T) *gateway {
	t.Helper()
	bin := t.TempDir()
	for name, script := range map[string]string{
		"docker": `echo "$@" >> "$0.asked"; case $1 in ps) echo c0ffee;; esac; exit 0`,
		"devcontainer": `verb=$1; folder=$3; shift 3
case $verb in
up) echo "it builds" >&2; [ ! -e "$folder/slow" ] || exec sleep 600
	[ ! -e "$folder/broken" ] || { echo '{"outcome":"error","message":"no such image"}'; exit 1; }
	echo '{"outcome":"success","containerId":"c0ffee","remoteWorkspaceFolder":"/workspaces/x"}';;
exec) PATH=` + bin + `/inside:$PATH exec "$@";;
esac`,
		"inside/polyhost": `echo "polyhost is ready" >&2
while read -r line; do [ "$line" != leave ] || exit 0; echo "got $line"; done`,
	} {
		path := filepath.Join(bin, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		syscall.ForkLock.RLock() // a program that another test starts now would hold it open, and it could not run
		err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755)
		syscall.ForkLock.RUnlock()
		if err != nil {
			t.Fatal(err)
		}
	}
	g := &gateway{t: t, dir: t.TempDir(), home: t.TempDir(), store: memstore.New(),
		containers: devcontainer.New(filepath.Join(bin, "docker"), filepath.Join(bin, "devcontainer"))}
	g.start()
	return g
}

func (g *gateway) folder(name string, files ...string) string {
	g.t.Helper()
	path := filepath.Join(g.dir, name)
	if err := os.MkdirAll(path, 0o755); err != nil {
		g.t.Fatal(err)
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(path, f), nil, 0o600); err != nil {
			g.t.Fatal(err)
		}
	}
	return path
}

const containersDo = "vscode/devContainers/"

// begins asks for a relay and answers the question of trust; it returns the id of
// the request.
func (p *peer) begins(id, folder string, trusted bool) (request float64) {
	p.t.Helper()
	p.next++
	request = float64(p.next)
	from := p.mark()
	p.send(object{"jsonrpc": "2.0", "id": request, "method": containersDo + "connect",
		"params": object{"connectionId": id, "workspaceFolder": folder, "name": "x"}})
	q, _ := p.wait(from, "the question of trust", func(f object) bool { return f["method"] == "vscode/requestWorkspaceTrust" })
	if got := q["params"].(object)["workspace"]; got != fileURI(folder) {
		p.t.Errorf("it asks for trust in %v", got)
	}
	p.send(object{"jsonrpc": "2.0", "id": q["id"], "result": object{"trusted": trusted}})
	return request
}

func (p *peer) outcome(request float64) object {
	p.t.Helper()
	f, _ := p.wait(0, "the answer", func(f object) bool { return f["id"] == request && f["method"] == nil })
	return f
}

// tells waits for a notification about a relay.
func (p *peer) tells(what, id, data string) {
	p.t.Helper()
	p.wait(0, what+" of "+id, func(f object) bool {
		params, _ := f["params"].(object)
		text, _ := params["data"].(string)
		return f["method"] == containersDo+what && params["connectionId"] == id && strings.Contains(text, data)
	})
}

func (p *peer) heard(what string) (times int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.frames {
		if f["method"] == containersDo+what {
			times++
		}
	}
	return times
}

func TestAClientRelaysIntoADevContainer(t *testing.T) {
	t.Parallel()
	g := contained(t)
	p, q := g.connect("one"), g.connect("two")
	if r := p.request(containersDo+"isDockerAvailable", nil); r["result"] != true {
		t.Fatalf("%v", r)
	}
	folder := g.folder("project")
	want := `{"address":"devcontainer:c0ffee","connectionId":"a","hostWorkspaceFolder":"` + folder + `","name":"x","remoteWorkspaceFolder":"/workspaces/x"}`
	if f := p.outcome(p.begins("a", folder, true)); show(f["result"]) != want {
		t.Fatalf("the answer is %v, want %s", f, want)
	}
	p.tells("output", "a", "it builds")
	for _, data := range []string{"{}", "{\"n\":\n1}"} {
		if r := p.request(containersDo+"relaySend", object{"connectionId": "a", "data": data}); r["error"] != nil || r["result"] != nil {
			t.Errorf("%v", r)
		}
	}
	p.tells("relayMessage", "a", "got {}")
	p.tells("relayMessage", "a", `got {"n": 1}`)

	// It is this connection's, and nobody else's.
	p.fails(-32602, containersDo+"connect", object{"connectionId": "a", "workspaceFolder": folder, "name": "x"})
	q.fails(-32008, containersDo+"relaySend", object{"connectionId": "a", "data": "{}"})
	q.fails(-32008, containersDo+"disconnect", object{"connectionId": "a"})
	if r := q.request(containersDo+"stop", object{"workspaceFolder": folder}); r["result"] != false {
		t.Errorf("another client stops it: %v", r)
	}

	// The gateway in the container leaves.
	p.call(containersDo+"relaySend", object{"connectionId": "a", "data": "leave"})
	p.tells("relayClose", "a", "")
	p.tells("closeConnection", "a", "")
	p.fails(-32008, containersDo+"relaySend", object{"connectionId": "a", "data": "{}"})

	// Its client disconnects, and hears nothing of it.
	if f := p.outcome(p.begins("a", folder, true)); f["error"] != nil {
		t.Fatal(f)
	}
	p.call(containersDo+"disconnect", object{"connectionId": "a"})
	if r := p.request(containersDo+"stop", object{"workspaceFolder": folder}); r["result"] != true {
		t.Errorf("while what it disconnected ends: %v", r)
	}
	// Its client stops the container.
	if f := p.outcome(p.begins("b", folder, true)); f["error"] != nil {
		t.Fatal(f)
	}
	if r := p.request(containersDo+"stop", object{"workspaceFolder": folder}); r["result"] != true {
		t.Errorf("%v", r)
	}
	p.tells("closeConnection", "b", "")
	if n := p.heard("relayClose"); n != 1 {
		t.Errorf("it is told %d times that a relay closed", n)
	}
	if f := q.outcome(q.begins("a", folder, true)); f["error"] != nil {
		t.Fatal(f)
	}
	q.hangUp() // and so does its relay
	if f := p.outcome(p.begins("c", folder, true)); f["error"] != nil {
		t.Fatal(f)
	}
	if r := p.request(containersDo+"remove", object{"workspaceFolder": folder}); r["result"] != true {
		t.Errorf("%v", r)
	}
}

func TestADevContainerIsRefused(t *testing.T) {
	t.Parallel()
	g := contained(t)
	p := g.connect("one")
	folder := g.folder("project", "file")
	for _, bad := range []object{
		{}, {"connectionId": "a", "workspaceFolder": folder}, {"connectionId": " ", "workspaceFolder": folder, "name": "x"},
		{"connectionId": "a\x00", "workspaceFolder": folder, "name": "x"}, {"connectionId": strings.Repeat("a", maxRelayID+1), "workspaceFolder": folder, "name": "x"},
		{"connectionId": "a", "workspaceFolder": "project", "name": "x"}, {"connectionId": "a", "workspaceFolder": folder + "\x00", "name": "x"},
		{"connectionId": "a", "workspaceFolder": filepath.Join(folder, "file"), "name": "x"}, {"connectionId": "a", "workspaceFolder": 1, "name": "x"},
		{"connectionId": "a", "workspaceFolder": folder, "name": ""},
	} {
		p.fails(-32602, containersDo+"connect", bad)
	}
	for _, method := range []string{"stop", "remove"} {
		p.fails(-32602, containersDo+method, object{})
		p.fails(-32602, containersDo+method, object{"workspaceFolder": "project"})
		p.fails(-32009, containersDo+method, object{"workspaceFolder": g.home})
	}
	p.fails(-32009, containersDo+"connect", object{"connectionId": "a", "workspaceFolder": g.home, "name": "x"})
	p.fails(-32008, containersDo+"connect", object{"connectionId": "a", "workspaceFolder": folder + "/none", "name": "x"})
	p.fails(-32602, containersDo+"relaySend", object{"connectionId": "a"})
	p.fails(-32008, containersDo+"disconnect", object{"connectionId": "a"})
	code := func(f object) any { e, _ := f["error"].(object); return e["code"] }
	if f := p.outcome(p.begins("a", folder, false)); code(f) != -32009.0 {
		t.Errorf("a folder that is not trusted: %v", f)
	}
	if f := p.outcome(p.begins("a", g.folder("other", "broken"), true)); code(f) != -32603.0 || !strings.Contains(show(f), "no such image") {
		t.Errorf("a container that does not come up: %v", f)
	}
	// Who gives up while it builds.
	request := p.begins("slow", g.folder("slow", "slow"), true)
	p.tells("output", "slow", "it builds")
	p.fails(-32008, containersDo+"relaySend", object{"connectionId": "slow", "data": "{}"})
	p.call(containersDo+"disconnect", object{"connectionId": "slow"})
	if f := p.outcome(request); f["error"] == nil {
		t.Errorf("%v", f)
	}
	// Who leaves while it builds leaves nothing behind: the gateway stops at once.
	p.begins("gone", g.folder("slow"), true)
	p.tells("output", "gone", "it builds")
	p.hangUp()
}

func TestAHostWithoutDevContainersSaysSo(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := g.connect("one")
	if r := p.request(containersDo+"isDockerAvailable", nil); r["result"] != false {
		t.Errorf("%v", r)
	}
	p.fails(-32009, containersDo+"connect", object{"connectionId": "a", "workspaceFolder": g.dir, "name": "x"})
	p.fails(-32009, containersDo+"disconnect", object{"connectionId": "a"})
	p.fails(-32009, containersDo+"relaySend", object{"connectionId": "a", "data": "{}"})
	p.fails(-32009, containersDo+"stop", object{"workspaceFolder": g.dir})
	p.fails(-32009, containersDo+"remove", object{"workspaceFolder": g.dir})
	with := contained(t)
	for gw, want := range map[*gateway]bool{g: false, with: true} {
		f, _ := gw.connect("two").wait(0, "the offer", func(f object) bool { r, _ := f["result"].(object); return r["_meta"] != nil })
		_, offered := f["result"].(object)["_meta"].(object)["vscode.devContainers"]
		if offered != want {
			t.Errorf("it is offered: %v, want %v", offered, want)
		}
	}
}
