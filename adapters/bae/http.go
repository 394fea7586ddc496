package bae

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/polyhost/polyhost/adapters/front"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/transports/guard"
)

// clientRoutes is the client listener.
func (f *Front) clientRoutes() http.Handler {
	r := f.router()
	r.Get("/healthz", func(w http.ResponseWriter, r *http.Request) {
		if err := f.deps.Host.Health(r.Context()); err != nil {
			f.writeError(w, refuse("unavailable", "%s", err))
			return
		}
		w.WriteHeader(http.StatusOK)
	})
	r.Get("/api/v1/meta", f.meta)
	r.Post("/api/v1/sessions", f.open)
	r.Delete("/api/v1/sessions/{id}", f.closeSession)
	r.Post("/api/v1/sessions/{id}/join", f.join)
	r.Post("/api/v1/sessions/{id}/rpc", f.rpc)
	r.Get("/api/v1/sessions/{id}/events", f.events)
	r.Get("/api/v1/sessions/{id}/participants", f.participants)
	return r
}

// router is what both listeners have in common: the door, and problems for
// what is not there.
func (f *Front) router() chi.Router {
	door := guard.All(guard.Hosts(f.deps.Hosts...), guard.Origins(f.deps.Origins...))
	r := chi.NewRouter()
	r.Use(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if refusal := door.Check(r); refusal != nil {
				front.LogRefusal(f.log, r, refusal)
				f.writeError(w, refuse("forbidden", "%s", refusal))
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	r.NotFound(func(w http.ResponseWriter, _ *http.Request) { f.writeError(w, refuse("not_found", "no such route")) })
	r.MethodNotAllowed(func(w http.ResponseWriter, _ *http.Request) {
		f.writeError(w, refuse("method_not_allowed", "the route does not have this method"))
	})
	return r
}

// writeJSON answers with a JSON body.
func writeJSON(w http.ResponseWriter, status int, v any) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(mustJSON(v)) // the peer may have gone
}

// writeError answers with a problem.
func (f *Front) writeError(w http.ResponseWriter, err error) {
	p := f.problemOf(err)
	writeJSON(w, p.Status, p)
}

// readBody reads a bounded request body.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return nil, refuse("payload_too_large", "the body is over %d bytes", maxBody)
	case err != nil:
		return nil, refuse("bad_request", "the body could not be read")
	}
	return body, nil
}

// bearer is the key of a request, "" for none.
func bearer(r *http.Request) string {
	header := r.Header.Get("Authorization")
	for _, scheme := range []string{"Bearer ", "bearer "} {
		if key, ok := strings.CutPrefix(header, scheme); ok {
			return key
		}
	}
	return ""
}

// client authenticates a client key.
func (f *Front) client(r *http.Request) (clientKey, error) {
	if key := bearer(r); key != "" {
		if k, ok := f.registry.authenticate(r.Context(), key, false); ok {
			return k, nil
		}
	}
	return clientKey{}, refuse("unauthorized", "missing, invalid or revoked client key")
}

// participant authenticates a session key for the session of the route.
func (f *Front) participant(r *http.Request) (clientKey, id.ID, error) {
	no := refuse("unauthorized", "missing, invalid or revoked session key")
	key := bearer(r)
	ses, err := id.ParseBAE("ses", chi.URLParam(r, "id"))
	if key == "" || err != nil {
		return clientKey{}, id.Nil, no
	}
	k, ok, err := f.registry.sessionClient(r.Context(), ses, key)
	if err != nil {
		return clientKey{}, id.Nil, err
	}
	if !ok {
		return clientKey{}, id.Nil, no
	}
	return k, ses, nil
}

func (f *Front) meta(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, struct {
		Version  string   `json:"version"`
		Versions []string `json:"api_versions"`
	}{f.deps.Version, []string{"v1"}})
}

func (f *Front) participants(w http.ResponseWriter, r *http.Request) {
	_, ses, err := f.participant(r)
	if err != nil {
		f.writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, struct {
		Drivers []string `json:"drivers"`
	}{f.driverKeys(ses)})
}

// page is a page of a list.
type page[T any] struct {
	Items []T     `json:"items"`
	Next  *string `json:"next_cursor"`
}

// paging reads the limit and cursor of a list request.
func paging(r *http.Request) (limit int, cursor string, err error) {
	q := r.URL.Query()
	limit = pageDefault
	if s := q.Get("limit"); s != "" {
		limit, err = strconv.Atoi(s)
		if errors.Is(err, strconv.ErrRange) && !strings.HasPrefix(s, "-") {
			limit, err = pageMax, nil
		}
		if err != nil || limit <= 0 {
			return 0, "", refuse("bad_request", "limit: want a number above 0")
		}
	}
	return min(limit, pageMax), q.Get("cursor"), nil
}

// pageOf cuts a page out of a list that is whole in memory; the cursor is the
// number of its first item.
func pageOf[T any](r *http.Request, all []T) (page[T], error) {
	limit, cursor, err := paging(r)
	if err != nil {
		return page[T]{}, err
	}
	from := 0
	if cursor != "" {
		if from, err = strconv.Atoi(cursor); err != nil || from < 0 || strconv.Itoa(from) != cursor {
			return page[T]{}, refuse("bad_request", "cursor: not one of this list")
		}
	}
	from = min(from, len(all))
	to := min(from+limit, len(all))
	p := page[T]{Items: append([]T{}, all[from:to]...)}
	if to < len(all) {
		p.Next = ptr(strconv.Itoa(to))
	}
	return p, nil
}

// events serves GET …/events.
func (f *Front) events(w http.ResponseWriter, r *http.Request) {
	_, ses, err := f.participant(r)
	if err != nil {
		f.writeError(w, err)
		return
	}
	f.writeEvents(w, r, ses)
}

func (f *Front) writeEvents(w http.ResponseWriter, r *http.Request, ses id.ID) {
	limit, cursor, err := paging(r)
	if err != nil {
		f.writeError(w, err)
		return
	}
	var after position
	if cursor != "" {
		var ok bool
		if after, ok = parseCursor(ses, cursor); !ok {
			f.writeError(w, refuse("bad_request", "cursor: not one of this session"))
			return
		}
	}
	room, err := f.room(r.Context(), ses)
	if err != nil {
		f.writeError(w, err)
		return
	}
	p := page[json.RawMessage]{Items: []json.RawMessage{}}
	defer f.release(room)
	var last position
	size := 0
	err = room.replay(r.Context(), after, room.session().State().Seq, func(e *entry) bool {
		switch {
		case e.kind == "":
		case len(p.Items) == limit || size >= pageBytes:
			p.Next = ptr(last.cursor(ses))
			return false
		default:
			p.Items, last = append(p.Items, e.raw), e.pos
			size += len(e.raw)
		}
		return true
	})
	if err != nil {
		f.writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, p)
}
