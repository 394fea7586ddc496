package bae

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"

	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/transports/fanout"
	"github.com/polyhost/polyhost/transports/jsonx"
	"github.com/polyhost/polyhost/transports/ndjson"
	"github.com/polyhost/polyhost/transports/outbox"
)

// request is one JSON-RPC call of a participant.
type request struct {
	room   *room
	ses    id.ID
	key    clientKey
	id     json.RawMessage // as sent; only valid if hasID
	hasID  bool
	method string
	params json.RawMessage
}

// method is an entry of the method table: one of handle and stream.
type method struct {
	name string
	// driver: the caller must have registered.
	driver bool
	handle func(*Front, context.Context, *request) (any, error)
	// stream prepares: it returns what runs once the stream is open.
	stream func(*Front, context.Context, *request) (func(context.Context, *feed), error)
}

// methods is the whole surface of /rpc.
var methods = []method{
	{name: "session.registerDriver", handle: (*Front).registerDriver},
	{name: "session.sendMessage", driver: true, stream: (*Front).sendMessage},
	{name: "session.subscribe", stream: (*Front).subscribe},
	{name: "session.unsubscribe", handle: (*Front).unsubscribe},
	{name: "session.startRemoteSandbox", driver: true, handle: (*Front).startSandbox},
	{name: "session.stopRemoteSandbox", driver: true, handle: (*Front).stopSandbox},
	{name: "session.execRemoteSandbox", driver: true, handle: (*Front).execSandbox},
	{name: "session.reportLocalSandbox", driver: true, handle: (*Front).reportSandbox},
	{name: "session.reportLocalSubagent", driver: true, handle: (*Front).reportSubagent},
	{name: "session.cancelSubagent", driver: true, handle: (*Front).cancelSubagent},
	{name: "session.updateClientTools", driver: true, handle: (*Front).updateTools},
}

func methodNamed(name string) *method {
	for i := range methods {
		if methods[i].name == name {
			return &methods[i]
		}
	}
	return nil
}

// nullID is the id of an answer to what is no request.
var nullID = json.RawMessage("null")

// parseRequest reads the envelope. With an error it also says under which id
// to answer; without an id the error is not answered.
func parseRequest(body []byte) (rq request, bad *rpcError) {
	rq.id, rq.hasID = nullID, true
	if err := check(body); err != nil {
		if errors.Is(err, jsonx.ErrTooDeep) {
			return rq, fail(codeRequest, "the request nests too deeply")
		}
		return rq, fail(codeParse, "parse error: the body is not JSON")
	}
	switch jsonx.Kind(body) {
	case "array":
		return rq, fail(codeRequest, "batches are not supported")
	case "object":
	default:
		return rq, fail(codeRequest, "a request is an object")
	}
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(body, &members); err != nil {
		return rq, fail(codeParse, "parse error")
	}
	rq.id, rq.hasID = members["id"], members["id"] != nil
	var version string
	if json.Unmarshal(members["jsonrpc"], &version) != nil || version != "2.0" {
		return rq, fail(codeRequest, `jsonrpc: want "2.0"`)
	}
	if raw := members["method"]; len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &rq.method) != nil {
		return rq, fail(codeRequest, "method: want a string")
	}
	rq.params = members["params"]
	if rq.params == nil {
		rq.params = json.RawMessage("{}")
	}
	return rq, nil
}

// object is the params as an object, or the error that they are none.
func (rq *request) object() error {
	if !isObject(rq.params) {
		return fail(codeParams, "params: want object, got %s", jsonx.Kind(rq.params))
	}
	return nil
}

// decode reads the params.
func (rq *request) decode(v any) error {
	if err := rq.object(); err != nil {
		return err
	}
	if err := decode(rq.params, v); err != nil {
		return fail(codeParams, "params: %s", err)
	}
	return nil
}

// reply is the terminal object.
type reply struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Result  any             `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

// terminal encodes the answer to a request; nil when it wants none.
func (rq *request) terminal(result any, e *rpcError) outbox.Frame {
	if !rq.hasID {
		return nil
	}
	return ndjson.Line(mustJSON(reply{JSONRPC: "2.0", ID: rq.id, Result: result, Error: e}))
}

// rpc serves POST /api/v1/sessions/{id}/rpc.
func (f *Front) rpc(w http.ResponseWriter, r *http.Request) {
	key, ses, err := f.participant(r)
	if err != nil {
		f.writeError(w, err)
		return
	}
	body, err := readBody(w, r)
	if err != nil {
		f.writeError(w, err)
		return
	}
	rq, bad := parseRequest(body)
	if bad != nil {
		f.line(w, rq.terminal(nil, bad))
		return
	}
	rq.key, rq.ses = key, ses
	m := methodNamed(rq.method)
	if m == nil {
		f.line(w, rq.terminal(nil, fail(codeMethod, "method not found: %.80s", rq.method)))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	if rq.room, err = f.room(ctx, ses); err != nil {
		f.line(w, rq.terminal(nil, f.rpcErrorOf(err)))
		return
	}
	defer f.release(rq.room)
	if m.driver && !f.isDriver(ses, key.ID) {
		f.line(w, rq.terminal(nil, fail(codeDriver, "call session.registerDriver before %s", m.name)))
		return
	}
	if m.handle != nil {
		result, err := m.handle(f, ctx, &rq)
		if err != nil {
			f.line(w, rq.terminal(nil, f.rpcErrorOf(err)))
			return
		}
		f.line(w, rq.terminal(result, nil))
		return
	}
	run, err := m.stream(f, ctx, &rq)
	if err != nil {
		f.line(w, rq.terminal(nil, f.rpcErrorOf(err)))
		return
	}
	f.stream(w, r, run)
}

// line answers with one object, or with none.
func (f *Front) line(w http.ResponseWriter, frame outbox.Frame) {
	h := w.Header()
	h.Set("Content-Type", "application/x-ndjson")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-cache, no-transform")
	w.WriteHeader(http.StatusOK)
	if frame != nil {
		_, _ = w.Write(frame) // the peer may have gone
	}
}

// feed is the way into one stream.
type feed struct {
	out    *outbox.Outbox
	frames *fanout.Counts
	done   []func() // run once everything was written, or the peer is given up
}

// push queues a frame, at the pace of the peer. Its error is that the stream
// is over.
func (d *feed) push(ctx context.Context, frame outbox.Frame) error {
	if frame == nil {
		return nil
	}
	for mark := d.out.Limit() / 2; ; mark = max(1, mark/2) { // a large frame needs more room
		err := d.out.Push(frame)
		if !errors.Is(err, outbox.ErrFull) {
			return err
		}
		if err := d.out.WaitBelow(ctx, mark); err != nil {
			return err
		}
	}
}

// pushEntry is push for an entry of a room.
func (d *feed) pushEntry(ctx context.Context, e *entry) error {
	err := d.push(ctx, e.frame)
	if err == nil {
		d.frames.Delivered(1)
	}
	return err
}

// errWritten closes the outbox of a stream that has said everything.
var errWritten = errors.New("the stream is complete")

// stream answers with what run feeds, until it returns. run's context ends
// when the peer is gone.
func (f *Front) stream(w http.ResponseWriter, r *http.Request, run func(context.Context, *feed)) {
	if !f.addStream() {
		f.writeError(w, refuse("unavailable", "the gateway is stopping"))
		return
	}
	ctx, cancel := context.WithCancel(f.draining)
	d := &feed{out: outbox.New(0), frames: f.deps.Frames}
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(ctx, d)
		d.out.Close(errWritten)
	}()
	ndjson.Serve(w, r, ndjson.Options{WriteTimeout: writeTimeout}, d.out, func(err error) {
		defer f.streams.Done()
		cancel()
		<-done
		for _, f := range d.done {
			f()
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			f.log.Info("A BAE stream was cut off, its peer takes no bytes", "err", err)
		}
	})
}

// within is a context for what must be done though its client has gone.
func within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
}
