package sse

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	naive "github.com/r3labs/sse/v2"
	"go.uber.org/goleak"

	"github.com/polyhost/polyhost/transports/outbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 3 * time.Minute

var errOver = errors.New("over")

// hub serves every request a stream of its own and hands its outbox to the test.
func hub(t testing.TB, o Options, limit int) (srv *httptest.Server, streams chan *outbox.Outbox, ends chan error) {
	t.Helper()
	streams, ends = make(chan *outbox.Outbox, 200), make(chan error, 200)
	srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := outbox.New(limit)
		streams <- out
		Serve(w, r, o, out, func(err error) { ends <- err })
	}))
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return srv, streams, ends
}

func get(t testing.TB, url string) *http.Response {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ctx, cancel := context.WithCancel(context.Background())
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	res, err := client.Do(r)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); res.Body.Close() })
	return res
}

func TestHeadersAndFirstByteComeAtOnce(t *testing.T) {
	t.Parallel()
	srv, _, _ := hub(t, Options{}, 0)
	res := get(t, srv.URL)
	for k, want := range map[string]string{
		"Content-Type": "text/event-stream", "Cache-Control": "no-cache, no-transform",
		"X-Accel-Buffering": "no", "X-Content-Type-Options": "nosniff",
	} {
		if got := res.Header.Get(k); got != want {
			t.Errorf("%s: %q", k, got)
		}
	}
	if line, err := bufio.NewReader(res.Body).ReadString('\n'); err != nil || line[0] != ':' {
		t.Fatalf("%q, %v", line, err)
	}
}

func TestAnOpeningEventComesBeforeAllOthers(t *testing.T) {
	t.Parallel()
	srv, streams, _ := hub(t, Options{Opening: Data([]byte("first"))}, 0)
	res := get(t, srv.URL)
	if err := (<-streams).Push(Data([]byte("second"))); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, len("data: first\n\ndata: second\n\n"))
	if _, err := io.ReadFull(res.Body, body); err != nil || string(body) != "data: first\n\ndata: second\n\n" {
		t.Fatalf("%q, %v", body, err)
	}
}

func TestPayloadArrivesAsItWasAtANaiveClient(t *testing.T) {
	t.Parallel()
	srv, streams, _ := hub(t, Options{HeartbeatEvery: 5 * time.Millisecond}, 0)
	payloads := []string{
		`{"a":1}`, ": not a comment", " leading space", "data: x", "line\u2028separator", strings.Repeat("long ", 40_000), "last",
	}
	client := naive.NewClient(srv.URL, naive.ClientMaxBufferSize(1<<20))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := make(chan string, len(payloads))
	done := make(chan error, 1)
	go func() {
		done <- client.SubscribeRawWithContext(ctx, func(e *naive.Event) {
			if len(e.Data) > 0 {
				got <- string(e.Data)
			}
		})
	}()
	out := <-streams
	for i, p := range payloads {
		if err := out.Push(DataID([]byte(p), fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range payloads {
		select {
		case g := <-got:
			if g != want {
				t.Fatalf("got %.40q, want %.40q", g, want)
			}
		case <-time.After(patience):
			t.Fatalf("%.40q never came", want)
		}
	}
	cancel()
	<-done
	client.Connection.CloseIdleConnections()
}

func TestLineBreaksCannotForgeFields(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]string{
		"":                    "data: \n\n",
		"a\nid: 9":            "data: a\ndata: id: 9\n\n",
		"a\revent: x\r\n\r\n": "data: a\ndata: event: x\ndata: \ndata: \n\n",
	} {
		if got := string(Data([]byte(payload))); got != want {
			t.Errorf("%q: got %q, want %q", payload, got, want)
		}
	}
	if got := string(DataID([]byte("x"), "7\ndata: forged")); got != "data: x\n\n" {
		t.Errorf("id with a line break: %q", got)
	}
	if got := string(DataID([]byte("x"), "7")); got != "id: 7\ndata: x\n\n" {
		t.Errorf("id: %q", got)
	}
}

func TestCloseSendsTheRestAndEndsTheBody(t *testing.T) {
	t.Parallel()
	srv, streams, ends := hub(t, Options{}, 0)
	res := get(t, srv.URL)
	out := <-streams
	for range 1000 {
		_ = out.Push(Data([]byte("x")))
	}
	out.Close(errOver)
	body, err := io.ReadAll(res.Body)
	if err != nil || bytes.Count(body, []byte("data: x\n\n")) != 1000 {
		t.Fatalf("%d bytes, %v", len(body), err)
	}
	if err := <-ends; !errors.Is(err, errOver) {
		t.Fatalf("end: %v", err)
	}
}

func TestHeartbeatIsTheFrontsOwnEvent(t *testing.T) {
	t.Parallel()
	srv, _, _ := hub(t, Options{HeartbeatEvery: time.Millisecond, Heartbeat: Data([]byte("beat"))}, 0)
	lines := bufio.NewScanner(get(t, srv.URL).Body)
	for beats := 0; beats < 3 && lines.Scan(); {
		if lines.Text() == "data: beat" {
			beats++
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}

func TestStalledReaderIsCutAndOthersGoOn(t *testing.T) {
	t.Parallel()
	const limit = 200_000
	srv, streams, ends := hub(t, Options{WriteTimeout: 2 * time.Second}, limit)
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	stalled := <-streams
	healthy := get(t, srv.URL)
	out := <-streams
	received := make(chan int64, 1)
	go func() {
		n, _ := io.Copy(io.Discard, healthy.Body)
		received <- n
	}()
	event := Data(bytes.Repeat([]byte("x"), 16<<10))
	var sent int64
	var end error
	for end == nil {
		// The stalled one is allowed to be full; the healthy one is fed at its pace.
		_ = stalled.Push(event)
		if n := stalled.Len(); n > limit {
			t.Fatalf("%d bytes are held", n)
		}
		if err := out.WaitBelow(t.Context(), limit/2); err != nil {
			t.Fatal(err)
		}
		if err := out.Push(event); err != nil {
			t.Fatal(err)
		}
		sent += int64(len(event))
		select {
		case end = <-ends:
		case <-time.After(time.Millisecond):
		}
	}
	out.Close(errOver)
	if n := <-received; n < sent {
		t.Fatalf("the healthy one got %d of %d bytes", n, sent)
	}
	var ne net.Error
	if !errors.As(end, &ne) || !ne.Timeout() {
		t.Fatalf("the stalled one ended with %v", end)
	}
}

func TestGoneClientEndsTheStream(t *testing.T) {
	t.Parallel()
	srv, streams, ends := hub(t, Options{}, 0)
	res := get(t, srv.URL)
	out := <-streams
	res.Body.Close()
	if err := <-ends; err == nil {
		t.Fatal("no reason")
	}
	if err := out.Push(Data(nil)); !errors.Is(err, outbox.ErrClosed) {
		t.Fatalf("push to a gone client: %v", err)
	}
}

// FuzzData decodes what was encoded with the rules of the HTML standard.
func FuzzData(f *testing.F) {
	f.Add([]byte("a\r\nb\rc\n"), "1")
	f.Add([]byte(": x"), "\x00")
	f.Fuzz(func(t *testing.T, payload []byte, id string) {
		frame := string(DataID(payload, id))
		if !strings.HasSuffix(frame, "\n\n") || strings.Contains(frame, "\r") && !strings.Contains(id, "\r") {
			t.Fatalf("%q", frame)
		}
		var data []string
		for line := range strings.SplitSeq(strings.TrimSuffix(frame, "\n\n"), "\n") {
			if v, ok := strings.CutPrefix(line, "data: "); ok {
				data = append(data, v)
			} else if line != "id: "+id {
				t.Fatalf("forged line %q", line)
			}
		}
		want := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(payload))
		if got := strings.Join(data, "\n"); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}
