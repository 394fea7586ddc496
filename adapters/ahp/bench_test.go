package ahp

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/transports/fanout"
)

// reader is a client that costs little: it looks at the bytes of frames alone.
type reader struct {
	tb testing.TB
	ws *websocket.Conn
}

func (g *gateway) reader(clientID string) *reader {
	g.t.Helper()
	ws, _, err := websocket.DefaultDialer.Dial(g.url(), nil)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { ws.Close() })
	r := &reader{g.t, ws}
	r.call(0, "initialize", object{"channel": rootURI, "protocolVersions": []string{"1.0.0"}, "clientId": clientID})
	return r
}

// call sends a request and reads on to its answer.
func (r *reader) call(n int, method string, params object) []byte {
	r.tb.Helper()
	if err := r.ws.WriteJSON(object{"jsonrpc": "2.0", "id": n, "method": method, "params": params}); err != nil {
		r.tb.Fatal(err)
	}
	f := r.until(fmt.Sprintf(`"id":%d,`, n))
	if bytes.Contains(f, []byte(`"error":{`)) {
		r.tb.Fatalf("%s: %.300s", method, f)
	}
	return f
}

// until reads on to a frame that has a text in it.
func (r *reader) until(text string) []byte {
	r.tb.Helper()
	for {
		_, data, err := r.ws.ReadMessage()
		if err != nil {
			r.tb.Fatalf("before %s: %v", text, err)
		}
		if bytes.Contains(data, []byte(text)) {
			return data
		}
	}
}

// BenchmarkList1000 is the whole list of a thousand sessions, asked for and
// read.
func BenchmarkList1000(b *testing.B) {
	g := newGateway(b)
	for i := range 1000 {
		if _, err := g.host.CreateSession(b.Context(), host.CreateSession{Backend: "demo", Dirs: []string{g.dir}, Title: fmt.Sprint("Session ", i)}); err != nil {
			b.Fatal(err)
		}
	}
	r := g.reader("r")
	for n := 1; b.Loop(); n++ {
		if f := r.call(n, "listSessions", object{"channel": rootURI}); bytes.Count(f, []byte(`"createdAt"`)) != 1000 {
			b.Fatalf("not all are listed: %.300s", f)
		}
	}
}

// BenchmarkSubscribe5000 is a subscription to a chat of five thousand turns,
// of which the snapshot has the newest fifty.
func BenchmarkSubscribe5000(b *testing.B) {
	g := newGateway(b)
	s, err := g.host.CreateSession(b.Context(), host.CreateSession{Backend: "demo", Dirs: []string{g.dir}})
	if err != nil {
		b.Fatal(err)
	}
	for i := range 5000 {
		p, err := s.Prompt(b.Context(), host.Prompt{Text: fmt.Sprintf("think hm\nsay this is answer %d", i), By: event.Actor{Front: "bench"}})
		if err == nil {
			_, err = s.WaitTurn(b.Context(), s.State().Default, p.Turn)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	chat := speller{sessionURI(&s.State().Info)}.chat(s.State().Default, s.State().Default, nil)
	r := g.reader("r")
	for n := 1; b.Loop(); n++ {
		if f := r.call(n, "subscribe", object{"channel": chat}); bytes.Count(f, []byte(`"responseParts"`)) != snapshotTurns {
			b.Fatalf("not the newest turns: %.300s", f)
		}
	}
}

// BenchmarkDeltaTo50 is a delta to fifty clients that watch one chat.
func BenchmarkDeltaTo50(b *testing.B) {
	const clients = 50
	g := newGateway(b)
	counts := &fanout.Counts{}
	g.front.journal.counts = counts
	s, err := g.host.CreateSession(b.Context(), host.CreateSession{Backend: "demo", Dirs: []string{g.dir}})
	if err != nil {
		b.Fatal(err)
	}
	chat := speller{sessionURI(&s.State().Info)}.chat(s.State().Default, s.State().Default, nil)
	var readers []*reader
	for i := range clients {
		r := g.reader(fmt.Sprint("r", i))
		r.call(1, "subscribe", object{"channel": chat})
		readers = append(readers, r)
	}
	before, sent := counts.Read()
	if _, err := s.Prompt(b.Context(), host.Prompt{Text: fmt.Sprintf("stream %d 16", b.N), By: event.Actor{Front: "bench"}}); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	ended := make(chan struct{})
	for _, r := range readers {
		go func() {
			r.until(`"chat/turnComplete"`)
			ended <- struct{}{}
		}()
	}
	for range readers {
		<-ended
	}
	b.StopTimer()
	after, got := counts.Read()
	b.ReportMetric(float64(after-before)/float64(b.N), "encoded/op")
	b.ReportMetric(float64(got-sent)/float64(b.N), "delivered/op")
}
