package bae

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
)

// adminRoutes is the admin listener.
func (f *Front) adminRoutes() http.Handler {
	r := f.router()
	r.Route("/admin/v1", func(r chi.Router) {
		r.Use(f.adminOnly)
		r.Post("/profiles", f.createProfile)
		r.Get("/profiles", f.listProfiles)
		r.Get("/profiles/{id}", f.getProfile)
		r.Put("/profiles/{id}", f.putProfile)
		r.Delete("/profiles/{id}", f.deleteProfile)
		r.Post("/keys", f.createKey)
		r.Get("/keys", f.listKeys)
		r.Delete("/keys/{id}", f.deleteKey)
		r.Get("/sessions", f.listSessions)
		r.Get("/sessions/{id}/events", f.adminEvents)
		r.Get("/mcp-servers", f.mcpServers)
		r.Get("/providers", f.providers)
		r.Get("/sandbox-status", f.sandboxStatus)
		r.Get("/config", f.config)
	})
	return r
}

func (f *Front) adminOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := bearer(r)
		if key != "" {
			if _, ok := f.registry.authenticate(r.Context(), key, true); ok {
				next.ServeHTTP(w, r)
				return
			}
		}
		f.writeError(w, refuse("unauthorized", "missing or invalid admin key"))
	})
}

// profileBody is what an administrator writes.
type profileBody struct {
	Name      string   `json:"name" jsonx:"required"`
	Primary   string   `json:"primary_provider" jsonx:"required"`
	Fallbacks []string `json:"fallback_providers"`
	MCP       []string `json:"mcp_servers"`
	Allowed   []string `json:"allowed_tools"`
	Sandboxes []string `json:"available_sandboxes"`
	Timeout   *int     `json:"permission_timeout"`
	Default   *string  `json:"permission_default"`
}

// profileView is what an administrator sees.
type profileView struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Primary   string   `json:"primary_provider"`
	Fallbacks []string `json:"fallback_providers"`
	MCP       []string `json:"mcp_servers"`
	Allowed   []string `json:"allowed_tools"`
	Sandboxes []string `json:"available_sandboxes"`
	Timeout   int      `json:"permission_timeout"`
	Default   string   `json:"permission_default"`
	CreatedAt string   `json:"created_at"`
	UpdatedAt string   `json:"updated_at"`
}

// The permission defaults of a profile.
const (
	defaultDeny  = "deny"
	defaultAllow = "allow"
)

func viewOf(p profile) profileView {
	v := profileView{p.ID, p.Name, p.Primary, list(p.Fallbacks), list(p.MCP), list(p.Allowed), list(p.Sandboxes),
		int(p.timeout() / time.Second), defaultDeny, stamp(p.CreatedAt), stamp(p.UpdatedAt)}
	if p.Allow {
		v.Default = defaultAllow
	}
	return v
}

// adminBody reads the JSON object of an admin request.
func adminBody(w http.ResponseWriter, r *http.Request, v any) error {
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	if err = check(body); err == nil && !isObject(body) {
		err = errors.New("want an object")
	}
	if err == nil {
		err = decode(body, v)
	}
	if err != nil {
		return refuse("bad_request", "body: %s", err)
	}
	return nil
}

func (b *profileBody) into(p *profile) error {
	for _, field := range []struct{ name, value string }{{"name", b.Name}, {"primary_provider", b.Primary}} {
		if strings.TrimSpace(field.value) == "" || len(field.value) > maxName {
			return refuse("bad_request", "body: %s: want 1 to %d bytes, not blank", field.name, maxName)
		}
	}
	for _, l := range [][]string{b.Fallbacks, b.MCP, b.Allowed, b.Sandboxes} {
		if len(l) > maxTools {
			return refuse("bad_request", "body: a list is longer than %d", maxTools)
		}
	}
	p.Name, p.Primary, p.Fallbacks, p.MCP, p.Allowed, p.Sandboxes = b.Name, b.Primary, b.Fallbacks, b.MCP, b.Allowed, b.Sandboxes
	p.Timeout, p.Allow = permissionTimeout, false
	if b.Timeout != nil {
		if *b.Timeout <= 0 || *b.Timeout > maxPermissionTimeout {
			return refuse("bad_request", "body: permission_timeout: want 1 to %d seconds", maxPermissionTimeout)
		}
		p.Timeout = *b.Timeout
	}
	if b.Default != nil {
		if *b.Default != defaultDeny && *b.Default != defaultAllow {
			return refuse("bad_request", "body: permission_default: want %s or %s", defaultDeny, defaultAllow)
		}
		p.Allow = *b.Default == defaultAllow
	}
	return nil
}

// registryError turns an error of the registry into a problem.
func registryError(err error) error {
	switch {
	case errors.Is(err, errNameTaken):
		return refuse("duplicate_name", "another profile has that name")
	case errors.Is(err, errKeyInUse):
		return refuse("profile_in_use", "live client keys use the profile")
	case errors.Is(err, errUnknown):
		return refuse("not_found", "no such entry")
	}
	return err
}

func (f *Front) createProfile(w http.ResponseWriter, r *http.Request) {
	var b profileBody
	if err := adminBody(w, r, &b); err != nil {
		f.writeError(w, err)
		return
	}
	now := time.Now()
	p := profile{ID: id.New().BAE("pro"), CreatedAt: now, UpdatedAt: now}
	err := b.into(&p)
	if err == nil {
		err = registryError(f.registry.saveProfile(r.Context(), p))
	}
	if err != nil {
		f.writeError(w, err)
		return
	}
	writeJSON(w, http.StatusCreated, struct {
		ID        string `json:"id"`
		Name      string `json:"name"`
		CreatedAt string `json:"created_at"`
	}{p.ID, p.Name, stamp(p.CreatedAt)})
}

func (f *Front) listProfiles(w http.ResponseWriter, r *http.Request) {
	var views []profileView
	for _, p := range f.registry.listProfiles() {
		views = append(views, viewOf(p))
	}
	writePage(f, w, r, views)
}

// writePage answers with a page of a list.
func writePage[T any](f *Front, w http.ResponseWriter, r *http.Request, all []T) {
	p, err := pageOf(r, all)
	if err != nil {
		f.writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, p)
}

func (f *Front) getProfile(w http.ResponseWriter, r *http.Request) {
	p, ok := f.registry.profile(chi.URLParam(r, "id"))
	if !ok {
		f.writeError(w, registryError(errUnknown))
		return
	}
	writeJSON(w, http.StatusOK, viewOf(p))
}

func (f *Front) putProfile(w http.ResponseWriter, r *http.Request) {
	p, ok := f.registry.profile(chi.URLParam(r, "id"))
	if !ok {
		f.writeError(w, registryError(errUnknown))
		return
	}
	var b profileBody
	err := adminBody(w, r, &b)
	if err == nil {
		err = b.into(&p)
	}
	if err == nil {
		p.UpdatedAt = time.Now()
		err = registryError(f.registry.saveProfile(r.Context(), p))
	}
	if err != nil {
		f.writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, viewOf(p))
}

func (f *Front) deleteProfile(w http.ResponseWriter, r *http.Request) {
	if err := f.registry.deleteProfile(r.Context(), chi.URLParam(r, "id")); err != nil {
		f.writeError(w, registryError(err))
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// keyView is what an administrator sees of a key.
type keyView struct {
	ID        string  `json:"id"`
	Name      string  `json:"name"`
	Key       string  `json:"key,omitempty"`
	Prefix    string  `json:"prefix"`
	Profile   string  `json:"profile_id"`
	CreatedAt string  `json:"created_at"`
	UsedAt    *string `json:"last_used_at"`
}

func (f *Front) createKey(w http.ResponseWriter, r *http.Request) {
	var b struct {
		Name    string `json:"name" jsonx:"required"`
		Profile string `json:"profile_id" jsonx:"required"`
	}
	err := adminBody(w, r, &b)
	if err == nil && (strings.TrimSpace(b.Name) == "" || len(b.Name) > maxName) {
		err = refuse("bad_request", "body: name: want 1 to %d bytes, not blank", maxName)
	}
	if err == nil {
		if _, ok := f.registry.profile(b.Profile); !ok {
			err = refuse("profile_unavailable", "no such profile")
		}
	}
	if err != nil {
		f.writeError(w, err)
		return
	}
	k, plain, err := f.registry.addKey(r.Context(), clientKey{ID: id.New().BAE("key"), Name: b.Name, Profile: b.Profile, CreatedAt: time.Now()})
	if err != nil {
		f.writeError(w, err)
		return
	}
	writeJSON(w, http.StatusCreated, struct {
		ID        string `json:"id"`
		Name      string `json:"name"`
		Key       string `json:"key"`
		Prefix    string `json:"prefix"`
		Profile   string `json:"profile_id"`
		CreatedAt string `json:"created_at"`
	}{k.ID, k.Name, plain, k.Prefix, k.Profile, stamp(k.CreatedAt)})
}

func (f *Front) listKeys(w http.ResponseWriter, r *http.Request) {
	var views []keyView
	for _, k := range f.registry.listKeys() {
		v := keyView{ID: k.ID, Name: k.Name, Prefix: k.Prefix, Profile: k.Profile, CreatedAt: stamp(k.CreatedAt)}
		if !k.UsedAt.IsZero() {
			v.UsedAt = ptr(stamp(k.UsedAt))
		}
		views = append(views, v)
	}
	writePage(f, w, r, views)
}

func (f *Front) deleteKey(w http.ResponseWriter, r *http.Request) {
	id := chi.URLParam(r, "id")
	k, err := f.registry.revoke(r.Context(), id, id == f.defaults.ClientID)
	if err != nil {
		f.writeError(w, registryError(err))
		return
	}
	ctx, cancel := within(r.Context())
	defer cancel()
	if err := f.revokeClient(ctx, k); err != nil {
		f.writeError(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// sessionView is a session as an administrator sees it.
type sessionView struct {
	ID            string  `json:"id"`
	Profile       string  `json:"profile_id"`
	State         string  `json:"state"`
	ClientVersion *string `json:"client_version"`
	CreatedAt     string  `json:"created_at"`
	ClosedAt      *string `json:"closed_at"`
}

func (f *Front) listSessions(w http.ResponseWriter, r *http.Request) {
	want := r.URL.Query().Get("state")
	switch want {
	case "", stateOpen, stateClosed, stateError:
	default:
		f.writeError(w, refuse("bad_request", "state: want %s, %s or %s", stateOpen, stateClosed, stateError))
		return
	}
	rows, err := f.audits(r.Context())
	if err != nil {
		f.writeError(w, err)
		return
	}
	var views []sessionView
	for _, a := range rows {
		views = append(views, sessionView{ID: a.ID, Profile: a.Profile, State: stateError, ClientVersion: a.ClientVersion,
			CreatedAt: stamp(a.CreatedAt), ClosedAt: nil})
	}
	for _, s := range f.host.List(host.Filter{IncludeClosed: true, IncludeArchived: true}) {
		v := sessionView{ID: s.Info.ID.BAE("ses"), Profile: f.defaults.Profile, State: summaryState(&s), CreatedAt: stamp(s.Info.CreatedAt)}
		if o, ok := openingOf(&s.Info); ok {
			v.Profile, v.ClientVersion = o.Profile, o.Payload.ClientVersion
		}
		if v.State == stateClosed {
			v.ClosedAt = ptr(stamp(s.ModifiedAt))
		}
		views = append(views, v)
	}
	if want != "" {
		views = slices.DeleteFunc(views, func(v sessionView) bool { return v.State != want })
	}
	slices.SortFunc(views, func(a, b sessionView) int { return strings.Compare(a.ID, b.ID) }) // ids sort by time
	writePage(f, w, r, views)
}

// summaryState is the state of a session as far as its summary tells: a failed
// turn shows where the session is opened.
func summaryState(s *host.Summary) string {
	switch {
	case s.Info.Closed:
		return stateClosed
	case s.Info.Meta[metaError] != nil:
		return stateError
	}
	if _, ours := openingOf(&s.Info); ours && s.Status == host.Failed && !interrupted(s.LastError) {
		return stateError
	}
	return stateOpen
}

func (f *Front) adminEvents(w http.ResponseWriter, r *http.Request) {
	ses, err := id.ParseBAE("ses", chi.URLParam(r, "id"))
	if err != nil {
		f.writeError(w, refuse("not_found", "no such session"))
		return
	}
	raw, err := f.registry.kv.Get(r.Context(), auditKey+ses.String())
	var a audited
	if err != nil || json.Unmarshal(raw, &a) != nil {
		f.writeEvents(w, r, ses)
		return
	}
	type auditEvent struct {
		ID        string       `json:"id"`
		Session   string       `json:"session_id"`
		Client    string       `json:"client_key_id"`
		Type      string       `json:"event_type"`
		Payload   sessionError `json:"payload"`
		CreatedAt string       `json:"created_at"`
	}
	writePage(f, w, r, []auditEvent{{a.Event.BAE("evt"), a.ID, a.Client, typeError, a.Error, stamp(a.CreatedAt)}})
}
