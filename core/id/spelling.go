package id

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/big"
	"strings"
)

// The spellings. Snowpea and zidane use the bare UUID (String, Parse).

// AHP spells an id as an Agent Host Protocol URI, "<scheme>:/<uuid>": the
// scheme of a session is the id of its agent provider, other channels have
// fixed ones ("ahp-chat").
func (u ID) AHP(scheme string) string { return scheme + ":/" + u.String() }

// ParseAHP reads what AHP wrote and gives the scheme back.
func ParseAHP(uri string) (scheme string, u ID, err error) {
	scheme, rest, ok := strings.Cut(uri, ":/")
	if !ok || scheme == "" {
		return "", Nil, fmt.Errorf("%w: %.60q is not <scheme>:/<uuid>", ErrMalformed, uri)
	}
	u, err = Parse(rest)
	return scheme, u, err
}

// BAE spells an id as "<prefix>_" and 32 hex digits. The prefix carries no
// underscore: "ses", "evt", "key", "pro".
func (u ID) BAE(prefix string) string { return prefix + "_" + hex.EncodeToString(u[:]) }

// ParseBAE reads what BAE wrote with the same prefix.
func ParseBAE(prefix, s string) (ID, error) {
	digits, ok := strings.CutPrefix(s, prefix+"_")
	if !ok || len(digits) != 32 {
		return Nil, fmt.Errorf("%w: %.60q is not %s_ and 32 hex digits", ErrMalformed, s, prefix)
	}
	return fromHex(Nil, digits, s)
}

// A cognitio id is a prefix, "_", 12 hex digits and 14 base-62 digits. The hex
// digits are the low 36 bits of the milliseconds followed by the counter, so
// that ids sort by time; the base-62 digits hold the other 74 bits of the id
// (12 high bits of the time, 62 random bits).
const (
	cognitioHex  = 12
	cognitioTail = 14
	base62       = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

var bigBase = big.NewInt(62)

// Cognitio spells an id in ascending order, for messages, parts and requests.
func (u ID) Cognitio(prefix string) string { return u.cognitio(prefix, 0) }

// CognitioDescending spells an id so that newer ids sort first, for sessions.
func (u ID) CognitioDescending(prefix string) string { return u.cognitio(prefix, 1<<48-1) }

func (u ID) cognitio(prefix string, flip uint64) string {
	hi := binary.BigEndian.Uint64(u[:8])
	ms, counter := hi>>16, hi&0xfff
	head := (ms&(1<<36-1))<<12 | counter
	tail := new(big.Int).SetUint64(ms >> 36)
	tail.Lsh(tail, 62)
	tail.Or(tail, new(big.Int).SetUint64(binary.BigEndian.Uint64(u[8:])&(1<<62-1)))
	b := make([]byte, 0, len(prefix)+1+cognitioHex+cognitioTail)
	b = append(b, prefix...)
	b = fmt.Appendf(b, "_%012x", head^flip)
	var digits [cognitioTail]byte
	for i, m := cognitioTail-1, new(big.Int); i >= 0; i-- {
		tail.DivMod(tail, bigBase, m)
		digits[i] = base62[m.Uint64()]
	}
	return string(append(b, digits[:]...))
}

// ParseCognitio reads what Cognitio wrote with the same prefix. Ids that a
// client made up in the same form usually do not parse: keep those as aliases.
func ParseCognitio(prefix, s string) (ID, error) { return parseCognitio(prefix, s, 0) }

// ParseCognitioDescending reads what CognitioDescending wrote.
func ParseCognitioDescending(prefix, s string) (ID, error) {
	return parseCognitio(prefix, s, 1<<48-1)
}

func parseCognitio(prefix, s string, flip uint64) (ID, error) {
	rest, ok := strings.CutPrefix(s, prefix+"_")
	if !ok || len(rest) != cognitioHex+cognitioTail {
		return Nil, fmt.Errorf("%w: %.60q is not %s_ and 26 digits", ErrMalformed, s, prefix)
	}
	var head uint64
	for _, c := range []byte(rest[:cognitioHex]) {
		switch {
		case c >= '0' && c <= '9':
			head = head<<4 | uint64(c-'0')
		case c >= 'a' && c <= 'f':
			head = head<<4 | uint64(c-'a'+10)
		default:
			return Nil, fmt.Errorf("%w: %.60q has a bad hex digit", ErrMalformed, s)
		}
	}
	head ^= flip
	tail := new(big.Int)
	for _, c := range []byte(rest[cognitioHex:]) {
		d := strings.IndexByte(base62, c)
		if d < 0 {
			return Nil, fmt.Errorf("%w: %.60q has a bad base-62 digit", ErrMalformed, s)
		}
		tail.Mul(tail, bigBase)
		tail.Add(tail, big.NewInt(int64(d)))
	}
	if tail.BitLen() > 74 {
		return Nil, fmt.Errorf("%w: %.60q is out of range", ErrMalformed, s)
	}
	low := new(big.Int).And(tail, new(big.Int).SetUint64(1<<62-1)).Uint64()
	ms := new(big.Int).Rsh(tail, 62).Uint64()<<36 | head>>12
	var u ID
	binary.BigEndian.PutUint64(u[:8], ms<<16|7<<12|head&0xfff)
	binary.BigEndian.PutUint64(u[8:], low|2<<62)
	return u, nil
}
