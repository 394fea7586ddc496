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

	state    attachState
	index    int           // place in topic.all
	pos      uint64        // everything up to here was pushed
	progress Progress      // while it is not in step
	feeder   chan struct{} // closed when the feeder is done; nil before the first
}

// slow reports whether the ring may be kept for the attachment.
func (s attachState) slow() bool { return s == held || s == behind }

// become changes the state; the caller holds the topic's lock.
func (a *Attachment) become(s attachState) {
	if a.state.slow() {
		a.topic.slow--
	}
	if s.slow() {
		a.topic.slow++
	}
	a.state = s
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
	t.slow++
	a.progress = NewProgress(t.next, t.total)
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
// the attachment ended.
func (a *Attachment) Pos() uint64 {
	a.topic.mu.Lock()
	defer a.topic.mu.Unlock()
	return a.pos
}

// live hands over the run of some frames that ends with the newest; the caller
// holds the lock.
func (a *Attachment) live(run outbox.Frame, frames int) {
	if ok, full := a.push(run, frames); ok {
		a.pos = a.topic.last
	} else if full {
		a.feed()
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
	a.become(behind)
	a.progress = NewProgress(a.topic.next, a.topic.total)
	done := make(chan struct{})
	a.feeder = done
	go a.run(done)
}

func (a *Attachment) run(done chan struct{}) {
	mark := resumeBelow
	for {
		err := a.sink.WaitBelow(a.ctx, mark)
		a.topic.mu.Lock()
		if a.state == gone || err != nil && a.ctx.Err() == nil {
			a.leave()
			break
		}
		if a.pos < a.topic.floor { // then its wait was cut short, too
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

// catchUp pushes what the ring has for the attachment, about feedBytes. It
// reports how many bytes the sink took, and whether a feeder has to go on; if
// not, the attachment is in step or gone. The caller holds the lock.
func (a *Attachment) catchUp() (pushed int, more bool) {
	t := a.topic
	if a.pos < t.floor {
		return 0, true
	}
	for n := t.ordinalAfter(a.pos); n < t.next; {
		if pushed >= feedBytes {
			return pushed, true
		}
		run, end := t.joined(n)
		ok, full := a.push(run, int(end-n))
		if full && end > n+1 { // there may be room for less
			run, end = t.entry(n).Frame, n+1
			ok, full = a.push(run, 1)
		}
		switch {
		case full:
			return pushed, true
		case !ok:
			return pushed, false
		}
		a.pos = t.entry(end - 1).Pos
		pushed += len(run)
		n = end
	}
	a.pos = max(a.pos, t.last)
	a.become(live)
	return pushed, false
}

// joined is the run that begins with an entry, and the ordinal after it.
func (t *Topic) joined(n uint64) (outbox.Frame, uint64) {
	run := outbox.Run(t.entry(n).Frame)
	for n++; n < t.next; n++ {
		longer, ok := run.Join(t.entry(n).Frame)
		if !ok {
			break
		}
		run = longer
	}
	return outbox.Frame(run), n
}

// push gives the sink a run of some frames. When the sink is closed the attachment leaves.
func (a *Attachment) push(run outbox.Frame, frames int) (ok, full bool) {
	switch err := a.sink.Push(run); {
	case err == nil:
		a.topic.counts.Delivered(frames)
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
	wasSlow := a.state.slow()
	a.become(gone)
	a.stop()
	all := a.topic.all
	last := all[len(all)-1]
	all[a.index], last.index = last, a.index
	all[len(all)-1] = nil
	a.topic.all = all[:len(all)-1]
	if wasSlow {
		a.topic.evict() // what it alone needed
	}
}
