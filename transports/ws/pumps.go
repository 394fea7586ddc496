package ws

import (
	"context"
	"errors"
	"io"
	"net"
	"time"
	"unicode/utf8"

	"github.com/gorilla/websocket"
)

var (
	errNotUTF8 = errors.New("text is not UTF-8")
	errTooBig  = errors.New("message too big")
)

// read is the reader's life. On return the reason of the end is recorded. Once
// the connection is closing it only waits for the peer's close, so that the
// kernel does not throw away our last words.
func (c *Conn) read(ctx context.Context, onMessage func(context.Context, []byte)) {
	for {
		kind, r, err := c.ws.NextReader()
		if err == nil && c.reason() != nil {
			_, err = io.Copy(io.Discard, r)
			if err == nil {
				continue
			}
		}
		var data []byte
		if err == nil {
			// gorilla's own limit would write its close frame past our queue.
			limit := c.readLimit.Load()
			data, err = io.ReadAll(io.LimitReader(r, limit+1))
			if err == nil && int64(len(data)) > limit {
				c.finish(&CloseError{Code: CloseTooBig, Reason: errTooBig.Error(), Err: errTooBig}, false)
				continue
			}
		}
		if err != nil {
			c.finish(readFailure(err), true)
			return
		}
		switch {
		case kind == websocket.BinaryMessage && c.opts.Binary == RejectBinary:
			c.Close(CloseUnsupported, "binary messages are not understood here")
		case !utf8.Valid(data):
			c.finish(&CloseError{Code: CloseBadText, Reason: errNotUTF8.Error(), Err: errNotUTF8}, false)
		default:
			onMessage(ctx, data)
		}
	}
}

// readFailure says what a failed read means for the close.
func readFailure(err error) *CloseError {
	var (
		ce *websocket.CloseError
		ne net.Error // what gorilla makes of any socket error
	)
	switch {
	case errors.As(err, &ce) && ce.Code != closeAbnormal:
		return &CloseError{Code: ce.Code, Reason: ce.Text, ByPeer: true}
	case errors.As(err, &ne) && ne.Timeout():
		return &CloseError{Code: CloseGoingAway, Reason: "no sign of life", Err: err}
	case errors.Is(err, io.EOF), errors.As(err, &ce):
		return &CloseError{Code: closeAbnormal, ByPeer: true, Err: io.ErrUnexpectedEOF}
	case ne != nil:
		return &CloseError{Code: closeAbnormal, ByPeer: true, Err: err}
	default:
		return &CloseError{Code: CloseProtocolError, Reason: "malformed frame", Err: err}
	}
}

// write is the writer's life: all that gathered, one flush, until the outbox
// is closed and drained; then the close frame.
func (c *Conn) write() {
	defer c.socket.Close()
	ping := time.NewTicker(c.opts.PingEvery)
	defer ping.Stop()
	for {
		batch, ended := c.out.Take()
		if len(batch) > 0 {
			if err := c.socket.write(batch); err != nil {
				c.writeFailed(err)
				return
			}
		}
		if data := c.pong.Swap(nil); data != nil {
			_ = c.ws.WriteControl(websocket.PongMessage, []byte(*data), time.Time{})
		}
		if ended != nil {
			c.sayGoodbye()
			return
		}
		if err := c.socket.flush(); err != nil {
			c.writeFailed(err)
			return
		}
		if len(batch) > 0 {
			continue
		}
		select {
		case <-c.out.Ready():
		case <-c.control:
		case <-ping.C:
			_ = c.ws.WriteControl(websocket.PingMessage, nil, time.Time{})
			if err := c.socket.flush(); err != nil {
				c.writeFailed(err)
				return
			}
		}
	}
}

// sayGoodbye sends the close frame and waits a moment for the peer's, because
// closing the socket with unread data would make the kernel drop what we sent.
func (c *Conn) sayGoodbye() {
	end := c.reason()
	if end.Code != closeAbnormal {
		// Fails only after gorilla has closed by itself, with a code of its own.
		_ = c.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(end.Code, end.Reason), time.Time{})
	}
	if err := c.socket.flush(); err != nil {
		c.log.Debug("close frame not delivered", "code", end.Code, "err", err)
		return
	}
	wait := time.NewTimer(closeWait)
	defer wait.Stop()
	select {
	case <-c.readDone:
	case <-wait.C:
	}
}

func (c *Conn) writeFailed(err error) {
	c.finish(&CloseError{Code: closeAbnormal, ByPeer: !errors.Is(err, errStalled), Err: err}, true)
	if errors.Is(err, errStalled) {
		c.log.Info("peer takes no bytes: connection closed", "after", c.opts.WriteTimeout)
	}
	_ = c.socket.flush() // gives the buffer back, and sends gorilla's close frame if that was the failure
}
