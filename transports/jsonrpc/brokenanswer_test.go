package jsonrpc

import (
	"context"
	"errors"
	"testing"
)

// An answer that cannot be read is still the only one that will come: a call
// must not wait for its deadline because of it.
func TestBrokenAnswersEndTheirCalls(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{`{"id":"s1"}`, `{"id":"s1","error":null}`, `{"error":"no","id":"s1"}`,
		`{"id":"s1","error":{"code":"x","message":1}}`, `{"id":"s1","result":{},"error":[]}`} {
		e := connect(t, Options{})
		done := make(chan error, 1)
		go func() {
			_, err := e.peer.Call(context.Background(), "ask", nil)
			done <- err
		}()
		e.next()
		e.send(`{"id":"s1","method":5}`) // a broken request, whatever its id
		e.next()
		e.send("%s", answer)
		var refused *Error
		if err := <-done; !errors.As(err, &refused) {
			t.Errorf("%s: the call ends with %v", answer, err)
		}
	}
}
