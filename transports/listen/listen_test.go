package listen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T) net.Listener {
	t.Helper()
	l, err := Open(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func TestTakenPortIsNamedWithItsHolder(t *testing.T) {
	t.Parallel()
	port := open(t).Addr().(*net.TCPAddr).Port
	_, err := Open(t.Context(), Options{Port: port})
	var taken *PortTakenError
	if !errors.As(err, &taken) || !strings.Contains(err.Error(), fmt.Sprintf(":%d is taken", port)) {
		t.Fatalf("got %v", err)
	}
	if _, statErr := os.Stat("/proc/net/tcp"); statErr == nil && !strings.Contains(err.Error(), fmt.Sprintf("pid %d", os.Getpid())) {
		t.Fatalf("the holder is not named: %v", err)
	}
}

func TestRemoteBindMustBeAsked(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"0.0.0.0", "::", "192.0.2.1", "example.org", "localhost.example.org"} {
		if _, err := Open(t.Context(), Options{Host: host}); !errors.Is(err, ErrNotLoopback) {
			t.Errorf("%s: %v", host, err)
		}
	}
	l, err := Open(t.Context(), Options{Host: "0.0.0.0", AllowRemote: true})
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

func TestPort(t *testing.T) {
	t.Parallel()
	if p, err := Port(0, 4); p != 0 || err != nil {
		t.Fatal(p, err)
	}
	if p, err := Port(4100, 4); p != 4104 || err != nil {
		t.Fatal(p, err)
	}
	if _, err := Port(65533, 4); err == nil {
		t.Fatal("port out of range accepted")
	}
}

func TestShutdownEndsStreamsAndLetsRequestsFinish(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	running := make(chan struct{}, 2)
	l := open(t)
	s := Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		running <- struct{}{}
		if r.URL.Path == "/stream" {
			ctx, cancel := StreamContext(r)
			defer cancel()
			<-ctx.Done()
			_, _ = io.WriteString(w, "stream told to stop")
			return
		}
		<-release
		_, _ = io.WriteString(w, "finished, "+fmt.Sprint(r.Context().Err()))
	}), nil)
	answers := make(chan string, 2)
	get := func(path string) {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		res, err := client.Get("http://" + l.Addr().String() + path)
		if err != nil {
			answers <- err.Error()
			return
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		answers <- string(b)
	}
	go get("/stream")
	go get("/request")
	<-running
	<-running
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		done <- s.Shutdown(ctx)
	}()
	if a := <-answers; a != "stream told to stop" {
		t.Fatalf("first answer: %s", a)
	}
	close(release)
	if a := <-answers; a != "finished, <nil>" {
		t.Fatalf("second answer: %s", a)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestDetachedWorkOutlivesItsHandlerAndIsWaitedFor(t *testing.T) {
	t.Parallel()
	told, finished := make(chan struct{}), make(chan struct{})
	l := open(t)
	s := Serve(l, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		Detach(r, func(ctx context.Context) {
			<-ctx.Done()
			close(told)
			time.Sleep(10 * time.Millisecond) // some last words
			close(finished)
		})
	}), nil)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get("http://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	select {
	case <-told:
		t.Fatal("told to stop when the handler returned")
	default:
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-finished:
	default:
		t.Fatal("Shutdown did not wait")
	}
}

func TestShutdownCutsWhatDoesNotFinish(t *testing.T) {
	t.Parallel()
	running := make(chan struct{})
	l := open(t)
	s := Serve(l, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(running)
		<-r.Context().Done()
	}), nil)
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	<-running
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	_ = c.SetReadDeadline(time.Now().Add(60 * time.Second))
	if _, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("the connection was not cut")
	}
}

func TestHugeHeadersAreRefused(t *testing.T) {
	t.Parallel()
	l := open(t)
	s := Serve(l, http.NotFoundHandler(), nil)
	defer func() { _ = s.Shutdown(context.Background()) }()
	r, _ := http.NewRequest(http.MethodGet, "http://"+l.Addr().String(), nil)
	r.Header.Set("X-Big", strings.Repeat("x", 2*maxHeaderBytes))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(r)
	if err != nil {
		return // cut while still sending is as good
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Fatalf("status %d", res.StatusCode)
	}
}

func TestActiveCountsWhatIsBeingServed(t *testing.T) {
	t.Parallel()
	running, release := make(chan struct{}), make(chan struct{})
	l := open(t)
	s := Serve(l, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/detached" {
			Detach(r, func(ctx context.Context) { running <- struct{}{}; <-ctx.Done() })
			return
		}
		running <- struct{}{}
		<-release
	}), nil)
	get := func(path string) {
		res, err := http.Get("http://" + l.Addr().String() + path)
		if err == nil {
			_ = res.Body.Close()
		}
	}
	go get("/detached")
	<-running
	go get("/request")
	<-running
	// The handler that detached may not have returned yet.
	for deadline := time.Now().Add(60 * time.Second); s.Active() != 2; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d active, want 2", s.Active())
		}
	}
	close(release)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	if n := s.Active(); n != 0 {
		t.Errorf("%d active after the end", n)
	}
}
