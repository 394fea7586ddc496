package claude

import "time"

const (
	// startBound is how long the CLI may take to answer its first request;
	// a loaded machine needs ten seconds.
	startBound = 60 * time.Second
	// versionBound is how long it may take to tell its version.
	versionBound = 20 * time.Second
	// interruptBound is how long an interrupted turn may take to end before
	// the CLI is stopped.
	interruptBound = 4 * time.Second
	// followBound is how long the CLI may take, once the last background
	// subagent of a turn has ended, to go on with the turn.
	followBound = 5 * time.Second
	// maxRetries is how often the CLI tries a failed model call again, with
	// growing pauses: about a minute in all.
	maxRetries = "5"
	// maxAttachment is the largest attachment in bytes; the model's own
	// bound for an image is smaller.
	maxAttachment = 20 << 20
	// maxListed and maxTurns are the largest pages of past conversations and
	// of one's turns.
	maxListed = 100
	maxTurns  = 100
	// pageBytes is how much of a transcript, in bytes, one page is made of,
	// but for the rest of its last turn.
	pageBytes = 4 << 20
	// maxCopied is the longest record in bytes that a fork takes over; pictures
	// are records of their own.
	maxCopied = 64 << 20
	// placeBound is how long a fork waits for the place where it begins, which
	// the CLI writes down a moment after it has said it; placeEvery is how
	// often it looks.
	placeBound = 5 * time.Second
	placeEvery = 100 * time.Millisecond
	// maxTranscripts is how many files are looked at.
	maxTranscripts = 20_000
	// headBytes and tailBytes are what is read of a transcript for the list.
	headBytes = 256 << 10
	tailBytes = 32 << 10
	// maxTitle is the longest title of a call in bytes.
	maxTitle = 200
	// maxTasks is how many steps of a plan are kept.
	maxTasks = 200
	// maxOffered is how many commands, subagents and MCP servers are told of.
	maxOffered = 500
	// serverAskEvery is how often the CLI is asked for an MCP server that
	// starts, maxServerAsks how often at most.
	serverAskEvery = time.Second
	maxServerAsks  = 60
	// maxCalls is how many calls of one turn are remembered at a time.
	maxCalls = 10_000
)
