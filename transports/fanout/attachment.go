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
	// Filter leaves out the frames for which it is false; nil takes all. It runs
	// under the topic's lock: it must be quick and not call the topic.
	Filter func(outbox.Frame) bool
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

// live hands over a position that was just published; the caller holds the lock.
func (a *Attachment) live(pos uint64, frames []outbox.Frame) {
	if pos <= a.pos {
		return
	}
	a.pos = pos
	for i, f := range frames {
		if a.opts.Filter != nil && !a.opts.Filter(f) {
			continue
		}
		switch err := a.sink.Push(f); {
		case err == nil:
		case errors.Is(err, outbox.ErrFull):
			a.rest = append(a.rest[:0], frames[i:]...)
			a.feed()
			return
		default:
			a.leave()
			return
		}
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
			for ; n < t.next && t.entry(n).Pos == e.Pos; n++ {
				a.rest = append(a.rest, t.entry(n).Frame)
			}
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

// push gives the sink one frame unless the filter leaves it out. When the sink
// is closed the attachment leaves.
func (a *Attachment) push(f outbox.Frame) (ok, full bool) {
	if a.opts.Filter != nil && !a.opts.Filter(f) {
		return true, false
	}
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
