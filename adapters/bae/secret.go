package bae

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/crypto/argon2"
)

// The prefixes of the three kinds of key. They are for people: the kind of a
// key is decided by looking it up.
const (
	clientPrefix  = "bae_"
	sessionPrefix = "bae_ses_"
	adminPrefix   = "bae_admin_"
)

const (
	keyBytes    = 24 // random bytes of a key
	shownPrefix = 8  // characters of a key that lists show
	saltBytes   = 16
	hashBytes   = 32
	// digestBytes of a key's SHA-256 find its record: enough to be unique, and
	// no help to guess 192 random bits.
	digestBytes = 12
)

// newKey makes a key of a kind.
func newKey(prefix string) string {
	b := make([]byte, keyBytes)
	_, _ = rand.Read(b) // never fails
	return prefix + hex.EncodeToString(b)
}

// digestOf is what a key's record is found by.
func digestOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:digestBytes])
}

// hashLock lets one slow hash run at a time: one of a client key takes 64 MiB.
var hashLock sync.Mutex

// hashKey is the stored form of a key: Argon2id with its cost and salt.
func hashKey(key string, c cost) string {
	salt := make([]byte, saltBytes)
	_, _ = rand.Read(salt) // never fails
	hashLock.Lock()
	defer hashLock.Unlock()
	sum := argon2.IDKey([]byte(key), salt, c.passes, c.memory, 1, hashBytes)
	enc := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=1$%s$%s", argon2.Version, c.memory, c.passes, enc.EncodeToString(salt), enc.EncodeToString(sum))
}

// verifyKey compares a key with its stored form.
func verifyKey(key, stored string) bool {
	fields := strings.Split(stored, "$")
	if len(fields) != 6 || fields[1] != "argon2id" {
		return false
	}
	var c cost
	most := defaultSettings.keyCost
	if _, err := fmt.Sscanf(fields[3], "m=%d,t=%d,p=1", &c.memory, &c.passes); err != nil || c.memory > most.memory || c.passes == 0 || c.passes > most.passes {
		return false
	}
	enc := base64.RawStdEncoding
	salt, err1 := enc.DecodeString(fields[4])
	want, err2 := enc.DecodeString(fields[5])
	if err1 != nil || err2 != nil || len(want) != hashBytes {
		return false
	}
	hashLock.Lock()
	defer hashLock.Unlock()
	got := argon2.IDKey([]byte(key), salt, c.passes, c.memory, 1, hashBytes)
	return subtle.ConstantTimeCompare(got, want) == 1
}

// verified remembers keys that passed the slow hash, by SHA-256, with the
// stored form that they passed.
type verified struct {
	mu   sync.Mutex
	keys map[[sha256.Size]byte]string
}

// ok reports whether key is the one that stored is the hash of.
func (v *verified) ok(key, stored string) bool {
	sum := sha256.Sum256([]byte(key))
	v.mu.Lock()
	known := v.keys[sum] == stored && stored != ""
	v.mu.Unlock()
	if known {
		return true
	}
	if !verifyKey(key, stored) {
		return false
	}
	v.add(key, stored)
	return true
}

// add remembers a key that was just made.
func (v *verified) add(key, stored string) {
	sum := sha256.Sum256([]byte(key))
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.keys == nil {
		v.keys = map[[sha256.Size]byte]string{}
	}
	if len(v.keys) >= verifiedKeys {
		for old := range v.keys { // any: it costs one slow hash at its next use
			delete(v.keys, old)
			break
		}
	}
	v.keys[sum] = stored
}
