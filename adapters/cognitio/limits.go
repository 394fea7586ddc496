package cognitio

import (
	"time"

	"github.com/polyhost/polyhost/transports/outbox"
)

const (
	// maxBody is the largest request body in bytes: a prompt with a few
	// images as data URLs.
	maxBody = 16 << 20
	// maxDepth is how deep a request body may nest: far more than any
	// operation needs, little enough for the stack.
	maxDepth = 64
	// requestTimeout ends a request that is not a stream; most take
	// milliseconds, a cold session of thousands of turns some seconds.
	requestTimeout = 30 * time.Second
	// compressLevel is the gzip level of answers: the usual trade.
	compressLevel = 5

	// heartbeatEvery is the pause after which an idle stream gets a comment;
	// proxies give up on silence after 30 s and more.
	heartbeatEvery = 10 * time.Second
	// streamWrite is how long a client may take no bytes before its stream is
	// closed.
	streamWrite = 10 * time.Second
	// streamQueue is how many bytes wait for one stream's client before it is
	// fed from its topic instead.
	streamQueue = outbox.DefaultLimit
	// retainFrames is how many frames a stream's topic keeps for clients that are
	// a little behind.
	retainFrames = 16384
	// retainBehind is what a stream's topic may keep, in bytes of memory, while a
	// client that still takes bytes is behind; one that takes none is cut.
	retainBehind = 32 << 20
	// pacifyEvery is the pause after which a waiting POST message sends a
	// blank, so that clients with a body timeout (300 s is common) stay.
	pacifyEvery = 30 * time.Second

	// maxMessages is how many messages one answer holds at most; older ones
	// are on the next page.
	maxMessages = 5000
	// turnPage is how many turns are read from the store at a time.
	turnPage = 50
	// maxParts is how many parts a prompt may have.
	maxParts = 256
	// maxID is the longest id a client may choose, in bytes.
	maxID = 128
	// maxTitle is the longest title in bytes.
	maxTitle = 4096
	// maxMeta is the largest runtime configuration or rule set that is kept
	// with a session, in bytes.
	maxMeta = 256 << 10
	// maxRules is how many permission rules a session may have: each is tried
	// for each request.
	maxRules = 1000

	// maxToolOutput is how much of a call's output metadata shows, in bytes,
	// from its end: what this protocol's own servers keep.
	maxToolOutput = 30_000
	// outputEvery is how often a running call's output is shown anew; each
	// time costs up to maxToolOutput bytes for every client.
	outputEvery = 200 * time.Millisecond

	// maxInline is the largest attachment, in bytes, that messages show.
	maxInline = 1 << 20
	// blobWithin is how long the read of one attachment may take.
	blobWithin = 5 * time.Second

	// maxFile is the largest file GET /file/content gives, in bytes.
	maxFile = 5 << 20
	// maxDirEntries bounds a directory listing.
	maxDirEntries = 10_000
	// maxWalk is how many files one search looks at.
	maxWalk = 50_000
	// defaultFound and maxFound bound the answer of a file search.
	defaultFound, maxFound = 100, 1000
	// maxLogLine is how much of a client's log message is kept, in bytes.
	maxLogLine = 4096
)
