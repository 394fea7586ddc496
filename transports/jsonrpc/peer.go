package jsonrpc

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/polyhost/polyhost/transports/jsonx"
)

// Errors of a Peer.
var (
	// ErrClosed says that the connection ended before the answer came.
	ErrClosed = errors.New("jsonrpc: connection closed")
	// ErrFlood says that the peer sends notifications faster than they can be
	// handled and should be cut.
	ErrFlood = errors.New("jsonrpc: too many notifications at once")
	// ErrTooManyCalls says that the peer leaves too many of our requests open.
	ErrTooManyCalls = errors.New("jsonrpc: too many open calls")
)

// Request is a request or notification from the peer.
type Request struct {
	Method string
	Params json.RawMessage // nil when absent
	ID     json.RawMessage // nil for a notification

	after []func()
}

// IsNotification says that no answer will be sent.
func (r *Request) IsNotification() bool { return r.ID == nil }

// Decode decodes the params strictly into *v. The error is a *Error that names
// the field. Absent params are an empty object.
func (r *Request) Decode(v any, opts ...jsonx.Option) error {
	params := r.Params
	if len(params) == 0 || jsonx.Kind(params) == "null" {
		params = json.RawMessage("{}")
	}
	if err := jsonx.DecodeChecked(params, v, opts...); err != nil {
		return InvalidParams(err)
	}
	return nil
}

// Then runs f right after the answer was queued, in the handler's goroutine, so
// that what f sends follows the answer. For a notification it runs when the
// handler has returned. It also follows a refusal. Only the handler may call
// it, or whoever made the request before it is dispatched.
func (r *Request) Then(f func()) { r.after = append(r.after, f) }

// Handler does one request and returns its result, or an error: a *Error is
// sent as it is, any other through Options.MapError.
type Handler func(ctx context.Context, req *Request) (result any, err error)

// Options configure a Peer. Send and Handle are needed.
type Options struct {
	// Send queues a frame without blocking. When it fails the connection is
	// expected to end by itself.
	Send func([]byte) error
	// Handle runs in a goroutine of its own.
	Handle Handler
	// Preempt, if set, sees every request first, in the goroutine of Receive,
	// and must not block: for cancels, answers to approvals and pings, which
	// must overtake whatever waits. It says whether it has handled the request.
	Preempt func(ctx context.Context, req *Request) (handled bool, result any, err error)
	// Serial, if set, names the queue of a request; requests with equal keys
	// run in order. The empty key runs at once.
	Serial func(req *Request) (key string)
	// MapError turns an error of a handler into what the peer is told. Without
	// it, or when it returns nil, that is -32603 without the text.
	MapError func(method string, err error) *Error
	// Busy is the answer when too many requests are in flight.
	Busy *Error

	MaxInFlight int // requests; zero means DefaultInFlight
	Limits      Limits
	Logger      *slog.Logger
}

// Peer is one end of a connection. Receive is for one goroutine; all else is
// safe from any.
type Peer struct {
	opts   Options
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu            sync.Mutex
	closed        bool
	requests      int // in flight
	notifications int // in flight
	queues        map[string][]*Request
	calls         map[string]chan Message
	lastCall      uint64
}

// NewPeer makes the peer of one connection. ctx carries values for the
// handlers; its end cancels them.
func NewPeer(ctx context.Context, o Options) *Peer {
	if o.MaxInFlight <= 0 {
		o.MaxInFlight = DefaultInFlight
	}
	if o.Busy == nil {
		o.Busy = &Error{Code: CodeServerBusy, Message: "too many requests in flight"}
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	p := &Peer{opts: o}
	p.ctx, p.cancel = context.WithCancel(ctx)
	return p
}

// Receive takes one message from the connection; data is the peer's to keep. It
// returns an error only when the connection should be cut: ErrFlood.
func (p *Peer) Receive(data []byte) error {
	m, perr := Parse(data, p.opts.Limits)
	switch {
	case perr != nil && !m.methodSeen && p.FailCall(m.ID, perr):
		return nil
	case perr != nil && (m.HasMethod && !m.idSeen || !m.HasMethod && m.answerSeen):
		// A notification or an answer, and broken: neither is ever answered.
		p.opts.Logger.Debug("message dropped", "method", m.Method, "err", perr)
		return nil
	case perr != nil:
		p.send(ErrorReply(m.ID, perr))
		return nil
	case m.IsResponse():
		p.resolve(m)
		return nil
	}
	return p.Dispatch(&Request{Method: m.Method, Params: m.Params, ID: m.ID})
}

// Dispatch is Receive for fronts that parse the envelope themselves.
func (p *Peer) Dispatch(r *Request) error {
	if p.opts.Preempt != nil {
		if handled, result, err := p.preempt(r); handled {
			p.answer(r, result, err)
			return nil
		}
	}
	key := ""
	if p.opts.Serial != nil {
		key = p.opts.Serial(r)
	}
	p.mu.Lock()
	switch {
	case p.closed:
		p.mu.Unlock()
		return nil
	case r.IsNotification() && p.notifications >= maxNotifications:
		p.mu.Unlock()
		return ErrFlood
	case !r.IsNotification() && p.requests >= p.opts.MaxInFlight:
		p.mu.Unlock()
		p.answer(r, nil, p.opts.Busy)
		return nil
	}
	if r.IsNotification() {
		p.notifications++
	} else {
		p.requests++
	}
	if key != "" {
		queue, running := p.queues[key]
		if running {
			p.queues[key] = append(queue, r)
			p.mu.Unlock()
			return nil
		}
		if p.queues == nil {
			p.queues = map[string][]*Request{}
		}
		p.queues[key] = nil
	}
	p.wg.Add(1)
	p.mu.Unlock()
	go p.work(key, r)
	return nil
}

// work runs one request, and with a key all that queue behind it.
func (p *Peer) work(key string, r *Request) {
	defer p.wg.Done()
	for {
		result, err := p.handle(r)
		p.answer(r, result, err)

		p.mu.Lock()
		if r.IsNotification() {
			p.notifications--
		} else {
			p.requests--
		}
		queue := p.queues[key]
		if key == "" || len(queue) == 0 || p.closed {
			delete(p.queues, key)
			p.mu.Unlock()
			return
		}
		r, queue[0] = queue[0], nil
		p.queues[key] = queue[1:]
		p.mu.Unlock()
	}
}

var errPanic = errors.New("handler panicked")

func (p *Peer) handle(r *Request) (result any, err error) {
	defer p.recover(r, &err)
	return p.opts.Handle(p.ctx, r)
}

func (p *Peer) preempt(r *Request) (handled bool, result any, err error) {
	defer func() {
		if err == errPanic {
			handled = true
		}
	}()
	defer p.recover(r, &err)
	return p.opts.Preempt(p.ctx, r)
}

func (p *Peer) recover(r *Request, err *error) {
	if x := recover(); x != nil {
		p.opts.Logger.Error("handler panicked", "method", r.Method, "panic", x, "stack", string(debug.Stack()))
		*err = errPanic
	}
}

// answer sends the outcome and runs what was to follow it.
func (p *Peer) answer(r *Request, result any, err error) {
	if !r.IsNotification() {
		var f []byte
		if err == nil {
			f, err = Result(r.ID, result)
		}
		if err != nil {
			f = ErrorReply(r.ID, p.public(r.Method, err))
		}
		if p.send(f) != nil {
			return
		}
	} else if err != nil {
		p.opts.Logger.Debug("notification refused", "method", r.Method, "err", err)
	}
	defer p.recover(r, &err)
	for _, f := range r.after {
		f()
	}
}

// public is what the peer may know of an error.
func (p *Peer) public(method string, err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	if p.opts.MapError != nil && err != errPanic {
		if e := p.opts.MapError(method, err); e != nil {
			return e
		}
	}
	p.opts.Logger.Error("request failed", "method", method, "err", err)
	return &Error{Code: CodeInternalError, Message: "internal error"}
}

func (p *Peer) send(f []byte) error {
	err := p.opts.Send(f)
	if err != nil {
		p.opts.Logger.Debug("frame not sent", "err", err)
	}
	return err
}

// Notify sends a notification.
func (p *Peer) Notify(method string, params any) error {
	f, err := Notification(method, params)
	if err != nil {
		return err
	}
	return p.opts.Send(f)
}

// Close cancels the handlers, fails the open calls and waits for all handlers
// to return. It must not be called from a handler.
func (p *Peer) Close() {
	p.mu.Lock()
	p.closed = true
	for _, ch := range p.calls {
		close(ch)
	}
	p.calls = nil
	p.mu.Unlock()
	p.cancel()
	p.wg.Wait()
}
