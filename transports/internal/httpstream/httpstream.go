// Package httpstream writes the frames of an outbox as the body of one HTTP
// response, for the transports that differ only in headers and framing.
//
// Ordering, loss and bounds are those of the outbox. Only the stream's own
// goroutine waits for the peer, and it gives up when the peer does not take a
// flush within the write timeout.
//
// Over HTTP/1.1 the stream takes the socket from the server and lets the
// handler return, because what net/http keeps for a running handler is more
// than an idle stream needs: it then costs two goroutines and no buffer, and
// the connection ends with it. Otherwise it runs inside the handler.
package httpstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/polyhost/polyhost/transports/listen"
	"github.com/polyhost/polyhost/transports/outbox"
)

// Stream says how one response is written.
type Stream struct {
	Header       map[string]string
	Opening      []byte // the first bytes of the body; none if empty
	Heartbeat    []byte // written when Every passed since the stream began or the last heartbeat
	Every        time.Duration
	WriteTimeout time.Duration
}

// errGone says that the peer has closed its connection.
var errGone = errors.New("the peer has gone")

// body is where a stream is written: a response of net/http or a socket.
type body interface {
	// begin sends the head and the first bytes of the body.
	begin(opening []byte, deadline time.Time) error
	// write sends runs of frames.
	write(batch []outbox.Run, deadline time.Time) error
	// end says that the body is whole.
	end(deadline time.Time)
}

// Run sends the headers at once and then what comes out of out, until that is
// closed and drained (the error is the one given to Close), the peer is gone, a
// write fails or the server stops and nothing is queued. Then out is closed and
// done is called with the reason. The handler should return after Run: the
// stream may go on behind it, so done is where what belongs to it is let go.
func (s Stream) Run(w http.ResponseWriter, r *http.Request, out *outbox.Outbox, done func(error)) {
	for k, v := range s.Header {
		w.Header().Set(k, v)
	}
	finish := func(err error) {
		out.Discard(err)
		done(err)
	}
	if r.ProtoMajor == 1 && r.ProtoMinor >= 1 && r.Method != http.MethodHead {
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			if tcp, ok := conn.(*net.TCPConn); ok {
				_ = tcp.SetWriteBuffer(socketBuffer) // a larger one works, too
			}
			b := &socket{conn: conn, header: w.Header()}
			listen.Detach(r, func(ctx context.Context) {
				gone := b.watch()
				err := s.run(ctx, b, gone, out)
				b.close(gone)
				finish(err)
			})
			return
		}
	}
	finish(s.run(r.Context(), &response{w, http.NewResponseController(w)}, nil, out))
}

// run is the life of a stream. It ends early when gone is closed.
func (s Stream) run(ctx context.Context, b body, gone <-chan struct{}, out *outbox.Outbox) error {
	deadline := func() time.Time { return time.Now().Add(s.WriteTimeout) }
	if err := b.begin(s.Opening, deadline()); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	var beat <-chan time.Time
	if len(s.Heartbeat) > 0 {
		ticker := time.NewTicker(s.Every)
		defer ticker.Stop()
		beat = ticker.C
	}
	for {
		batch, ended := out.Take()
		if len(batch) > 0 {
			if err := b.write(batch, deadline()); err != nil {
				return fmt.Errorf("write: %w", err)
			}
			continue
		}
		if ended != nil {
			b.end(deadline())
			return ended
		}
		select {
		case <-out.Ready():
		case <-beat:
			if err := b.write([]outbox.Run{s.Heartbeat}, deadline()); err != nil {
				return fmt.Errorf("write: %w", err)
			}
		case <-gone:
			return errGone
		case <-ctx.Done():
			b.end(deadline())
			return context.Cause(ctx)
		}
	}
}

// buffers gather a batch, so that it goes out with one system call.
var buffers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, outbox.MaxBatch) }}

// gather writes through a pooled buffer.
func gather(w io.Writer, write func(*bufio.Writer)) error {
	buf := buffers.Get().(*bufio.Writer)
	buf.Reset(w)
	defer func() {
		buf.Reset(nil)
		buffers.Put(buf)
	}()
	write(buf) // an error stays until Flush
	return buf.Flush()
}

func writeRuns(buf *bufio.Writer, batch []outbox.Run) {
	for _, run := range batch {
		_, _ = buf.Write(run)
	}
}

// response is a stream inside its handler.
type response struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

func (b *response) begin(opening []byte, deadline time.Time) error {
	b.w.WriteHeader(http.StatusOK)
	if len(opening) == 0 {
		if err := b.renew(deadline); err != nil {
			return err
		}
		return b.rc.Flush()
	}
	return b.write([]outbox.Run{opening}, deadline)
}

func (b *response) write(batch []outbox.Run, deadline time.Time) error {
	if err := b.renew(deadline); err != nil {
		return err
	}
	if err := gather(b.w, func(buf *bufio.Writer) { writeRuns(buf, batch) }); err != nil {
		return err
	}
	return b.rc.Flush()
}

// renew sets the deadline. Not every server below has one; all have the write error.
func (b *response) renew(deadline time.Time) error {
	if err := b.rc.SetWriteDeadline(deadline); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

func (*response) end(time.Time) {} // the server does it when the handler returns

// socket is a stream on a connection of its own, in chunks.
type socket struct {
	conn   net.Conn
	header http.Header // until begin
}

func (b *socket) begin(opening []byte, deadline time.Time) error {
	h := b.header
	b.header = nil
	h.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	h.Set("Connection", "close")
	h.Set("Transfer-Encoding", "chunked")
	h.Del("Content-Length")
	return b.send(deadline, func(buf *bufio.Writer) {
		_, _ = buf.WriteString("HTTP/1.1 200 OK\r\n")
		_ = h.Write(buf)
		_, _ = buf.WriteString("\r\n")
		if len(opening) > 0 {
			writeChunk(buf, []outbox.Run{opening})
		}
	})
}

func (b *socket) write(batch []outbox.Run, deadline time.Time) error {
	return b.send(deadline, func(buf *bufio.Writer) { writeChunk(buf, batch) })
}

func (b *socket) send(deadline time.Time, write func(*bufio.Writer)) error {
	if err := b.conn.SetWriteDeadline(deadline); err != nil {
		return err
	}
	return gather(b.conn, write)
}

// writeChunk makes one chunk of all runs. They are not empty: an empty chunk
// would be the end.
func writeChunk(buf *bufio.Writer, batch []outbox.Run) {
	size := 0
	for _, run := range batch {
		size += len(run)
	}
	if size == 0 {
		return
	}
	_, _ = fmt.Fprintf(buf, "%x\r\n", size)
	writeRuns(buf, batch)
	_, _ = buf.WriteString("\r\n")
}

func (b *socket) end(deadline time.Time) {
	// The peer may be gone: then it does not miss the end.
	_ = b.send(deadline, func(buf *bufio.Writer) { _, _ = buf.WriteString("0\r\n\r\n") })
}

// watch reads until the peer goes: it has nothing more to say.
func (b *socket) watch() <-chan struct{} {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		var nothing [16]byte
		for {
			if _, err := b.conn.Read(nothing[:]); err != nil {
				return
			}
		}
	}()
	return gone
}

// close lets the peer read to the end, because closing a socket at once may make
// the kernel drop what it still has, and waits for the reader.
func (b *socket) close(gone <-chan struct{}) {
	if half, ok := b.conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		wait := time.NewTimer(linger)
		defer wait.Stop()
		select {
		case <-gone:
		case <-wait.C:
		}
	}
	_ = b.conn.Close() // nothing is left that could fail
	<-gone
}
