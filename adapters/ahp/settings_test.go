package ahp

import (
	"context"
	"encoding/json"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// configured is what a client reads of the root's settings.
func (p *peer) configured() object {
	p.t.Helper()
	return p.subscribe(rootURI)["state"].(object)["config"].(object)["values"].(object)
}

// settingsPush is what an editor says of its settings when it connects.
func settingsPush(config object) object {
	return object{"jsonrpc": "2.0", "method": "dispatchAction", "params": object{"channel": rootURI, "clientSeq": 0,
		"action": object{"type": "root/configChanged", "config": config}}}
}

func TestSettingsThatEditorsPushAreKeptAndShownToAll(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p, q := g.connect("editor"), g.connect("watcher")
	env := p.echo(p.dispatch(rootURI, object{"type": "root/configChanged", "config": object{
		"telemetryLevel": "off", "http.noProxy": []string{"a"}, "artifactToolsCompactPrompts": true, "agentMerge.enabled": "yes",
		"terminalAutoApproveRules": object{"ls": true}}}))
	if env["rejectionReason"] != nil {
		t.Fatalf("all was refused: %v", env)
	}
	refused, _ := p.wait(0, "the refusal of what is not declared", func(f object) bool {
		env, _ := f["params"].(object)
		return env["rejectionReason"] != nil
	})
	reason := refused["params"].(object)["rejectionReason"].(string)
	if !strings.Contains(reason, "artifactToolsCompactPrompts: there is no such setting") || !strings.Contains(reason, "agentMerge.enabled: want boolean") {
		t.Errorf("the reason is %q", reason)
	}
	config := refused["params"].(object)["action"].(object)["config"].(object)
	if len(config) != 2 {
		t.Errorf("the refusal is of %v", config)
	}
	want := `{"http.noProxy":["a"],"telemetryLevel":"off","terminalAutoApproveRules":{"ls":true}}`
	q.until(rootURI, "the settings", func(s object) bool { return show(s["config"].(object)["values"]) == want })
	if got := show(g.connect("late").configured()); got != want {
		t.Errorf("a client that comes later reads %s", got)
	}
	g.stop()
	g.start()
	if got := show(g.connect("later").configured()); got != want {
		t.Errorf("after a restart they are %s", got)
	}
}

func TestSettingsOfAClientThatLeavesAreWhatIsStored(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.connect("editor")
	g.front.mu.Lock()
	var c *conn
	for c = range g.front.conns {
		break
	}
	g.front.mu.Unlock()
	left, leave := context.WithCancel(t.Context())
	leave()
	for i := range 40 { // whether the store or the leaving is heard first is chance
		a := &action{conn: c, uri: rootURI, origin: origin{"editor", json.Number(strconv.Itoa(i))}}
		_ = a.pushSettings(left, values{keyTools: encode(i%2 == 0)}, nil, false, nil)
		b, err := g.host.KV(front).Get(t.Context(), settingsKey)
		if err != nil {
			t.Fatal(err)
		}
		g.front.settings.mu.Lock()
		now := g.front.settings.values
		g.front.settings.mu.Unlock()
		if got := string(encode(now)); got != string(b) {
			t.Fatalf("%s counts, stored is %s", got, b)
		}
	}
}

func TestAPushOfTheSameSettingsIsAnsweredToItsSenderAlone(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p, q := g.connect("editor"), g.connect("watcher")
	push := settingsPush(object{"telemetryLevel": "off", "http.proxy": "", "workspaceTrust": object{"enabled": false, "trustedUris": []string{}}})
	for range 3 {
		p.send(push)
	}
	answered := 0
	p.wait(0, "three answers", func(f object) bool {
		env, _ := f["params"].(object)
		if o, _ := env["origin"].(object); o["clientId"] == "editor" && env["rejectionReason"] == nil {
			answered++
		}
		return answered == 4 // the first one says the connection's own apart
	})
	q.call("ping", object{"channel": rootURI})
	told := 0
	q.mu.Lock()
	for _, f := range q.frames {
		if f["method"] == "action" {
			told++
		}
	}
	q.mu.Unlock()
	if told != 1 {
		t.Errorf("the other client was told %d times", told)
	}
}

func TestAShellIsTheConnectionsOwn(t *testing.T) {
	t.Parallel()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	g := newGateway(t)
	p, q := g.connect("editor"), g.connect("other")
	p.echo(p.dispatch(rootURI, object{"type": "root/configChanged", "config": object{"defaultShell": sh}}))
	if got := p.configured()["defaultShell"]; got != sh {
		t.Errorf("it reads back as %v", got)
	}
	if got := q.configured(); got["defaultShell"] != nil {
		t.Errorf("another client reads %v", got)
	}
	p.call("createTerminal", object{"channel": "ahp-terminal:/mine", "claim": object{"kind": "client", "clientId": "editor"}})
	if title := p.subscribe("ahp-terminal:/mine")["state"].(object)["title"]; title != "sh" {
		t.Errorf("the terminal runs %v", title)
	}
	env := p.echo(p.dispatch(rootURI, object{"type": "root/configChanged", "config": object{"defaultShell": "sh"}}))
	if reason, _ := env["rejectionReason"].(string); !strings.Contains(reason, "absolute") {
		t.Errorf("a relative shell: %v", env)
	}
	// Another client's replacement of what is shared takes nothing of it away.
	q.echo(q.dispatch(rootURI, object{"type": "root/configChanged", "replace": true, "config": object{"telemetryLevel": "off"}}))
	p.until(rootURI, "its own shell beside what was replaced", func(s object) bool {
		v := s["config"].(object)["values"].(object)
		return v["telemetryLevel"] == "off" && v["defaultShell"] == sh
	})
}

func TestBoundsOfWhatIsKeptAreBounded(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := g.connect("editor")
	for _, config := range []object{{"clientQueueBytes": 1<<20 - 1}, {"replayBytes": 1 << 40}, {"replayBytes": 1.5e6 + 0.5},
		{"mcpServers": object{"x": strings.Repeat("x", maxSetting)}}, {"workspaceTrust": object{"enabled": true}}} {
		env := p.echo(p.dispatch(rootURI, object{"type": "root/configChanged", "config": config}))
		if env["rejectionReason"] == nil {
			t.Errorf("%.80v was taken", config)
		}
	}
	if env := p.echo(p.dispatch(rootURI, object{"type": "root/configChanged", "config": object{"replayBytes": 1 << 20}})); env["rejectionReason"] != nil {
		t.Fatalf("refused: %v", env)
	}
	chat := p.session(g, "demo:/kept")
	p.dispatch(chat, started("t1", "stream 40 65536"))
	p.idle(chat, "t1")
	g.front.journal.mu.Lock()
	kept := g.front.journal.bytes
	g.front.journal.mu.Unlock()
	if kept > 2<<20 {
		t.Errorf("%d bytes are kept for replay", kept)
	}
}

func TestAClientThatReadsNothingIsClosedAndComesBack(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := g.connect("editor")
	p.echo(p.dispatch(rootURI, object{"type": "root/configChanged", "config": object{"clientQueueBytes": 1 << 20}}))
	p.call("createSession", object{"channel": "demo:/slow", "provider": "demo"})
	chat := p.call("subscribe", object{"channel": "demo:/slow"})["snapshot"].(object)["state"].(object)["defaultChat"].(string)
	g.front.mu.Lock()
	before := len(g.front.conns)
	g.front.mu.Unlock()
	slow := g.deaf("slow", chat)
	defer slow.Close()
	began := time.Now()
	p.dispatch(chat, started("t1", "stream 400 65536"))
	deadline := time.Now().Add(patience)
	for {
		g.front.mu.Lock()
		now := len(g.front.conns)
		g.front.mu.Unlock()
		if now == before {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the client that reads nothing is still there after %v", time.Since(began))
		}
		time.Sleep(10 * time.Millisecond)
	}
	back := g.dial("slow")
	res := back.call("reconnect", object{"clientId": "slow", "lastSeenServerSeq": 1, "subscriptions": []string{chat}})
	if res["type"] != "replay" && res["type"] != "snapshot" {
		t.Errorf("it is answered %v", res["type"])
	}
}
