package ahp

import (
	"bytes"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// A client that goes on reading gets all of a burst, as far behind as it may be.
// It only counts: one that reduces and checks every
// frame is too slow for a burst when the machine is busy.
func TestReaderIsNotCutOffByABurst(t *testing.T) {
	t.Parallel()
	const deltas = 50_000
	g := newGateway(t)
	p := g.connect("maker")
	p.echo(p.dispatch(rootURI, object{"type": "root/configChanged", "config": object{"clientQueueBytes": journalBehind}}))
	chat := p.session(g, sess)
	p.hangUp()

	ws, _, err := websocket.DefaultDialer.Dial(g.url(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	for _, m := range []object{
		{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": object{"channel": rootURI, "protocolVersions": []string{"1.0.0"}, "clientId": "reader"}},
		{"jsonrpc": "2.0", "id": 2, "method": "subscribe", "params": object{"channel": chat}},
		{"jsonrpc": "2.0", "method": "dispatchAction", "params": object{"channel": chat, "clientSeq": 1, "action": started("t1", "stream 50000 4")}},
	} {
		if err := ws.WriteJSON(m); err != nil {
			t.Fatal(err)
		}
	}
	for got := 0; ; {
		_ = ws.SetReadDeadline(time.Now().Add(patience))
		_, data, err := ws.ReadMessage()
		if err != nil {
			t.Fatalf("after %d deltas of %d: %v", got, deltas, err)
		}
		if bytes.Contains(data, []byte(`"chat/delta"`)) {
			got++
		}
		if bytes.Contains(data, []byte(`"chat/turnComplete"`)) {
			if got != deltas {
				t.Errorf("%d deltas, want %d", got, deltas)
			}
			return
		}
	}
}
