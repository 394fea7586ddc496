package jsonrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creachadair/jrpc2"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 3 * time.Minute

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// end is the far end of a peer under test: it sees every frame in order.
type end struct {
	t      *testing.T
	peer   *Peer
	frames chan string
}

func connect(t *testing.T, o Options) *end {
	t.Helper()
	e := &end{t: t, frames: make(chan string, 5000)}
	o.Send = func(f []byte) error { e.frames <- string(f); return nil }
	o.Logger = quiet
	if o.Handle == nil {
		o.Handle = func(context.Context, *Request) (any, error) { return nil, MethodNotFound() }
	}
	e.peer = NewPeer(context.Background(), o)
	t.Cleanup(e.peer.Close)
	return e
}

func (e *end) send(format string, args ...any) {
	e.t.Helper()
	if err := e.peer.Receive(fmt.Appendf(nil, format, args...)); err != nil {
		e.t.Fatal(err)
	}
}

func (e *end) next() string {
	e.t.Helper()
	select {
	case f := <-e.frames:
		return f
	case <-time.After(patience):
		e.t.Fatal("no frame")
		return ""
	}
}

func (e *end) want(f string) {
	e.t.Helper()
	if got := e.next(); got != f {
		e.t.Fatalf("got  %s\nwant %s", got, f)
	}
}

// wire lets a jrpc2 client, which keeps strictly to the standard, drive a Peer.
type wire struct {
	toClient chan []byte
	peer     *Peer
	once     sync.Once
	closed   chan struct{}
}

func (w *wire) Send(b []byte) error { return w.peer.Receive(slices.Clone(b)) }
func (w *wire) Recv() ([]byte, error) {
	select {
	case b := <-w.toClient:
		return b, nil
	case <-w.closed:
		return nil, io.EOF
	}
}
func (w *wire) Close() error { w.once.Do(func() { close(w.closed) }); return nil }

func dial(t testing.TB, o Options, co *jrpc2.ClientOptions) (*jrpc2.Client, *Peer) {
	t.Helper()
	w := &wire{toClient: make(chan []byte, 1000), closed: make(chan struct{})}
	o.Send = func(f []byte) error { w.toClient <- f; return nil }
	o.Logger = quiet
	w.peer = NewPeer(context.Background(), o)
	client := jrpc2.NewClient(w, co)
	t.Cleanup(func() { client.Close(); w.peer.Close() })
	return client, w.peer
}

func TestStandardClientInBothDirections(t *testing.T) {
	t.Parallel()
	notes := make(chan string, 1)
	client, peer := dial(t, Options{Handle: func(_ context.Context, r *Request) (any, error) {
		switch r.Method {
		case "double":
			var p struct {
				N int `json:"n" jsonx:"required"`
			}
			if err := r.Decode(&p); err != nil {
				return nil, err
			}
			return 2 * p.N, nil
		case "note":
			notes <- string(r.Params)
			return "nobody sees this", nil
		}
		return nil, MethodNotFound()
	}}, &jrpc2.ClientOptions{OnCallback: func(_ context.Context, r *jrpc2.Request) (any, error) {
		if r.Method() == "refuse" {
			return nil, jrpc2.Errorf(jrpc2.Code(42), "I would rather not")
		}
		return "from " + r.Method(), nil
	}})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	var n int
	if err := client.CallResult(ctx, "double", map[string]int{"n": 21}, &n); err != nil || n != 42 {
		t.Fatalf("%d, %v", n, err)
	}
	for method, want := range map[string]string{"double": "invalid params: n: missing", "other": "method not found"} {
		if _, err := client.Call(ctx, method, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("%s: %v", method, err)
		}
	}
	if err := client.Notify(ctx, "note", []int{1}); err != nil {
		t.Fatal(err)
	}
	if got := <-notes; got != "[1]" {
		t.Fatalf("note: %s", got)
	}
	if got, err := peer.Call(ctx, "ask", nil); err != nil || string(got) != `"from ask"` {
		t.Fatalf("%s, %v", got, err)
	}
	var e *Error
	if _, err := peer.Call(ctx, "refuse", nil); !errors.As(err, &e) || e.Code != 42 {
		t.Fatalf("%v", err)
	}
}

func TestSlowRequestHoldsUpNobody(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	e := connect(t, Options{Handle: func(_ context.Context, r *Request) (any, error) {
		if r.Method == "slow" {
			<-release
		}
		return r.Method, nil
	}})
	e.send(`{"method":"slow"}`)
	e.send(`{"id":1,"method":"slow"}`)
	e.send(`{"id":2,"method":"fast"}`)
	e.want(`{"jsonrpc":"2.0","id":2,"result":"fast"}`)
	close(release)
	e.want(`{"jsonrpc":"2.0","id":1,"result":"slow"}`)
}

func TestRequestsOverTheBoundAreRefusedAndUrgentOnesOvertake(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	e := connect(t, Options{
		MaxInFlight: 2,
		Serial:      func(*Request) string { return "one queue" },
		Preempt: func(_ context.Context, r *Request) (bool, any, error) {
			return r.Method == "cancel", "at once", nil
		},
		Handle: func(context.Context, *Request) (any, error) { <-release; return "done", nil },
	})
	e.send(`{"id":1,"method":"x"}`)
	e.send(`{"id":2,"method":"x"}`)
	e.send(`{"id":3,"method":"x"}`)
	e.want(`{"jsonrpc":"2.0","id":3,"error":{"code":-32000,"message":"too many requests in flight"}}`)
	e.send(`{"id":4,"method":"cancel"}`)
	e.want(`{"jsonrpc":"2.0","id":4,"result":"at once"}`)
	close(release)
	e.want(`{"jsonrpc":"2.0","id":1,"result":"done"}`)
	e.want(`{"jsonrpc":"2.0","id":2,"result":"done"}`)
	e.send(`{"id":5,"method":"x"}`)
	e.want(`{"jsonrpc":"2.0","id":5,"result":"done"}`)
}

func TestEqualKeysRunInOrder(t *testing.T) {
	t.Parallel()
	e := connect(t, Options{
		MaxInFlight: 10_000,
		Serial:      func(r *Request) string { return r.Method },
		Handle:      func(_ context.Context, r *Request) (any, error) { return r.Method, nil },
	})
	next := map[string]int{}
	for i := range 500 {
		e.send(`{"id":%d,"method":"a"}`, i)
		e.send(`{"id":%d,"method":"b"}`, i)
	}
	for range 1000 {
		var m struct {
			ID     int
			Result string
		}
		if err := json.Unmarshal([]byte(e.next()), &m); err != nil || m.ID != next[m.Result] {
			t.Fatalf("queue %q: %d came, %d was due (%v)", m.Result, m.ID, next[m.Result], err)
		}
		next[m.Result]++
	}
}

func TestFramesBeforeAndAfterTheAnswer(t *testing.T) {
	t.Parallel()
	var e *end
	e = connect(t, Options{Handle: func(_ context.Context, r *Request) (any, error) {
		r.Then(func() { _ = e.peer.Notify("after", nil) })
		_ = e.peer.Notify("before", nil)
		return 1, nil
	}})
	for range 100 {
		e.send(`{"id":1,"method":"x"}`)
		e.want(`{"jsonrpc":"2.0","method":"before"}`)
		e.want(`{"jsonrpc":"2.0","id":1,"result":1}`)
		e.want(`{"jsonrpc":"2.0","method":"after"}`)
	}
}

func TestFailuresOfHandlers(t *testing.T) {
	t.Parallel()
	known := errors.New("open /secret/path: no such file")
	handle := func(_ context.Context, r *Request) (any, error) {
		switch r.Method {
		case "panic", "urgent panic":
			panic("/secret/path")
		case "known":
			return nil, fmt.Errorf("wrapped: %w", known)
		case "unknown":
			return nil, errors.New("/secret/path")
		case "unencodable":
			return make(chan int), nil
		}
		return nil, &Error{7, "typed", map[string]int{"x": 1}}
	}
	e := connect(t, Options{
		Handle: handle,
		Preempt: func(ctx context.Context, r *Request) (bool, any, error) {
			if r.Method == "urgent panic" {
				result, err := handle(ctx, r)
				return true, result, err
			}
			return false, nil, nil
		},
		MapError: func(_ string, err error) *Error {
			if errors.Is(err, known) {
				return &Error{Code: 8, Message: "file not found"}
			}
			return nil
		},
	})
	for method, want := range map[string]string{
		"panic":        `{"code":-32603,"message":"internal error"}`,
		"urgent panic": `{"code":-32603,"message":"internal error"}`,
		"known":        `{"code":8,"message":"file not found"}`,
		"unknown":      `{"code":-32603,"message":"internal error"}`,
		"unencodable":  `{"code":-32603,"message":"internal error"}`,
		"typed":        `{"code":7,"message":"typed","data":{"x":1}}`,
	} {
		e.send(`{"id":1,"method":%q}`, method)
		e.want(`{"jsonrpc":"2.0","id":1,"error":` + want + `}`)
	}
}

func TestBrokenMessagesAndWhoIsAnswered(t *testing.T) {
	t.Parallel()
	e := connect(t, Options{})
	for _, silent := range []string{
		`{"method":"x","params":5}`, // a notification
		`{"id":"s1","result":1}`,    // an answer nobody waits for
		`{"id":"s1","error":"not an object"}`,
		`{"method":"not known"}`,
	} {
		e.send("%s", silent)
	}
	e.send(`nonsense`)
	if f := e.next(); !strings.Contains(f, `"id":null,"error":{"code":-32700`) {
		t.Fatal(f)
	}
	e.send(`{"id":{},"method":"x"}`)
	if f := e.next(); !strings.Contains(f, `"id":null,"error":{"code":-32600`) {
		t.Fatal(f)
	}
	e.send(`{"id":9,"method":"x"}`)
	if f := e.next(); !strings.Contains(f, `"id":9,"error":{"code":-32601`) {
		t.Fatal(f)
	}
}

func TestFloodOfNotificationsIsCut(t *testing.T) {
	t.Parallel()
	e := connect(t, Options{Handle: func(ctx context.Context, _ *Request) (any, error) { <-ctx.Done(); return nil, nil }})
	for range maxNotifications {
		e.send(`{"method":"x"}`)
	}
	if err := e.peer.Receive([]byte(`{"method":"x"}`)); !errors.Is(err, ErrFlood) {
		t.Fatalf("got %v", err)
	}
}

func TestCallsEndWithDeadlineOrConnection(t *testing.T) {
	t.Parallel()
	e := connect(t, Options{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := e.peer.Call(ctx, "ask", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("no answer: %v", err)
	}
	e.want(`{"jsonrpc":"2.0","id":"s1","method":"ask"}`)
	e.send(`{"jsonrpc":"2.0","id":"s1","result":"too late"}`)

	failed := make(chan error, 1)
	go func() {
		_, err := e.peer.Call(context.Background(), "ask", map[string]int{"n": 1})
		failed <- err
	}()
	e.want(`{"jsonrpc":"2.0","id":"s2","method":"ask","params":{"n":1}}`)
	e.peer.Close()
	if err := <-failed; !errors.Is(err, ErrClosed) {
		t.Fatalf("connection ended: %v", err)
	}
	if _, err := e.peer.Call(t.Context(), "ask", nil); !errors.Is(err, ErrClosed) {
		t.Fatalf("after the end: %v", err)
	}
}

func TestCloseCancelsHandlersAndDropsWhatQueues(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var ran []string
	started := make(chan struct{})
	e := connect(t, Options{
		Serial: func(*Request) string { return "k" },
		Handle: func(ctx context.Context, r *Request) (any, error) {
			mu.Lock()
			ran = append(ran, r.Method)
			mu.Unlock()
			close(started)
			<-ctx.Done()
			return nil, ctx.Err()
		},
	})
	e.send(`{"id":1,"method":"first"}`)
	e.send(`{"id":2,"method":"second"}`)
	<-started
	e.peer.Close()
	e.send(`{"id":3,"method":"third"}`)
	if !slices.Equal(ran, []string{"first"}) {
		t.Fatalf("ran %v", ran)
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	client, _ := dial(b, Options{Handle: func(context.Context, *Request) (any, error) { return 1, nil }}, nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := client.Call(b.Context(), "x", nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRequest(b *testing.B) {
	answered := make(chan struct{}, 1)
	p := NewPeer(b.Context(), Options{
		Send:   func([]byte) error { answered <- struct{}{}; return nil },
		Handle: func(context.Context, *Request) (any, error) { return 1, nil },
	})
	defer p.Close()
	msg := []byte(`{"jsonrpc":"2.0","id":1,"method":"session.prompt","params":{"sessionId":"x","text":"hello"}}`)
	b.ReportAllocs()
	for b.Loop() {
		_ = p.Receive(msg)
		<-answered
	}
}

// Whoever keeps something for a request must hear of its end, also when it was
// never handled.
func TestWhatFollowsABusyRefusalRuns(t *testing.T) {
	t.Parallel()
	release, refused := make(chan struct{}), make(chan struct{})
	e := connect(t, Options{MaxInFlight: 1,
		Handle: func(context.Context, *Request) (any, error) { <-release; return "done", nil }})
	e.send(`{"id":1,"method":"x"}`)
	r := &Request{Method: "x", ID: []byte("2")}
	r.Then(func() { close(refused) })
	if err := e.peer.Dispatch(r); err != nil {
		t.Fatal(err)
	}
	e.want(`{"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"too many requests in flight"}}`)
	<-refused
	close(release)
	e.want(`{"jsonrpc":"2.0","id":1,"result":"done"}`)
}
