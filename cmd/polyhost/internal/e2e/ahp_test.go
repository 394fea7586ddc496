//go:build e2e

package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// editor is a connection of the front ahp, in the chat of a session.
type editor struct {
	t    *testing.T
	ws   *websocket.Conn
	next int
	chat string
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
	e := &editor{t: t, ws: ws}
	session := r.cli.backend + ":/" + name
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
