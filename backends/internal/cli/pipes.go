package cli

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

var (
	// ErrEnded is returned by Write when the program has ended.
	ErrEnded = errors.New("the program has ended")
	// ErrFull is returned by Write when the program does not read.
	ErrFull = errors.New("the program does not read its input")
)

// input is the queue before a program's stdin.
type input struct {
	f *os.File

	mu     sync.Mutex
	queue  []byte
	ending bool  // close once the queue is empty
	err    error // no more writes
	some   chan struct{}
}

func newInput(f *os.File) *input { return &input{f: f, some: make(chan struct{}, 1)} }

func (i *input) put(record []byte) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.err != nil:
		return i.err
	case i.ending:
		return ErrEnded
	case len(i.queue)+len(record) > maxQueued:
		return ErrFull
	}
	i.queue = append(append(i.queue, record...), '\n')
	i.signal()
	return nil
}

func (i *input) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ending = true
	i.signal()
}

// fail makes a write that waits for the program return.
func (i *input) fail(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.err == nil {
		i.err = err
	}
	_ = i.f.SetWriteDeadline(time.Unix(1, 0))
	i.signal()
}

func (i *input) signal() {
	select {
	case i.some <- struct{}{}:
	default:
	}
}

// run writes what gathers, in one piece each time.
func (i *input) run() {
	defer i.f.Close()
	var spare []byte
	for range i.some {
		i.mu.Lock()
		piece, over := i.queue, i.ending || i.err != nil
		i.queue = spare[:0]
		i.mu.Unlock()
		if len(piece) > 0 {
			if _, err := i.f.Write(piece); err != nil {
				i.fail(ErrEnded)
				return
			}
		}
		if spare = piece; cap(spare) > drainBytes {
			spare = nil // a prompt with images
		}
		if over {
			i.fail(ErrEnded)
			return
		}
	}
}

// output reads a pipe of a program, and does not wait for ever when the
// program has ended but somebody else holds the pipe.
type output struct {
	f    *os.File
	done <-chan struct{}
	left int // bytes still to be read once the program has ended
	late bool
}

// wake ends a Read that waits, after done.
func (o *output) wake() { _ = o.f.SetReadDeadline(time.Unix(1, 0)) }

func (o *output) Read(b []byte) (int, error) {
	for {
		select {
		case <-o.done:
			if !o.late {
				o.late, o.left = true, drainBytes
			}
			if o.left <= 0 {
				return 0, io.EOF
			}
		default:
		}
		wasLate := o.late
		if wasLate {
			_ = o.f.SetReadDeadline(time.Now().Add(drainPause))
		}
		n, err := o.f.Read(b)
		if n > 0 {
			o.left -= n
			return n, nil
		}
		if errors.Is(err, os.ErrDeadlineExceeded) && !wasLate {
			<-o.done
			continue
		}
		if err != nil {
			return 0, io.EOF
		}
	}
}
