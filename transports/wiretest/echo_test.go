package wiretest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/polyhost/polyhost/transports/ndjson"
	"github.com/polyhost/polyhost/transports/outbox"
	"github.com/polyhost/polyhost/transports/sse"
	"github.com/polyhost/polyhost/transports/ws"
)

// echoGateway is a small server with a WebSocket, an event stream, an NDJSON
// stream and plain answers, for the runner's own tests. What it is told to
// count survives a restart, in a file.
type echoGateway struct {
	mu      sync.Mutex
	running map[string]*echoServer
}

type echoServer struct {
	place  Place
	http   *httptest.Server
	cancel context.CancelFunc
}

func newEchoGateway() *echoGateway { return &echoGateway{running: map[string]*echoServer{}} }

func (g *echoGateway) Start(p Place) (Endpoints, error) {
	ctx, cancel := context.WithCancel(context.Background())
	s := &echoServer{place: p, cancel: cancel}
	mux := http.NewServeMux()
	mux.HandleFunc("/ws", func(w http.ResponseWriter, r *http.Request) { s.serveWS(ctx, w, r) })
	mux.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
		out := outbox.New(0)
		for i := range 3 {
			_ = out.Push(sse.DataID(fmt.Appendf(nil, `{"n":%d}`, i), fmt.Sprint("e", i)))
		}
		_ = out.Push(outbox.Frame("event: special\ndata: {\"n\":3}\n\n"))
		sse.Serve(w, r, sse.Options{}, out, func(error) {})
	})
	mux.HandleFunc("POST /lines", func(w http.ResponseWriter, r *http.Request) {
		out := outbox.New(0)
		var words []string
		_ = json.NewDecoder(r.Body).Decode(&words)
		for _, word := range words {
			_ = out.Push(ndjson.Line(fmt.Appendf(nil, `{"delta":%q}`, word)))
		}
		_ = out.Push(ndjson.Line([]byte(`{"done":true}`)))
		out.Close(io.EOF)
		ndjson.Serve(w, r, ndjson.Options{}, out, func(error) {})
	})
	mux.HandleFunc("/plain", func(w http.ResponseWriter, r *http.Request) {
		user, pass, _ := r.BasicAuth()
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Test", "yes")
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprintf(w, `{"method":%q,"query":%q,"user":%q,"pass":%q,"header":%q,"body":%q}`,
			r.Method, r.URL.RawQuery, user, pass, r.Header.Get("X-In"), body)
	})
	s.http = httptest.NewServer(mux)
	g.mu.Lock()
	g.running[p.Home] = s
	g.mu.Unlock()
	return Endpoints{
		"echo":  {"url": "ws" + strings.TrimPrefix(s.http.URL, "http") + "/ws", "token": "tok"},
		"plain": {"url": s.http.URL, "client_key": "key"},
	}, nil
}

func (g *echoGateway) Stop(p Place) error { return g.end(p) }
func (g *echoGateway) Kill(p Place) error { return g.end(p) }
func (g *echoGateway) Log(Place) string   { return "the log of the echo server\n" }

func (g *echoGateway) end(p Place) error {
	g.mu.Lock()
	s := g.running[p.Home]
	delete(g.running, p.Home)
	g.mu.Unlock()
	if s == nil {
		return errors.New("it was not running")
	}
	s.cancel()
	s.http.CloseClientConnections()
	s.http.Close()
	return nil
}

// order is what a client may ask for; anything else is echoed.
type order struct {
	ID    *int
	Do    string
	Texts []string
	Name  string
	Code  int
	After int // ms
}

func (s *echoServer) serveWS(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") == "Bearer wrong" {
		http.Error(w, `{"error":"unauthorized"}`, http.StatusUnauthorized)
		return
	}
	c, err := ws.Upgrade(w, r, ws.Options{Subprotocols: []string{"echo.v1"}, Binary: ws.AsText, ReadLimit: 1 << 20})
	if err != nil {
		return
	}
	var later sync.WaitGroup
	defer later.Wait()
	_ = c.Serve(ctx, func(_ context.Context, data []byte) {
		send := func(format string, args ...any) { _ = c.Send(fmt.Appendf(nil, format, args...)) }
		var o order
		if json.Unmarshal(data, &o) != nil {
			send("%s", data)
			return
		}
		switch o.Do {
		case "stream":
			for _, t := range o.Texts {
				send(`{"kind":"delta","text":%q}`, t)
			}
			send(`{"kind":"done"}`)
			send(`{"id":%d,"result":{}}`, *o.ID)
		case "count":
			path := filepath.Join(s.place.Home, "count")
			old, _ := os.ReadFile(path)
			_ = os.WriteFile(path, append(old, 'x'), 0o600)
			send(`{"count":%d}`, len(old)+1)
		case "write":
			_ = os.WriteFile(filepath.Join(s.place.Work, o.Name), []byte("written"), 0o600)
			send(`{"ok":true}`)
		case "env":
			b, _ := json.Marshal(append(s.place.Env, s.place.Args...))
			send("%s", b)
		case "close":
			c.Close(o.Code, "as asked")
		case "later":
			later.Go(func() {
				time.Sleep(time.Duration(o.After) * time.Millisecond)
				send(`{"kind":"late"}`)
			})
		default:
			send("%s", data)
		}
	})
}
