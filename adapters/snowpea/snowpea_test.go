package snowpea

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
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

// patience is how long a test waits for what must come: long enough for the race
// detector on a busy machine.
const patience = 3 * time.Minute

// gateway is a host with this front on a loopback port.
type gateway struct {
	t     *testing.T
	home  string
	dir   string // working directory of sessions
	store store.Store

	host  *host.Host
	front *Front
	url   string // ws://…/ws
	http  *httptest.Server
	down  func()
	asked chan struct{} // closed when a client asked the program to stop
}

func newGateway(t *testing.T) *gateway {
	t.Helper()
	g := &gateway{t: t, home: t.TempDir(), dir: t.TempDir(), store: memstore.New()}
	g.up()
	t.Cleanup(func() { g.down() })
	return g
}

// up starts host and front; the store keeps what an earlier one left.
func (g *gateway) up() {
	g.t.Helper()
	log := slog.New(slog.NewTextHandler(g.t.Output(), nil))
	backend := demo.New()
	h, err := host.Open(context.Background(), host.Options{Store: g.store, DefaultDir: g.dir, Log: log, Grace: 50 * time.Millisecond,
		Backends: []host.NamedBackend{{Name: "demo", Backend: backend}}})
	if err != nil {
		g.t.Fatal(err)
	}
	ready, stopWaiting := context.WithTimeout(context.Background(), patience)
	defer stopWaiting()
	if err := h.AgentsReady(ready); err != nil {
		g.t.Fatal(err)
	}
	g.asked = make(chan struct{})
	var once sync.Once
	f, err := New(front.Deps{Host: h, Log: log, Home: g.home, Version: "0.0.1-test", Instance: "test",
		Shutdown: func() { once.Do(func() { close(g.asked) }) }})
	if err != nil {
		g.t.Fatal(err)
	}
	g.host, g.front = h, f.(*Front)
	g.http = httptest.NewServer(f.Listeners()[0].Handler)
	addr := strings.TrimPrefix(g.http.URL, "http://")
	if _, err := f.Bound(map[string]string{"": addr}); err != nil {
		g.t.Fatal(err)
	}
	g.url = "ws://" + addr + "/ws"
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := f.Run(ctx); err != nil {
			g.t.Error(err)
		}
	})
	g.down = func() {
		stop, done := context.WithTimeout(context.Background(), patience)
		defer done()
		f.Drain(stop)
		if err := h.Close(stop); err != nil {
			g.t.Error(err)
		}
		cancel()
		running.Wait()
		g.http.Close()
		if err := backend.Close(); err != nil {
			g.t.Error(err)
		}
		g.down = func() {}
	}
}

func (g *gateway) token() string {
	g.t.Helper()
	b, err := os.ReadFile(tokenPath(g.home))
	if err != nil {
		g.t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// message is anything that came over the socket.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *wireError      `json:"error"`
}

type wireError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    *struct {
		Code    string          `json:"code"`
		Details json.RawMessage `json:"details"`
	} `json:"data"`
}

func (e *wireError) word() string {
	if e == nil || e.Data == nil {
		return ""
	}
	return e.Data.Code
}

// sessionEvent is one event of a session.
type sessionEvent struct {
	SessionID string         `json:"sessionId"`
	Seq       uint64         `json:"seq"`
	Kind      string         `json:"kind"`
	Payload   map[string]any `json:"payload"`
	TS        string         `json:"ts"`
}

func (e sessionEvent) text(field string) string {
	s, _ := e.Payload[field].(string)
	return s
}

// client is one connection. Everything it gets is held against the protocol's
// own schemas.
type client struct {
	t  *testing.T
	ws *websocket.Conn
	id int

	write sync.Mutex

	mu     sync.Mutex
	got    []message
	events []sessionEvent
	news   chan struct{} // closed and replaced when something came
	closed error
}

// dial connects without saying hello.
func (g *gateway) dial() *client {
	g.t.Helper()
	ws, _, err := websocket.DefaultDialer.Dial(g.url, nil)
	if err != nil {
		g.t.Fatal(err)
	}
	c := &client{t: g.t, ws: ws, news: make(chan struct{})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.read()
	}()
	g.t.Cleanup(func() { ws.Close(); <-ended })
	return c
}

// hello connects and signs in.
func (g *gateway) hello(fields ...any) *client {
	g.t.Helper()
	c := g.dial()
	p := object(append([]any{"token", g.token(), "clientVersion", "1", "protocolVersion", "1.25.0"}, fields...)...)
	c.call("system.hello", p)
	return c
}

func (c *client) read() {
	for {
		_, data, err := c.ws.ReadMessage()
		c.mu.Lock()
		if err != nil {
			c.closed = err
			close(c.news)
			c.mu.Unlock()
			return
		}
		var m message
		if err := json.Unmarshal(data, &m); err != nil {
			c.t.Errorf("not JSON: %s", data)
		}
		c.got = append(c.got, m)
		if m.Method != "" && len(data) < checkedSize {
			checkNotification(c.t, m)
		}
		if m.Method == "session.event" {
			var e sessionEvent
			if err := json.Unmarshal(m.Params, &e); err != nil {
				c.t.Error(err)
			}
			c.events = append(c.events, e)
		}
		close(c.news)
		c.news = make(chan struct{})
		c.mu.Unlock()
	}
}

// checkedSize is the size from which messages are not held against their
// schema: they are streams of one kind, and it takes long with the race detector.
const checkedSize = 16 << 10

// parsed are the schemas that were needed so far, by their text.
var parsed sync.Map

func schemaOf(raw json.RawMessage) *schema {
	if s, ok := parsed.Load(string(raw)); ok {
		return s.(*schema)
	}
	s := mustSchema(raw)
	parsed.Store(string(raw), s)
	return s
}

// checkNotification holds a message from the server against its schema.
func checkNotification(t *testing.T, m message) {
	s := surface.Events[m.Method]
	if method, ok := surface.Methods[m.Method]; ok {
		s = method.Params
	}
	if s == nil {
		t.Errorf("%s is no message of the protocol", m.Method)
		return
	}
	if found := schemaOf(s).check(m.Params); len(found) > 0 {
		t.Errorf("%s does not fit its schema: %+v\n%s", m.Method, found, m.Params)
	}
	if m.Method == "session.event" {
		checkEvent(t, m.Params)
	}
}

func checkEvent(t *testing.T, raw []byte) {
	var e struct {
		Kind    string          `json:"kind"`
		Payload json.RawMessage `json:"payload"`
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		t.Error(err)
		return
	}
	s, ok := surface.SessionEventKinds[e.Kind]
	if !ok {
		t.Errorf("%q is no kind of event", e.Kind)
		return
	}
	schema := schemaOf(s)
	if found := schema.check(e.Payload); len(found) > 0 {
		t.Errorf("%s does not fit its schema: %+v\n%s", e.Kind, found, e.Payload)
	}
	var fields map[string]any
	if err := json.Unmarshal(e.Payload, &fields); err != nil {
		t.Error(err)
	}
	if _, ok := fields["kind"]; ok {
		t.Errorf("the payload of %s has a kind", e.Kind)
	}
	for name := range schema.Properties {
		if _, ok := fields[name]; !ok && name != "kind" {
			t.Errorf("the payload of %s lacks %s: a payload is complete", e.Kind, name)
		}
	}
}

// sendRaw writes one text frame as it is.
func (c *client) sendRaw(text string) {
	c.t.Helper()
	c.write.Lock()
	defer c.write.Unlock()
	if err := c.ws.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
		c.t.Fatal(err)
	}
}

// request sends a call and returns its id.
func (c *client) request(method string, params any) int {
	c.t.Helper()
	c.write.Lock()
	c.id++
	id := c.id
	c.write.Unlock()
	b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
	if err != nil {
		c.t.Fatal(err)
	}
	c.sendRaw(string(b))
	return id
}

// wait returns once pick finds what it looks for, or fails the test.
func (c *client) wait(what string, pick func() bool) {
	c.t.Helper()
	limit := time.After(patience)
	for {
		c.mu.Lock()
		found, news, closed := pick(), c.news, c.closed
		c.mu.Unlock()
		if found {
			return
		}
		if closed != nil {
			c.t.Fatalf("waiting for %s: %v", what, closed)
		}
		select {
		case <-news:
		case <-limit:
			c.mu.Lock()
			defer c.mu.Unlock()
			tail := ""
			for _, m := range c.got[max(0, len(c.got)-12):] {
				b, _ := json.Marshal(m)
				tail += "\n" + clip(string(b), 300)
			}
			c.t.Fatalf("%s did not come; the last messages were:%s", what, tail)
		}
	}
}

// answer waits for the answer to a call.
func (c *client) answer(id int) message {
	c.t.Helper()
	var out message
	from, want := 0, fmt.Sprint(id)
	c.wait("the answer to "+want, func() bool {
		for ; from < len(c.got); from++ {
			if m := c.got[from]; m.Method == "" && string(m.ID) == want {
				out = m
				return true
			}
		}
		return false
	})
	return out
}

// call does a request that must succeed.
func (c *client) call(method string, params any) map[string]any {
	c.t.Helper()
	m := c.answer(c.request(method, params))
	if m.Error != nil {
		c.t.Fatalf("%s %v: %+v", method, params, m.Error)
	}
	schema := schemaOf(surface.Methods[method].Result)
	if found := schema.check(m.Result); len(found) > 0 {
		c.t.Errorf("the answer of %s does not fit its schema: %+v\n%s", method, found, m.Result)
	}
	var out map[string]any
	if err := json.Unmarshal(m.Result, &out); err != nil {
		c.t.Fatal(err)
	}
	return out
}

// refused does a request that must fail with a word.
func (c *client) refused(method string, params any, word string) *wireError {
	c.t.Helper()
	m := c.answer(c.request(method, params))
	if m.Error.word() != word {
		c.t.Fatalf("%s %v: want %s, got %+v %s", method, params, word, m.Error, m.Result)
	}
	if want := surface.Errors[word]; m.Error.Code != want {
		c.t.Errorf("%s has number %d, want %d", word, m.Error.Code, want)
	}
	return m.Error
}

// note waits for a notification that pick takes.
func (c *client) note(method string, pick func(p map[string]any) bool) map[string]any {
	c.t.Helper()
	var out map[string]any
	from := 0
	c.wait(method, func() bool {
		for ; from < len(c.got); from++ {
			m := c.got[from]
			if m.Method != method {
				continue
			}
			var p map[string]any
			if json.Unmarshal(m.Params, &p) == nil && (pick == nil || pick(p)) {
				out = p
				return true
			}
		}
		return false
	})
	return out
}

// asked waits for the n-th request of a method from the server, from 1.
func (c *client) asked(method string, n int) (id json.RawMessage, params map[string]any) {
	c.t.Helper()
	c.wait(fmt.Sprintf("%s number %d", method, n), func() bool {
		seen := 0
		for _, m := range c.got {
			if m.Method == method && len(m.ID) > 0 {
				if seen++; seen == n {
					id = m.ID
					return json.Unmarshal(m.Params, &params) == nil
				}
			}
		}
		return false
	})
	return id, params
}

// reply answers a request from the server.
func (c *client) reply(id json.RawMessage, result any) {
	c.t.Helper()
	b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "result": result})
	if err != nil {
		c.t.Fatal(err)
	}
	c.sendRaw(string(b))
}

// session creates a session.
func (c *client) session(dir string, fields ...any) string {
	c.t.Helper()
	return c.call("session.create", object(append([]any{"workdir", dir}, fields...)...))["sessionId"].(string)
}

// prompt says something and returns the turn.
func (c *client) prompt(session, text string, fields ...any) string {
	c.t.Helper()
	return c.call("session.prompt", object(append([]any{"sessionId", session, "text", text}, fields...)...))["turnId"].(string)
}

// done waits for the end of a turn.
func (c *client) done(turn string) sessionEvent {
	c.t.Helper()
	return c.event("the end of the turn", func(e sessionEvent) bool { return e.Kind == "turn.done" && e.text("turnId") == turn })
}

// event waits for an event.
func (c *client) event(what string, pick func(sessionEvent) bool) sessionEvent {
	c.t.Helper()
	var out sessionEvent
	from := 0
	c.wait(what, func() bool {
		for ; from < len(c.events); from++ {
			if pick(c.events[from]) {
				out = c.events[from]
				return true
			}
		}
		return false
	})
	return out
}

// of returns the events of a session that have come.
func (c *client) of(session string) []sessionEvent {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []sessionEvent
	for _, e := range c.events {
		if e.SessionID == session {
			out = append(out, e)
		}
	}
	return out
}

// turnOf returns the events from a turn's start to its end.
func (c *client) turnOf(session, turn string) []sessionEvent {
	c.t.Helper()
	c.done(turn)
	var out []sessionEvent
	for _, e := range c.of(session) {
		if e.Kind == "turn.started" && e.text("turnId") == turn {
			out = nil
		}
		out = append(out, e)
		if e.Kind == "turn.done" && e.text("turnId") == turn {
			break
		}
	}
	return out
}

// kinds names the events, deltas in a row once.
func kinds(events []sessionEvent) string {
	var out []string
	for _, e := range events {
		if n := len(out); n > 0 && out[n-1] == e.Kind && strings.HasSuffix(e.Kind, "delta") {
			continue
		}
		out = append(out, e.Kind)
	}
	return strings.Join(out, " ")
}

// find returns the first event of a kind.
func find(t *testing.T, events []sessionEvent, kind string) sessionEvent {
	t.Helper()
	for _, e := range events {
		if e.Kind == kind {
			return e
		}
	}
	t.Fatalf("there is no %s in %s", kind, kinds(events))
	return sessionEvent{}
}

// row is a session as session.list shows it.
func (c *client) row(session string, fields ...any) map[string]any {
	c.t.Helper()
	for _, r := range c.call("session.list", object(fields...))["sessions"].([]any) {
		if row := r.(map[string]any); row["sessionId"] == session {
			return row
		}
	}
	return nil
}

func object(fields ...any) map[string]any {
	out := map[string]any{}
	for i := 0; i+1 < len(fields); i += 2 {
		out[fields[i].(string)] = fields[i+1]
	}
	return out
}

var tester = event.Actor{Front: "test", Client: "tester"}
