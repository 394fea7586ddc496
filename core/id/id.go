// Package id makes and spells the one identity every thing in the gateway has.
//
// An ID is a UUID version 7 whose 12 rand_a bits hold a per-millisecond counter,
// so ids made by one process sort in the order they were made. Every front
// writes the same id in its own way; the spellings are reversible arithmetic,
// without a table, and live here so that two fronts can never disagree.
package id

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrMalformed is wrapped by every parse error of this package.
var ErrMalformed = errors.New("malformed id")

// ID is a UUIDv7. The zero value means "none".
type ID [16]byte

// Nil is the zero ID.
var Nil ID

// counterBits is the width of the per-millisecond counter in rand_a.
const counterBits = 12

var last struct {
	sync.Mutex
	ms    int64
	count int64
}

// New returns a fresh id for the current time. Ids of one process are strictly
// increasing: when the counter of a millisecond is used up, or the clock steps
// back, the id borrows the following millisecond.
func New() ID { return at(time.Now().UnixMilli()) }

func at(ms int64) ID {
	last.Lock()
	if ms > last.ms {
		last.ms, last.count = ms, 1
	} else if last.count++; last.count >= 1<<counterBits {
		last.ms, last.count = last.ms+1, 1
	}
	ms, count := last.ms, last.count
	last.Unlock()

	var u ID
	binary.BigEndian.PutUint64(u[:8], uint64(ms)<<16|7<<12|uint64(count))
	rand.Read(u[8:]) // never fails: crypto/rand aborts the program instead
	u[8] = u[8]&0x3f | 0x80
	return u
}

// Twin is a fresh id that sorts where u does: of a copy of what u names.
func (u ID) Twin() ID {
	t := New()
	copy(t[:8], u[:8])
	return t
}

// Derived is the id of something that was made elsewhere at a moment: always
// the same for the same name, and in the order of the moments.
func Derived(made time.Time, name string) ID {
	h := sha256.Sum256([]byte(name))
	var u ID
	copy(u[6:], h[:10])
	ms := uint64(max(0, made.UnixMilli()))
	binary.BigEndian.PutUint64(u[:8], ms<<16|7<<12|uint64(binary.BigEndian.Uint16(h[:2])&0xfff))
	u[8] = u[8]&0x3f | 0x80
	return u
}

// IsNil reports whether u is the zero ID.
func (u ID) IsNil() bool { return u == Nil }

// Time is the moment the id was made, to the millisecond.
func (u ID) Time() time.Time {
	return time.UnixMilli(int64(binary.BigEndian.Uint64(u[:8]) >> 16))
}

// Compare orders ids by their making: -1, 0 or +1.
func (u ID) Compare(v ID) int {
	for i := range u {
		if u[i] != v[i] {
			if u[i] < v[i] {
				return -1
			}
			return 1
		}
	}
	return 0
}

// String is the canonical lower-case UUID, or "" for Nil.
func (u ID) String() string {
	if u.IsNil() {
		return ""
	}
	var b [36]byte
	u.encode(b[:])
	return string(b[:])
}

func (u ID) encode(b []byte) {
	hex.Encode(b, u[:4])
	b[8] = '-'
	hex.Encode(b[9:], u[4:6])
	b[13] = '-'
	hex.Encode(b[14:], u[6:8])
	b[18] = '-'
	hex.Encode(b[19:], u[8:10])
	b[23] = '-'
	hex.Encode(b[24:], u[10:])
}

// Parse reads a canonical lower-case UUIDv7.
func Parse(s string) (ID, error) {
	var u ID
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return Nil, fmt.Errorf("%w: %.40q is not a UUID", ErrMalformed, s)
	}
	return fromHex(u, s[:8]+s[9:13]+s[14:18]+s[19:23]+s[24:], s)
}

func fromHex(u ID, digits, shown string) (ID, error) {
	for i := range len(digits) {
		if c := digits[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return Nil, fmt.Errorf("%w: %.40q has a character that is no lower-case hex digit", ErrMalformed, shown)
		}
	}
	if _, err := hex.Decode(u[:], []byte(digits)); err != nil {
		return Nil, fmt.Errorf("%w: %.40q: %v", ErrMalformed, shown, err)
	}
	if u[6]>>4 != 7 || u[8]>>6 != 2 {
		return Nil, fmt.Errorf("%w: %.40q is not a UUID version 7", ErrMalformed, shown)
	}
	return u, nil
}

// MustParse is Parse for constants; it panics on a malformed id.
func MustParse(s string) ID {
	u, err := Parse(s)
	if err != nil {
		panic(err)
	}
	return u
}

// MarshalText writes the canonical spelling; Nil is the empty text.
func (u ID) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (u *ID) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*u = Nil
		return nil
	}
	v, err := Parse(string(b))
	if err != nil {
		return err
	}
	*u = v
	return nil
}

// IsZero lets encoding/json's omitzero leave a Nil id out.
func (u ID) IsZero() bool { return u.IsNil() }
