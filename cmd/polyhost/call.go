package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/gorilla/websocket"
	"github.com/spf13/cobra"

	"github.com/polyhost/polyhost/cmd/polyhost/internal/endpoints"
)

// dialect is how a client introduces itself on a front that speaks JSON-RPC
// over WebSocket.
type dialect struct {
	hello  string
	params func(token string) any
	// bearer: the token goes with the upgrade, not with the hello.
	bearer bool
	// empty is what a call without params sends.
	empty string
}

var dialects = map[string]dialect{
	"snowpea": {hello: "system.hello", empty: `{}`, params: func(token string) any {
		return map[string]any{"token": token, "clientVersion": version, "protocolVersion": "1.25.0", "clientKind": "cli"}
	}},
	"ahp": {hello: "initialize", bearer: true, empty: `{"channel":"ahp-root://"}`, params: func(string) any {
		return map[string]any{"channel": "ahp-root://", "protocolVersions": []string{"1.0.0"}, "clientId": fmt.Sprintf("polyhost-call-%d", os.Getpid())}
	}},
	"zidane": {hello: "ipc.hello", bearer: true, empty: `{}`, params: func(string) any {
		return map[string]any{"protocolVersion": 16, "appVersion": version}
	}},
}

func (p *program) call() *cobra.Command {
	var follow bool
	c := &cobra.Command{
		Use:   "call FRONT METHOD [PARAMS [METHOD PARAMS]...]",
		Short: "Call methods of a WebSocket front and print the results",
		Long: `Call methods of a front of the running gateway, one after another on one
connection, and print what each answers. The handshake is done for you. The
fronts are snowpea, ahp and zidane; bae and cognitio speak HTTP: use curl.`,
		Args: cobra.MinimumNArgs(2),
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "then print every message that comes, until interrupted")
	c.RunE = func(c *cobra.Command, args []string) error {
		d, ok := dialects[args[0]]
		if !ok {
			return fmt.Errorf("%s is not a front that speaks JSON-RPC over WebSocket", args[0])
		}
		home, err := p.source.Home()
		if err != nil {
			return err
		}
		e, err := endpoints.Read(home)
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt)
		defer stop()
		conn, err := dial(ctx, d, e.Fronts[args[0]])
		if err != nil {
			return err
		}
		defer conn.close()
		for step := range slices.Chunk(args[1:], 2) {
			params := d.empty
			if len(step) == 2 {
				params = step[1]
			}
			if !json.Valid([]byte(params)) {
				return fmt.Errorf("the parameters of %s are not JSON: %s", step[0], params)
			}
			result, err := conn.call(step[0], json.RawMessage(params))
			if err != nil {
				return fmt.Errorf("%s: %w", step[0], err)
			}
			if err := writeIndented(c.OutOrStdout(), result); err != nil {
				return err
			}
		}
		if follow {
			return conn.follow(ctx, c.OutOrStdout())
		}
		return nil
	}
	return c
}

func writeIndented(w io.Writer, raw json.RawMessage) error {
	b, err := json.MarshalIndent(raw, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", b)
	return err
}

// caller is a connection of `polyhost call`.
type caller struct {
	ws   *websocket.Conn
	next int
	stop func() bool
}

// reply is a message of the front's: an answer if it has neither method nor
// another id.
type reply struct {
	ID     any             `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
}

func dial(ctx context.Context, d dialect, entry json.RawMessage) (*caller, error) {
	var at struct {
		URL   string `json:"url"`
		Token string `json:"token"`
	}
	if entry == nil {
		return nil, errors.New("the running gateway does not serve this front")
	}
	if err := json.Unmarshal(entry, &at); err != nil {
		return nil, fmt.Errorf("read %s: %w", endpoints.File, err)
	}
	header := http.Header{}
	if d.bearer {
		header.Set("Authorization", "Bearer "+at.Token)
	}
	ws, resp, err := websocket.DefaultDialer.DialContext(ctx, at.URL, header)
	if err != nil {
		if resp != nil {
			err = fmt.Errorf("%w (%s)", err, resp.Status)
		}
		return nil, fmt.Errorf("connect to %s: %w", at.URL, err)
	}
	ws.SetReadLimit(maxReply)
	c := &caller{ws: ws, stop: context.AfterFunc(ctx, func() { _ = ws.SetReadDeadline(time.Now()) })}
	if _, err := c.call(d.hello, d.params(at.Token)); err != nil {
		c.close()
		return nil, fmt.Errorf("%s: %w", d.hello, err)
	}
	return c, nil
}

func (c *caller) close() {
	c.stop()
	_ = c.ws.Close()
}

// call sends a request and waits for its answer; what comes in between is
// passed over.
func (c *caller) call(method string, params any) (json.RawMessage, error) {
	c.next++
	deadline := time.Now().Add(callWithin)
	_ = c.ws.SetWriteDeadline(deadline)
	if err := c.ws.WriteJSON(map[string]any{"jsonrpc": "2.0", "id": c.next, "method": method, "params": params}); err != nil {
		return nil, err
	}
	_ = c.ws.SetReadDeadline(deadline)
	for {
		var m reply
		if err := c.ws.ReadJSON(&m); err != nil {
			return nil, err
		}
		if m.Method != "" || m.ID != float64(c.next) {
			continue
		}
		if m.Error != nil {
			return nil, fmt.Errorf("error %d: %s %s", m.Error.Code, m.Error.Message, m.Error.Data)
		}
		return m.Result, nil
	}
}

// follow prints messages until ctx ends or the front goes.
func (c *caller) follow(ctx context.Context, w io.Writer) error {
	_ = c.ws.SetReadDeadline(time.Time{})
	for ctx.Err() == nil {
		_, b, err := c.ws.ReadMessage()
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%s\n", b); err != nil {
			return err
		}
	}
	return nil
}
