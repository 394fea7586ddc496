package cognitio

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
)

// A client that goes on reading gets all of a burst that is far more than is
// kept for a client otherwise. It only counts: one that checks every event is
// too slow for a burst when the machine is busy.
func TestReaderIsNotCutOffByABurst(t *testing.T) {
	t.Parallel()
	const deltas = 50_000
	g := newGateway(t)
	session := g.session()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", g.url+"/event", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(userName, g.f.password)
	res, err := g.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	in := bufio.NewReader(res.Body)
	if line, err := in.ReadString('\n'); err != nil || !strings.Contains(line, "server.connected") {
		t.Fatalf("the stream begins with %q, %v", line, err)
	}
	g.prompt(session, "stream 50000 4")
	for got := 0; ; {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatalf("after %d deltas of %d: %v", got, deltas, err)
		}
		if strings.Contains(line, `"message.part.delta"`) {
			got++
		}
		if strings.Contains(line, `"session.idle"`) {
			if got != deltas {
				t.Errorf("%d deltas, want %d", got, deltas)
			}
			return
		}
	}
}
