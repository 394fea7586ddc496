package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/polyhost/polyhost/backends/contract"
	"github.com/polyhost/polyhost/backends/demo"
	"github.com/polyhost/polyhost/core/agent"
	"github.com/polyhost/polyhost/core/agent/outbox"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/plugins/client"
	"github.com/polyhost/polyhost/plugins/sdk"
	"github.com/polyhost/polyhost/plugins/wire"
)

// patience is how long a test waits for what must come.
const patience = 2 * time.Minute

// across puts a backend behind a unix socket in this process.
func across(t testing.TB, b agent.Backend) (*client.Backend, *grpc.Server) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(append(sdk.ServerOptions(), grpc.WaitForHandlers(true))...)
	sdk.Register(s, b)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.Serve(l)
	}()
	conn, err := grpc.NewClient("unix://"+path, append(client.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		s.Stop()
		<-served
		_ = b.Close()
	})
	return client.New(conn), s
}

func TestContract(t *testing.T) {
	t.Parallel()
	c := contract.Scripted
	c.Past = c.Remember(func(t *testing.T) agent.Backend {
		b, _ := across(t, &demo.Backend{Keep: t.TempDir()})
		return b
	})
	c.Missing = func(t *testing.T) agent.Backend {
		b, _ := across(t, missing{demo.New()})
		return b
	}
	contract.Run(t, func(t *testing.T) agent.Backend {
		b, _ := across(t, demo.New())
		return b
	}, c)
}

// missing is a backend whose agent is not installed.
type missing struct{ agent.Backend }

func (missing) problem() error {
	return fmt.Errorf("look for it: %w", &agent.Problem{Code: agent.ProblemMissing, Message: "nowhere is not installed", Fix: "install nowhere"})
}
func (m missing) Info(context.Context) (agent.Info, error) { return agent.Info{}, m.problem() }
func (m missing) Open(context.Context, agent.Open) (agent.Conversation, error) {
	return nil, m.problem()
}

func TestABackendWithoutAHistorySaysSo(t *testing.T) {
	t.Parallel()
	b, _ := across(t, missing{demo.New()})
	if _, err := b.Conversations(t.Context(), agent.ConversationQuery{}); !errors.Is(err, agent.ErrUnsupported) {
		t.Errorf("conversations: %v", err)
	}
	if _, err := b.History(t.Context(), agent.HistoryQuery{ID: "x"}); !errors.Is(err, agent.ErrUnsupported) {
		t.Errorf("history: %v", err)
	}
}

// wordy has one past turn that is larger than a message may be.
type wordy struct{ agent.Backend }

func (wordy) Conversations(context.Context, agent.ConversationQuery) (agent.ConversationPage, error) {
	return agent.ConversationPage{}, nil
}

func (wordy) History(context.Context, agent.HistoryQuery) (agent.HistoryPage, error) {
	return agent.HistoryPage{Turns: []agent.PastTurn{{Prompt: "p", Frames: []agent.Frame{
		{Kind: agent.TextDelta, Part: "1", Text: strings.Repeat("x", 40<<20)},
		{Kind: agent.TurnEnd, Status: event.TurnComplete}}}}}, nil
}

func TestAPastTurnThatIsTooLargeComesCut(t *testing.T) {
	t.Parallel()
	b, _ := across(t, wordy{demo.New()})
	page, err := b.History(t.Context(), agent.HistoryQuery{ID: "x"})
	if err != nil || len(page.Turns) != 1 || len(page.Turns[0].Frames) != 2 {
		t.Fatalf("%v, %d turns", err, len(page.Turns))
	}
	if text := page.Turns[0].Frames[0].Text; len(text) > 64<<10 || !strings.Contains(text, "too large") {
		t.Errorf("%d bytes came", len(text))
	}
}

func open(t testing.TB, b agent.Backend) agent.Conversation {
	t.Helper()
	c, err := b.Open(t.Context(), agent.Open{Session: "s", Dirs: []string{t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// drain receives until the end of a turn and returns that frame.
func drain(t testing.TB, c agent.Conversation) agent.Frame {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		frames, err := c.Recv(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if f := frames[len(frames)-1]; f.Kind == agent.TurnEnd {
			return f
		}
	}
}

// counted is a backend that counts the text that is taken from its agent.
type counted struct {
	agent.Backend
	taken atomic.Int64
}

func (b *counted) Open(ctx context.Context, o agent.Open) (agent.Conversation, error) {
	c, err := b.Backend.Open(ctx, o)
	return countedTalk{c, b}, err
}

type countedTalk struct {
	agent.Conversation
	b *counted
}

func (c countedTalk) Recv(ctx context.Context) ([]agent.Frame, error) {
	frames, err := c.Conversation.Recv(ctx)
	for _, f := range frames {
		c.b.taken.Add(int64(len(f.Text)))
	}
	return frames, err
}

// stands waits until a count has stood still for a while and returns it, or the
// first one above most.
func stands(t *testing.T, count *atomic.Int64, most int64) int64 {
	t.Helper()
	last, since := count.Load(), time.Now()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		switch n := count.Load(); {
		case n > most:
			return n
		case n != last || n == 0:
			last, since = n, time.Now()
		case time.Since(since) > 300*time.Millisecond:
			return n
		}
	}
	t.Fatalf("%d bytes and no end", last)
	return 0
}

func TestASlowHostSlowsTheAgentAndCanStillInterrupt(t *testing.T) {
	t.Parallel()
	demo := &counted{Backend: demo.New()}
	b, _ := across(t, demo)
	c := open(t, b)
	if err := c.Prompt(t.Context(), agent.Prompt{Turn: "t", Text: "stream 10000000 1024"}); err != nil {
		t.Fatal(err)
	}
	// The agent fills every queue and the window, and then waits: two
	// outboxes' worth, a window and what is on its way in between.
	const most = 2*outbox.MaxBytes + wire.Window + 4<<20
	if n := stands(t, &demo.taken, most); n > most {
		t.Errorf("%d MiB were taken from the agent for a host that does not receive", n>>20)
	}
	if err := c.Interrupt(t.Context()); err != nil {
		t.Fatal(err)
	}
	if f := drain(t, c); f.Status != event.TurnCancelled {
		t.Errorf("%+v", f)
	}
}

func TestALostPluginFailsTheConversation(t *testing.T) {
	t.Parallel()
	b, s := across(t, demo.New())
	c := open(t, b)
	if err := c.Prompt(t.Context(), agent.Prompt{Turn: "t", Text: "sleep 60000"}); err != nil {
		t.Fatal(err)
	}
	go s.Stop()
	for {
		if _, err := c.Recv(t.Context()); err != nil {
			if !errors.Is(err, client.ErrLost) {
				t.Errorf("%v", err)
			}
			break
		}
	}
	if err := c.Prompt(t.Context(), agent.Prompt{Turn: "t2", Text: "x"}); !errors.Is(err, client.ErrLost) {
		t.Errorf("prompt: %v", err)
	}
}

func TestClosingTheBackendEndsConversationsNobodyReceives(t *testing.T) {
	t.Parallel()
	b, _ := across(t, demo.New())
	c, err := b.Open(t.Context(), agent.Open{Session: "s", Dirs: []string{t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Prompt(t.Context(), agent.Prompt{Turn: "t", Text: "stream 10000000 1024"}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Recv(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	// Its goroutines end by themselves: the leak check says if not.
	for err == nil {
		_, err = c.Recv(t.Context())
	}
	if err != io.EOF {
		t.Errorf("%v", err)
	}
}

func TestTheAgentsOwnErrorsArrive(t *testing.T) {
	t.Parallel()
	b, _ := across(t, demo.New())
	if _, err := b.Open(t.Context(), agent.Open{}); err == nil || !strings.Contains(err.Error(), "needs a working directory") {
		t.Errorf("open: %v", err)
	}
	c := open(t, b)
	if err := c.Prompt(t.Context(), agent.Prompt{Turn: "t1", Text: "sleep 60000"}); err != nil {
		t.Fatal(err)
	}
	if err := c.Prompt(t.Context(), agent.Prompt{Turn: "t2", Text: "x"}); err != nil {
		t.Fatal(err)
	}
	if f := drain(t, c); f.Turn != "t2" || f.Status != event.TurnFailed || f.Error == nil {
		t.Errorf("a prompt in a running turn: %+v", f)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Open(cancelled, agent.Open{Dirs: []string{"/"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("open with a cancelled context: %v", err)
	}
}

// BenchmarkFrames is the throughput of one conversation, flat out.
func BenchmarkFrames(b *testing.B) {
	backend, _ := across(b, demo.New())
	c := open(b, backend)
	b.ReportAllocs()
	for left := b.N; left > 0; {
		n := min(left, 1_000_000)
		left -= n
		if err := c.Prompt(b.Context(), agent.Prompt{Turn: "t", Text: "stream " + strconv.Itoa(n) + " 16"}); err != nil {
			b.Fatal(err)
		}
		drain(b, c)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "frames/s")
}

// BenchmarkLatency is the time from a prompt to the end of its short turn, 100
// turns a second: the boundary is crossed once each way.
func BenchmarkLatency(b *testing.B) {
	for name, wrap := range map[string]func(agent.Backend) agent.Backend{
		"in process": func(x agent.Backend) agent.Backend { return x },
		"across":     func(x agent.Backend) agent.Backend { c, _ := across(b, x); return c },
	} {
		b.Run(name, func(b *testing.B) {
			c := open(b, wrap(demo.New()))
			took := make([]time.Duration, 0, b.N)
			for range b.N {
				time.Sleep(10 * time.Millisecond)
				begin := time.Now()
				if err := c.Prompt(b.Context(), agent.Prompt{Turn: "t", Text: "usage 1 1"}); err != nil {
					b.Fatal(err)
				}
				drain(b, c)
				took = append(took, time.Since(begin))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
		})
	}
}
