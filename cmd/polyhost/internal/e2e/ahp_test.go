//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/polyhost/polyhost/cmd/modelstub/stub"
)

// editor is a connection of the front ahp, in the chat of a session.
type editor struct {
	t       *testing.T
	ws      *websocket.Conn
	next    int
	session string
	chat    string
}

// frame is any message of the front.
type frame struct {
	ID     int             `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
	Params struct {
		Channel string `json:"channel"`
		Action  struct {
			Type   string          `json:"type"`
			TurnID string          `json:"turnId"`
			Error  json.RawMessage `json:"error"`
			Plugin struct {
				Load struct{ Kind, Message string } `json:"load"`
			} `json:"customization"`
		} `json:"action"`
		Rejection string `json:"rejectionReason"`
	} `json:"params"`
}

// edit opens a session of the agent on ahp.
func (r *rig) edit(t *testing.T, name string) *editor {
	t.Helper()
	ws, _, err := websocket.DefaultDialer.DialContext(t.Context(), strings.TrimSuffix(r.at["ahp"]["url"], "/")+"/?tkn="+r.at["ahp"]["token"], nil)
	if err != nil {
		t.Fatal(err)
	}
	session := r.cli.backend + ":/" + name
	e := &editor{t: t, ws: ws, session: session}
	t.Cleanup(func() { _ = ws.Close() })
	e.call("initialize", object{"channel": "ahp-root://", "protocolVersions": []string{"1.0.0"}, "clientId": name})
	e.call("createSession", object{"channel": session, "provider": r.cli.backend, "workingDirectories": []string{"file://" + r.place.Work}})
	var s struct {
		Snapshot struct{ State struct{ DefaultChat string } }
	}
	if err := json.Unmarshal(e.call("subscribe", object{"channel": session}), &s); err != nil {
		t.Fatal(err)
	}
	e.chat = s.Snapshot.State.DefaultChat
	e.call("subscribe", object{"channel": e.chat})
	return e
}

func (e *editor) send(v object) {
	e.t.Helper()
	v["jsonrpc"] = "2.0"
	if err := e.ws.WriteJSON(v); err != nil {
		e.t.Fatal(err)
	}
}

// until reads up to a message that is wanted.
func (e *editor) until(what string, wanted func(*frame) bool) *frame {
	e.t.Helper()
	for {
		var f frame
		err := e.ws.SetReadDeadline(time.Now().Add(patience))
		if err == nil {
			err = e.ws.ReadJSON(&f)
		}
		if err != nil {
			e.t.Fatalf("no %s: %v", what, err)
		}
		if f.Params.Rejection != "" || len(f.Error) > 0 {
			e.t.Fatalf("%s: refused: %s%s", what, f.Params.Rejection, f.Error)
		}
		if wanted(&f) {
			return &f
		}
	}
}

func (e *editor) call(method string, params object) json.RawMessage {
	e.t.Helper()
	e.next++
	id := e.next
	e.send(object{"id": id, "method": method, "params": params})
	return e.until(method, func(f *frame) bool { return f.ID == id }).Result
}

// act does something to the chat and waits for what is to come of it.
func (e *editor) act(action object, then string) {
	e.t.Helper()
	e.next++
	e.send(object{"method": "dispatchAction", "params": object{"channel": e.chat, "clientSeq": e.next, "action": action}})
	e.until(then, func(f *frame) bool {
		a := f.Params.Action
		if a.Type == "chat/error" {
			e.t.Fatalf("the turn %s failed: %s", a.TurnID, a.Error)
		}
		return f.Params.Channel == e.chat && a.Type == then && a.TurnID == action["turnId"]
	})
}

func (e *editor) says(turn, text string) {
	e.t.Helper()
	e.act(object{"type": "chat/turnStarted", "turnId": turn, "startedAt": time.Now().UTC().Format("2006-01-02T15:04:05.000Z"),
		"message": object{"text": text, "origin": object{"kind": "user"}}}, "chat/turnComplete")
}

// forgot takes turns back, and goes on, and does so again.
func forgot(t *testing.T, r *rig) {
	e := r.edit(t, "taken-back")
	e.says("t1", "text: what stays")
	e.says("t2", "say 21 words")
	e.says("t3", "text: a mistake")
	e.act(object{"type": "chat/truncated", "turnId": "t1"}, "chat/truncated")
	e.says("t4", "say 22 words")
	e.says("t5", "say 23 words")
	e.act(object{"type": "chat/truncated", "turnId": "t4"}, "chat/truncated")
	e.says("t6", "say 24 words")
	sent := func(step string) int {
		t.Helper()
		asked := r.asks(t, step)
		if len(asked) == 0 {
			t.Fatal("the model was not asked to " + step)
		}
		return asked[0].Messages
	}
	// Each is asked after the first turn, or after that and the fourth.
	if after1, back1, after4, back4 := sent("say 21 words"), sent("say 22 words"), sent("say 23 words"), sent("say 24 words"); back1 != after1 || after4 <= after1 || back4 != after4 {
		t.Errorf("after the first turn the model was sent %d messages, and once the later ones were taken back %d; after the fourth %d and %d", after1, back1, after4, back4)
	}
}

// brings says what the editor has for the session: a plugin in a folder, or
// nothing.
func (e *editor) brings(client, dir string) {
	e.t.Helper()
	list := []object{}
	if dir != "" {
		list = append(list, object{"type": "plugin", "id": "p", "uri": "file://" + dir, "name": "tools", "nonce": "1"})
	}
	e.next++
	e.send(object{"method": "dispatchAction", "params": object{"channel": e.session, "clientSeq": e.next, "action": object{
		"type": "session/activeClientSet", "activeClient": object{"clientId": client, "tools": []object{}, "customizations": list}}}})
	if dir == "" {
		return
	}
	e.until("the plugin", func(f *frame) bool {
		load := f.Params.Action.Plugin.Load
		if load.Kind == "error" {
			e.t.Fatalf("the plugin: %s", load.Message)
		}
		return load.Kind == "loaded"
	})
}

// plugged asks for a plugin's command, which is a prompt of the plugin's, in a
// session that went on before it came and goes on when it is gone.
func plugged(t *testing.T, r *rig) {
	dir := filepath.Join(t.TempDir(), "tools")
	write(t, filepath.Join(dir, "commands", "wave.md"), "say 31 words\n")
	const client = "plugged"
	e := r.edit(t, client)
	e.says("t1", "say 30 words")
	e.brings(client, dir)
	e.says("t2", "/tools:wave")
	e.brings(client, "")
	e.says("t3", "say 32 words")
	before, plugin, after := r.asks(t, "say 30 words"), r.asks(t, "say 31 words"), r.asks(t, "say 32 words")
	if len(before) == 0 || len(plugin) == 0 || len(after) == 0 {
		t.Fatalf("the model was asked %d, %d and %d times", len(before), len(plugin), len(after))
	}
	if a, b, c := before[0].Messages, plugin[0].Messages, after[0].Messages; a >= b || b >= c {
		t.Errorf("the model was sent %d, %d and %d messages: not one conversation", a, b, c)
	}
}

// sourced has scripts in place of one another precede the agent's commands.
func sourced(t *testing.T, r *rig) {
	e := r.edit(t, "sourced")
	configure := func(config object) {
		t.Helper()
		e.next++
		e.send(object{"method": "dispatchAction", "params": object{"channel": e.session, "clientSeq": e.next,
			"action": object{"type": "session/configChanged", "config": config}}})
		e.until("the setting", func(f *frame) bool { return f.Params.Action.Type == "session/configChanged" })
	}
	configure(object{"mode": "autopilot"})
	for turn, scripts := range map[string][]object{
		"one":  {{"shell": "bash", "script": "echo noise >&2; export VENV=one\n"}},
		"two":  {{"shell": "powershell", "script": "exit 9"}, {"shell": "bash", "script": "export VENV=two"}},
		"none": {},
	} {
		configure(object{"shellInitScripts": scripts})
		e.says(turn, "run: echo ${VENV:-none} > sourced-"+turn+".txt 2>&1")
		if b, err := os.ReadFile(filepath.Join(r.place.Work, "sourced-"+turn+".txt")); err != nil || string(b) != turn+"\n" {
			t.Errorf("the command of %s wrote %q, %v", turn, b, err)
		}
	}
}

// wentOn resumes a turn that the model refuses, which it does again, with what
// was there and one message more.
func wentOn(t *testing.T, r *rig) {
	e := r.edit(t, "unlucky")
	e.says("t1", "text: what went well")
	e.fails("t2", object{"type": "chat/turnStarted", "turnId": "t2", "startedAt": time.Now().UTC().Format("2006-01-02T15:04:05.000Z"),
		"message": object{"text": "fail 400", "origin": object{"kind": "user"}}})
	before := r.asks(t, "fail 400")
	e.fails("t2", object{"type": "chat/turnResume", "turnId": "t2"})
	after := r.asks(t, "fail 400")
	if len(before) == 0 || len(after) <= len(before) {
		t.Fatalf("the model was asked %d times, and %d when the turn was resumed", len(before), len(after))
	}
	most := func(seen []stub.Seen) (n int) {
		for _, s := range seen {
			n = max(n, s.Messages)
		}
		return n
	}
	if most(after) < most(before) {
		t.Errorf("the model was sent %d messages, and %d when the turn was resumed", most(before), most(after))
	}
	e.says("t3", "text: and on")
}

// fails does something to the chat that makes a turn fail.
func (e *editor) fails(turn string, action object) {
	e.t.Helper()
	e.next++
	e.send(object{"method": "dispatchAction", "params": object{"channel": e.chat, "clientSeq": e.next, "action": action}})
	e.until("the turn's failure", func(f *frame) bool {
		return f.Params.Channel == e.chat && f.Params.Action.Type == "chat/error" && f.Params.Action.TurnID == turn
	})
}
