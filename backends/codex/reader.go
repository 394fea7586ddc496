package codex

import (
	"context"
	"sync"
	"time"
)

// reader is a process that answers questions about past conversations. It is
// kept for a while, since lists and histories are read page by page.
type reader struct {
	mu   sync.Mutex
	link *link
	idle *time.Timer
}

// ask does what f asks, in the reader's process.
func (b *Backend) ask(ctx context.Context, f func(context.Context, *link) error) error {
	r := &b.reader
	r.mu.Lock()
	defer r.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.ctx, cancel)()
	if r.link != nil {
		r.idle.Stop()
		select {
		case <-r.link.ended:
			r.link = nil
		default:
		}
	}
	if r.link == nil {
		l, err := b.probe(ctx)
		if err != nil {
			return err
		}
		r.link = l
	}
	err := f(ctx, r.link)
	l := r.link
	r.idle = time.AfterFunc(readerIdle, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.link == l {
			_ = l.close()
			r.link = nil
		}
	})
	return err
}

// close ends the process for good: the backend is closed by now.
func (r *reader) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.link == nil {
		return nil
	}
	r.idle.Stop()
	l := r.link
	r.link = nil
	return l.close()
}
