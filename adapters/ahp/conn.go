package ahp

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/transports/jsonrpc"
	"github.com/polyhost/polyhost/transports/outbox"
	"github.com/polyhost/polyhost/transports/ws"
)

// conn is one connection. Its messages are handled one after another.
type conn struct {
	front *Front
	ws    *ws.Conn
	log   *slog.Logger

	mu      sync.Mutex
	client  *client // nil before the handshake
	closed  bool
	subs    map[string]held
	spelled map[id.ID]string // sessions it calls by another name than usual

	// behind belongs to the journal's lock: the outbox was full, and a feeder
	// brings what it missed.
	behind  bool
	feeding sync.WaitGroup
}

// held is a channel that a connection watches.
type held struct {
	ch      *channel
	session id.ID // Nil for the root
	chat    id.ID
}

func isUpgrade(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// accept runs a connection until it ends.
func (f *Front) accept(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	if f.stopping {
		f.mu.Unlock()
		http.Error(w, "the gateway is stopping", http.StatusServiceUnavailable)
		return
	}
	f.wg.Add(1)
	f.mu.Unlock()
	defer f.wg.Done()
	sock, err := ws.Upgrade(w, r, ws.Options{ReadLimit: handshakeLimit, OutboxLimit: outboxLimit, Binary: ws.AsText, Logger: f.log})
	if err != nil {
		f.log.Debug("A handshake failed", "err", err)
		return
	}
	c := &conn{front: f, ws: sock, log: f.log.With("peer", r.RemoteAddr), subs: map[string]held{}, spelled: map[id.ID]string{}}
	f.mu.Lock()
	f.conns[c] = struct{}{}
	f.mu.Unlock()
	peer := jsonrpc.NewPeer(f.ctx, jsonrpc.Options{
		Send:     c.ws.Send,
		Handle:   c.handle,
		Preempt:  c.preempt,
		Serial:   func(*jsonrpc.Request) string { return "all" },
		MapError: mapError,
		Logger:   c.log,
	})
	deadline := time.AfterFunc(handshakeWithin, func() {
		if c.who() == nil {
			c.ws.Close(ws.ClosePolicy, "initialize did not come in time")
		}
	})
	err = c.ws.Serve(f.ctx, func(_ context.Context, data []byte) {
		if err := peer.Receive(data); err != nil {
			c.ws.Close(ws.ClosePolicy, "too many notifications at once")
		}
	})
	deadline.Stop()
	c.end()
	peer.Close()
	c.feeding.Wait()
	c.log.Debug("A connection ended", "err", err)
}

// end takes the connection off everything.
func (c *conn) end() {
	c.mu.Lock()
	c.closed = true
	subs, cl := c.subs, c.client
	c.subs = map[string]held{}
	c.mu.Unlock()
	for _, h := range subs {
		c.front.journal.detach(h.ch, c)
	}
	c.front.mu.Lock()
	defer c.front.mu.Unlock()
	delete(c.front.conns, c)
	if cl != nil {
		if cl.conns--; cl.conns == 0 {
			cl.leftAt = time.Now()
		}
	}
}

// who is the client, or nil before the handshake.
func (c *conn) who() *client {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.client
}

func (c *conn) actor() event.Actor { return c.who().actor() }

func (c *conn) watches(uri string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.subs[uri]
	return ok
}

func (c *conn) spelling(session id.ID) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spelled[session]
}

// spells notes how the connection names a session.
func (c *conn) spells(session id.ID, uri string) {
	sum, ok := c.front.host.Summary(session)
	if !ok {
		return
	}
	usual := sessionURI(&sum.Info)
	c.mu.Lock()
	defer c.mu.Unlock()
	if uri == usual {
		delete(c.spelled, session)
	} else if len(c.spelled) < maxSubscriptions {
		c.spelled[session] = uri
	}
}

// send queues a frame for this connection alone. A client whose queue is full
// must come back: what it asked for would be lost.
func (c *conn) send(f outbox.Frame) {
	if err := c.ws.Send(f); errors.Is(err, outbox.ErrFull) {
		c.tooSlow()
	}
}

func (c *conn) tooSlow() {
	c.ws.CloseSlow("too far behind: reconnect with lastSeenServerSeq")
}

// offer hands over the frame at a position of the journal, under the
// journal's lock. When it does not fit, a feeder takes over from there.
func (c *conn) offer(pos uint64, f outbox.Frame) {
	if c.behind {
		return
	}
	if err := c.ws.Send(f); !errors.Is(err, outbox.ErrFull) {
		return
	}
	c.behind = true
	c.feeding.Add(1)
	go c.feed(pos)
}

// feed brings a connection that fell behind up to date at its own pace.
func (c *conn) feed(pos uint64) {
	defer c.feeding.Done()
	for {
		if c.ws.Outbox().WaitBelow(c.front.ctx, outboxLimit/2) != nil {
			return
		}
		for {
			f, at, ok := c.front.journal.pending(c, pos, func() { c.behind = false })
			if !ok {
				c.tooSlow()
				return
			}
			if f == nil {
				return
			}
			err := c.ws.Send(f)
			if errors.Is(err, outbox.ErrFull) {
				pos = at
				break
			}
			if err != nil {
				return
			}
			pos = at + 1
		}
	}
}

// preempt answers ping, which must work at any time, and turns away what may
// not come before the handshake.
func (c *conn) preempt(_ context.Context, r *jsonrpc.Request) (handled bool, result any, err error) {
	if r.Method == "ping" && !r.IsNotification() {
		return true, nil, nil
	}
	return false, nil, nil
}

// handle runs one message.
func (c *conn) handle(ctx context.Context, r *jsonrpc.Request) (any, error) {
	m, known := methods[r.Method]
	switch {
	case known && m.first:
	case c.who() == nil:
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidRequest, "initialize must come first")
	case !known:
		return nil, jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "this host has no method %.100q", r.Method)
	}
	if m.run == nil || r.IsNotification() != m.notification {
		return nil, jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "this host has no method %.100q", r.Method)
	}
	if m.channel != "" {
		if err := checkChannel(r, m.channel); err != nil {
			return nil, err
		}
	}
	return m.run(c, ctx, r)
}

// checkChannel refuses a wrong fixed channel; none at all is taken.
func checkChannel(r *jsonrpc.Request, want string) error {
	var p struct {
		Channel *string `json:"channel"`
	}
	if err := r.Decode(&p); err != nil {
		return err
	}
	if p.Channel != nil && *p.Channel != want {
		return invalid("channel: %s goes to %s", r.Method, want)
	}
	return nil
}

// attach subscribes the connection to what was taken, right behind it.
func (c *conn) attach(t taken) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.subs[t.Resource] = t.held
	c.mu.Unlock()
	if !c.front.journal.attach(t.ch, c, t.pos) {
		// The channel ended, or moved on further than the journal keeps,
		// while the answer was made: the client finds out by reconnecting.
		c.mu.Lock()
		delete(c.subs, t.Resource)
		c.mu.Unlock()
		c.tooSlow()
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed { // it ended in between and has taken its leave already
		c.front.journal.detach(t.ch, c)
	}
}

// refuse sends an action back to its sender alone, with the reason.
func (c *conn) refuse(uri string, action json.RawMessage, o *origin, reason string) {
	c.sendBack(uri, action, o, reason)
}

// confirm sends an action that changed nothing back to its sender alone.
func (c *conn) confirm(uri string, action json.RawMessage, o *origin) {
	c.sendBack(uri, action, o, "")
}

func (c *conn) sendBack(uri string, action json.RawMessage, o *origin, reason string) {
	seq, _ := c.front.journal.now()
	c.send(notification("action", struct {
		Channel         string          `json:"channel"`
		Action          json.RawMessage `json:"action"`
		ServerSeq       uint64          `json:"serverSeq"`
		Origin          json.RawMessage `json:"origin"`
		RejectionReason string          `json:"rejectionReason,omitempty"`
	}{uri, action, seq, o.encoded(), reason}))
}
