//go:build e2e

package editor

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/polyhost/polyhost/adapters/ahp/strict"
)

// frame is a message between the editor and the gateway.
type frame struct {
	host bool // the gateway sent it
	raw  []byte

	ID     any             `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
	Params struct {
		Channel      string          `json:"channel"`
		Action       json.RawMessage `json:"action"`
		Subscription []string        `json:"subscriptions"`
	} `json:"params"`
	Action action `json:"-"`
}

// action is what the tests look at of one.
type action struct {
	Type       string `json:"type"`
	TurnID     string `json:"turnId"`
	ToolCallID string `json:"toolCallId"`
	Approved   bool   `json:"approved"`
	Kind       string `json:"kind"`
	Title      string `json:"title"`
}

// wire stands between the editor's server and the gateway: it passes everything
// on, keeps it, and judges what the gateway says. The editor finds it at the same
// port when the gateway comes back at another one.
type wire struct {
	server *httptest.Server
	log    *os.File

	mu     sync.Mutex
	host   string // ws://address of the gateway; empty while there is none
	frames []frame
	wrong  []string // what is wrong with frames of the gateway
	open   sync.WaitGroup
	conns  map[*websocket.Conn]bool
}

func newWire(t *testing.T, log *os.File) *wire {
	w := &wire{log: log, conns: map[*websocket.Conn]bool{}}
	w.server = httptest.NewServer(http.HandlerFunc(w.serve))
	t.Cleanup(func() {
		w.to("")
		w.server.Close()
		w.open.Wait()
	})
	return w
}

// to says where the gateway is from now on, and drops the connections to the
// one before.
func (w *wire) to(host string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.host = host
	for c := range w.conns {
		_ = c.Close()
	}
}

func (w *wire) serve(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	host := w.host
	w.mu.Unlock()
	far, answer, err := websocket.DefaultDialer.DialContext(r.Context(), host+r.URL.RequestURI(), nil)
	if err != nil {
		status := http.StatusBadGateway
		if answer != nil {
			status = answer.StatusCode
		}
		http.Error(rw, err.Error(), status)
		return
	}
	near, err := (&websocket.Upgrader{}).Upgrade(rw, r, nil)
	if err != nil {
		_ = far.Close()
		return
	}
	w.mu.Lock()
	w.conns[near], w.conns[far] = true, true
	w.mu.Unlock()
	judge := new(strict.Log)
	copying := func(from, to *websocket.Conn, host bool) {
		defer func() {
			_, _ = from.Close(), to.Close()
			w.mu.Lock()
			delete(w.conns, from)
			w.mu.Unlock()
		}()
		for {
			kind, b, err := from.ReadMessage()
			if err != nil {
				return
			}
			w.keep(judge, b, host)
			if err := to.WriteMessage(kind, b); err != nil {
				return
			}
		}
	}
	w.open.Go(func() { copying(near, far, false) })
	w.open.Go(func() { copying(far, near, true) })
}

func (w *wire) keep(judge *strict.Log, b []byte, host bool) {
	f := frame{host: host, raw: b}
	problem := json.Unmarshal(b, &f)
	if problem == nil && f.Params.Action != nil {
		problem = json.Unmarshal(f.Params.Action, &f.Action)
	}
	if !host {
		judge.Sent(b)
	} else if problem == nil {
		problem = judge.Received(b)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.frames = append(w.frames, f)
	if problem != nil && host {
		w.wrong = append(w.wrong, fmt.Sprintf("%v: %.2000s", problem, b))
	}
	from := "editor"
	if host {
		from = "host"
	}
	fmt.Fprintf(w.log, `{"at":%q,"from":%q,"frame":%s}`+"\n", time.Now().Format(time.TimeOnly+".000"), from, b)
}

// len is a place in the row of frames: what comes from here on.
func (w *wire) len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.frames)
}

func (w *wire) since(from int) []frame {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.frames[from:len(w.frames):len(w.frames)]
}

// wait waits for a frame from a place on and returns the place of the next one.
func (w *wire) wait(t *testing.T, from int, what string, wanted func(frame) bool) (frame, int) {
	t.Helper()
	var found frame
	next := from
	until(t, what+" on the wire", func() (bool, string) {
		for _, f := range w.since(next) {
			next++
			if wanted(f) {
				found = f
				return true, ""
			}
		}
		return false, ""
	})
	return found, next
}

// sent is an action of the editor's, said one of the host's.
func sent(kind string) func(frame) bool {
	return func(f frame) bool { return !f.host && f.Action.Type == kind }
}

func said(kind string) func(frame) bool {
	return func(f frame) bool { return f.host && f.Method == "action" && f.Action.Type == kind }
}

func asked(method string) func(frame) bool {
	return func(f frame) bool { return !f.host && f.Method == method }
}

func has(text string) func(frame) bool {
	return func(f frame) bool { return strings.Contains(string(f.raw), text) }
}

func both(a, b func(frame) bool) func(frame) bool {
	return func(f frame) bool { return a(f) && b(f) }
}

// judged tells what was wrong with the gateway's frames since the last time.
func (w *wire) judged(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.wrong {
		t.Errorf("the gateway said what the protocol has not: %s", p)
	}
	w.wrong = nil
}
