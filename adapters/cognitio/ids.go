package cognitio

import (
	"encoding/binary"
	"strings"
	"time"

	"github.com/polyhost/polyhost/core/event"
	"github.com/polyhost/polyhost/core/id"
)

// The prefixes of this protocol's ids.
const (
	prefixSession    = "ses"
	prefixMessage    = "msg"
	prefixPart       = "prt"
	prefixPermission = "per"
	prefixQuestion   = "que"
)

// sessionID spells a session or a chat.
func sessionID(u id.ID) string { return u.CognitioDescending(prefixSession) }

// userMessageID is the name of what a person said: the one its client gave it
// here, else the core's.
func userMessageID(m *event.Message) string {
	if m.Alias != "" && m.By.Front == Name {
		return m.Alias
	}
	return m.ID.Cognitio(prefixMessage)
}

// The core counts from 1 in each millisecond and never comes near the upper
// counters. Ids that only this front needs take the others, so that they sort
// before or after everything the core made in the same millisecond.
const (
	counterFirst = 0x000 // step-start parts
	counterStep  = 0xf00 // the first step of a turn that waited
	counterLast  = 0xff0 // step-finish parts
)

// derived is the id of something that belongs to owner, at a moment: a pure
// function, so that history and live events agree without a table.
func derived(owner id.ID, ms int64, counter int) id.ID {
	u := owner
	binary.BigEndian.PutUint64(u[:8], uint64(ms)<<16|7<<12|uint64(counter))
	return u
}

// nth is the id of the n-th piece of owner, in owner's millisecond.
func nth(owner id.ID, n int) id.ID {
	u := owner
	low := binary.BigEndian.Uint64(u[8:])
	binary.BigEndian.PutUint64(u[8:], low&(3<<62)|(low+uint64(n))&(1<<62-1))
	return u
}

func millis(t time.Time) int64 { return t.UnixMilli() }

// chosenID reports whether a client may use s as an id with the prefix.
func chosenID(prefix, s string) bool {
	if !strings.HasPrefix(s, prefix) || len(s) > maxID {
		return false
	}
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// slug makes two words of an id, for people to tell sessions apart.
func slug(u id.ID) string {
	return adjectives[int(u[14])%len(adjectives)] + "-" + nouns[int(u[15])%len(nouns)]
}

var adjectives = [...]string{"amber", "brave", "calm", "clear", "crisp", "eager", "early", "fair", "gentle", "golden", "happy",
	"keen", "kind", "light", "lively", "lucky", "mellow", "merry", "misty", "neat", "noble", "proud", "quick", "quiet", "rapid",
	"silver", "steady", "sunny", "swift", "tidy", "vivid", "warm"}

var nouns = [...]string{"acorn", "badger", "beacon", "birch", "brook", "canyon", "cedar", "comet", "coral", "dune", "falcon",
	"fern", "fjord", "glade", "harbor", "heron", "island", "lagoon", "lantern", "maple", "meadow", "otter", "pebble", "pine",
	"prairie", "reef", "river", "sparrow", "summit", "thicket", "valley", "willow"}
