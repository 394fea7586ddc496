package bae

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
)

// clientProfile is what a client sees of its profile.
type clientProfile struct {
	ID       string         `json:"id"`
	Name     string         `json:"name"`
	Allowed  []string       `json:"allowed_tools"`
	MCP      []string       `json:"mcp_servers"`
	Provider clientProvider `json:"provider"`
}

type clientProvider struct {
	Provider string `json:"provider"`
	Model    string `json:"model"`
}

// opened is the answer to open and join.
type opened struct {
	Session string        `json:"session_id"`
	Key     string        `json:"session_key"`
	Profile clientProfile `json:"profile"`
}

// open serves POST /api/v1/sessions.
func (f *Front) open(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	key, d, err := f.declared(w, r)
	if err != nil {
		f.writeError(w, err)
		return
	}
	p, provider, err := f.agentOf(ctx, key.Profile, key.ID, d)
	if err != nil {
		f.writeError(w, err)
		return
	}
	if bad := d.rules(p); bad != nil {
		f.writeError(w, bad)
		return
	}
	o := opening{Profile: p.ID, Key: key.ID, Payload: d.payload()}
	hs, err := f.host.CreateSession(ctx, host.CreateSession{Backend: provider.Provider, By: actorOf(key),
		Meta: map[string]json.RawMessage{metaOpen: mustJSON(o)}})
	if err != nil {
		f.writeError(w, err)
		return
	}
	answer, err := f.admit(ctx, hs.ID(), key, d, p, provider)
	if err != nil { // nobody has a key for it
		clean, cancel := within(ctx)
		defer cancel()
		f.writeError(w, errors.Join(err, f.host.DeleteSession(clean, hs.ID(), actorOf(key))))
		return
	}
	writeJSON(w, http.StatusCreated, answer)
}

// declared authenticates and reads the body of open and join.
func (f *Front) declared(w http.ResponseWriter, r *http.Request) (clientKey, declarations, error) {
	key, err := f.client(r)
	if err != nil {
		return key, declarations{}, err
	}
	body, err := readBody(w, r)
	if err != nil {
		return key, declarations{}, err
	}
	d, err := decodeDeclarations(body)
	if err != nil {
		return key, d, refuse("bad_request", "body: %s", err)
	}
	return key, d, nil
}

// agentOf finds the agent of a profile. A refusal leaves an audit record.
func (f *Front) agentOf(ctx context.Context, profileID, client string, d declarations) (profile, clientProvider, error) {
	p, ok := f.registry.profile(profileID)
	if !ok {
		f.audit(ctx, profileID, client, d, sessionError{Reason: "profile_unavailable", ProfileID: profileID})
		return p, clientProvider{}, refuse("profile_unavailable", "the profile was deleted")
	}
	provider, ok := f.provider(p.Primary)
	if !ok {
		f.log.Error("A profile names an agent that is not there", "profile", p.Name, "agent", p.Primary)
		f.audit(ctx, profileID, client, d, sessionError{Reason: "primary_provider_unavailable", ProfileID: profileID, PrimaryProvider: p.Primary})
		return p, clientProvider{}, refuse("primary_provider_unavailable", "the profile's primary_provider %q is not there", p.Primary)
	}
	return p, provider, nil
}

// defaultProvider names whatever agent is the host's default.
const defaultProvider = "default"

// provider finds an agent and its first model.
func (f *Front) provider(name string) (clientProvider, bool) {
	for i, a := range f.host.Agents() {
		if a.Name == name || i == 0 && name == defaultProvider {
			p := clientProvider{Provider: a.Name, Model: "default"}
			if len(a.Info.Models) > 0 {
				p.Model = a.Info.Models[0].ID
			}
			return p, true
		}
	}
	return clientProvider{}, false
}

// admit gives a client its tools and a key of a session.
func (f *Front) admit(ctx context.Context, ses id.ID, key clientKey, d declarations, p profile, provider clientProvider) (opened, error) {
	if err := f.registry.setLists(ctx, ses, key.ID, d.lists()); err != nil {
		return opened{}, err
	}
	plain, err := f.registry.addSessionKey(ctx, ses, key.ID)
	if err != nil {
		return opened{}, err
	}
	return opened{ses.BAE("ses"), plain, clientProfile{ID: p.ID, Name: p.Name, Allowed: list(p.Allowed), MCP: list(p.MCP), Provider: provider}}, nil
}

// list is never null on the wire.
func list(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// join serves POST /api/v1/sessions/{id}/join.
func (f *Front) join(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	key, d, err := f.declared(w, r)
	if err != nil {
		f.writeError(w, err)
		return
	}
	ses, err := id.ParseBAE("ses", chi.URLParam(r, "id"))
	if err != nil {
		f.writeError(w, refuse("not_found", "no such session"))
		return
	}
	room, err := f.room(ctx, ses)
	if err != nil {
		f.writeError(w, err)
		return
	}
	defer f.release(room)
	answer, err := f.joined(ctx, room, key, d)
	if err != nil {
		f.writeError(w, err)
		return
	}
	writeJSON(w, http.StatusCreated, answer)
}

func (f *Front) joined(ctx context.Context, room *room, key clientKey, d declarations) (opened, error) {
	if s := room.state(); s != stateOpen {
		return opened{}, refuse("session_closed", "session is already %s", s)
	}
	if room.profile != key.Profile {
		return opened{}, refuse("profile_mismatch", "the session belongs to another profile")
	}
	p, provider, err := f.agentOf(ctx, key.Profile, key.ID, d)
	if err != nil {
		return opened{}, err
	}
	if bad := d.rules(p); bad != nil {
		return opened{}, bad
	}
	if backend := room.session().State().Info.Backend; backend != provider.Provider {
		provider, _ = f.provider(backend) // the session's agent was chosen when it was opened
	}
	answer, err := f.admit(ctx, room.ses, key, d, p, provider)
	if err != nil {
		return opened{}, err
	}
	if f.isDriver(room.ses, key.ID) {
		f.addDriver(room.ses, key.ID, d.lists())
	}
	return answer, room.write(ctx, key.ID, noted{"session.join", key.ID, mustJSON(d.payload())})
}

// closeSession serves DELETE /api/v1/sessions/{id}.
func (f *Front) closeSession(w http.ResponseWriter, r *http.Request) {
	key, ses, err := f.participant(r)
	if err != nil {
		f.writeError(w, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	room, err := f.room(ctx, ses)
	if err != nil {
		f.writeError(w, err)
		return
	}
	defer f.release(room)
	state := room.state()
	if room.base.child && state == stateOpen {
		f.writeError(w, refuse("session_closed", "a subagent's session ends with its parent"))
		return
	}
	f.clearDrivers(ses)
	if state != stateOpen {
		room.unsubscribe()
		f.writeError(w, refuse("session_closed", "session is already %s", state))
		return
	}
	stored, stop := within(ctx)
	defer stop()
	if err := room.session().Close(stored, actorOf(key)); err != nil {
		f.writeError(w, err)
		return
	}
	if err := room.sync(stored); err != nil {
		f.writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, struct {
		Session string `json:"session_id"`
		State   string `json:"state"`
	}{ses.BAE("ses"), stateClosed})
}

// audited is a refused open: a session that never was, in the error state.
type audited struct {
	ID            string       `json:"id"`
	Event         id.ID        `json:"event"`
	Client        string       `json:"client"`
	Profile       string       `json:"profile_id"`
	ClientVersion *string      `json:"client_version"`
	Error         sessionError `json:"error"`
	CreatedAt     time.Time    `json:"created_at"`
}

// audit records a refused open. Only the newest maxAudits are kept.
func (f *Front) audit(ctx context.Context, profile, client string, d declarations, e sessionError) {
	row := id.New()
	a := audited{ID: row.BAE("ses"), Event: id.New(), Client: client, Profile: profile, ClientVersion: d.ClientVersion, Error: e, CreatedAt: time.Now()}
	kv := f.registry.kv
	old, err := kv.List(ctx, auditKey, "", maxAudits)
	if err == nil && len(old) >= maxAudits {
		err = kv.Delete(ctx, old[0].Key)
	}
	if err = errors.Join(err, kv.Set(ctx, auditKey+row.String(), mustJSON(a))); err != nil {
		f.log.Error("A refused BAE open could not be recorded", "err", err)
	}
}

// audits are the refused opens, oldest first.
func (f *Front) audits(ctx context.Context) (out []audited, err error) {
	err = scan(ctx, f.registry.kv, auditKey, func(_ string, a *audited) { out = append(out, *a) })
	return out, err
}
