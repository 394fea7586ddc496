package ws

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"go.uber.org/goleak"

	"github.com/polyhost/polyhost/transports/outbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 3 * time.Minute

// gateway serves one kind of connection and hands each to the test.
type gateway struct {
	url   string
	conns chan *Conn
	ends  chan error
}

func serve(t testing.TB, o Options, onMessage func(c *Conn, ctx context.Context, data []byte)) *gateway {
	t.Helper()
	g := &gateway{conns: make(chan *Conn, 1000), ends: make(chan error, 1000)}
	ctx, cancel := context.WithCancel(context.Background())
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := Upgrade(w, r, o)
		if err != nil {
			return
		}
		g.conns <- c
		g.ends <- c.Serve(ctx, func(ctx context.Context, data []byte) { onMessage(c, ctx, data) })
	}))
	t.Cleanup(func() {
		cancel()
		for range cap(g.conns) {
			select {
			case c := <-g.conns:
				<-c.Done()
				continue
			default:
			}
			break
		}
		srv.Close()
	})
	g.url = "ws" + strings.TrimPrefix(srv.URL, "http")
	return g
}

func dial(t testing.TB, url string) *websocket.Conn {
	t.Helper()
	c, _, err := websocket.DefaultDialer.Dial(url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetReadDeadline(time.Now().Add(patience))
	return c
}

func (g *gateway) conn(t testing.TB) *Conn {
	t.Helper()
	select {
	case c := <-g.conns:
		t.Cleanup(func() { c.Close(CloseNormal, ""); <-c.Done() })
		return c
	case <-time.After(patience):
		t.Fatal("no connection")
		return nil
	}
}

func (g *gateway) end(t testing.TB) *CloseError {
	t.Helper()
	select {
	case err := <-g.ends:
		var ce *CloseError
		if !errors.As(err, &ce) {
			t.Fatalf("Serve returned %v", err)
		}
		return ce
	case <-time.After(patience):
		t.Fatal("Serve does not return")
		return nil
	}
}

func echo(c *Conn, _ context.Context, data []byte) { _ = c.Send(data) }

func wantClose(t testing.TB, c *websocket.Conn, code int, reason string) {
	t.Helper()
	for {
		_, _, err := c.ReadMessage()
		if err == nil {
			continue
		}
		var ce *websocket.CloseError
		if !errors.As(err, &ce) || ce.Code != code || !strings.Contains(ce.Text, reason) {
			t.Fatalf("closed with %v, want %d %q", err, code, reason)
		}
		return
	}
}

func TestMessagesOfEverySizeStaySeparateAndInOrder(t *testing.T) {
	t.Parallel()
	g := serve(t, Options{ReadLimit: 1 << 20}, echo)
	c := dial(t, g.url)
	sizes := []int{0, 1, 125, 126, 1000, 1024, 1100, 65535, 65536, 300_000, 3}
	go func() {
		for _, n := range sizes {
			_ = c.WriteMessage(websocket.TextMessage, bytes.Repeat([]byte("x"), n))
		}
	}()
	for _, n := range sizes {
		kind, data, err := c.ReadMessage()
		if err != nil || kind != websocket.TextMessage || len(data) != n {
			t.Fatalf("got %d bytes of kind %d, %v; want %d", len(data), kind, err, n)
		}
	}
}

func TestCloseFlushesWhatWasQueued(t *testing.T) {
	t.Parallel()
	g := serve(t, Options{}, func(c *Conn, _ context.Context, _ []byte) {
		for i := range 500 {
			_ = c.Send(fmt.Appendf(nil, "%d", i))
		}
		c.Close(4001, "that was all")
		if err := c.Send([]byte("late")); !errors.Is(err, outbox.ErrClosed) {
			t.Errorf("send after close: %v", err)
		}
	})
	c := dial(t, g.url)
	_ = c.WriteMessage(websocket.TextMessage, []byte("go"))
	for i := range 500 {
		if _, data, err := c.ReadMessage(); err != nil || string(data) != fmt.Sprint(i) {
			t.Fatalf("frame %d: %q, %v", i, data, err)
		}
	}
	wantClose(t, c, 4001, "that was all")
	if e := g.end(t); e.Code != 4001 || e.ByPeer {
		t.Fatalf("end: %v", e)
	}
}

func TestBadInputGetsItsCloseCode(t *testing.T) {
	t.Parallel()
	raw := func(c *websocket.Conn, b ...byte) { _, _ = c.NetConn().Write(b) }
	for name, tc := range map[string]struct {
		send func(c *websocket.Conn)
		code int
	}{
		"too big": {func(c *websocket.Conn) { _ = c.WriteMessage(websocket.TextMessage, make([]byte, 2001)) }, CloseTooBig},
		"too big in pieces": {func(c *websocket.Conn) {
			w, _ := c.NextWriter(websocket.TextMessage)
			for range 300 {
				_, _ = w.Write(make([]byte, 1000))
			}
			_ = w.Close()
		}, CloseTooBig},
		"announces 8 EiB": {func(c *websocket.Conn) {
			raw(c, 0x81, 0xff, 0x7f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
			raw(c, make([]byte, 5000)...)
		}, CloseTooBig},
		"not UTF-8":        {func(c *websocket.Conn) { _ = c.WriteMessage(websocket.TextMessage, []byte("\xff")) }, CloseBadText},
		"binary":           {func(c *websocket.Conn) { _ = c.WriteMessage(websocket.BinaryMessage, []byte("{}")) }, CloseUnsupported},
		"unmasked":         {func(c *websocket.Conn) { raw(c, 0x81, 0x01, 'x') }, CloseProtocolError},
		"unknown opcode":   {func(c *websocket.Conn) { raw(c, 0x83, 0x80, 0, 0, 0, 0) }, CloseProtocolError},
		"compressed":       {func(c *websocket.Conn) { raw(c, 0xc1, 0x80, 0, 0, 0, 0) }, CloseProtocolError},
		"close code of 1":  {func(c *websocket.Conn) { raw(c, 0x88, 0x82, 0, 0, 0, 0, 0, 1) }, CloseProtocolError},
		"peer says goodby": {func(c *websocket.Conn) { raw(c, 0x88, 0x82, 0, 0, 0, 0, 0x0f, 0xa1) }, 4001},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := serve(t, Options{ReadLimit: 2000}, echo)
			c := dial(t, g.url)
			tc.send(c)
			wantClose(t, c, tc.code, "")
			if e := g.end(t); e.Code != tc.code {
				t.Fatalf("end: %v", e)
			}
		})
	}
}

func TestReadLimitIsRaisedAfterTheHandshake(t *testing.T) {
	t.Parallel()
	g := serve(t, Options{ReadLimit: 100}, func(c *Conn, _ context.Context, data []byte) {
		c.SetReadLimit(100_000)
		_ = c.Send(data)
	})
	c := dial(t, g.url)
	for _, n := range []int{100, 100_000} {
		_ = c.WriteMessage(websocket.TextMessage, bytes.Repeat([]byte("a"), n))
		if _, data, err := c.ReadMessage(); err != nil || len(data) != n {
			t.Fatalf("%d bytes, %v; want %d", len(data), err, n)
		}
	}
	_ = c.WriteMessage(websocket.TextMessage, bytes.Repeat([]byte("a"), 100_001))
	wantClose(t, c, CloseTooBig, "")
}

func TestBinaryAsText(t *testing.T) {
	t.Parallel()
	g := serve(t, Options{Binary: AsText}, echo)
	c := dial(t, g.url)
	_ = c.WriteMessage(websocket.BinaryMessage, []byte("{}"))
	if kind, data, err := c.ReadMessage(); err != nil || kind != websocket.TextMessage || string(data) != "{}" {
		t.Fatalf("%d %q %v", kind, data, err)
	}
}

func TestContextOfTheServerEndsTheConnectionWith1001(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	seen := make(chan context.Context, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := Upgrade(w, r, Options{})
		if err != nil {
			return
		}
		_ = c.Serve(ctx, func(ctx context.Context, _ []byte) { seen <- ctx })
	}))
	defer srv.Close()
	c := dial(t, "ws"+strings.TrimPrefix(srv.URL, "http"))
	_ = c.WriteMessage(websocket.TextMessage, []byte("x"))
	mine := <-seen
	cancel()
	wantClose(t, c, CloseGoingAway, "")
	select {
	case <-mine.Done():
	case <-time.After(patience):
		t.Fatal("the context of the message outlives the connection")
	}
}

func TestPingsKeepAnIdleConnectionAndSilenceEndsIt(t *testing.T) {
	t.Parallel()
	g := serve(t, Options{PingEvery: 50 * time.Millisecond, ReadTimeout: 3 * time.Second}, echo)
	lively, silent := dial(t, g.url), dial(t, g.url)
	var pings atomic.Int32
	pong := lively.PingHandler()
	lively.SetPingHandler(func(s string) error { pings.Add(1); return pong(s) })
	got := make(chan error, 1)
	go func() {
		_, _, err := lively.ReadMessage()
		got <- err
	}()
	if e := g.end(t); e.Code != CloseGoingAway || e.ByPeer {
		t.Fatalf("silent peer: %v", e)
	}
	silent.SetPingHandler(func(string) error { return nil })
	wantClose(t, silent, CloseGoingAway, "sign of life")
	if pings.Load() < 2 {
		t.Fatalf("only %d pings", pings.Load())
	}
	select {
	case err := <-got:
		t.Fatalf("the lively peer was closed: %v", err)
	default:
	}
}

func TestPingIsAnsweredWhileFramesFlow(t *testing.T) {
	t.Parallel()
	g := serve(t, Options{}, echo)
	c := dial(t, g.url)
	ponged := make(chan string, 1)
	c.SetPongHandler(func(s string) error { ponged <- s; return nil })
	_ = c.WriteControl(websocket.PingMessage, []byte("hello"), time.Now().Add(patience))
	_ = c.WriteMessage(websocket.TextMessage, []byte("m"))
	if _, _, err := c.ReadMessage(); err != nil {
		t.Fatal(err)
	}
	if len(ponged) == 0 {
		// The pong may follow the echo.
		_ = c.WriteMessage(websocket.TextMessage, []byte("m"))
		_, _, _ = c.ReadMessage()
	}
	select {
	case s := <-ponged:
		if s != "hello" {
			t.Fatalf("pong %q", s)
		}
	default:
		t.Fatal("no pong")
	}
}

// stalled dials a peer with a small receive buffer that reads nothing.
func stalled(t testing.TB, url string) *websocket.Conn {
	t.Helper()
	d := websocket.Dialer{NetDialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err == nil {
			_ = c.(*net.TCPConn).SetReadBuffer(4096)
		}
		return c, err
	}}
	c, _, err := d.Dial(url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// flood sends until the connection ends or the outbox has been full for a while.
func flood(t testing.TB, c *Conn) {
	t.Helper()
	f := make([]byte, 8<<10)
	for full := 0; full < 200; {
		err := c.Send(f)
		switch {
		case errors.Is(err, outbox.ErrClosed):
			return
		case errors.Is(err, outbox.ErrFull):
			full++
			if n := c.Outbox().Len(); n > c.Outbox().Limit() {
				t.Fatalf("%d bytes are held", n)
			}
			select {
			case <-c.Done():
			case <-time.After(time.Millisecond):
			}
		default:
			full = 0
		}
	}
}

func TestPeerThatTakesNoBytesIsClosedAndHoldsAtMostItsBound(t *testing.T) {
	t.Parallel()
	g := serve(t, Options{OutboxLimit: 100_000, WriteTimeout: 300 * time.Millisecond}, echo)
	stalled(t, g.url)
	flood(t, g.conn(t))
	if e := g.end(t); !errors.Is(e, errStalled) || e.ByPeer {
		t.Fatalf("end: %v", e)
	}
}

func TestGoodbyeTellsAllAndWaitsForNobody(t *testing.T) {
	t.Parallel()
	g := serve(t, Options{OutboxLimit: 100_000, WriteTimeout: time.Hour}, echo)
	stalled(t, g.url)
	stuck := g.conn(t)
	flood(t, stuck)
	client := dial(t, g.url)
	well := g.conn(t)
	told := make(chan struct{})
	go func() {
		defer close(told)
		wantClose(t, client, CloseGoingAway, "that is all")
	}()
	ctx, cancel := context.WithCancel(t.Context())
	said := make(chan struct{})
	go func() {
		defer close(said)
		Goodbye(ctx, []*Conn{stuck, well}, "that is all")
	}()
	<-told // while the other takes nothing
	cancel()
	select {
	case <-said:
	case <-time.After(patience):
		t.Fatal("a peer that takes no bytes holds up the end")
	}
}

func TestSlowPeerStillGetsTheReason(t *testing.T) {
	t.Parallel()
	g := serve(t, Options{OutboxLimit: 1 << 20}, echo)
	client := dial(t, g.url)
	c := g.conn(t)
	flood(t, c)
	c.CloseSlow("too far behind; resume from 17")
	wantClose(t, client, ClosePolicy, "resume from 17")
}

func TestSlowButLivelyPeerIsNotClosed(t *testing.T) {
	t.Parallel()
	g := serve(t, Options{WriteTimeout: 2 * time.Second, OutboxLimit: 64 << 20}, echo)
	client := dial(t, g.url)
	c := g.conn(t)
	const frames = 2000 // 16 MB: more than the kernel keeps
	f := Text(make([]byte, 8<<10))
	for range frames {
		if err := c.Outbox().Push(f); err != nil {
			t.Fatal(err)
		}
	}
	// The whole takes twice the write timeout, each read well under it.
	pace := time.NewTicker(2 * time.Millisecond)
	defer pace.Stop()
	for i := range frames {
		if _, _, err := client.ReadMessage(); err != nil {
			t.Fatalf("frame %d: %v", i, err)
		}
		<-pace.C
	}
}

func TestUpgradeRefusalsAreHTTP(t *testing.T) {
	t.Parallel()
	g := serve(t, Options{}, echo)
	res, err := http.Get("http" + strings.TrimPrefix(g.url, "ws"))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusBadRequest {
		t.Fatalf("status %d", res.StatusCode)
	}
}

func TestSubprotocolIsNegotiated(t *testing.T) {
	t.Parallel()
	g := serve(t, Options{Subprotocols: []string{"v2", "v1"}}, echo)
	d := websocket.Dialer{Subprotocols: []string{"token.abc", "v1"}}
	c, res, err := d.Dial(g.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := res.Header.Get("Sec-WebSocket-Protocol"); got != "v1" || g.conn(t).Subprotocol() != "v1" {
		t.Fatalf("agreed on %q", got)
	}
}

func TestAbruptDisconnectsLeaveNothing(t *testing.T) {
	t.Parallel()
	g := serve(t, Options{}, echo)
	for i := range 50 {
		c := dial(t, g.url)
		if i%2 == 0 {
			_, _ = c.NetConn().Write([]byte{0x81, 0xfe, 0x40}) // in the middle of a frame
		}
		_ = c.NetConn().(*net.TCPConn).SetLinger(0)
		_ = c.NetConn().Close()
		if e := g.end(t); !e.ByPeer {
			t.Fatalf("end: %v", e)
		}
	}
}

func TestPayloadIsWhatTextWasGiven(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 125, 126, math.MaxUint16, math.MaxUint16 + 1} {
		want := bytes.Repeat([]byte("x"), n)
		if got := Payload(Text(want)); !bytes.Equal(got, want) {
			t.Errorf("%d bytes became %d", n, len(got))
		}
	}
}

// A shared run that is long enough goes to the socket as it is; what was queued
// before and after it, and the answers in between, keep their places.
func TestRunsAndAnswersArriveInOrder(t *testing.T) {
	t.Parallel()
	g := serve(t, Options{}, echo)
	peer := dial(t, g.url)
	c := <-g.conns
	tape := outbox.Tape{Header: TextHeader}
	const count = 5000
	go func() {
		for i := range count {
			text := fmt.Appendf(nil, "%d %s", i, strings.Repeat("x", i%400))
			err := outbox.ErrFull
			for errors.Is(err, outbox.ErrFull) {
				_ = c.Outbox().WaitBelow(t.Context(), outbox.DefaultLimit/2)
				if i%700 == 699 {
					err = c.Send(text)
				} else {
					err = c.Outbox().Push(tape.Add(text))
				}
			}
		}
	}()
	for i := range count {
		_, got, err := peer.ReadMessage()
		if want := fmt.Sprintf("%d %s", i, strings.Repeat("x", i%400)); err != nil || string(got) != want {
			t.Fatalf("message %d: got %.20q, %v", i, got, err)
		}
	}
}
