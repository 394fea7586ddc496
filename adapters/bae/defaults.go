package bae

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/polyhost/polyhost/core/id"
	"github.com/polyhost/polyhost/core/store"
)

// defaults are the profile and keys that the first start makes. Their file is
// the only place that keeps a key as it is, so that endpoints.json can show
// them at every start.
type defaults struct {
	Profile  string `json:"profile_id"`
	ClientID string `json:"client_key_id"`
	Client   string `json:"client_key"`
	AdminID  string `json:"admin_key_id"`
	Admin    string `json:"admin_key"`
}

// KeysFile is its name in the home.
const KeysFile = "bae-keys.json"

// maxKeysFile bounds it, bytes.
const maxKeysFile = 4 << 10

// loadDefaults reads the file, or makes it.
func loadDefaults(home string) (d defaults, err error) {
	path := filepath.Join(home, KeysFile)
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d = defaults{Profile: id.New().BAE("pro"), ClientID: id.New().BAE("key"), Client: newKey(clientPrefix),
			AdminID: id.New().BAE("key"), Admin: newKey(adminPrefix)}
		return d, writePrivate(path, append(mustJSON(d), '\n'))
	case err != nil:
		return d, fmt.Errorf("read the default BAE keys: %w", err)
	case len(b) > maxKeysFile:
		return d, fmt.Errorf("read the default BAE keys: %s is too long", path)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return d, fmt.Errorf("close the default BAE keys to others: %w", err)
	}
	if err := json.Unmarshal(b, &d); err != nil {
		return d, fmt.Errorf("read the default BAE keys: %s: %w", path, err)
	}
	for _, field := range []struct{ value, prefix string }{{d.Profile, "pro_"}, {d.ClientID, "key_"}, {d.AdminID, "key_"},
		{d.Client, clientPrefix}, {d.Admin, adminPrefix}} {
		if !strings.HasPrefix(field.value, field.prefix) || len(field.value) < shownPrefix {
			return d, fmt.Errorf("read the default BAE keys: %s has no value with %s: remove it to get new ones", path, field.prefix)
		}
	}
	return d, nil
}

// RotateKeys replaces the default keys in the file, under their old ids, so
// that the next start takes the new ones and the old ones no more.
func RotateKeys(home string) error {
	d, err := loadDefaults(home)
	if err != nil {
		return err
	}
	d.Client, d.Admin = newKey(clientPrefix), newKey(adminPrefix)
	return writePrivate(filepath.Join(home, KeysFile), append(mustJSON(d), '\n'))
}

// writePrivate writes a file that only its owner can read, whole or not at all.
func writePrivate(path string, b []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".bae-*") // mode 0600
	if err != nil {
		return fmt.Errorf("write the default BAE keys: %w", err)
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(b)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write the default BAE keys: %w", err)
	}
	return nil
}

// ensure makes the records of the defaults that are not there, and spares the
// others the hash.
func (r *registry) ensure(ctx context.Context, d defaults) error {
	if _, ok := r.profile(d.Profile); !ok {
		now := time.Now()
		p := profile{ID: d.Profile, Name: "default", Primary: defaultProvider, Allowed: []string{anyTool}, CreatedAt: now, UpdatedAt: now}
		err := r.saveProfile(ctx, p)
		if errors.Is(err, errNameTaken) {
			p.Name = "default " + d.Profile
			err = r.saveProfile(ctx, p)
		}
		if err != nil {
			return err
		}
	}
	made := false
	for _, k := range []struct {
		plain  string
		record clientKey
	}{
		{d.Client, clientKey{ID: d.ClientID, Name: "default", Profile: d.Profile, CreatedAt: time.Now()}},
		{d.Admin, clientKey{ID: d.AdminID, Name: "default", Admin: true, CreatedAt: time.Now()}},
	} {
		if have, ok := r.key(k.record.ID); ok && have.Digest == digestOf(k.plain) {
			r.verified.add(k.plain, have.Hash)
			continue
		}
		_, err := r.kv.Get(ctx, retiredKey+digestOf(k.plain))
		if err == nil {
			continue
		}
		if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		// The key stands in a file beside the store: a slow hash of it would
		// only make the first start slow.
		if _, err := r.putKey(ctx, k.record, k.plain, r.set.sessionCost); err != nil {
			return err
		}
		made = true
	}
	if made { // the hashes took more memory than the idle gateway: give it back now
		debug.FreeOSMemory()
	}
	return nil
}
