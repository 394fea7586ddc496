package ws

import (
	"bufio"
	"encoding/binary"
	"errors"
	"math"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"github.com/polyhost/polyhost/transports/outbox"
)

// errStalled says that the peer took no bytes for the write timeout.
var errStalled = errors.New("peer takes no bytes")

// flushBuffers are shared by the connections that are being written to.
var flushBuffers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, flushSize) }}

// gatherConn is the socket as gorilla sees it. Once gathering, writes go to a
// buffer until flush sends all of them in one system call.
//
// Messages are framed here: from a server that is a few bytes before the
// payload, and doing so for a whole batch costs a third of what a call of
// gorilla's for each message does. Control frames come from gorilla through
// Write: from the writer goroutine, and from the reader's side only when gorilla
// closes after a protocol error, which may then wait for a flush under way.
type gatherConn struct {
	net.Conn
	readTimeout  time.Duration
	writeTimeout time.Duration
	gathering    bool         // set before the goroutines start
	giveUp       atomic.Int64 // no write may last longer, in Unix ns; zero while open
	sent         atomic.Int64 // bytes that the socket took

	mu     sync.Mutex
	buf    *bufio.Writer // only between the first write and flush
	closed bool          // a close frame was written: no message may follow
}

// Read renews the read deadline, so that any traffic, a pong or a piece of a
// long message, counts as a sign of life. So does taking what we send: the pings
// to a peer that is busy with a long queue wait at the end of it.
func (g *gatherConn) Read(p []byte) (int, error) {
	for {
		sent := g.sent.Load()
		if err := g.Conn.SetReadDeadline(time.Now().Add(g.readTimeout)); err != nil {
			return 0, err
		}
		n, err := g.Conn.Read(p)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || g.sent.Load()-sent < aliveBytes {
			return n, err
		}
	}
}

// SetWriteDeadline is ours alone: gorilla sets one for every message.
func (g *gatherConn) SetWriteDeadline(t time.Time) error {
	if g.gathering {
		return nil
	}
	return g.Conn.SetWriteDeadline(t)
}

// Write gathers one control frame.
func (g *gatherConn) Write(p []byte) (int, error) {
	if !g.gathering {
		return g.Conn.Write(p)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = g.closed || p[0]&0x0f == websocket.CloseMessage
	return g.buffer().Write(p)
}

// write gathers messages that are framed already. A long run goes to the socket
// as it is, after what has gathered; so does what does not fit the buffer.
func (g *gatherConn) write(batch []outbox.Run) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return websocket.ErrCloseSent
	}
	for _, run := range batch {
		if err := g.writeRun(run); err != nil {
			return err
		}
	}
	return nil
}

func (g *gatherConn) writeRun(run outbox.Run) error {
	if len(run) >= directSize && (g.buf == nil || g.buf.Buffered() == 0) {
		_, err := socketWriter{g}.Write(run)
		return err
	}
	_, err := g.buffer().Write(run)
	return err
}

// Text is the frame of a text message.
func Text(payload []byte) outbox.Frame {
	return append(TextHeader(make([]byte, 0, len(payload)+maxHeader), len(payload)), payload...)
}

// Payload is what Text was given.
func Payload(f outbox.Frame) []byte {
	payload, _ := Cut(f)
	return payload
}

// Cut splits frames that lie one behind the other after the first, and gives
// its payload.
func Cut(frames []byte) (payload, rest []byte) {
	n, body := int(frames[1]), frames[2:]
	switch n {
	case 126:
		n, body = int(binary.BigEndian.Uint16(body)), body[2:]
	case 127:
		n, body = int(binary.BigEndian.Uint64(body)), body[8:]
	}
	return body[:n], body[n:]
}

// TextHeader appends the header of one whole, unmasked text message of n bytes.
// It is an outbox.Header.
func TextHeader(b []byte, n int) []byte {
	b = append(b, 0x80|websocket.TextMessage)
	switch {
	case n <= 125:
		return append(b, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, 126), uint16(n))
	default:
		return binary.BigEndian.AppendUint64(append(b, 127), uint64(n))
	}
}

// buffer is where to gather; the caller holds the lock.
func (g *gatherConn) buffer() *bufio.Writer {
	if g.buf == nil {
		g.buf = flushBuffers.Get().(*bufio.Writer)
		g.buf.Reset(socketWriter{g})
	}
	return g.buf
}

// flush writes what has gathered and gives the buffer back.
func (g *gatherConn) flush() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.buf == nil {
		return nil
	}
	err := g.buf.Flush()
	g.buf.Reset(nil)
	flushBuffers.Put(g.buf)
	g.buf = nil
	return err
}

// socketWriter writes to the socket and gives up only when the peer takes
// nothing for the write timeout: a slow peer that makes progress is left to
// the bound of its queue.
type socketWriter struct{ g *gatherConn }

func (s socketWriter) Write(p []byte) (int, error) {
	for done := 0; ; {
		deadline, last := time.Now().Add(s.g.writeTimeout), false
		if at := s.g.giveUp.Load(); at != 0 && at < deadline.UnixNano() {
			deadline, last = time.Unix(0, at), true
		}
		if err := s.g.Conn.SetWriteDeadline(deadline); err != nil {
			return done, err
		}
		n, err := s.g.Conn.Write(p[done:])
		done += n
		s.g.sent.Add(int64(n))
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return done, err
		}
		if n == 0 || last {
			return done, errStalled
		}
	}
}

// hijackWriter hands gorilla our socket in place of the real one. It shows
// nothing of the response but what an upgrade needs.
type hijackWriter struct {
	http.ResponseWriter
	wrap func(net.Conn) net.Conn
}

func (h hijackWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	return h.wrap(c), rw, nil
}
