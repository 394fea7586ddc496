package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/store"
)

// The keys of the store. Session ids have one length, so prefixes are safe.
func logName(s id.ID) string         { return "session/" + s.String() }
func summaryKey(s id.ID) string      { return "summary/" + s.String() }
func snapshotKey(s id.ID) string     { return "snapshot/" + s.String() }
func runningKey(s id.ID) string      { return "running/" + s.String() }
func agentKey(backend string) string { return "agent/" + backend }
func reservedKey(s id.ID) string     { return "reserved/" + s.String() }

// importedKey has how many turns were read from the agent's history.
func importedKey(s id.ID) string { return "imported/" + s.String() }
func buriedKey(conversation string) string {
	h := sha256.Sum256([]byte(conversation))
	return buriedPrefix + hex.EncodeToString(h[:16])
}
func turnPrefix(s, c id.ID) string {
	return "turn/" + s.String() + "/" + c.String() + "/"
}
func turnKey(s, c id.ID, n int) string { return fmt.Sprintf("%s%010d", turnPrefix(s, c), n) }

const (
	summaryPrefix = "summary/"
	runningPrefix = "running/"
	movePrefix    = "move/"
	buriedPrefix  = "buried/"
	allowlistKey  = "allowlist"
	decisionsKey  = "decisions"
)

// KV is a front's own small lasting bookkeeping. What concerns a session
// belongs into the session instead, where other fronts see it.
type KV struct {
	store  store.Store
	prefix string
}

// KV returns the key-values of one owner, apart from all others.
func (h *Host) KV(owner string) KV { return KV{h.store, "kv/" + owner + "/"} }

// Get returns a value, or store.ErrNotFound.
func (k KV) Get(ctx context.Context, key string) ([]byte, error) {
	return k.store.Get(ctx, k.prefix+key)
}

// Set stores a value; it is on disk when Set returns.
func (k KV) Set(ctx context.Context, key string, value []byte) error {
	return store.Wait(ctx, k.store.Commit(store.Batch{Put: []store.KV{{Key: k.prefix + key, Value: value}}}))
}

// Delete removes keys; those that are not there do not matter.
func (k KV) Delete(ctx context.Context, keys ...string) error {
	full := make([]string, len(keys))
	for i, key := range keys {
		full[i] = k.prefix + key
	}
	return store.Wait(ctx, k.store.Commit(store.Batch{Delete: full}))
}

// Update writes and deletes in one step.
func (k KV) Update(ctx context.Context, put []store.KV, del []string) error {
	b := store.Batch{}
	for _, kv := range put {
		b.Put = append(b.Put, store.KV{Key: k.prefix + kv.Key, Value: kv.Value})
	}
	for _, key := range del {
		b.Delete = append(b.Delete, k.prefix+key)
	}
	return store.Wait(ctx, k.store.Commit(b))
}

// List returns pairs whose keys begin with prefix and come after `after`.
func (k KV) List(ctx context.Context, prefix, after string, limit int) ([]store.KV, error) {
	if after != "" {
		after = k.prefix + after
	}
	kvs, err := k.store.Scan(ctx, k.prefix+prefix, after, limit, false)
	for i := range kvs {
		kvs[i].Key = strings.TrimPrefix(kvs[i].Key, k.prefix)
	}
	return kvs, err
}
