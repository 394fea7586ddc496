package ahp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/lines"
	"github.com/polyhost/polyhost/transports/jsonrpc"
	"github.com/polyhost/polyhost/transports/jsonx"
	"github.com/polyhost/polyhost/transports/listen"
	"github.com/polyhost/polyhost/transports/outbox"
	"github.com/polyhost/polyhost/transports/pipe"
	"github.com/polyhost/polyhost/transports/ws"
)

// conn is one connection. Its messages are handled one after another, but for
// those about resources (see lane).
type conn struct {
	front  *Front
	ws     socket
	peer   *jsonrpc.Peer
	log    *slog.Logger
	number uint64 // grows with each connection

	mu       sync.Mutex
	client   *client // nil before the handshake
	closed   bool
	subs     map[string]held
	spelled  map[id.ID]string    // sessions it calls by another name than usual
	settings values              // its own of the root's; replaced, never written to
	lent     map[string]*lent    // tokens by resource
	relays   map[string]*relay   // into dev containers, by the client's names
	leaving  map[*relay]struct{} // those that the client ended, until nothing of them is left

	slow     atomic.Bool    // closed for not keeping up
	feeding  sync.WaitGroup // of the feeder that brings what did not fit
	relaying sync.WaitGroup // of relays
	joins    *joining       // what the running request is about to join; belongs to its lane
}

// socket is what carries the messages of a connection: a WebSocket, or a pair of
// pipes. The frames of its queue are those of package ws.
type socket interface {
	Serve(ctx context.Context, onMessage func(ctx context.Context, data []byte)) error
	Send(message []byte) error
	Outbox() *outbox.Outbox
	SetReadLimit(n int64)
	Close(code int, reason string)
	CloseSlow(reason string)
	Done() <-chan struct{}
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

// accept takes a connection and lets it run.
func (f *Front) accept(w http.ResponseWriter, r *http.Request) {
	if !f.enter() {
		http.Error(w, errStopping.Error(), http.StatusServiceUnavailable)
		return
	}
	sock, err := ws.Upgrade(w, r, ws.Options{ReadLimit: handshakeLimit, OutboxLimit: outboxLimit, Binary: ws.AsText, Logger: f.log})
	if err != nil {
		f.log.Debug("A handshake failed", "err", err)
		f.wg.Done()
		return
	}
	c := f.connect(sock, r.RemoteAddr)
	listen.Detach(r, func(context.Context) {
		defer f.wg.Done()
		c.serve()
	})
}

var errStopping = errors.New("the gateway is stopping")

// enter lets a connection in, until the front stops; it leaves by wg.Done.
func (f *Front) enter() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.stopping {
		f.wg.Add(1)
	}
	return !f.stopping
}

// connect makes a connection of what carries it.
func (f *Front) connect(sock socket, peer string) *conn {
	c := &conn{front: f, ws: sock, log: f.log.With("peer", peer), subs: map[string]held{}, spelled: map[id.ID]string{}, lent: map[string]*lent{}}
	c.peer = jsonrpc.NewPeer(f.ctx, jsonrpc.Options{
		Send:     c.send,
		Handle:   c.handle,
		Preempt:  c.preempt,
		Serial:   c.lane,
		MapError: mapError,
		Logger:   c.log,

		MaxInFlight: maxInFlight,
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.accepted++
	c.number = f.accepted
	f.conns[c] = struct{}{}
	return c
}

// ServePipe serves one client over a pair of pipes, a line for each message, until
// it closes its end. Who has the pipes needs no token. Run must run.
func (f *Front) ServePipe(in io.ReadCloser, out io.Writer) error {
	if !f.enter() {
		return errStopping
	}
	defer f.wg.Done()
	sock := pipe.New(lines.NewReader(in, messageLimit).Next, func() { _ = in.Close() }, out, outboxLimit)
	f.connect(sock, "stdio").serve()
	return nil
}

// serve runs the connection until it ends and everything it started did.
func (c *conn) serve() {
	f := c.front
	deadline := time.AfterFunc(handshakeWithin, func() {
		if c.who() == nil {
			c.ws.Close(ws.ClosePolicy, "initialize did not come in time")
		}
	})
	err := c.ws.Serve(f.ctx, func(_ context.Context, data []byte) {
		if err := c.peer.Receive(data); err != nil {
			c.ws.Close(ws.ClosePolicy, "too many notifications at once")
		}
	})
	deadline.Stop()
	c.end()
	c.peer.Close()
	c.relaying.Wait()
	c.feeding.Wait()
	if c.joins != nil { // the answer did not go out
		c.joins.settle()
	}
	f.journal.leave(c)
	if cl := c.who(); cl != nil && c.slow.Load() {
		c.log.Warn("A client that did not keep up was closed", "client", cl.id)
	}
	c.log.Debug("A connection ended", "err", err)
}

// end takes the connection off everything.
func (c *conn) end() {
	c.mu.Lock()
	c.closed = true
	c.takeBack()
	c.endRelays()
	subs, cl := c.subs, c.client
	c.subs = map[string]held{}
	c.mu.Unlock()
	for uri, h := range subs {
		c.part(uri, h.ch)
	}
	c.front.mu.Lock()
	delete(c.front.conns, c)
	left := false
	if cl != nil {
		cl.conns--
		if left = cl.conns == 0; left {
			cl.leftAt = time.Now()
		}
	}
	c.front.mu.Unlock()
	if left {
		c.front.watches.forget(cl)
	}
}

// part takes the connection off a channel and returns how many are left. A
// session's own channels stay: their clients may come back.
func (c *conn) part(uri string, ch *channel) (left int) {
	left = c.front.journal.detach(ch, c)
	if s := c.front.service(uri); s != nil && left == 0 {
		s.released(uri)
	}
	return left
}

// who is the client, or nil before the handshake.
func (c *conn) who() *client {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.client
}

func (c *conn) actor() event.Actor {
	a := c.who().actor()
	a.User = c.person()
	return a
}

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
// must come back: what it asked for would be lost. A large answer waits until
// the queue has room for it.
func (c *conn) send(message []byte) error {
	err := c.ws.Send(message)
	for len(message) > largeAnswer && errors.Is(err, outbox.ErrFull) && c.ws.Outbox().WaitBelow(c.front.ctx, 1) == nil {
		err = c.ws.Send(message)
	}
	if errors.Is(err, outbox.ErrFull) {
		c.tooSlow()
	}
	return err
}

func (c *conn) tooSlow() {
	c.slow.Store(true)
	c.ws.CloseSlow("too far behind: reconnect with lastSeenServerSeq")
}

// offer hands over the run of some frames that begins at a position of the
// journal, under the journal's lock. When it does not fit, a feeder takes over
// from there.
func (c *conn) offer(pos uint64, run outbox.Frame, frames int) {
	j := c.front.journal
	if l := j.behind[c]; l != nil {
		if l.bytes += len(run); l.bytes > j.queue-j.room {
			c.tooSlow()
		}
		return
	}
	if err := c.ws.Outbox().PushBelow(run, j.room); !errors.Is(err, outbox.ErrFull) {
		if err == nil {
			j.counts.Delivered(frames)
		}
		return
	}
	j.fallBack(c, pos).bytes = len(run)
	c.feeding.Add(1)
	go c.feed(pos)
}

// feed brings a connection that fell behind up to date at its own pace.
func (c *conn) feed(pos uint64) {
	defer c.feeding.Done()
	for mark := c.front.journal.roomFor() / 2; ; {
		if c.ws.Outbox().WaitBelow(c.front.ctx, mark) != nil {
			return
		}
		next, done := c.drain(pos)
		if done {
			return
		}
		if next == pos { // a frame that needs more room than the mark leaves
			mark = max(1, mark/2)
		}
		pos = next
	}
}

// drain hands over what a connection has not had, from a position on, until it
// is in step or its queue is full. It reports where to go on and whether there
// is nothing more to do.
func (c *conn) drain(pos uint64) (next uint64, done bool) {
	for {
		f, at, ok := c.front.journal.pending(c, pos)
		if !ok {
			c.tooSlow()
			return pos, true
		}
		if f == nil {
			return pos, true
		}
		if err := c.ws.Outbox().PushBelow(f, c.front.journal.roomFor()); errors.Is(err, outbox.ErrFull) {
			return at, false
		} else if err != nil {
			return pos, true
		}
		c.front.journal.counts.Delivered(1)
		pos = at + 1
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
	if p.Channel != nil && *p.Channel != want && !(isCatalogue(want) && isCatalogue(*p.Channel)) {
		return invalid("channel: %s goes to %s", r.Method, want)
	}
	return nil
}

// joining are the subscriptions that an answer brings. Between the snapshots
// and the answer the connection is held, so that it sees one order.
type joining struct {
	conn *conn
	pos  uint64
	news []taken
}

// hold begins; the subscriptions are made right behind the answer.
func (c *conn) hold(ctx context.Context, r *jsonrpc.Request) (*joining, error) {
	pos, err := c.front.journal.hold(ctx, c)
	if err != nil {
		return nil, err
	}
	c.joins = &joining{conn: c, pos: pos}
	r.Then(c.joins.release)
	return c.joins, nil
}

func (j *joining) add(t taken) { j.news = append(j.news, t) }

// release makes the subscriptions and lets what was held go out.
func (j *joining) release() {
	c := j.conn
	c.mu.Lock()
	for _, t := range j.news {
		c.subs[t.Resource] = t.held
	}
	c.mu.Unlock()
	if j.settle() {
		return
	}
	if pos, done := c.drain(j.pos); !done {
		c.feeding.Add(1)
		go c.feed(pos)
	}
}

// settle keeps the promise to join. It reports true when the connection ended
// in between: it has taken its leave already.
func (j *joining) settle() (ended bool) {
	c := j.conn
	c.joins = nil
	c.front.journal.join(c, j.news)
	c.mu.Lock()
	ended = c.closed
	c.mu.Unlock()
	if ended {
		for _, t := range j.news {
			c.part(t.Resource, t.ch)
		}
	}
	return ended
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
	end := append([]byte(`,"origin":`), o.encoded()...)
	if reason != "" {
		end = jsonx.AppendString(append(end, `,"rejectionReason":`...), reason)
	}
	c.front.journal.whisper(c, actionFrame(uri, action), append(end, closing...))
}
