package zidane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"go.uber.org/goleak"

	"github.com/polyhost/polyhost/adapters/front"
	"github.com/polyhost/polyhost/backends/demo"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/store"
	"github.com/polyhost/polyhost/core/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of the tests.
const patience = 3 * time.Minute

// gateway is a front over a host with the demo agent, on a real port.
type gateway struct {
	t     testing.TB
	home  string
	root  string
	store store.Store
	host  *host.Host
	front *Front
	url   string // http://127.0.0.1:port
	stop  func()
	early func() // runs when clients are served and the front does not run yet
}

// newGateway starts one; stop, or the end of the test, ends it.
func newGateway(t testing.TB) *gateway {
	t.Helper()
	root, err := os.MkdirTemp(t.TempDir(), "work")
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{t: t, home: t.TempDir(), root: root, store: memstore.New()}
	g.start()
	t.Cleanup(func() { g.stop(); _ = g.store.Close() })
	return g
}

func (g *gateway) start() {
	g.t.Helper()
	h, err := host.Open(context.Background(), host.Options{Store: g.store, DefaultDir: g.root,
		Backends: []host.NamedBackend{{Name: "demo", Backend: demo.New()}}, Grace: time.Millisecond})
	if err != nil {
		g.t.Fatal(err)
	}
	if err := h.AgentsReady(context.Background()); err != nil {
		g.t.Fatal(err)
	}
	made, err := New(front.Deps{Host: h, Home: g.home, Version: "1.2.3"})
	if err != nil {
		g.t.Fatal(err)
	}
	g.host, g.front = h, made.(*Front)
	server := httptest.NewServer(g.front.Listeners()[0].Handler)
	g.url = server.URL
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	if g.early != nil {
		g.early()
	}
	go func() { ran <- g.front.Run(ctx) }()
	stopped := false
	g.stop = func() {
		if stopped {
			return
		}
		stopped = true
		within, done := context.WithTimeout(context.Background(), patience)
		defer done()
		if err := h.Close(within); err != nil {
			g.t.Errorf("close host: %v", err)
		}
		g.front.Drain(within)
		cancel()
		if err := <-ran; err != nil {
			g.t.Errorf("run: %v", err)
		}
		server.Close()
	}
}

// client is a zidane app: a connection that reads everything it is sent.
type client struct {
	t      testing.TB
	g      *gateway
	ws     *websocket.Conn
	lastID int
	// pushed are the signals that arrived and were not looked at yet.
	pushed []signal
	hello  map[string]any
	// answers are those that came while another was awaited, by id.
	answers map[string]reply
	early   map[string]bool // ids that wait for an answer
}

// signal is a pushed signal.
type signal map[string]any

func (s signal) kind() string { return fmt.Sprint(s["kind"]) }
func (s signal) seq() int {
	n, _ := s["$seq"].(float64)
	return int(n)
}
func (s signal) session() string { return fmt.Sprint(s["sessionId"]) }

// reply is an answer.
type reply struct {
	ID     json.RawMessage `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
}

// dial opens a connection without a handshake.
func (g *gateway) dial() *client {
	g.t.Helper()
	ws, resp, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(g.url, "http")+"/", http.Header{"Authorization": {"Bearer " + g.front.token}})
	if err != nil {
		g.t.Fatalf("dial: %v %v", err, resp)
	}
	c := &client{t: g.t, g: g, ws: ws, answers: map[string]reply{}, early: map[string]bool{}}
	g.t.Cleanup(func() { ws.Close() })
	return c
}

// connect opens a connection and says hello.
func (g *gateway) connect() *client {
	g.t.Helper()
	c := g.dial()
	c.hello = c.ok("ipc.hello", `{"protocolVersion":16,"appVersion":"test","pid":1}`)
	return c
}

// emptied waits until the front has no connection.
func (g *gateway) emptied() {
	g.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		g.front.mu.Lock()
		n := len(g.front.conns)
		g.front.mu.Unlock()
		if n == 0 {
			return
		}
		if time.Now().After(deadline) {
			g.t.Fatalf("%d connections are left", n)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (c *client) close() { c.ws.Close() }

func (c *client) write(text string) {
	c.t.Helper()
	_ = c.ws.SetWriteDeadline(time.Now().Add(patience))
	if err := c.ws.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
		c.t.Fatalf("write: %v", err)
	}
}

// read gives the next frame.
func (c *client) read() []byte {
	c.t.Helper()
	data, err := c.tryRead(patience)
	if err != nil {
		c.t.Fatalf("read: %v", err)
	}
	return data
}

func (c *client) tryRead(wait time.Duration) ([]byte, error) {
	_ = c.ws.SetReadDeadline(time.Now().Add(wait))
	_, data, err := c.ws.ReadMessage()
	return data, err
}

// begin sends a request and returns its id.
func (c *client) begin(method, params string) string {
	c.t.Helper()
	c.lastID++
	c.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, c.lastID, method, params))
	id := fmt.Sprint(c.lastID)
	c.early[id] = true
	return id
}

// await reads until the answer of that id; signals on the way are kept.
func (c *client) await(id string) reply {
	c.t.Helper()
	if r, ok := c.answers[id]; ok {
		delete(c.answers, id)
		return r
	}
	for {
		var m struct {
			reply
			Method string `json:"method"`
			Params signal `json:"params"`
		}
		data := c.read()
		if err := json.Unmarshal(data, &m); err != nil {
			c.t.Fatalf("%s: %v", data, err)
		}
		if m.Method == "ipc.signal" {
			c.pushed = append(c.pushed, m.Params)
			continue
		}
		if c.early[string(m.ID)] && string(m.ID) != id {
			c.answers[string(m.ID)] = m.reply
			continue
		}
		if string(m.ID) != id {
			c.t.Fatalf("waiting for the answer to %s, got %s", id, data)
		}
		return m.reply
	}
}

func (c *client) call(method, params string) reply {
	c.t.Helper()
	return c.await(c.begin(method, params))
}

// ok is call for what must succeed.
func (c *client) ok(method, params string) map[string]any {
	c.t.Helper()
	r := c.call(method, params)
	if r.Error != nil {
		c.t.Fatalf("%s %s: %d %s", method, params, r.Error.Code, r.Error.Message)
	}
	var out map[string]any
	if err := json.Unmarshal(r.Result, &out); err != nil {
		c.t.Fatalf("%s: %s: %v", method, r.Result, err)
	}
	return out
}

// fails is call for what must not; it returns the message.
func (c *client) fails(code int, method, params string) string {
	c.t.Helper()
	r := c.call(method, params)
	if r.Error == nil {
		c.t.Fatalf("%s %s succeeded: %s", method, params, r.Result)
	}
	if r.Error.Code != code {
		c.t.Fatalf("%s %s: %d %s, want %d", method, params, r.Error.Code, r.Error.Message, code)
	}
	return r.Error.Message
}

// next gives the next signal that take picks, and drops those before it.
func (c *client) next(what string, take func(signal) bool) signal {
	c.t.Helper()
	for {
		for i, s := range c.pushed {
			if take(s) {
				c.pushed = c.pushed[i+1:]
				return s
			}
		}
		c.pushed = nil
		var m struct {
			reply
			Method string `json:"method"`
			Params signal `json:"params"`
		}
		data, err := c.tryRead(patience)
		if err != nil {
			c.t.Fatalf("waiting for %s: %v", what, err)
		}
		if err := json.Unmarshal(data, &m); err != nil {
			c.t.Fatalf("waiting for %s, got %s", what, data)
		}
		switch {
		case m.Method == "ipc.signal":
			c.pushed = append(c.pushed, m.Params)
		case c.early[string(m.ID)]:
			c.answers[string(m.ID)] = m.reply
		default:
			c.t.Fatalf("waiting for %s, got %s", what, data)
		}
	}
}

func (c *client) nextKind(kind string) signal {
	c.t.Helper()
	return c.next(kind, func(s signal) bool { return s.kind() == kind })
}

// until collects the signals of a session up to one of a kind.
func (c *client) until(session, kind string) []signal {
	c.t.Helper()
	var out []signal
	for {
		s := c.next(kind, func(s signal) bool { return s.session() == session })
		out = append(out, s)
		if s.kind() == kind {
			return out
		}
	}
}

func (c *client) newSession() string {
	c.t.Helper()
	return c.ok("sessions.create", `{"cwd":""}`)["id"].(string)
}

// send runs a prompt to its end and returns the signals of the run.
func (c *client) send(session, prompt string) []signal {
	c.t.Helper()
	c.ok("chat.send", fmt.Sprintf(`{"sessionId":%q,"prompt":%s}`, session, encode(prompt)))
	return c.until(session, "run:end")
}

// elsewhere is a client of another front: it uses the core.
var elsewhere = event.Actor{Front: "elsewhere", Client: "1", Name: "another front"}

// closeCode reads until the connection ends and returns its close code.
func (c *client) closeCode() (int, string) {
	c.t.Helper()
	for {
		_, err := c.tryRead(patience)
		var closed *websocket.CloseError
		switch {
		case err == nil:
		case errors.As(err, &closed):
			return closed.Code, closed.Text
		default:
			var netErr net.Error
			if errors.As(err, &netErr) && netErr.Timeout() {
				c.t.Fatalf("not closed: %v", err)
			}
			return 0, err.Error()
		}
	}
}

func text(signals []signal) string {
	var b strings.Builder
	for _, s := range signals {
		if ev, ok := s["event"].(map[string]any); ok && ev["kind"] == "markdown" {
			b.WriteString(ev["text"].(string))
		}
	}
	return b.String()
}

func kinds(signals []signal) (out []string) {
	for _, s := range signals {
		out = append(out, s.kind())
	}
	return out
}
