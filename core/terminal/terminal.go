package terminal

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/procgroup"
)

// Errors of using a terminal.
var (
	ErrOver = errors.New("the shell of that terminal has ended")
	ErrBusy = errors.New("the shell takes no more input now")
)

// Terminal is a pseudoterminal with what runs in it.
type Terminal struct {
	ID    id.ID
	set   *Set
	group *procgroup.Group
	pty   *os.File
	done  chan struct{} // closed when the shell has ended and its end was told

	mu       sync.Mutex
	st       State
	marks    marks
	owner    Owner
	watchers []func(*Event)

	inMu  sync.Mutex
	in    []byte        // waits for the shell
	inNew chan struct{} // there is input
}

// start starts a terminal.
func (s *Set) start(o Open) (*Terminal, error) {
	shell, err := shellPath(o.Shell)
	if err != nil {
		return nil, err
	}
	t := &Terminal{ID: o.ID, set: s, owner: o.Owner, done: make(chan struct{}), inNew: make(chan struct{}, 1),
		marks: marks{host: s.host}}
	if t.ID.IsNil() {
		t.ID = id.New()
	}
	t.st = State{Title: clip(o.Title, MaxTitle), Dir: o.Dir, Cols: o.Cols, Rows: o.Rows}
	if t.st.Title == "" {
		t.st.Title = shellTitle(&o, shell)
	}
	if t.st.Cols == 0 {
		t.st.Cols = DefaultCols
	}
	if t.st.Rows == 0 {
		t.st.Rows = DefaultRows
	}
	near, far, err := openPTY(t.st.Cols, t.st.Rows)
	if err != nil {
		return nil, err
	}
	defer far.Close()
	t.pty = near
	cmd := command(&o, shell, s.files(), s.o.Env)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = far, far, far
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if t.group, err = procgroup.Start(cmd); err != nil {
		near.Close()
		return nil, fmt.Errorf("%w: %w", ErrShell, err)
	}
	go t.run()
	return t, nil
}

// run owns the terminal's goroutines: it ends after all of them, and last of
// all tells the exit.
func (t *Terminal) run() {
	defer close(t.done)
	var wg sync.WaitGroup
	read := make(chan struct{})
	wg.Go(func() { defer close(read); t.read() })
	wg.Go(t.write)
	<-t.group.Done()
	// What the shell started, wherever it went: it would hold the terminal.
	if err := t.group.Stop(0); err != nil {
		t.set.o.Log.Warn("What a terminal started does not end", "terminal", t.ID.String(), "err", err)
	}
	late := time.AfterFunc(drainWithin, func() { t.pty.Close() })
	<-read
	late.Stop()
	t.pty.Close() // lets go of the writer too
	wg.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.happened(Event{Kind: Exited, Code: exitCode(t.group.Err())})
}

// exitCode is a leader's exit code as shells tell it.
func exitCode(err error) *int {
	code := 0
	var exit *exec.ExitError
	switch {
	case err == nil:
	case !errors.As(err, &exit):
		return nil
	default:
		code = exit.ExitCode()
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			code = 128 + int(status.Signal())
		}
	}
	return &code
}

// read takes the output until there is no more: nobody has the terminal open,
// or the time to wait for those who do is over.
func (t *Terminal) read() {
	var p parser
	buf := make([]byte, readSize)
	for {
		n, err := t.pty.Read(buf)
		begun := time.Now()
		if err == nil && n < len(buf) { // more may be on its way
			_ = t.pty.SetReadDeadline(begun.Add(readWithin))
			for err == nil && n < len(buf) {
				more := 0
				more, err = t.pty.Read(buf[n:])
				n += more
			}
			_ = t.pty.SetReadDeadline(time.Time{})
		}
		t.take(p.feed(buf[:n]))
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.take(p.end())
			return
		}
		if n == len(buf) {
			time.Sleep(time.Until(begun.Add(readEvery)))
		}
	}
}

// take makes events of output.
func (t *Terminal) take(tokens []token) {
	if len(tokens) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range tokens {
		if text := tokens[i].text; len(text) > 0 {
			t.marks.text(text)
			t.happened(Event{Kind: Data, Text: string(text)})
			continue
		}
		for _, e := range t.marks.mark(tokens[i].mark, &t.st, time.Now()) {
			t.happened(e)
		}
	}
}

// happened folds an event and tells it; the caller holds mu.
func (t *Terminal) happened(e Event) {
	t.st.apply(&e)
	for _, f := range t.watchers {
		f(&e)
	}
}

// write hands input to the shell, at the shell's pace.
func (t *Terminal) write() {
	for {
		select {
		case <-t.inNew:
		case <-t.group.Done():
			return
		}
		t.inMu.Lock()
		b := t.in
		t.in = nil
		t.inMu.Unlock()
		if _, err := t.pty.Write(b); err != nil {
			return // the end of the shell is told by its reader
		}
	}
}

// Input sends bytes to the shell, as if they were typed. taken is called when
// they are accepted, before anything the shell says to them is told; like a
// watcher it must not block.
func (t *Terminal) Input(data string, taken func()) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.st.Exited {
		return ErrOver
	}
	t.inMu.Lock()
	defer t.inMu.Unlock()
	if len(t.in)+len(data) > MaxInput {
		return ErrBusy
	}
	taken()
	t.in = append(t.in, data...)
	select {
	case t.inNew <- struct{}{}:
	default:
	}
	return nil
}

// Resize changes the size, in characters; the shell is told. It reports whether
// that is a change.
func (t *Terminal) Resize(cols, rows int, cause any) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.st.Cols == cols && t.st.Rows == rows {
		return false
	}
	t.happened(Event{Kind: Resized, Cols: cols, Rows: rows, Cause: cause})
	_ = setSize(t.pty, cols, rows) // it fails when the terminal is closed: then nobody looks at the size
	return true
}

// Rename changes the title. It reports whether that is a change.
func (t *Terminal) Rename(title string, cause any) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if title = clip(title, MaxTitle); t.st.Title == title {
		return false
	}
	t.happened(Event{Kind: Titled, Text: title, Cause: cause})
	return true
}

// Clear forgets what was shown. It reports whether there was anything.
func (t *Terminal) Clear(cause any) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.st.Parts) == 0 {
		return false
	}
	t.happened(Event{Kind: Cleared, Cause: cause})
	return true
}

// Owner is whose the terminal is.
func (t *Terminal) Owner() Owner {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.owner
}

// Belong gives the terminal to another owner.
func (t *Terminal) Belong(o Owner) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.owner = o
}

// View shows the state as it is between two events. f must neither keep it nor
// call the terminal.
func (t *Terminal) View(f func(*State)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(&t.st)
}

// Watch shows the state as it is, and calls f for every event from there on. f
// must not block, nor keep the event, nor call the terminal.
func (t *Terminal) Watch(now func(*State), f func(*Event)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now(&t.st)
	t.watchers = append(t.watchers, f)
}

// Done is closed when the shell has ended and its end was told.
func (t *Terminal) Done() <-chan struct{} { return t.done }

func (t *Terminal) over() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// End ends the shell and what it started. It returns once that is gone, within
// a few seconds; what was shown stays.
func (t *Terminal) End() {
	// Shells pass a hang-up on to their jobs; many ignore TERM.
	t.group.Signal(syscall.SIGHUP)
	t.group.Signal(syscall.SIGCONT)
	if err := t.group.Stop(endGrace); err != nil {
		t.set.o.Log.Warn("What runs in a terminal does not end", "terminal", t.ID.String(), "err", err)
	}
	<-t.done
}
