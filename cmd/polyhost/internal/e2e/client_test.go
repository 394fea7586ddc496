//go:build e2e

package e2e

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// client is a connection of Snowpea with a tool of its own.
type client struct {
	t    *testing.T
	ws   *websocket.Conn
	next int
	run  func(name string, args json.RawMessage) string // its tools
}

func (r *rig) client(t *testing.T, run func(string, json.RawMessage) string) *client {
	t.Helper()
	ws, _, err := websocket.DefaultDialer.DialContext(t.Context(), r.at["snowpea"]["url"], nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.Close() })
	c := &client{t: t, ws: ws, run: run}
	c.call("system.hello", object{"token": r.at["snowpea"]["token"], "clientVersion": "1", "protocolVersion": "1.25.0", "clientKind": "desktop"})
	return c
}

type packet struct {
	ID     any             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// call calls a method, and runs tools until it is answered.
func (c *client) call(method string, params any) json.RawMessage {
	c.t.Helper()
	c.next++
	if err := c.ws.WriteJSON(object{"jsonrpc": "2.0", "id": c.next, "method": method, "params": params}); err != nil {
		c.t.Fatal(err)
	}
	for {
		p, err := c.read()
		if err != nil {
			c.t.Fatalf("%s: %v", method, err)
		}
		if p.Method == "" && p.ID == float64(c.next) {
			if p.Error != nil {
				c.t.Fatalf("%s: %s", method, p.Error)
			}
			return p.Result
		}
	}
}

// serve runs tools until the test is over.
func (c *client) serve() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			if _, err := c.read(); err != nil {
				return
			}
		}
	}()
	c.t.Cleanup(func() { _ = c.ws.Close(); <-done })
}

// read reads a message, having run the tool that it asks for.
func (c *client) read() (p packet, err error) {
	if err := c.ws.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return p, err
	}
	if err := c.ws.ReadJSON(&p); err != nil {
		return p, err
	}
	if p.Method != "tool.invoke" {
		return p, nil
	}
	var in struct {
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	}
	if err := json.Unmarshal(p.Params, &in); err != nil {
		return p, err
	}
	return p, c.ws.WriteJSON(object{"jsonrpc": "2.0", "id": p.ID, "result": object{"ok": true, "output": c.run(in.Name, in.Args)}})
}
