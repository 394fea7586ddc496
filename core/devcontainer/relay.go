package devcontainer

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/polyhost/polyhost/core/lines"
)

// inside is what runs in a container: its own gateway, for the client at its
// standard input and output. Status 3 is that of a home that another gateway has:
// the one of the relay before, which stops.
const inside = `command -v polyhost >/dev/null || { echo "there is no polyhost in the container" >&2; exit 127; }
n=0
while :; do
	polyhost serve --stdio --port-base 0 --fronts ahp --workspace "$1"
	s=$?
	[ $s = 3 ] && [ $n -lt 60 ] || exit $s
	n=$((n+1))
	sleep 1
done`

// ready is how the gateway in a container begins to say that it is ready.
const ready = "polyhost is ready"

// Relay is a connection to a gateway in a container.
type Relay struct {
	Container string // docker's id
	Folder    string // where the folder is in the container

	child   *child
	ready   chan struct{} // closed when the gateway says that it is
	closing chan struct{} // closed by Close
	ended   chan struct{} // closed when all is over and the folder is free
	words   tail          // of the gateway's log, for who reads it after ended

	mu   sync.Mutex // held while a frame is written
	once sync.Once  // closes closing
}

// Open brings up the container of a folder, a real path, and starts a gateway in
// it. The relay is the caller's to close; it may end by itself.
func (c *Containers) Open(ctx context.Context, folder string, l Listener) (*Relay, error) {
	free, err := c.take(ctx, folder, freeWithin)
	if err != nil {
		return nil, err
	}
	at, err := c.bring(ctx, folder, l.Output)
	if err != nil {
		free()
		return nil, err
	}
	child, err := c.start(c.cli, "exec", "--workspace-folder", folder, "/bin/sh", "-c", inside, "sh", at.Folder)
	if err != nil {
		free()
		return nil, err
	}
	r := &Relay{Container: at.Container, Folder: at.Folder, child: child,
		ready: make(chan struct{}), closing: make(chan struct{}), ended: make(chan struct{})}
	go r.run(l, free)
	within := time.NewTimer(readyWithin)
	defer within.Stop()
	select {
	case <-r.ready:
		return r, nil
	case <-r.ended:
		return nil, fmt.Errorf("start polyhost in the container: %w: %s", ErrFailed, r.words.last(child.group.Err()))
	case <-within.C:
		err = fmt.Errorf("start polyhost in the container: %w: it takes too long", ErrFailed)
	case <-ctx.Done():
		err = ctx.Err()
	}
	r.Close()
	<-r.ended
	return nil, err
}

// run is the relay's life; free is called at its end.
func (r *Relay) run(l Listener, free func()) {
	defer close(r.ended)
	defer free()
	defer r.child.close()
	var pumps sync.WaitGroup
	pumps.Go(func() { r.frames(l.Frame) })
	pumps.Go(func() {
		var said word
		pump(r.child.errs, &r.words, func(text string) {
			if said.in(text) {
				close(r.ready)
			}
			l.Output(text)
		})
	})
	select {
	case <-r.child.group.Done():
	case <-r.closing:
		r.child.in.Close() // the gateway stops with its client
		timer := time.NewTimer(closeWithin)
		select {
		case <-r.child.group.Done():
		case <-timer.C:
			_ = r.child.group.Stop(endWithin)
		}
		timer.Stop()
	}
	r.child.settle()
	pumps.Wait()
}

// word looks for what the gateway says when it is ready, the first time.
type word struct {
	end  string
	done bool
}

func (o *word) in(text string) bool {
	if o.done {
		return false
	}
	text = o.end + text
	o.done = strings.Contains(text, ready)
	o.end = text[max(0, len(text)-len(ready)):]
	return o.done
}

// frames passes on what the gateway says, until it has said all or too much.
func (r *Relay) frames(frame func([]byte)) {
	in := lines.NewReader(r.child.out, MaxFrame)
	for {
		line, err := in.Next()
		if err != nil {
			r.Close()
			return
		}
		if len(bytes.TrimSpace(line)) > 0 {
			frame(bytes.Clone(line))
		}
	}
}

// Send passes a frame to the gateway in the container. Breaks in it, which stand
// between the tokens of a JSON text, become spaces.
func (r *Relay) Send(frame string) error {
	line := append([]byte(frame), '\n')
	for i, b := range line[:len(frame)] {
		if b == '\n' || b == '\r' {
			line[i] = ' '
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.child.in.SetWriteDeadline(time.Now().Add(sendWithin))
	if _, err := r.child.in.Write(line); err != nil {
		r.Close() // part of it may have been written
		return ErrEnded
	}
	return nil
}

// Done is closed when the relay has ended, and its programs with it.
func (r *Relay) Done() <-chan struct{} { return r.ended }

// Close ends the relay: the gateway in the container stops as its client leaves, and
// is left to itself if it takes too long. It does not wait; Done tells.
func (r *Relay) Close() { r.once.Do(func() { close(r.closing) }) }
