package zidane

import "testing"

// Drafts are noted before they are checked: those that are refused must not
// stay with the connection, or a client could fill the memory with them.
func TestRefusedDraftsAreNotKept(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.connect()
	c.write(`{"jsonrpc":"2.0","method":"drafts.set","params":{"sessionId":"a","text":5}}`)
	c.write(`{"jsonrpc":"2.0","method":"drafts.set","params":{"sessionId":"b"}}`)
	c.write(`{"jsonrpc":"2.0","method":"drafts.set","params":{"sessionId":"c","text":"x"}}`)
	c.fails(codeHandlerFailed, "drafts.set", `{"sessionId":"c","text":"y"}`) // behind them in their queue
	g.front.mu.Lock()
	defer g.front.mu.Unlock()
	for conn := range g.front.conns {
		conn.mu.Lock()
		if len(conn.drafts) > 0 {
			t.Errorf("%d refused drafts are kept", len(conn.drafts))
		}
		conn.mu.Unlock()
	}
}
