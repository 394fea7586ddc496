package console_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/polyhost/polyhost/adapters/console"
	"github.com/polyhost/polyhost/adapters/front"
	"github.com/polyhost/polyhost/backends/demo"
	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var operator = event.Actor{Front: "test", Client: "t"}

// open is a console over a host with the demo agent, behind wrap.
func open(t *testing.T, wrap func(http.Handler) http.Handler) (*host.Host, *console.Client) {
	t.Helper()
	agent := demo.New()
	h, err := host.Open(t.Context(), host.Options{Store: memstore.New(), DefaultDir: t.TempDir(),
		Backends: []host.NamedBackend{{Name: "demo", Backend: agent}}, Grace: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	c, err := console.New(console.Deps{Deps: front.Deps{Host: h, Home: t.TempDir(), Log: slog.New(slog.DiscardHandler)},
		Started: time.Now(), Fronts: func() []console.FrontStatus { return nil }, Processes: func() []int { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(wrap(c.Listeners()[0].Handler))
	at, err := c.Bound(map[string]string{"": strings.TrimPrefix(srv.URL, "http://")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		srv.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := h.Close(ctx); err != nil {
			t.Error(err)
		}
		_ = agent.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	return h, console.NewClient(at.(console.Endpoint))
}

// turn runs one turn in a new session.
func turn(t *testing.T, h *host.Host, text string) *host.Session {
	t.Helper()
	s, err := h.CreateSession(t.Context(), host.CreateSession{By: operator})
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Prompt(t.Context(), host.Prompt{Text: text, By: operator})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.WaitTurn(t.Context(), s.State().Default, p.Turn); err != nil {
		t.Fatal(err)
	}
	return s
}

// cutAfter cuts every answer in the middle of the stream, after so many writes.
func cutAfter(writes int, requests *atomic.Int32) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			next.ServeHTTP(&cutting{ResponseWriter: w, left: writes}, r)
		})
	}
}

type cutting struct {
	http.ResponseWriter
	left int
}

func (c *cutting) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// Hijack keeps the stream where its writes are counted.
func (c *cutting) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, http.ErrNotSupported
}

func (c *cutting) Write(b []byte) (int, error) {
	if c.left--; c.left < 0 {
		panic(http.ErrAbortHandler)
	}
	return c.ResponseWriter.Write(b[:min(len(b), 2000)])
}

var errEnough = errors.New("enough")

func TestATailThatIsCutGoesOnAfterTheLastEvent(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	h, client := open(t, cutAfter(2, &requests))
	s := turn(t, h, "stream 30 20")
	last := s.State().Seq
	var seen uint64
	err := client.Tail(t.Context(), s.ID().String(), 0, true, func(e *event.Event, _ []byte) error {
		if seen++; e.Seq != seen {
			return fmt.Errorf("event %d came as number %d", e.Seq, seen)
		}
		if seen == last {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		t.Fatal(err)
	}
	if n := requests.Load(); n < 3 {
		t.Errorf("the stream came in %d answers, so nothing was cut", n)
	}
}

func TestATailOfWhatIsNotThereEnds(t *testing.T) {
	t.Parallel()
	h, client := open(t, func(next http.Handler) http.Handler { return next })
	s := turn(t, h, "say hello")
	none := func(*event.Event, []byte) error { return nil }
	for session, want := range map[string]int{"0190e0a0-0000-7000-8000-000000000000": 404, "../status": 400} {
		var refused *console.AnswerError
		if err := client.Tail(t.Context(), session, 0, true, none); !errors.As(err, &refused) || refused.Code != want {
			t.Errorf("%s: %v", session, err)
		}
	}
	var refused *console.AnswerError
	if err := client.Tail(t.Context(), s.ID().String(), 1_000_000, true, none); !errors.As(err, &refused) || refused.Code != 400 {
		t.Errorf("an event that is not there yet: %v", err)
	}
	if err := client.Tail(t.Context(), s.ID().String(), s.State().Seq, false, none); err != nil {
		t.Errorf("nothing new: %v", err)
	}
}

func TestALargeEventArrivesWhole(t *testing.T) {
	t.Parallel()
	h, client := open(t, func(next http.Handler) http.Handler { return next })
	s := turn(t, h, "stream 20 50000")
	var largest int
	err := client.Tail(t.Context(), s.ID().String(), 0, false, func(_ *event.Event, raw []byte) error {
		largest = max(largest, len(raw))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if largest < 1_000_000 {
		t.Errorf("the largest event has %d bytes", largest)
	}
}

func TestTheGatewaySaysWhatMemoryItHolds(t *testing.T) {
	t.Parallel()
	_, c := open(t, func(h http.Handler) http.Handler { return h })
	m, err := c.Memory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if m.Objects == 0 || m.Stacks == 0 || m.Goroutines == 0 || m.Total < m.Objects+m.Stacks {
		t.Errorf("the memory: %+v", m)
	}
}
