package bae

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"

	"github.com/polyhost/polyhost/core/id"
)

// position is where an event is in the log of a BAE session: the idx-th event
// that the session event seq gave. The projection starts afresh at anchor (the
// event that began the turn; seq itself outside of turns), so a reader can go
// on from a position without reading the log from its beginning.
type position struct {
	anchor, seq uint64
	idx         uint16
}

// after reports whether p is later than q.
func (p position) after(q position) bool {
	return p.seq > q.seq || p.seq == q.seq && p.idx > q.idx
}

// An event id is 16 bytes in hex: 5 of seq, 5 of how far back the anchor is,
// 2 of idx, and 4 that tell whether it belongs to the session.
const (
	seqBytes  = 5
	checkFrom = 2*seqBytes + 2
)

func (p position) bytes(ses id.ID) (b [16]byte) {
	put40(b[:], p.seq)
	put40(b[seqBytes:], p.seq-p.anchor)
	binary.BigEndian.PutUint16(b[2*seqBytes:], p.idx)
	h := sha256.New()
	h.Write(ses[:])
	h.Write(b[:checkFrom])
	copy(b[checkFrom:], h.Sum(nil))
	return b
}

// eventID spells the position as an event id.
func (p position) eventID(ses id.ID) string {
	b := p.bytes(ses)
	return "evt_" + hex.EncodeToString(b[:])
}

// cursor spells the position as a page cursor.
func (p position) cursor(ses id.ID) string {
	return strings.TrimPrefix(p.eventID(ses), "evt_")
}

// parseEventID reads an event id of that session.
func parseEventID(ses id.ID, s string) (position, bool) {
	s, ok := strings.CutPrefix(s, "evt_")
	if !ok {
		return position{}, false
	}
	return parseCursor(ses, s)
}

// parseCursor reads a cursor of that session.
func parseCursor(ses id.ID, s string) (position, bool) {
	var b [16]byte
	if len(s) != 2*len(b) || strings.ToLower(s) != s {
		return position{}, false
	}
	if _, err := hex.Decode(b[:], []byte(s)); err != nil {
		return position{}, false
	}
	p := position{seq: get40(b[:]), idx: binary.BigEndian.Uint16(b[2*seqBytes:])}
	back := get40(b[seqBytes:])
	if back > p.seq {
		return position{}, false
	}
	p.anchor = p.seq - back
	if p.bytes(ses) != b {
		return position{}, false
	}
	return p, true
}

func put40(b []byte, v uint64) {
	b[0] = byte(v >> 32)
	binary.BigEndian.PutUint32(b[1:], uint32(v))
}

func get40(b []byte) uint64 {
	return uint64(b[0])<<32 | uint64(binary.BigEndian.Uint32(b[1:]))
}
