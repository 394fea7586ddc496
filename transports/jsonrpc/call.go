package jsonrpc

import (
	"context"
	"encoding/json"
	"strconv"
)

// Call sends a request to the peer and waits for its answer. Errors: the peer's
// *Error, ErrClosed, ErrTooManyCalls, what Send said, or the cause of ctx; a
// ctx without a deadline gets DefaultCallTimeout. An answer that comes later
// is dropped.
func (p *Peer) Call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, DefaultCallTimeout)
		defer cancel()
	}
	id, answer, err := p.open()
	if err != nil {
		return nil, err
	}
	defer p.forget(id)
	f, err := RequestFrame(json.RawMessage(id), method, params)
	if err != nil {
		return nil, err
	}
	if err := p.opts.Send(f); err != nil {
		return nil, err
	}
	select {
	case m, ok := <-answer:
		switch {
		case !ok:
			return nil, ErrClosed
		case m.Error != nil:
			return nil, m.Error
		}
		return m.Result, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// open takes a fresh id, a JSON string like "s1", so that it can never be
// confused with the peer's own, which count or are random.
func (p *Peer) open() (id string, answer chan Message, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return "", nil, ErrClosed
	}
	if len(p.calls) >= maxCalls {
		return "", nil, ErrTooManyCalls
	}
	if p.calls == nil {
		p.calls = map[string]chan Message{}
	}
	p.lastCall++
	id = `"s` + strconv.FormatUint(p.lastCall, 10) + `"`
	answer = make(chan Message, 1)
	p.calls[id] = answer
	return id, answer, nil
}

func (p *Peer) forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.calls, id)
}

// FailCall ends our open call of that id with why, for an answer that has
// neither a result nor an error that can be read: the peer will send no other.
// It reports whether there was such a call.
func (p *Peer) FailCall(id json.RawMessage, why *Error) bool {
	return p.resolve(Message{ID: id, Error: why})
}

// resolve hands an answer to whoever waits for it; nobody may.
func (p *Peer) resolve(m Message) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	answer, ok := p.calls[string(m.ID)]
	if ok {
		delete(p.calls, string(m.ID))
		answer <- m
	}
	return ok
}
