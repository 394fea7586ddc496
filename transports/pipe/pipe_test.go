package pipe_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/polyhost/polyhost/transports/outbox"
	"github.com/polyhost/polyhost/transports/pipe"
	"github.com/polyhost/polyhost/transports/ws"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 3 * time.Minute

// peer is the other end of a connection that echoes.
type peer struct {
	t    *testing.T
	conn *pipe.Conn
	say  *io.PipeWriter
	hear *io.PipeReader
	in   *bufio.Reader
	end  chan error
}

func open(t *testing.T, limit int, onMessage func(c *pipe.Conn, m []byte)) *peer {
	t.Helper()
	p := &peer{t: t, end: make(chan error, 1)}
	var r *io.PipeReader
	var w *io.PipeWriter
	r, p.say = io.Pipe()
	p.hear, w = io.Pipe()
	p.in = bufio.NewReader(p.hear)
	lines := bufio.NewReader(r)
	next := func() ([]byte, error) { return lines.ReadBytes('\n') }
	p.conn = pipe.New(next, func() { _ = r.Close() }, w, limit)
	go func() {
		p.end <- p.conn.Serve(context.Background(), func(_ context.Context, m []byte) { onMessage(p.conn, m) })
	}()
	t.Cleanup(func() { _ = p.say.Close(); _ = p.hear.Close(); <-p.conn.Done() })
	return p
}

func (p *peer) line() string {
	p.t.Helper()
	s, err := p.in.ReadString('\n')
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

func (p *peer) ended() error {
	p.t.Helper()
	select {
	case err := <-p.end:
		return err
	case <-time.After(patience):
		p.t.Fatal("the connection did not end")
		return nil
	}
}

func echo(c *pipe.Conn, m []byte) { _ = c.Send([]byte(strings.TrimSpace(string(m)))) }

func TestMessagesAreLines(t *testing.T) {
	t.Parallel()
	p := open(t, 0, echo)
	long := `"` + strings.Repeat("long ", 40_000) + `"`
	go func() { _, _ = io.WriteString(p.say, "{\"a\":1}\n\n  \r\n[2]\n"+long+"\n") }()
	for _, want := range []string{`{"a":1}`, `[2]`, long} {
		if got := p.line(); got != want+"\n" {
			t.Fatalf("got %.100q, want %.100q", got, want)
		}
	}
}

// A client of another connection may have sent its JSON over several lines.
func TestALineBreakBetweenTokensDoesNotSplitAMessage(t *testing.T) {
	t.Parallel()
	p := open(t, 0, echo)
	if err := p.conn.Send([]byte("{\r\n\"a\\n\":\n1}")); err != nil {
		t.Fatal(err)
	}
	if got := p.line(); got != "{  \"a\\n\": 1}\n" {
		t.Fatalf("got %q", got)
	}
}

func TestFramesThatOthersShareAreUnpacked(t *testing.T) {
	t.Parallel()
	p := open(t, 0, echo)
	tape := outbox.Tape{Header: ws.TextHeader}
	texts := []string{"1", strings.Repeat("2", 200), strings.Repeat("3", 70_000), "4"}
	for _, s := range texts {
		if err := p.conn.Outbox().Push(tape.Add([]byte(s))); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range texts {
		if got := p.line(); got != want+"\n" {
			t.Fatalf("got %d bytes, want %d", len(got)-1, len(want))
		}
	}
}

func TestTheEndOfInputEndsTheConnection(t *testing.T) {
	t.Parallel()
	p := open(t, 0, echo)
	_ = p.say.Close()
	if err := p.ended(); !errors.Is(err, io.EOF) {
		t.Fatalf("got %v", err)
	}
	if err := p.conn.Send([]byte("{}")); !errors.Is(err, outbox.ErrClosed) {
		t.Fatalf("got %v", err)
	}
}

func TestWhatIsQueuedGoesOutBeforeTheEnd(t *testing.T) {
	t.Parallel()
	var once sync.Once
	p := open(t, 0, func(c *pipe.Conn, m []byte) {
		once.Do(func() {
			echo(c, m)
			_ = c.Send([]byte(`"bye"`))
			c.Close(0, "enough")
		})
	})
	go func() { _, _ = io.WriteString(p.say, "1\n2\n") }()
	if a, b := p.line(), p.line(); a != "1\n" || b != "\"bye\"\n" {
		t.Fatalf("got %q and %q", a, b)
	}
	if err := p.ended(); !errors.Is(err, pipe.ErrClosed) || !strings.Contains(err.Error(), "enough") {
		t.Fatalf("got %v", err)
	}
}

// A client that takes nothing fills its queue and no more.
func TestAPeerThatTakesNothingIsLetGo(t *testing.T) {
	t.Parallel()
	p := open(t, 64<<10, echo)
	payload := []byte(strings.Repeat("x", 1<<10))
	var err error
	for n := 0; err == nil && n < 1000; n++ {
		err = p.conn.Send(payload)
	}
	if !errors.Is(err, outbox.ErrFull) {
		t.Fatalf("got %v", err)
	}
	p.conn.CloseSlow("too far behind")
	_ = p.hear.Close()
	if err := p.ended(); !errors.Is(err, pipe.ErrClosed) {
		t.Fatalf("got %v", err)
	}
}
