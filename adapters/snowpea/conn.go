package snowpea

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/transports/guard"
	"github.com/polyhost/polyhost/transports/jsonrpc"
	"github.com/polyhost/polyhost/transports/jsonx"
	"github.com/polyhost/polyhost/transports/outbox"
	"github.com/polyhost/polyhost/transports/ws"
)

// conn is one client's connection.
type conn struct {
	front   *Front
	ws      *ws.Conn
	peer    *jsonrpc.Peer
	log     *slog.Logger
	surface string // opaque id of the connection
	greeted atomic.Bool
	down    atomic.Bool  // the connection has ended
	waiting atomic.Int32 // answers that stand behind an interrupt

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	client    string // clientId
	kind      string // clientKind
	instance  string
	keepAlive bool
	subs      map[subKey]*sub
	recent    id.ID // session created or resumed last
	tools     map[string]hostTool
	calls     map[string]*invocation // by callId
	// stops are the interrupts that are on their way.
	stops map[*jsonrpc.Request]chan struct{}
}

// subKey names a subscription: a session, and a chat or Nil for its default.
type subKey struct{ session, chat id.ID }

func newConn(f *Front, socket *ws.Conn) *conn {
	c := &conn{front: f, ws: socket, surface: newSurface(), subs: map[subKey]*sub{},
		tools: map[string]hostTool{}, calls: map[string]*invocation{}, stops: map[*jsonrpc.Request]chan struct{}{}}
	c.log = f.log.With("peer", socket.RemoteAddr().String(), "surface", c.surface)
	c.ctx, c.cancel = context.WithCancel(f.ctx)
	c.peer = jsonrpc.NewPeer(c.ctx, jsonrpc.Options{Send: c.send, Handle: c.handle, Preempt: c.preempt, Serial: serialKey,
		MapError: func(method string, err error) *jsonrpc.Error { return mapError(c.log, method, err) },
		Busy:     fail(codeUnavailable, "too many requests in flight"), MaxInFlight: maxInFlight, Logger: c.log})
	return c
}

// serve runs the connection until it ends and everything it started did.
func (c *conn) serve(ctx context.Context) {
	greet := time.AfterFunc(greetWithin, func() {
		if !c.greeted.Load() {
			c.ws.Close(ws.ClosePolicy, "system.hello did not come in time")
		}
	})
	defer greet.Stop()
	_ = c.ws.Serve(ctx, func(_ context.Context, data []byte) { c.receive(data) }) // why it ended is of no use here
	c.mu.Lock()
	c.closed = true
	c.down.Store(true)
	subs := c.subs
	c.subs = map[subKey]*sub{}
	c.mu.Unlock()
	c.cancel()
	c.front.removeConn(c)
	c.peer.Close()
	for _, s := range subs {
		s.detach()
	}
	c.dropTools()
	c.wg.Wait()
}

// open reports whether the connection is up.
func (c *conn) open() bool { return !c.down.Load() }

// spawn runs f on a goroutine that serve waits for. After the end it does not.
func (c *conn) spawn(f func(ctx context.Context)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.wg.Go(func() { f(c.ctx) })
}

// send queues a frame. A client for which even answers find no room is cut.
func (c *conn) send(message []byte) error {
	err := c.ws.Send(message)
	if err == outbox.ErrFull {
		c.log.Warn("A client that does not read was cut")
		c.ws.CloseSlow("too far behind: reconnect and session.resume")
	}
	return err
}

// receive takes one message, in the reader's goroutine.
func (c *conn) receive(data []byte) {
	m, perr := jsonrpc.Parse(data, jsonrpc.Limits{AnyParams: true})
	var err error
	switch {
	case perr != nil && perr.Code != jsonrpc.CodeParseError && jsonx.Kind(data) == "object":
		err = c.malformed(data, perr)
	case perr != nil:
		err = c.send(jsonrpc.ErrorReply(nil, perr))
	case !m.HasMethod:
		err = c.behindStops(nil, func() error { return c.peer.Receive(data) })
	default:
		r := &jsonrpc.Request{Method: m.Method, Params: m.Params, ID: m.ID}
		switch m.Method {
		case "session.interrupt", "session.close":
			c.mu.Lock()
			c.stops[r] = make(chan struct{})
			c.mu.Unlock()
			r.Then(func() { c.stopped(r) }) // a refused one never reaches handle
			err = c.peer.Dispatch(r)
		case "approval.respond", "question.respond":
			err = c.behindStops(r, func() error { return c.peer.Dispatch(r) })
		default:
			err = c.peer.Dispatch(r)
		}
	}
	c.judge(err)
}

// judge cuts a client that floods.
func (c *conn) judge(err error) {
	if err == jsonrpc.ErrFlood {
		c.ws.CloseSlow("too many notifications at once")
	}
}

// behindStops lets an answer of a person take effect behind the interrupts that
// were sent before it: who stops a turn and then allows its call has stopped it.
// r is the request that brings the answer, nil when the answer is a response.
func (c *conn) behindStops(r *jsonrpc.Request, pass func() error) error {
	c.mu.Lock()
	stops := slices.Collect(maps.Values(c.stops))
	c.mu.Unlock()
	if len(stops) == 0 {
		return pass()
	}
	if c.waiting.Add(1) > maxWaiting {
		c.waiting.Add(-1)
		return jsonrpc.ErrFlood
	}
	c.spawn(func(ctx context.Context) {
		defer c.waiting.Add(-1)
		limit := time.NewTimer(stopWait)
		defer limit.Stop()
		for _, stopped := range stops {
			select {
			case <-stopped:
			case <-limit.C:
				// The interrupt was not taken: neither is what followed it.
				if r != nil && !r.IsNotification() {
					_ = c.send(jsonrpc.ErrorReply(r.ID, fail(codeUnavailable, "the interrupt before it has not taken effect")))
				}
				return
			case <-ctx.Done():
				return
			}
		}
		c.judge(pass())
	})
	return nil
}

// stopped notes that an interrupt took effect, or was refused.
func (c *conn) stopped(r *jsonrpc.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ch, ok := c.stops[r]; ok {
		close(ch)
		delete(c.stops, r)
	}
}

// malformed answers an object that is no proper message. Without a method it
// is an answer, to a call that has failed with it or that nobody made.
func (c *conn) malformed(data []byte, perr *jsonrpc.Error) error {
	var id json.RawMessage
	var method, badMethod bool
	if jsonx.Check(data, 0, 0) != nil {
		return c.send(jsonrpc.ErrorReply(nil, perr)) // too deep
	}
	_ = jsonx.Members(data, func(key string, v []byte) error {
		kind := jsonx.Kind(v)
		switch key {
		case "id":
			id = nil
			if kind == "string" || kind == "number" {
				id = v
			}
		case "method":
			method, badMethod = true, kind != "string"
		}
		return nil
	})
	switch {
	case !method:
		return c.behindStops(nil, func() error { c.peer.FailCall(id, perr); return nil })
	case badMethod && id != nil:
		return c.send(jsonrpc.ErrorReply(id, invalid("method", "must be string")))
	case badMethod:
		return nil // a notification
	}
	return c.send(jsonrpc.ErrorReply(nil, perr))
}

// preempt runs in the reader's goroutine: hello, so that what is sent right
// behind it finds the connection greeted; refusals before it; and the answers
// that must overtake what waits.
func (c *conn) preempt(_ context.Context, r *jsonrpc.Request) (bool, any, error) {
	if r.Method == "system.hello" {
		if r.IsNotification() {
			return true, nil, nil
		}
		result, err := c.hello(r)
		return true, result, err
	}
	if !c.greeted.Load() {
		c.stopped(r)
		return true, nil, fail(codeUnauthorized, "system.hello comes first")
	}
	return false, nil, nil
}

// handle runs one request in a goroutine of its own.
func (c *conn) handle(ctx context.Context, r *jsonrpc.Request) (any, error) {
	defer c.stopped(r)
	m, known := surface.Methods[r.Method]
	if !known || m.Direction != "c2s" {
		return nil, fail(codeNoMethod, "no method %q", cut(r.Method, 80))
	}
	if err := checkParams(m.params, r); err != nil {
		return nil, err
	}
	h := handlers[r.Method]
	if h == nil {
		return nil, fail(codeNotImplemented, "%s is not served here", r.Method)
	}
	return h(ctx, c, r)
}

// checkParams holds the params against the protocol's own schema.
func checkParams(s *schema, r *jsonrpc.Request) error {
	if len(r.Params) == 0 || jsonx.Kind(r.Params) == "null" {
		r.Params = json.RawMessage("{}")
	}
	if found := s.check(r.Params); len(found) > 0 {
		f := found[0]
		return failWith(codeInvalid, found, "%s%s", where(f.Loc), f.Msg)
	}
	return nil
}

// decode reads params that checkParams has passed. What is left to go wrong is
// a number that is no integer.
func decode[T any](r *jsonrpc.Request) (T, error) {
	var p T
	err := r.Decode(&p)
	if e, ok := err.(*jsonrpc.Error); ok {
		text := strings.TrimPrefix(e.Message, "invalid params: ")
		field, msg, found := strings.Cut(text, ": ")
		if !found {
			field, msg = "params", text
		}
		return p, invalid(field, "%s", msg)
	}
	return p, err
}

// serialKey puts the requests about one session into one queue, so that they
// take effect in the order they were sent.
func serialKey(r *jsonrpc.Request) string {
	if !strings.HasPrefix(r.Method, "session.") && r.Method != "command.run" {
		return ""
	}
	var key string
	if len(r.Params) > 0 && jsonx.Kind(r.Params) == "object" {
		_ = jsonx.Members(r.Params, func(k string, v []byte) error {
			if k == "sessionId" && jsonx.Kind(v) == "string" {
				key = string(v)
			}
			return nil
		})
	}
	return key
}

type helloParams struct {
	Token           string  `json:"token"`
	ClientVersion   string  `json:"clientVersion"`
	ProtocolVersion string  `json:"protocolVersion"`
	ClientID        *string `json:"clientId"`
	ClientKind      *string `json:"clientKind"`
	InstanceID      *string `json:"instanceId"`
	KeepAlive       bool    `json:"keepAlive"`
}

type helloResult struct {
	ProtocolVersion string   `json:"protocolVersion"`
	ServerVersion   string   `json:"serverVersion"`
	Capabilities    []string `json:"capabilities"`
}

// hello checks the params, then the protocol, then the token.
func (c *conn) hello(r *jsonrpc.Request) (any, error) {
	if err := checkParams(surface.Methods[r.Method].params, r); err != nil {
		return nil, err
	}
	p, err := decode[helloParams](r)
	if err != nil {
		return nil, err
	}
	for _, v := range []struct {
		field string
		text  *string
	}{{"clientId", p.ClientID}, {"clientKind", p.ClientKind}, {"instanceId", p.InstanceID}} {
		if v.text != nil && len(*v.text) > maxClientID {
			return nil, invalid(v.field, "is longer than %d bytes", maxClientID)
		}
	}
	if major, _, _ := strings.Cut(p.ProtocolVersion, "."); major != "1" {
		return nil, failWith(codeIncompatible, map[string]string{"protocolVersion": surface.ProtocolVersion},
			"this server speaks protocol %s", surface.ProtocolVersion)
	}
	if !guard.TokenEqual(p.Token, c.front.token) {
		c.log.Warn("A client came with a wrong token")
		return nil, fail(codeUnauthorized, "wrong token")
	}
	c.mu.Lock()
	c.client, c.kind, c.instance, c.keepAlive = deref(p.ClientID), deref(p.ClientKind), deref(p.InstanceID), p.KeepAlive
	c.mu.Unlock()
	c.ws.SetReadLimit(messageLimit)
	c.greeted.Store(true)
	if id := deref(p.ClientID); id != "" {
		c.rebind(id)
	}
	return helloResult{surface.ProtocolVersion, c.front.deps.Version, capabilities}, nil
}

// rebind makes the connection the origin of the sessions that an earlier
// connection of the same client made, where that one is gone.
func (c *conn) rebind(client string) {
	for _, s := range c.front.host.List(host.Filter{IncludePrivate: true}) {
		if s.Info.Owner.Front != frontName || s.Info.Owner.Client != client {
			continue
		}
		t := c.front.track(s.Info.ID)
		t.mu.Lock()
		o := t.origins[s.Default]
		t.mu.Unlock()
		if o != nil && o.open() {
			continue
		}
		c.subscribe(t, s.Default)
		t.own(s.Default, c, false)
	}
}

// subscribe makes sure that the connection hears a chat's events from now on.
func (c *conn) subscribe(t *track, chat id.ID) *sub {
	key := subKey{t.id, chat}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.subs[key]
	if s != nil || c.closed {
		if s == nil {
			s = newSub(c, t, chat)
		}
		return s
	}
	s = newSub(c, t, chat)
	c.subs[key] = s
	t.mu.Lock()
	defer t.mu.Unlock()
	t.subs[s] = struct{}{}
	if t.session == nil {
		t.waiting[s] = struct{}{}
	} else {
		s.attach(t.topic(chat), t.last(chat))
	}
	return s
}

// resubscribe takes the old subscription away and prepares a held new one,
// which is attached once the replay has gone out.
func (c *conn) resubscribe(t *track, chat id.ID) *sub {
	key := subKey{t.id, chat}
	s := newSub(c, t, chat)
	s.hold()
	c.mu.Lock()
	old := c.subs[key]
	if !c.closed {
		c.subs[key] = s
	}
	c.recent = t.id
	c.mu.Unlock()
	t.mu.Lock()
	t.subs[s] = struct{}{}
	t.mu.Unlock()
	if old != nil {
		old.detach()
	}
	return s
}

// actor is the client, as the author of what it does.
func (c *conn) actor() event.Actor {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := event.Actor{Front: frontName, Client: c.client, Name: c.kind}
	if a.Client == "" {
		a.Client = c.surface
	}
	return a
}

// answerer is the connection, as who settles an approval or a question.
func (c *conn) answerer() event.Actor { return event.Actor{Front: frontName, Client: c.surface} }

func mapError(log *slog.Logger, method string, err error) *jsonrpc.Error {
	if e := public(err); e != nil {
		return e
	}
	log.Error("A request failed", "method", method, "err", err)
	return fail(codeInternal, "internal error")
}

// where writes the place of a violation: tools[0].name: …
func where(loc []any) string {
	var b strings.Builder
	for _, step := range loc {
		switch step := step.(type) {
		case int:
			fmt.Fprintf(&b, "[%d]", step)
		case string:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(step)
		}
	}
	if b.Len() > 0 {
		b.WriteString(": ")
	}
	return b.String()
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
