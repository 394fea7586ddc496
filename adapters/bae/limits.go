package bae

import "time"

const (
	// maxBody is the largest request body, bytes: as the protocol's own server.
	maxBody = 2 << 20
	// maxDepth is how deep JSON may nest: deeper is an attack, not a tool schema.
	maxDepth = 128
	// maxTools is how many tools a client may declare in all: the host's own bound.
	maxTools = 256
	// maxName is the longest name of a profile, key, tool or image, bytes.
	maxName = 256
	// maxDetail is the longest text in a reported event, bytes: it stays in the
	// session's summary until the next report.
	maxDetail = 8 << 10

	// pageDefault and pageMax are the items of a page: given by the protocol.
	pageDefault, pageMax = 50, 200

	// pieceBytes is how many bytes of entries a stream takes from the ring at once:
	// what it holds beside its queue while its peer does not read.
	pieceBytes = 64 << 10
	// pageBytes is how many bytes of events a page has before it ends early.
	pageBytes = 4 << 20
	// maxReplays is how many subscriptions read the log at once: each holds the
	// turn that it projects, as large as that is.
	maxReplays = 4
	// resultBytes is how many bytes of events a terminal result repeats; the
	// oldest beyond that are in the log alone.
	resultBytes = 16 << 20
	// writeTimeout is how long a peer may take no bytes before it is cut off.
	writeTimeout = 10 * time.Second
	// releaseAfter is how long the next sender waits for a finished turn's
	// result to reach a peer that does not read.
	releaseAfter = time.Second
	// maxWaiting is how many messages may queue on one session.
	maxWaiting = 256
	// requestTimeout is for everything that does not stream.
	requestTimeout = 30 * time.Second
	// drainGrace is how long streams have to end by themselves at shutdown.
	drainGrace = 2 * time.Second

	// settle is how long the gateway waits for more client calls of the same
	// message before it pauses the turn: parallel calls come within a few ms.
	settle = 20 * time.Millisecond
	// permissionTimeout is how long an approval or question of a BAE turn waits
	// for another front, in seconds, unless the profile says otherwise.
	permissionTimeout = 60
	// maxPermissionTimeout is the longest a profile may say: a day, in seconds.
	maxPermissionTimeout = 24 * 60 * 60

	// maxKeys and maxProfiles bound what the admin listener can make.
	maxKeys, maxProfiles = 10_000, 1_000
	// maxSessionKeys is how many keys one session can have, over all joins.
	maxSessionKeys = 1_000
	// maxAudits is how many refused opens are remembered, newest kept.
	maxAudits = 1_000
	// verifiedKeys is how many keys are remembered as verified, so that the
	// slow hash is computed once per key and start.
	verifiedKeys = 4096
	// usedEvery is how often a key's last use is written down.
	usedEvery = time.Minute
)

// cost is what a stored hash takes to compute: memory in KiB, and passes.
type cost struct{ memory, passes uint32 }

// settings are the limits that differ in tests, where there is no time.
type settings struct {
	// keyCost is the protocol's documented cost of client and admin keys.
	keyCost cost
	// sessionCost is that of session keys, made on every open and join, and of
	// the default keys: 192 random bits, which no hash makes safer.
	sessionCost cost
	// turnTimeout is how long a paused turn belongs to its owner once somebody
	// else wants to speak: the protocol's default.
	turnTimeout time.Duration
	// ringEvents and ringBytes are how far a subscription may fall behind
	// before it is told that it lagged. All streams of a session share them.
	ringEvents, ringBytes int
}

var defaultSettings = settings{keyCost: cost{64 << 10, 3}, sessionCost: cost{8 << 10, 1}, turnTimeout: 120 * time.Second,
	ringEvents: 4096, ringBytes: 4 << 20}
