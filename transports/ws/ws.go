// Package ws carries messages over WebSocket.
//
//   - Ordering: messages reach onMessage one after another in the order they
//     were sent; frames leave in the order of Send.
//   - Loss: a frame that Send took is written unless the connection ends
//     first. A refused frame is the caller's to deal with.
//   - Bounds: the outbox bounds what waits for a peer, the read limit what one
//     message may bring. An idle connection holds one small buffer and two
//     goroutines, and twice as much if Serve runs inside the HTTP handler: let
//     listen.Detach run it.
//   - Blocking: nothing but the connection's own writer waits for a peer, and
//     it gives up when the peer takes no bytes for the write timeout.
//
// One goroutine reads and one writes. The writer sends all that gathered while
// the write before was in the kernel with one system call; frames stay
// separate messages. Compression is off: it costs more than it saves on deltas.
//
// It must not know what a message means. Host, origin and token are checked
// before Upgrade, with package guard.
package ws

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/gorilla/websocket"

	"github.com/polyhost/polyhost/transports/outbox"
)

// Close codes that the fronts use, from RFC 6455.
const (
	CloseNormal        = websocket.CloseNormalClosure
	CloseGoingAway     = websocket.CloseGoingAway
	CloseProtocolError = websocket.CloseProtocolError
	CloseUnsupported   = websocket.CloseUnsupportedData
	CloseBadText       = websocket.CloseInvalidFramePayloadData
	ClosePolicy        = websocket.ClosePolicyViolation
	CloseTooBig        = websocket.CloseMessageTooBig
	CloseInternal      = websocket.CloseInternalServerErr
	CloseTryAgain      = websocket.CloseTryAgainLater
	closeAbnormal      = websocket.CloseAbnormalClosure
)

// Binary says what a binary message is taken for.
type Binary int

const (
	// RejectBinary closes with 1003.
	RejectBinary Binary = iota
	// AsText treats it like a text message; it must be valid UTF-8 all the same.
	AsText
)

// Options configure one connection; a zero field means the default of limits.go.
type Options struct {
	ReadLimit    int64 // largest message in bytes until SetReadLimit
	OutboxLimit  int   // bytes that may wait for the peer
	PingEvery    time.Duration
	WriteTimeout time.Duration // how long the peer may take no bytes
	ReadTimeout  time.Duration // how long the peer may be silent; two pings
	Subprotocols []string      // those we speak, best first
	Binary       Binary
	Logger       *slog.Logger
}

// CloseError says how a connection ended.
type CloseError struct {
	Code   int
	Reason string
	ByPeer bool  // the peer closed or vanished first
	Err    error // what the socket said, if it failed
}

func (e *CloseError) Error() string {
	who := "closed by us"
	if e.ByPeer {
		who = "closed by the peer"
	}
	s := fmt.Sprintf("ws: %s with %d", who, e.Code)
	if e.Reason != "" {
		s += " " + e.Reason
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *CloseError) Unwrap() error { return e.Err }

// Conn is one WebSocket connection. Serve must be called once; all other
// methods may be called from any goroutine.
type Conn struct {
	opts   Options
	ws     *websocket.Conn
	socket *gatherConn
	out    *outbox.Outbox
	log    *slog.Logger

	readLimit atomic.Int64
	control   chan struct{} // a pong waits to be written
	pong      atomic.Pointer[string]
	readDone  chan struct{}
	done      chan struct{}

	mu  sync.Mutex
	end *CloseError // why the connection ends; set once
}

// Upgrade answers the handshake. On failure it has written the HTTP error.
func Upgrade(w http.ResponseWriter, r *http.Request, o Options) (*Conn, error) {
	if o.ReadLimit <= 0 {
		o.ReadLimit = DefaultReadLimit
	}
	if o.PingEvery <= 0 {
		o.PingEvery = DefaultPingEvery
	}
	if o.WriteTimeout <= 0 {
		o.WriteTimeout = DefaultWriteTimeout
	}
	if o.ReadTimeout <= 0 {
		o.ReadTimeout = 2 * o.PingEvery
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	up := websocket.Upgrader{
		HandshakeTimeout: handshakeTimeout,
		WriteBufferSize:  controlBufferSize,
		ReadBufferSize:   readBufferSize,
		Subprotocols:     o.Subprotocols,
		CheckOrigin:      func(*http.Request) bool { return true }, // the guard has judged it, with the configured list
	}
	c := &Conn{
		opts:     o,
		out:      outbox.New(o.OutboxLimit),
		log:      o.Logger.With("peer", r.RemoteAddr),
		control:  make(chan struct{}, 1),
		readDone: make(chan struct{}),
		done:     make(chan struct{}),
	}
	c.readLimit.Store(o.ReadLimit)
	wrap := func(s net.Conn) net.Conn {
		if tcp, ok := s.(*net.TCPConn); ok {
			_ = tcp.SetWriteBuffer(socketBuffer)
		}
		c.socket = &gatherConn{Conn: s, readTimeout: o.ReadTimeout, writeTimeout: o.WriteTimeout}
		return c.socket
	}
	conn, err := up.Upgrade(hijackWriter{w, wrap}, r, nil)
	if err != nil {
		return nil, fmt.Errorf("ws: upgrade: %w", err)
	}
	c.socket.gathering = true
	c.ws = conn
	c.ws.SetPingHandler(c.onPing)
	c.ws.SetCloseHandler(c.onClose)
	return c, nil
}

// Serve runs the connection until it is closed and returns a *CloseError.
// onMessage is called in the reader's goroutine, one message at a time; it must
// not block and may keep data. Its context ends with the connection. When ctx
// ends the peer is told 1001.
func (c *Conn) Serve(ctx context.Context, onMessage func(ctx context.Context, data []byte)) error {
	ctx, cancel := context.WithCancel(ctx)
	writerDone := make(chan struct{})
	go func() {
		defer close(writerDone)
		c.write()
	}()
	stop := context.AfterFunc(ctx, func() { c.Close(CloseGoingAway, "shutting down") })
	defer func() {
		// Also after a panic of onMessage, which net/http reports.
		stop()
		cancel()
		c.finish(&CloseError{Code: CloseInternal}, true)
		close(c.readDone)
		<-writerDone
		close(c.done)
	}()
	c.read(ctx, onMessage)
	return c.reason()
}

// Send queues one message for this peer alone. It never blocks: outbox.ErrFull
// means that the peer is too far behind and the caller decides between
// CloseSlow and catching up from the log.
func (c *Conn) Send(payload []byte) error { return c.out.Push(Text(payload)) }

// Outbox is the queue of the connection, for frames made by Text or TextHeader
// that it shares with others, and for feeders that wait for room.
func (c *Conn) Outbox() *outbox.Outbox { return c.out }

// SetReadLimit sets the largest message in bytes; it holds from the next
// message on. A larger one closes with 1009.
func (c *Conn) SetReadLimit(n int64) { c.readLimit.Store(n) }

// Close sends what is queued, within the write timeout, then a close frame,
// and gives the peer a second to answer. It returns at once and only the first
// call counts.
func (c *Conn) Close(code int, reason string) {
	c.finish(&CloseError{Code: code, Reason: cutReason(reason)}, false)
}

// CloseSlow ends a connection whose peer is too far behind: what is queued is
// dropped, so that the reason, which should say how to resume, reaches the peer
// soon. The code is 1008.
func (c *Conn) CloseSlow(reason string) {
	c.finish(&CloseError{Code: ClosePolicy, Reason: cutReason(reason)}, true)
}

// Goodbye closes connections for the end of their server and waits for them.
// When ctx ends, those whose peers take no bytes are cut: unlike Close, which
// leaves a slow peer the write timeout.
func Goodbye(ctx context.Context, conns []*Conn, reason string) {
	for _, c := range conns {
		c.Close(CloseGoingAway, reason)
	}
	for _, c := range conns {
		select {
		case <-c.done:
			continue
		case <-ctx.Done():
		}
		_ = c.socket.Close() // its goroutines notice
		<-c.done
	}
}

// Done is closed when both goroutines of the connection have ended.
func (c *Conn) Done() <-chan struct{} { return c.done }

// RemoteAddr is the address of the peer.
func (c *Conn) RemoteAddr() net.Addr { return c.socket.RemoteAddr() }

// Subprotocol is the one agreed on, or empty.
func (c *Conn) Subprotocol() string { return c.ws.Subprotocol() }

func (c *Conn) reason() *CloseError {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.end
}

// finish records why the connection ends and lets the writer come to an end.
func (c *Conn) finish(e *CloseError, drop bool) {
	c.mu.Lock()
	if c.end == nil {
		c.end = e
		c.socket.giveUp.Store(time.Now().Add(c.opts.WriteTimeout).UnixNano())
	}
	c.mu.Unlock()
	if drop {
		c.out.Discard(e)
	} else {
		c.out.Close(e)
	}
}

// cutReason shortens a close reason to what the protocol allows, at a character.
func cutReason(s string) string {
	if len(s) <= maxReason {
		return s
	}
	n := maxReason
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// onPing remembers the newest ping for the writer, so that a flood of pings
// from a peer that does not read costs nothing.
func (c *Conn) onPing(data string) error {
	c.pong.Store(&data)
	select {
	case c.control <- struct{}{}:
	default:
	}
	return nil
}

// onClose records the peer's close; the writer answers it.
func (c *Conn) onClose(code int, text string) error {
	c.finish(&CloseError{Code: code, Reason: text, ByPeer: true}, true)
	return nil
}
