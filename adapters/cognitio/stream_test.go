package cognitio

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/transports/outbox"
)

func TestGlobalStreamWrapsEvents(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, "GET", g.url+"/global/event", nil)
	req.SetBasicAuth(userName, g.f.password)
	res, err := g.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	for k, want := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no",
		"X-Content-Type-Options": "nosniff", "Content-Encoding": ""} {
		if got := res.Header.Get(k); got != want {
			t.Errorf("%s: %q", k, got)
		}
	}
	in := bufio.NewReader(res.Body)
	line := func() string {
		s, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := line()
	if !strings.HasPrefix(first, `data: {"payload":{"id":"evt_`) || !strings.HasSuffix(first, `"type":"server.connected","properties":{}}}`+"\n") || line() != "\n" {
		t.Errorf("greeting: %q", first)
	}
	ses := g.session()
	second := line()
	if !strings.HasPrefix(second, `data: {"directory":"`+g.dir+`","project":"global","payload":{"id":"evt_`) || !strings.Contains(second, ses) {
		t.Errorf("event: %q", second)
	}
}

func TestDeltasAreJSONWhateverTheTextIs(t *testing.T) {
	t.Parallel()
	f := &server{ids: newEventIDs()}
	middle := deltaMiddle("ses_1", "msg_1", "prt_1")
	for _, text := range []string{"", "plain", "\"quoted\" \\ back", "line\nline\r\n\ttab", "\x00\x1f", "日本語 🙂", "\u2028\u2029", "bad \xff byte", "cut \xe6\x97", "</script>"} {
		frame := f.delta(middle, text)
		o := newOrigin("/w", "global", nil)
		for _, raw := range []outbox.Frame{frame, o.global(frame)} {
			body, ok := strings.CutPrefix(string(raw), "data: ")
			if !ok || strings.Count(body, "\n") != 2 || !strings.HasSuffix(body, "\n\n") {
				t.Fatalf("frame: %q", raw)
			}
		}
		var plain map[string]any
		if err := decode(frame[len(frameHead):], &plain); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if got := plain["properties"].(map[string]any)["delta"]; got != string([]rune(text)) {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestAStalledStreamHoldsUpNobodyAndIsCutOff(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.f.streams.patience = 5 * time.Second
	u, _ := url.Parse(g.url)
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.(*net.TCPConn).SetReadBuffer(4096)
	req, _ := http.NewRequest("GET", g.url+"/event", nil)
	req.SetBasicAuth(userName, g.f.password)
	if err := req.Write(conn); err != nil {
		t.Fatal(err)
	}
	head := make([]byte, len("HTTP/1.1 200 OK"))
	if _, err := io.ReadFull(conn, head); err != nil || string(head) != "HTTP/1.1 200 OK" {
		t.Fatalf("%q, %v", head, err)
	}
	ses := g.session()
	other := g.request("GET", "/event", nil)
	// More than the sockets hold for one client.
	g.prompt(ses, strings.Repeat("stream 10 60000 1\n", 9))
	deltas, in := 0, bufio.NewReaderSize(other.Body, 64<<10)
	for {
		// Only the beginning of a line is looked at: it says what it is.
		line, err := in.ReadSlice('\n')
		if bytes.Contains(line, []byte(`"type":"message.part.delta"`)) {
			deltas++
		}
		if bytes.Contains(line, []byte(`"type":"session.idle"`)) {
			break
		}
		if err != nil && err != bufio.ErrBufferFull {
			t.Fatalf("after %d deltas: %v", deltas, err)
		}
	}
	if deltas != 90 {
		t.Errorf("the other client got %d deltas", deltas)
	}
	until(t, "the stalled stream is cut off", func() bool {
		g.f.streams.mu.Lock()
		defer g.f.streams.mu.Unlock()
		return len(g.f.streams.open) == 1
	})
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not so: %s", what)
		}
	}
}

func TestManyQuickReconnectsLeaveNothing(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	ses := g.session()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			for n := range 50 {
				ctx, cancel := context.WithCancel(context.Background())
				path := []string{"/event", "/global/event", "/event?directory=/nonexistent"}[n%3]
				req, _ := http.NewRequestWithContext(ctx, "GET", g.url+path, nil)
				req.SetBasicAuth(userName, g.f.password)
				res, err := client.Do(req)
				if err != nil {
					t.Errorf("reconnect: %v", err)
					cancel()
					return
				}
				io.ReadFull(res.Body, make([]byte, 5))
				cancel()
				res.Body.Close()
			}
		})
	}
	for range 20 {
		g.must("POST", "/session/"+ses+"/message", say("stream 20 10"))
	}
	wg.Wait()
	until(t, "no stream is left", func() bool {
		g.f.streams.mu.Lock()
		defer g.f.streams.mu.Unlock()
		return len(g.f.streams.open) == 0 && len(g.f.streams.topics) == 0
	})
}

func TestDrainEndsStreamsAndTakesNoMore(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	events := g.listen("/event")
	g.f.Drain(g.ctx())
	select {
	case _, open := <-events.events:
		if open {
			t.Error("an event instead of the end")
		}
	case <-time.After(patience):
		t.Error("the stream goes on")
	}
	if res := g.request("GET", "/event", nil); res.StatusCode != 503 {
		t.Errorf("a new stream: %d", res.StatusCode)
	}
}

func TestDerivedIdsAreValidAndOrdered(t *testing.T) {
	t.Parallel()
	turn := id.New()
	ms := millis(turn.Time())
	first, step, end := derived(turn, ms, counterFirst).Cognitio("prt"), turn.Cognitio("prt"), derived(turn, ms, counterLast).Cognitio("prt")
	if first >= step || step >= end {
		t.Errorf("order: %s %s %s", first, step, end)
	}
	for _, s := range []string{first, step, end, nth(turn, 7).Cognitio("prt")} {
		if back, err := id.ParseCognitio("prt", s); err != nil || back.Cognitio("prt") != s {
			t.Errorf("%s: %v", s, err)
		}
	}
	seen := map[id.ID]bool{}
	for n := range 1000 {
		seen[nth(turn, n)] = true
	}
	if len(seen) != 1000 {
		t.Errorf("%d ids of 1000", len(seen))
	}
}

func BenchmarkDeltaToOneStream(b *testing.B) {
	f := &server{ids: newEventIDs(), streams: newStreams()}
	out := outbox.New(64 << 20)
	leave, _ := f.streams.listen(channel{}, out)
	defer leave()
	o := newOrigin("/home/user/project", "global", []string{"/home/user/project"})
	turn, part := id.New(), id.New()
	lp := &livePart{middle: deltaMiddle(sessionID(turn), turn.Cognitio("msg"), part.Cognitio("prt"))}
	p := &projection{f: f, from: o, chats: map[id.ID]*liveChat{turn: {turn: &liveTurn{parts: map[id.ID]*livePart{part: lp}}}}}
	e := &event.Event{Chat: turn, Turn: turn, Body: &event.PartDelta{Part: part, Text: "some words of text "}}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		p.Deltas([]*event.Event{e}, nil)
		if n%256 == 0 {
			out.Take()
		}
	}
}
