// Package outbox is the bounded queue between an agent that speaks and the
// host that listens: what a backend's Recv reads from.
//
// Ordering: frames come out in the order they were put in. Loss: none. Bounds:
// MaxFrames and MaxBytes; whoever puts waits while the queue is over either,
// so a slow host slows the agent. Recv takes everything that has gathered, so
// the cost of a handover is shared by a burst and a lone frame is not delayed.
package outbox

import (
	"context"
	"sync"

	"github.com/polyhost/polyhost/core/agent"
)

// Outbox holds the frames of one conversation. Any number of goroutines may
// put, one may receive.
type Outbox struct {
	mu     sync.Mutex
	frames []agent.Frame
	spare  []agent.Frame // what the last Recv returned, to be reused
	bytes  int
	err    error
	filled chan struct{} // holds a token while there is something to receive
	room   chan struct{} // closed by the next Recv; nil while nobody waits
}

// New returns an empty outbox.
func New() *Outbox { return &Outbox{filled: make(chan struct{}, 1)} }

// Put appends the frames as one piece. It waits while the outbox is full and
// returns the context's error, or the outbox's once that is closed; then none
// of the frames was taken.
func (o *Outbox) Put(ctx context.Context, frames ...agent.Frame) error {
	for {
		o.mu.Lock()
		if o.err != nil {
			defer o.mu.Unlock()
			return o.err
		}
		// Checked under the lock: once a context is cancelled, nothing
		// that carries it can get in after a frame put later.
		if err := ctx.Err(); err != nil {
			o.mu.Unlock()
			return err
		}
		if len(o.frames) == 0 || (len(o.frames) < MaxFrames && o.bytes < MaxBytes) {
			o.frames = append(o.frames, frames...)
			for i := range frames {
				o.bytes += size(&frames[i])
			}
			o.signal()
			o.mu.Unlock()
			return nil
		}
		if o.room == nil {
			o.room = make(chan struct{})
		}
		room := o.room
		o.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Recv returns all that has gathered, at least one frame; after Close, the
// rest and then the closing error. The slice is valid until the next Recv.
func (o *Outbox) Recv(ctx context.Context) ([]agent.Frame, error) {
	for {
		o.mu.Lock()
		if len(o.frames) > 0 {
			out := o.frames
			clear(o.spare)
			o.frames, o.spare = o.spare[:0], out
			o.bytes = 0
			if o.room != nil {
				close(o.room)
				o.room = nil
			}
			if o.err != nil {
				o.signal()
			}
			o.mu.Unlock()
			return out, nil
		}
		err := o.err
		o.mu.Unlock()
		if err != nil {
			return nil, err
		}
		select {
		case <-o.filled:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Close refuses further frames and gives Recv its last answer. The first
// error counts.
func (o *Outbox) Close(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return
	}
	o.err = err
	if o.room != nil {
		close(o.room)
		o.room = nil
	}
	o.signal()
}

func (o *Outbox) signal() {
	select {
	case o.filled <- struct{}{}:
	default:
	}
}

// size estimates what a frame holds in memory beyond the struct itself.
func size(f *agent.Frame) int {
	n := len(f.Text)
	if f.Tool != nil {
		n += len(f.Tool.Input)
		for i := range f.Tool.Edits {
			n += len(f.Tool.Edits[i].Patch) * 3
		}
	}
	if f.Result != nil {
		n += len(f.Result.Output)
	}
	if f.Image != nil {
		n += len(f.Image.Data)
	}
	return n
}
