package bae

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/polyhost/polyhost/adapters/front"
	"github.com/polyhost/polyhost/backends/demo"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what a test waits for, silence what it takes for nothing.
const (
	patience = 3 * time.Minute
	silence  = 150 * time.Millisecond
)

// gateway is a BAE front on real sockets with the demo agent.
type gateway struct {
	t      *testing.T
	f      *Front
	host   *host.Host
	store  *memstore.Store
	home   string
	url    string
	admin  string
	http   *http.Client
	stop   func()
	agents []host.NamedBackend
}

type options struct {
	store       *memstore.Store
	home        string
	agent       agent.Backend
	turnTimeout time.Duration
	ringEvents  int
}

func start(t *testing.T, o options) *gateway {
	t.Helper()
	if o.store == nil {
		o.store, o.home = memstore.New(), t.TempDir()
	}
	if o.agent == nil {
		o.agent = demo.New()
	}
	g := &gateway{t: t, store: o.store, home: o.home, agents: []host.NamedBackend{{Name: "demo", Backend: o.agent}}}
	var err error
	g.host, err = host.Open(t.Context(), host.Options{Store: o.store, DefaultDir: t.TempDir(), Backends: g.agents, Grace: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.host.AgentsReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	set := settings{keyCost: cost{8, 1}, sessionCost: cost{8, 1}, turnTimeout: o.turnTimeout,
		ringEvents: o.ringEvents, ringBytes: 4 << 20}
	if set.turnTimeout == 0 {
		set.turnTimeout = patience
	}
	if o.ringEvents == 0 {
		set.ringEvents = 4096
	}
	g.f, err = newFront(front.Deps{Host: g.host, Log: slog.New(slog.DiscardHandler), Home: o.home, Version: "1.2.3"}, set)
	if err != nil {
		t.Fatal(err)
	}
	made := front.Front(g.f)
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() {
		if err := made.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	listeners := made.Listeners()
	client, admin := httptest.NewServer(listeners[0].Handler), httptest.NewServer(listeners[1].Handler)
	g.url, g.admin = client.URL, admin.URL
	transport := &http.Transport{}
	g.http = &http.Client{Transport: transport}
	g.stop = sync.OnceFunc(func() {
		end, stop := context.WithTimeout(context.Background(), patience)
		defer stop()
		made.Drain(end)
		if err := g.host.Close(end); err != nil {
			t.Error(err)
		}
		cancel()
		run.Wait()
		transport.CloseIdleConnections()
		client.Close()
		admin.Close()
		o.agent.Close()
	})
	t.Cleanup(g.stop)
	return g
}

// answer is an HTTP answer.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) json(t *testing.T) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(a.body, &m); err != nil {
		t.Fatalf("not an object: %q", a.body)
	}
	return m
}

// do sends a request; body may be a string or something to encode.
func (g *gateway) do(method, url, key string, body any) answer {
	g.t.Helper()
	var r io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		r = strings.NewReader(b)
	default:
		r = bytes.NewReader(mustJSON(b))
	}
	req, err := http.NewRequestWithContext(g.t.Context(), method, url, r)
	if err != nil {
		g.t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	res, err := g.http.Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, b}
}

// client is a participant of a session.
type client struct {
	g        *gateway
	id       string // of the client key
	key, ses string
}

type obj = map[string]any

// tool declares a tool by its name.
func tool(names ...string) []obj {
	out := []obj{}
	for _, n := range names {
		out = append(out, obj{"name": n})
	}
	return out
}

func (g *gateway) clientKey(name string) (id, key string) {
	g.t.Helper()
	a := g.do("POST", g.admin+"/admin/v1/keys", g.f.defaults.Admin, obj{"name": name, "profile_id": g.f.defaults.Profile})
	if a.status != 201 {
		g.t.Fatalf("make key: %d %s", a.status, a.body)
	}
	m := a.json(g.t)
	return m["id"].(string), m["key"].(string)
}

// open opens a session with the default client key.
func (g *gateway) open(body any) *client {
	g.t.Helper()
	return g.opened(g.do("POST", g.url+"/api/v1/sessions", g.f.defaults.Client, body), g.f.defaults.ClientID)
}

func (g *gateway) opened(a answer, id string) *client {
	g.t.Helper()
	if a.status != 201 {
		g.t.Fatalf("open: %d %s", a.status, a.body)
	}
	m := a.json(g.t)
	return &client{g, id, m["session_key"].(string), m["session_id"].(string)}
}

// join joins a session with a client key of its own.
func (g *gateway) join(ses string, body any) *client {
	g.t.Helper()
	id, key := g.clientKey("joiner")
	return g.opened(g.do("POST", g.url+"/api/v1/sessions/"+ses+"/join", key, body), id)
}

func (c *client) path(p string) string { return c.g.url + "/api/v1/sessions/" + c.ses + p }

// call sends a request and returns its lines.
func (c *client) call(method string, params any) []obj {
	c.g.t.Helper()
	return c.raw(string(mustJSON(obj{"jsonrpc": "2.0", "id": 7, "method": method, "params": params})))
}

func (c *client) raw(body string) []obj {
	c.g.t.Helper()
	s := c.stream(body)
	defer s.close()
	return s.rest()
}

// result is the result of a call that must work.
func (c *client) result(method string, params any) obj {
	c.g.t.Helper()
	lines := c.call(method, params)
	last := lines[len(lines)-1]
	if last["error"] != nil || last["result"] == nil {
		c.g.t.Fatalf("%s: %v", method, last)
	}
	return last["result"].(obj)
}

// code is the error code of a call that must fail.
func (c *client) code(method string, params any) int {
	c.g.t.Helper()
	lines := c.call(method, params)
	return errorCode(c.g.t, lines[len(lines)-1])
}

func errorCode(t *testing.T, line obj) int {
	t.Helper()
	e, ok := line["error"].(obj)
	if !ok {
		t.Fatalf("want an error, got %v", line)
	}
	return int(e["code"].(float64))
}

func (c *client) register() *client {
	c.g.t.Helper()
	if r := c.result("session.registerDriver", obj{}); r["registered"] != true {
		c.g.t.Fatalf("register: %v", r)
	}
	return c
}

func msg(content any) obj { return obj{"message": obj{"role": "user", "content": content}} }

// send sends a message and returns its result.
func (c *client) send(content any) obj {
	c.g.t.Helper()
	return c.result("session.sendMessage", msg(content))
}

// stream is a running NDJSON answer.
type stream struct {
	t      *testing.T
	res    *http.Response
	lines  chan obj
	cancel context.CancelFunc
}

func (c *client) stream(body string) *stream {
	c.g.t.Helper()
	ctx, cancel := context.WithCancel(c.g.t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", c.path("/rpc"), strings.NewReader(body))
	if err != nil {
		c.g.t.Fatal(err)
	}
	req.Header.Set("Authorization", "bearer "+c.key)
	res, err := c.g.http.Do(req)
	if err != nil {
		c.g.t.Fatal(err)
	}
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "application/x-ndjson" {
		b, _ := io.ReadAll(res.Body)
		c.g.t.Fatalf("rpc: %d %s %s", res.StatusCode, res.Header.Get("Content-Type"), b)
	}
	s := &stream{c.g.t, res, make(chan obj, 10_000), cancel}
	go func() {
		defer close(s.lines)
		sc := bufio.NewScanner(res.Body)
		sc.Buffer(nil, 64<<20)
		for sc.Scan() {
			var m obj
			if json.Unmarshal(sc.Bytes(), &m) != nil {
				m = obj{"broken": sc.Text()}
			}
			s.lines <- m
		}
	}()
	return s
}

func (c *client) begin(method string, params any) *stream {
	c.g.t.Helper()
	return c.stream(string(mustJSON(obj{"jsonrpc": "2.0", "id": 7, "method": method, "params": params})))
}

// next is the next line.
func (s *stream) next() obj {
	s.t.Helper()
	select {
	case l, ok := <-s.lines:
		if !ok {
			s.t.Fatal("the stream ended")
		}
		return l
	case <-time.After(patience):
		s.t.Fatal("no line came")
	}
	return nil
}

// until reads lines up to the first event of a type.
func (s *stream) until(kind string) obj {
	s.t.Helper()
	for {
		l := s.next()
		if l["result"] != nil || l["error"] != nil {
			s.t.Fatalf("no %s before %v", kind, l)
		}
		if e := l["params"].(obj); e["event_type"] == kind {
			return e
		}
	}
}

// rest is everything up to the end of the body.
func (s *stream) rest() (out []obj) {
	s.t.Helper()
	late := time.After(patience)
	for {
		select {
		case l, ok := <-s.lines:
			if !ok {
				return out
			}
			out = append(out, l)
		case <-late:
			s.t.Fatalf("the stream does not end; so far %v", out)
		}
	}
}

// quiet fails if a line comes within a moment.
func (s *stream) quiet() {
	s.t.Helper()
	select {
	case l, ok := <-s.lines:
		s.t.Fatalf("want silence, got %v %v", l, ok)
	case <-time.After(silence):
	}
}

func (s *stream) close() {
	s.cancel()
	s.res.Body.Close()
	for range s.lines {
	}
}

// log is the whole event log, read in pages.
func (c *client) log() (out []obj) {
	c.g.t.Helper()
	cursor := ""
	for {
		a := c.g.do("GET", c.path("/events?limit=3&cursor="+cursor), c.key, nil)
		if a.status != 200 {
			c.g.t.Fatalf("events: %d %s", a.status, a.body)
		}
		p := a.json(c.g.t)
		for _, e := range p["items"].([]any) {
			out = append(out, e.(obj))
		}
		next, more := p["next_cursor"].(string)
		if !more {
			return out
		}
		cursor = next
	}
}

// types are the types of events or of the notifications among lines.
func types(events []obj) (out []string) {
	for _, e := range events {
		if p, ok := e["params"].(obj); ok {
			e = p
		}
		if s, ok := e["event_type"].(string); ok {
			out = append(out, s)
		}
	}
	return out
}

func events(result obj) (out []obj) {
	for _, e := range result["events"].([]any) {
		out = append(out, e.(obj))
	}
	return out
}

func ids(events []obj) (out []string) {
	for _, e := range events {
		if p, ok := e["params"].(obj); ok {
			e = p
		}
		if s, ok := e["id"].(string); ok {
			out = append(out, s)
		}
	}
	return out
}

func want(t *testing.T, what string, got, want any) {
	t.Helper()
	g, w := fmt.Sprint(got), fmt.Sprint(want)
	if g != w {
		t.Errorf("%s:\n got %s\nwant %s", what, g, w)
	}
}

// text is the text of a message's blocks.
func text(m any) string {
	var out []string
	blocks, _ := m.(obj)["content"].([]any)
	for _, b := range blocks {
		if s, ok := b.(obj)["text"].(string); ok {
			out = append(out, s)
		}
	}
	return strings.Join(out, "|")
}

// uses are the tool_use blocks of a message.
func uses(m any) (out []obj) {
	for _, b := range m.(obj)["content"].([]any) {
		if b := b.(obj); b["type"] == "tool_use" {
			out = append(out, b)
		}
	}
	return out
}

func toolResultBlock(id, content string) obj {
	return obj{"type": "tool_result", "tool_use_id": id, "content": content}
}
