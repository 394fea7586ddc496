package demo

import "time"

const (
	// termGrace is how long an interrupted command may take to end by itself.
	termGrace = 3 * time.Second
	// closeGrace is the same when the conversation is closed.
	closeGrace = 500 * time.Millisecond
	// drainBound is how long output is read after a command's end, in case a
	// process that left the group holds the pipe.
	drainBound = 250 * time.Millisecond
	// readChunk is the most output, in bytes, that becomes one frame.
	readChunk = 32 << 10
	// maxRead is the most of a file, in bytes, that `read` gives.
	maxRead = 256 << 10
	// maxDepth is how deep subagents may nest.
	maxDepth = 8
	// maxExtras is how many commands and how many MCP servers a conversation says
	// that it has.
	maxExtras = 50
	// maxSteer is how many steering messages wait between two lines.
	maxSteer = 64
	// maxStream and maxDelta bound `stream`: deltas, and bytes of one.
	maxStream = 10_000_000
	maxDelta  = 1 << 20
	// streamBatch is how many deltas `stream` hands over at once.
	streamBatch = 64
	// streamBytes is how many bytes of text it hands over at once, at most,
	// unless one delta is larger.
	streamBytes = 64 << 10
	// maxKeptText is how many bytes of text are kept of a turn, and
	// maxKeptFrames how many frames.
	maxKeptText   = 1 << 20
	maxKeptFrames = 1000
	// maxKeptLine is the largest kept turn, in bytes, that is read back.
	maxKeptLine = 16 << 20
	// pageConversations and pageTurns are a page when none is asked for.
	pageConversations = 100
	pageTurns         = 50
	// maxPause is the longest wait, in milliseconds, that a line may ask for.
	maxPause = 24 * 60 * 60 * 1000
)

// CrashStatus is the exit status of a process that ends by the crash line.
const CrashStatus = 3
