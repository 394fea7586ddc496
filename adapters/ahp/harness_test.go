package ahp

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"go.uber.org/goleak"

	"github.com/polyhost/polyhost/adapters/ahp/reduce"
	"github.com/polyhost/polyhost/adapters/ahp/strict"
	shared "github.com/polyhost/polyhost/adapters/front"
	"github.com/polyhost/polyhost/backends/demo"
	"github.com/polyhost/polyhost/core/addon"
	"github.com/polyhost/polyhost/core/automation"
	"github.com/polyhost/polyhost/core/devcontainer"
	"github.com/polyhost/polyhost/core/forge"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/hosttools"
	"github.com/polyhost/polyhost/core/logs"
	"github.com/polyhost/polyhost/core/store"
	"github.com/polyhost/polyhost/core/store/memstore"
)

// histories is how many random ones a run tries, unless -rapid.checks says
// otherwise: each keeps a gateway at work for a fifth of a second.
const histories = "40"

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		_ = f.Value.Set(histories) // a number
	}
	goleak.VerifyTestMain(m)
}

const patience = 3 * time.Minute

// gateway is a front over a real host with the demo agent, on a real socket.
type gateway struct {
	t          testing.TB
	host       *host.Host
	front      *Front
	http       *httptest.Server
	dir        string
	home       string
	store      store.Store
	book       logs.Book
	forge      *forge.Client // nil is one that is not there
	tools      *hosttools.Set
	containers *devcontainer.Containers // nil brings up none
	// shutdown is what a client that asks the gateway to stop gets.
	shutdown func()
	stop     func()
	early    func() // runs when clients are served and the front does not run yet
	unasked  bool   // clients are served before the agents have said what they are
}

func newGateway(t testing.TB, change ...func(*host.Options)) *gateway {
	t.Helper()
	g := &gateway{t: t, dir: t.TempDir(), home: t.TempDir(), store: memstore.New()}
	g.start(change...)
	return g
}

func (g *gateway) start(change ...func(*host.Options)) {
	g.t.Helper()
	log := slog.New(g.book.Handler(slog.NewTextHandler(&g.book, nil)))
	agent := demo.New()
	o := host.Options{Store: g.store, Backends: []host.NamedBackend{{Name: "demo", Backend: agent}}, DefaultDir: g.dir,
		Log: log, Grace: 50 * time.Millisecond}
	var err error
	if o.Addons, err = addon.Open(filepath.Join(g.home, "addons")); err != nil {
		g.t.Fatal(err)
	}
	for _, c := range change {
		c(&o)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	h, err := host.Open(ctx, o)
	if err != nil {
		g.t.Fatal(err)
	}
	if !g.unasked {
		if err := h.AgentsReady(ctx); err != nil {
			g.t.Fatal(err)
		}
	}
	set, err := automation.Open(ctx, h, h.KV("automation"), log)
	if err != nil {
		g.t.Fatal(err)
	}
	if g.forge == nil {
		g.forge = forge.New("http://127.0.0.1:1", func() string { return "" })
	}
	f, err := New(shared.Deps{Forge: g.forge, Host: h, Automations: set, Log: log, Book: &g.book, Home: g.home, Version: "test", Shutdown: g.shutdown, Tools: g.tools, Containers: g.containers})
	if err != nil {
		g.t.Fatal(err)
	}
	g.host, g.front = h, f.(*Front)
	g.http = httptest.NewServer(f.Listeners()[0].Handler)
	if g.early != nil {
		g.early()
	}
	runCtx, end := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	runsCtx, endRuns := context.WithCancel(context.Background())
	var runs sync.WaitGroup
	runs.Go(func() { set.Run(runsCtx) })
	wg.Go(func() {
		if err := f.Run(runCtx); err != nil {
			g.t.Error(err)
		}
	})
	var once sync.Once
	g.stop = func() {
		once.Do(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			endRuns()
			runs.Wait()
			f.Drain(ctx)
			end()
			wg.Wait()
			g.http.Close()
			if err := h.Close(ctx); err != nil {
				g.t.Error(err)
			}
			agent.Close()
		})
	}
	g.t.Cleanup(g.stop)
}

func (g *gateway) url() string {
	return "ws" + strings.TrimPrefix(g.http.URL, "http") + "/?tkn=" + g.front.token
}

type object = map[string]any

// peer is a client of the protocol: it keeps the state of what it subscribed
// to by reducing actions, as editors do.
type peer struct {
	t    testing.TB
	id   string
	ws   *websocket.Conn
	done chan struct{} // closed when nothing is read any more
	next int
	seq  int
	wire strict.Log // judges what the host sends

	mu     sync.Mutex
	change *sync.Cond
	frames []object
	states map[string]object
	order  float64           // the number of the last action
	rows   map[string]object // the list of sessions, from what the root tells
	last   float64
	closed error
}

func (g *gateway) dial(clientID string) *peer {
	g.t.Helper()
	ws, resp, err := websocket.DefaultDialer.Dial(g.url(), nil)
	if err != nil {
		g.t.Fatalf("dial: %v %v", err, resp)
	}
	p := &peer{t: g.t, id: clientID, ws: ws, done: make(chan struct{}), states: map[string]object{}, rows: map[string]object{}}
	p.change = sync.NewCond(&p.mu)
	go func() { defer close(p.done); p.read() }()
	g.t.Cleanup(func() { p.hangUp() })
	return p
}

// hangUp cuts the connection and returns where the peer was then: the last
// number it saw and the states it holds at that number.
func (p *peer) hangUp() (last float64, states map[string]object) {
	p.ws.Close()
	<-p.done
	return p.last, p.states
}

// connect dials and initializes, watching the root.
func (g *gateway) connect(clientID string) *peer {
	g.t.Helper()
	p := g.dial(clientID)
	p.call("initialize", object{"channel": rootURI, "protocolVersions": []string{"0.9.0", "0.7.0"}, "clientId": clientID,
		"clientInfo": object{"name": "test"}, "initialSubscriptions": []string{rootURI}})
	return p
}

func (p *peer) read() {
	for {
		_, data, err := p.ws.ReadMessage()
		p.mu.Lock()
		if err != nil {
			p.closed = err
			p.change.Broadcast()
			p.mu.Unlock()
			return
		}
		var f object
		if err := json.Unmarshal(data, &f); err != nil {
			p.t.Errorf("frame is not JSON: %v: %s", err, data)
		}
		if err := p.wire.Received(data); err != nil {
			p.t.Errorf("not a frame of the protocol: %v\n%s", err, data)
		}
		p.frames = append(p.frames, f)
		if result, ok := f["result"].(object); ok {
			p.answered(result)
		}
		params, _ := f["params"].(object)
		switch f["method"] {
		case "action":
			p.apply(params)
		case "root/sessionAdded":
			row := params["summary"].(object)
			p.rows[row["resource"].(string)] = row
		case "root/sessionRemoved":
			delete(p.rows, params["session"].(string))
		case "root/sessionSummaryChanged":
			if row := maps.Clone(p.rows[params["session"].(string)]); row != nil {
				maps.Copy(row, params["changes"].(object))
				p.rows[params["session"].(string)] = row
			}
		}
		p.change.Broadcast()
		p.mu.Unlock()
	}
}

// answered takes over what an answer says of channels, as the actions behind
// it build on that; the caller holds mu.
func (p *peer) answered(result object) {
	snapshots, _ := result["snapshots"].([]any)
	if one, ok := result["snapshot"]; ok {
		snapshots = append(snapshots, one)
	}
	for _, v := range snapshots {
		s := v.(object)
		p.states[s["resource"].(string)] = s["state"].(object)
		p.last = max(p.last, s["fromSeq"].(float64))
	}
	missed, _ := result["actions"].([]any)
	for _, env := range missed {
		p.apply(env.(object))
	}
}

// apply reduces one envelope; the caller holds mu.
func (p *peer) apply(env object) {
	seq := env["serverSeq"].(float64)
	if seq < p.order {
		p.t.Errorf("serverSeq went back from %v to %v", p.order, seq)
	}
	p.order, p.last = seq, max(p.last, seq)
	if env["rejectionReason"] != nil {
		return
	}
	uri := env["channel"].(string)
	state, held := p.states[uri]
	if !held {
		return
	}
	p.states[uri], _ = reduce.For(strict.Kind(uri))(state, env["action"].(object))
}

func (p *peer) send(v any) {
	p.t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		p.t.Fatal(err)
	}
	p.wire.Sent(b)
	if err := p.ws.WriteMessage(websocket.TextMessage, b); err != nil {
		p.t.Fatalf("send: %v", err)
	}
}

// wait looks for a frame from a position on and returns the position after it.
func (p *peer) wait(from int, what string, match func(object) bool) (object, int) {
	p.t.Helper()
	timeout := time.AfterFunc(patience, func() { p.mu.Lock(); p.change.Broadcast(); p.mu.Unlock() })
	defer timeout.Stop()
	deadline := time.Now().Add(patience)
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := from; ; {
		for ; i < len(p.frames); i++ {
			if match(p.frames[i]) {
				return p.frames[i], i + 1
			}
		}
		if p.closed != nil || time.Now().After(deadline) {
			tail := p.frames[max(from, len(p.frames)-12):]
			b, _ := json.MarshalIndent(tail, "", " ")
			b = b[:min(len(b), 32<<10)]
			p.t.Fatalf("%s: %s did not come (closed: %v); last frames:\n%s", p.id, what, p.closed, b)
		}
		p.change.Wait()
	}
}

// seen is the last number of the host that the peer has seen.
func (p *peer) seen() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

func (p *peer) mark() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.frames)
}

// request sends a request and returns the whole answer.
func (p *peer) request(method string, params any) object {
	p.t.Helper()
	p.next++
	id, from := float64(p.next), p.mark()
	p.send(object{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
	f, _ := p.wait(from, "the answer to "+method, func(f object) bool { return f["id"] == id && f["method"] == nil })
	return f
}

// call is request for one that succeeds.
func (p *peer) call(method string, params any) object {
	p.t.Helper()
	f := p.request(method, params)
	if f["error"] != nil {
		p.t.Fatalf("%s: %v", method, f["error"])
	}
	if _, there := f["result"]; !there {
		p.t.Fatalf("%s: the answer has no result: %v", method, f)
	}
	r, _ := f["result"].(object)
	return r
}

// fails is request for one that fails with a code.
func (p *peer) fails(code int, method string, params any) object {
	p.t.Helper()
	f := p.request(method, params)
	e, _ := f["error"].(object)
	if e == nil || e["code"] != float64(code) {
		p.t.Fatalf("%s: want error %d, got %v", method, code, f)
	}
	return e
}

func (p *peer) subscribe(uri string) object {
	p.t.Helper()
	p.next++
	id, from := float64(p.next), p.mark()
	p.send(object{"jsonrpc": "2.0", "id": id, "method": "subscribe", "params": object{"channel": uri}})
	f, _ := p.wait(from, "the answer to subscribe", func(f object) bool { return f["id"] == id && f["method"] == nil })
	if f["error"] != nil {
		p.t.Fatalf("subscribe %s: %v", uri, f["error"])
	}
	return f["result"].(object)["snapshot"].(object)
}

// dispatch sends an action and returns its clientSeq.
func (p *peer) dispatch(uri string, action object) float64 {
	p.t.Helper()
	p.seq++
	p.send(object{"jsonrpc": "2.0", "method": "dispatchAction", "params": object{"channel": uri, "clientSeq": p.seq, "action": action}})
	return float64(p.seq)
}

// echo waits for the answer to a dispatched action.
func (p *peer) echo(seq float64) object {
	p.t.Helper()
	f, _ := p.wait(0, fmt.Sprintf("the echo of %v", seq), func(f object) bool {
		env, _ := f["params"].(object)
		o, _ := env["origin"].(object)
		return f["method"] == "action" && o["clientSeq"] == seq && o["clientId"] == p.id
	})
	return f["params"].(object)
}

// action waits for an action of a type on a channel from a position on.
func (p *peer) action(from int, uri, typ string) (object, int) {
	p.t.Helper()
	f, at := p.wait(from, typ+" on "+uri, func(f object) bool {
		env, _ := f["params"].(object)
		a, _ := env["action"].(object)
		return f["method"] == "action" && env["channel"] == uri && a["type"] == typ && env["rejectionReason"] == nil
	})
	return f["params"].(object)["action"].(object), at
}

func (p *peer) state(uri string) object {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.states[uri]
}

// until waits for the reduced state of a channel to be so.
func (p *peer) until(uri, what string, ok func(object) bool) object {
	p.t.Helper()
	p.wait(0, what, func(object) bool { return ok(p.states[uri]) })
	return p.state(uri)
}

// session creates a session as an editor does and watches it and its chat.
func (p *peer) session(g *gateway, uri string) (chat string) {
	p.t.Helper()
	p.call("createSession", object{"channel": uri, "provider": "demo", "workingDirectories": []string{fileURI(g.dir)},
		"config": object{"isolation": "folder", "autoApprove": "default", "mode": "interactive"}, "progressToken": "x"})
	s := p.subscribe(uri)
	chat = s["state"].(object)["defaultChat"].(string)
	p.subscribe(chat)
	return chat
}

func started(turn, text string) object {
	return object{"type": "chat/turnStarted", "turnId": turn, "startedAt": "2026-01-02T03:04:05.678Z",
		"message": object{"text": text, "origin": object{"kind": "user"}, "model": object{"id": "demo-large"}}}
}

// idle waits until the chat's turn of that name is over, and returns it.
func (p *peer) idle(chat, turn string) object {
	p.t.Helper()
	var done object
	p.until(chat, "the end of "+turn, func(s object) bool {
		for _, v := range s["turns"].([]any) {
			if t := v.(object); t["id"] == turn {
				done = t
				return true
			}
		}
		return false
	})
	return done
}

// agree compares the reduced states of channels with fresh snapshots of
// another client. Fields that no action changes are left out.
func (p *peer) agree(g *gateway, uris ...string) {
	p.t.Helper()
	fresh := g.connect("fresh-" + p.id + fmt.Sprint(time.Now().UnixNano()))
	defer fresh.ws.Close()
	for _, uri := range uris {
		p.agreeWith(fresh, uri)
	}
}

func (p *peer) agreeWith(fresh *peer, uri string) {
	p.t.Helper()
	deadline := time.Now().Add(patience / 6)
	for {
		s := fresh.call("subscribe", object{"channel": uri})["snapshot"].(object)
		p.mu.Lock()
		at, mine := p.order, p.states[uri]
		p.mu.Unlock()
		want := plain(s["state"])
		got := plain(mine)
		if reflect.DeepEqual(got, want) {
			return
		}
		if at == s["fromSeq"].(float64) || time.Now().After(deadline) {
			p.t.Fatalf("%s: the reduced state and the snapshot differ (at %v and %v)\nreduced  %s\nsnapshot %s", uri, at, s["fromSeq"], show(got), show(want))
		}
	}
}

func show(v any) string { b, _ := json.Marshal(v); return string(b) }

// plain is a state for comparing: without nulls, and without what actions do
// not carry (a session's activity bits, a chat's own title).
func plain(v any) any {
	o := bare(v).(object)
	delete(o, "_meta")
	if _, session := o["chats"]; session {
		delete(o, "annotations") // how many there are
	}
	if _, chat := o["turns"]; chat {
		if work, _ := o["backgroundWork"].([]any); len(work) == 0 {
			delete(o, "backgroundWork") // reducing leaves a list without anything
		}
		delete(o, "title")
		return o
	}
	if s, ok := o["status"].(float64); ok {
		o["status"] = float64(uint32(s) &^ 31)
	}
	return o
}

func bare(v any) any {
	switch v := v.(type) {
	case object:
		o := object{}
		for k, x := range v {
			if x != nil {
				o[k] = bare(x)
			}
		}
		return o
	case []any:
		l := make([]any, len(v))
		for i, x := range v {
			l[i] = bare(x)
		}
		return l
	}
	return v
}

// deaf connects a client that watches a channel and reads nothing more.
func (g *gateway) deaf(clientID, uri string) *websocket.Conn {
	g.t.Helper()
	ws, _, err := websocket.DefaultDialer.Dial(g.url(), nil)
	if err != nil {
		g.t.Fatal(err)
	}
	if err := ws.WriteJSON(object{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": object{"channel": rootURI,
		"protocolVersions": []string{"0.9.0"}, "clientId": clientID, "initialSubscriptions": []string{uri}}}); err != nil {
		g.t.Fatal(err)
	}
	if _, _, err := ws.ReadMessage(); err != nil {
		g.t.Fatal(err)
	}
	return ws
}
