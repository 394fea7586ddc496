package zidane

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/transports/fanout"
	"github.com/polyhost/polyhost/transports/jsonrpc"
	"github.com/polyhost/polyhost/transports/jsonx"
	"github.com/polyhost/polyhost/transports/outbox"
	"github.com/polyhost/polyhost/transports/ws"
)

// conn is one connection of one client.
type conn struct {
	f     *Front
	ws    *ws.Conn
	peer  *jsonrpc.Peer
	by    event.Actor
	scope scope

	greeted  atomic.Bool  // hello was answered
	inFlight atomic.Int32 // requests that were let in and are not answered, but for urgent ones

	mu     sync.Mutex
	feed   *fanout.Attachment
	ended  bool
	turns  map[*jsonrpc.Request]turn   // of prompts that were read and not yet handled
	lastIn chan struct{}               // closed when the newest of them was handed over
	drafts map[string]*jsonrpc.Request // the newest draft of each session
}

// turn keeps prompts in the order they were read: each waits for the one
// before to be handed to the core.
type turn struct{ before, done chan struct{} }

// stopping is the close reason when the server goes away.
const stopping = "the server is stopping"

// tooFarBehind is the close reason of a client that does not keep up.
const tooFarBehind = "too far behind: reconnect and call sessions.resume"

// serve runs a connection until it ends.
func (f *Front) serve(ctx context.Context, socket *ws.Conn) {
	c := &conn{f: f, ws: socket, by: event.Actor{Front: Name, Client: id.New().String(), Name: Name},
		scope: scopeAdmin, turns: map[*jsonrpc.Request]turn{}, drafts: map[string]*jsonrpc.Request{}}
	f.enter(c)
	c.peer = jsonrpc.NewPeer(context.WithoutCancel(ctx), jsonrpc.Options{
		Send: c.send, Handle: c.handle, Preempt: c.preempt, Serial: serial, MapError: mapError,
		MaxInFlight: 2 * maxInFlight, // preempt counts, and sooner
		Limits:      jsonrpc.Limits{AnyParams: true}, Logger: f.log,
	})
	err := socket.Serve(f.ctx, func(_ context.Context, data []byte) {
		if err := c.peer.Receive(data); err != nil {
			socket.Close(ws.ClosePolicy, "too many notifications at once")
		}
	})
	f.log.Debug("A connection ended", "client", c.by.Client, "err", err)
	c.detach()
	c.peer.Close()
	f.leave(c)
}

// begin counts a connection that is about to be opened, unless the server is
// stopping; its end must be counted with f.wg.
func (f *Front) begin() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.draining {
		f.wg.Add(1)
	}
	return !f.draining
}

func (f *Front) enter(c *conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conns[c] = struct{}{}
	if f.draining {
		c.ws.Close(ws.CloseGoingAway, stopping)
	}
}

// leave takes back what the connection held.
func (f *Front) leave(c *conn) {
	f.presence.left(c)
	f.tickets.drop(c)
	f.mu.Lock()
	delete(f.conns, c)
	f.mu.Unlock()
}

// send queues an answer. A peer that leaves no room for it is cut.
func (c *conn) send(frame []byte) error {
	err := c.ws.Send(frame)
	if errors.Is(err, outbox.ErrFull) {
		c.ws.CloseSlow(tooFarBehind)
	}
	return err
}

// attach begins the signals; they are held until the answer to hello is queued.
func (c *conn) attach() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.feed != nil || c.ended {
		return
	}
	c.feed = c.f.signals.topic.Attach(c.ws.Outbox(), fanout.AttachOptions{After: c.f.signals.topic.Last(), Held: true,
		OnGap: func(uint64) { c.ws.CloseSlow(tooFarBehind) }})
}

func (c *conn) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.feed != nil {
		c.feed.Release()
	}
}

func (c *conn) detach() {
	c.mu.Lock()
	feed := c.feed
	c.feed, c.ended = nil, true
	c.mu.Unlock()
	if feed != nil {
		feed.Detach()
	}
}

// preempt handles what needs no goroutine: the handshake, and all that comes
// before it.
func (c *conn) preempt(_ context.Context, r *jsonrpc.Request) (bool, any, error) {
	early, ok := earlyMethods[r.Method]
	if !ok {
		if !c.greeted.Load() {
			return true, nil, jsonrpc.Errorf(codeHandshakeRequired, "Handshake required: send ipc.hello first.")
		}
		if r.ID != nil && !urgent[r.Method] && c.inFlight.Add(1) > maxInFlight {
			c.inFlight.Add(-1)
			return true, nil, failed("More than %d requests at once.", maxInFlight)
		}
		switch {
		case prompts[r.Method]:
			c.lineUp(r)
		case r.Method == "drafts.set":
			c.noteDraft(r)
		}
		return false, nil, nil
	}
	if err := checkParams(r); err != nil {
		return true, nil, err
	}
	result, err := early(c, r)
	return true, result, err
}

// lineUp gives a prompt its place behind those that were read before it.
func (c *conn) lineUp(r *jsonrpc.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := turn{before: c.lastIn, done: make(chan struct{})}
	c.lastIn, c.turns[r] = t.done, t
}

// inTurn waits for the place of a prompt and returns how to give it up.
func (c *conn) inTurn(ctx context.Context, r *jsonrpc.Request) (done func()) {
	c.mu.Lock()
	t, ok := c.turns[r]
	delete(c.turns, r)
	c.mu.Unlock()
	if !ok {
		return func() {}
	}
	if t.before != nil {
		select {
		case <-t.before:
		case <-ctx.Done():
		}
	}
	return sync.OnceFunc(func() { close(t.done) })
}

// noteDraft remembers the newest draft of each session, so that those typed
// before it need not be stored. One that the handler will refuse is not noted, as nothing
// would take it out again.
func (c *conn) noteDraft(r *jsonrpc.Request) {
	var p draftParams
	if r.Decode(&p) == nil && len(p.SessionID) <= maxShownID {
		c.mu.Lock()
		c.drafts[p.SessionID] = r
		c.mu.Unlock()
	}
}

// newestDraft reports whether no newer draft of the session was read since.
func (c *conn) newestDraft(session string, r *jsonrpc.Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	newest := c.drafts[session]
	if newest == r {
		delete(c.drafts, session)
	}
	return newest == r
}

// handle runs one request.
func (c *conn) handle(ctx context.Context, r *jsonrpc.Request) (any, error) {
	if r.ID != nil && !urgent[r.Method] {
		defer c.inFlight.Add(-1)
	}
	done := c.inTurn(ctx, r)
	defer done()
	m, ok := methods[r.Method]
	switch {
	case !ok:
		return nil, jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "Unknown method \"%s\".", shown(r.Method))
	case m.scope == scopeMachine:
		return nil, jsonrpc.Errorf(codeMachineConnection,
			"\"%s\" needs a machine connection (a machine-scoped token); this is a client connection.", r.Method)
	case m.scope > c.scope:
		return nil, jsonrpc.Errorf(codeForbidden, "\"%s\" needs a token of the %s scope.", r.Method, m.scope)
	}
	if err := checkParams(r); err != nil {
		return nil, err
	}
	result, err := m.do(ctx, &call{Front: c.f, conn: c, req: r, submitted: done})
	if err != nil {
		return nil, err
	}
	body, ok := result.(json.RawMessage)
	if !ok {
		body = encode(result)
	}
	if len(body) > maxAnswer {
		return nil, jsonrpc.Errorf(codeResponseTooLarge,
			"The answer is %d bytes, more than the %d that one message may carry. Ask for less.", len(body), maxAnswer)
	}
	return body, nil
}

func checkParams(r *jsonrpc.Request) error {
	if r.Params != nil && jsonx.Kind(r.Params) != "object" {
		return jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "params must be an object.")
	}
	return nil
}

// serial keeps notifications that replace each other in order, and an answer
// behind the stop that was sent before it: who stops a run and then allows its
// call has stopped it.
func serial(r *jsonrpc.Request) string {
	switch r.Method {
	case "drafts.set", "presence.report":
		return r.Method
	case "chat.stop", "chat.interrupt", "approvals.answer", "interactions.answer":
		return "stops and answers"
	}
	return ""
}
