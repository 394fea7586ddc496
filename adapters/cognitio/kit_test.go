package cognitio

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/polyhost/polyhost/adapters/front"
	"github.com/polyhost/polyhost/backends/demo"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/store/memstore"
	"github.com/polyhost/polyhost/transports/listen"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 3 * time.Minute

// gateway is a host with the demo agent behind a real socket.
type gateway struct {
	t    testing.TB
	host *host.Host
	f    *server
	url  string
	dir  string
	http *http.Client
}

func newGateway(t testing.TB) *gateway {
	t.Helper()
	g := &gateway{t: t, dir: t.TempDir()}
	log := slog.New(slog.NewTextHandler(testLog{t}, nil))
	backend := demo.New()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	h, err := host.Open(ctx, host.Options{Store: memstore.New(), Backends: []host.NamedBackend{{Name: "demo", Backend: backend}},
		DefaultDir: g.dir, Log: log, Grace: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	g.host = h
	made, err := New(front.Deps{Host: h, Log: log, Home: t.TempDir(), Version: "0.0.0-test"})
	if err != nil {
		t.Fatal(err)
	}
	g.f = made.(*server)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := listen.Serve(l, made.Listeners()[0].Handler, log)
	g.url = "http://" + l.Addr().String()
	g.http = &http.Client{Transport: &http.Transport{}}
	running, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := made.Run(running); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		made.Drain(ctx)
		if err := h.Close(ctx); err != nil {
			t.Error(err)
		}
		stop()
		wg.Wait()
		g.http.CloseIdleConnections()
		if err := srv.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		backend.Close()
	})
	return g
}

type testLog struct{ testing.TB }

func (l testLog) Write(b []byte) (int, error) {
	l.Output().Write(b)
	return len(b), nil
}

// request sends a request with the password and returns the answer.
func (g *gateway) request(method, path string, body any, headers ...string) *http.Response {
	g.t.Helper()
	var r io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		r = strings.NewReader(b)
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			g.t.Fatal(err)
		}
		r = bytes.NewReader(raw)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	g.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, g.url+path, r)
	if err != nil {
		g.t.Fatal(err)
	}
	req.SetBasicAuth(userName, g.f.password)
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
			continue
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := g.http.Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { res.Body.Close() })
	return res
}

// do sends a request and decodes the answer.
func (g *gateway) do(method, path string, body any, headers ...string) (status int, answer any) {
	g.t.Helper()
	res := g.request(method, path, body, headers...)
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		g.t.Fatalf("%s %s: %v", method, path, err)
	}
	if len(raw) > 0 {
		if ct := res.Header.Get("Content-Type"); ct != "application/json" {
			g.t.Fatalf("%s %s: content type %q", method, path, ct)
		}
		if err := json.Unmarshal(raw, &answer); err != nil {
			g.t.Fatalf("%s %s: %v in %q", method, path, err, raw)
		}
	}
	return res.StatusCode, answer
}

// must is do for what has to work.
func (g *gateway) must(method, path string, body any, headers ...string) any {
	g.t.Helper()
	status, answer := g.do(method, path, body, headers...)
	if status >= 300 {
		g.t.Fatalf("%s %s: %d %v", method, path, status, answer)
	}
	return answer
}

func (g *gateway) session(body ...any) string {
	g.t.Helper()
	var b any
	if len(body) > 0 {
		b = body[0]
	}
	return g.must("POST", "/session", b).(map[string]any)["id"].(string)
}

func say(text string) map[string]any {
	return map[string]any{"parts": []any{map[string]any{"type": "text", "text": text}}}
}

func (g *gateway) prompt(session, text string) {
	g.t.Helper()
	g.must("POST", "/session/"+session+"/prompt_async", say(text))
}

type wireEvent struct {
	Type       string         `json:"type"`
	Properties map[string]any `json:"properties"`
	raw        map[string]any
}

func (e wireEvent) str(path ...string) string {
	v := any(e.Properties)
	for _, k := range path {
		m, _ := v.(map[string]any)
		v = m[k]
	}
	s, _ := v.(string)
	return s
}

// stream reads events and checks each against the protocol's document.
type stream struct {
	g      *gateway
	body   io.Closer
	events chan wireEvent
	seen   []wireEvent
}

// listen opens a stream and waits for its greeting.
func (g *gateway) listen(path string) *stream {
	g.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, "GET", g.url+path, nil)
	if err != nil {
		g.t.Fatal(err)
	}
	req.SetBasicAuth(userName, g.f.password)
	res, err := g.http.Do(req)
	if err != nil {
		cancel()
		g.t.Fatal(err)
	}
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
		cancel()
		g.t.Fatalf("%s: %d %v", path, res.StatusCode, res.Header)
	}
	s := &stream{g: g, body: res.Body, events: make(chan wireEvent, 10_000)}
	var wg sync.WaitGroup
	wg.Go(func() { s.read(res.Body) })
	g.t.Cleanup(func() {
		cancel()
		res.Body.Close()
		wg.Wait()
	})
	if e := s.next(); e.Type != "server.connected" {
		g.t.Fatalf("%s begins with %q", path, e.Type)
	}
	return s
}

func (s *stream) read(r io.Reader) {
	defer close(s.events)
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		data, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "data: ")
		if !ok {
			continue
		}
		var raw map[string]any
		if err := json.Unmarshal([]byte(data), &raw); err != nil {
			s.g.t.Errorf("frame is not JSON: %v: %s", err, data)
			return
		}
		if payload, ok := raw["payload"].(map[string]any); ok {
			raw = payload
		}
		if err := protocol(s.g.t).event(raw); err != nil {
			s.g.t.Errorf("event is not the protocol's: %v: %s", err, data)
		}
		e := wireEvent{raw: raw}
		e.Type, _ = raw["type"].(string)
		e.Properties, _ = raw["properties"].(map[string]any)
		s.events <- e
	}
}

func (s *stream) next() wireEvent {
	s.g.t.Helper()
	select {
	case e, ok := <-s.events:
		if !ok {
			s.g.t.Fatalf("the stream ended; so far:\n%s", s.summary())
		}
		s.seen = append(s.seen, e)
		return e
	case <-time.After(patience):
		s.g.t.Fatalf("no event came; so far:\n%s", s.summary())
		return wireEvent{}
	}
}

// until reads on to an event that fits and returns all up to it.
func (s *stream) until(kind string, fits ...func(wireEvent) bool) []wireEvent {
	s.g.t.Helper()
	from := len(s.seen)
	for {
		e := s.next()
		ok := e.Type == kind
		for _, f := range fits {
			ok = ok && f(e)
		}
		if ok {
			return s.seen[from:]
		}
	}
}

func (s *stream) idle(session string) []wireEvent {
	s.g.t.Helper()
	return s.until("session.idle", func(e wireEvent) bool { return e.str("sessionID") == session })
}

func (s *stream) summary() string {
	var b strings.Builder
	for _, e := range s.seen {
		raw, _ := json.Marshal(e.raw)
		b.WriteString(string(raw[:min(len(raw), 300)]) + "\n")
	}
	return b.String()
}

func last(events []wireEvent) wireEvent { return events[len(events)-1] }

func types(events []wireEvent) string {
	var out []string
	for _, e := range events {
		if e.Type == "message.part.delta" && len(out) > 0 && out[len(out)-1] == e.Type {
			continue
		}
		out = append(out, e.Type)
	}
	return strings.Join(out, " ")
}
