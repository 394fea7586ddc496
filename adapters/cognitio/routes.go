package cognitio

import (
	"context"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
)

// operation is one row of the surface: what the protocol's document names and
// what this front does for it.
type operation struct {
	id, method, path string
	// serve answers and is done within requestTimeout.
	serve func(*call) (any, error)
	// stream holds the connection: no timeout, no compression, no body limit
	// but its own.
	stream func(*server, http.ResponseWriter, *http.Request)
	// Neither: the operation answers 501.
}

// router puts the surface behind the door. Requests and streams are two
// sub-routers, because what bounds the first would cut the second.
func (f *server) router() http.Handler {
	r := chi.NewRouter()
	r.Use(f.door, f.recoverer)
	r.NotFound(func(w http.ResponseWriter, r *http.Request) {
		f.writeError(w, notFound("No such path: %s %.200s", r.Method, r.URL.Path))
	})
	r.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) {
		f.writeError(w, &apiError{status: http.StatusMethodNotAllowed, name: "MethodNotAllowedError", message: r.Method + " is not allowed here"})
	})
	r.Group(func(r chi.Router) {
		r.Use(bounded, middleware.Compress(compressLevel, "application/json"))
		for i := range surface {
			if op := &surface[i]; op.stream == nil {
				r.Method(op.method, op.path, f.request(op))
				if op.method == http.MethodGet {
					r.Method(http.MethodHead, op.path, f.request(op))
				}
			}
		}
	})
	r.Group(func(r chi.Router) {
		for i := range surface {
			if op := &surface[i]; op.stream != nil {
				r.Method(op.method, op.path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { op.stream(f, w, r) }))
			}
		}
	})
	return r
}

// bounded gives a request its time and its largest body.
func bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		defer cancel()
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		// Each request sets it anew, so it never outlives its own on a
		// connection that is used again.
		takeBy(w, requestTimeout+streamWrite)
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// takeBy gives the peer a time for what is written next. Not every writer has
// deadlines; those that have none fail by themselves.
func takeBy(w http.ResponseWriter, within time.Duration) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(within))
}

// recoverer keeps a fault in one request from the others.
func (f *server) recoverer(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p == http.ErrAbortHandler {
				panic(p)
			} else if p != nil {
				f.log.Error("request panicked", "method", r.Method, "path", r.URL.Path, "panic", p)
				f.writeError(w, &apiError{status: http.StatusInternalServerError, name: "UnknownError", message: "Unexpected server error. See the server's log."})
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// request is the handler of an operation that answers once.
func (f *server) request(op *operation) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if op.serve == nil {
			f.writeError(w, notServed("%s is not served here", op.id))
			return
		}
		v, err := op.serve(&call{r: r, w: w, f: f})
		if err != nil {
			f.writeError(w, answerFor(err, f.log, op.id))
			return
		}
		if _, none := v.(noContent); none {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		f.writeJSON(w, http.StatusOK, v)
	})
}
