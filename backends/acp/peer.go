package acp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/polyhost/polyhost/backends/internal/cli"
	"github.com/polyhost/polyhost/core/lines"
)

// message is any JSON-RPC record of an agent's.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *rpcError       `json:"error"`
}

// rpcError is an agent's refusal of a request.
type rpcError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (e *rpcError) Error() string { return e.Message }

// The error codes that are used, of JSON-RPC and of the protocol.
const (
	codeNoMethod  = -32601
	codeBadParams = -32602
	codeInternal  = -32603
	codeSignIn    = -32000
)

// errDied is what a request gets whose agent ended before it answered.
var errDied = errors.New("the agent's program ended")

type reply struct {
	result json.RawMessage
	err    error
}

// peer speaks JSON-RPC with a running agent. What the agent says is handled in
// order, by the goroutine of read.
type peer struct {
	proc *cli.Proc

	mu      sync.Mutex
	serial  int
	pending map[string]chan reply // nil once the agent ended
}

func newPeer(p *cli.Proc) *peer { return &peer{proc: p, pending: map[string]chan reply{}} }

// decode reads a value, in which a field of a type that was not expected
// counts as absent.
func decode(raw json.RawMessage, v any) error {
	err := json.Unmarshal(raw, v)
	var odd *json.UnmarshalTypeError
	if errors.As(err, &odd) {
		return nil
	}
	return err
}

// read takes what the agent says until it ends: handle gets requests and
// notifications, tooLong the records that were skipped.
func (p *peer) read(handle func(*message), tooLong func(*lines.TooLongError)) {
	defer p.end()
	for {
		line, err := p.proc.Next()
		var long *lines.TooLongError
		switch {
		case errors.As(err, &long):
			tooLong(long)
			continue
		case err != nil:
			return
		}
		var m message
		if decode(line, &m) != nil {
			p.proc.Noise(line)
			continue
		}
		if m.Method != "" {
			handle(&m)
			continue
		}
		p.mu.Lock()
		ch, ok := p.pending[string(m.ID)]
		delete(p.pending, string(m.ID))
		p.mu.Unlock()
		if !ok {
			continue // a parse error's, or an answer nobody waits for any more
		}
		if m.Error != nil {
			ch <- reply{err: m.Error}
		} else {
			ch <- reply{result: m.Result}
		}
	}
}

// end fails everybody who waits.
func (p *peer) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, ch := range p.pending {
		ch <- reply{err: errDied}
	}
	p.pending = nil
}

// start sends a request; its answer comes on the channel, once.
func (p *peer) start(method string, params any) (<-chan reply, func(), error) {
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, nil, fmt.Errorf("encode %s: %w", method, err)
	}
	ch := make(chan reply, 1)
	p.mu.Lock()
	if p.pending == nil {
		p.mu.Unlock()
		return nil, nil, errDied
	}
	p.serial++
	id := strconv.Itoa(p.serial)
	p.pending[id] = ch
	p.mu.Unlock()
	forget := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.pending, id)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"jsonrpc":"2.0","id":%s,"method":%q,"params":`, id, method)
	b.Write(raw)
	b.WriteByte('}')
	if err := p.proc.Write(b.Bytes()); err != nil {
		forget()
		if errors.Is(err, cli.ErrEnded) {
			err = errDied
		}
		return nil, nil, err
	}
	return ch, forget, nil
}

// call sends a request and reads its answer into result, unless that is nil.
func (p *peer) call(ctx context.Context, method string, params, result any) error {
	ch, forget, err := p.start(method, params)
	if err != nil {
		return err
	}
	defer forget()
	select {
	case r := <-ch:
		if r.err != nil || result == nil {
			return r.err
		}
		if err := decode(r.result, result); err != nil {
			return fmt.Errorf("the answer to %s is not what the protocol says: %w", method, err)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *peer) notify(method string, params any) {
	p.write(map[string]any{"jsonrpc": "2.0", "method": method, "params": params})
}

// answer settles a request of the agent's. One whose agent is gone needs none.
func (p *peer) answer(id json.RawMessage, result any) {
	p.write(map[string]any{"jsonrpc": "2.0", "id": id, "result": result})
}

func (p *peer) refuse(id json.RawMessage, code int, text string) {
	p.write(map[string]any{"jsonrpc": "2.0", "id": id, "error": rpcError{Code: code, Message: text}})
}

func (p *peer) write(v any) {
	if b, err := json.Marshal(v); err == nil {
		_ = p.proc.Write(b)
	}
}
