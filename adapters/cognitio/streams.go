package cognitio

import (
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/polyhost/polyhost/transports/fanout"
	"github.com/polyhost/polyhost/transports/jsonx"
	"github.com/polyhost/polyhost/transports/outbox"
	"github.com/polyhost/polyhost/transports/sse"
)

// Why a stream ends.
var (
	errLagged   = errors.New("the client is too far behind")
	errStopping = errors.New("the server is stopping")
)

// origin is where events happen: what decides which streams they are on, and
// what the global stream says of them.
type origin struct {
	// dirs are the canonical directories of the session.
	dirs []string
	// envelope begins the frames of the global stream, up to the event.
	envelope []byte
}

func newOrigin(directory, project string, canonicalDirs []string) *origin {
	b := jsonx.AppendString([]byte(frameHead+`{"directory":`), directory)
	b = jsonx.AppendString(append(b, `,"project":`...), project)
	return &origin{dirs: canonicalDirs, envelope: append(b, `,"payload":`...)}
}

// everywhere is the origin of events that concern every directory. The global
// stream shows them without one.
var everywhere = &origin{envelope: []byte(frameHead + `{"payload":`)}

// global wraps a frame for the global stream.
func (o *origin) global(frame outbox.Frame) outbox.Frame {
	return o.appendGlobal(make([]byte, 0, len(o.envelope)+len(frame)), frame)
}

func (o *origin) appendGlobal(b []byte, frame outbox.Frame) []byte {
	event := frame[len(frameHead) : len(frame)-len(frameTail)]
	return append(append(append(b, o.envelope...), event...), "}"+frameTail...)
}

// channel is one of the streams that clients can ask for.
type channel struct {
	global bool
	// dir is the canonical directory, "" for all.
	dir string
}

// streams carries the events of all sessions to whoever listens. Sessions
// publish at the same time; the lock gives frames their positions. A topic
// lives as long as somebody listens to it.
type streams struct {
	// patience is how long a client may take no bytes.
	patience time.Duration
	frames   *fanout.Counts

	mu     sync.Mutex
	pos    uint64
	topics map[channel]*listened
	count  atomic.Int32 // of topics, for those who only ask
	closed bool
	open   map[*outbox.Outbox]struct{}
}

type listened struct {
	*fanout.Topic
	tape    outbox.Tape
	readers int
}

func newStreams() *streams {
	return &streams{patience: streamWrite, topics: map[channel]*listened{}, open: map[*outbox.Outbox]struct{}{}}
}

// heard reports whether anybody listens at all.
func (s *streams) heard() bool { return s.count.Load() > 0 }

// publish sends frames to the streams of their origin. It never waits.
func (s *streams) publish(from *origin, frames ...outbox.Frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.topics) == 0 {
		return
	}
	if t := s.topics[channel{global: true}]; t != nil {
		for i, f := range frames {
			b := t.tape.Begin(len(from.envelope) + len(f))
			t.Add(s.pos+uint64(i)+1, t.tape.End(from.appendGlobal(b, f)))
		}
		t.Flush()
	}
	if t := s.topics[channel{}]; t != nil {
		t.send(s.pos, frames)
	}
	if from == everywhere {
		for c, t := range s.topics {
			if !c.global && c.dir != "" {
				t.send(s.pos, frames)
			}
		}
	}
	for i, dir := range from.dirs {
		if t := s.topics[channel{dir: dir}]; t != nil && !slices.Contains(from.dirs[:i], dir) {
			t.send(s.pos, frames)
		}
	}
	s.pos += uint64(len(frames))
}

// send publishes frames at the positions after the given one.
func (t *listened) send(after uint64, frames []outbox.Frame) {
	for i, f := range frames {
		t.Add(after+uint64(i)+1, t.tape.Add(f))
	}
	t.Flush()
}

// listen gives a connection the frames from now on. The caller calls the
// function it gets when the connection is over. It reports false when the
// server is stopping.
func (s *streams) listen(c channel, out *outbox.Outbox) (leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, false
	}
	t := s.topics[c]
	if t == nil {
		t = &listened{Topic: fanout.NewTopic(s.pos, fanout.Retain{Frames: retainFrames, Behind: retainBehind})}
		t.Count(s.frames)
		s.topics[c] = t
		s.count.Add(1)
	}
	t.readers++
	s.open[out] = struct{}{}
	// A reader that the topic has left behind missed events: only a new
	// stream and a fresh look at the sessions make that good.
	a := t.Attach(out, fanout.AttachOptions{After: s.pos, OnGap: func(uint64) { out.Discard(errLagged) }})
	return func() {
		a.Detach()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, out)
		if t.readers--; t.readers == 0 {
			delete(s.topics, c)
			s.count.Add(-1)
		}
	}, true
}

// close ends all streams; what is queued is still sent.
func (s *streams) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for out := range s.open {
		out.Close(errStopping)
	}
}

// stream serves a channel to a client until one of them ends it. The greeting
// is what clients wait for before they send anything.
func (f *server) stream(w http.ResponseWriter, r *http.Request, c channel) {
	out := outbox.New(streamQueue)
	leave, ok := f.streams.listen(c, out)
	if !ok {
		f.writeError(w, &apiError{status: http.StatusServiceUnavailable, name: "UnavailableError", message: errStopping.Error()})
		return
	}
	hello, err := f.event("server.connected", struct{}{})
	if err != nil {
		f.log.Error("greeting could not be encoded", "err", err)
		leave()
		return
	}
	if c.global {
		hello = everywhere.global(hello)
	}
	sse.Serve(w, r, sse.Options{HeartbeatEvery: heartbeatEvery, Opening: hello, WriteTimeout: f.streams.patience}, out, func(err error) {
		leave()
		f.log.Debug("stream ended", "global", c.global, "directory", c.dir, "err", err)
	})
}

func (f *server) eventStream(w http.ResponseWriter, r *http.Request) {
	f.stream(w, r, channel{dir: requestDirectory(r)})
}

func (f *server) globalStream(w http.ResponseWriter, r *http.Request) {
	f.stream(w, r, channel{global: true})
}
