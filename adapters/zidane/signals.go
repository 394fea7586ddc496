package zidane

import (
	"encoding/json"
	"strconv"
	"sync"

	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/transports/fanout"
	"github.com/polyhost/polyhost/transports/outbox"
	"github.com/polyhost/polyhost/transports/ws"
)

// framePrefix begins every pushed frame; a signal follows.
const framePrefix = `{"jsonrpc":"2.0","method":"ipc.signal","params":`

// numberRoom is what the end of a frame needs: `,"$seq":` a number and braces.
const numberRoom = 32

// signals numbers the signals of each session, sends them to everybody and
// keeps the newest for those who resume.
type signals struct {
	epoch string
	topic *fanout.Topic
	limit logLimits

	mu      sync.Mutex
	pos     uint64 // of the topic
	bytes   int    // kept in all logs
	streams map[id.ID]*stream
	// written is the ring of streams that hold signals, least recently written
	// first: its root is a stream of its own.
	written stream
}

// stream is one session's signals. All fields are guarded by signals.mu.
type stream struct {
	tape  outbox.Tape
	last  uint64 // number of the newest signal
	log   []kept // a ring; its length is zero or a power of two
	head  int
	n     int
	bytes int

	prev, next *stream // in signals.written; nil when the log is empty
}

// kept is a signal in a log: the message it was sent in, which shares its bytes
// with the connections, and where the signal without its number ends.
type kept struct {
	message []byte
	end     int
	at      uint64 // the sequence number of the event that caused it
}

// logLimits bound what is kept for those who resume.
type logLimits struct {
	signals int // of one session
	bytes   int // of one session
	total   int // bytes of all sessions
}

func newSignals(epoch string, l logLimits) *signals {
	s := &signals{epoch: epoch, limit: l, streams: map[id.ID]*stream{},
		topic: fanout.NewTopic(0, fanout.Retain{Frames: ringFrames, Bytes: ringBytes, Behind: ringBehind})}
	s.written.prev, s.written.next = &s.written, &s.written
	return s
}

// begin starts the frame of a signal with room for n more bytes.
func begin(kind string, n int) []byte {
	b := make([]byte, 0, len(framePrefix)+len(`{"kind":""`)+len(kind)+n+numberRoom)
	b = append(b, framePrefix...)
	b = append(b, `{"kind":"`...)
	b = append(b, kind...)
	return append(b, '"')
}

// member appends a further member whose value is encoded.
func member(b []byte, name string, value []byte) []byte {
	b = append(b, ',', '"')
	b = append(b, name...)
	b = append(b, '"', ':')
	return append(b, value...)
}

// send numbers a signal of a session and hands it to everybody. The frame is
// what begin made with members added, still open; at is the event's number.
func (s *signals) send(session id.ID, at uint64, frame []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.of(session)
	s.add(st, at, append(st.tape.Begin(len(frame)+numberRoom), frame...), len(frame))
	s.topic.Flush()
}

// of is a session's stream; the caller holds mu.
func (s *signals) of(session id.ID) *stream {
	st := s.streams[session]
	if st == nil {
		st = &stream{tape: outbox.Tape{Header: ws.TextHeader}}
		s.streams[session] = st
	}
	return st
}

// add numbers a signal that was written to the stream's tape, n bytes and still
// open. The topic has to be flushed; the caller holds mu.
func (s *signals) add(st *stream, at uint64, b []byte, n int) {
	st.last++
	b = append(b, `,"$seq":`...)
	b = strconv.AppendUint(b, st.last, 10)
	frame := st.tape.End(append(b, '}', '}'))
	s.keep(st, kept{ws.Payload(frame), n, at})
	s.pos++
	s.topic.Add(s.pos, frame)
}

// broadcast hands a signal without a number to everybody.
func (s *signals) broadcast(frame []byte) {
	frame = append(frame, '}', '}')
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pos++
	s.topic.Publish(s.pos, ws.Text(frame))
}

// known reports whether a session had a signal in this process.
func (s *signals) known(session id.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams[session] != nil
}

// forget drops the stream of a session that was deleted.
func (s *signals) forget(session id.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st := s.streams[session]; st != nil {
		s.clear(st)
		delete(s.streams, session)
	}
}

func (k kept) size() int { return k.end - len(framePrefix) + 1 }

func (s *signals) keep(st *stream, k kept) {
	if k.size() > s.limit.bytes {
		s.clear(st)
		return
	}
	if st.n == len(st.log) {
		grown := make([]kept, max(16, 2*len(st.log)))
		for i := range st.n {
			grown[i] = st.at(i)
		}
		st.log, st.head = grown, 0
	}
	st.log[(st.head+st.n)&(len(st.log)-1)] = k
	st.n++
	st.bytes += k.size()
	s.bytes += k.size()
	for st.n > s.limit.signals || st.bytes > s.limit.bytes {
		oldest := &st.log[st.head]
		st.bytes -= oldest.size()
		s.bytes -= oldest.size()
		*oldest = kept{}
		st.head = (st.head + 1) & (len(st.log) - 1)
		st.n--
	}
	st.unlink()
	last := s.written.prev
	st.prev, st.next = last, &s.written
	last.next, s.written.prev = st, st
	for s.bytes > s.limit.total {
		s.clear(s.written.next)
	}
}

// clear empties the log of a stream; its numbers go on.
func (s *signals) clear(st *stream) {
	s.bytes -= st.bytes
	st.log, st.head, st.n, st.bytes = nil, 0, 0, 0
	st.unlink()
}

func (st *stream) unlink() {
	if st.next != nil {
		st.prev.next, st.next.prev = st.next, st.prev
		st.prev, st.next = nil, nil
	}
}

func (st *stream) at(i int) kept { return st.log[(st.head+i)&(len(st.log)-1)] }

// resume is the answer to sessions.resume.
func (s *signals) resume(session id.ID, epoch string, after uint64) json.RawMessage {
	if epoch != s.epoch {
		return json.RawMessage(`{"ok":false,"reason":"epoch"}`)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.streams[session]
	if st == nil {
		st = new(stream)
	}
	if after > st.last || after < st.last-uint64(st.n) {
		return json.RawMessage(`{"ok":false,"reason":"gap"}`)
	}
	skip := st.n - int(st.last-after)
	size := 0
	for i := skip; i < st.n; i++ {
		size += st.at(i).size() + len(`{"seq":,"signal":},`) + 20
	}
	b := make([]byte, 0, size+32)
	b = append(b, `{"ok":true,"signals":[`...)
	for i := skip; i < st.n; i++ {
		if i > skip {
			b = append(b, ',')
		}
		k := st.at(i)
		b = append(b, `{"seq":`...)
		b = strconv.AppendUint(b, st.last-uint64(st.n-1-i), 10)
		b = append(b, `,"signal":`...)
		b = append(b, k.message[len(framePrefix):k.end]...)
		b = append(b, '}', '}')
	}
	return append(b, ']', '}')
}

// covered is the number of the newest signal that an event up to at caused.
// It is exact while the log reaches back that far.
func (s *signals) covered(session id.ID, at uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.streams[session]
	if st == nil {
		return 0
	}
	for i := st.n - 1; i >= 0; i-- {
		if st.at(i).at <= at {
			return st.last - uint64(st.n-1-i)
		}
	}
	return st.last - uint64(st.n)
}
