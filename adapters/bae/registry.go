package bae

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/polyhost/polyhost/core/host"
	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/store"
)

// profile is what keys are bound to: which agent, which tools.
type profile struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Primary   string    `json:"primary_provider"`
	Fallbacks []string  `json:"fallback_providers"`
	MCP       []string  `json:"mcp_servers"`
	Allowed   []string  `json:"allowed_tools"`
	Sandboxes []string  `json:"available_sandboxes"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	// Timeout is how long an approval or question waits for another front,
	// in seconds; Allow is what an approval then becomes.
	Timeout int  `json:"permission_timeout"`
	Allow   bool `json:"permission_allow"`
	Deleted bool `json:"deleted,omitempty"`
}

// anyTool in a profile's allowed tools allows every name.
const anyTool = "*"

// allows reports whether clients of the profile may declare a tool.
func (p *profile) allows(tool string) bool {
	return slices.Contains(p.Allowed, tool) || slices.Contains(p.Allowed, anyTool)
}

// clientKey is a client's or administrator's key. Only its hash is kept.
type clientKey struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Prefix    string    `json:"prefix"`
	Digest    string    `json:"digest"`
	Hash      string    `json:"hash"`
	Profile   string    `json:"profile_id,omitempty"`
	Admin     bool      `json:"admin,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	UsedAt    time.Time `json:"used_at,omitzero"`
}

// sessionKey is a key of one session, bound to the client key that got it.
type sessionKey struct {
	Client string `json:"client"`
	Hash   string `json:"hash"`
}

var (
	errKeyInUse  = errors.New("live client keys use the profile")
	errNameTaken = errors.New("the name is taken")
	errUnknown   = errors.New("no such entry")
	errTooMany   = errors.New("too many entries")
)

// registry keeps profiles and keys: all in memory, written through.
type registry struct {
	kv       host.KV
	set      settings
	verified verified

	mu       sync.Mutex
	profiles map[string]*profile
	keys     map[string]*clientKey // by id
	digests  map[string]*clientKey
}

const (
	profileKey    = "profile/"
	clientKeyKey  = "key/"
	sessionKeyKey = "session/"
	listsKey      = "tools/"
	auditKey      = "audit/"
	retiredKey    = "retired/" // digests of default keys that were revoked
	scanBatch     = 500
)

func openRegistry(ctx context.Context, kv host.KV, s settings) (*registry, error) {
	r := &registry{kv: kv, set: s, profiles: map[string]*profile{}, keys: map[string]*clientKey{}, digests: map[string]*clientKey{}}
	err := scan(ctx, kv, profileKey, func(_ string, p *profile) { r.profiles[p.ID] = p })
	if err == nil {
		err = scan(ctx, kv, clientKeyKey, func(_ string, k *clientKey) { r.keys[k.ID], r.digests[k.Digest] = k, k })
	}
	if err != nil {
		return nil, fmt.Errorf("read BAE profiles and keys: %w", err)
	}
	return r, nil
}

// scan reads all values under a prefix.
func scan[T any](ctx context.Context, kv host.KV, prefix string, each func(key string, v *T)) error {
	for after := ""; ; {
		kvs, err := kv.List(ctx, prefix, after, scanBatch)
		if err != nil {
			return err
		}
		for _, e := range kvs {
			v := new(T)
			if err := json.Unmarshal(e.Value, v); err != nil {
				return fmt.Errorf("%s: %w", e.Key, err)
			}
			each(e.Key, v)
		}
		if len(kvs) < scanBatch {
			return nil
		}
		after = kvs[len(kvs)-1].Key
	}
}

// profile returns a live profile.
func (r *registry) profile(id string) (profile, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.profiles[id]
	if p == nil || p.Deleted {
		return profile{}, false
	}
	return *p, true
}

// saveProfile stores a new or changed profile.
func (r *registry) saveProfile(ctx context.Context, p profile) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	live := 0
	for _, o := range r.profiles {
		if o.Deleted {
			continue
		}
		live++
		if o.ID != p.ID && o.Name == p.Name {
			return errNameTaken
		}
	}
	if r.profiles[p.ID] == nil && live >= maxProfiles {
		return errTooMany
	}
	if err := r.kv.Set(ctx, profileKey+p.ID, mustJSON(p)); err != nil {
		return err
	}
	r.profiles[p.ID] = &p
	return nil
}

// deleteProfile deletes a profile that no live key uses.
func (r *registry) deleteProfile(ctx context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.profiles[id]
	if p == nil || p.Deleted {
		return errUnknown
	}
	for _, k := range r.keys {
		if k.Profile == id {
			return errKeyInUse
		}
	}
	if err := r.kv.Delete(ctx, profileKey+id); err != nil {
		return err
	}
	p.Deleted = true
	return nil
}

// addKey makes a client key; its plaintext is returned this once.
func (r *registry) addKey(ctx context.Context, k clientKey) (clientKey, string, error) {
	plain := newKey(clientPrefix)
	k, err := r.putKey(ctx, k, plain, r.set.keyCost)
	return k, plain, err
}

// putKey stores the record of a key.
func (r *registry) putKey(ctx context.Context, k clientKey, plain string, c cost) (clientKey, error) {
	k.Prefix, k.Digest, k.Hash = plain[:shownPrefix], digestOf(plain), hashKey(plain, c)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.keys) >= maxKeys && r.keys[k.ID] == nil {
		return k, errTooMany
	}
	if err := r.kv.Set(ctx, clientKeyKey+k.ID, mustJSON(k)); err != nil {
		return k, err
	}
	if old := r.keys[k.ID]; old != nil {
		delete(r.digests, old.Digest)
	}
	r.keys[k.ID], r.digests[k.Digest] = &k, &k
	r.verified.add(plain, k.Hash)
	return k, nil
}

// revoke ends a client key; it returns the key as it was. A default key stays
// revoked at the next start.
func (r *registry) revoke(ctx context.Context, id string, isDefault bool) (clientKey, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.keys[id]
	if k == nil || k.Admin {
		return clientKey{}, errUnknown
	}
	var put []store.KV
	if isDefault {
		put = []store.KV{{Key: retiredKey + k.Digest, Value: []byte("1")}}
	}
	if err := r.kv.Update(ctx, put, []string{clientKeyKey + id}); err != nil {
		return clientKey{}, err
	}
	gone := *k
	delete(r.keys, id)
	delete(r.digests, k.Digest)
	return gone, nil
}

// authenticate finds the live key of that plaintext.
func (r *registry) authenticate(ctx context.Context, plain string, admin bool) (clientKey, bool) {
	r.mu.Lock()
	k := r.digests[digestOf(plain)]
	var found clientKey
	if k != nil {
		found = *k
	}
	r.mu.Unlock()
	if k == nil || found.Admin != admin || !r.verified.ok(plain, found.Hash) {
		return clientKey{}, false
	}
	r.used(ctx, found.ID)
	return found, true
}

// used notes the use of a key, at most every usedEvery.
func (r *registry) used(ctx context.Context, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.keys[id]
	now := time.Now()
	if k == nil || now.Sub(k.UsedAt) < usedEvery {
		return
	}
	k.UsedAt = now
	// A lost note of a use harms nobody: the next one writes it again.
	_ = r.kv.Set(ctx, clientKeyKey+id, mustJSON(k))
}

// key returns a live key by its id.
func (r *registry) key(id string) (clientKey, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.keys[id]
	if k == nil {
		return clientKey{}, false
	}
	return *k, true
}

// listKeys and listProfiles are sorted by creation.
func (r *registry) listKeys() []clientKey {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []clientKey
	for _, k := range r.keys {
		if !k.Admin {
			out = append(out, *k)
		}
	}
	slices.SortFunc(out, func(a, b clientKey) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return out
}

func (r *registry) listProfiles() []profile {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []profile
	for _, p := range r.profiles {
		if !p.Deleted {
			out = append(out, *p)
		}
	}
	slices.SortFunc(out, func(a, b profile) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// addSessionKey makes a key of a session for a client.
func (r *registry) addSessionKey(ctx context.Context, ses id.ID, client string) (string, error) {
	prefix := sessionKeyKey + ses.String() + "/"
	have, err := r.kv.List(ctx, prefix, "", maxSessionKeys)
	if err != nil {
		return "", err
	}
	if len(have) >= maxSessionKeys {
		return "", errTooMany
	}
	plain := newKey(sessionPrefix)
	k := sessionKey{Client: client, Hash: hashKey(plain, r.set.sessionCost)}
	if err := r.kv.Set(ctx, prefix+digestOf(plain), mustJSON(k)); err != nil {
		return "", err
	}
	r.verified.add(plain, k.Hash)
	return plain, nil
}

// sessionClient finds the client key that a session key stands for.
func (r *registry) sessionClient(ctx context.Context, ses id.ID, plain string) (clientKey, bool, error) {
	raw, err := r.kv.Get(ctx, sessionKeyKey+ses.String()+"/"+digestOf(plain))
	if errors.Is(err, store.ErrNotFound) {
		return clientKey{}, false, nil
	}
	if err != nil {
		return clientKey{}, false, err
	}
	var k sessionKey
	if err := json.Unmarshal(raw, &k); err != nil {
		return clientKey{}, false, fmt.Errorf("session key: %w", err)
	}
	client, ok := r.key(k.Client)
	if !ok || !r.verified.ok(plain, k.Hash) {
		return clientKey{}, false, nil
	}
	return client, true, nil
}

// clients reports whether a client has a key of a session, and whether another
// live one has.
func (r *registry) clients(ctx context.Context, ses id.ID, client string) (mine, others bool, err error) {
	err = scan(ctx, r.kv, sessionKeyKey+ses.String()+"/", func(_ string, k *sessionKey) {
		if k.Client == client {
			mine = true
		} else if _, live := r.key(k.Client); live {
			others = true
		}
	})
	return mine, others, err
}

// lists are the tools that a client declared for a session.
type lists struct {
	Tools    []toolDecl     `json:"tools"`
	Sandbox  []toolDecl     `json:"sandbox_tools"`
	Subagent []subagentTool `json:"subagent_tools"`
}

func listsOf(ses id.ID, client string) string { return listsKey + ses.String() + "/" + client }

func (r *registry) setLists(ctx context.Context, ses id.ID, client string, l lists) error {
	return r.kv.Set(ctx, listsOf(ses, client), mustJSON(l))
}

// lists returns what the client declared, or nothing.
func (r *registry) lists(ctx context.Context, ses id.ID, client string) (lists, error) {
	var l lists
	raw, err := r.kv.Get(ctx, listsOf(ses, client))
	if errors.Is(err, store.ErrNotFound) {
		return l, nil
	}
	if err != nil {
		return l, err
	}
	return l, json.Unmarshal(raw, &l)
}

// forget removes what is kept of a session that is gone.
func (r *registry) forget(ctx context.Context, ses id.ID) error {
	var keys []string
	for _, prefix := range []string{sessionKeyKey, listsKey} {
		for after := ""; ; {
			kvs, err := r.kv.List(ctx, prefix+ses.String()+"/", after, scanBatch)
			if err != nil {
				return err
			}
			for _, kv := range kvs {
				keys = append(keys, kv.Key)
			}
			if len(kvs) < scanBatch {
				break
			}
			after = kvs[len(kvs)-1].Key
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return r.kv.Delete(ctx, keys...)
}
