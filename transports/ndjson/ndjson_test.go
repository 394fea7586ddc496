package ndjson

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"go.uber.org/goleak"

	"github.com/polyhost/polyhost/transports/outbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHeadersComeBeforeAnyObjectAndLinesAsTheyAreMade(t *testing.T) {
	t.Parallel()
	over := errors.New("over")
	out := outbox.New(0)
	end := make(chan error, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		Serve(w, r, Options{}, out, func(err error) { end <- err })
	}))
	defer srv.Close()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Post(srv.URL, "application/json", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if ct := res.Header.Get("Content-Type"); res.StatusCode != 200 || ct != "application/x-ndjson" {
		t.Fatalf("%d %q", res.StatusCode, ct)
	}
	body := bufio.NewReader(res.Body)
	for i := range 3 {
		_ = out.Push(Line(fmt.Appendf(nil, `{"n":%d}`, i)))
		if line, err := body.ReadString('\n'); err != nil || line != fmt.Sprintf("{\"n\":%d}\n", i) {
			t.Fatalf("%q, %v", line, err)
		}
	}
	_ = out.Push(Line([]byte(`{"last":true}`)))
	out.Close(over)
	if rest, err := io.ReadAll(body); err != nil || string(rest) != "{\"last\":true}\n" {
		t.Fatalf("%q, %v", rest, err)
	}
	if err := <-end; !errors.Is(err, over) {
		t.Fatal(err)
	}
}
