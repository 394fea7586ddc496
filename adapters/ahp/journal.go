package ahp

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/polyhost/polyhost/transports/fanout"
	"github.com/polyhost/polyhost/transports/jsonx"
	"github.com/polyhost/polyhost/transports/outbox"
	"github.com/polyhost/polyhost/transports/ws"
)

// journal numbers everything the host says and keeps the newest of it. One
// lock covers numbering, keeping and handing over, so that every connection
// sees one order.
type journal struct {
	reserve func(seq uint64) // asked to put a higher mark on disk; must not block
	counts  *fanout.Counts

	mu      sync.Mutex
	seq     uint64  // of the newest action
	mark    uint64  // numbers up to here are reserved
	asked   uint64  // the newest mark asked for
	ring    []entry // its length is a power of two
	first   uint64  // position of the oldest kept entry
	next    uint64  // position of the next entry
	bytes   int
	total   uint64         // bytes of all frames so far
	evicted uint64         // seq of the newest action that is kept no more
	behind  map[*conn]*lag // who is held or fed from the ring
	again   *time.Timer    // evicts when nothing happens; nil unless more is kept than usual
	// past bounds what is kept for clients that come back, queue what may wait
	// for one client, room the part of it that waits in its own queue; in bytes.
	past, queue, room int
}

// lag is where a connection that is behind goes on.
type lag struct {
	pos      uint64
	progress fanout.Progress
	over     chan struct{} // closed when it is in step again, or ended
	bytes    int           // that wait for it in the ring
	taken    uint64        // the position that was handed out last
	size     int           // and the size of its frame, until it is in the connection's queue
}

// entry is one frame: an action, or a notification, which is never replayed.
type entry struct {
	ch     *channel
	seq    uint64
	frame  outbox.Frame
	action bool
	except map[*conn]string // get it in another spelling
	only   *conn            // for this one alone, whatever it watches; ch is nil
}

// channel is a stream that connections subscribe to. Its fields belong to the
// journal's lock.
type channel struct {
	uri    string
	quoted []byte // uri as a JSON string
	tape   outbox.Tape
	subs   []*sub
	due    int    // who has a snapshot and is about to join
	since  uint64 // seq from which on everything that happened is in the journal
	closed bool
}

// sub is one connection on one channel, from a position on.
type sub struct {
	conn *conn
	from uint64
}

func newJournal(seq uint64, reserve func(uint64)) *journal {
	return &journal{seq: seq, mark: seq + seqBlock, asked: seq + seqBlock, evicted: seq, reserve: reserve,
		ring: make([]entry, journalFrames), behind: map[*conn]*lag{}, past: journalBytes, queue: queueBytes,
		room: min(outboxLimit, queueBytes/roomShare)}
}

// bound changes the bounds in bytes; they hold from the next frame on.
func (j *journal) bound(replay, queue int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.past, j.queue, j.room = replay, queue, min(outboxLimit, queue/roomShare)
}

func (j *journal) roomFor() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.room
}

// open makes a channel whose history begins now.
func (j *journal) open(uri string) *channel {
	j.mu.Lock()
	defer j.mu.Unlock()
	return &channel{uri: uri, quoted: jsonx.AppendString(nil, uri), since: j.seq, tape: outbox.Tape{Header: ws.TextHeader}}
}

// now is the newest sequence number and the position of what comes next.
func (j *journal) now() (seq, pos uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.seq, j.next
}

// promise is now for a snapshot of a channel whose reader will join: until then
// the channel counts as watched.
func (j *journal) promise(ch *channel) (seq, pos uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	ch.due++
	return j.seq, j.next
}

// reserved tells that numbers up to a mark are on disk.
func (j *journal) reserved(mark uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mark = max(j.mark, mark)
}

const (
	actionHead = `{"jsonrpc":"2.0","method":"action","params":`
	seqRoom    = 24 // the digits of a sequence number and the braces after it
	textRoom   = 64 // what follows a text, and its quotes
)

// head begins the frame of an action: everything before the action itself.
func (ch *channel) head(room int) []byte {
	b := make([]byte, 0, len(actionHead)+len(ch.quoted)+len(`{"channel":,"action":,"serverSeq":`)+room+seqRoom)
	b = append(b, actionHead...)
	b = append(b, `{"channel":`...)
	b = append(b, ch.quoted...)
	return append(b, `,"action":`...)
}

// actionFrame is the same for a channel that may not be open.
func actionFrame(uri string, body []byte) []byte {
	ch := channel{quoted: jsonx.AppendString(nil, uri)}
	return ch.action(body)
}

// action encodes an action up to the place of its number.
func (ch *channel) action(body []byte) []byte {
	b := append(ch.head(len(body)), body...)
	return append(b, `,"serverSeq":`...)
}

// tail ends the frame of an action.
func tail(o *origin) []byte {
	if o == nil {
		return closing
	}
	b := append([]byte(`,"origin":`), o.encoded()...)
	return append(b, closing...)
}

var closing = []byte("}}")

// envelope is the part of an action's frame that a replay repeats.
func envelope(f outbox.Frame) json.RawMessage {
	message := ws.Payload(f)
	return json.RawMessage(message[len(actionHead) : len(message)-1])
}

// publish numbers an action and hands it to everyone on the channel. b ends
// where the number goes and must have room for it.
func (j *journal) publish(ch *channel, b []byte, o *origin) {
	end := tail(o)
	j.mu.Lock()
	defer j.mu.Unlock()
	if ch.closed {
		return
	}
	seq := j.number()
	b = append(strconv.AppendUint(b, seq, 10), end...)
	j.add(entry{ch: ch, seq: seq, frame: ch.tape.Add(b), action: true})
}

// texts numbers actions of one channel that differ in a text alone, and hands
// them on together. Each is the head, the text as a JSON string and a brace.
func (j *journal) texts(ch *channel, head []byte, texts []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if ch.closed {
		return
	}
	j.evict(len(texts))
	var run outbox.Run
	from := j.next
	for _, text := range texts {
		seq := j.number()
		b := append(ch.tape.Begin(len(head)+len(text)+len(text)/8+textRoom), head...)
		b = append(jsonx.AppendString(b, text), `},"serverSeq":`...)
		f := ch.tape.End(append(strconv.AppendUint(b, seq, 10), closing...))
		if longer, ok := run.Join(f); ok {
			run = longer
		} else {
			ch.offer(from, run, int(j.next-from))
			run, from = outbox.Run(f), j.next
		}
		j.keep(entry{ch: ch, seq: seq, frame: f, action: true})
	}
	ch.offer(from, run, int(j.next-from))
}

// offer hands the run of some frames that begins at a position to everyone on
// the channel.
func (ch *channel) offer(from uint64, run outbox.Run, frames int) {
	if len(run) == 0 {
		return
	}
	for _, s := range ch.subs {
		s.conn.offer(from, outbox.Frame(run), frames)
	}
}

// number gives the next action its number.
func (j *journal) number() uint64 {
	j.seq++
	if j.seq+seqBlock/2 > j.asked {
		j.asked += seqBlock
		j.reserve(j.asked)
	}
	return j.seq
}

// notify hands a notification to everyone on a channel but some.
func (j *journal) notify(ch *channel, message []byte, except map[*conn]string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.add(entry{ch: ch, seq: j.seq, frame: ws.Text(message), except: except})
}

// tell hands a notification to those on a channel who have room for it now. It
// is not kept, and who is behind is not cut for it.
func (j *journal) tell(ch *channel, message []byte) {
	f := ws.Text(message)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.counts.Encoded(1)
	for _, s := range ch.subs {
		if s.conn.ws.Outbox().PushBelow(f, j.room) == nil {
			j.counts.Delivered(1)
		}
	}
}

// whisper sends an action to one connection alone, in order with what else it
// gets. It takes no number of its own: it carries the newest. b ends where the
// number goes.
func (j *journal) whisper(c *conn, b, end []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	b = append(strconv.AppendUint(b, j.seq, 10), end...)
	j.add(entry{seq: j.seq, frame: ws.Text(b), only: c})
}

// leave forgets the position of a connection that ended.
func (j *journal) leave(c *conn) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.rejoin(c)
	j.evict(0)
}

// hold keeps everything from a connection until join, so that an answer goes
// out before the actions that follow it. It returns the position from which
// the connection then goes on. A connection that is behind is brought up to
// date first.
func (j *journal) hold(ctx context.Context, c *conn) (pos uint64, err error) {
	for {
		j.mu.Lock()
		l := j.behind[c]
		if l == nil {
			j.fallBack(c, j.next)
			pos := j.next
			j.mu.Unlock()
			return pos, nil
		}
		j.mu.Unlock()
		select {
		case <-l.over:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// join subscribes a connection that is held to channels, each from a position
// on. A channel that is gone says nothing more: its end was told elsewhere, on
// the channel of its session or on the root's.
func (j *journal) join(c *conn, news []taken) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range news {
		ch := news[i].ch
		ch.due--
		if !ch.closed {
			j.drop(ch, c)
			ch.subs = append(ch.subs, &sub{conn: c, from: news[i].pos})
		}
	}
}

// detach takes a connection off a channel and tells how many are left.
func (j *journal) detach(ch *channel, c *conn) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.drop(ch, c)
	return len(ch.subs) + ch.due
}

func (j *journal) drop(ch *channel, c *conn) {
	for i, s := range ch.subs {
		if s.conn == c {
			ch.subs = append(ch.subs[:i:i], ch.subs[i+1:]...)
			return
		}
	}
}

// close ends a channel: nobody gets anything from it any more.
func (j *journal) close(ch *channel) {
	j.mu.Lock()
	defer j.mu.Unlock()
	ch.closed, ch.subs = true, nil
}

func (j *journal) watched(ch *channel) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(ch.subs)+ch.due > 0
}

// replay returns the envelopes of some channels after a sequence number, and
// the position after them. The value of a channel is how many times it will be
// joined, which is promised with that. ok is false when the journal cannot answer: it does
// not reach back so far, or a channel's history began later.
func (j *journal) replay(chs map[*channel]int, after uint64) (actions []json.RawMessage, pos uint64, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if after < j.evicted || after > j.seq {
		return nil, 0, false
	}
	for ch := range chs {
		if ch.closed || ch.since > after {
			return nil, 0, false
		}
	}
	actions = []json.RawMessage{}
	for p := j.first; p < j.next; p++ {
		e := &j.ring[p&uint64(len(j.ring)-1)]
		if e.action && e.seq > after && chs[e.ch] > 0 {
			actions = append(actions, envelope(e.frame))
		}
	}
	for ch, joining := range chs {
		ch.due += joining
	}
	return actions, j.next, true
}

// pending returns the next frame for a connection at or after a position, and
// where to go on. ok is false when the journal no longer reaches back to it;
// a nil frame means that the connection is in step again.
func (j *journal) pending(c *conn, pos uint64) (f outbox.Frame, at uint64, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if pos < j.first {
		return nil, pos, false
	}
	lag := j.behind[c]
	if lag == nil { // it ended
		return nil, pos, true
	}
	if lag.size > 0 && pos > lag.taken {
		lag.bytes, lag.size = max(0, lag.bytes-lag.size), 0
	}
	lag.pos = pos
	for ; pos < j.next; pos++ {
		e := &j.ring[pos&uint64(len(j.ring)-1)]
		if e.only == c {
			lag.taken, lag.size = pos, len(e.frame)
			return e.frame, pos, true
		}
		if _, other := e.except[c]; other || e.only != nil {
			continue
		}
		for _, s := range e.ch.subs {
			if s.conn == c && s.from <= pos {
				lag.taken, lag.size = pos, len(e.frame)
				return e.frame, pos, true
			}
		}
	}
	j.rejoin(c)
	return nil, pos, true
}
