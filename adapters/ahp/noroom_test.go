package ahp

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// A client that asks for more than it reads gets every answer or is sent away;
// an answer that found no room is not dropped on an open connection.
func TestAnswersThatFindNoRoomAreNotLostInSilence(t *testing.T) {
	t.Parallel()
	const asked = 24
	g := newGateway(t)
	p := g.connect("maker")
	chat := p.session(g, sess)
	p.dispatch(chat, object{"type": "chat/turnStarted", "turnId": "t", "startedAt": "2026-01-02T03:04:05.678Z",
		"message": object{"text": "stream 100 20000", "origin": object{"kind": "user"}}})
	p.idle(chat, "t")

	slow, _, err := websocket.DefaultDialer.Dial(g.url(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	write := func(id int, method string, params object) {
		if err := slow.WriteJSON(object{"jsonrpc": "2.0", "id": id, "method": method, "params": params}); err != nil {
			t.Fatal(err)
		}
	}
	write(0, "initialize", object{"channel": rootURI, "protocolVersions": []string{"1.0.0"}, "clientId": "slow"})
	for i := range asked {
		write(i+1, "subscribe", object{"channel": chat})
	}
	for answers := 0; answers < asked+1; {
		_ = slow.SetReadDeadline(time.Now().Add(patience))
		_, data, err := slow.ReadMessage()
		var ce *websocket.CloseError
		if errors.As(err, &ce) {
			if ce.Code != websocket.ClosePolicyViolation {
				t.Fatalf("sent away with %v", err)
			}
			return
		}
		if err != nil {
			t.Fatalf("after %d answers of %d: %v", answers, asked+1, err)
		}
		var f object
		if json.Unmarshal(data, &f) == nil && f["method"] == nil {
			answers++
		}
	}
}

// Who has to look after a gateway reads which client was sent away.
func TestAClientThatFellBehindIsNamedInTheLog(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := g.connect("sleeper")
	g.front.mu.Lock()
	for c := range g.front.conns {
		c.tooSlow()
	}
	g.front.mu.Unlock()
	<-p.done
	g.stop() // connections are waited for
	for line := range bytes.Lines(g.book.Lines()) {
		if bytes.Contains(line, []byte("did not keep up")) && bytes.Contains(line, []byte("sleeper")) {
			return
		}
	}
	t.Errorf("the log does not name the client:\n%s", g.book.Lines())
}
