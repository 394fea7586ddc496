// Package pipe carries messages over a pair of pipes, such as a program's
// standard input and output: one JSON text a line, ended by LF.
//
//   - Ordering: messages reach onMessage one after another in the order they
//     were sent; frames leave in the order of Send.
//   - Loss: a frame that Send took is written unless the connection ends first.
//   - Bounds: the outbox bounds what waits for the peer, who makes next what one
//     message may bring.
//   - Blocking: nothing but the connection's own writer waits for a peer. A pipe
//     knows no deadlines: when the connection is closed and its peer takes nothing,
//     the goroutine in the system call is left behind. There is one such
//     connection in a program, and the program ends with it.
//
// Frames are those of package ws, as connections of both kinds share them; their
// headers are taken off. It must not know what a message means.
package pipe

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/polyhost/polyhost/transports/outbox"
	"github.com/polyhost/polyhost/transports/ws"
)

// ErrClosed is the end of a connection that this side closed, with the reason.
var ErrClosed = errors.New("pipe: closed by us")

// Conn is one connection. Serve must be called once; all other methods may be
// called from any goroutine.
type Conn struct {
	next  func() ([]byte, error)
	w     io.Writer
	close func()
	out   *outbox.Outbox
	done  chan struct{} // closed when Serve has returned

	closing chan struct{} // closed with the reason
	once    sync.Once
	end     error
}

// New makes a connection. next returns the peer's next message, which may be
// overwritten by the call after, or why there is none: io.EOF when the peer has
// said all. stop ends a next that waits, if that is possible. The outbox holds
// at most limit bytes; zero means its default.
func New(next func() ([]byte, error), stop func(), w io.Writer, limit int) *Conn {
	return &Conn{next: next, close: stop, w: w, out: outbox.New(limit), done: make(chan struct{}), closing: make(chan struct{})}
}

// Serve runs the connection until the peer ends it, it is closed, or ctx ends,
// and says why. onMessage is called in this goroutine and may keep data.
func (c *Conn) Serve(ctx context.Context, onMessage func(ctx context.Context, data []byte)) error {
	defer close(c.done)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { c.finish(context.Cause(ctx), false) })
	defer stop()
	written := make(chan struct{})
	go func() { defer close(written); c.write() }()
	messages := make(chan []byte)
	go c.read(messages)
	for open := true; open; {
		select {
		case m := <-messages:
			onMessage(ctx, m)
		case <-c.closing:
			open = false
		}
	}
	c.close()
	wait := time.NewTimer(closeWithin)
	defer wait.Stop()
	select {
	case <-written:
	case <-wait.C:
	}
	return c.end
}

// read hands over what the peer says, until the connection ends.
func (c *Conn) read(messages chan<- []byte) {
	for {
		line, err := c.next()
		if err != nil {
			c.finish(fmt.Errorf("pipe: read: %w", err), false)
			return
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		select {
		case messages <- bytes.Clone(line):
		case <-c.closing:
			return
		}
	}
}

// write is the writer's life: all that gathered, one flush, until the outbox is
// closed and drained.
func (c *Conn) write() {
	w := bufio.NewWriterSize(c.w, flushSize)
	for {
		batch, err := c.out.Next(context.Background())
		if err != nil {
			return
		}
		for _, run := range batch {
			for rest := []byte(run); len(rest) > 0; {
				var message []byte
				message, rest = ws.Cut(rest)
				writeLine(w, message)
			}
		}
		if err := w.Flush(); err != nil {
			c.finish(fmt.Errorf("pipe: write: %w", err), true)
			return
		}
	}
}

// writeLine writes a JSON text as one line. A break in it stands between tokens:
// those of strings are escaped. The error is the flush's.
func writeLine(w *bufio.Writer, message []byte) {
	for {
		at := bytes.IndexAny(message, "\r\n")
		if at < 0 {
			break
		}
		_, _ = w.Write(message[:at])
		_ = w.WriteByte(' ')
		message = message[at+1:]
	}
	_, _ = w.Write(message)
	_ = w.WriteByte('\n')
}

// Send queues one message. It never blocks: outbox.ErrFull means that the peer
// is too far behind.
func (c *Conn) Send(payload []byte) error { return c.out.Push(ws.Text(payload)) }

// Outbox is the queue of the connection, for frames of package ws.
func (c *Conn) Outbox() *outbox.Outbox { return c.out }

// SetReadLimit does nothing: next has its own.
func (c *Conn) SetReadLimit(int64) {}

// Close ends the connection when what is queued is written, within a few
// seconds. Only the first call counts; a pipe carries no code.
func (c *Conn) Close(_ int, reason string) { c.finish(fmt.Errorf("%w: %s", ErrClosed, reason), false) }

// CloseSlow ends the connection and drops what is queued.
func (c *Conn) CloseSlow(reason string) { c.finish(fmt.Errorf("%w: %s", ErrClosed, reason), true) }

// Done is closed when Serve has returned.
func (c *Conn) Done() <-chan struct{} { return c.done }

func (c *Conn) finish(err error, drop bool) {
	c.once.Do(func() {
		c.end = err
		close(c.closing)
	})
	if drop {
		c.out.Discard(err)
	} else {
		c.out.Close(err)
	}
}
