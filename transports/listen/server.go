package listen

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// Server serves HTTP/1.1 and cleartext HTTP/2 on one listener until Shutdown.
// It has no write timeout, because streams live long: handlers set deadlines of
// their own. Upgraded connections count as running handlers.
type Server struct {
	http     *http.Server
	log      *slog.Logger
	draining context.Context // ends when Shutdown begins
	drain    context.CancelFunc
	served   chan struct{}
	serveErr error
	handlers sync.WaitGroup
	running  atomic.Int64 // handlers

	mu      sync.Mutex
	stopped bool
}

type serverKey struct{}

// Serve starts to serve handler on l, which it owns from now on.
func Serve(l net.Listener, handler http.Handler, logger *slog.Logger) *Server {
	if logger == nil {
		logger = slog.Default()
	}
	s := &Server{served: make(chan struct{}), log: logger}
	s.draining, s.drain = context.WithCancel(context.Background())
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	s.http = &http.Server{
		Handler:           s.track(handler),
		ReadHeaderTimeout: readHeaderTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		IdleTimeout:       idleTimeout,
		Protocols:         &protocols,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context {
			return context.WithValue(context.Background(), serverKey{}, s)
		},
	}
	go func() {
		defer close(s.served)
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.serveErr = err
			logger.Error("listener failed", "addr", l.Addr().String(), "err", err)
		}
	}()
	return s
}

// track counts running handlers, upgraded connections among them, and turns
// away what arrives after the end.
func (s *Server) track(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		if s.stopped {
			s.mu.Unlock()
			w.Header().Set("Connection", "close")
			http.Error(w, "shutting down", http.StatusServiceUnavailable)
			return
		}
		s.handlers.Add(1)
		s.mu.Unlock()
		defer s.handlers.Done()
		s.running.Add(1)
		defer s.running.Add(-1)
		next.ServeHTTP(w, r)
	})
}

// StreamContext is for what feeds a stream that goes on after its handler: it
// ends when the server begins to shut down, not with the request. Ordinary handlers
// use the request's own and may finish.
func StreamContext(r *http.Request) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	s, ok := ctx.Value(serverKey{}).(*Server)
	if !ok {
		return ctx, cancel
	}
	stop := context.AfterFunc(s.draining, cancel)
	return ctx, func() { stop(); cancel() }
}

// Detach lets the handler of an upgraded connection return while serve goes on,
// which frees the buffers that net/http keeps for a running handler: more than
// the connection itself needs. serve should not hold on to the request. Its
// context ends when the server begins to shut down, and Shutdown waits for it.
// A panic of serve is logged, like one of a handler. Under a server that is
// not ours serve runs right here.
func Detach(r *http.Request, serve func(ctx context.Context)) {
	s, ok := r.Context().Value(serverKey{}).(*Server)
	if !ok {
		serve(r.Context())
		return
	}
	s.handlers.Add(1) // the running handler keeps it above zero
	s.running.Add(1)
	go func() {
		defer s.handlers.Done()
		defer s.running.Add(-1)
		defer func() {
			if x := recover(); x != nil {
				s.log.Error("A connection's handler panicked", "panic", x, "stack", string(debug.Stack()))
			}
		}()
		serve(s.draining)
	}()
}

// Active is how many requests are being served: streams and upgraded
// connections among them, idle kept-alive ones not.
func (s *Server) Active() int { return int(s.running.Load()) }

// Failed is closed when the listener has ended, by Shutdown or by itself.
func (s *Server) Failed() <-chan struct{} { return s.served }

// Shutdown stops to accept, ends the streams, lets running requests finish
// until ctx ends and then cuts what is left, which it reports as an error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		<-s.served
		return s.serveErr
	}
	s.stopped = true
	s.drain()
	s.mu.Unlock()

	err := s.http.Shutdown(ctx)
	idle := make(chan struct{})
	go func() {
		s.handlers.Wait()
		close(idle)
	}()
	select {
	case <-idle:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	_ = s.http.Close()
	<-s.served
	if err != nil {
		return fmt.Errorf("listen: shutdown: %w", err)
	}
	return s.serveErr
}
