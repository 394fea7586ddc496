package ahp

import (
	"time"

	"github.com/polyhost/polyhost/transports/fanout"
)

// add keeps an entry and hands it on.
func (j *journal) add(e entry) {
	j.evict(1)
	pos := j.next
	j.keep(e)
	if e.only != nil {
		e.only.offer(pos, e.frame, 1)
		return
	}
	for _, s := range e.ch.subs {
		if _, other := e.except[s.conn]; !other {
			s.conn.offer(pos, e.frame, 1)
		}
	}
}

// evict drops what need not be kept any more, so that some more entries have
// room, and cuts those who needed it.
func (j *journal) evict(room int) {
	needed, known, first := uint64(0), false, j.first
	for kept := int(j.next - j.first); kept > 0 && (kept+room > journalFrames || j.bytes > j.past); kept = int(j.next - j.first) {
		if !known {
			needed, known = j.needed(), true
		}
		if needed <= j.first && j.bytes+j.bytes/8+kept*entryCost <= max(journalBehind, j.past) {
			j.evictLater()
			break
		}
		old := &j.ring[j.first&uint64(len(j.ring)-1)]
		j.bytes -= len(old.frame)
		if old.action {
			j.evicted = old.seq
		}
		*old = entry{}
		j.first++
	}
	if j.first > first {
		j.cutLost()
	}
	if kept := j.next - j.first; len(j.ring) > journalFrames && kept < uint64(len(j.ring)/4) {
		j.resize(len(j.ring) / 2)
	}
}

// cutLost ends the connections that the ring has left behind.
func (j *journal) cutLost() {
	for c, at := range j.behind {
		if at.pos < j.first {
			j.rejoin(c)
			c.tooSlow()
		}
	}
}

// evictLater evicts again when those who take nothing have stalled.
func (j *journal) evictLater() {
	if j.again != nil {
		return
	}
	j.again = time.AfterFunc(fanout.StallAfter, func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.again = nil
		j.evict(0)
	})
}

// keep adds an entry.
func (j *journal) keep(e entry) {
	if j.next-j.first == uint64(len(j.ring)) {
		j.resize(2 * len(j.ring))
	}
	j.ring[j.next&uint64(len(j.ring)-1)] = e
	j.next++
	j.bytes += len(e.frame)
	j.total += uint64(len(e.frame))
	j.counts.Encoded(1)
}

// fallBack notes that a connection is fed from a position on.
func (j *journal) fallBack(c *conn, pos uint64) *lag {
	l := &lag{pos: pos, progress: fanout.NewProgress(j.next, j.total), over: make(chan struct{})}
	j.behind[c] = l
	return l
}

// rejoin ends that.
func (j *journal) rejoin(c *conn) {
	if l := j.behind[c]; l != nil {
		close(l.over)
		delete(j.behind, c)
	}
}

// resize moves the ring; its length is a power of two.
func (j *journal) resize(n int) {
	ring := make([]entry, n)
	for p := j.first; p < j.next; p++ {
		ring[p&uint64(n-1)] = j.ring[p&uint64(len(j.ring)-1)]
	}
	j.ring = ring
}

// needed is the first position that a connection which has not stalled is fed
// from; the next if there is none.
func (j *journal) needed() uint64 {
	least := j.next
	for c, at := range j.behind {
		if at.pos < least && !at.progress.Stalled(c.ws.Outbox().Taken(), j.next, j.total, fanout.Retain{Frames: journalFrames, Bytes: j.past}) {
			least = at.pos
		}
	}
	return least
}
