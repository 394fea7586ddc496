package fanout

import (
	"context"
	"errors"

	"github.com/polyhost/polyhost/transports/outbox"
)

// AttachOptions say where an attachment starts and how it behaves.
type AttachOptions struct {
	// After is the position the peer already has. One that the topic has not
	// reached yet is fine: what lies before it is skipped.
	After uint64
	// Held keeps everything back until Release, so that an answer can go first.
	Held bool
	// OnGap is called once when the frames after a position are no longer
	// retained; the attachment is detached by then. It runs on a goroutine of
	// the attachment and may attach again, but must not wait for the publisher.
	OnGap func(after uint64)
}

type attachState uint8

const (
	held   attachState = iota // waits for Release
	live                      // in step: the publisher pushes
	behind                    // its feeder pushes from the ring
	gone                      // detached, closed or told of a gap
)

// Attachment is one sink's cursor in a topic. All fields below the sink are
// guarded by the topic's lock.
type Attachment struct {
	topic *Topic
	sink  Sink
	opts  AttachOptions
	ctx   context.Context
	stop  context.CancelFunc

	state  attachState
	index  int            // place in topic.all
	pos    uint64         // everything up to here was pushed, but for rest
	rest   []outbox.Frame // what is left of the position that did not fit
	feeder chan struct{}  // closed when the feeder is done; nil before the first
}

// Attach gives a sink the frames after a position, those that are retained
// first. The caller detaches when the sink's peer is gone.
func (t *Topic) Attach(s Sink, o AttachOptions) *Attachment {
	a := &Attachment{topic: t, sink: s, opts: o, pos: o.After}
	a.ctx, a.stop = context.WithCancel(context.Background())
	t.mu.Lock()
	defer t.mu.Unlock()
	a.index = len(t.all)
	t.all = append(t.all, a)
	if !o.Held {
		a.start()
	}
	return a
}

// Release lets a held attachment go. More than once is harmless.
func (a *Attachment) Release() {
	a.topic.mu.Lock()
	defer a.topic.mu.Unlock()
	if a.state == held {
		a.start()
	}
}

// Detach ends the attachment: nothing is pushed once it returns. It does not
// wait for an OnGap that is running.
func (a *Attachment) Detach() {
	a.topic.mu.Lock()
	a.leave()
	feeder := a.feeder
	a.topic.mu.Unlock()
	if feeder != nil {
		<-feeder
	}
}

// Pos is the position up to which the sink has taken everything, also after
// the attachment ended. It may have taken some frames of the position after it.
func (a *Attachment) Pos() uint64 {
	a.topic.mu.Lock()
	defer a.topic.mu.Unlock()
	return a.delivered()
}

// delivered is pos, or the one before it while the rest of pos is still to come.
func (a *Attachment) delivered() uint64 {
	if len(a.rest) > 0 {
		return a.pos - 1
	}
	return a.pos
}

// live hands over a position that was just published and begins with an entry
// of the ring; the caller holds the lock.
func (a *Attachment) live(pos, from uint64) {
	if pos <= a.pos {
		return
	}
	a.pos = pos
	t := a.topic
	for n := from; n < t.next; n++ {
		if ok, full := a.push(t.entry(n).Frame); full {
			a.restFrom(n)
			a.feed()
			return
		} else if !ok {
			return
		}
	}
}

// restFrom notes what is left of the position of an entry of the ring.
func (a *Attachment) restFrom(n uint64) {
	t := a.topic
	for pos := t.entry(n).Pos; n < t.next && t.entry(n).Pos == pos; n++ {
		a.rest = append(a.rest, t.entry(n).Frame)
	}
}

// start brings a new attachment in step; the caller holds the lock.
func (a *Attachment) start() {
	if _, more := a.catchUp(); more {
		a.feed()
	}
}

// feed starts the goroutine that serves the attachment until it is in step
// again; the caller holds the lock.
func (a *Attachment) feed() {
	a.state = behind
	done := make(chan struct{})
	a.feeder = done
	go a.run(done)
}

func (a *Attachment) run(done chan struct{}) {
	mark := resumeBelow
	for {
		err := a.sink.WaitBelow(a.ctx, mark)
		a.topic.mu.Lock()
		if a.state == gone || err != nil {
			a.leave()
			break
		}
		if len(a.rest) == 0 && a.pos < a.topic.floor {
			after, tell := a.pos, a.opts.OnGap
			a.leave()
			a.topic.mu.Unlock()
			close(done)
			if tell != nil {
				tell(after)
			}
			return
		}
		pushed, more := a.catchUp()
		if !more {
			break
		}
		a.topic.mu.Unlock()
		if pushed == 0 {
			// The sink's own bound is below the mark, or the frame needs more room.
			mark = max(1, mark/2)
		}
	}
	a.topic.mu.Unlock()
	close(done)
}

// catchUp pushes what the ring has for the attachment, at most feedFrames. It
// reports how many frames the sink took, and whether a feeder has to go on; if
// not, the attachment is in step or gone. The caller holds the lock.
func (a *Attachment) catchUp() (pushed int, more bool) {
	t := a.topic
	for i, f := range a.rest {
		if ok, full := a.push(f); full {
			a.rest = append(a.rest[:0], a.rest[i:]...)
			return pushed, true
		} else if !ok {
			return pushed, false
		}
		pushed++
	}
	a.rest = nil
	if a.pos < t.floor {
		return pushed, true
	}
	for n := t.ordinalAfter(a.pos); n < t.next; n++ {
		e := t.entry(n)
		if pushed >= feedFrames && e.Pos != a.pos {
			return pushed, true
		}
		a.pos = e.Pos
		if ok, full := a.push(e.Frame); full {
			a.restFrom(n)
			return pushed, true
		} else if !ok {
			return pushed, false
		}
		pushed++
	}
	a.pos = max(a.pos, t.last)
	a.state = live
	return pushed, false
}

// push gives the sink one frame. When the sink is closed the attachment leaves.
func (a *Attachment) push(f outbox.Frame) (ok, full bool) {
	switch err := a.sink.Push(f); {
	case err == nil:
		return true, false
	case errors.Is(err, outbox.ErrFull):
		return false, true
	}
	a.leave()
	return false, false
}

// leave takes the attachment out of its topic; the caller holds the lock.
func (a *Attachment) leave() {
	if a.state == gone {
		return
	}
	a.state = gone
	a.pos = a.delivered()
	a.rest = nil
	a.stop()
	all := a.topic.all
	last := all[len(all)-1]
	all[a.index], last.index = last, a.index
	all[len(all)-1] = nil
	a.topic.all = all[:len(all)-1]
}
